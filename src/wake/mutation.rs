//! `task.mutated.v1`: the wake that a task mutation derives.

use super::decode::{NoWake, NoWakeCause};
use super::fields::{Faults, Fields, Said};
use super::payload::Actor;
use super::{
    AgentId, IdempotencyKey, KeylessCause, Occurrence, OrganizationId, Payload, ProjectId, Reason,
    TASK_ASSIGNED, TaskId, Wanted,
};

/// What a well-formed mutation asks for.
pub(super) enum Mutation {
    /// Its new assignee is to be woken.
    Wanted(Wanted),
    /// Nobody is.
    NoWake(NoWake),
}

/// Reads a mutation. A faulty field is a fault also where nobody would be woken: a publisher that
/// sends one should learn of it before the mutation that matters.
pub(super) fn read(fields: &Fields<'_>, faults: &mut Faults) -> Option<Mutation> {
    let organization_id = fields
        .organization_id
        .optional(OrganizationId::parse, faults)
        .value()
        .unwrap_or_else(OrganizationId::none);
    let project_id = fields.project_id.optional(ProjectId::parse, faults).value();
    let task_id = fields.task_id.required(TaskId::parse, faults);
    let acting_agent_id = fields.acting_agent_id.optional(AgentId::parse, faults).value();
    let new_assignee = fields.new_assignee.optional(AgentId::parse, faults);
    let generation = fields.assignment_generation.generation(faults);
    let task_id = task_id.filter(|_| faults.is_empty())?;

    let cause = match new_assignee {
        Said::Value(agent_profile_id) => {
            return Some(Mutation::Wanted(Wanted {
                reason: Reason::parse(TASK_ASSIGNED).expect("a constant within the limits"),
                occurrence: occurrence(&task_id, &agent_profile_id, &generation),
                payload: Payload::of_assignment(
                    &task_id,
                    &organization_id,
                    project_id.as_ref(),
                    acting_agent_id.as_ref().map_or(Actor::User, Actor::Agent),
                ),
                organization_id,
                project_id,
                agent_profile_id,
            }));
        }
        Said::Nothing => NoWakeCause::AssigneeUnchanged,
        Said::Empty => NoWakeCause::Unassigned,
        Said::Fault => return None,
    };
    Some(Mutation::NoWake(NoWake { cause, organization_id, project_id, task_id, acting_agent_id }))
}

/// An assignment's generation makes its occurrence; 0 is a generation.
fn occurrence(task: &TaskId, agent: &AgentId, generation: &Said<i64>) -> Occurrence {
    let Said::Value(generation) = generation else {
        return Occurrence::Keyless(KeylessCause::Unresolved);
    };
    let key = format!(
        "{TASK_ASSIGNED}:{}:{}:{generation}",
        escaped(task.as_str()),
        escaped(agent.as_str()),
    );
    Occurrence::Keyed(
        IdempotencyKey::parse(&key).expect("DERIVED_KEY_BYTES_MAX has room for any two valid ids"),
    )
}

/// An id in which no separator is left, so that no two assignments share a key.
pub(crate) fn escaped(id: &str) -> String {
    id.replace('%', "%25").replace(':', "%3A")
}

#[cfg(test)]
mod tests {
    use super::super::DERIVED_KEY_BYTES_MAX;
    use super::*;

    fn mutation(body: &str) -> Result<Mutation, String> {
        let mut faults = Faults::default();
        read(&Fields::find(body).expect("an object"), &mut faults).ok_or_else(|| faults.into_text())
    }

    fn wanted(body: &str) -> Wanted {
        match mutation(body) {
            Ok(Mutation::Wanted(wanted)) => wanted,
            Ok(Mutation::NoWake(no_wake)) => panic!("{body}: {no_wake:?}"),
            Err(faults) => panic!("{body}: {faults}"),
        }
    }

