//! Shorter forms of an outcome record, for a stream that does not take the whole one.

use serde_json::{Map, Value};

/// What remains of a record in its shortest form: who and what, each of bounded length.
const KEPT: [&str; 10] = [
    "wake_id",
    "outcome",
    "reason",
    "degraded_reason",
    "would_refuse",
    "run_id",
    "requested_at",
    "decided_at",
    "stream",
    "stream_sequence",
];

/// Ever shorter forms of a record: a quarter of the body, a sixteenth, a sixty-fourth, none, and
/// then only what names the wake and its outcome. `body_bytes` still says how long the body was.
pub(super) fn shorter(record: &str) -> impl Iterator<Item = String> + Send + use<> {
    let record = match serde_json::from_str(record) {
        Ok(Value::Object(record)) => record,
        _ => Map::new(),
    };
    let body = record.get("body_base64").and_then(Value::as_str).unwrap_or_default().len();
    let with_body = [4, 16, 64].map(|divisor| with_body_of(&record, body / divisor));
    let without = with_body_of(&record, 0);
    let kept = record.into_iter().filter(|(name, _)| KEPT.contains(&name.as_str())).collect();
    with_body.into_iter().chain([without, kept]).map(|record| Value::Object(record).to_string())
}

/// The record with at most `length` characters of its body, a whole number of base64 groups.
fn with_body_of(record: &Map<String, Value>, length: usize) -> Map<String, Value> {
    let mut record = record.clone();
    let length = length / 4 * 4;
    match record.get_mut("body_base64") {
        Some(Value::String(body)) if length > 0 && body.is_ascii() => body.truncate(length),
        _ => {
            record.remove("body_base64");
        }
    }
    record
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    #[test]
    fn each_form_is_shorter_and_its_body_still_decodes() {
        let bytes = vec![7_u8; 65_536];
        let record = serde_json::json!({
            "wake_id": "w", "outcome": "rejected", "fault": "f".repeat(900),
            "body_bytes": 70_000, "body_base64": STANDARD.encode(&bytes),
        })
        .to_string();
        let forms: Vec<String> = shorter(&record).collect();
        assert_eq!(forms.len(), 5);
        let mut last = record.len();
        for form in &forms {
            assert!(form.len() < last);
            last = form.len();
            let form: Value = serde_json::from_str(form).unwrap();
            assert_eq!(form["wake_id"], "w");
            if let Some(body) = form["body_base64"].as_str() {
                assert!(bytes.starts_with(&STANDARD.decode(body).unwrap()));
            }
        }
        assert_eq!(forms[4], r#"{"outcome":"rejected","wake_id":"w"}"#);
    }
}
