//! The declarations: reading `streams/*.json` and what is derived from them.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use super::compare::{self, Effect, FieldDifference, Kind};
use super::{PARTITIONS_MAX, TopologyError, lane_consumer};

const FILES: [(&str, &str, Kind); 4] = [
    ("wakes.json", include_str!("../../streams/wakes.json"), Kind::Stream),
    ("wake-audit.json", include_str!("../../streams/wake-audit.json"), Kind::Stream),
    ("run-events.json", include_str!("../../streams/run-events.json"), Kind::Stream),
    ("lane-consumer.json", include_str!("../../streams/lane-consumer.json"), Kind::Lane),
];
/// Where the number of the lane goes in `lane-consumer.json`.
const LANE: &str = "<n>";
/// Batches that a lane may hold: the one in work, and the next, fetched meanwhile.
const BATCHES_IN_FLIGHT: u32 = 2;

/// The declared streams and lane consumers.
#[derive(Debug, Clone, PartialEq)]
pub struct Topology {
    pub(super) wakes: Value,
    pub(super) wake_audit: Value,
    pub(super) run_events: Value,
    lane_consumer: Value,
    partitions: u32,
}

/// What the server takes for an `ack_wait` that is not declared: 30 s.
const SERVER_DEFAULT_NANOS: u64 = 30_000_000_000;
/// The two times of a lane that a file may choose. A pull waits a second at the server and only the
/// next one renews the pin, so neither may be shorter than two.
const LANE_TIMES: [&str; 2] = ["ack_wait", "priority_timeout"];
const LANE_TIME_NANOS_MIN: u64 = 2_000_000_000;
/// A lane that takes longer than this to move is as good as stuck.
const LANE_TIME_NANOS_MAX: u64 = 300_000_000_000;

impl Topology {
    /// Reads the declarations: those compiled in, each replaced by the file of its name in
    /// `directory` where there is one. A file may choose partitions, replicas, placement,
    /// `max_bytes`, more generous limits, the two times of a lane (2 s to 5 min), and fields that
    /// the compiled-in one does not name; what the worker depends on it may not change.
    ///
    /// # Errors
    /// [`TopologyError::File`] names the file and the fault.
    pub fn load(directory: Option<&Path>) -> Result<Self, TopologyError> {
        let [wakes, wake_audit, run_events, lane_consumer] = FILES;
        let (wakes, partitions) = read(directory, wakes)?;
        let (wake_audit, _) = read(directory, wake_audit)?;
        let (run_events, _) = read(directory, run_events)?;
        let (lane_consumer, _) = read(directory, lane_consumer)?;
        let partitions = partitions.unwrap_or(1);
        Ok(Self { wakes, wake_audit, run_events, lane_consumer, partitions })
    }

    /// Number of partitions, and so of lanes.
    #[must_use]
    pub fn partitions(&self) -> u32 {
        self.partitions
    }

    /// How long `WAKES` keeps a wake, and may deliver it again; nothing where it keeps it for ever.
    #[must_use]
    pub fn wakes_kept(&self) -> Option<Duration> {
        kept(&self.wakes)
    }

    /// The consumer of one lane. `max_ack_pending` bounds what a worker holds in memory, because a
    /// pull stream that is not polled pulls again by itself; it is derived from the batch here and
    /// nowhere set by hand.
    #[must_use]
    pub fn lane_consumer_config(&self, lane: u32, batch_wakes_max: u32) -> Value {
        let mut config = fill_in(&self.lane_consumer, &lane.to_string());
        config["max_ack_pending"] = json!(batch_wakes_max.saturating_mul(BATCHES_IN_FLIGHT));
        config
    }

    /// A lane consumer's `ack_wait` and `priority_timeout`: how long a delivery stays ours without a
    /// word of progress, and how long the pin does without a pull.
    #[must_use]
    pub fn lane_times(&self) -> (Duration, Duration) {
        let nanos = |field: &str| {
            Duration::from_nanos(self.lane_consumer[field].as_u64().unwrap_or(SERVER_DEFAULT_NANOS))
        };
        (nanos("ack_wait"), nanos("priority_timeout"))
    }

    /// Every lane's consumer by name.
    pub(super) fn lanes(&self, batch_wakes_max: u32) -> impl Iterator<Item = (String, Value)> {
        (0..self.partitions).map(move |lane| {
            (lane_consumer(lane), self.lane_consumer_config(lane, batch_wakes_max))
        })
    }
}

