//! What replicas tell each other, on one subject of core NATS.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::plan::Standing;

/// Where replicas announce themselves.
pub(super) const SUBJECT: &str = "wake-replicas";
/// What is longer is no announcement: all lanes thrice need no more.
const BYTES_MAX: usize = 8 * 1_024;
const ID_BYTES_MAX: usize = 64;

/// One replica's word, repeated for as long as it lives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Announcement {
    /// Made up at each start.
    pub(super) replica: String,
    /// Whose lanes.
    pub(super) stream: String,
    /// When it started, in microseconds by its own clock: the order among replicas, and nothing else.
    pub(super) since: i64,
    /// Lanes that are pinned to it.
    #[serde(default)]
    pub(super) owns: BTreeSet<u32>,
    /// Lanes that it takes for its own, and pulls.
    #[serde(default)]
    pub(super) wants: BTreeSet<u32>,
    /// Lanes that it cannot work.
    #[serde(default)]
    pub(super) declines: BTreeSet<u32>,
    /// It is about to end.
    #[serde(default)]
    pub(super) leaving: bool,
}

impl Announcement {
    /// What a message says, if it is about the lanes of this stream.
    pub(super) fn read(body: &[u8], stream: &str) -> Option<Self> {
        if body.len() > BYTES_MAX {
            return None;
        }
        let announcement: Self = serde_json::from_slice(body).ok()?;
        let ours = announcement.stream == stream && announcement.replica.len() <= ID_BYTES_MAX;
        ours.then_some(announcement)
    }

    pub(super) fn standing(&self) -> Standing {
        Standing {
            owns: self.owns.clone(),
            wants: self.wants.clone(),
            declines: self.declines.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::PARTITIONS_MAX;

    #[test]
    fn an_announcement_of_every_lane_can_be_read() {
        let all: BTreeSet<u32> = (0..PARTITIONS_MAX).collect();
        let said = Announcement {
            replica: "x".repeat(ID_BYTES_MAX),
            stream: "WAKES".to_owned(),
            since: i64::MIN,
            owns: all.clone(),
            wants: all.clone(),
            declines: all,
            leaving: true,
        };
        let body = serde_json::to_vec(&said).unwrap();
        assert_eq!(Announcement::read(&body, "WAKES"), Some(said));
        assert_eq!(Announcement::read(&body, "OTHER"), None, "of another stream");
    }

    #[test]
    fn what_is_no_announcement_is_nothing() {
        let long = format!(r#"{{"replica":"{}","stream":"WAKES","since":1}}"#, "x".repeat(65));
        let longer = format!("{}{}", " ".repeat(BYTES_MAX), r#"{"replica":"a"}"#);
        for body in ["", "{}", "[]", r#"{"replica":1}"#, &long, &longer, "\u{0}"] {
            assert_eq!(Announcement::read(body.as_bytes(), "WAKES"), None, "{body}");
        }
        let newer = r#"{"replica":"a","stream":"WAKES","since":1,"unheard":[]}"#;
        assert!(Announcement::read(newer.as_bytes(), "WAKES").is_some(), "fields may be added");
    }
}
