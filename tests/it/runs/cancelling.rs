//! Who may keep a run from running or end it, and how its runner learns.

use async_nats::Client;
use serde_json::{Value, json};

use super::asking::{
    ask, claim, claim_one, depth, held, queue, refusal, status, until_status, with, worker,
};
use crate::harness::until_some;
use crate::through_servers::on_both_databases;
use crate::through_servers::stage::{Dialect, Stage};

on_both_databases!(
    whoever_asked_for_a_run_may_withdraw_it_while_it_is_queued,
    an_organizations_people_cancel_its_runs_and_no_others,
    the_runner_of_a_cancelled_run_is_told_and_confirms,
    a_cancellation_that_nobody_confirms_ends_the_run_all_the_same,
    what_is_paused_is_not_claimed_and_stop_now_ends_what_is_under_way,
    the_command_cancels_and_says_what_became_of_it,
);

/// A run whose payload says that this person asked for it.
async fn asked_for(stage: &Stage, id: u128, actor: &str) -> String {
    let id = queue(&stage.outside, id, "acme").await;
    let sql =
        format!("UPDATE runs SET actor_type = 'user', actor_id = '{actor}' WHERE id = '{id}'");
    stage.outside.execute(&sql).await;
    id
}

fn by(run: &str, more: Value) -> Value {
    with(json!({ "run_id": run, "actor": "ann", "reason": "not any more" }), more)
}

fn of_acme(run: &str) -> Value {
    by(run, json!({ "scope": "organization", "organization_id": "acme" }))
}

async fn whoever_asked_for_a_run_may_withdraw_it_while_it_is_queued(dialect: Dialect) {
    let stage = Stage::set(dialect).await;
    let (_worker, client) = worker(&stage, &[]).await;
    let run = asked_for(&stage, 1, "ann").await;
    let withdraw = by(&run, json!({ "organization_id": "acme" }));
    for other in [json!({ "actor": "bob" }), json!({ "organization_id": "globex" })] {
        let code = refusal(&client, "withdraw", with(withdraw.clone(), other)).await;
        assert_eq!(code, "unknown_run", "nothing is told of others' runs");
    }
    assert_eq!(refusal(&client, "withdraw.globex", withdraw.clone()).await, "subject_mismatch");
    for _ in 0..2 {
        let done = ask(&client, "withdraw.acme", withdraw.clone()).await.unwrap();
        assert_eq!(done["status"], "cancelled");
    }
    assert_eq!(status(&stage.outside, &run).await, "cancelled");
    assert!(claim(&client, 1, 0).await.is_empty(), "it is never started");

    let run = asked_for(&stage, 2, "ann").await;
    claim_one(&client).await;
    let late = by(&run, json!({ "organization_id": "acme" }));
    assert_eq!(refusal(&client, "withdraw", late).await, "not_queued");
    assert_eq!(status(&stage.outside, &run).await, "claimed");
    let kept =
        "SELECT count(*) FROM runs WHERE cancel_actor = 'ann' AND cancel_reason = 'not any more'";
    assert_eq!(stage.outside.number(kept).await, 1, "who and why are kept");
}

async fn an_organizations_people_cancel_its_runs_and_no_others(dialect: Dialect) {
    let stage = Stage::set(dialect).await;
    let (_worker, client) = worker(&stage, &[]).await;
    let run = queue(&stage.outside, 1, "acme").await;
    let other = queue(&stage.outside, 2, "globex").await;
    assert_eq!(refusal(&client, "cancel", of_acme(&other)).await, "unknown_run");
    let scope = json!({ "organization_id": "globex" });
    let forged = with(of_acme(&other), scope);
    assert_eq!(refusal(&client, "cancel.acme", forged).await, "subject_mismatch");
    let platform = by(&other, json!({ "scope": "platform" }));
    assert_eq!(refusal(&client, "cancel.acme", platform.clone()).await, "missing_field");
    let both = with(of_acme(&run), json!({ "scope": "platform" }));
    assert_eq!(refusal(&client, "cancel", both).await, "invalid_field");

    assert_eq!(ask(&client, "cancel.acme", of_acme(&run)).await.unwrap()["status"], "cancelled");
    assert_eq!(ask(&client, "cancel", platform).await.unwrap()["status"], "cancelled");
    assert_eq!(depth(&stage.outside).await, (0, 0));

    let ended = queue(&stage.outside, 3, "acme").await;
    let run = claim_one(&client).await;
    let end = with(held(&run), json!({ "status": "failed" }));
    ask(&client, "finish", end).await.unwrap();
    let refused = ask(&client, "cancel", of_acme(&ended)).await.unwrap_err();
    assert_eq!((refused.code(), &refused.error["status"]), ("already_ended", &json!("failed")));
}

async fn the_runner_of_a_cancelled_run_is_told_and_confirms(dialect: Dialect) {
    let stage = Stage::set(dialect).await;
    let (_worker, client) = worker(&stage, &[]).await;
    // One is not started yet, one runs.
    let claimed = queue(&stage.outside, 1, "acme").await;
    let first = claim_one(&client).await;
    let running = queue(&stage.outside, 2, "acme").await;
    let second = claim_one(&client).await;
    ask(&client, "start", held(&second)).await.unwrap();
    for run in [&claimed, &running] {
        let told = ask(&client, "cancel", of_acme(run)).await.unwrap();
        assert_eq!(told["status"], "cancelling");
        let again = ask(&client, "cancel", of_acme(run)).await.unwrap();
        assert_eq!(again["requested_at"], told["requested_at"], "as it was asked for first");
    }
    assert_eq!(refusal(&client, "start", held(&first)).await, "cancelling");
    for run in [&first, &second] {
        let beat = ask(&client, "heartbeat", held(run)).await.unwrap();
        assert_eq!(beat["cancel"]["actor"], "ann", "{beat}");
        assert_eq!(beat["cancel"]["reason"], "not any more", "{beat}");
        let end = with(held(run), json!({ "status": "cancelled" }));
        assert_eq!(ask(&client, "finish", end).await.unwrap()["status"], "cancelled");
    }
    assert_eq!(depth(&stage.outside).await, (0, 0));
}

