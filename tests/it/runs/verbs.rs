//! One run from its claim to its end, and every request of it again.

use serde_json::json;

use super::asking::{
    ask, claim, claim_one, depth, held, queue, refusal, status, until_status, with, worker,
};
use crate::harness::outside::{Outside, OutsideRun};
use crate::through_servers::on_both_databases;
use crate::through_servers::stage::{Dialect, Stage};

on_both_databases!(
    a_run_is_claimed_started_and_ended_and_each_request_may_be_repeated,
    a_claim_whose_answer_was_lost_is_given_the_same_runs,
    a_claim_that_was_taken_over_may_do_nothing,
    whoever_names_organizations_gets_no_other,
    a_project_has_one_run_under_way_and_keeps_nobody_else_waiting,
);

async fn a_run_is_claimed_started_and_ended_and_each_request_may_be_repeated(dialect: Dialect) {
    let stage = Stage::set(dialect).await;
    let (_worker, client) = worker(&stage, &[]).await;
    let id = queue(&stage.outside, 1, "acme").await;
    assert_eq!(depth(&stage.outside).await, (1, 0));

    let run = claim_one(&client).await;
    assert_eq!(run["run_id"], id.as_str());
    assert_eq!(run["organization_id"], "acme");
    assert_eq!(run["agent_profile_id"], "builder");
    assert_eq!(run["reason"], "task_assigned");
    assert_eq!((&run["task_id"], &run["fencing_token"]), (&json!("t"), &json!(1)));
    assert_eq!(depth(&stage.outside).await, (0, 1));
    assert!(claim(&client, 5, 0).await.is_empty(), "nobody is given it twice");
    let beat = ask(&client, "heartbeat", held(&run)).await.unwrap();
    assert_eq!(beat.get("cancel"), None);
    let early = with(held(&run), json!({ "status": "succeeded" }));
    assert_eq!(refusal(&client, "finish", early.clone()).await, "lease_lost");

    let started = ask(&client, "start", held(&run)).await.unwrap();
    let payload = &stage.outside.runs().await[0].payload;
    assert_eq!(started["payload"], payload.as_str(), "what it reads is what the row says");
    assert_eq!(ask(&client, "start", held(&run)).await.unwrap()["payload"], payload.as_str());
    assert_eq!(status(&stage.outside, &id).await, "running");
    ask(&client, "heartbeat", held(&run)).await.unwrap();

    for _ in 0..2 {
        let ended = ask(&client, "finish", early.clone()).await.unwrap();
        assert_eq!(ended["status"], "succeeded");
    }
    let other = with(held(&run), json!({ "status": "failed", "reason": "too late" }));
    assert_eq!(refusal(&client, "finish", other).await, "already_ended");
    for verb in ["start", "heartbeat"] {
        assert_eq!(refusal(&client, verb, held(&run)).await, "already_ended", "{verb}");
    }
    assert_eq!(status(&stage.outside, &id).await, "succeeded");
    assert_eq!(depth(&stage.outside).await, (0, 0));
    let unknown = json!({ "run_id": uuid::Uuid::from_u128(77), "fencing_token": 1 });
    assert_eq!(refusal(&client, "heartbeat", unknown).await, "unknown_run");
}

async fn a_claim_whose_answer_was_lost_is_given_the_same_runs(dialect: Dialect) {
    let stage = Stage::set(dialect).await;
    let (_worker, client) = worker(&stage, &[]).await;
    for id in 1..=3 {
        queue(&stage.outside, id, "acme").await;
    }
    let claim_id = uuid::Uuid::from_u128(5);
    let body = json!({ "runner_id": "r", "claim_id": claim_id, "runs_max": 2 });
    let first = ask(&client, "claim", body.clone()).await.unwrap();
    assert_eq!(first["runs"].as_array().unwrap().len(), 2);
    let again = ask(&client, "claim", body).await.unwrap();
    let ids = |reply: &serde_json::Value| {
        let runs = reply["runs"].as_array().unwrap().iter();
        runs.map(|run| held(run).to_string()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&first), ids(&again));
    assert_eq!(depth(&stage.outside).await, (1, 2));
}

