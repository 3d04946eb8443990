//! Each request, on both databases, answered by a running worker.

use serde_json::{Value, json};

use super::asking::{ask, until_answering};
use crate::harness::world::brief;
use crate::through_servers::on_both_databases;
use crate::through_servers::stage::{Dialect, Stage};
use crate::through_servers::story::assignment;

on_both_databases!(
    a_pause_takes_effect_on_the_next_batch_and_so_does_its_end,
    the_status_of_an_agent_takes_effect_on_the_next_batch,
    the_same_request_again_is_answered_and_another_is_refused,
    lists_come_in_pages,
    counts_health_and_configuration_are_told,
);

/// Ids that are data, whatever they look like.
const ODD: [&str; 6] = ["", "*", "a.b.>", "\u{202e}x \n", "'; DROP TABLE pauses; --", "日本"];

fn instant(value: &Value) -> &str {
    let text = value.as_str().expect("an instant is text");
    assert!(text.len() == 27 && text.ends_with('Z'), "{text}");
    text
}

async fn a_pause_takes_effect_on_the_next_batch_and_so_does_its_end(dialect: Dialect) {
    let stage = Stage::set(dialect).await;
    let _worker = stage.worker().await;
    let client = stage.nats.client().await;
    until_answering(&client).await;
    let mut generation = 0;
    let mut outcome = async |organization: &str| {
        generation += 1;
        let event = assignment(&format!("t{generation}"), "a1", generation);
        let event = event.with(json!({ "organization_id": organization }));
        stage.publish_for_outcome(&event).await
    };
    for organization in ODD {
        let by = json!({
            "scope": "organization", "organization_id": organization,
            "actor": "ann", "reason": "runaway\nagent",
        });
        let paused = ask(&client, "pause", by.clone()).await.unwrap();
        assert_eq!(paused["created"], true, "{paused}");
        let pause = &paused["pause"];
        assert_eq!(pause["organization_id"], organization);
        assert_eq!((&pause["mode"], &pause["scope"]), (&json!("drain"), &json!("organization")));
        assert_eq!((&pause["actor"], &pause["reason"]), (&json!("ann"), &json!("runaway\nagent")));
        instant(&pause["created_at"]);

        let refused = outcome(organization).await;
        assert_eq!(brief(&refused), "refused:organization_paused", "{refused}");
        assert_eq!(refused["pause_id"], pause["id"]);
        assert_eq!(brief(&outcome("elsewhere").await), "queued", "another organization's");

        let resumed = ask(&client, "resume", by).await.unwrap();
        assert_eq!(resumed["released"], true, "{resumed}");
        assert_eq!(resumed["pause"]["id"], pause["id"]);
        assert_eq!(resumed["pause"]["released"]["actor"], "ann");
        assert_eq!(brief(&outcome(organization).await), "queued");
    }
    let platform = json!({
        "scope": "platform", "mode": "stop_now", "actor": "ann", "reason": "incident",
    });
    let paused = ask(&client, "pause", platform).await.unwrap();
    assert_eq!(paused["pause"].get("organization_id"), None);
    assert_eq!(paused["pause"]["mode"], "stop_now");
    assert_eq!(brief(&outcome("elsewhere").await), "refused:platform_paused");
    let over = json!({ "scope": "platform", "actor": "bob", "reason": "over" });
    ask(&client, "resume", over).await.unwrap();
    assert_eq!(brief(&outcome("elsewhere").await), "queued");
    let kept = "SELECT count(*) FROM pauses WHERE actor = 'ann' AND reason <> '' \
                AND released_by <> '' AND release_reason <> '' AND released_at IS NOT NULL";
    assert_eq!(stage.outside.number(kept).await, 7, "who and why are kept");
}

