//! A nats-server, a database, streams and tables, and everyone who plays a part beside the worker.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_nats::jetstream::consumer::{Info, PullConsumer};
use async_nats::jetstream::{self, Context};
use async_nats::{HeaderMap, HeaderValue, Subscriber};
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use sqlx::Connection as _;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool, SqlitePoolOptions};
use tempfile::TempDir;
use wakegate::wake::token::token;

use crate::harness::command::{self, Ended, ended};
use crate::harness::nats::Nats;
use crate::harness::outside::Outside;
use crate::harness::postgres::{self, TestDatabase};
use crate::harness::worker::Worker;
use crate::harness::world::Published;
use crate::harness::{PATIENCE, schema, sqlite, until_some};

/// Which database the worker is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    Sqlite,
    Postgres,
}

/// What a test wants other than it comes.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// Lanes; one keeps everything in one order.
    pub partitions: u32,
    /// `lanes.batch_wakes_max`.
    pub batch_wakes_max: u32,
    /// The lanes' `ack_wait`.
    pub ack_wait: Duration,
    /// The lanes' `priority_timeout`.
    pub pin_timeout: Duration,
}

/// As short as a declaration allows, so that a take-over takes seconds.
impl Default for Setting {
    fn default() -> Self {
        Self {
            partitions: 1,
            batch_wakes_max: 500,
            ack_wait: Duration::from_secs(2),
            pin_timeout: Duration::from_secs(2),
        }
    }
}

/// One event of the audit stream.
#[derive(Debug, Clone, PartialEq)]
pub struct Audited {
    pub subject: String,
    pub message_id: String,
    pub record: Value,
}

/// Everything of one test. The fields are dropped in this order.
pub struct Stage {
    pub outside: Outside,
    pub context: Context,
    pub nats: Nats,
    pub database_url: String,
    pub directory: TempDir,
    outcomes: tokio::sync::Mutex<Outcomes>,
    asked: AtomicU64,
    pub setting: Setting,
    _database: Database,
}

enum Database {
    Sqlite { _directory: TempDir },
    Postgres { _database: TestDatabase },
}

struct Outcomes {
    arriving: Subscriber,
    arrived: BTreeMap<String, Vec<Value>>,
}

impl Stage {
    /// Servers, tables and streams as a worker wants them, with one lane.
    pub async fn set(dialect: Dialect) -> Self {
        Self::with(dialect, Setting::default()).await
    }

    /// As [`Stage::set`], with a setting.
    pub async fn with(dialect: Dialect, setting: Setting) -> Self {
        let stage = Self::bare(dialect, setting, Nats::start().await).await;
        stage.apply_streams();
        stage
    }

    /// A server without streams.
    pub async fn bare(dialect: Dialect, setting: Setting, nats: Nats) -> Self {
        let (database, database_url, outside) = match dialect {
            Dialect::Sqlite => {
                let (directory, url) = sqlite::database().await;
                let outside = Outside::Sqlite(sqlite_pool(&url));
                (Database::Sqlite { _directory: directory }, url, outside)
            }
            Dialect::Postgres => {
                let database = postgres::database().await;
                let (url, outside) = (database.url(), Outside::Postgres(database.pool()));
                (Database::Postgres { _database: database }, url, outside)
            }
        };
        let client = nats.client().await;
        let arriving = client.subscribe("wake-outcomes.>").await.unwrap();
        client.flush().await.unwrap();
        let directory = tempfile::tempdir().unwrap();
        declare(directory.path(), setting);
        Self {
            outside,
            // Who runs a worker to its end meanwhile keeps a test's only thread, and answers wait.
            context: jetstream::ContextBuilder::new().timeout(PATIENCE).build(client),
            nats,
            database_url,
            directory,
            outcomes: tokio::sync::Mutex::new(Outcomes { arriving, arrived: BTreeMap::new() }),
            asked: AtomicU64::new(0),
            setting,
            _database: database,
        }
    }

