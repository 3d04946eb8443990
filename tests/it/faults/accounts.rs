//! Adds up: every message of the stream has become exactly one thing, and nothing else is there.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::{FutureExt as _, StreamExt as _, TryStreamExt as _, stream};
use serde_json::json;
use wakegate::admission::ALLOWANCE_WAKES_MAX;
use wakegate::wake::decode::{Content, Message, decode};
use wakegate::wake::{Occurrence, UtcMicros, WakeId};

use crate::harness::outside::{Outside, OutsideRun};
use crate::through_servers::stage::{Dialect, Stage};
use crate::through_servers::story::assignment;

/// Messages read from a stream at once.
const READ_AT_ONCE: usize = 32;

/// What became of the messages of the stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Accounts {
    pub queued: usize,
    pub coalesced: usize,
    pub deduplicated: usize,
    pub refused: usize,
    pub no_wake: usize,
    pub rejected: usize,
    /// Decided with a row or an audit event, and no longer on the stream.
    pub gone: usize,
    /// Removed undecided, as the audit stream says.
    pub lost: u64,
}

impl Accounts {
    /// Messages accounted for that are on the stream.
    pub fn on_stream(&self) -> usize {
        let rows = self.queued + self.coalesced + self.refused;
        rows + self.deduplicated + self.no_wake + self.rejected
    }
}

/// What the tables and the audit stream hold.
struct Kept {
    runs: BTreeSet<String>,
    merged: BTreeSet<String>,
    refused: BTreeSet<String>,
    /// The run that each `<organization> <key>` was first seen with.
    keys: BTreeMap<String, String>,
    /// Every run, those included that are accounted for.
    all_runs: BTreeSet<String>,
    /// Message ids that the rows call for.
    called_for: BTreeSet<String>,
    /// Message ids on the audit stream, the lost aside.
    audited: BTreeSet<String>,
    lost: u64,
}

/// Adds up a stage on which everything is decided, within one window of the allowance.
///
/// # Panics
/// Where anything is missing, there twice, or there without a cause.
pub async fn add_up(stage: &Stage) -> Accounts {
    let mut kept = kept(stage).await;
    let most = "SELECT CAST(coalesce(max(wakes), 0) AS bigint) FROM (SELECT count(*) AS wakes \
        FROM runs WHERE reason = 'task_assigned' AND actor_type = 'agent' \
        AND task_id IS NOT NULL AND degraded_reason IS NULL GROUP BY organization_id, task_id) t";
    let most = stage.outside.number(most).await;
    assert!(most <= i64::from(ALLOWANCE_WAKES_MAX), "{most} in one window");
    let mut accounts = Accounts { lost: kept.lost, ..Accounts::default() };
    for message in messages(stage).await {
        account(&mut accounts, &mut kept, &message);
    }
    // What is left is of messages that the stream has no longer; what they were rejected for is on
    // the audit stream only.
    accounts.gone = kept.runs.len() + kept.merged.len() + kept.refused.len();
    kept.audited.retain(|id| {
        let gone = id.contains(".rejected.") && !kept.called_for.contains(id);
        accounts.gone += usize::from(gone);
        !gone
    });
    let missing: Vec<_> = kept.called_for.difference(&kept.audited).collect();
    assert!(missing.is_empty(), "recorded and not audited: {missing:?}");
    let uncaused: Vec<_> = kept.audited.difference(&kept.called_for).collect();
    assert!(uncaused.is_empty(), "audited and not recorded: {uncaused:?}");
    accounts
}

