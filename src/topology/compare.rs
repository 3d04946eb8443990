//! What is declared against what the server has: differences as values, and how they read.

use std::fmt::{self, Write as _};
use std::time::Duration;

use serde_json::Value;

/// A stream or a consumer on the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Object {
    /// A stream by its name.
    Stream(String),
    /// A consumer of a stream.
    Consumer {
        /// The stream.
        stream: String,
        /// The durable name.
        name: String,
    },
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stream(name) => write!(f, "stream {name}"),
            Self::Consumer { stream, name } => write!(f, "consumer {name} of {stream}"),
        }
    }
}

/// One way in which the server is not as declared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Where.
    pub object: Object,
    /// How.
    pub how: How,
}

/// How an object differs from its declaration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum How {
    /// Declared, and not on the server.
    Missing,
    /// On the server, and of a lane beyond the declared number of partitions.
    Stray,
    /// One field has another value.
    Field(FieldDifference),
}

/// A field that has another value than the declared one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldDifference {
    /// Path within the configuration, `subject_transform.dest`.
    pub field: String,
    /// As declared, readable.
    pub wanted: String,
    /// As the server has it, readable.
    pub found: String,
    /// Whether a worker may run all the same.
    pub effect: Effect,
    /// Where the server never changes this field: what to do instead.
    pub unchangeable: Option<&'static str>,
}

/// What a difference means for a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It would decide, lose or order wakes otherwise: it does not start.
    Behaviour,
    /// An operator's choice: where data lies, how many copies, a limit more generous than declared.
    Tolerated,
}

impl Difference {
    /// Whether the worker must not start on it.
    #[must_use]
    pub fn changes_behaviour(&self) -> bool {
        match &self.how {
            How::Missing => true,
            // Nothing reads it; `apply` removes it once it is empty.
            How::Stray => false,
            How::Field(field) => field.effect == Effect::Behaviour,
        }
    }

    /// What to do where `apply` cannot change it.
    #[must_use]
    pub fn unchangeable(&self) -> Option<&'static str> {
        match &self.how {
            How::Field(field) => field.unchangeable,
            How::Missing | How::Stray => None,
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.object, self.how)
    }
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("is missing"),
            Self::Stray => f.write_str("is of no declared lane"),
            Self::Field(field) => field.fmt(f),
        }
    }
}

impl fmt::Display for FieldDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: wanted {}, found {}", self.field, self.wanted, self.found)?;
        match self.unchangeable {
            Some(remedy) => write!(f, "; cannot be changed: {remedy}"),
            None => Ok(()),
        }
    }
}

/// The differences for a terminal: one paragraph an object, one line a difference.
#[must_use]
pub fn render(differences: &[Difference]) -> String {
    if differences.is_empty() {
        return "the server is as declared\n".to_owned();
    }
    let mut text = String::new();
    let mut object = None;
    for difference in differences {
        if object != Some(&difference.object) {
            let _ = writeln!(text, "{}", difference.object);
            object = Some(&difference.object);
        }
        let _ = writeln!(text, "  {}", difference.how);
    }
    let plural = if differences.len() == 1 { "" } else { "s" };
    let next = if differences.iter().any(|one| one.unchangeable().is_none()) {
        "; run: wakegate streams apply"
    } else {
        ", which the server cannot change"
    };
    let _ = writeln!(text, "{} difference{plural}{next}", differences.len());
    text
}

/// Which kind of object a rule is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Stream,
    Lane,
}

/// How much a field may differ before a worker refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tolerance {
    /// Any value will do.
    Any,
    /// A larger value, or none at all, will do.
    AtLeast,
    /// No other value.
    Exact,
}

const RECREATE_STREAM: &str = "stop the publishers, let every lane run dry (wakegate run \
     --until-caught-up), delete the stream, then run: wakegate streams apply";
const RECREATE_CONSUMER: &str = "stop the workers, delete the consumer, then run: wakegate \
     streams apply; it starts at the beginning of the stream, and wakes already decided are \
     recognised";

