//! A PostgreSQL of one test's own, to be killed, started again and turned into a standby.
//!
//! Its parent is a shell that reads what to do from a pipe held by the test process, so that it
//! cannot outlive the test.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use sqlx::Connection as _;
use sqlx::postgres::{PgConnection, PgPool, PgPoolOptions};

use super::postgres::{run, supervised, unprivileged_user};
use super::until_some;

/// `start` starts the server; `kill` ends it and everything it started, as a power failure would,
/// and answers once that is done.
const SUPERVISE: &str = r#"
trap '' INT TERM HUP
directory=$1; shift
while read -r word; do
    case $word in
    start)
        "$@" >>"$directory/log" 2>&1 </dev/null &
        server=$! ;;
    kill)
        started=$(cat /proc/$server/task/$server/children)
        kill -KILL $server $started 2>/dev/null
        wait $server 2>/dev/null
        for one in $started; do while kill -0 $one 2>/dev/null; do :; done; done
        echo gone ;;
    esac
done
kill -QUIT $server 2>/dev/null
wait $server
rm -rf "$directory"
"#;

/// A server of its own.
pub struct Cluster {
    supervisor: Child,
    directory: PathBuf,
    port: u16,
}

impl Cluster {
    /// A server that answers.
    pub async fn start() -> Self {
        let settings = ["shared_buffers=32MB", "wal_level=replica"];
        let (mut supervisor, directory, port) =
            supervised(SUPERVISE, "wakegate-own-pg-", 100, settings);
        let supervisor = supervisor.stdout(Stdio::piped()).spawn().expect("sh can be started");
        let mut cluster = Self { supervisor, directory, port };
        cluster.start_again().await;
        cluster
    }

    /// `postgres://…`
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// Connections of the test's own.
    pub fn pool(&self) -> PgPool {
        PgPoolOptions::new().max_connections(4).connect_lazy(&self.url()).unwrap()
    }

    /// Ends every process of the server with SIGKILL.
    pub fn kill(&mut self) {
        use std::io::BufRead as _;
        self.tell("kill");
        let answers = self.supervisor.stdout.as_mut().expect("it is piped");
        let mut answer = String::new();
        std::io::BufReader::new(answers).read_line(&mut answer).unwrap();
        assert_eq!(answer, "gone\n", "{}", self.log());
    }

    /// Starts the server on what it left behind, and waits until it answers.
    pub async fn start_again(&mut self) {
        self.tell("start");
        let answers = async || {
            let mut connection = PgConnection::connect(&self.url()).await.ok()?;
            sqlx::query("SELECT 1").execute(&mut connection).await.ok().map(drop)
        };
        until_some(answers, || self.log()).await;
    }

    /// The next start is as a standby, in recovery until it is promoted.
    pub fn be_a_standby(&self) {
        let signal = self.directory.join("data/standby.signal");
        fs::write(&signal, "").unwrap();
        if let Some(user) = unprivileged_user() {
            run(Command::new("chown").arg(user).arg(&signal));
        }
    }

    fn tell(&mut self, word: &str) {
        let pipe = self.supervisor.stdin.as_mut().expect("it is piped");
        writeln!(pipe, "{word}").expect("the supervisor reads");
    }

    fn log(&self) -> String {
        fs::read_to_string(self.directory.join("log")).unwrap_or_default()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        drop(self.supervisor.stdin.take());
        let _ = self.supervisor.wait();
    }
}
