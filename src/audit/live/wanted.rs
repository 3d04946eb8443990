//! Which events of the audit stream a reader wants.

use super::LiveEvent;
use crate::audit::AuditClass;
use crate::wake::token::token;

/// What is wanted; nothing said is everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Classes.
    pub classes: Vec<AuditClass>,
    /// Reasons, each a token.
    pub reasons: Vec<String>,
    /// Whose.
    pub organization: Option<String>,
    /// Of this task.
    pub task: Option<String>,
}

impl Wanted {
    /// The subjects that hold all of it; none is in two of them, which the server would not take.
    #[must_use]
    pub fn subjects(&self) -> Vec<String> {
        let organization = self.organization.as_deref().map_or("*".into(), token);
        let mut subjects = Vec::new();
        for class in any(self.classes.iter().map(|class| class.as_str())) {
            for reason in any(self.reasons.iter().map(String::as_str)) {
                let subject = format!("wake-audit.{class}.{reason}.{organization}");
                if !subjects.contains(&subject) {
                    subjects.push(subject);
                }
            }
        }
        subjects
    }

    /// Whether the server is asked for every event, so that a sequence that is missing was dropped.
    pub(super) fn is_everything(&self) -> bool {
        self.classes.is_empty() && self.reasons.is_empty() && self.organization.is_none()
    }

    /// Whether an event is wanted, by what its record says where it says it: a token may be a hash,
    /// and anybody may have published there whom the server lets.
    #[must_use]
    pub fn takes(&self, event: &LiveEvent) -> bool {
        let says = |name: &str| event.record.get(name).and_then(serde_json::Value::as_str);
        let reason = says("degraded_reason").or_else(|| says("reason"));
        let outcome = match event.token(1) {
            // A degraded admission is one.
            "degraded" => Some("queued"),
            // Lost wakes have no outcome.
            "lost" => None,
            class => Some(class),
        };
        let class = self.classes.is_empty()
            || self.classes.iter().any(|class| class.as_str() == event.token(1))
                && outcome.is_none_or(|outcome| says("outcome").is_none_or(|says| says == outcome));
        let reason = self.reasons.is_empty()
            || reason.is_none_or(|reason| self.reasons.iter().any(|wanted| wanted == reason));
        // A body that cannot be read names no organization, and its event has the subject's token.
        let organization = self.organization.as_ref().is_none_or(|wanted| {
            says("organization_id").is_none_or(|organization| organization == wanted)
        });
        let task = self.task.as_ref().is_none_or(|wanted| says("task_id") == Some(wanted.as_str()));
        class && reason && organization && task
    }
}

/// Each of these, or `*` where there is none.
fn any<'a>(tokens: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let tokens: Vec<&str> = tokens.collect();
    if tokens.is_empty() { vec!["*"] } else { tokens }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::wake::UtcMicros;

    fn event(subject: &str, record: Value) -> LiveEvent {
        LiveEvent {
            sequence: 1,
            at: UtcMicros::default(),
            subject: subject.to_owned(),
            message_id: None,
            record,
        }
    }

    #[test]
    fn subjects_name_what_can_be_named_and_each_once() {
        let wanted =
            |classes: &[AuditClass], reasons: &[&str], organization: Option<&str>| Wanted {
                classes: classes.to_vec(),
                reasons: reasons.iter().map(|&reason| reason.to_owned()).collect(),
                organization: organization.map(str::to_owned),
                task: Some("t".to_owned()),
            };
        for (wanted, subjects) in [
            (wanted(&[], &[], None), &["wake-audit.*.*.*"][..]),
            (wanted(&[], &[], Some("")), &["wake-audit.*.*.-"]),
            (wanted(&[], &["not_json"], Some("a.b")), &["wake-audit.*.not_json.a=2Eb"]),
            (
                wanted(&[AuditClass::Refused, AuditClass::Lost], &["a", "a", "b"], None),
                &[
                    "wake-audit.refused.a.*",
                    "wake-audit.refused.b.*",
                    "wake-audit.lost.a.*",
                    "wake-audit.lost.b.*",
                ],
            ),
        ] {
            assert_eq!(wanted.subjects(), subjects);
        }
    }

    #[test]
    fn the_record_has_the_last_word_where_it_says_something() {
        let refused = |organization: &str, task: &str| {
            event(
                "wake-audit.refused.agent_stopped.acme",
                json!({ "outcome": "refused", "reason": "agent_stopped",
                        "organization_id": organization, "task_id": task }),
            )
        };
        let unreadable =
            event("wake-audit.rejected.not_json.acme", json!({ "outcome": "rejected" }));
        let degraded = event(
            "wake-audit.degraded.task_unattributed.acme",
            json!({ "outcome": "queued", "degraded_reason": "task_unattributed",
                    "organization_id": "acme" }),
        );
        let lost = event("wake-audit.lost.removed.-", json!({ "wakes": 3 }));
        let of = |organization: &str| Wanted {
            organization: Some(organization.to_owned()),
            ..Wanted::default()
        };
        let task = Wanted { task: Some("t1".to_owned()), ..Wanted::default() };
        let class = |class| Wanted { classes: vec![class], ..Wanted::default() };
        let reason =
            |reason: &str| Wanted { reasons: vec![reason.to_owned()], ..Wanted::default() };
        for (wanted, event, takes) in [
            (Wanted::default(), refused("acme", "t1"), true),
            (Wanted::default(), lost.clone(), true),
            (of("acme"), refused("acme", "t1"), true),
            (of("acme"), refused("other", "t1"), false),
            (of("acme"), unreadable.clone(), true),
            (task.clone(), refused("acme", "t1"), true),
            (task.clone(), refused("acme", "t2"), false),
            (task.clone(), unreadable.clone(), false),
            (task, lost.clone(), false),
            (class(AuditClass::Degraded), degraded.clone(), true),
            (class(AuditClass::Degraded), unreadable.clone(), false),
            (class(AuditClass::Lost), lost, true),
            (
                class(AuditClass::Refused),
                event("wake-audit.refused.x.y", json!({ "outcome": "queued" })),
                false,
            ),
            (reason("task_unattributed"), degraded, true),
            (reason("not_json"), refused("acme", "t1"), false),
        ] {
            assert_eq!(wanted.takes(&event), takes, "{wanted:?} {event:?}");
        }
    }
}
