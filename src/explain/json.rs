//! An explanation as one JSON object.

use serde_json::{Map, Value, json};

use super::walk::{Conclusion, GateLine};
use super::{Explanation, Told};
use crate::admission::gates::Posture;
use crate::outcome::OutcomeRecord;

/// Fields of the outcome record that nothing can say before the event is stored and decided.
const UNKNOWN: [&str; 4] = ["wake_id", "stream", "stream_sequence", "decided_at"];

/// The explanation: `at`, `outcome` (the outcome record as far as it can be known, or null where the
/// lane would wait), `held`, `changes_at`, and `gates`.
#[must_use]
pub fn object(explanation: &Explanation) -> Value {
    let mut object = Map::new();
    object.insert("at".to_owned(), json!(explanation.at));
    object.insert("outcome".to_owned(), outcome(explanation));
    if let Told::Wake { walk, .. } = &explanation.told {
        if let Err(hold) = &walk.answer {
            let held = json!({ "gate": hold.gate.as_str(), "posture": posture(hold.posture),
                "error": hold.failure.error });
            object.insert("held".to_owned(), held);
        }
        if let Some(changes_at) = walk.changes_at {
            object.insert("changes_at".to_owned(), json!(changes_at));
        }
        let gates = walk.gates.iter().map(gate).collect();
        object.insert("gates".to_owned(), Value::Array(gates));
    }
    Value::Object(object)
}

/// The outcome record that the worker would make, without what only the worker can know.
fn outcome(explanation: &Explanation) -> Value {
    let (envelope, at) = (&explanation.envelope, explanation.at);
    let record = match &explanation.told {
        Told::NoWake(no_wake) => OutcomeRecord::of_no_wake(envelope, no_wake, at),
        Told::Rejected(rejection) => OutcomeRecord::of_rejection(envelope, rejection, at),
        Told::Wake { wake, walk } => match &walk.answer {
            Ok(decision) => {
                OutcomeRecord::of_wake(envelope, wake, decision, &walk.would_refuse, at)
            }
            Err(_) => return Value::Null,
        },
    };
    let own_run = record.run_id == Some(record.wake_id);
    let mut record = json!(record);
    if let Some(fields) = record.as_object_mut() {
        for field in UNKNOWN {
            fields.remove(field);
        }
        if own_run {
            fields.remove("run_id");
        }
        if let Some(overload) = fields.get_mut("overload").and_then(Value::as_object_mut) {
            overload.remove("at");
            overload.remove("retry_after_seconds");
            overload.remove("correlation_id");
        }
    }
    record
}

fn gate(line: &GateLine) -> Value {
    let (conclusion, detail) = match &line.conclusion {
        Conclusion::Passes => ("passes", None),
        Conclusion::PassesDegraded(note) => {
            ("passes_degraded", Some(("degraded_reason", note.reason().as_str().to_owned())))
        }
        Conclusion::Concludes(_) => ("concludes", None),
        Conclusion::WouldRefuse(refusal) => {
            ("would_refuse", Some(("reason", refusal.as_str().to_owned())))
        }
        Conclusion::CannotRead(failure) => ("cannot_read", Some(("error", failure.error.clone()))),
        Conclusion::Holds(hold) => ("holds", Some(("error", hold.failure.error.clone()))),
        Conclusion::NotReached => ("not_reached", None),
    };
    let mut object = Map::new();
    object.insert("number".to_owned(), json!(line.gate.number()));
    object.insert("gate".to_owned(), json!(line.gate.as_str()));
    if line.in_shadow {
        object.insert("mode".to_owned(), json!("shadow"));
    }
    object.insert("conclusion".to_owned(), json!(conclusion));
    if let Some((name, value)) = detail {
        object.insert(name.to_owned(), json!(value));
    }
    if let Some(sight) = &line.sight {
        object.insert("looked_at".to_owned(), json!(sight.looked_at));
        object.insert("saw".to_owned(), json!(sight.saw));
        if !sight.values.is_empty() {
            object.insert("values".to_owned(), Value::Object(sight.values.clone()));
        }
    }
    if let Some(changes_at) = line.changes_at {
        object.insert("changes_at".to_owned(), json!(changes_at));
    }
    Value::Object(object)
}

/// A posture by its name in docs/gates.md.
pub(super) const fn posture(posture: Posture) -> &'static str {
    match posture {
        Posture::Hold => "hold",
        Posture::Closed => "closed",
        Posture::Open => "open",
    }
}
