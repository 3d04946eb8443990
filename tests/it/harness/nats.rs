//! A private nats-server.
//!
//! Each test has its own, with its own store and a port that the server chose. The server's parent
//! is a small shell that waits on a pipe held by the test process, so a server cannot outlive its
//! test, however that ends.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// The oldest server with pinned consumers.
const VERSION_MIN: (u32, u32) = (2, 11);
/// A start takes about 50 ms; a busy machine may take a hundred times that.
const START_WITHIN: Duration = Duration::from_secs(20);
const POLL_EVERY: Duration = Duration::from_millis(3);

/// Reads one word, the signal to end the server with; an end of file means that the test process
/// is gone. It exits only when the server has.
const SUPERVISOR: &str = r#"
"$1" -c "$2" >>"$3" 2>&1 </dev/null &
read -r signal || signal=KILL
kill -s "$signal" $! 2>/dev/null
wait $! 2>/dev/null
exit 0
"#;

/// A nats-server of its own, gone when this value is dropped or the process ends.
pub(crate) struct Nats {
    // Declared first: the server must be gone before its directory is.
    supervisor: Option<Supervisor>,
    directory: Option<TempDir>,
    path: PathBuf,
    port: u16,
    jetstream: JetStream,
    extra: String,
}

/// Whether the server has JetStream.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum JetStream {
    On,
    Off,
}

impl Nats {
    /// A server with JetStream and no authentication.
    pub(crate) async fn start() -> Self {
        Self::start_with(JetStream::On, "").await
    }

    /// A server with more lines in its configuration: users, permissions, limits.
    pub(crate) async fn start_with(jetstream: JetStream, extra: &str) -> Self {
        let directory = tempfile::Builder::new()
            .prefix("wakegate-nats-")
            .tempdir()
            .expect("a temporary directory can be made");
        let path = directory.path().to_owned();
        let mut nats = Self {
            supervisor: None,
            directory: Some(directory),
            path,
            port: 0,
            jetstream,
            extra: extra.to_owned(),
        };
        nats.start_again().await;
        nats
    }

    /// `nats://127.0.0.1:<port>`, the same after [`Nats::start_again`].
    pub(crate) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// A client without credentials, connected.
    pub(crate) async fn client(&self) -> async_nats::Client {
        self.client_with(async_nats::ConnectOptions::new()).await
    }

    /// A client with options of the test's own, connected.
    pub(crate) async fn client_with(
        &self,
        options: async_nats::ConnectOptions,
    ) -> async_nats::Client {
        match options.connect(self.url()).await {
            Ok(client) => client,
            Err(error) => panic!("cannot connect to {}: {error}; {}", self.url(), self.log()),
        }
    }

    /// Ends the server as a crash would (SIGKILL) and returns when it is gone.
    pub(crate) fn kill(&mut self) {
        self.end("KILL");
    }

    /// Ends the server in order (SIGTERM) and returns when it is gone.
    pub(crate) fn stop(&mut self) {
        self.end("TERM");
    }

    /// Starts the server on the same port and store after [`Nats::kill`] or [`Nats::stop`].
    pub(crate) async fn start_again(&mut self) {
        assert!(self.supervisor.is_none(), "the server is already running");
        let deadline = Instant::now() + START_WITHIN;
        loop {
            self.forget_last_start();
            self.supervisor = Some(self.spawn());
            match self.wait_for_port(deadline).await {
                Start::Up(port) => {
                    self.port = port;
                    return;
                }
                // Another process may hold the port for a moment, as the near end of a connection.
                Start::PortTaken => self.end("KILL"),
            }
        }
    }

    /// Loses everything that the server has stored; it must not be running.
    pub(crate) fn lose_everything(&self) {
        assert!(self.supervisor.is_none(), "the server is running");
        fs::remove_dir_all(self.path.join("jetstream")).expect("it has stored something");
    }

    /// Where the server logs; the end of it belongs into a panic message.
    pub(crate) fn log(&self) -> String {
        let path = self.log_path();
        let text = fs::read_to_string(&path).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let mut message = format!("server log {}:", path.display());
        for line in &lines[lines.len().saturating_sub(15)..] {
            let _ = write!(message, "\n    {line}");
        }
        message
    }

    fn log_path(&self) -> PathBuf {
        self.path.join("server.log")
    }

    fn forget_last_start(&self) {
        for file in self.ports_files() {
            let _ = fs::remove_file(file);
        }
    }