/// `max_age` of a stream's configuration; 0 is no limit.
pub(crate) fn kept(stream_config: &Value) -> Option<Duration> {
    let nanos = stream_config["max_age"].as_u64().filter(|nanos| *nanos > 0)?;
    Some(Duration::from_nanos(nanos))
}

/// The number of partitions in a transform's destination, where it has the one form that the
/// worker knows: `wakes.{{partition(<P>,2,3)}}.{{wildcard(1)}}.{{wildcard(2)}}.{{wildcard(3)}}`.
pub(super) fn partitions_of(stream_config: &Value) -> Option<u32> {
    let destination = stream_config["subject_transform"]["dest"].as_str()?;
    let rest = destination.strip_prefix("wakes.{{partition(")?;
    let count = rest.strip_suffix(",2,3)}}.{{wildcard(1)}}.{{wildcard(2)}}.{{wildcard(3)}}")?;
    count.parse().ok()
}

fn read(
    directory: Option<&Path>,
    (name, compiled_in, kind): (&str, &str, Kind),
) -> Result<(Value, Option<u32>), TopologyError> {
    let compiled_in: Value = serde_json::from_str(compiled_in)
        .map_err(|error| fault(Path::new("streams").join(name), error.to_string()))?;
    let (file, config) = match directory {
        Some(directory) => match replaced(directory, name)? {
            Some(replaced) => replaced,
            None => (Path::new("streams").join(name), compiled_in.clone()),
        },
        None => (Path::new("streams").join(name), compiled_in.clone()),
    };
    let partitions = partitions_of(&config);
    if let Some(count) = partitions
        && !(1..=PARTITIONS_MAX).contains(&count)
    {
        let what = "partition(…) in subject_transform.dest";
        return Err(fault(file, format!("{what}: {count} is not between 1 and {PARTITIONS_MAX}")));
    }
    if config.get("max_ack_pending").is_some() {
        return Err(fault(file, "max_ack_pending: is derived from batch_wakes_max, remove it"));
    }
    let mut depended_on = compiled_in;
    if partitions.is_some() {
        depended_on["subject_transform"]["dest"] = config["subject_transform"]["dest"].clone();
    }
    if kind == Kind::Lane {
        for field in LANE_TIMES {
            // The worker reads both from here, so it keeps whatever pace is declared.
            let nanos = config[field].as_u64().unwrap_or(0);
            if !(LANE_TIME_NANOS_MIN..=LANE_TIME_NANOS_MAX).contains(&nanos) {
                let what = format!("{field}: wants 2 s to 5 min in nanoseconds");
                return Err(fault(file, format!("{what}, this says {}", config[field])));
            }
            depended_on[field] = config[field].clone();
        }
    }
    let differences = compare::fields(kind, &depended_on, &config);
    let broken = differences.iter().find(|difference| difference.effect == Effect::Behaviour);
    match broken {
        Some(FieldDifference { field, wanted, found, .. }) => {
            Err(fault(file, format!("{field}: wakegate depends on {wanted}, this says {found}")))
        }
        None => Ok((config, partitions)),
    }
}

/// The file in the directory, if there is one; a directory that cannot be read is a fault.
fn replaced(directory: &Path, name: &str) -> Result<Option<(PathBuf, Value)>, TopologyError> {
    if let Err(error) = fs::read_dir(directory) {
        return Err(fault(directory.to_owned(), error.to_string()));
    }
    let file = directory.join(name);
    let text = match fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(fault(file, error.to_string())),
    };
    match serde_json::from_str(&text) {
        Ok(config @ Value::Object(_)) => Ok(Some((file, config))),
        Ok(_) => Err(fault(file, "is no JSON object")),
        Err(error) => Err(fault(file, format!("is no JSON: {error}"))),
    }
}

fn fault(file: PathBuf, fault: impl Into<String>) -> TopologyError {
    TopologyError::File { file, fault: fault.into() }
}

