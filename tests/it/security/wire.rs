//! Whoever may publish may send any bytes as subject and headers, and nats-server keeps and delivers
//! them as they are. None of them may cost the worker its connection: it would be delivered again
//! after each reconnection, and no organization would be served.

use serde_json::Value;

use super::raw::Raw;
use crate::through_servers::stage::{Dialect, Stage, subject};
use crate::through_servers::story::assignment;

/// Headers that are none. The wake that carries them is a wake all the same.
const HEADERS: [(&str, &[u8]); 20] = [
    ("a value that is no UTF-8", b"NATS/1.0\r\nX: \xff\xfe\r\n\r\n"),
    ("a name that is no UTF-8", b"NATS/1.0\r\n\xff: x\r\n\r\n"),
    ("a name that is no ASCII", b"NATS/1.0\r\n\xc3\xa9: x\r\n\r\n"),
    ("a name with a blank", b"NATS/1.0\r\na b: x\r\n\r\n"),
    ("no name", b"NATS/1.0\r\n: x\r\n\r\n"),
    ("no colon", b"NATS/1.0\r\nnothing\r\n\r\n"),
    ("a lone carriage return", b"NATS/1.0\r\nX: a\rb\r\n\r\n"),
    ("a lone line feed", b"NATS/1.0\r\nX: a\nb\r\n\r\n"),
    ("a NUL", b"NATS/1.0\r\nX: \x00\r\n\r\n"),
    ("no version", b"NONSENSE\r\nX: y\r\n\r\n"),
    ("nothing but an end", b"\r\n\r\n"),
    ("a status that is none", b"NATS/1.0 abc\r\nX: y\r\n\r\n"),
    ("a heartbeat", b"NATS/1.0 100 Idle Heartbeat\r\n\r\n"),
    ("no messages", b"NATS/1.0 404 No Messages\r\n\r\n"),
    ("a time-out", b"NATS/1.0 408 Request Timeout\r\n\r\n"),
    ("a consumer that is gone", b"NATS/1.0 409 Consumer Deleted\r\n\r\n"),
    ("a wrong pin", b"NATS/1.0 423 Nats-Wrong-Pin-Id\r\nNats-Pin-Id: x\r\n\r\n"),
    ("no responders", b"NATS/1.0 503\r\n\r\n"),
    ("a header that goes on", b"NATS/1.0\r\nX: a\r\n  b\xff\r\n\r\n"),
    ("no end", b"NATS/1.0\r\nX: y"),
];

/// Last tokens of a subject that no encoding gives. Such a wake is rejected, whatever its body says.
const TASK_TOKENS: [(&str, &[u8]); 6] = [
    ("no UTF-8", b"t\xff"),
    ("an ideographic space", b"t\xe3\x80\x80x"),
    ("a no-break space", b"t\xc2\xa0x"),
    ("a control character", b"t\x01"),
    ("a next line", b"t\xc2\x85x"),
    ("half a character", b"\xe3\x80"),
];

#[tokio::test]
async fn no_bytes_of_a_publisher_cost_the_worker_its_connection() {
    let stage = Stage::set(Dialect::Sqlite).await;
    let mut worker = stage.worker().await;
    let mut hostile = Raw::connect(&stage.nats).await;

    for (nth, (what, headers)) in (0..).zip(HEADERS) {
        let event = assignment(&format!("t{nth}"), "a1", 1);
        hostile.publish(subject(&event).as_bytes(), "", headers, &event.body).await;
        assert!(hostile.errors().await.is_empty(), "{what}: the server takes it");
        let after = assignment(&format!("after{nth}"), "a1", 1);
        let record = stage.publish_for_outcome(&after.with(other_organization())).await;
        assert_eq!(record["outcome"], "queued", "{what}: {}", worker.told(&record.to_string()));
        let runs = format!("SELECT count(*) FROM runs WHERE task_id = 't{nth}'");
        assert_eq!(stage.outside.number(&runs).await, 1, "{what}: it is a wake all the same");
    }
    for (what, token) in TASK_TOKENS {
        let mut subject = b"wakes.task_mutation.acme.".to_vec();
        subject.extend_from_slice(token);
        let event = assignment("t", "a1", 1);
        hostile.publish(&subject, "", b"NATS/1.0\r\nX: y\r\n\r\n", &event.body).await;
        hostile.publish(&subject, "", b"NATS/1.0\r\n\r\n", b"\xff").await;
        assert!(hostile.errors().await.is_empty(), "{what}: the server takes it");
        let after = assignment(&format!("after {what}"), "a1", 1);
        let record = stage.publish_for_outcome(&after.with(other_organization())).await;
        assert_eq!(record["outcome"], "queued", "{what}: {}", worker.told(&record.to_string()));
    }
    stage.settled().await;
    assert!(worker.runs(), "{}", worker.told("the worker has ended"));
    let audited = stage.audited().await;
    let rejected: Vec<&str> =
        audited.iter().filter_map(|event| event.record["reason"].as_str()).collect();
    let wanted: Vec<&str> =
        TASK_TOKENS.iter().flat_map(|_| ["subject_mismatch", "not_utf8"]).collect();
    assert_eq!(rejected, wanted, "{}", worker.log());
    let lost = worker.log().matches("lost the connection").count();
    assert_eq!(lost, 0, "{}", worker.log());
}

fn other_organization() -> Value {
    serde_json::json!({ "organization_id": "umbra" })
}
