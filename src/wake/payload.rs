//! The payload a runner will read, and the three fields wakegate reads from it.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use super::json::{self, Held};
use super::{
    ActorId, ActorType, AgentId, IdFault, OrganizationId, ProjectId, TASK_ASSIGNED, TaskId,
};

/// A wake's payload. The fields beside the text are what [`Payload::read`] reads from it, so what
/// the database's columns say is what the payload says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload {
    text: Arc<str>,
    task: TaskField,
    actor_type: Option<ActorType>,
    actor_id: Option<ActorId>,
}

/// What a payload's `task_id` says.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TaskField {
    /// A non-empty JSON string that can be stored.
    Named(TaskId),
    /// Absent, null, `""`, or the payload is no JSON object.
    Absent,
    /// Present but no usable string: it never merges, and for the allowance it is unattributed.
    Unusable,
}

impl TaskField {
    /// The task, where there is one.
    #[must_use]
    pub fn task(&self) -> Option<&TaskId> {
        match self {
            Self::Named(task) => Some(task),
            Self::Absent | Self::Unusable => None,
        }
    }
}

/// Fields of a payload that are over the limit of [`ID_BYTES_MAX`](super::ID_BYTES_MAX), each with its fault. Cutting
/// them off would make two tasks one, and indexes cannot hold them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct PayloadFault {
    faults: Vec<(&'static str, IdFault)>,
}

impl PayloadFault {
    /// Name and fault of each field, in the order `task_id`, `actor_type`, `actor_id`.
    #[must_use]
    pub fn fields(&self) -> &[(&'static str, IdFault)] {
        &self.faults
    }
}

impl fmt::Display for PayloadFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, (name, fault)) in self.faults.iter().enumerate() {
            let separator = if position == 0 { "" } else { "; " };
            write!(f, "{separator}`payload.{name}` {fault}")?;
        }
        Ok(())
    }
}

/// Who caused an assignment, as a mutation says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Actor<'a> {
    /// A person or an administrative caller.
    User,
    /// An agent.
    Agent(&'a AgentId),
}

impl Payload {
    /// Reads the fields from a payload's text, whatever it is: what is no JSON object has none.
    ///
    /// # Errors
    /// [`PayloadFault`] where a field is a string over the limit for ids.
    pub fn read(text: &str) -> Result<Self, PayloadFault> {
        let [task, actor_type, actor_id] =
            json::members(text, &["task_id", "actor_type", "actor_id"]).unwrap_or_default();
        let mut faults = Vec::new();
        let payload = Self {
            text: Arc::from(text),
            task: match string(task) {
                StringField::Absent => TaskField::Absent,
                StringField::Unusable => TaskField::Unusable,
                StringField::Text(text) => noted("task_id", TaskId::parse(&text), &mut faults)
                    .map_or(TaskField::Unusable, TaskField::Named),
            },
            actor_type: string(actor_type)
                .text()
                .and_then(|text| noted("actor_type", ActorType::parse(&text), &mut faults)),
            actor_id: string(actor_id)
                .text()
                .and_then(|text| noted("actor_id", ActorId::parse(&text), &mut faults)),
        };
        if faults.is_empty() { Ok(payload) } else { Err(PayloadFault { faults }) }
    }

    /// The payload of the wake that a mutation derives. It carries the actor, without which the
    /// allowance would not bind (AC-OFFICE-ASSIGN-RATE-001.13).
    #[must_use]
    #[expect(clippy::missing_panics_doc, reason = "a structure of strings is JSON")]
    pub fn of_assignment(
        task_id: &TaskId,
        organization_id: &OrganizationId,
        project_id: Option<&ProjectId>,
        actor: Actor<'_>,
    ) -> Self {
        let (actor_type, actor_id) = match actor {
            Actor::User => (ActorType::user(), None),
            Actor::Agent(agent) => (ActorType::agent(), Some(ActorId::from(agent))),
        };
        let text = serde_json::to_string(&AssignmentText {
            reason: TASK_ASSIGNED,
            task_id,
            organization_id: Some(organization_id).filter(|id| !id.as_str().is_empty()),
            project_id,
            actor_type: &actor_type,
            actor_id: actor_id.as_ref(),
        })
        .expect("a structure of strings is JSON");
        Self {
            text: Arc::from(text),
            task: TaskField::Named(task_id.clone()),
            actor_type: Some(actor_type),
            actor_id,
        }
    }