    #[test]
    fn the_key_names_task_agent_and_generation_without_ambiguity() {
        for (task, agent, generation, key) in [
            ("t", "a", "1", Some("task_assigned:t:a:1")),
            ("t", "a", "0", Some("task_assigned:t:a:0")),
            ("t", "a", "9223372036854775807", Some("task_assigned:t:a:9223372036854775807")),
            ("t:a", "b", "1", Some("task_assigned:t%3Aa:b:1")),
            ("t", "a:b", "1", Some("task_assigned:t:a%3Ab:1")),
            ("t%3A", "%", "1", Some("task_assigned:t%253A:%25:1")),
            ("é ", "*", "1", Some("task_assigned:é :*:1")),
            ("t", "a", "null", None),
        ] {
            let body = format!(
                r#"{{"task_id":"{task}","new_assignee_agent_profile_id":"{agent}",
                    "assignment_generation":{generation}}}"#
            );
            let occurrence = wanted(&body).occurrence;
            assert_eq!(occurrence.key().map(IdempotencyKey::as_str), key, "{body}");
            if key.is_none() {
                assert_eq!(occurrence, Occurrence::Keyless(KeylessCause::Unresolved));
            }
        }
        let absent = wanted(r#"{"task_id":"t","new_assignee_agent_profile_id":"a"}"#);
        assert_eq!(absent.occurrence, Occurrence::Keyless(KeylessCause::Unresolved));
    }

    #[test]
    fn a_derived_key_is_never_too_long() {
        let (task, agent) = (":".repeat(256), "%".repeat(256));
        let body = format!(
            r#"{{"task_id":"{task}","new_assignee_agent_profile_id":"{agent}",
                "assignment_generation":{}}}"#,
            i64::MAX
        );
        let occurrence = wanted(&body).occurrence;
        assert_eq!(occurrence.key().expect("a key").as_str().len(), DERIVED_KEY_BYTES_MAX);
    }

    #[test]
    fn the_actor_is_the_acting_agent_or_else_a_user() {
        for (acting, actor_type, actor_id) in [
            ("", "user", None),
            (r#""acting_agent_id":null,"#, "user", None),
            (r#""acting_agent_id":"","#, "user", None),
            (r#""acting_agent_id":"b","#, "agent", Some("b")),
        ] {
            let body = format!(
                r#"{{{acting}"organization_id":"o","project_id":"p","task_id":"t",
                    "new_assignee_agent_profile_id":"a"}}"#
            );
            let wanted = wanted(&body);
            let payload = &wanted.payload;
            assert_eq!(wanted.reason.as_str(), "task_assigned");
            assert_eq!(wanted.agent_profile_id.as_str(), "a");
            assert_eq!(wanted.organization_id.as_str(), "o");
            assert_eq!(wanted.project_id.as_ref().map(ProjectId::as_str), Some("p"));
            assert_eq!(payload.task().task().map(TaskId::as_str), Some("t"));
            assert_eq!(payload.actor_type().map(ToString::to_string).as_deref(), Some(actor_type));
            assert_eq!(payload.actor_id().map(ToString::to_string).as_deref(), actor_id);
            assert_eq!(payload.is_agent_initiated(), actor_id.is_some());
        }
    }

    #[test]
    fn an_assignee_that_did_not_change_or_went_wakes_nobody() {
        for (assignee, cause) in [
            ("", NoWakeCause::AssigneeUnchanged),
            (r#""new_assignee_agent_profile_id":null,"#, NoWakeCause::AssigneeUnchanged),
            (r#""new_assignee_agent_profile_id":"","#, NoWakeCause::Unassigned),
        ] {
            let body = format!(r#"{{{assignee}"task_id":"t","acting_agent_id":"b"}}"#);
            match mutation(&body) {
                Ok(Mutation::NoWake(no_wake)) => {
                    let expected = NoWake {
                        cause,
                        organization_id: OrganizationId::none(),
                        project_id: None,
                        task_id: TaskId::parse("t").unwrap(),
                        acting_agent_id: Some(AgentId::parse("b").unwrap()),
                    };
                    assert_eq!(no_wake, expected);
                }
                _ => panic!("{body} wakes nobody"),
            }
        }
    }

    #[test]
    fn a_fault_is_a_fault_also_where_nobody_would_be_woken() {
        for (body, faults) in [
            ("{}", "`task_id` is absent"),
            (
                r#"{"task_id":"t","assignment_generation":-1}"#,
                "`assignment_generation` is no integer from 0 to 9223372036854775807 in digits alone",
            ),
            (
                r#"{"task_id":"t","new_assignee_agent_profile_id":"","acting_agent_id":[]}"#,
                "`acting_agent_id` is an array, a string is wanted",
            ),
        ] {
            assert_eq!(mutation(body).err().as_deref(), Some(faults), "{body}");
        }
    }
}
