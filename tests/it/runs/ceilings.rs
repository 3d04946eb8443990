//! Ceilings hold to the run, however many claim at once.

use std::collections::BTreeMap;

use async_nats::Client;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::asking::{ask, client_of, depth, held, queue, until_answering, with};
use super::events::{Told, told, until_told};
use crate::through_servers::on_both_databases;
use crate::through_servers::stage::{Dialect, Stage};

on_both_databases!(sixteen_runners_never_have_more_under_way_than_the_ceilings_allow);

const RUNNERS: usize = 16;
const RUNS: u32 = 150;
/// Of each organization; the last has none of its own.
const CEILINGS: [(&str, Option<i64>); 4] =
    [("acme", Some(3)), ("globex", Some(1)), ("none", Some(0)), ("initech", None)];
const PLATFORM: i64 = 8;

/// Claims, starts and ends runs until there are none; how many.
async fn work(client: Client, runner: usize) -> usize {
    let mut done = 0;
    loop {
        let body = json!({
            "runner_id": format!("r{runner}"), "runs_max": 1 + runner % 3, "wait_seconds": 2,
        });
        let reply = ask(&client, "claim", body).await.unwrap();
        let runs = reply["runs"].as_array().unwrap();
        if runs.is_empty() {
            return done;
        }
        for run in runs {
            ask(&client, "start", held(run)).await.unwrap();
            ask(&client, "heartbeat", held(run)).await.unwrap();
            let end = with(held(run), json!({ "status": "succeeded" }));
            ask(&client, "finish", end).await.unwrap();
            done += 1;
        }
    }
}

/// How many were under way at most at any time, by organization and of all, as events tell it: they
/// are in the order in which it happened.
fn most_under_way(told: &[Told]) -> BTreeMap<String, i64> {
    let mut now: BTreeMap<String, i64> = BTreeMap::new();
    let mut most: BTreeMap<String, i64> = BTreeMap::new();
    for told in told {
        let by = match told.event["event"].as_str().unwrap() {
            "claimed" => 1,
            "succeeded" => -1,
            _ => continue,
        };
        for who in [told.event["organization_id"].as_str().unwrap(), "all of them"] {
            let count = now.entry(who.to_owned()).or_default();
            *count += by;
            let highest = most.entry(who.to_owned()).or_default();
            *highest = (*highest).max(*count);
        }
    }
    assert!(now.values().all(|count| *count == 0), "counts add up: {now:?}");
    most
}

async fn sixteen_runners_never_have_more_under_way_than_the_ceilings_allow(dialect: Dialect) {
    let stage = Stage::set(dialect).await;
    for (organization, ceiling) in CEILINGS {
        let Some(ceiling) = ceiling else { continue };
        let sql = format!(
            "INSERT INTO organization_limits (organization_id, active_runs_max) \
             VALUES ('{organization}', {ceiling})"
        );
        stage.outside.execute(&sql).await;
    }
    let mut id = 0;
    for _ in 0..RUNS / 5 {
        for organization in ["acme", "acme", "globex", "none", "initech"] {
            id += 1;
            queue(&stage.outside, id, organization).await;
        }
    }
    let platform = PLATFORM.to_string();
    let worker =
        stage.worker_with(&[("WAKEGATE_LIMITS_ACTIVE_RUNS_PLATFORM_MAX", &platform)]).await;
    let client = client_of(&stage).await;
    until_answering(&client).await;
    let mut runners = JoinSet::new();
    for runner in 0..RUNNERS {
        // Each on a connection of its own.
        runners.spawn(work(client_of(&stage).await, runner));
    }
    let done: usize = runners.join_all().await.into_iter().sum();
    let expected = RUNS as usize * 4 / 5;
    assert_eq!(done, expected, "{}", worker.told("all but those of the one that may have none"));
    assert_eq!(depth(&stage.outside).await, (i64::from(RUNS / 5), 0));

    until_told(&stage).await;
    let told = told(&stage).await;
    let claims: Vec<&Value> = told
        .iter()
        .filter(|told| told.event["event"] == "claimed")
        .map(|told| &told.event["run_id"])
        .collect();
    assert_eq!(claims.len(), expected, "no run twice");
    let most = most_under_way(&told);
    assert_eq!(most.get("acme"), Some(&3), "{most:?}");
    assert_eq!(most.get("globex"), Some(&1), "{most:?}");
    assert_eq!(most.get("none"), None, "{most:?}");
    assert!(most["all of them"] <= PLATFORM, "{most:?}");
    assert!(most["initech"] > 3, "one without a ceiling of its own has what is left: {most:?}");
}