    /// `wakegate` with this stage's servers and nothing else.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = command::wakegate(self.directory.path(), arguments);
        command
            .env("WAKEGATE_NATS_URL", self.nats.url())
            .env("WAKEGATE_DATABASE_URL", &self.database_url)
            .env("WAKEGATE_STREAMS_DIRECTORY", self.directory.path())
            .env("WAKEGATE_LANES_BATCH_WAKES_MAX", self.setting.batch_wakes_max.to_string())
            .env("WAKEGATE_LANES_HOLD_BACKOFF_MS_MAX", "200")
            .env("WAKEGATE_DATABASE_READ_DEADLINE_MS", "2000")
            .env("WAKEGATE_DATABASE_RECORD_DEADLINE_MS", "2000")
            .env("WAKEGATE_NATS_REQUEST_TIMEOUT_MS", "2000")
            // A take-over logs why.
            .env("WAKEGATE_LOG_LEVEL", "info,wakegate=debug");
        command
    }

    /// Runs a command to its end.
    pub fn run(&self, arguments: &[&str]) -> Ended {
        ended(self.command(arguments).env("WAKEGATE_HTTP_ADDR", "127.0.0.1:0"))
    }

    /// `wakegate streams apply`.
    pub fn apply_streams(&self) {
        let applied = self.run(&["streams", "apply"]);
        assert_eq!(applied.code, Some(0), "{}", applied.stderr);
    }

    /// Decides everything that is there.
    pub fn catch_up(&self) -> Ended {
        let ended = self.run(&["run", "--until-caught-up"]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        ended
    }

    /// A worker that serves HTTP and may still wait.
    pub async fn worker_starting(&self) -> Worker {
        Worker::spawn(self.command(&["run"])).await
    }

    /// A worker that is ready.
    pub async fn worker(&self) -> Worker {
        self.worker_with(&[]).await
    }

    /// One that has these variables as well.
    pub async fn worker_with(&self, variables: &[(&str, &str)]) -> Worker {
        let mut command = self.command(&["run"]);
        command.envs(variables.iter().copied());
        let worker = Worker::spawn(command).await;
        worker.ready().await;
        worker
    }

    /// Publishes one event and returns its sequence.
    pub async fn publish(&self, event: &Published) -> u64 {
        self.send(event, HeaderMap::new()).await
    }

    /// Publishes one event with headers.
    pub async fn send(&self, event: &Published, headers: HeaderMap) -> u64 {
        self.send_to(&subject(event), headers, event.body.clone()).await
    }

    /// Publishes bytes.
    pub async fn send_to(&self, subject: &str, headers: HeaderMap, body: bytes::Bytes) -> u64 {
        let sent = self.context.publish_with_headers(subject.to_owned(), headers, body).await;
        sent.unwrap().await.expect("the stream takes it").sequence
    }

    /// Publishes one event, with where its outcome is wanted; [`Stage::outcome`] waits for it.
    pub async fn ask(&self, event: &Published) -> Asked {
        self.ask_at(&subject(event), event.body.clone()).await
    }

    /// As [`Stage::ask`], on a subject of the test's own.
    pub async fn ask_at(&self, subject: &str, body: bytes::Bytes) -> Asked {
        let reply = format!("wake-outcomes.n{}", self.asked.fetch_add(1, Ordering::Relaxed));
        let mut headers = HeaderMap::new();
        headers.insert("Wakegate-Outcome-To", reply.parse::<HeaderValue>().unwrap());
        let sequence = self.send_to(subject, headers, body).await;
        Asked { sequence, reply }
    }

    /// Waits for the outcome of an event.
    pub async fn outcome(&self, asked: &Asked) -> Value {
        let mut outcomes = self.outcomes.lock().await;
        let arrives = async {
            loop {
                let record = outcomes.arrived.get_mut(&asked.reply).and_then(Vec::pop);
                if let Some(record) = record {
                    return record;
                }
                let message = outcomes.arriving.next().await.expect("the subscription lives");
                let record = serde_json::from_slice(&message.payload).expect("a record is JSON");
                schema::hold("outcome", &record);
                outcomes.arrived.entry(message.subject.to_string()).or_default().push(record);
            }
        };
        let told = tokio::time::timeout(PATIENCE, arrives).await;
        told.unwrap_or_else(|_| panic!("no outcome for {asked:?}; {}", self.nats.log()))
    }

    /// Publishes one event and waits for its outcome.
    pub async fn publish_for_outcome(&self, event: &Published) -> Value {
        let asked = self.ask(event).await;
        self.outcome(&asked).await
    }

    /// Every event of the audit stream, oldest first.
    pub async fn audited(&self) -> Vec<Audited> {
        let mut stream = self.context.get_stream("WAKE_AUDIT").await.unwrap();
        let last = stream.info().await.unwrap().state.last_sequence;
        let mut events = Vec::new();
        for sequence in 1..=last {
            let message = stream.get_raw_message(sequence).await.unwrap();
            let id = message.headers.get("Nats-Msg-Id").map(|id| id.as_str().to_owned());
            let record = serde_json::from_slice(&message.payload).unwrap();
            let of_lost_wakes = message.subject.starts_with("wake-audit.lost.");
            schema::hold(if of_lost_wakes { "outcome-lost" } else { "outcome" }, &record);
            events.push(Audited {
                subject: message.subject.to_string(),
                message_id: id.expect("an audit event has a message id"),
                record,
            });
        }
        events
    }

    /// What the server says of a lane.
    pub async fn lane(&self, lane: u32) -> Info {
        let name = format!("lane-{lane}");
        let consumer: PullConsumer =
            self.context.get_consumer_from_stream(name, "WAKES").await.unwrap();
        consumer.cached_info().clone()
    }

    /// Waits until a lane is as wanted.
    pub async fn until_lane(&self, lane: u32, otherwise: &str, wanted: impl Fn(&Info) -> bool) {
        let ask = async || wanted(&self.lane(lane).await).then_some(());
        until_some(ask, || format!("{otherwise}; {}", self.nats.log())).await;
    }

    /// Waits until every lane has nothing pending and nothing unacknowledged.
    pub async fn settled(&self) {
        for lane in 0..self.setting.partitions {
            self.until_lane(lane, "the lane never settled", |info| {
                info.num_pending == 0 && info.num_ack_pending == 0
            })
            .await;
        }
    }

    /// Waits until a statement answers with a number at least as large.
    pub async fn until_number(&self, sql: &str, least: i64) {
        let ask = async || (self.outside.number(sql).await >= least).then_some(());
        until_some(ask, || format!("{sql}: never {least}")).await;
    }

    /// PostgreSQL turns everybody out of this database and lets nobody in, or lets them in again.
    pub async fn refuse_connections(&self, refuse: bool) {
        let allow = if refuse { "false" } else { "true" };
        self.alter_database(&format!("WITH ALLOW_CONNECTIONS {allow}"), refuse).await;
    }

    /// PostgreSQL refuses every write to this database, as a standby does, or takes them again.
    pub async fn read_only(&self, read_only: bool) {
        let setting = if read_only { "on" } else { "off" };
        self.alter_database(&format!("SET default_transaction_read_only = {setting}"), true).await;
    }

    async fn alter_database(&self, how: &str, turn_out: bool) {
        let (server, name) = self.database_url.rsplit_once('/').expect("it names a database");
        let other = format!("{server}/postgres");
        let mut connection = sqlx::PgConnection::connect(&other).await.unwrap();
        let alter = sqlx::AssertSqlSafe(format!("ALTER DATABASE {name} {how}"));
        sqlx::raw_sql(alter).execute(&mut connection).await.unwrap();
        if turn_out {
            let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1";
            sqlx::query(end).bind(name).execute(&mut connection).await.unwrap();
        }
        connection.close().await.unwrap();
    }

    /// Takes the lanes' consumers away and makes them again: everything that the stream keeps is
    /// delivered again.
    pub async fn deliver_everything_again(&self) {
        for lane in 0..self.setting.partitions {
            let name = format!("lane-{lane}");
            self.context.delete_consumer_from_stream(name, "WAKES").await.unwrap();
        }
        self.apply_streams();
    }

    /// Every row that wakegate keeps of wakes, as JSON, sorted.
    pub async fn rows(&self) -> Vec<String> {
        let mut rows = Vec::new();
        for table in
            ["runs", "merged_wakes", "refused_wakes", "shadowed_wakes", "wake_keys", "lanes"]
        {
            let found: Vec<String> = match &self.outside {
                Outside::Sqlite(pool) => {
                    let names = "SELECT group_concat(name) FROM pragma_table_info(?)";
                    let names: String =
                        sqlx::query_scalar(names).bind(table).fetch_one(pool).await.unwrap();
                    let sql = format!("SELECT json_array({names}) FROM {table}");
                    sqlx::query_scalar(sqlx::AssertSqlSafe(sql)).fetch_all(pool).await.unwrap()
                }
                Outside::Postgres(pool) => {
                    let sql = format!("SELECT row_to_json(t)::text FROM {table} t");
                    sqlx::query_scalar(sqlx::AssertSqlSafe(sql)).fetch_all(pool).await.unwrap()
                }
            };
            let mut found: Vec<String> =
                found.into_iter().map(|row| format!("{table} {row}")).collect();
            found.sort();
            rows.extend(found);
        }
        rows
    }
}