    fn ports_files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.path).expect("the server's directory can be read");
        entries
            .filter_map(|entry| entry.ok().map(|entry| entry.path()))
            .filter(|path| path.extension().is_some_and(|extension| extension == "ports"))
            .collect()
    }

    fn spawn(&self) -> Supervisor {
        let config = self.path.join("server.conf");
        fs::write(&config, self.config()).expect("the configuration can be written");
        let log = self.log_path();
        // A start after a crash is judged by its own lines.
        let _ = fs::rename(&log, self.path.join("server.previous.log"));
        let child = Command::new("sh")
            .args(["-c", SUPERVISOR, "nats-supervisor"])
            .arg(server_binary())
            .arg(&config)
            .arg(&log)
            .stdin(Stdio::piped())
            .spawn()
            .expect("sh can be started");
        Supervisor { child }
    }

    fn config(&self) -> String {
        let directory = self.path.display();
        let port = if self.port == 0 { -1 } else { i32::from(self.port) };
        let mut config = format!(
            "host: \"127.0.0.1\"\nport: {port}\nports_file_dir: \"{directory}\"\n{}\n",
            self.extra
        );
        if self.jetstream == JetStream::On {
            let _ = writeln!(config, "jetstream {{ store_dir: \"{directory}/jetstream\" }}");
        }
        config
    }

    /// The server writes its ports file when it accepts connections, JetStream included.
    async fn wait_for_port(&self, deadline: Instant) -> Start {
        let mut looks = tokio::time::interval(POLL_EVERY);
        loop {
            if let Some(port) = self.ports_files().first().and_then(|path| read_port(path)) {
                return Start::Up(port);
            }
            let log = fs::read_to_string(self.log_path()).unwrap_or_default();
            if log.contains("address already in use") && Instant::now() < deadline {
                return Start::PortTaken;
            }
            let failed = log.contains("[FTL]") || log.starts_with("nats-server:");
            assert!(!failed && Instant::now() < deadline, "nats-server: no start; {}", self.log());
            looks.tick().await;
        }
    }

    fn end(&mut self, signal: &str) {
        if let Some(mut supervisor) = self.supervisor.take() {
            supervisor.end(signal);
        }
    }
}

impl Drop for Nats {
    #[expect(clippy::print_stderr, reason = "a failed test must say where the server's log is")]
    fn drop(&mut self) {
        self.end("KILL");
        if std::thread::panicking()
            && let Some(directory) = self.directory.take()
        {
            let kept = directory.keep();
            eprintln!("kept for inspection: {}/server.log", kept.display());
        }
    }
}

enum Start {
    Up(u16),
    PortTaken,
}

struct Supervisor {
    child: Child,
}

impl Supervisor {
    fn end(&mut self, signal: &str) {
        if let Some(mut pipe) = self.child.stdin.take() {
            let _ = writeln!(pipe, "{signal}");
        }
        let _ = self.child.wait();
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.end("KILL");
    }
}

fn read_port(path: &Path) -> Option<u16> {
    let text = fs::read_to_string(path).ok()?;
    // Written in one go, but perhaps not yet: what does not parse is looked at again.
    let ports: serde_json::Value = serde_json::from_str(&text).ok()?;
    ports["nats"][0].as_str()?.rsplit(':').next()?.parse().ok()
}

/// The binary to test against, looked for once.
fn server_binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        let mut faults = String::new();
        for candidate in candidates() {
            match version_of(&candidate) {
                Ok(version) if version >= VERSION_MIN => return candidate,
                Ok((major, minor)) => {
                    let _ = write!(faults, "\n  {} is {major}.{minor}", candidate.display());
                }
                Err(fault) => {
                    let _ = write!(faults, "\n  {}: {fault}", candidate.display());
                }
            }
        }
        let (major, minor) = VERSION_MIN;
        panic!("no nats-server {major}.{minor} or newer; run `make tools`. Looked at:{faults}");
    })
}

fn candidates() -> Vec<PathBuf> {
    let mut candidates = Vec::new();
    candidates.extend(std::env::var_os("WAKEGATE_NATS_SERVER").map(PathBuf::from));
    candidates.push(Path::new(env!("CARGO_MANIFEST_DIR")).join(".tools/nats-server"));
    candidates.push(PathBuf::from("nats-server"));
    candidates
}

fn version_of(binary: &Path) -> Result<(u32, u32), String> {
    let output =
        Command::new(binary).arg("--version").output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = text.trim().rsplit(['v', ' ']).next().unwrap_or_default().to_owned();
    let mut parts = version.split('.').map(str::parse);
    match (parts.next(), parts.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => Ok((major, minor)),
        _ => Err(format!("`--version` says {text:?}")),
    }
}
