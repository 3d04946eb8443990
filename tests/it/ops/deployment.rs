//! The systemd unit, the manifests for Kubernetes and docker-compose.yml, held against the program.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use wakegate::cli::Exit;
use wakegate::config::Config;
use wakegate::config::settings::{SETTINGS, Setting};

use super::expressions::{list, text};
use crate::harness::command::{ended, wakegate};
use crate::harness::golden::repository;
use crate::harness::http::get;
use crate::harness::nats::Nats;
use crate::harness::sqlite;
use crate::harness::tools::yaml;
use crate::harness::until_some;
use crate::harness::worker::Worker;

const KUBERNETES: &str = "ops/kubernetes";
const UNIT: &str = "ops/systemd/wakegate.service";
const ENVIRONMENT_FILE: &str = "ops/systemd/wakegate.env";
/// URLs may hold passwords.
const SECRETS: [&str; 6] = [
    "WAKEGATE_NATS_URL",
    "WAKEGATE_DATABASE_URL",
    "WAKEGATE_CONTROL_NATS_URL",
    "WAKEGATE_CONTROL_DATABASE_URL",
    "WAKEGATE_QUEUE_NATS_URL",
    "WAKEGATE_QUEUE_DATABASE_URL",
];

type Variables = BTreeMap<String, String>;

fn read(path: &str) -> String {
    std::fs::read_to_string(repository().join(path)).unwrap()
}

/// The port of `http.addr` unless it is set.
fn default_port() -> u16 {
    let setting = SETTINGS.iter().find(|setting| setting.name() == "http.addr");
    let addr: std::net::SocketAddr = setting.unwrap().default.unwrap().parse().unwrap();
    addr.port()
}

fn deadline_of_shutdown() -> Duration {
    let setting = SETTINGS.iter().find(|setting| setting.name() == "shutdown.deadline_ms");
    Duration::from_millis(setting.unwrap().default.unwrap().parse().unwrap())
}

/// The one object of a kind.
fn object(kind: &str) -> Value {
    let directory = repository().join(KUBERNETES);
    let mut found: Vec<Value> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .flat_map(|file| yaml(&format!("{KUBERNETES}/{file}")))
        .filter(|object| object["kind"] == kind)
        .collect();
    assert_eq!(found.len(), 1, "{kind}: {found:?}");
    found.remove(0)
}

/// The variables of a container, with `secrets` in place of what is asked of a Secret.
fn variables(container: &Value, secrets: &Variables) -> Variables {
    let mut variables = Variables::new();
    for source in list(&container["envFrom"]) {
        let config = object("ConfigMap");
        assert_eq!(source["configMapRef"]["name"], config["metadata"]["name"]);
        for (name, value) in config["data"].as_object().unwrap() {
            variables.insert(name.clone(), value.as_str().unwrap().to_owned());
        }
    }
    for variable in list(&container["env"]) {
        let name = text(&variable, "name").to_owned();
        let secret = !variable["valueFrom"]["secretKeyRef"].is_null();
        assert_eq!(secret, SECRETS.contains(&name.as_str()), "what is secret: {variable}");
        let value = if secret {
            match secrets.get(&name) {
                Some(value) => value.clone(),
                // The container starts without a variable whose secret may be missing.
                None if variable["valueFrom"]["secretKeyRef"]["optional"] == true => continue,
                None => panic!("there is no secret for {name}"),
            }
        } else {
            text(&variable, "value").to_owned()
        };
        variables.insert(name, value);
    }
    variables
}

fn command(directory: &Path, container: &Value, secrets: &Variables) -> Command {
    let arguments = list(&container["args"]);
    let arguments: Vec<&str> = arguments.iter().map(|word| word.as_str().unwrap()).collect();
    let mut command = wakegate(directory, &arguments);
    command.envs(variables(container, secrets));
    command
}

