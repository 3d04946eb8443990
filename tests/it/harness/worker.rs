//! The real worker as a process of its own, to be watched, signalled, frozen and killed.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::Value;

use super::http::{Answer, request};
use super::lines::{Lines, collect};
use super::{until_or, until_some};

/// Ends the worker when the test process is gone, however that ended; one word on its standard
/// input lets it go.
const WATCH: &str = r#"read -r word || kill -KILL "$1" 2>/dev/null"#;
const SERVING: &str = "serving /metrics, /livez and /readyz";
/// Lines of the worker's log in the message of a test that failed.
const LOG_LINES: usize = 40;

/// Series by name and labels, as scraped.
pub(crate) type Series = BTreeMap<String, f64>;

/// A `wakegate run` of the test's own, gone when this is dropped.
pub(crate) struct Worker {
    child: Child,
    watch: (Child, Option<ChildStdin>),
    lines: Lines,
    addr: SocketAddr,
}

impl Worker {
    /// Starts a command that runs a worker, and waits until it serves HTTP. The command listens on
    /// port 0 and logs JSON.
    pub(crate) async fn spawn(mut command: Command) -> Self {
        command.env("WAKEGATE_HTTP_ADDR", "127.0.0.1:0").stderr(Stdio::piped());
        let mut child = command.stdout(Stdio::null()).spawn().expect("wakegate starts");
        let watch = watch(child.id());
        let stderr = child.stderr.take().expect("standard error is piped");
        let lines = collect(stderr);
        let addr = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut worker = Self { child, watch, lines, addr };
        let log = Arc::clone(&worker.lines);
        until_or(|| serving(&log).is_some(), || worker.told("the worker serves no HTTP")).await;
        worker.addr = serving(&log).expect("it was there a moment ago");
        worker
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Where it serves HTTP.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Waits until `/readyz` answers 200.
    pub(crate) async fn ready(&self) {
        self.until_readyz("the worker is not ready", |answer| answer.status == 200).await;
    }

    /// Waits until `/readyz` answers as wanted, and returns what it says.
    pub(crate) async fn until_readyz(
        &self,
        otherwise: &str,
        wanted: impl Fn(&Answer) -> bool,
    ) -> Value {
        let ask = async || {
            let answer = request(self.addr, "GET", "/readyz").await.ok()?;
            wanted(&answer).then(|| answer.json())
        };
        until_some(ask, || self.told(otherwise)).await
    }

    /// Every series, as scraped.
    pub(crate) async fn scrape(&self) -> Series {
        let answer = request(self.addr, "GET", "/metrics").await;
        let answer = answer.unwrap_or_else(|e| panic!("{}", self.told(&format!("/metrics: {e}"))));
        let series = answer.body.lines().filter(|line| !line.starts_with('#'));
        series
            .map(|line| line.rsplit_once(' ').expect("a series and its value"))
            .map(|(name, value)| (name.to_owned(), value.parse().expect("a number")))
            .collect()
    }

    /// The series of these names that have moved, by name and labels.
    pub(crate) async fn moved(&self, names: &[&str]) -> Series {
        let mut series = self.scrape().await;
        series.retain(|name, value| {
            let family = name.split('{').next().unwrap_or(name);
            *value != 0.0 && names.contains(&family)
        });
        series
    }

    /// Sends a signal by its name: `TERM`, `KILL`, `STOP`, `CONT`.
    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status();
        assert!(status.is_ok_and(|status| status.success()), "kill -s {name}");
    }

    /// Ends the process as a crash would, and returns when it is gone.
    pub(crate) fn kill(mut self) {
        self.end();
    }

    /// Waits until the process has ended by itself.
    pub(crate) async fn ended(&mut self) -> ExitStatus {
        let lines = Arc::clone(&self.lines);
        let explain = || format!("the worker does not end: {:?}", lines.lock().unwrap().last());
        until_some(async || self.child.try_wait().expect("a child can be waited for"), explain)
            .await
    }

    /// Whether the process still runs.
    pub(crate) fn runs(&mut self) -> bool {
        self.child.try_wait().expect("a child can be waited for").is_none()
    }

    /// Everything that it has logged so far.
    pub(crate) fn log(&self) -> String {
        self.lines.lock().unwrap().join("\n")
    }

    /// Waits for a line of the log that contains `text`.
    pub(crate) async fn until_logged(&self, text: &str) {
        until_or(|| self.log().contains(text), || self.told(&format!("never logged: {text}")))
            .await;
    }

    /// `what`, with the end of the log.
    pub(crate) fn told(&self, what: &str) -> String {
        let lines = self.lines.lock().unwrap();
        let last = &lines[lines.len().saturating_sub(LOG_LINES)..];
        format!("{what}; the worker's log ends:\n{}", last.join("\n"))
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(mut pipe) = self.watch.1.take() {
            let _ = std::io::Write::write_all(&mut pipe, b"gone\n");
        }
        let _ = self.watch.0.wait();
    }
}

impl Drop for Worker {
    #[expect(clippy::print_stderr, reason = "a failed test must say what its workers did")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.told(&format!("worker {}", self.child.id())));
        }
        self.end();
    }
}

fn watch(process: u32) -> (Child, Option<ChildStdin>) {
    let mut watch = Command::new("sh")
        .args(["-c", WATCH, "worker-watch", &process.to_string()])
        .stdin(Stdio::piped())
        .spawn()
        .expect("sh can be started");
    let pipe = watch.stdin.take();
    (watch, pipe)
}

/// The address in the log, once it is there.
fn serving(lines: &Mutex<Vec<String>>) -> Option<SocketAddr> {
    let lines = lines.lock().unwrap();
    let line = lines.iter().find(|line| line.contains(SERVING))?;
    let line: Value = serde_json::from_str(line).expect("the log is JSON");
    line["addr"].as_str()?.parse().ok()
}