/// Puts the number of the lane into every string.
fn fill_in(template: &Value, lane: &str) -> Value {
    match template {
        Value::String(text) => Value::String(text.replace(LANE, lane)),
        Value::Array(values) => values.iter().map(|value| fill_in(value, lane)).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (name.clone(), fill_in(value, lane))).collect()
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_file(name: &str, text: &str) -> Result<Topology, TopologyError> {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join(name), text).unwrap();
        Topology::load(Some(directory.path()))
    }

    fn wakes_with(field: &str, value: Value) -> String {
        let mut config: Value = serde_json::from_str(FILES[0].1).unwrap();
        config[field] = value;
        config.to_string()
    }

    #[test]
    fn the_compiled_in_declarations_are_well_formed() {
        let topology = Topology::load(None).unwrap();
        assert_eq!(topology.partitions(), 8);
        let lane = topology.lane_consumer_config(3, 500);
        assert_eq!(lane["durable_name"], "lane-3");
        assert_eq!(lane["filter_subject"], "wakes.3.>");
        assert_eq!(lane["max_ack_pending"], 1_000);
        assert_eq!(topology.lanes(500).count(), 8);
    }

    #[test]
    fn a_directory_replaces_file_by_file() {
        let transform = json!({
            "src": "wakes.*.*.*",
            "dest": "wakes.{{partition(3,2,3)}}.{{wildcard(1)}}.{{wildcard(2)}}.{{wildcard(3)}}",
        });
        let topology =
            with_file("wakes.json", &wakes_with("subject_transform", transform)).unwrap();
        assert_eq!(topology.partitions(), 3);
        assert_eq!(topology.wake_audit, Topology::load(None).unwrap().wake_audit);
        for (field, value) in [
            ("num_replicas", json!(3)),
            ("max_bytes", json!(1 << 30)),
            ("max_age", json!(0)),
            ("placement", json!({ "cluster": "east" })),
        ] {
            with_file("wakes.json", &wakes_with(field, value)).expect(field);
        }
    }

    #[test]
    fn the_times_of_a_lane_are_the_operators_choice() {
        let text = FILES[3].1.replace("12000000000", "3000000000");
        let topology = with_file("lane-consumer.json", &text).unwrap();
        assert_eq!(topology.lane_times(), (Duration::from_secs(3), Duration::from_secs(5)));
        assert_eq!(topology.lane_consumer_config(0, 1)["ack_wait"], 3_000_000_000_u64);
    }

    #[test]
    fn a_malformed_file_is_named_with_its_fault() {
        let too_many =
            "wakes.{{partition(257,2,3)}}.{{wildcard(1)}}.{{wildcard(2)}}.{{wildcard(3)}}";
        for (name, text, expected) in [
            ("wakes.json", "{".to_owned(), "wakes.json: is no JSON: EOF"),
            ("wakes.json", "[]".to_owned(), "wakes.json: is no JSON object"),
            ("wakes.json", wakes_with("name", json!("OTHER")), "name: wakegate depends on WAKES"),
            ("wakes.json", wakes_with("max_age", json!(1)), "max_age: wakegate depends on 7 d"),
            (
                "wakes.json",
                wakes_with("subject_transform", json!({ "src": "wakes.*.*.*", "dest": too_many })),
                "257 is not between 1 and 256",
            ),
            (
                "wakes.json",
                wakes_with("subject_transform", json!({ "src": "wakes.*.*.*", "dest": ">" })),
                "subject_transform.dest: wakegate depends on wakes.{{partition(8,2,3)}}",
            ),
            (
                "lane-consumer.json",
                FILES[3].1.replacen('{', "{\"max_ack_pending\": 5,", 1),
                "max_ack_pending: is derived from batch_wakes_max, remove it",
            ),
            (
                "lane-consumer.json",
                FILES[3].1.replace("5000000000", "1999999999"),
                "priority_timeout: wants 2 s to 5 min in nanoseconds, this says 1999999999",
            ),
            (
                "lane-consumer.json",
                FILES[3].1.replace("12000000000", "\"12s\""),
                "ack_wait: wants 2 s to 5 min in nanoseconds, this says \"12s\"",
            ),
            (
                "lane-consumer.json",
                FILES[3].1.replace("explicit", "none"),
                "lane-consumer.json: ack_policy: wakegate depends on explicit, this says none",
            ),
        ] {
            let error = with_file(name, &text).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_directory_that_is_not_there_is_a_fault() {
        let error = Topology::load(Some(Path::new("/nonexistent/streams"))).unwrap_err();
        assert!(error.to_string().starts_with("/nonexistent/streams: "), "{error}");
    }
}