/// An event on its way.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Its sequence on the stream.
    pub sequence: u64,
    reply: String,
}

/// Where an event is published.
pub fn subject(event: &Published) -> String {
    format!("wakes.{}.{}.{}", event.producer, token(&event.organization), token(&event.task))
}

fn sqlite_pool(url: &str) -> SqlitePool {
    let options: SqliteConnectOptions = url.parse().unwrap();
    SqlitePoolOptions::new()
        .max_connections(4)
        .connect_lazy_with(options.busy_timeout(Duration::from_secs(20)))
}

/// The declarations of the repository, with this setting.
fn declare(directory: &Path, setting: Setting) {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("streams");
    let read = |name: &str| -> Value {
        serde_json::from_str(&std::fs::read_to_string(repository.join(name)).unwrap()).unwrap()
    };
    let write = |name: &str, value: &Value| {
        std::fs::write(directory.join(name), value.to_string()).unwrap();
    };
    let mut wakes = read("wakes.json");
    wakes["subject_transform"]["dest"] = json!(format!(
        "wakes.{{{{partition({},2,3)}}}}.{{{{wildcard(1)}}}}.{{{{wildcard(2)}}}}.{{{{wildcard(3)}}}}",
        setting.partitions
    ));
    write("wakes.json", &wakes);
    let mut lane = read("lane-consumer.json");
    let nanos = |time: Duration| json!(u64::try_from(time.as_nanos()).unwrap());
    lane["ack_wait"] = nanos(setting.ack_wait);
    lane["priority_timeout"] = nanos(setting.pin_timeout);
    write("lane-consumer.json", &lane);
}