async fn a_claim_that_was_taken_over_may_do_nothing(dialect: Dialect) {
    let stage = Stage::set(dialect).await;
    let (_worker, client) = worker(&stage, &[]).await;
    let id = queue(&stage.outside, 1, "acme").await;
    let body = json!({ "runner_id": "slow", "lease_seconds": 1 });
    let slow = ask(&client, "claim", body).await.unwrap()["runs"][0].clone();
    until_status(&stage.outside, &id, "queued").await;
    let quick = claim_one(&client).await;
    assert_eq!(quick["fencing_token"], 2);
    for verb in ["start", "heartbeat"] {
        assert_eq!(refusal(&client, verb, held(&slow)).await, "lease_lost", "{verb}");
    }
    let end = with(held(&slow), json!({ "status": "failed" }));
    assert_eq!(refusal(&client, "finish", end).await, "lease_lost");
    ask(&client, "start", held(&quick)).await.unwrap();
    let end = with(held(&quick), json!({ "status": "failed", "reason": "no luck" }));
    ask(&client, "finish", end).await.unwrap();
    assert_eq!(status(&stage.outside, &id).await, "failed");
    let why = "SELECT count(*) FROM runs WHERE ended_reason = 'no luck'";
    assert_eq!(stage.outside.number(why).await, 1);
}

async fn whoever_names_organizations_gets_no_other(dialect: Dialect) {
    let stage = Stage::set(dialect).await;
    let (_worker, client) = worker(&stage, &[]).await;
    queue(&stage.outside, 1, "acme").await;
    queue(&stage.outside, 2, "").await;
    let of = |organizations: serde_json::Value| json!({ "runner_id": "r", "runs_max": 9, "organizations": organizations });
    let none = ask(&client, "claim", of(json!(["globex", "initech"]))).await.unwrap();
    assert_eq!(none["runs"], json!([]));
    // The organization of the subject is the organization of the body, or nothing is done.
    let scoped = "claim.acme";
    let refused = ask(&client, scoped, of(json!([]))).await.unwrap_err();
    assert_eq!(
        (refused.code(), &refused.error["field"]),
        ("missing_field", &json!("organizations"))
    );
    for others in [json!(["globex"]), json!(["acme", "globex"]), json!([""])] {
        assert_eq!(refusal(&client, scoped, of(others)).await, "subject_mismatch");
    }
    assert_eq!(refusal(&client, "claim.-", of(json!(["acme"]))).await, "subject_mismatch");
    let nameless = ask(&client, "claim.-", of(json!([""]))).await.unwrap();
    assert_eq!(nameless["runs"][0]["organization_id"], "");
    let named = ask(&client, scoped, of(json!(["acme"]))).await.unwrap();
    assert_eq!(named["runs"].as_array().unwrap().len(), 1);
    assert_eq!(named["runs"][0]["organization_id"], "acme");
}

/// A run of a project, made after one that has ended.
async fn of_project(outside: &Outside, id: u128, project: &str) {
    outside.insert_run(&OutsideRun { id, status: "succeeded", ..OutsideRun::default() }).await;
    let (like, id) = (uuid::Uuid::from_u128(id), uuid::Uuid::from_u128(id + 1_000));
    let columns = "organization_id, agent_profile_id, reason, payload, requested_at";
    let insert = format!(
        "INSERT INTO runs (id, project_id, status, {columns}) \
         SELECT '{id}', '{project}', 'queued', {columns} FROM runs WHERE id = '{like}'"
    );
    outside.execute(&insert).await;
}

async fn a_project_has_one_run_under_way_and_keeps_nobody_else_waiting(dialect: Dialect) {
    let stage = Stage::set(dialect).await;
    let (_worker, client) = worker(&stage, &[]).await;
    for (id, project) in [(1, "p"), (2, "p"), (3, "q")] {
        of_project(&stage.outside, id, project).await;
    }
    let runs = claim(&client, 9, 0).await;
    let mut projects: Vec<&str> =
        runs.iter().map(|run| run["project_id"].as_str().unwrap()).collect();
    projects.sort_unstable();
    assert_eq!(projects, ["p", "q"]);
    assert!(claim(&client, 9, 0).await.is_empty());
    let first = runs.iter().find(|run| run["project_id"] == "p").unwrap();
    ask(&client, "start", held(first)).await.unwrap();
    let end = with(held(first), json!({ "status": "succeeded" }));
    ask(&client, "finish", end).await.unwrap();
    assert_eq!(claim_one(&client).await["project_id"], "p");
}
