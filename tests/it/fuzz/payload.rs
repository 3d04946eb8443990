//! The scan of a payload, against `serde_json`'s own tree wherever that takes the input.

use serde::de::IgnoredAny;
use serde_json::Value;
use wakegate::wake::json::{Held, held, members};
use wakegate::wake::requested;
use wakegate::wake::{ActorId, ActorType, ID_BYTES_MAX, Payload, TaskField};

const NAMES: [&str; 5] = ["task_id", "actor_type", "actor_id", "payload", "k"];

/// See the module.
pub fn target(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let found = members(text, &NAMES);

    // Where the grammar alone is asked, the scan says what serde_json says: an object or none.
    let object = text.trim_start_matches([' ', '\t', '\n', '\r']).starts_with('{')
        && serde_json::from_str::<IgnoredAny>(text).is_ok();
    assert_eq!(found.is_ok(), object, "{found:?}");
    if let Ok(found) = &found {
        for raw in found.iter().flatten() {
            assert!(serde_json::from_str::<IgnoredAny>(raw).is_ok(), "{raw:?} is a value");
        }
    }

    let payload = Payload::read(text);
    if let Ok(payload) = &payload {
        assert_eq!(payload.text(), text, "kept byte for byte");
    }

    // A tree is stricter (depth, huge numbers, lone surrogates). What it takes, the scan reads alike.
    let Ok(tree) = serde_json::from_str::<Value>(text) else { return };
    assert_eq!(found.is_ok(), tree.is_object());
    let member = |name: &str| tree.as_object().and_then(|object| object.get(name));
    for (name, raw) in NAMES.iter().zip(found.unwrap_or_default()) {
        assert_eq!(raw.is_some(), member(name).is_some(), "{name}");
        let (Some(raw), Some(value)) = (raw, member(name)) else { continue };
        assert_eq!(&serde_json::from_str::<Value>(raw).unwrap(), value, "{name}: the last one");
        match (held(raw), value) {
            (Held::Text(text), Value::String(string)) => assert_eq!(text, *string),
            (Held::Unstorable(_), Value::String(string)) => assert!(string.contains('\0')),
            (Held::Null, Value::Null)
            | (
                Held::Other(_),
                Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_),
            ) => {}
            (held, value) => panic!("{name}: {held:?} for {value}"),
        }
    }
    assert_columns(payload.ok().as_ref(), &tree);
    assert_decoded_once(text, &tree);
}

/// The columns that the tree has.
fn assert_columns(payload: Option<&Payload>, tree: &Value) {
    let string = |name: &str| tree.get(name).and_then(Value::as_str);
    let too_long = NAMES[..3].iter().any(|name| {
        string(name).is_some_and(|text| text.len() > ID_BYTES_MAX && !text.contains('\0'))
    });
    let Some(payload) = payload else {
        assert!(too_long, "only a field over its limit is at fault: {tree}");
        return;
    };
    assert!(!too_long, "a field over its limit is a fault: {tree}");
    let usable = |name: &str| string(name).filter(|text| !text.is_empty() && !text.contains('\0'));
    match payload.task() {
        TaskField::Named(task) => assert_eq!(Some(task.as_str()), usable("task_id")),
        TaskField::Absent => {
            let value = tree.get("task_id").unwrap_or(&Value::Null);
            assert!(value.is_null() || value == "", "{tree}");
        }
        TaskField::Unusable => {
            let value = &tree["task_id"];
            let nul = value.as_str().is_some_and(|text| text.contains('\0'));
            assert!(nul || !(value.is_null() || value.is_string()), "{tree}");
        }
    }
    assert_eq!(payload.actor_type().map(ActorType::as_str), usable("actor_type"));
    assert_eq!(payload.actor_id().map(ActorId::as_str), usable("actor_id"));
    assert_eq!(payload.is_agent_initiated(), string("actor_type") == Some("agent"));
}

/// As the `payload` member of a wake: a string is decoded once, everything else is kept.
fn assert_decoded_once(raw: &str, tree: &Value) {
    let raw = raw.trim_matches([' ', '\t', '\n', '\r']);
    let Ok(read) = requested::payload(Some(raw)) else { return };
    match tree {
        Value::String(text) if !text.contains('\0') => assert_eq!(read.text(), text),
        Value::String(_) => assert!(!read.text().contains('\0'), "an escape of a NUL stays one"),
        _ => assert_eq!(read.text(), raw),
    }
}