/// What the manifests start is started, in their order and with their settings, on servers that hold
/// nothing yet; and what they ask of it is asked.
#[tokio::test(flavor = "multi_thread")]
async fn what_kubernetes_is_told_to_run_prepares_the_servers_and_becomes_ready() {
    let nats = Nats::start().await;
    let (directory, database_url) = sqlite::empty_database();
    let mut secrets: Variables =
        [("WAKEGATE_NATS_URL", nats.url()), ("WAKEGATE_DATABASE_URL", database_url)]
            .map(|(name, value)| (name.to_owned(), value))
            .into();
    let job = object("Job")["spec"]["template"]["spec"].clone();
    let steps = list(&job["initContainers"]).into_iter().chain(list(&job["containers"]));
    for step in steps {
        let done = ended(&mut command(directory.path(), &step, &secrets));
        assert_eq!(done.code, Some(0), "{}: {}", step["name"], done.stderr);
    }

    let pod = object("Deployment")["spec"]["template"]["spec"].clone();
    let container = &pod["containers"][0];
    // Worker::spawn takes a free port; which one the manifests take is compared below.
    let worker = Worker::spawn(command(directory.path(), container, &secrets)).await;
    worker.ready().await;
    for (probe, path) in [("livenessProbe", "/livez"), ("readinessProbe", "/readyz")] {
        assert_eq!(container[probe]["httpGet"]["path"], path);
        assert_eq!(container[probe]["httpGet"]["port"], "http", "by its name");
        assert_eq!(get(worker.addr(), path).await.status, 200, "{probe}");
    }
    let annotations = &object("Deployment")["spec"]["template"]["metadata"]["annotations"];
    let metrics = get(worker.addr(), text(annotations, "prometheus.io/path")).await;
    assert!(metrics.body.contains("wakegate_build_info"), "{}", metrics.body);
    drop(worker);

    // With users of its own for operators, it is these that answer them.
    let own = Nats::start().await;
    let control =
        [("NATS_URL", own.url()), ("DATABASE_URL", secrets["WAKEGATE_DATABASE_URL"].clone())];
    secrets.extend(control.map(|(name, value)| (format!("WAKEGATE_CONTROL_{name}"), value)));
    let worker = Worker::spawn(command(directory.path(), container, &secrets)).await;
    worker.ready().await;
    let operator = async_nats::connect(own.url()).await.unwrap();
    let counts = async || operator.request("wakegate.control.counts", "".into()).await.ok();
    let counts = until_some(counts, || "nobody answers operators".to_owned()).await;
    assert!(!counts.payload.is_empty(), "{counts:?}");
}

#[test]
fn the_manifests_agree_on_port_labels_and_time_to_end() {
    let deployment = object("Deployment");
    let template = &deployment["spec"]["template"];
    let container = &template["spec"]["containers"][0];
    let port = default_port();
    assert_eq!(container["ports"][0]["name"], "http");
    assert_eq!(container["ports"][0]["containerPort"], port);
    let config = object("ConfigMap");
    assert_eq!(text(&config["data"], "WAKEGATE_HTTP_ADDR"), format!("0.0.0.0:{port}"));
    let annotations = &template["metadata"]["annotations"];
    assert_eq!(text(annotations, "prometheus.io/port"), port.to_string());

    let labels = &template["metadata"]["labels"];
    let (service, budget) = (object("Service"), object("PodDisruptionBudget"));
    assert_eq!(&deployment["spec"]["selector"]["matchLabels"], labels);
    assert_eq!(&service["spec"]["selector"], labels);
    assert_eq!(&budget["spec"]["selector"]["matchLabels"], labels);
    assert_ne!(&object("Job")["spec"]["template"]["metadata"]["labels"], labels);
    assert_eq!(service["spec"]["ports"][0]["targetPort"], "http");
    assert_eq!(service["spec"]["ports"][0]["port"], port);
    let (replicas, least) = (&deployment["spec"]["replicas"], &budget["spec"]["minAvailable"]);
    assert!(replicas.as_u64() > least.as_u64(), "a budget of {least} of {replicas} drains no node");

    let grace = template["spec"]["terminationGracePeriodSeconds"].as_u64().unwrap();
    assert!(Duration::from_secs(grace) > deadline_of_shutdown(), "killed before its deadline");
    let listed: BTreeSet<String> =
        list(&yaml(&format!("{KUBERNETES}/kustomization.yaml"))[0]["resources"])
            .iter()
            .map(|file| file.as_str().unwrap().to_owned())
            .collect();
    let mut there: BTreeSet<String> = std::fs::read_dir(repository().join(KUBERNETES))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(there.remove("kustomization.yaml"));
    assert_eq!(listed, there, "kustomization.yaml lists every manifest");
}