    /// The text, byte for byte as it will be stored.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What `task_id` says.
    #[must_use]
    pub fn task(&self) -> &TaskField {
        &self.task
    }

    /// What `actor_type` says, where that is a usable, non-empty string.
    #[must_use]
    pub fn actor_type(&self) -> Option<&ActorType> {
        self.actor_type.as_ref()
    }

    /// What `actor_id` says, where that is a usable, non-empty string.
    #[must_use]
    pub fn actor_id(&self) -> Option<&ActorId> {
        self.actor_id.as_ref()
    }

    /// Whether the actor type is exactly `agent` (AC-OFFICE-ASSIGN-RATE-001.1).
    #[must_use]
    pub fn is_agent_initiated(&self) -> bool {
        self.actor_type.as_ref().is_some_and(ActorType::is_agent)
    }
}

/// The derived payload; the order of its fields is contract.
#[derive(Serialize)]
struct AssignmentText<'a> {
    reason: &'a str,
    task_id: &'a TaskId,
    #[serde(skip_serializing_if = "Option::is_none")]
    organization_id: Option<&'a OrganizationId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    project_id: Option<&'a ProjectId>,
    actor_type: &'a ActorType,
    #[serde(skip_serializing_if = "Option::is_none")]
    actor_id: Option<&'a ActorId>,
}

/// A field that is meant to be a string.
enum StringField<'a> {
    Absent,
    Text(Cow<'a, str>),
    Unusable,
}

impl<'a> StringField<'a> {
    fn text(self) -> Option<Cow<'a, str>> {
        match self {
            Self::Text(text) => Some(text),
            Self::Absent | Self::Unusable => None,
        }
    }
}

fn string(raw: Option<&str>) -> StringField<'_> {
    match raw.map(json::held) {
        None | Some(Held::Null) => StringField::Absent,
        Some(Held::Text(text)) if text.is_empty() => StringField::Absent,
        Some(Held::Text(text)) => StringField::Text(text),
        Some(Held::Unstorable(_) | Held::Other(_)) => StringField::Unusable,
    }
}

