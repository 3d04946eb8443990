//! The subject of a delivery, `wakes.<partition>.<producer>.<organization>.<task>`, and whether a
//! body keeps to it: permissions on subjects must hold for bodies, and a task must keep its lane.

use std::borrow::Cow;

use super::fields::{Faults, quoted};
use super::token::{ABSENT, TOKEN_BYTES_MAX, token};
use super::{OrganizationId, TaskId};

/// The tokens of a subject that decoding reads.
#[derive(Debug, Clone, Copy)]
pub(super) struct Subject<'a> {
    whole: &'a str,
    well_formed: bool,
    /// As published; [`ABSENT`] where there is none.
    pub(super) producer: &'a str,
    organization: &'a str,
    task: &'a str,
}

impl<'a> Subject<'a> {
    /// Splits a subject. One that is not of the form has what tokens it has; [`Self::keeps`] then
    /// says so.
    pub(super) fn split(whole: &'a str) -> Self {
        let mut tokens = whole.split('.');
        let root = tokens.next().unwrap_or_default();
        let mut next = || tokens.next().unwrap_or_default();
        let [partition, producer, organization, task] = [next(), next(), next(), next()];
        let complete = [partition, producer, organization, task].iter().all(|t| !t.is_empty());
        let well_formed = root == "wakes" && complete && tokens.next().is_none();
        let or_absent = |token: &'a str| if token.is_empty() { ABSENT } else { token };
        Self {
            whole,
            well_formed,
            producer: or_absent(producer),
            organization: or_absent(organization),
            task: or_absent(task),
        }
    }

    /// The organization's token, fit for another subject: a publisher chose it, so what our
    /// encoding cannot produce is encoded.
    pub(super) fn organization_token(&self) -> Cow<'a, str> {
        if is_token(self.organization) {
            Cow::Borrowed(self.organization)
        } else {
            token(self.organization)
        }
    }

    /// Notes where the subject is not of the form, or names another organization or task.
    pub(super) fn check(
        &self,
        organization_id: &OrganizationId,
        task_id: Option<&TaskId>,
        faults: &mut Faults,
    ) {
        if !self.well_formed {
            return faults.say(format_args!(
                "the subject {} is not wakes.<partition>.<producer>.<organization>.<task>",
                quoted(self.whole)
            ));
        }
        let task_id = task_id.map_or("", TaskId::as_str);
        for (name, found, id) in [
            ("organization", self.organization, organization_id.as_str()),
            ("task", self.task, task_id),
        ] {
            let wanted = token(id);
            if found != wanted {
                faults.say(format_args!(
                    "the {name} token of the subject is {}, the body's {name} {} has {}",
                    quoted(found),
                    quoted(id),
                    quoted(&wanted),
                ));
            }
        }
    }
}

/// Whether [`token`] gives this for some id.
fn is_token(text: &str) -> bool {
    let hash = |digits: &str| {
        digits.len() == 32
            && digits.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    };
    if text == ABSENT || text.strip_prefix("=h").is_some_and(hash) {
        return true;
    }
    text.len() <= TOKEN_BYTES_MAX && decoded(text).is_some_and(|id| token(&id) == text)
}

/// The id whose escaped token this is.
fn decoded(text: &str) -> Option<String> {
    let mut id = Vec::with_capacity(text.len());
    let mut parts = text.split('=');
    id.extend_from_slice(parts.next().unwrap_or_default().as_bytes());
    for part in parts {
        id.push(u8::from_str_radix(part.get(..2)?, 16).ok()?);
        id.extend_from_slice(&part.as_bytes()[2..]);
    }
    String::from_utf8(id).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_organization_token_that_no_id_has_is_encoded() {
        let hash = format!("=h{}", "0f".repeat(16));
        for (subject, expected) in [
            ("wakes.0.p.org_1.t", "org_1"),
            ("wakes.0.p.-.t", "-"),
            ("wakes.0.p.=2D.t", "=2D"),
            ("wakes.0.p.=C3=A9.t", "=C3=A9"),
            (&format!("wakes.0.p.{hash}.t"), &hash),
            ("wakes.0.p", "-"),
            ("", "-"),
            ("wakes.0.p..t", "-"),
            ("wakes.0.p.*.t", "=2A"),
            ("wakes.0.p.>.t", "=3E"),
            ("wakes.0.p.a b.t", "a=20b"),
            ("wakes.0.p.=61.t", "=3D61"), // `a` stands for itself
            ("wakes.0.p.=c3=a9.t", "=3Dc3=3Da9"),
            ("wakes.0.p.=FF.t", "=3DFF"), // no text
            ("wakes.0.p.=+1.t", "=3D=2B1"),
            ("wakes.0.p.=.t", "=3D"),
            ("wakes.0.p.é.t", "=C3=A9"),
        ] {
            assert_eq!(Subject::split(subject).organization_token(), expected, "{subject:?}");
        }
    }

    proptest! {
        #[test]
        fn every_token_is_recognised_and_nothing_unsafe_is(id in any::<String>(), text in ".{0,80}") {
            prop_assert!(is_token(&token(&id)), "{}", token(&id));
            let subject = format!("wakes.0.p.{text}.t");
            let safe = Subject::split(&subject).organization_token().into_owned();
            prop_assert!(!safe.is_empty() && safe.len() <= TOKEN_BYTES_MAX, "{}", safe);
            prop_assert!(
                safe.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-=".contains(&b)), "{}", safe
            );
        }
    }
}