async fn the_status_of_an_agent_takes_effect_on_the_next_batch(dialect: Dialect) {
    let stage = Stage::set(dialect).await;
    let _worker = stage.worker().await;
    let client = stage.nats.client().await;
    until_answering(&client).await;
    let key = json!({ "organization_id": "acme", "agent_profile_id": "a.*\u{202e}" });
    let unknown = ask(&client, "agent.get", key.clone()).await.unwrap_err();
    assert_eq!((unknown.code(), unknown.number.as_str()), ("unknown_agent", "404"));
    for (nth, (status, outcome)) in [
        ("stopped", "refused:agent_stopped"),
        ("paused", "refused:agent_paused"),
        ("pending_approval", "refused:agent_pending_approval"),
        ("idle", "queued"),
        ("working", "queued"),
    ]
    .into_iter()
    .enumerate()
    {
        let mut request = key.clone();
        request["status"] = json!(status);
        request["actor"] = json!("ann");
        request["reason"] = json!("loops");
        let set = ask(&client, "agent.set", request).await.unwrap();
        assert_eq!(set["agent"]["status"], status);
        instant(&set["agent"]["updated_at"]);
        assert_eq!(ask(&client, "agent.get", key.clone()).await.unwrap(), set);
        let event = assignment(&format!("t{nth}"), "a.*\u{202e}", 1);
        assert_eq!(brief(&stage.publish_for_outcome(&event).await), outcome);
    }
    let kept = "SELECT count(*) FROM agents WHERE actor = 'ann' AND reason = 'loops'";
    assert_eq!(stage.outside.number(kept).await, 1);
}

async fn the_same_request_again_is_answered_and_another_is_refused(dialect: Dialect) {
    let stage = Stage::set(dialect).await;
    let _worker = stage.worker().await;
    let client = stage.nats.client().await;
    until_answering(&client).await;
    let by = |actor: &str, reason: &str| {
        json!({
            "scope": "organization", "organization_id": "acme", "actor": actor, "reason": reason,
        })
    };
    let nothing = ask(&client, "resume", by("ann", "over")).await.unwrap_err();
    assert_eq!((nothing.code(), nothing.number.as_str()), ("not_paused", "409"));

    let first = ask(&client, "pause", by("ann", "flood")).await.unwrap();
    let again = ask(&client, "pause", by("ann", "flood")).await.unwrap();
    assert_eq!((&first["created"], &again["created"]), (&json!(true), &json!(false)));
    assert_eq!(again["pause"], first["pause"], "the pause that there is");
    let id = first["pause"]["id"].as_str().unwrap();
    let mut other_mode = by("ann", "flood");
    other_mode["mode"] = json!("stop_now");
    for other in [by("bob", "flood"), by("ann", "another"), other_mode] {
        let refused = ask(&client, "pause", other).await.unwrap_err();
        assert_eq!((refused.code(), refused.number.as_str()), ("already_paused", "409"));
        assert_eq!(refused.error["pause_id"], id);
    }

    let mut other = by("ann", "over");
    other["pause_id"] = json!("another");
    let refused = ask(&client, "resume", other).await.unwrap_err();
    assert_eq!((refused.code(), refused.error["pause_id"].as_str()), ("pause_changed", Some(id)));
    let mut named = by("ann", "over");
    named["pause_id"] = json!(id);
    let resumed = ask(&client, "resume", named.clone()).await.unwrap();
    let again = ask(&client, "resume", named.clone()).await.unwrap();
    assert_eq!((&resumed["released"], &again["released"]), (&json!(true), &json!(false)));
    assert_eq!(again["pause"], resumed["pause"]);
    named["actor"] = json!("bob");
    let refused = ask(&client, "resume", named.clone()).await.unwrap_err();
    assert_eq!(refused.code(), "not_paused");

    // Paused again since: what named the old pause ends the new one for nobody.
    let second = ask(&client, "pause", by("ann", "flood")).await.unwrap();
    assert_ne!(second["pause"]["id"], first["pause"]["id"]);
    assert_eq!(ask(&client, "resume", named).await.unwrap_err().code(), "pause_changed");
    assert_eq!(stage.outside.number("SELECT count(*) FROM pauses").await, 2);
}

