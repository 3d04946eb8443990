//! Bounds that the declaration of the streams sets.

use async_nats::jetstream::context::PublishErrorKind;

use crate::harness::until_some;
use crate::through_servers::stage::{Dialect, Stage};

/// `max_msgs_per_subject` of `streams/wake-audit.json`.
const EVENTS_PER_SUBJECT_MAX: u64 = 10_000;

#[tokio::test(flavor = "multi_thread")]
async fn the_audit_stream_keeps_so_many_events_a_subject_and_evicts_nobody_else_s() {
    let stage = Stage::set(Dialect::Sqlite).await;
    let event = |organization: &str| format!("wake-audit.refused.agent_stopped.{organization}");
    let publish = async |organization: &str| {
        stage.context.publish(event(organization), "{}".into()).await.unwrap()
    };
    publish("umbra").await.await.unwrap();
    let mut sent = Vec::new();
    for _ in 0..EVENTS_PER_SUBJECT_MAX + 50 {
        sent.push(publish("acme").await);
        if sent.len() == 1_000 {
            for ack in sent.drain(..) {
                ack.await.unwrap();
            }
        }
    }
    for ack in sent {
        ack.await.unwrap();
    }
    let mut audit = stage.context.get_stream("WAKE_AUDIT").await.unwrap();
    let kept = audit.info().await.unwrap().state.messages;
    assert_eq!(kept, EVENTS_PER_SUBJECT_MAX + 1);
    let umbra = audit.get_last_raw_message_by_subject(&event("umbra")).await.unwrap();
    assert_eq!(umbra.sequence, 1, "the oldest of all is still there");
}

#[tokio::test]
async fn a_message_over_its_streams_limit_is_refused_to_its_publisher() {
    let stage = Stage::set(Dialect::Sqlite).await;
    for (subject, bytes_max) in
        [("wakes.task_mutation.acme.t1", 512 * 1_024), ("wake-audit.refused.a.b", 128 * 1_024)]
    {
        let large = vec![b'x'; bytes_max + 1];
        let sent = stage.context.publish(subject, large.into()).await.unwrap().await;
        let error = sent.expect_err(subject);
        assert_eq!(error.kind(), PublishErrorKind::Other, "{error}");
        assert!(format!("{error:?}").contains("10054"), "{error:?}");
    }
}

/// A full intake refuses publishers, who can wait, and drops nothing that is undecided.
#[tokio::test]
async fn a_full_intake_refuses_and_drops_nothing() {
    let stage = Stage::set(Dialect::Sqlite).await;
    let mut wakes = stage.context.get_stream("WAKES").await.unwrap();
    let mut config = wakes.info().await.unwrap().config.clone();
    config.max_bytes = 64 * 1_024;
    stage.context.update_stream(config).await.unwrap();
    let publish = async |nth: usize| {
        let event = crate::through_servers::story::assignment(&format!("t{nth}"), "a1", 1);
        let subject = crate::through_servers::stage::subject(&event);
        stage.context.publish(subject, event.body).await.unwrap().await
    };
    let mut stored = 0;
    let refused = loop {
        match publish(stored).await {
            Ok(_) => stored += 1,
            Err(error) => break error,
        }
    };
    assert!(format!("{refused:?}").contains("10077"), "{refused:?}");
    let kept = wakes.info().await.unwrap().state.clone();
    assert_eq!((kept.first_sequence, kept.messages), (1, stored as u64));
    stage.catch_up();
    let runs = i64::try_from(stored).unwrap();
    let ask = async || (stage.outside.run_count().await == runs).then_some(());
    until_some(ask, || "what was stored was not all decided".to_owned()).await;
}