/// `key=value` lines of a file in systemd's form, each with the section it is in.
fn assignments(path: &str) -> Vec<(String, String, String)> {
    let mut section = String::new();
    let mut found = Vec::new();
    for line in read(path).lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[') {
            name.trim_end_matches(']').clone_into(&mut section);
        } else if !line.is_empty() && !line.starts_with('#') {
            let (key, value) = line.split_once('=').unwrap_or_else(|| panic!("{path}: {line}"));
            found.push((section.clone(), key.to_owned(), value.to_owned()));
        }
    }
    found
}

/// The one value of a key of the unit.
fn unit(key: &str) -> String {
    let mut values = assignments(UNIT).into_iter().filter(|(_, found, _)| found == key);
    let (_, _, value) = values.next().unwrap_or_else(|| panic!("{UNIT} sets {key}"));
    assert_eq!(values.next(), None, "{key} twice");
    value
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_unit_starts_becomes_ready_and_ends_in_its_time() {
    let exec = unit("ExecStart");
    let arguments = exec.strip_prefix("/usr/local/bin/wakegate ").expect("it starts wakegate");
    let arguments: Vec<&str> = arguments.split(' ').collect();
    let nats = Nats::start().await;
    // systemd makes the directory, which is the user's own, and starts the worker within.
    assert_eq!(unit("WorkingDirectory"), format!("/var/lib/{}", unit("StateDirectory")));
    let (directory, database_url) = sqlite::empty_database();
    let mut settings: Variables =
        assignments(ENVIRONMENT_FILE).into_iter().map(|(_, key, value)| (key, value)).collect();
    let database = settings.insert("WAKEGATE_DATABASE_URL".to_owned(), database_url).unwrap();
    assert!(database.starts_with(&format!("sqlite://{}/", unit("WorkingDirectory"))));
    settings.insert("WAKEGATE_NATS_URL".to_owned(), nats.url()).expect("the file has it");
    let wakegate = |arguments: &[&str]| {
        let mut command = wakegate(directory.path(), arguments);
        command.envs(&settings);
        command
    };
    for prepare in [&["config", "check"][..], &["migrate"], &["streams", "apply"]] {
        let done = ended(&mut wakegate(prepare));
        assert_eq!(done.code, Some(0), "{prepare:?}: {}", done.stderr);
    }
    let mut worker = Worker::spawn(wakegate(&arguments)).await;
    worker.ready().await;
    worker.signal(unit("KillSignal").strip_prefix("SIG").unwrap());
    assert!(worker.ended().await.success(), "{}", worker.told("it ends in order"));

    let stop = Duration::from_secs(unit("TimeoutStopSec").parse().unwrap());
    assert!(stop > deadline_of_shutdown(), "killed before its deadline");
    let for_a_person =
        [Exit::Configuration, Exit::StreamsDiffer].map(|exit| exit.code().to_string());
    assert_eq!(unit("RestartPreventExitStatus"), for_a_person.join(" "));
}

/// A variable that no setting has is refused by the program; compose files and manifests are to be
/// right before anybody starts them.
#[test]
fn every_variable_that_is_set_anywhere_is_a_setting() {
    let known: BTreeSet<String> = SETTINGS.iter().map(Setting::variable).collect();
    let mut files = vec![ENVIRONMENT_FILE.to_owned(), "docker-compose.yml".to_owned()];
    for entry in std::fs::read_dir(repository().join(KUBERNETES)).unwrap() {
        files.push(format!("{KUBERNETES}/{}", entry.unwrap().file_name().into_string().unwrap()));
    }
    let mut seen = 0;
    for file in files {
        let contents = read(&file);
        let lines = contents.lines().filter(|line| !line.trim_start().starts_with('#'));
        for line in lines {
            let in_name = |c: char| c.is_ascii_uppercase() || c == '_';
            for (at, _) in line.match_indices("WAKEGATE_") {
                let name: String = line[at..].chars().take_while(|c| in_name(*c)).collect();
                seen += 1;
                assert!(known.contains(&name), "{file}: {name} is no setting");
            }
        }
    }
    assert!(seen > 10, "the files have moved");
    assert_eq!(Config::default().http.addr.port(), default_port());
}
