//! Child processes, and waiting for them.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::Result;

/// How long anything may take before the demo gives up on it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// A child that does not outlive the demo, however that ends.
#[derive(Debug)]
pub(crate) struct Process {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a program; what it says goes into a file, which is shown if it fails.
    pub(crate) fn start(name: &'static str, command: &mut Command, log: &Path) -> Result<Self> {
        let file = File::create(log)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .map_err(|error| format!("{name} does not start ({error}); run `make tools`"))?;
        Ok(Self { name, child, log: log.to_owned() })
    }

    /// Process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// An error with its log, if it has ended.
    pub(crate) fn still_runs(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => Err(self.account(&format!("ended: {status}")).into()),
        }
    }

    /// What went wrong, with what the process had to say.
    pub(crate) fn account(&self, what: &str) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        format!("{} {what}\n{log}", self.name)
    }

    /// Asks it to end, as an operator would, and waits until it has.
    pub(crate) async fn terminate(mut self) -> Result<()> {
        let kill = format!("kill -TERM {}", self.child.id());
        Command::new("sh").args(["-c", &kill]).status()?;
        let what = format!("{} to end", self.name);
        let status = eventually(&what, async || Ok(self.child.try_wait()?)).await?;
        if status.success() { Ok(()) } else { Err(self.account(&status.to_string()).into()) }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Asks until there is an answer.
pub(crate) async fn eventually<T>(
    what: &str,
    mut ask: impl AsyncFnMut() -> Result<Option<T>>,
) -> Result<T> {
    let asking = async {
        let mut again = tokio::time::interval(LOOK_AGAIN);
        loop {
            again.tick().await;
            if let Some(answer) = ask().await? {
                return Ok(answer);
            }
        }
    };
    match tokio::time::timeout(PATIENCE, asking).await {
        Ok(answer) => answer,
        Err(_) => Err(format!("waited {} s for {what}", PATIENCE.as_secs()).into()),
    }
}

/// Body of a successful answer to a GET, or nothing.
pub(crate) async fn get(address: &str, path: &str) -> Option<String> {
    let mut connection = TcpStream::connect(address).await.ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    connection.write_all(request.as_bytes()).await.ok()?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await.ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    head.starts_with("HTTP/1.1 200").then(|| body.to_owned())
}

/// A port that was free a moment ago.
pub(crate) fn free_address() -> Result<String> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string())
}
