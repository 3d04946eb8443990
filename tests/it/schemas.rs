//! `docs/schemas` of events and outcomes are made of the types, hold for what is read and written, and
//! every example in the documents is as they say. `BLESS=1` writes them anew.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use wakegate::schemas::events_and_outcomes;
use wakegate::wake::decode::{Content, decode};
use wakegate::wake::token::token;

use crate::harness::golden;
use crate::harness::schema::{check_current, faults, hold, schema};
use crate::messages::message_on;

#[test]
fn the_schemas_are_current() {
    let schemas = events_and_outcomes().into_iter();
    let schemas = schemas.map(|(name, schema)| (name.to_owned(), schema.to_value()));
    check_current(schemas, |name| name.starts_with("event-") || name.starts_with("outcome"));
}

#[test]
fn every_schema_is_one() {
    let directory = golden::repository().join("docs/schemas");
    for entry in std::fs::read_dir(directory).unwrap() {
        let file = entry.unwrap().path();
        let name = file.file_stem().unwrap().to_str().unwrap();
        let schema = schema(name);
        jsonschema::meta::validate(&schema).unwrap_or_else(|fault| panic!("{name}: {fault}"));
        assert!(schema["description"].is_string(), "{name} says what it is of");
    }
}

/// Events with every field that there is.
fn whole() -> [(&'static str, Value); 2] {
    [
        (
            "event-task-mutated-v1",
            json!({
                "type": "task.mutated.v1", "organization_id": "o", "project_id": "p",
                "task_id": "t", "acting_agent_id": "b", "new_assignee_agent_profile_id": "a",
                "assignment_generation": 3,
            }),
        ),
        (
            "event-wake-requested-v1",
            json!({
                "type": "wake.requested.v1", "organization_id": "o", "project_id": "p",
                "reason": "r", "agent_profile_id": "a", "idempotency_key": "k",
                "payload": { "task_id": "t" },
            }),
        ),
    ]
}

/// Whether wakegate takes an event, on the subject that it belongs on.
fn taken(event: &Value) -> Result<(), String> {
    let text = |value: &Value| token(value.as_str().unwrap_or_default()).into_owned();
    let task = if event["type"] == "task.mutated.v1" {
        text(&event["task_id"])
    } else {
        text(&event["payload"]["task_id"])
    };
    let subject = format!("wakes.0.task_mutation.{}.{task}", text(&event["organization_id"]));
    match decode(&message_on(&subject, event.to_string())).content {
        Content::Rejected(rejection) => Err(rejection.fault),
        Content::Wake(_) | Content::NoWake(_) => Ok(()),
    }
}

/// What a schema allows is read, and what it does not allow is refused: field by field.
#[test]
fn what_is_read_is_what_the_schema_of_the_event_says() {
    let long = |bytes: usize| json!("a".repeat(bytes));
    let values = [
        json!(null),
        json!(""),
        json!("x"),
        long(64),
        long(65),
        long(256),
        long(257),
        long(1_024),
        long(1_025),
        json!(0),
        json!(-1),
        json!(1.5),
        json!(i64::MAX),
        json!(u64::MAX),
        json!(true),
        json!([]),
        json!({}),
        json!({ "unknown": [1] }),
    ];
    for (name, event) in whole() {
        hold(name, &event);
        taken(&event).unwrap();
        let fields = event.as_object().unwrap();
        let properties = schema(name)["properties"].as_object().cloned().unwrap();
        let names = |fields: &serde_json::Map<String, Value>| -> BTreeSet<String> {
            fields.keys().cloned().collect()
        };
        assert_eq!(names(&properties), names(fields), "{name}: the example has every field");
        let same = |event: &Value, what: &str| {
            let (described, read) = (faults(name, event), taken(event));
            assert_eq!(
                described.is_empty(),
                read.is_ok(),
                "{name} {what}: {described:?}, {read:?}"
            );
        };
        for field in fields.keys().filter(|field| *field != "type") {
            let mut changed = event.clone();
            changed.as_object_mut().unwrap().remove(field);
            same(&changed, &format!("without {field}"));
            for value in &values {
                changed[field] = value.clone();
                same(&changed, &format!("{field} {value:.40}"));
            }
        }
        let mut more = event.clone();
        more["unknown"] = json!({ "is": "ignored" });
        same(&more, "with an unknown field");
        let mut other = event.clone();
        other["type"] = json!("task.mutated.v2");
        assert!(!faults(name, &other).is_empty() && taken(&other).is_err());
    }
}

/// Documents for people, below a directory.
fn documents(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            documents(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

/// Every JSON object that is whole in this text, and what stands before it.
fn objects(text: &str) -> Vec<(&str, Value)> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = text[from..].find('{').map(|at| from + at) {
        let mut read = serde_json::Deserializer::from_str(&text[at..]).into_iter::<Value>();
        from = match read.next() {
            Some(Ok(object)) => {
                found.push((&text[..at], object));
                at + read.byte_offset()
            }
            _ => at + 1,
        };
    }
    found
}

/// The schema that a document in an example is of, by what it says it is.
fn schema_of(before: &str, object: &Value) -> Option<String> {
    match object["type"].as_str() {
        Some("task.mutated.v1") => return Some("event-task-mutated-v1".to_owned()),
        Some("wake.requested.v1") => return Some("event-wake-requested-v1".to_owned()),
        _ => {}
    }
    match object["outcome"].as_str() {
        Some("lost") => return Some("outcome-lost".to_owned()),
        Some(_) => return Some("outcome".to_owned()),
        None => {}
    }
    // A request stands behind its subject.
    let (_, subject) = before.rsplit_once("wakegate.control.")?;
    let verb: String =
        subject.chars().take_while(|c| c.is_ascii_lowercase() || *c == '.').collect();
    let asked = subject[verb.len()..].chars().all(|c| " \\\n'".contains(c));
    asked.then(|| format!("control-{}-request", verb.replace('.', "-")))
}

#[test]
fn every_example_in_the_documents_is_as_its_schema_says() {
    let root = golden::repository();
    let mut files = vec![root.join("README.md"), root.join("ARCHITECTURE.md")];
    documents(&root.join("docs"), &mut files);
    let mut checked = BTreeSet::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        for block in text.split("```").skip(1).step_by(2) {
            for (before, object) in objects(block) {
                let Some(name) = schema_of(before, &object) else { continue };
                assert_eq!(faults(&name, &object), Vec::<String>::new(), "{}", file.display());
                checked.insert(name);
            }
        }
    }
    let events = root.join("examples/demo/events");
    for entry in std::fs::read_dir(events).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        // One of them is broken on purpose, and no JSON.
        for event in text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
            if let Some(name) = schema_of("", &event) {
                assert_eq!(faults(&name, &event).is_empty(), taken(&event).is_ok(), "{event}");
                checked.insert(name);
            }
        }
    }
    for name in ["event-task-mutated-v1", "outcome", "control-pause-request"] {
        assert!(checked.contains(name), "an example of {name} is shown: {checked:?}");
    }
}
