//! The streams: full, made anew, and made anew under a worker.

use async_nats::jetstream::stream::DiscardPolicy;
use serde_json::{Value, json};

use super::accounts::{add_up, messages};
use super::load::Load;
use crate::through_servers::on_both_databases;
use crate::through_servers::stage::{Dialect, Setting, Stage};
use crate::through_servers::story::assignment;

on_both_databases!(
    a_full_audit_stream_holds_refusals_until_there_is_room,
    a_consumer_made_anew_under_a_worker_is_taken_up_and_nothing_changes,
    a_stream_made_anew_issues_its_sequences_again_and_no_id_twice,
    a_stream_made_anew_under_a_worker_ends_it_and_the_next_one_decides_all,
);

async fn limit_audit(stage: &Stage, max_messages: i64) {
    let stream = stage.context.get_stream("WAKE_AUDIT").await.unwrap();
    let mut config = stream.cached_info().config.clone();
    config.max_messages = max_messages;
    config.discard = if max_messages > 0 { DiscardPolicy::New } else { DiscardPolicy::Old };
    stage.context.update_stream(config).await.unwrap();
}

async fn a_full_audit_stream_holds_refusals_until_there_is_room(dialect: Dialect) {
    let stage = Stage::with(dialect, Setting { batch_wakes_max: 8, ..Setting::default() }).await;
    let worker = stage.worker().await;
    stage.outside.set_agent("acme", "stopped", "stopped").await;
    limit_audit(&stage, 3).await;
    for generation in 0..20 {
        stage.publish(&assignment("t1", "stopped", generation)).await;
    }
    let full = |answer: &crate::harness::http::Answer| {
        let reason = answer.json()["components"]["lane-0"]["reason"].clone();
        answer.status == 503 && reason.as_str().is_some_and(|reason| reason.contains("full"))
    };
    worker.until_readyz("the lane does not say that the stream is full", full).await;
    assert!(stage.lane(0).await.num_ack_pending > 0, "nothing is settled unaudited");
    limit_audit(&stage, -1).await;
    stage.settled().await;
    worker.ready().await;
    let accounts = add_up(&stage).await;
    assert_eq!((accounts.refused, accounts.on_stream(), accounts.gone), (20, 20, 0));
}

async fn a_consumer_made_anew_under_a_worker_is_taken_up_and_nothing_changes(dialect: Dialect) {
    let stage = Stage::set(dialect).await;
    let mut worker = stage.worker().await;
    let mut load = Load::new(rand::random());
    load.publish(&stage, 40).await;
    stage.settled().await;
    let before = add_up(&stage).await;

    let ask = async |request: &str, body: Value| -> Value {
        stage.context.request(request.to_owned(), &body).await.unwrap()
    };
    let info = ask("CONSUMER.INFO.WAKES.lane-0", json!({})).await;
    ask("CONSUMER.DELETE.WAKES.lane-0", json!({})).await;
    let anew = json!({ "stream_name": "WAKES", "config": info["config"] });
    let made = ask("CONSUMER.CREATE.WAKES.lane-0", anew).await;
    assert!(made.get("error").is_none(), "{made}");
    worker.until_logged("the lane's consumer was made anew").await;
    stage.settled().await;
    assert!(worker.runs(), "{}", worker.log());
    assert_eq!(add_up(&stage).await, before);
    stage.publish_for_outcome(&assignment("after", "a1", 1)).await;
    stage.settled().await;
    assert_eq!(add_up(&stage).await.queued, before.queued + 1);
}

async fn a_stream_made_anew_issues_its_sequences_again_and_no_id_twice(dialect: Dialect) {
    let stage = Stage::with(dialect, Setting { partitions: 2, ..Setting::default() }).await;
    let mut load = Load::new(rand::random());
    load.publish(&stage, 40).await;
    stage.catch_up();
    let before = add_up(&stage).await;

    stage.context.delete_stream("WAKES").await.unwrap();
    stage.apply_streams();
    load.publish(&stage, 60).await;
    assert_eq!(messages(&stage).await[0].sequence, 1, "sequences start again");
    let worker = stage.worker().await;
    stage.settled().await;
    assert!(worker.scrape().await["wakegate_wakes_lost_total"].abs() < f64::EPSILON);
    let gone = before.on_stream() - before.deduplicated - before.no_wake;
    let accounts = add_up(&stage).await;
    assert_eq!((accounts.on_stream(), accounts.gone), (60, gone), "{accounts:?}");
}

async fn a_stream_made_anew_under_a_worker_ends_it_and_the_next_one_decides_all(dialect: Dialect) {
    let mut stage = Stage::set(dialect).await;
    let mut worker = stage.worker().await;
    for generation in 0..30 {
        stage.publish(&assignment("t1", &format!("old{generation}"), generation)).await;
    }
    stage.settled().await;
    stage.nats.stop();
    stage.nats.lose_everything();
    stage.nats.start_again().await;
    stage.apply_streams();
    for generation in 0..20 {
        stage.publish(&assignment("t1", &format!("new{generation}"), generation)).await;
    }
    let status = worker.ended().await;
    assert_eq!(status.code(), Some(1), "{}", worker.log());
    worker.until_logged("was created anew while the worker ran; start the worker again").await;
    assert_eq!(stage.outside.run_count().await, 30, "nothing was decided by the old sequences");

    let worker = stage.worker().await;
    stage.settled().await;
    let accounts = add_up(&stage).await;
    assert_eq!((accounts.queued, accounts.gone, accounts.lost), (20, 30, 0), "{}", worker.log());
}