async fn lists_come_in_pages(dialect: Dialect) {
    let stage = Stage::set(dialect).await;
    let _worker = stage.worker().await;
    let client = stage.nats.client().await;
    until_answering(&client).await;
    let platform = json!({ "scope": "platform", "actor": "ann", "reason": "r" });
    ask(&client, "pause", platform).await.unwrap();
    for organization in ODD {
        let pause = json!({
            "scope": "organization", "organization_id": organization, "actor": "a", "reason": "r",
        });
        ask(&client, "pause", pause).await.unwrap();
        let agent = json!({
            "organization_id": organization, "agent_profile_id": "x", "status": "paused",
            "actor": "a", "reason": "r",
        });
        ask(&client, "agent.set", agent).await.unwrap();
    }
    let mut expected: Vec<&str> = ODD.to_vec();
    expected.sort_unstable();

    let (mut request, mut organizations) = (json!({ "limit": 1 }), Vec::new());
    let mut platforms = 0;
    loop {
        let page = ask(&client, "pauses", request.clone()).await.unwrap();
        for pause in page["pauses"].as_array().unwrap() {
            match pause["organization_id"].as_str() {
                Some(organization) => organizations.push(organization.to_owned()),
                None => platforms += 1,
            }
        }
        let Some(next) = page.get("next") else { break };
        request["after"] = next.clone();
    }
    assert_eq!((platforms, organizations), (1, expected.iter().map(|&o| o.to_owned()).collect()));

    let (mut request, mut organizations) = (json!({ "limit": 2, "status": "paused" }), Vec::new());
    loop {
        let page = ask(&client, "agent.list", request.clone()).await.unwrap();
        let agents = page["agents"].as_array().unwrap();
        organizations.extend(agents.iter().map(|a| a["organization_id"].clone()));
        let Some(next) = page.get("next") else { break };
        request["after"] = next.clone();
    }
    assert_eq!(organizations, expected);
    let one = ask(&client, "agent.list", json!({ "organization_id": "日本" })).await.unwrap();
    assert_eq!(one["agents"].as_array().unwrap().len(), 1);
    assert_eq!(one.get("next"), None);
}

async fn counts_health_and_configuration_are_told(dialect: Dialect) {
    let stage = Stage::set(dialect).await;
    let worker = stage.worker().await;
    let client = stage.nats.client().await;
    until_answering(&client).await;
    stage.outside.set_agent("acme", "stopped", "stopped").await;
    stage.publish_for_outcome(&assignment("t1", "a1", 1)).await;
    stage.publish_for_outcome(&assignment("t2", "stopped", 1)).await;
    stage.outside.pause("p1", Some("umbra")).await;

    let counts = ask(&client, "counts", json!({})).await.unwrap();
    assert_eq!(counts["queued_runs"], 1, "{counts}");
    assert_eq!(counts["refusals"]["by_reason"], json!({ "agent_stopped": 1 }));
    assert_eq!(counts["pauses"], json!({ "organization": 1 }));
    assert_eq!(counts["agents"], json!({ "stopped": 1 }));
    assert_eq!(counts.get("unanswered"), None);
    instant(&counts["refusals"]["since"]);

    let health = ask(&client, "health", json!({})).await.unwrap();
    assert_eq!((&health["ready"], &health["shutting_down"]), (&json!(true), &json!(false)));
    assert_eq!(health["worker"]["process"], worker.id());
    assert_eq!(health["worker"]["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(health["components"]["database"]["state"], "ok");
    let lanes = health["lanes"].as_array().unwrap();
    assert_eq!(lanes.len(), 1);
    assert_eq!((&lanes[0]["owned"], &lanes[0]["state"]), (&json!(true), &json!("ok")));
    assert!(lanes[0]["pending"].is_u64() && lanes[0]["oldest_pending_seconds"].is_f64());

    let configuration = ask(&client, "configuration", json!({})).await.unwrap();
    let settings = configuration["settings"].as_array().unwrap();
    let setting = |name: &str| settings.iter().find(|s| s["name"] == name).unwrap();
    assert_eq!(setting("lanes.batch_wakes_max")["value"], "500");
    let source = &setting("lanes.batch_wakes_max")["source"];
    assert_eq!(source, "WAKEGATE_LANES_BATCH_WAKES_MAX");
    assert_eq!(setting("nats.credentials_file").get("value"), None);
    if dialect == Dialect::Postgres {
        let url = setting("database.url")["value"].as_str().unwrap();
        assert!(url.contains("***@") && !url.contains("postgres@"), "{url}");
    }
}