fn account(accounts: &mut Accounts, kept: &mut Kept, message: &Message) {
    let id = WakeId::derive(&message.stream, message.sequence, message.stored_at_nanos).to_string();
    let rows = [
        (&mut kept.runs, &mut accounts.queued),
        (&mut kept.merged, &mut accounts.coalesced),
        (&mut kept.refused, &mut accounts.refused),
    ];
    let mut found = 0;
    for (ids, count) in rows {
        if ids.remove(&id) {
            *count += 1;
            found += 1;
        }
    }
    let prefix = format!("{id}.rejected.");
    let rejections: Vec<String> =
        kept.audited.iter().filter(|audited| audited.starts_with(&prefix)).cloned().collect();
    let sequence = message.sequence;
    match decode(message).content {
        Content::Wake(_) if found == 1 => {
            assert_eq!(rejections.len(), 0, "{sequence} is decided and rejected");
        }
        Content::Wake(_) if rejections.len() == 1 => accounts.rejected += 1,
        Content::Wake(wake) => {
            let Occurrence::Keyed(key) = &wake.occurrence else {
                panic!("{sequence} became {found} rows, and has no key: {wake:?}")
            };
            let key = format!("{} {key}", wake.organization_id);
            let seen_with = kept.keys.get(&key);
            let is_duplicate = seen_with.is_some_and(|run| kept.all_runs.contains(run));
            assert!(found == 0 && is_duplicate, "{sequence}: {found} rows, {key} of {seen_with:?}");
            accounts.deduplicated += 1;
        }
        Content::NoWake(_) => {
            assert_eq!((found, rejections.len()), (0, 0), "{sequence} wakes nobody");
            accounts.no_wake += 1;
        }
        Content::Rejected(rejection) => {
            let expected = format!("{prefix}{}", rejection.reason.as_str());
            assert_eq!((found, &rejections), (0, &vec![expected]), "{sequence} is no wake");
            accounts.rejected += 1;
        }
    }
    kept.called_for.extend(rejections);
}

/// Every message of the intake stream, as a lane would be delivered it.
pub async fn messages(stage: &Stage) -> Vec<Message> {
    let mut wakes = stage.context.get_stream("WAKES").await.unwrap();
    let held = wakes.info().await.unwrap().state.clone();
    let name: Arc<str> = Arc::from("WAKES");
    let read = async |sequence: u64| wakes.get_raw_message(sequence).await.ok();
    let read: Vec<_> = stream::iter(held.first_sequence.max(1)..=held.last_sequence)
        .map(read)
        .buffered(READ_AT_ONCE)
        .filter_map(async |message| message)
        .collect()
        .await;
    assert_eq!(read.len() as u64, held.messages, "every message can be read");
    read.into_iter()
        .map(|message| Message {
            stream: Arc::clone(&name),
            sequence: message.sequence,
            stored_at_nanos: message.time.unix_timestamp_nanos(),
            requested_at: UtcMicros::from_nanos(message.time.unix_timestamp_nanos()),
            subject: Arc::from(message.subject.as_str()),
            body: message.payload,
            traceparent: None,
            tracestate: None,
            outcome_to: None,
        })
        .collect()
}

async fn kept(stage: &Stage) -> Kept {
    let outside = &stage.outside;
    let runs = texts(outside, "SELECT CAST(id AS text) FROM runs").await;
    let merged = texts(outside, "SELECT CAST(wake_id AS text) FROM merged_wakes").await;
    let refused = texts(outside, "SELECT CAST(wake_id AS text) FROM refused_wakes").await;
    let joined = "SELECT CAST(coalesce(sum(coalesced_count - 1), 0) AS bigint) FROM runs";
    assert_eq!(outside.number(joined).await, i64::try_from(merged.len()).unwrap());
    let keys = "SELECT CAST(run_id AS text) || ' ' || organization_id || ' ' || idempotency_key \
                FROM wake_keys";
    let keys = texts(outside, keys).await.into_iter().map(|row| {
        let (run, key) = row.split_once(' ').expect("a run and its key");
        (key.to_owned(), run.to_owned())
    });
    let mut called_for =
        texts(outside, "SELECT CAST(wake_id AS text) || '.refused.' || reason FROM refused_wakes")
            .await;
    called_for.extend(
        texts(
            outside,
            "SELECT CAST(id AS text) || '.degraded.' || degraded_reason FROM runs \
             WHERE degraded_reason IS NOT NULL",
        )
        .await,
    );
    let mut audited = BTreeMap::new();
    let mut lost = 0;
    for event in stage.audited().await {
        if event.subject.starts_with("wake-audit.lost.") {
            lost += event.record["wakes"].as_u64().expect("it says how many");
            continue;
        }
        let before = audited.insert(event.message_id.clone(), event.record.clone());
        assert!(before.is_none(), "audited twice: {event:?}");
    }
    let runs = distinct(runs);
    Kept {
        all_runs: runs.clone(),
        runs,
        merged: distinct(merged),
        refused: distinct(refused),
        keys: keys.collect(),
        called_for: distinct(called_for),
        audited: audited.into_keys().collect(),
        lost,
    }
}

