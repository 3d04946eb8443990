//! A private Prometheus, with the repository's own configuration and rules.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tempfile::TempDir;

use super::golden::repository;
use super::http::request_as;
use super::tools::of_prometheus;
use super::until_or;

/// Ends the server when the test process is gone, however that ended.
const SUPERVISOR: &str = r#"
"$@" </dev/null &
read -r word
kill -KILL $! 2>/dev/null
wait $! 2>/dev/null
exit 0
"#;
const LISTENING: &str = "msg=\"Listening on\" address=";
const READY: &str = "Server is ready to receive web requests.";

/// One series of an answer: its labels, and its value at the instant asked for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sample {
    pub(crate) labels: Value,
    pub(crate) value: f64,
}

impl Sample {
    /// A label; `""` where it has none.
    pub(crate) fn label(&self, name: &str) -> &str {
        self.labels[name].as_str().unwrap_or_default()
    }
}

/// A Prometheus that scrapes one worker, gone when this is dropped.
pub(crate) struct Prometheus {
    supervisor: Child,
    lines: Arc<Mutex<Vec<String>>>,
    addr: SocketAddr,
    _directory: TempDir,
}

impl Prometheus {
    /// The repository's configuration, with only the discovery and the intervals exchanged.
    pub(crate) async fn scraping(worker: SocketAddr) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let config = directory.path().join("prometheus.yml");
        fs::write(&config, configuration(worker)).unwrap();
        let mut supervisor = Command::new("sh")
            .args(["-c", SUPERVISOR, "prometheus-supervisor"])
            .arg(of_prometheus("prometheus"))
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", directory.path().join("data").display()))
            .arg("--web.listen-address=127.0.0.1:0")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("sh can be started");
        let stderr = supervisor.stderr.take().expect("standard error is piped");
        let lines: Arc<Mutex<Vec<String>>> = Arc::default();
        let sink = Arc::clone(&lines);
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                sink.lock().unwrap().push(line);
            }
        });
        let addr = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut prometheus = Self { supervisor, lines, addr, _directory: directory };
        // It listens before it answers, while it opens its store.
        let ready = || prometheus.log().contains(READY);
        until_or(ready, || format!("Prometheus does not start: {}", prometheus.log())).await;
        prometheus.addr = listening(&prometheus.lines).expect("it listens before it is ready");
        prometheus
    }

    /// What a query answers now.
    pub(crate) async fn query(&self, expression: &str) -> Vec<Sample> {
        let result = self.ask("query", &[("query", expression)]).await["result"].clone();
        let samples = result.as_array().unwrap_or_else(|| panic!("no vector: {result}"));
        let sample = |series: &Value| Sample {
            labels: series["metric"].clone(),
            value: series["value"][1].as_str().and_then(|text| text.parse().ok()).unwrap(),
        };
        samples.iter().map(sample).collect()
    }

    /// What a query answers, if that is one number.
    pub(crate) async fn number(&self, expression: &str) -> Option<f64> {
        match self.query(expression).await.as_slice() {
            [sample] => Some(sample.value),
            _ => None,
        }
    }

    /// Every rule, as it was evaluated last.
    pub(crate) async fn rules(&self) -> Vec<Value> {
        let answer = self.ask("rules", &[]).await;
        let groups = answer["groups"].as_array().expect("rules come in groups");
        groups.iter().flat_map(|group| group["rules"].as_array().unwrap().clone()).collect()
    }

    /// Alerts that are pending or firing.
    pub(crate) async fn alerts(&self) -> Vec<Value> {
        self.ask("alerts", &[]).await["alerts"].as_array().unwrap().clone()
    }

    async fn ask(&self, what: &str, parameters: &[(&str, &str)]) -> Value {
        let mut path = format!("/api/v1/{what}?");
        for (name, value) in parameters {
            path += &format!("{name}={}&", percent_encoded(value));
        }
        let answer = request_as(self.addr, "HTTP/1.0", "GET", &path).await;
        let answer = answer.unwrap_or_else(|error| panic!("{path}: {error}; {}", self.log()));
        let body = answer.json();
        assert_eq!(body["status"], "success", "{parameters:?}: {body}");
        body["data"].clone()
    }

    /// The end of its log.
    pub(crate) fn log(&self) -> String {
        let lines = self.lines.lock().unwrap();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        drop(self.supervisor.stdin.take());
        let _ = self.supervisor.wait();
    }
}

fn configuration(worker: SocketAddr) -> String {
    let directory = repository().join("ops/prometheus");
    let text = fs::read_to_string(directory.join("prometheus.yml")).unwrap();
    let (kept, _) = text.split_once("    dns_sd_configs:").expect("it discovers by DNS");
    let mut config = format!("{kept}    static_configs:\n      - targets: ['{worker}']\n");
    for (of_the_repository, of_the_test) in [
        ("scrape_interval: 5s", "scrape_interval: 1s"),
        ("evaluation_interval: 15s", "evaluation_interval: 500ms"),
        ("rules/*.yml", &format!("{}/rules/*.yml", directory.display())),
    ] {
        assert!(config.contains(of_the_repository), "it says {of_the_repository}");
        config = config.replace(of_the_repository, of_the_test);
    }
    config
}

/// The address in the log, once it is there.
fn listening(lines: &Mutex<Vec<String>>) -> Option<SocketAddr> {
    let lines = lines.lock().unwrap();
    lines.iter().find_map(|line| line.split_once(LISTENING)?.1.trim().parse().ok())
}

fn percent_encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |encoded, byte| encoded + &format!("%{byte:02X}"))
}
