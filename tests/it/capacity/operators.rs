//! Limits as operators set and see them: over NATS, by command, and in the stores.

use serde_json::{Value, json};
use wakegate::admission::limits::{Dimension, OrganizationLimits};
use wakegate::cli::limits_table;
use wakegate::config::{Config, LimitsMode};
use wakegate::control::documents::{LimitsGetRequest, LimitsSetRequest};
use wakegate::control::limits;
use wakegate::store::control::{Change, Operator, Why};
use wakegate::store::limits::{LimitStore, LimitsChange, Usage, UsageQuery};
use wakegate::store::{RoomQuery, Store};
use wakegate::wake::{OrganizationId, ProjectId, UtcMicros};

use super::{own_limits, wake};
use crate::control::asking::{ask, until_answering};
use crate::harness::case::{self, Case};
use crate::harness::command::ended;
use crate::harness::golden;
use crate::harness::world::{SECOND, T0, brief};
use crate::through_servers::on_both_databases;
use crate::through_servers::stage::{Dialect, Stage};
use crate::through_servers::story::assignment;

on_both_databases!(
    seed_003_limits_are_set_over_nats_and_by_command_and_hold_from_the_next_batch_on
);

const ODD: [&str; 5] = ["", "*", "a.b.>", "'; DROP TABLE runs; --", "日本\u{202e}\n"];

fn organization(id: &str) -> OrganizationId {
    OrganizationId::parse(id).unwrap()
}

fn change(id: &str, limits: &[(Dimension, Option<u32>)]) -> LimitsChange {
    LimitsChange {
        organization_id: organization(id),
        limits: limits.to_vec(),
        weight: None,
        by: Change {
            actor: Operator::parse("ann\u{202e}").unwrap(),
            reason: Why::parse("it's \"agreed\"").unwrap(),
            at: UtcMicros::from_micros(T0),
        },
    }
}

#[tokio::test]
async fn limits_are_set_piece_by_piece_on_sqlite() {
    Box::pin(limits_are_set_piece_by_piece(case::sqlite().await)).await;
}

#[tokio::test]
async fn limits_are_set_piece_by_piece_on_postgres() {
    Box::pin(limits_are_set_piece_by_piece(case::postgres().await)).await;
}

/// What is not named stays, and gate 6 reads the same.
async fn limits_are_set_piece_by_piece<S: Store + LimitStore>(case: Case<S>) {
    let store = &case.world.bench.store;
    for id in ODD {
        assert_eq!(store.limits(&organization(id)).await.unwrap(), None);
        let mut expected = OrganizationLimits::default();
        for (dimension, limit) in Dimension::of_organizations().zip([5, 4, 0, 3, 2, u32::MAX]) {
            expected = expected.with(dimension, Some(limit));
            let row = store.set_limits(&change(id, &[(dimension, Some(limit))])).await.unwrap();
            assert_eq!(row.limits, expected, "{id:?} {dimension:?}");
            assert_eq!((row.actor.as_deref(), row.weight), (Some("ann\u{202e}"), None));
        }
        let heavy = LimitsChange { weight: Some(Some(7)), ..change(id, &[]) };
        let row = store.set_limits(&heavy).await.unwrap();
        assert_eq!((row.limits, row.weight), (expected, Some(7)));
        let cleared = change(id, &[(Dimension::Waiting, None)]);
        let row = store.set_limits(&cleared).await.unwrap();
        expected = expected.with(Dimension::Waiting, None);
        assert_eq!((row.limits, row.weight), (expected, Some(7)), "null leaves the platform's");
        assert_eq!(store.limits(&organization(id)).await.unwrap(), Some(row));
        let asked = RoomQuery { organizations: vec![organization(id)], ..RoomQuery::default() };
        assert_eq!(store.read_room(&asked).await.unwrap().limits[&organization(id)], expected);
    }
}

#[tokio::test]
async fn the_use_is_told_on_sqlite() {
    Box::pin(the_use_is_told(case::sqlite().await)).await;
}

#[tokio::test]
async fn the_use_is_told_on_postgres() {
    Box::pin(the_use_is_told(case::postgres().await)).await;
}

async fn the_use_is_told<S: Store + LimitStore>(mut case: Case<S>) {
    let of = |i: i64, organization: &str, project: &str| {
        wake(i).with(json!({ "organization_id": organization, "project_id": project })).at(T0 + i)
    };
    let events = [of(1, "acme", "p"), of(2, "acme", "p"), of(3, "acme", "q"), of(4, "other", "p")];
    assert_eq!(case.world.outcomes(&events).await, ["queued"; 4]);
    case.outside.execute("UPDATE runs SET status = 'running' WHERE task_id = 't3'").await;
    let asked = |intake_since| UsageQuery {
        organization_id: Some(organization("acme")),
        project_id: Some(ProjectId::parse("p").unwrap()),
        intake_since: UtcMicros::from_micros(intake_since),
    };
    let usage = case.world.bench.store.usage(&asked(T0)).await.unwrap();
    let expected = Usage {
        queued_platform: 3,
        active_platform: 1,
        queued_organization: 2,
        active_organization: 1,
        queued_project: 2,
        intake: 3,
    };
    assert_eq!(usage, expected);
    let later = case.world.bench.store.usage(&asked(T0 + 10 * SECOND)).await.unwrap();
    assert_eq!(later.intake, 0);
    let platform = UsageQuery { organization_id: None, project_id: None, ..asked(T0) };
    let usage = case.world.bench.store.usage(&platform).await.unwrap();
    let expected = Usage { queued_platform: 3, active_platform: 1, ..Usage::default() };
    assert_eq!(usage, expected);
}

