//! A private PostgreSQL cluster, one database a test.
//!
//! The cluster starts with the first test that asks, and is gone when the test process ends, however
//! it ends: a shell holds the other end of a pipe, stops the server at its end and deletes its
//! directory.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use sqlx::AssertSqlSafe;
use sqlx::postgres::{PgPool, PgPoolOptions};
use tokio::sync::OnceCell;
use wakegate::store::postgres::PostgresStore;
use wakegate::store::{Database as _, StoreOptions};

use super::PATIENCE;

const TEMPLATE: &str = "migrated";
const PROGRAMS: [&str; 4] = ["initdb", "postgres", "pg_isready", "psql"];
const INSTALL: &str = "install PostgreSQL 15 or newer (Debian: apt-get install postgresql), or put \
                       its initdb, postgres, pg_isready and psql on the PATH";
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

struct Cluster {
    bin: PathBuf,
    directory: PathBuf,
    port: u16,
    /// Its standard input is the pipe that keeps the server alive.
    _supervisor: Child,
}

/// A database that one test has for itself; it goes when this is dropped.
pub struct TestDatabase {
    name: String,
}

/// A database with the current schema.
pub async fn database() -> TestDatabase {
    static MIGRATED: OnceCell<()> = OnceCell::const_new();
    MIGRATED
        .get_or_init(|| async {
            create(TEMPLATE, "template1").await;
            let store = PostgresStore::connect(&url(TEMPLATE), &StoreOptions::default()).unwrap();
            store.migrate().await.unwrap();
        })
        .await;
    fresh(TEMPLATE).await
}

/// A database without a schema.
pub async fn empty_database() -> TestDatabase {
    fresh("template1").await
}

impl TestDatabase {
    /// `postgres://…`, for a role that may do everything.
    pub fn url(&self) -> String {
        url(&self.name)
    }

    /// Connections of somebody else than the store under test.
    pub fn pool(&self) -> PgPool {
        PgPoolOptions::new().max_connections(4).connect_lazy(&self.url()).unwrap()
    }

    /// Runs statements.
    pub async fn execute(&self, sql: &str) {
        execute(&self.name, sql).await;
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        let cluster = cluster();
        let drop = format!("DROP DATABASE {} WITH (FORCE)", self.name);
        let dropped = Command::new(cluster.bin.join("psql"))
            .args(["-qX", "-U", "postgres", "-d", "postgres", "-c", &drop, "-h"])
            .arg(&cluster.directory)
            .args(["-p", &cluster.port.to_string()])
            .stdin(Stdio::null())
            .status();
        assert!(dropped.is_ok_and(|status| status.success()) || std::thread::panicking());
    }
}

fn url(database: &str) -> String {
    format!("postgres://postgres@127.0.0.1:{}/{database}", cluster().port)
}

async fn fresh(template: &str) -> TestDatabase {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let name = format!("test_{}", NEXT.fetch_add(1, Ordering::Relaxed));
    create(&name, template).await;
    TestDatabase { name }
}

async fn create(name: &str, template: &str) {
    execute("postgres", &format!("CREATE DATABASE {name} TEMPLATE {template}")).await;
}

async fn execute(database: &str, sql: &str) {
    let pool = PgPoolOptions::new().max_connections(1).connect(&url(database)).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&pool).await.unwrap();
    pool.close().await;
}

fn cluster() -> &'static Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    CLUSTER.get_or_init(|| {
        let bin = binaries();
        // Between looking for a free port and taking it somebody else may have it.
        (0..5)
            .find_map(|_| start(&bin, &[]))
            .expect("PostgreSQL found no free port in five attempts")
    })
}

/// A server of one test's own, gone when this is dropped.
pub struct OwnServer(Cluster);

impl OwnServer {
    /// With more settings, `name=value`. Whoever runs the server gets the files of `owned`.
    pub fn start(settings: &[String], owned: &Path) -> Self {
        if let Some(user) = unprivileged_user() {
            run(Command::new("chown").arg("-R").arg(user).arg(owned));
        }
        let bin = binaries();
        let started = (0..5).find_map(|_| start(&bin, settings));
        Self(started.expect("PostgreSQL found no free port in five attempts"))
    }

    /// `127.0.0.1:<port>`; the role `postgres` may do everything.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.0.port)
    }
}

/// The directory of the newest PostgreSQL.
fn binaries() -> PathBuf {
    let on_path = std::env::var_os("PATH").unwrap_or_default();
    let mut versioned: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .map(|versions| versions.flatten().map(|version| version.path().join("bin")).collect())
        .unwrap_or_default();
    versioned.sort();
    std::env::split_paths(&on_path)
        .chain(versioned.into_iter().rev())
        .find(|bin| PROGRAMS.iter().all(|program| bin.join(program).exists()))
        .unwrap_or_else(|| panic!("PostgreSQL is missing: {INSTALL}"))
}

