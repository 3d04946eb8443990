//! The programs that docs/publishing.md shows: each is run as a publisher of its own, with a
//! publisher's permissions, and asked what became of what it published.

use std::process::Command;

use serde_json::Value;
use wakegate::wake::token::token;

use crate::harness::golden::{check_file, repository};
use crate::harness::tools::{node, node_modules, printed, python};
use crate::security::guarded::{Guarded, TASK_MUTATION};

// In this process: a cargo within a cargo builds half of everything again, for other variables.
#[path = "../../../examples/publishing/rust/publish.rs"]
#[expect(dead_code, reason = "its `main` is called by nobody here")]
mod rust;

const EXAMPLES: &str = "examples/publishing";
const GUIDE: &str = "docs/publishing.md";
/// No subject could hold it as it is.
const ORGANIZATION: &str = "acme/eu";

/// Ids with their tokens, as the guide lists them.
fn vectors() -> Vec<(String, String)> {
    let file = repository().join(EXAMPLES).join("tokens.json");
    let vectors: Vec<Value> = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let text = |vector: &Value, field: &str| vector[field].as_str().unwrap().to_owned();
    vectors.iter().map(|vector| (text(vector, "id"), text(vector, "token"))).collect()
}

/// Has a program print the tokens of the ids, as JSON.
fn tokens_of(command: &mut Command) -> Vec<String> {
    let ids: Vec<String> = vectors().into_iter().map(|(id, _)| id).collect();
    let printed = printed(command.arg(serde_json::to_string(&ids).unwrap()));
    serde_json::from_str(&printed).unwrap()
}

#[test]
fn tokens_are_the_same_in_every_language() {
    let (ids, wanted): (Vec<String>, Vec<String>) = vectors().into_iter().unzip();
    assert!(wanted.len() > 15, "the vectors have moved");
    let ours: Vec<String> = ids.iter().map(|id| token(id).into_owned()).collect();
    assert_eq!(ours, wanted, "the worker's own");
    let rust: Vec<String> = ids.iter().map(|id| rust::tokens::token(id)).collect();
    assert_eq!(rust, wanted, "Rust");
    let script = "import json, sys\nfrom tokens import token\n\
        print(json.dumps([token(id) for id in json.loads(sys.argv[1])]))";
    let directory = repository().join(EXAMPLES);
    let python = tokens_of(python().args(["-c", script]).current_dir(directory.join("python")));
    assert_eq!(python, wanted, "Python");
    let script = "import { token } from './tokens.ts'; \
        console.log(JSON.stringify(JSON.parse(process.argv[1]).map(token)));";
    let node = tokens_of(
        node()
            .args(["--input-type=module", "--eval", script])
            .current_dir(directory.join("typescript")),
    );
    assert_eq!(node, wanted, "TypeScript");
}

/// In which language a program is written.
#[derive(Debug, Clone, Copy)]
enum Language {
    Rust,
    Python,
    TypeScript,
}

const LANGUAGES: [Language; 3] = [Language::Rust, Language::Python, Language::TypeScript];