fn noted<T>(
    name: &'static str,
    parsed: Result<T, IdFault>,
    faults: &mut Vec<(&'static str, IdFault)>,
) -> Option<T> {
    parsed.map_err(|fault| faults.push((name, fault))).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    /// Task (`None` where it is no usable string), actor type and actor id.
    type Columns = (TaskField, Option<String>, Option<String>);

    fn columns(text: &str) -> Result<Columns, String> {
        let payload = Payload::read(text).map_err(|fault| fault.to_string())?;
        assert_eq!(payload.text(), text, "kept byte for byte");
        let actor_type = payload.actor_type().map(ToString::to_string);
        Ok((payload.task().clone(), actor_type, payload.actor_id().map(ToString::to_string)))
    }

    fn task(id: &str) -> TaskField {
        TaskField::Named(TaskId::parse(id).unwrap())
    }

    #[test]
    fn the_task_is_named_absent_or_unusable() {
        for (text, expected) in [
            (r#"{"task_id":"t"}"#, task("t")),
            (r#"{"\u0074ask_id":"t"}"#, task("t")),
            (r#"{"task_id":"\u0074\ud83d\ude00"}"#, task("t😀")),
            (r#"{"task_id":1,"task_id":"t"}"#, task("t")),
            (r#"{"task_id":"t","\ud800":"\u0000","\u0000":1e99999}"#, task("t")),
            (r#"{"task_id":" "}"#, task(" ")),
            (r#"{"task_id":"\\u0000"}"#, task("\\u0000")),
            ("{}", TaskField::Absent),
            (r#"{"task_id":null}"#, TaskField::Absent),
            (r#"{"task_id":""}"#, TaskField::Absent),
            (r#"{"task_id":"t","task_id":null}"#, TaskField::Absent),
            (r#"{"Task_Id":"t","x":{"task_id":"t"}}"#, TaskField::Absent),
            ("", TaskField::Absent),
            ("null", TaskField::Absent),
            (r#""{\"task_id\":\"t\"}""#, TaskField::Absent),
            (r#"[{"task_id":"t"}]"#, TaskField::Absent),
            (r#"{"task_id":"t"} x"#, TaskField::Absent),
            (r#"{"task_id":"t""#, TaskField::Absent),
            (r#"{"task_id":42}"#, TaskField::Unusable),
            (r#"{"task_id":false}"#, TaskField::Unusable),
            (r#"{"task_id":[]}"#, TaskField::Unusable),
            (r#"{"task_id":{"task_id":"t"}}"#, TaskField::Unusable),
            (r#"{"task_id":"a\u0000"}"#, TaskField::Unusable),
            (r#"{"task_id":"\ud800"}"#, TaskField::Unusable),
            (r#"{"task_id":"t","task_id":7}"#, TaskField::Unusable),
        ] {
            assert_eq!(columns(text), Ok((expected, None, None)), "{text}");
        }
    }

    #[test]
    fn the_actor_is_what_usable_strings_say() {
        let is = |text: &str| Some(text.to_owned());
        for (text, actor_type, actor_id) in [
            (r#"{"actor_type":"agent","actor_id":"a"}"#, is("agent"), is("a")),
            (r#"{"actor_type":"user"}"#, is("user"), None),
            (r#"{"actor_type":"\u0061gent"}"#, is("agent"), None),
            (r#"{"actor_type":"user","actor_type":"agent"}"#, is("agent"), None),
            (r#"{"actor_type":"Agent","actor_id":""}"#, is("Agent"), None),
            (r#"{"actor_type":"agent\u0000","actor_id":"\udfff"}"#, None, None),
            (r#"{"actor_type":["agent"],"actor_id":1}"#, None, None),
            (r#"{"actor_type":null,"actor_id":null}"#, None, None),
        ] {
            let agent = actor_type.as_deref() == Some("agent");
            assert_eq!(columns(text), Ok((TaskField::Absent, actor_type, actor_id)), "{text}");
            assert_eq!(Payload::read(text).unwrap().is_agent_initiated(), agent, "{text}");
        }
    }

    #[test]
    fn every_field_over_256_bytes_is_named() {
        let (fits, long) = ("x".repeat(256), "é".repeat(129));
        let fits = format!(r#"{{"task_id":"{fits}","actor_type":"{fits}","actor_id":"{fits}"}}"#);
        assert!(columns(&fits).is_ok());
        let text = format!(r#"{{"actor_id":"{long}","actor_type":"a","task_id":"{long}"}}"#);
        let fault = "`payload.task_id` holds 258 bytes, 256 are allowed; \
                     `payload.actor_id` holds 258 bytes, 256 are allowed";
        assert_eq!(columns(&text), Err(fault.to_owned()));
        let fault = Payload::read(&format!(r#"{{"actor_type":"{long}"}}"#)).unwrap_err();
        assert_eq!(
            fault.fields(),
            [("actor_type", IdFault::TooLong { bytes: 258, bytes_max: 256 })]
        );
    }

    #[test]
    fn nothing_beside_the_fields_hides_them() {
        for (open, inner, close) in [("[", "", "]"), (r#"{"":"#, "0", "}")] {
            let deep = format!("{}{inner}{}", open.repeat(100_000), close.repeat(100_000));
            let text = format!(
                r#"{{"x":{deep},"task_id":"t","y":{deep},"actor_type":"agent","z":-1{}e9}}"#,
                "0".repeat(100_000)
            );
            assert_eq!(columns(&text), Ok((task("t"), Some("agent".to_owned()), None)));
        }
    }

    #[test]
    fn a_derived_payload_has_the_contracts_order_and_reads_as_what_it_was_made_of() {
        let task = |id| TaskId::parse(id).unwrap();
        let organization = |id| OrganizationId::parse(id).unwrap();
        let (project, agent) =
            (ProjectId::parse("p").unwrap(), AgentId::parse("a\"\u{1}").unwrap());
        for (payload, text) in [
            (
                Payload::of_assignment(&task("t"), &organization(""), None, Actor::User),
                r#"{"reason":"task_assigned","task_id":"t","actor_type":"user"}"#,
            ),
            (
                Payload::of_assignment(
                    &task("t\u{202e}\n"),
                    &organization("o"),
                    Some(&project),
                    Actor::Agent(&agent),
                ),
                "{\"reason\":\"task_assigned\",\"task_id\":\"t\u{202e}\\n\",\
                 \"organization_id\":\"o\",\"project_id\":\"p\",\
                 \"actor_type\":\"agent\",\"actor_id\":\"a\\\"\\u0001\"}",
            ),
        ] {
            assert_eq!(payload.text(), text);
            assert_eq!(Payload::read(text), Ok(payload));
        }
    }

    /// JSON text of objects whose members collide with the fields, with duplicates and escapes.
    fn objects() -> impl Strategy<Value = String> {
        let key = prop_oneof![
            4 => prop::sample::select(vec![
                r#""task_id""#, r#""actor_type""#, r#""actor_id""#, r#""t\u0061sk_id""#, r#""x""#,
            ]).prop_map(str::to_owned),
            1 => any::<String>().prop_map(|key| Value::from(key).to_string()),
        ];
        let leaf = prop_oneof![
            3 => any::<String>().prop_map(|text| Value::from(text).to_string()),
            1 => "[a-c]{250,260}".prop_map(|text| Value::from(text).to_string()),
            3 => prop::sample::select(vec![
                r#""agent""#, r#""t""#, r#""""#, "null", "0", "-1.5e3", "true", r#""\u0000""#,
                r#""\ud83d\ude00""#, r#""\u0061""#, r#"{"task_id":"inner"}"#, "[[],{}]",
            ]).prop_map(str::to_owned),
        ];
        let space = prop::sample::select(vec!["", "", " ", "\n\t", "\r "]);
        prop::collection::vec((key, space, leaf), 0..8).prop_map(|members| {
            let members: Vec<String> = members
                .into_iter()
                .map(|(key, space, leaf)| format!("{space}{key}{space}:{space}{leaf}{space}"))
                .collect();
            format!("{{{}}}", members.join(","))
        })
    }

    /// What a tree says, by rules written down once more.
    fn columns_of(value: &Value) -> Option<Columns> {
        let usable = |name: &str| match value.get(name) {
            Some(Value::String(text)) if text.len() > 256 && !text.contains('\0') => Err(()),
            Some(Value::String(text)) if text.contains('\0') => Ok(None),
            Some(Value::String(text)) if !text.is_empty() => Ok(Some(text.clone())),
            _ => Ok(None),
        };
        let field = match (value.get("task_id"), usable("task_id").ok()?) {
            (_, Some(id)) => task(&id),
            (None | Some(Value::Null), None) => TaskField::Absent,
            (Some(Value::String(text)), None) if text.is_empty() => TaskField::Absent,
            (Some(_), None) => TaskField::Unusable,
        };
        Some((field, usable("actor_type").ok()?, usable("actor_id").ok()?))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn the_columns_say_what_the_payload_says(text in objects()) {
            let value: Value = serde_json::from_str(&text).expect("the strategy makes JSON");
            prop_assert_eq!(columns(&text).ok(), columns_of(&value), "{}", text);
        }
    }
}