fn distinct(texts: Vec<String>) -> BTreeSet<String> {
    let count = texts.len();
    let distinct: BTreeSet<String> = texts.into_iter().collect();
    assert_eq!(distinct.len(), count, "nothing is there twice");
    distinct
}

async fn texts(outside: &Outside, sql: &str) -> Vec<String> {
    let sql = sqlx::AssertSqlSafe(sql.to_owned());
    match outside {
        Outside::Sqlite(pool) => sqlx::query_scalar(sql).fetch(pool).try_collect().await,
        Outside::Postgres(pool) => sqlx::query_scalar(sql).fetch(pool).try_collect().await,
    }
    .unwrap()
}

/// A stage on which something of everything has been decided, and adds up.
async fn decided() -> (Stage, Accounts) {
    let stage = Stage::set(Dialect::Sqlite).await;
    stage.outside.set_agent("acme", "stopped", "stopped").await;
    for event in [
        assignment("t1", "a1", 1),
        assignment("t1", "a1", 2),
        assignment("t1", "a1", 1),
        assignment("t1", "stopped", 1),
        assignment("t1", "", 1),
        assignment("t1", "a1", 1).with(json!({ "type": "unheard.of.v1" })),
    ] {
        stage.publish(&event).await;
    }
    stage.catch_up();
    let accounts = add_up(&stage).await;
    (stage, accounts)
}

/// The accounts are what every test of a fault relies on, so they must not balance by themselves.
#[tokio::test]
async fn what_is_missing_or_too_much_does_not_add_up() {
    let (stage, accounts) = decided().await;
    let of_each = Accounts {
        queued: 1,
        coalesced: 1,
        deduplicated: 1,
        refused: 1,
        no_wake: 1,
        rejected: 1,
        ..Accounts::default()
    };
    assert_eq!(accounts, of_each);
    stage.outside.insert_run(&OutsideRun { status: "claimed", ..OutsideRun::default() }).await;
    assert_eq!(add_up(&stage).await, Accounts { gone: 1, ..of_each });

    for tamper in [
        "DELETE FROM runs WHERE coalesced_count = 1",
        "DELETE FROM merged_wakes",
        "DELETE FROM refused_wakes",
        "DELETE FROM wake_keys",
        "UPDATE runs SET coalesced_count = coalesced_count + 1",
        "UPDATE refused_wakes SET reason = 'agent_paused'",
        "UPDATE runs SET degraded_reason = 'count_read_failed'",
    ] {
        let (stage, _) = decided().await;
        if tamper.contains("coalesced_count = 1") {
            stage.publish(&assignment("t2", "a2", 1)).await;
            stage.catch_up();
        }
        stage.outside.execute(&format!("PRAGMA foreign_keys = OFF; {tamper}")).await;
        let added = AssertUnwindSafe(add_up(&stage)).catch_unwind().await;
        assert!(added.is_err(), "{tamper}: {added:?}");
    }

    let (stage, _) = decided().await;
    stage.publish(&assignment("t2", "a2", 1)).await;
    assert!(AssertUnwindSafe(add_up(&stage)).catch_unwind().await.is_err(), "undecided");
    stage.catch_up();
    let mut headers = async_nats::HeaderMap::new();
    headers.insert("Nats-Msg-Id", "nobody.refused.agent_stopped");
    stage.send_to("wake-audit.refused.agent_stopped.acme", headers, "{}".into()).await;
    assert!(AssertUnwindSafe(add_up(&stage)).catch_unwind().await.is_err(), "without a cause");
}
