//! Hostile and malformed events: each costs only itself, and its fault says what to mend.

mod any;
mod ids;
mod malformed;

use std::sync::Arc;

use rand::distr::{Alphanumeric, SampleString as _};
use rand::{SeedableRng as _, rngs::StdRng};
use wakegate::wake::Wake;
use wakegate::wake::decode::{Content, Event, Message, RejectReason, decode};

use crate::messages::object;

const MUTATED: [(&str, Option<&str>); 7] = [
    ("type", Some(r#""task.mutated.v1""#)),
    ("organization_id", Some(r#""org""#)),
    ("project_id", Some(r#""project""#)),
    ("task_id", Some(r#""task""#)),
    ("acting_agent_id", Some(r#""actor""#)),
    ("new_assignee_agent_profile_id", Some(r#""agent""#)),
    ("assignment_generation", Some("3")),
];

const REQUESTED: [(&str, Option<&str>); 7] = [
    ("type", Some(r#""wake.requested.v1""#)),
    ("organization_id", Some(r#""org""#)),
    ("project_id", Some(r#""project""#)),
    ("reason", Some(r#""task_assigned""#)),
    ("agent_profile_id", Some(r#""agent""#)),
    ("idempotency_key", Some(r#""key""#)),
    ("payload", Some(r#"{"task_id":"task","actor_type":"agent","actor_id":"actor"}"#)),
];

/// The members with some of them replaced or, by `None`, left out.
fn body_with<'a>(
    members: &[(&'a str, Option<&'a str>)],
    changes: &[(&'a str, Option<&'a str>)],
) -> String {
    let mut members = members.to_vec();
    for (name, raw) in changes {
        let member = members.iter_mut().find(|(known, _)| known == name);
        member.unwrap_or_else(|| panic!("no member {name}")).1 = *raw;
    }
    object(&members)
}

fn rejected(event: &Event) -> (RejectReason, &str) {
    match &event.content {
        Content::Rejected(rejection) => (rejection.reason, &rejection.fault),
        other => panic!("not rejected: {:.300}", format!("{other:?}")),
    }
}

fn woken(message: &Message) -> Wake {
    match decode(message).content {
        Content::Wake(wake) => Arc::unwrap_or_clone(wake),
        other => panic!("no wake of {:?}: {:.300}", message.subject, format!("{other:?}")),
    }
}

/// Text that no compression shortens: what an index refuses at its limit hides behind repetition.
fn incompressible(bytes: usize) -> String {
    Alphanumeric.sample_string(&mut StdRng::seed_from_u64(bytes as u64), bytes)
}
