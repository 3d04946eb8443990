//! The other half: two organizations share three slots, and every run goes its way to the end.

use std::collections::{BTreeMap, VecDeque};

use async_nats::Client;
use serde_json::{Value, json};

use crate::Result;
use crate::servers::PATIENCE;

/// Slots that the demo's worker is configured with.
pub(crate) const SLOTS: usize = 3;
/// The one floods, the other trickles.
pub(crate) const RUNS: [(&str, usize); 2] = [("acme", 8), ("initech", 3)];

/// What was seen of one run.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) organization: String,
    pub(crate) task: String,
    /// Runs under way once it was claimed, by organization.
    pub(crate) under_way: BTreeMap<String, usize>,
}

/// Asks wakegate as a runner does.
async fn ask(client: &Client, verb: &str, body: Value) -> Result<Value> {
    let request = client.request(format!("wakegate.runs.{verb}"), body.to_string().into());
    let reply = tokio::time::timeout(PATIENCE, request).await??;
    if let Some(error) = reply.headers.as_ref().and_then(|all| all.get("Wakegate-Error")) {
        return Err(format!("{verb} was refused: {error}").into());
    }
    Ok(serde_json::from_slice(&reply.payload)?)
}

/// Claims whenever there is a slot, ends the oldest run whenever there is none, and returns the turns
/// in their order once every run has ended.
pub(crate) async fn run_all(client: &Client) -> Result<Vec<Turn>> {
    let all: usize = RUNS.iter().map(|(_, runs)| runs).sum();
    let mut turns: Vec<Turn> = Vec::new();
    let mut under_way: VecDeque<Value> = VecDeque::new();
    while turns.len() < all || !under_way.is_empty() {
        // One more than there is room for is asked for, and is not given.
        let claim = json!({ "runner_id": "demo", "runs_max": SLOTS + 1 });
        let claimed = ask(client, "claim", claim).await?;
        for run in claimed["runs"].as_array().into_iter().flatten() {
            let held = json!({ "run_id": run["run_id"], "fencing_token": run["fencing_token"] });
            ask(client, "start", held).await?;
            under_way.push_back(run.clone());
            turns.push(turn(run, &under_way));
        }
        if under_way.len() > SLOTS {
            return Err(format!("{} runs are under way on {SLOTS} slots", under_way.len()).into());
        }
        let Some(run) = under_way.pop_front() else { return Err("runs are not given out".into()) };
        let end = json!({
            "run_id": run["run_id"], "fencing_token": run["fencing_token"], "status": "succeeded",
        });
        ask(client, "finish", end).await?;
    }
    Ok(turns)
}

fn turn(run: &Value, under_way: &VecDeque<Value>) -> Turn {
    let text = |run: &Value, field: &str| run[field].as_str().unwrap_or_default().to_owned();
    let mut by = BTreeMap::new();
    for run in under_way {
        *by.entry(text(run, "organization_id")).or_default() += 1;
    }
    Turn { organization: text(run, "organization_id"), task: text(run, "task_id"), under_way: by }
}