async fn a_cancellation_that_nobody_confirms_ends_the_run_all_the_same(dialect: Dialect) {
    let stage = Stage::set(dialect).await;
    let (_worker, client) = worker(&stage, &[("WAKEGATE_QUEUE_CANCEL_GRACE_SECONDS", "1")]).await;
    let id = queue(&stage.outside, 1, "acme").await;
    let run = claim_one(&client).await;
    ask(&client, "start", held(&run)).await.unwrap();
    ask(&client, "cancel", of_acme(&id)).await.unwrap();
    until_status(&stage.outside, &id, "cancelled").await;
    assert_eq!(refusal(&client, "heartbeat", held(&run)).await, "already_ended");
    let end = with(held(&run), json!({ "status": "succeeded" }));
    assert_eq!(refusal(&client, "finish", end).await, "already_ended");
    let why = "SELECT count(*) FROM runs WHERE ended_reason = 'unconfirmed'";
    assert_eq!(stage.outside.number(why).await, 1);
}

async fn cancellation(client: &Client, run: &Value) -> Value {
    let look = async || {
        let beat = ask(client, "heartbeat", held(run)).await.unwrap();
        beat.get("cancel").cloned()
    };
    until_some(look, || format!("{run} is never to end")).await
}

async fn what_is_paused_is_not_claimed_and_stop_now_ends_what_is_under_way(dialect: Dialect) {
    let stage = Stage::set(dialect).await;
    let (_worker, client) = worker(&stage, &[]).await;
    for (id, organization) in [(1, "acme"), (2, "globex"), (3, "acme"), (4, "globex")] {
        queue(&stage.outside, id, organization).await;
    }
    let runs = claim(&client, 2, 0).await;
    let of = |organization: &str| {
        runs.iter().find(|run| run["organization_id"] == organization).expect("one of each").clone()
    };
    let (acme, globex) = (of("acme"), of("globex"));
    for run in [&acme, &globex] {
        ask(&client, "start", held(run)).await.unwrap();
    }
    let pause = async |arguments: &[&str]| {
        let all = [arguments, &["--reason", "runaway", "--actor", "ops"]].concat();
        let ended = stage.run(&all);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    };
    // Drained: what is under way goes on, and nothing begins.
    pause(&["pause", "--organization", "acme"]).await;
    let next = claim(&client, 5, 0).await;
    assert_eq!(next.len(), 1);
    assert_eq!(next[0]["organization_id"], "globex");
    assert_eq!(ask(&client, "heartbeat", held(&acme)).await.unwrap().get("cancel"), None);
    // Stopped: what is under way is to end, and nobody else's.
    pause(&["resume", "--organization", "acme"]).await;
    pause(&["pause", "--organization", "acme", "--mode", "stop-now"]).await;
    assert!(claim(&client, 5, 0).await.is_empty());
    let cancel = cancellation(&client, &acme).await;
    assert_eq!((&cancel["actor"], &cancel["reason"]), (&json!("ops"), &json!("runaway")));
    assert_eq!(ask(&client, "heartbeat", held(&globex)).await.unwrap().get("cancel"), None);
    let end = with(held(&acme), json!({ "status": "cancelled" }));
    ask(&client, "finish", end).await.unwrap();
    pause(&["pause", "--platform", "--mode", "stop-now"]).await;
    cancellation(&client, &globex).await;
    cancellation(&client, &next[0]).await;
    // Recovery is explicit: what was not under way is claimed again.
    pause(&["resume", "--platform"]).await;
    pause(&["resume", "--organization", "acme"]).await;
    assert_eq!(claim_one(&client).await["organization_id"], "acme");
}

async fn the_command_cancels_and_says_what_became_of_it(dialect: Dialect) {
    let stage = Stage::set(dialect).await;
    let (_worker, client) = worker(&stage, &[]).await;
    let run = queue(&stage.outside, 1, "acme").await;
    let cancel = |run: &str, scope: &[&str]| {
        let arguments =
            [&["cancel", run], scope, &["--reason", "wrong task", "--actor", "ann"]].concat();
        stage.run(&arguments)
    };
    let elsewhere = cancel(&run, &["--organization", "globex"]);
    assert_eq!(elsewhere.code, Some(5), "{}", elsewhere.stderr);
    assert!(
        elsewhere.stderr.contains("unknown_run") || elsewhere.stderr.contains("there is no run")
    );
    let done = cancel(&run, &["--organization", "acme"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let printed: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(printed, json!({ "run_id": run, "status": "cancelled" }));

    let run = queue(&stage.outside, 2, "acme").await;
    let claimed = claim_one(&client).await;
    let asked = cancel(&run, &["--platform"]);
    let printed: Value = serde_json::from_str(&asked.stdout).unwrap();
    assert_eq!(printed["status"], "cancelling", "{}", asked.stderr);
    let end = with(held(&claimed), json!({ "status": "failed" }));
    ask(&client, "finish", end).await.unwrap();
    let late = cancel(&run, &["--platform"]);
    assert_eq!(late.code, Some(5), "{}", late.stderr);
    assert_eq!(cancel("no-uuid", &["--platform"]).code, Some(2));
}
