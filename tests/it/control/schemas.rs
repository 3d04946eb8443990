//! `docs/schemas/control-*.json` are made of the types, and hold for what is read and written.
//! `BLESS=1` writes them anew.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Map, Value, json};
use wakegate::control::verbs::error_schema;
use wakegate::control::{Control, Verb};
use wakegate::health::Health;
use wakegate::store::StoreOptions;
use wakegate::store::sqlite::SqliteStore;

use crate::harness::{golden, sqlite};

/// The file of a schema, by its name.
pub fn schema(name: &str) -> Value {
    let file = golden::repository().join(format!("docs/schemas/control-{name}.json"));
    let text = std::fs::read_to_string(&file);
    serde_json::from_str(&text.unwrap_or_else(|e| panic!("{}: {e}", file.display()))).unwrap()
}

/// Everything about a value that a schema does not allow: of JSON Schema what these schemas use, and
/// an error for what they should ever use beside it.
pub fn faults(schema: &Value, value: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    look(schema, schema, value, "", &mut faults);
    faults
}

/// Keywords that say nothing of a value, that are looked at in [`below`], or above.
const KNOWN: [&str; 17] = [
    "$schema",
    "title",
    "description",
    "$defs",
    "default",
    "format",
    "const",
    "enum",
    "minimum",
    "maximum",
    "properties",
    "additionalProperties",
    "items",
    "maxItems",
    "$ref",
    "anyOf",
    "oneOf",
];

fn look(root: &Value, schema: &Value, value: &Value, at: &str, faults: &mut Vec<String>) {
    let Some(schema) = schema.as_object() else {
        if schema == &json!(false) {
            faults.push(format!("{at}: nothing is allowed here"));
        }
        return;
    };
    let mut fault = |what: String| faults.push(format!("{at}: {what}"));
    for (keyword, wanted) in schema {
        match keyword.as_str() {
            "type" => {
                let types: Vec<&Value> =
                    wanted.as_array().map_or_else(|| vec![wanted], |types| types.iter().collect());
                if !types.iter().any(|kind| is_of(kind.as_str().unwrap(), value)) {
                    fault(format!("{value} is no {wanted}"));
                }
            }
            "const" if wanted != value => fault(format!("{value} is not {wanted}")),
            "enum" if !wanted.as_array().unwrap().contains(value) => {
                fault(format!("{value} is none of {wanted}"));
            }
            // They say nothing of what is no number.
            "minimum" if value.is_number() && value.as_f64() < wanted.as_f64() => {
                fault(format!("{value} is too small"));
            }
            "maximum" if value.is_number() && value.as_f64() > wanted.as_f64() => {
                fault(format!("{value} is too large"));
            }
            "minLength" | "maxLength" => {
                let length = value.as_str().map(|text| text.chars().count() as u64);
                let limit = wanted.as_u64();
                let wrong = if keyword == "minLength" { length < limit } else { length > limit };
                if length.is_some() && wrong {
                    fault(format!("{keyword} is {wanted}"));
                }
            }
            "maxItems" if value.as_array().map(|held| held.len() as u64) > wanted.as_u64() => {
                fault(format!("{keyword} is {wanted}"));
            }
            "required" => {
                for name in wanted.as_array().unwrap() {
                    if value.get(name.as_str().unwrap()).is_none() {
                        fault(format!("{name} is missing"));
                    }
                }
            }
            known if KNOWN.contains(&known) => {}
            other => fault(format!("the schema uses {other}, which this test does not know")),
        }
    }
    below(root, schema, value, at, faults);
}

fn below(
    root: &Value,
    schema: &Map<String, Value>,
    value: &Value,
    at: &str,
    faults: &mut Vec<String>,
) {
    let properties = schema.get("properties").and_then(Value::as_object);
    let additional = schema.get("additionalProperties");
    for (name, held) in value.as_object().into_iter().flatten() {
        let wanted = properties.and_then(|properties| properties.get(name)).or(additional);
        if let Some(wanted) = wanted {
            look(root, wanted, held, &format!("{at}/{name}"), faults);
        }
    }
    if let Some(items) = schema.get("items") {
        for (nth, held) in value.as_array().into_iter().flatten().enumerate() {
            look(root, items, held, &format!("{at}/{nth}"), faults);
        }
    }
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        let target =
            root.pointer(reference.strip_prefix('#').unwrap()).expect("it leads somewhere");
        look(root, target, value, at, faults);
    }
    for keyword in ["anyOf", "oneOf"] {
        let Some(any) = schema.get(keyword).and_then(Value::as_array) else { continue };
        let fits = any.iter().any(|one| {
            let mut inner = Vec::new();
            look(root, one, value, at, &mut inner);
            inner.is_empty()
        });
        if !fits {
            faults.push(format!("{at}: {value} is none of {keyword}"));
        }
    }
}

fn is_of(kind: &str, value: &Value) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("a type that this test does not know: {other}"),
    }
}

#[test]
fn the_schemas_are_current() {
    let mut names = BTreeSet::new();
    let mut check = |name: String, schema: Value| {
        let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
        golden::check_file(&Path::new("docs/schemas").join(&name), &text);
        names.insert(name);
    };
    for verb in Verb::ALL {
        check(format!("control-{}-request.json", verb.name()), verb.request_schema().to_value());
        check(format!("control-{}-reply.json", verb.name()), verb.reply_schema().to_value());
    }
    check("control-error.json".to_owned(), error_schema().to_value());
    let there: BTreeSet<String> = std::fs::read_dir(golden::repository().join("docs/schemas"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("control-"))
        .collect();
    assert_eq!(there, names, "a file for each, and no other");
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
        let schema = schema(&format!("{}-request", verb.name()));
        let request = whole(verb);
        assert_eq!(faults(&schema, &request), Vec::<String>::new(), "{verb:?}");
        assert!(understood(read(verb, &request).await), "{verb:?}");
        let properties = schema["properties"].as_object().cloned().unwrap_or_default();
        let fields = request.as_object().unwrap();
        let names = |fields: &Map<String, Value>| fields.keys().cloned().collect::<BTreeSet<_>>();
        assert_eq!(names(&properties), names(fields), "{verb:?} has every field");
        for name in fields.keys() {
            let mut without = request.clone();
            without.as_object_mut().unwrap().remove(name);
            let allowed = faults(&schema, &without).is_empty();
            let answer = read(verb, &without).await;
            // The organization is wanted with the scope organization, which no schema here says.
            let scoped = name == "organization_id" && fields.contains_key("scope");
            assert_eq!(understood(answer), allowed && !scoped, "{verb:?} without {name}");
            let mut wrong = request.clone();
            wrong[name] = json!([true]);
            assert!(!faults(&schema, &wrong).is_empty(), "{verb:?} with a wrong {name}");
            assert_eq!(read(verb, &wrong).await, Err("invalid_field"), "{verb:?} {name}");
        }
        let mut more = request.clone();
        more["typo"] = json!(1);
        assert!(!faults(&schema, &more).is_empty(), "{verb:?} with a typo");
        assert_eq!(read(verb, &more).await, Err("unknown_field"), "{verb:?}");
    }
}
