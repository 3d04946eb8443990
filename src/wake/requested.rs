//! `wake.requested.v1`: a wake as such.

use super::fields::{Faults, Fields};
use super::json::{self, Held};
use super::payload::PayloadFault;
use super::{
    AgentId, IdempotencyKey, KeylessCause, Occurrence, OrganizationId, Payload, ProjectId, Reason,
    Wanted,
};

/// Reads a requested wake.
pub(super) fn read(fields: &Fields<'_>, faults: &mut Faults) -> Option<Wanted> {
    let organization_id = fields
        .organization_id
        .optional(OrganizationId::parse, faults)
        .value()
        .unwrap_or_else(OrganizationId::none);
    let project_id = fields.project_id.optional(ProjectId::parse, faults).value();
    let reason = fields.reason.required(Reason::parse, faults);
    let agent_profile_id = fields.agent_profile_id.required(AgentId::parse, faults);
    let key = fields.idempotency_key.optional(IdempotencyKey::parse_chosen, faults).value();
    let payload = payload(fields.payload.raw()).map_err(|fault| faults.say(fault)).ok();
    if !faults.is_empty() {
        return None;
    }
    Some(Wanted {
        organization_id,
        project_id,
        agent_profile_id: agent_profile_id?,
        reason: reason?,
        occurrence: key.map_or(Occurrence::Keyless(KeylessCause::ByDesign), Occurrence::Keyed),
        payload: payload?,
    })
}

/// The payload as its runner will read it: the value as written, or the JSON within a string. What
/// is no JSON object in the end is kept all the same; the allowance does not bind it.
///
/// # Errors
/// [`PayloadFault`] names the fields that break the contract's limits.
pub fn payload(raw: Option<&str>) -> Result<Payload, PayloadFault> {
    let Some(raw) = raw else { return Payload::read("{}") };
    match json::held(raw) {
        Held::Text(text) => Payload::read(&text),
        Held::Unstorable(_) => Payload::read(&json::embedded(raw)),
        Held::Null | Held::Other(_) => Payload::read(raw),
    }
}

#[cfg(test)]
mod tests {
    use super::super::TaskField;
    use super::*;

    fn wanted(fields: &str) -> Result<Wanted, String> {
        let body = format!(r#"{{"reason":"r","agent_profile_id":"a"{fields}}}"#);
        let mut faults = Faults::default();
        read(&Fields::find(&body).expect("an object"), &mut faults)
            .ok_or_else(|| faults.into_text())
    }

    #[test]
    fn a_payload_is_kept_as_written_or_decoded_once() {
        let named = TaskField::Named(super::super::TaskId::parse("t").unwrap());
        for (payload, text, task) in [
            ("", "{}", TaskField::Absent),
            (r#","payload":{}"#, "{}", TaskField::Absent),
            (
                ",\"payload\" : {\"task_id\" :\r\n\"t\", \"n\":1.50e+1} ",
                "{\"task_id\" :\r\n\"t\", \"n\":1.50e+1}",
                named.clone(),
            ),
            (
                r#","payload":{"task_id":"t","x":"\u0000\ud800","task_id":"t"}"#,
                r#"{"task_id":"t","x":"\u0000\ud800","task_id":"t"}"#,
                named.clone(),
            ),
            (r#","payload":"{\"task_id\":\"t\"}""#, r#"{"task_id":"t"}"#, named.clone()),
            (
                r#","payload":" {\"task_id\":\"\\u0074\"}\n""#,
                " {\"task_id\":\"\\u0074\"}\n",
                named.clone(),
            ),
            (
                r#","payload":"{\"task_id\":\"t\",\"x\":\"\u0000\ud800\"}""#,
                r#"{"task_id":"t","x":"\u0000\ud800"}"#,
                named.clone(),
            ),
            // An escape of a NUL makes the task unusable, never the object no object.
            (
                r#","payload":"{\"task_id\":\"\u0000\"}""#,
                r#"{"task_id":"\u0000"}"#,
                TaskField::Unusable,
            ),
            (r#","payload":{},"payload":{"task_id":"t"}"#, r#"{"task_id":"t"}"#, named),
            // Kept verbatim: no object, so it names nothing.
            (r#","payload":null"#, "null", TaskField::Absent),
            (r#","payload":7"#, "7", TaskField::Absent),
            (r#","payload":[ {"task_id":"t"}]"#, r#"[ {"task_id":"t"}]"#, TaskField::Absent),
            (r#","payload":"""#, "", TaskField::Absent),
            (r#","payload":"not json\u0000""#, "not json\\u0000", TaskField::Absent),
            (r#","payload":"\"{}\"""#, r#""{}""#, TaskField::Absent),
        ] {
            let read = wanted(payload).unwrap_or_else(|fault| panic!("{payload}: {fault}")).payload;
            assert_eq!((read.text(), read.task()), (text, &task), "{payload}");
        }
    }

    #[test]
    fn absent_null_and_empty_are_none() {
        for fields in [
            "",
            r#","organization_id":null,"project_id":null,"idempotency_key":null"#,
            r#","organization_id":"","project_id":"","idempotency_key":"""#,
        ] {
            let wanted = wanted(fields).unwrap_or_else(|fault| panic!("{fields}: {fault}"));
            assert_eq!(wanted.organization_id, OrganizationId::none());
            assert_eq!(wanted.project_id, None);
            assert_eq!(wanted.occurrence, Occurrence::Keyless(KeylessCause::ByDesign));
        }
        let wanted = wanted(r#","organization_id":"o","project_id":"p","idempotency_key":"k:%""#);
        let wanted = wanted.unwrap_or_else(|fault| panic!("{fault}"));
        assert_eq!(wanted.organization_id.as_str(), "o");
        assert_eq!(wanted.project_id.as_ref().map(ProjectId::as_str), Some("p"));
        assert_eq!(wanted.occurrence.key().map(IdempotencyKey::as_str), Some("k:%"));
        assert_eq!((wanted.reason.as_str(), wanted.agent_profile_id.as_str()), ("r", "a"));
    }
}