/// An empty cluster below a directory of its own, and the script that supervises its server, not
/// started yet: the port is the server's, and its standard input the script's.
pub(super) fn supervised(
    script: &str,
    prefix: &str,
    connections: u32,
    settings: impl IntoIterator<Item: AsRef<OsStr>>,
) -> (Command, PathBuf, u16) {
    let bin = binaries();
    let directory = tempfile::Builder::new().prefix(prefix).tempdir().unwrap().keep();
    let user = unprivileged_user();
    if let Some(user) = &user {
        run(Command::new("chown").arg(user).arg(&directory));
    }
    let data = directory.join("data");
    let mut initdb = as_user(user.as_deref(), &bin.join("initdb"));
    initdb.arg("-D").arg(&data);
    run(initdb.args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]));

    let port = free_port();
    let server = as_user(user.as_deref(), &bin.join("postgres"));
    let mut supervisor = Command::new("sh");
    supervisor.args(["-c", script, "sh"]).arg(&directory);
    supervisor.arg(server.get_program()).args(server.get_args());
    supervisor.arg("-D").arg(&data).arg("-k").arg(&directory).args(["-h", "127.0.0.1"]);
    supervisor.args(["-p", &port.to_string(), "-N", &connections.to_string()]);
    supervisor.args(["-c", "fsync=off"]);
    for setting in settings {
        supervisor.arg("-c").arg(setting);
    }
    supervisor.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    (supervisor, directory, port)
}

fn start(bin: &Path, settings: &[String]) -> Option<Cluster> {
    let ours = ["full_page_writes=off", "shared_buffers=64MB"];
    let settings = ours.into_iter().chain(settings.iter().map(String::as_str));
    let (mut supervisor, directory, port) = supervised(SUPERVISE, "wakegate-pg-", 300, settings);
    let supervisor = supervisor.spawn();
    let cluster =
        Cluster { bin: bin.to_owned(), directory, port, _supervisor: supervisor.unwrap() };
    answers(&cluster).then_some(cluster)
}

/// Waits until the server answers, or says that its port is taken.
fn answers(cluster: &Cluster) -> bool {
    let end = Instant::now() + PATIENCE;
    loop {
        let ready = Command::new(cluster.bin.join("pg_isready"))
            .args(["-q", "-h", "127.0.0.1", "-p", &cluster.port.to_string()])
            .status();
        let socket = cluster.directory.join(format!(".s.PGSQL.{}", cluster.port));
        if ready.is_ok_and(|status| status.success()) && socket.exists() {
            return true;
        }
        let log = std::fs::read_to_string(cluster.directory.join("log")).unwrap_or_default();
        if log.contains("could not create any TCP/IP sockets") {
            return false;
        }
        assert!(Instant::now() < end, "PostgreSQL does not answer; its log:\n{log}");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

/// `initdb` and `postgres` refuse to run as root; then somebody else has to.
pub(super) fn unprivileged_user() -> Option<String> {
    let uid = |name: &[&str]| {
        let found = Command::new("id").arg("-u").args(name).stderr(Stdio::null()).output();
        let found = found.ok().filter(|found| found.status.success())?;
        String::from_utf8(found.stdout).ok()
    };
    if uid(&[]).is_none_or(|uid| uid.trim() != "0") {
        return None;
    }
    let user = ["postgres", "nobody"].into_iter().find(|user| uid(&[user]).is_some());
    Some(user.expect("root needs a user `postgres` or `nobody` to run PostgreSQL as").to_owned())
}

fn as_user(user: Option<&str>, program: &Path) -> Command {
    let Some(user) = user else { return Command::new(program) };
    let mut command = Command::new("setpriv");
    command.args(["--reuid", user, "--regid", group(user).trim(), "--clear-groups", "--"]);
    command.arg(program);
    command
}

fn group(user: &str) -> String {
    let found = Command::new("id").args(["-g", user]).output().unwrap();
    String::from_utf8(found.stdout).unwrap()
}

pub(super) fn run(command: &mut Command) {
    let name = command.get_program().to_owned();
    let output = match command.current_dir("/").stdin(Stdio::null()).output() {
        Ok(output) => output,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            panic!("{} is missing; {INSTALL}", name.display())
        }
        Err(error) => panic!("{}: {error}", name.display()),
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{} failed: {said}", name.display());
}

fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}