/// Fields that are not simply exact and changeable. What is absent here is both.
const RULES: [(Kind, &str, Tolerance, Option<&str>); 24] = [
    (Kind::Stream, "description", Tolerance::Any, None),
    (Kind::Stream, "metadata", Tolerance::Any, None),
    (Kind::Stream, "placement", Tolerance::Any, None),
    (Kind::Stream, "compression", Tolerance::Any, None),
    (Kind::Stream, "num_replicas", Tolerance::Any, None),
    (Kind::Stream, "max_bytes", Tolerance::Any, None),
    (Kind::Stream, "max_age", Tolerance::AtLeast, None),
    (Kind::Stream, "max_msgs", Tolerance::AtLeast, None),
    (Kind::Stream, "max_msgs_per_subject", Tolerance::AtLeast, None),
    (Kind::Stream, "max_msg_size", Tolerance::AtLeast, None),
    (Kind::Stream, "duplicate_window", Tolerance::AtLeast, None),
    (Kind::Stream, "storage", Tolerance::Exact, Some(RECREATE_STREAM)),
    (Kind::Stream, "retention", Tolerance::Exact, Some(RECREATE_STREAM)),
    (Kind::Stream, "sealed", Tolerance::Exact, Some(RECREATE_STREAM)),
    (Kind::Stream, "deny_delete", Tolerance::Exact, Some(RECREATE_STREAM)),
    (Kind::Stream, "deny_purge", Tolerance::Exact, Some(RECREATE_STREAM)),
    (Kind::Stream, "allow_msg_ttl", Tolerance::Exact, Some(RECREATE_STREAM)),
    (Kind::Lane, "description", Tolerance::Any, None),
    (Kind::Lane, "metadata", Tolerance::Any, None),
    (Kind::Lane, "num_replicas", Tolerance::Any, None),
    (Kind::Lane, "ack_policy", Tolerance::Exact, Some(RECREATE_CONSUMER)),
    (Kind::Lane, "deliver_policy", Tolerance::Exact, Some(RECREATE_CONSUMER)),
    (Kind::Lane, "replay_policy", Tolerance::Exact, Some(RECREATE_CONSUMER)),
    (Kind::Lane, "mem_storage", Tolerance::Exact, Some(RECREATE_CONSUMER)),
];

/// Every field of `wanted` that `found` has otherwise. Fields that `wanted` does not name are the
/// server's own and no difference.
pub(super) fn fields(kind: Kind, wanted: &Value, found: &Value) -> Vec<FieldDifference> {
    let mut differences = Vec::new();
    walk(kind, "", wanted, Some(found), &mut differences);
    if kind == Kind::Lane && is_rewound(found) {
        differences.retain(|difference| difference.field != "deliver_policy");
    }
    differences
}

/// Whether a lane's consumer begins amid the stream, as `wakegate streams rewind` makes it. One that
/// begins too late is no matter of its configuration: its floor is beyond what was decided, and the
/// worker holds the lane.
pub(super) fn is_rewound(found: &Value) -> bool {
    found["deliver_policy"] == "by_start_sequence"
}

fn walk(
    kind: Kind,
    path: &str,
    wanted: &Value,
    found: Option<&Value>,
    differences: &mut Vec<FieldDifference>,
) {
    if let Value::Object(wanted) = wanted {
        for (name, wanted) in wanted {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            walk(kind, &path, wanted, found.and_then(|found| found.get(name)), differences);
        }
        return;
    }
    if found == Some(wanted) || (is_blank(wanted) && found.is_none_or(is_blank)) {
        return;
    }
    let top = path.split('.').next().unwrap_or(path);
    let rule = RULES.iter().find(|(of, field, ..)| *of == kind && *field == top);
    let (tolerance, unchangeable) =
        rule.map_or((Tolerance::Exact, None), |(_, _, tolerance, remedy)| (*tolerance, *remedy));
    let tolerated = match tolerance {
        Tolerance::Any => true,
        Tolerance::AtLeast => found.is_some_and(|found| limit(found) >= limit(wanted)),
        Tolerance::Exact => false,
    };
    differences.push(FieldDifference {
        field: path.to_owned(),
        wanted: readable(path, Some(wanted)),
        found: readable(path, found),
        effect: if tolerated { Effect::Tolerated } else { Effect::Behaviour },
        unchangeable,
    });
}

/// The server leaves out what is false, zero or empty.
fn is_blank(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(set) => !set,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(values) => values.is_empty(),
        Value::Object(fields) => fields.values().all(is_blank),
    }
}