async fn seed_003_limits_are_set_over_nats_and_by_command_and_hold_from_the_next_batch_on(
    dialect: Dialect,
) {
    let stage = Stage::set(dialect).await;
    let _worker = stage.worker().await;
    let client = stage.nats.client().await;
    until_answering(&client).await;
    let set = json!({
        "organization_id": "acme", "queued_runs_max": 1, "weight": 2, "actor": "ann",
        "reason": "agreed",
    });
    let reply = ask(&client, "limits.set", set).await.unwrap();
    let of = |reply: &Value, name: &str| -> Value {
        let limits = reply["limits"].as_array().unwrap();
        limits.iter().find(|limit| limit["name"] == name).expect("every limit is told").clone()
    };
    let queued = of(&reply, "queued_runs.organization");
    assert_eq!(queued["max"], 1, "{reply}");
    assert_eq!((&queued["source"], &queued["organization"]), (&json!("organization"), &json!(1)));
    assert_eq!(queued["platform"], 1_000_000);
    assert_eq!((&reply["own"]["weight"], &reply["own"]["actor"]), (&json!(2), &json!("ann")));

    assert_eq!(brief(&stage.publish_for_outcome(&assignment("t1", "a1", 1)).await), "queued");
    let refused = stage.publish_for_outcome(&assignment("t2", "a1", 1)).await;
    assert_eq!(brief(&refused), "refused:capacity_exhausted");
    assert_eq!(refused["overload"]["layer"], "organization");

    let command = |arguments: &[&str]| {
        let mut command = stage.command(arguments);
        command.env("USER", "bob");
        ended(&mut command)
    };
    let shown = command(&["limits", "--organization", "acme"]);
    assert_eq!(shown.code, Some(0), "{}", shown.stderr);
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(of(&shown, "queued_runs.organization")["in_use"], 1);
    let raised = command(&[
        "limits",
        "set",
        "--organization",
        "acme",
        "--queued-runs-max",
        "platform",
        "--reason",
        "r",
    ]);
    assert_eq!(raised.code, Some(0), "{}", raised.stderr);
    let raised: Value = serde_json::from_str(&raised.stdout).unwrap();
    assert_eq!(of(&raised, "queued_runs.organization")["source"], "platform");
    assert_eq!((&raised["own"]["weight"], &raised["own"]["actor"]), (&json!(2), &json!("bob")));
    assert_eq!(brief(&stage.publish_for_outcome(&assignment("t3", "a1", 1)).await), "queued");

    let got = ask(&client, "limits.get", json!({ "organization_id": "acme" })).await.unwrap();
    assert_eq!(of(&got, "queued_runs.organization")["in_use"], 2);
    assert_eq!(of(&got, "intake")["in_use"], 2);
    let platform = ask(&client, "limits.get", json!({})).await.unwrap();
    assert_eq!(platform.get("organization_id"), None);
    assert_eq!(of(&platform, "queued_runs.organization").get("in_use"), None);
    for (field, wrong) in
        [("queued_runs_max", json!(-1)), ("weight", json!(0)), ("event_bytes_max", json!("1"))]
    {
        let mut set = json!({ "organization_id": "acme", "actor": "a", "reason": "r" });
        set[field] = wrong;
        let error = ask(&client, "limits.set", set).await.unwrap_err();
        assert_eq!((error.code(), &error.error["field"]), ("invalid_field", &json!(field)));
    }
    for arguments in [
        &["limits", "--project", "p"][..],
        &["limits", "set", "--organization", "a", "--queued-runs-max", "some", "--reason", "r"],
        &["limits", "set", "--organization", "a", "--weight", "0", "--reason", "r"],
        &["limits", "set", "--queued-runs-max", "1", "--reason", "r"],
        &["limits", "set", "--organization", "a", "--queued-runs-max", "1"],
    ] {
        assert_eq!(command(arguments).code, Some(2), "{arguments:?}");
    }
}

#[tokio::test]
async fn a_person_is_shown_each_limit_with_its_layer_and_its_use() {
    let mut case = case::sqlite().await;
    own_limits(&case.outside, "acme", &[("queued_runs_max", "5"), ("event_bytes_max", "9999999")])
        .await;
    let outcomes = Box::pin(case.world.outcomes(&[wake(1), wake(2)])).await;
    assert_eq!(outcomes, ["queued"; 2]);
    let mut platform = Config::default().limits;
    platform.mode = LimitsMode::Production;
    platform.version = Some("2026-11-30".to_owned());
    let store = &case.world.bench.store;
    let now = UtcMicros::from_micros(T0 + 120 * SECOND);
    let request =
        LimitsGetRequest { organization_id: Some(organization("acme")), project_id: None };
    let reply = limits::get(store, &platform, request, now).await.unwrap();
    let text = limits_table(&reply, 100, false);
    // A row from outside says neither who nor when it was.
    let (first, rest) = text.split_once("set at ").expect("the organization has set something");
    let (_, rest) = rest.split_once(" by ").unwrap();
    golden::check("limits.txt", &format!("{first}set at … by {rest}"));
    let set = LimitsSetRequest {
        organization_id: organization("acme"),
        queued_runs_max: Some(Some(0)),
        queued_runs_project_max: None,
        waiting_seconds_max: None,
        active_runs_max: None,
        intake_events_per_minute_max: None,
        event_bytes_max: Some(None),
        weight: None,
        actor: Operator::parse("ann").unwrap(),
        reason: Why::parse("not paid").unwrap(),
    };
    platform.enforced = false;
    let reply = limits::set(store, &platform, set, now).await.unwrap();
    golden::check("limits-set.txt", &limits_table(&reply, 100, false));
}
