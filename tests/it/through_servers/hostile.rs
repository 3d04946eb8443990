//! Ids and headers that would break a subject, a query or a line, were they to get there raw.

use async_nats::{HeaderMap, HeaderValue};
use rand::{Rng as _, SeedableRng as _};
use serde_json::json;
use wakegate::wake::token::token;

use super::on_both_databases;
use super::stage::{Dialect, Setting, Stage, subject};
use super::story::assignment;

on_both_databases!(
    hostile_ids_are_data_everywhere,
    headers_of_a_publisher_borrow_nothing_from_the_worker,
);

/// 256 bytes that no compression helps with.
fn random_text(seed: u64) -> String {
    let mut random = rand::rngs::StdRng::seed_from_u64(seed);
    let mut text = String::new();
    while text.len() < 253 {
        text.extend(char::from_u32(random.random_range(1..0x2_FFFF)));
    }
    while text.len() < 256 {
        text.push('x');
    }
    text
}

fn hostile_ids() -> Vec<String> {
    let plain = [
        "*",
        ">",
        ".",
        "..",
        "a.b",
        "a b",
        " ",
        "-",
        "\n",
        "\r\n",
        "\t",
        "'",
        "\"",
        "''; --",
        "\\",
        "\u{202e}evil",
        "\u{200b}",
        "%",
        ":",
        "=2E",
        "$JS.API",
        "_INBOX",
        "é",
        "\u{1F600}",
        "\u{FFFD}",
        "null",
        "0",
        "{}",
    ];
    let mut ids: Vec<String> = plain.iter().map(|&id| id.to_owned()).collect();
    ids.push("x".repeat(256));
    ids.extend((0..4).map(random_text));
    ids
}

async fn hostile_ids_are_data_everywhere(dialect: Dialect) {
    let stage = Stage::with(dialect, Setting { partitions: 2, ..Setting::default() }).await;
    let worker = stage.worker().await;
    let ids = hostile_ids();
    let mut asked = Vec::new();
    for id in &ids {
        let organization = json!({ "organization_id": id });
        let refused = format!("{id}!");
        asked.push(stage.ask(&assignment(id, id, 1).with(organization.clone())).await);
        if refused.len() <= 256 {
            // By bound values: what is tested is how it is read.
            let sql = "INSERT INTO agents (organization_id, agent_profile_id, status) \
                       VALUES ($1, $2, 'stopped')";
            match &stage.outside {
                crate::harness::outside::Outside::Sqlite(pool) => {
                    sqlx::query(sql).bind(id).bind(&refused).execute(pool).await.map(drop)
                }
                crate::harness::outside::Outside::Postgres(pool) => {
                    sqlx::query(sql).bind(id).bind(&refused).execute(pool).await.map(drop)
                }
            }
            .unwrap();
            asked.push(stage.ask(&assignment(id, &refused, 1).with(organization)).await);
        }
    }
    let mut refused = Vec::new();
    for asked in &asked {
        let record = stage.outcome(asked).await;
        match record["outcome"].as_str() {
            Some("queued") => {
                let run = stage.outside.run_of(&record).await;
                assert!(ids.contains(&run.organization_id), "{run:?}");
                assert_eq!(run.task_id.as_ref(), Some(&run.organization_id));
                assert_eq!(run.agent_profile_id, run.organization_id);
            }
            Some("refused") => refused.push(record["organization_id"].as_str().unwrap().to_owned()),
            _ => panic!("{}", worker.told(&record.to_string())),
        }
    }
    assert_eq!(stage.outside.run_count().await, i64::try_from(ids.len()).unwrap());
    let expected: Vec<&String> = ids.iter().filter(|id| id.len() <= 255).collect();
    assert_eq!(refused.iter().collect::<Vec<_>>(), expected);
    stage.settled().await;
    let mut subjects: Vec<String> =
        stage.audited().await.into_iter().map(|event| event.subject).collect();
    let mut wanted: Vec<String> = refused
        .iter()
        .map(|id| format!("wake-audit.refused.agent_stopped.{}", token(id)))
        .collect();
    subjects.sort();
    wanted.sort();
    assert_eq!(subjects, wanted);
    let holds = worker.moved(&["wakegate_lane_holds_total", "wakegate_rejected_total"]).await;
    assert!(holds.is_empty(), "{holds:?}");
}

async fn headers_of_a_publisher_borrow_nothing_from_the_worker(dialect: Dialect) {
    let stage = Stage::set(dialect).await;
    let worker = stage.worker().await;
    let eavesdropper = stage.nats.client().await;
    let mut everything = eavesdropper.subscribe("elsewhere.>").await.unwrap();
    eavesdropper.flush().await.unwrap();

    let forbidden = [
        "elsewhere.a",
        "wakes.task_mutation.acme.t1",
        "$JS.API.STREAM.DELETE.WAKES",
        "wake-audit.refused.agent_paused.acme",
        "wake-outcomes.>",
        "wake-outcomes.*",
        "wake-outcomes..a",
        "_INBOX.",
        "wake-outcomes",
    ];
    for (nth, outcome_to) in (0..).zip(forbidden) {
        let mut headers = HeaderMap::new();
        headers.insert("Wakegate-Outcome-To", outcome_to.parse::<HeaderValue>().unwrap());
        headers.insert("Nats-Pin-Id", "not-yours".parse::<HeaderValue>().unwrap());
        headers.insert("traceparent", "00-zz-zz-00".parse::<HeaderValue>().unwrap());
        let event = assignment(&format!("t{nth}"), "a1", 1);
        stage.send_to(&subject(&event), headers, event.body.clone()).await;
    }
    let after = stage.publish_for_outcome(&assignment("after", "a1", 1)).await;
    assert_eq!(after["outcome"], "queued");
    stage.settled().await;

    let ignored = "wakegate_contract_violations_total{kind=\"outcome_subject\"}";
    let counted = worker.scrape().await[ignored];
    assert!((counted - 9.0).abs() < f64::EPSILON, "{counted}");
    assert_eq!(stage.outside.run_count().await, 10);
    let wakes = stage.context.get_stream("WAKES").await.unwrap();
    assert_eq!(wakes.cached_info().state.messages, 10, "nothing came of the stream's own subjects");
    assert!(stage.audited().await.is_empty());
    let heard =
        futures_util::FutureExt::now_or_never(futures_util::StreamExt::next(&mut everything));
    assert!(heard.is_none(), "{heard:?}");
    let changes = worker.log().matches("\"barrier raised\"").count();
    assert_eq!(changes, 1, "a header changes no owner: {}", worker.log());
}
