//! `docs/schemas/control-*.json` are made of the types, and hold for what is read and written.
//! `BLESS=1` writes them anew.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use wakegate::control::verbs::error_schema;
use wakegate::control::{Control, Verb};
use wakegate::health::Health;
use wakegate::store::StoreOptions;
use wakegate::store::sqlite::SqliteStore;

use crate::harness::schema::{check_current, faults, hold, schema};
use crate::harness::sqlite;

#[test]
fn the_schemas_are_current() {
    let of_verbs = Verb::ALL.into_iter().flat_map(|verb| {
        let name = verb.name();
        [
            (format!("control-{name}-request"), verb.request_schema().to_value()),
            (format!("control-{name}-reply"), verb.reply_schema().to_value()),
        ]
    });
    let of_errors = ("control-error".to_owned(), error_schema().to_value());
    check_current(of_verbs.chain([of_errors]), |name| name.starts_with("control-"));
}

/// A request of each verb with every field that there is.
fn whole(verb: Verb) -> Value {
    match verb {
        Verb::Pause => json!({
            "scope": "organization", "organization_id": "o", "mode": "stop_now", "actor": "a",
            "reason": "r",
        }),
        Verb::Resume => json!({
            "scope": "organization", "organization_id": "o", "pause_id": "p", "actor": "a",
            "reason": "r",
        }),
        Verb::Pauses => json!({ "after": "o", "limit": 1 }),
        Verb::AgentSet => json!({
            "organization_id": "o", "agent_profile_id": "a", "status": "idle", "actor": "a",
            "reason": "r",
        }),
        Verb::AgentGet => json!({ "organization_id": "o", "agent_profile_id": "a" }),
        Verb::AgentList => json!({
            "organization_id": "o", "status": "idle", "limit": 1,
            "after": { "organization_id": "o", "agent_profile_id": "a" },
        }),
        Verb::LimitsGet => json!({ "organization_id": "o", "project_id": "p" }),
        Verb::LimitsSet => json!({
            "organization_id": "o", "queued_runs_max": 1, "queued_runs_project_max": null,
            "waiting_seconds_max": 0, "active_runs_max": 2, "intake_events_per_minute_max": 3,
            "event_bytes_max": 4, "weight": 5, "actor": "a", "reason": "r",
        }),
        Verb::Counts => json!({ "refusals_seconds": 1 }),
        Verb::Health | Verb::Configuration => json!({}),
    }
}

/// What a schema allows is read, and what it does not allow is refused: field by field.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_read_is_what_the_schema_of_the_request_says() {
    let (_directory, url) = sqlite::database().await;
    let store = SqliteStore::connect(&url, &StoreOptions::default()).unwrap();
    let clock = wakegate::clock::Clock::system();
    let worker = wakegate::control::worker::Worker {
        configuration: std::sync::Arc::new(
            wakegate::config::Config::load(None, []).expect("the defaults are valid"),
        ),
        health: Health::new(clock.clone(), 1, wakegate::shutdown::Shutdown::new()),
        metrics: wakegate::metrics::Metrics::new(1),
        started_at: clock.now(),
    };
    let control = Control::new(store, worker, clock);
    let read = async |verb: Verb, request: &Value| {
        let answer = control.answer("w", verb, request.to_string().as_bytes()).await;
        answer.map(|_| ()).map_err(|error| error.code.as_str())
    };
    // About what is there, not about how the request was written.
    let understood = |answer: Result<(), &str>| {
        let of_rows = ["already_paused", "not_paused", "pause_changed", "unknown_agent"];
        answer.is_ok() || answer.is_err_and(|code| of_rows.contains(&code))
    };
    for verb in Verb::ALL {
        let name = format!("control-{}-request", verb.name());
        let request = whole(verb);
        hold(&name, &request);
        assert!(understood(read(verb, &request).await), "{verb:?}");
        let properties = schema(&name)["properties"].as_object().cloned().unwrap_or_default();
        let fields = request.as_object().unwrap();
        let names = |fields: &Map<String, Value>| fields.keys().cloned().collect::<BTreeSet<_>>();
        assert_eq!(names(&properties), names(fields), "{verb:?} has every field");
        for field in fields.keys() {
            let mut without = request.clone();
            without.as_object_mut().unwrap().remove(field);
            let allowed = faults(&name, &without).is_empty();
            let answer = read(verb, &without).await;
            // The organization is wanted with the scope organization, which no schema here says.
            let scoped = field == "organization_id" && fields.contains_key("scope");
            assert_eq!(understood(answer), allowed && !scoped, "{verb:?} without {field}");
            let mut wrong = request.clone();
            wrong[field] = json!([true]);
            assert!(!faults(&name, &wrong).is_empty(), "{verb:?} with a wrong {field}");
            assert_eq!(read(verb, &wrong).await, Err("invalid_field"), "{verb:?} {field}");
        }
        let mut more = request.clone();
        more["typo"] = json!(1);
        assert!(!faults(&name, &more).is_empty(), "{verb:?} with a typo");
        assert_eq!(read(verb, &more).await, Err("unknown_field"), "{verb:?}");
    }
}