/// What a publisher with the role's permissions is told to connect with.
fn settings(guarded: &Guarded) -> [(&'static str, String); 4] {
    [
        ("NATS_URL", guarded.nats.url()),
        ("NATS_USER", TASK_MUTATION.user.to_owned()),
        ("NATS_PASSWORD", TASK_MUTATION.password()),
        ("NATS_INBOX_PREFIX", TASK_MUTATION.inbox_prefix.to_owned()),
    ]
}

/// A module is looked for beside the file that imports it, which lies elsewhere.
fn typescript(guarded: &Guarded) -> Command {
    let directory = guarded.directory.path().join("typescript");
    if !directory.exists() {
        std::fs::create_dir(&directory).unwrap();
        for file in ["publish.ts", "tokens.ts", "package.json"] {
            let from = repository().join(EXAMPLES).join("typescript").join(file);
            std::fs::copy(from, directory.join(file)).unwrap();
        }
        std::os::unix::fs::symlink(node_modules(), directory.join("node_modules")).unwrap();
    }
    let mut command = node();
    command.arg(directory.join("publish.ts"));
    command
}

/// What became of an assignment of `task` that a program publishes.
async fn assigned(language: Language, guarded: &Guarded, task: &str) -> Value {
    let arguments = [ORGANIZATION, task, "planner", "builder", "1"].map(str::to_owned);
    let settings = settings(guarded);
    let mut command = match language {
        Language::Rust => {
            let setting = |name: &str| {
                let found = settings.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| value.clone())
            };
            return rust::run(&arguments, setting).await.expect("it is told what became of it");
        }
        Language::Python => {
            let mut command = python();
            command.arg(repository().join(EXAMPLES).join("python/publish.py"));
            command
        }
        Language::TypeScript => typescript(guarded),
    };
    let printed = printed(command.args(arguments).envs(settings));
    serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error}: {printed}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_language_publishes_as_the_guide_shows_and_learns_what_became_of_it() {
    let guarded = Guarded::set().await;
    let worker = guarded.worker().await;
    for language in LANGUAGES {
        let task = format!("T-1.{language:?} ü*");
        let first = assigned(language, &guarded, &task).await;
        assert_eq!(first["outcome"], "queued", "{language:?}: {first}");
        assert_eq!(first["organization_id"], ORGANIZATION);
        assert_eq!(first["task_id"], task.as_str());
        assert_eq!(first["acting_agent_id"], "planner");
        let run = guarded.outside.run_of(&first).await;
        assert_eq!(run.task_id.as_deref(), Some(task.as_str()));
        // The same assignment again is another message and the same occurrence.
        let again = assigned(language, &guarded, &task).await;
        assert_eq!(again["outcome"], "deduplicated", "{language:?}: {again}");
        assert_eq!(again["run_id"], first["run_id"]);
        assert_ne!(again["stream_sequence"], first["stream_sequence"]);
    }
    guarded.outside.set_agent(ORGANIZATION, "builder", "stopped").await;
    for language in LANGUAGES {
        let refused = assigned(language, &guarded, "T-2").await;
        assert_eq!(refused["reason"], "agent_stopped", "{language:?}: {refused}");
    }
    let series = worker.moved(&["wakegate_contract_violations_total"]).await;
    assert!(series.is_empty(), "a publisher of the guide breaks the contract: {series:?}");
}

/// The guide with what its files say put between its fences: a line `<!-- path -->` stands before
/// each program, and before the table of tokens.
fn guide() -> String {
    let text = std::fs::read_to_string(repository().join(GUIDE)).unwrap();
    let mut made = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        made += &format!("{line}\n");
        let path = line.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->"));
        let Some(path) = path else { continue };
        let contents = std::fs::read_to_string(repository().join(path));
        let contents = contents.unwrap_or_else(|error| panic!("{path}: {error}"));
        if path.ends_with("tokens.json") {
            made += &table();
            // The old one ends with the first line that is none of it.
            let after = lines.find(|line| !line.is_empty() && !line.starts_with('|'));
            made += &format!("\n{}\n", after.expect("something stands behind the table"));
            continue;
        }
        let fence = lines.next().expect("a fence follows");
        assert!(fence.starts_with("```"), "{path}: {fence}");
        made += &format!("{fence}\n{contents}```\n");
        assert!(lines.any(|line| line == "```"), "{path}: its fence ends");
    }
    made
}

fn table() -> String {
    let mut table = "| id, as JSON | token |\n| --- | --- |\n".to_owned();
    for (id, token) in vectors() {
        table += &format!("| `{}` | `{token}` |\n", serde_json::to_string(&id).unwrap());
    }
    table
}

#[test]
fn the_guide_shows_the_programs_that_are_run() {
    let shown = guide();
    let files = ["rust/tokens.rs", "rust/publish.rs", "python/tokens.py", "python/publish.py"];
    for file in files.iter().chain(&["typescript/tokens.ts", "typescript/publish.ts"]) {
        assert!(shown.contains(&format!("<!-- {EXAMPLES}/{file} -->")), "{file} is not shown");
    }
    check_file(GUIDE.as_ref(), &shown);
}
