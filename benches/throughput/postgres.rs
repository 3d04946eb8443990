//! A private PostgreSQL cluster with the settings that PostgreSQL comes with: `fsync` and
//! `synchronous_commit` on, nothing tuned. The tests' own cluster is no use here: it does not sync.
//!
//! A shell holds the other end of a pipe and ends the server with it, so that no server outlives
//! the benchmark, however that ends.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use sqlx::postgres::{PgConnection, PgPoolOptions};
use sqlx::{AssertSqlSafe, Connection as _, PgPool};

use crate::{Result, eventually};

const PROGRAMS: [&str; 2] = ["initdb", "postgres"];
const INSTALL: &str = "PostgreSQL 15 or newer is missing: run `make bench`, which installs or finds \
                       it, or put its initdb and postgres on the PATH";
/// What is set beside the port: connections for 16 lanes, a pool and the benchmark's own.
const SETTINGS: [&str; 1] = ["max_connections=200"];
const SUPERVISE: &str = r#"
trap '' INT TERM HUP
directory=$1; shift
"$@" >"$directory/log" 2>&1 </dev/null &
server=$!
cat >/dev/null
kill -QUIT $server
wait $server
rm -rf "$directory"
"#;

/// The cluster; it is gone when this is dropped.
pub(crate) struct Cluster {
    directory: PathBuf,
    port: u16,
    supervisor: Child,
}

impl Cluster {
    /// A new cluster below the directory for temporary files.
    pub(crate) async fn start() -> Result<Self> {
        let bin = binaries()?;
        let directory = tempfile::Builder::new().prefix("wakegate-bench-pg-").tempdir()?.keep();
        let user = unprivileged_user();
        if let Some(user) = user {
            run(Command::new("chown").arg(user).arg(&directory))?;
        }
        let data = directory.join("data");
        let mut initdb = as_user(user, &bin.join("initdb"))?;
        initdb.arg("-D").arg(&data);
        run(initdb.args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C"]))?;

        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let server = as_user(user, &bin.join("postgres"))?;
        let mut supervisor = Command::new("sh");
        supervisor.args(["-c", SUPERVISE, "sh"]).arg(&directory);
        supervisor.arg(server.get_program()).args(server.get_args());
        supervisor.arg("-D").arg(&data).arg("-k").arg(&directory);
        supervisor.args(["-h", "127.0.0.1", "-p", &port.to_string()]);
        for setting in SETTINGS {
            supervisor.args(["-c", setting]);
        }
        supervisor.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let cluster = Self { directory, port, supervisor: supervisor.spawn()? };
        cluster.answers().await?;
        Ok(cluster)
    }

    /// Process id of the server that all others are children of.
    pub(crate) fn pid(&self) -> Result<u32> {
        let file = fs::read_to_string(self.directory.join("data/postmaster.pid"))?;
        Ok(file.lines().next().unwrap_or_default().trim().parse()?)
    }

    /// The URL of a database, for a role that may do everything.
    pub(crate) fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    /// Connections to a database.
    pub(crate) async fn pool(&self, database: &str, connections: u32) -> Result<PgPool> {
        let options = PgPoolOptions::new()
            .min_connections(connections)
            .max_connections(connections)
            .test_before_acquire(false);
        Ok(options.connect(&self.url(database)).await?)
    }

    /// Runs statements, each by itself.
    pub(crate) async fn execute(&self, database: &str, statements: &[&str]) -> Result<()> {
        let mut connection = PgConnection::connect(&self.url(database)).await?;
        for statement in statements {
            sqlx::raw_sql(AssertSqlSafe((*statement).to_owned())).execute(&mut connection).await?;
        }
        Ok(connection.close().await?)
    }

    async fn answers(&self) -> Result<()> {
        let up = eventually("PostgreSQL", Duration::from_mins(1), async || {
            Ok(PgConnection::connect(&self.url("postgres")).await.ok())
        });
        match up.await {
            Ok(connection) => Ok(connection.close().await?),
            Err(error) => {
                let log = fs::read_to_string(self.directory.join("log")).unwrap_or_default();
                Err(format!("{error}; its log:\n{log}").into())
            }
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        drop(self.supervisor.stdin.take());
        let _ = self.supervisor.wait();
    }
}

/// The directory of the newest PostgreSQL.
fn binaries() -> Result<PathBuf> {
    let on_path = std::env::var_os("PATH").unwrap_or_default();
    let mut versioned: Vec<PathBuf> = fs::read_dir("/usr/lib/postgresql")
        .map(|versions| versions.flatten().map(|version| version.path().join("bin")).collect())
        .unwrap_or_default();
    versioned.sort();
    std::env::split_paths(&on_path)
        .chain(versioned.into_iter().rev())
        .find(|bin| PROGRAMS.iter().all(|program| bin.join(program).exists()))
        .ok_or_else(|| INSTALL.into())
}

/// What the server calls itself.
pub(crate) fn version() -> String {
    let said = binaries()
        .and_then(|bin| Ok(Command::new(bin.join("postgres")).arg("--version").output()?.stdout));
    said.map(|said| String::from_utf8_lossy(&said).trim().to_owned()).unwrap_or_default()
}

/// `initdb` and `postgres` refuse to run as root; then somebody else has to.
fn unprivileged_user() -> Option<&'static str> {
    let uid = |name: &[&str]| {
        let found = Command::new("id").arg("-u").args(name).stderr(Stdio::null()).output().ok()?;
        found.status.success().then(|| String::from_utf8_lossy(&found.stdout).trim().to_owned())
    };
    if uid(&[]).as_deref() != Some("0") {
        return None;
    }
    ["postgres", "nobody"].into_iter().find(|user| uid(&[user]).is_some())
}

fn as_user(user: Option<&str>, program: &Path) -> Result<Command> {
    let Some(user) = user else { return Ok(Command::new(program)) };
    let group = Command::new("id").args(["-g", user]).output()?;
    let mut command = Command::new("setpriv");
    command.args(["--reuid", user, "--regid", String::from_utf8_lossy(&group.stdout).trim()]);
    command.args(["--clear-groups", "--"]).arg(program);
    Ok(command)
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.current_dir("/").stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(format!("{} failed: {said}", command.get_program().display()).into())
}