/// A limit's size; zero and below is no limit.
fn limit(value: &Value) -> i64 {
    match value.as_i64() {
        Some(limit) if limit > 0 => limit,
        Some(_) => i64::MAX,
        None => i64::MIN,
    }
}

/// A value as an operator reads it.
fn readable(field: &str, value: Option<&Value>) -> String {
    let Some(value) = value else { return "nothing".to_owned() };
    match (field, value.as_i64()) {
        (
            "max_age" | "max_bytes" | "max_msgs" | "max_msgs_per_subject" | "max_msg_size",
            Some(n),
        ) if n <= 0 => "unlimited".to_owned(),
        ("max_deliver", Some(-1)) => "unlimited".to_owned(),
        (
            "max_age" | "duplicate_window" | "ack_wait" | "priority_timeout" | "inactive_threshold",
            Some(nanos),
        ) => readable_duration(Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))),
        ("max_bytes" | "max_msg_size", Some(bytes)) => readable_bytes(bytes),
        _ => match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        },
    }
}

/// The largest unit that divides it, `90 s`, `2 min`, `7 d`.
fn readable_duration(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    if nanos == 0 {
        return "none".to_owned();
    }
    for (unit, nanos_per) in [
        ("d", 86_400_000_000_000),
        ("h", 3_600_000_000_000),
        ("min", 60_000_000_000),
        ("s", 1_000_000_000),
        ("ms", 1_000_000),
    ] {
        if nanos >= nanos_per && nanos.is_multiple_of(nanos_per) {
            return format!("{} {unit}", nanos / nanos_per);
        }
    }
    format!("{nanos} ns")
}

fn readable_bytes(bytes: i64) -> String {
    for (unit, bytes_per) in [("GiB", 1_i64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)] {
        if bytes >= bytes_per && bytes % bytes_per == 0 {
            return format!("{} {unit}", bytes / bytes_per);
        }
    }
    format!("{bytes} B")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_not_named_or_blank_on_both_sides_is_no_difference() {
        let wanted = json!({"sealed": false, "backoff": [], "max_age": 5, "t": {"a": "x"}});
        let found = json!({"max_age": 5, "t": {"a": "x", "b": "y"}, "consumer_limits": {}});
        assert_eq!(fields(Kind::Stream, &wanted, &found), []);
    }

    #[test]
    fn a_difference_says_whether_a_worker_may_run() {
        let day = 86_400_000_000_000_i64;
        for (field, wanted, found, effect) in [
            ("max_age", json!(7 * day), json!(8 * day), Effect::Tolerated),
            ("max_age", json!(7 * day), json!(0), Effect::Tolerated),
            ("max_age", json!(7 * day), json!(6 * day), Effect::Behaviour),
            ("max_msgs", json!(-1), json!(100), Effect::Behaviour),
            ("num_replicas", json!(1), json!(3), Effect::Tolerated),
            ("max_bytes", json!(-1), json!(1), Effect::Tolerated),
            ("discard", json!("new"), json!("old"), Effect::Behaviour),
            ("storage", json!("file"), json!("memory"), Effect::Behaviour),
        ] {
            let found =
                fields(Kind::Stream, &json!({ field: wanted.clone() }), &json!({ field: found }));
            assert_eq!(found.len(), 1, "{field}");
            assert_eq!(found[0].effect, effect, "{field} {}", found[0]);
        }
    }

    #[test]
    fn values_read_as_an_operator_says_them() {
        for (field, value, text) in [
            ("max_age", json!(604_800_000_000_000_i64), "7 d"),
            ("ack_wait", json!(12_000_000_000_i64), "12 s"),
            ("ack_wait", json!(1_500_000_000_i64), "1500 ms"),
            ("ack_wait", json!(1_500), "1500 ns"),
            ("max_msg_size", json!(524_288), "512 KiB"),
            ("max_msg_size", json!(524_289), "524289 B"),
            ("max_bytes", json!(-1), "unlimited"),
            ("max_ack_pending", json!(1_000), "1000"),
            ("storage", json!("file"), "file"),
            ("subjects", json!(["a", "b"]), r#"["a","b"]"#),
        ] {
            assert_eq!(readable(field, Some(&value)), text);
        }
    }
}
