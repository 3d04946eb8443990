//! Every field that may differ: how it reads, whether a worker starts, and what `apply` does.

use serde_json::{Value, json};
use wakegate::topology::{TopologyError, WAKES, render};

use super::On::{Lane, Stream};
use super::{BATCH, SECOND, Server, lines};

/// Each changeable field: changed on the server, reported in one line, put back by `apply`.
#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one table, one loop")]
async fn every_difference_is_reported_and_put_back() {
    let (server, topology) = Server::applied().await;
    let day = 86_400 * SECOND;
    let transform = |dest: &str| json!({ "src": "wakes.*.*.*", "dest": dest });
    let other_hash = "wakes.{{partition(8,3)}}.{{wildcard(1)}}.{{wildcard(2)}}.{{wildcard(3)}}";
    let four = "wakes.{{partition(4,2,3)}}.{{wildcard(1)}}.{{wildcard(2)}}.{{wildcard(3)}}";
    for (object, field, value, expected, starts) in [
        (
            Stream(WAKES),
            "subjects",
            json!(["wakes.>"]),
            r#"subjects: wanted ["wakes.*.*.*"], found ["wakes.>"]"#,
            false,
        ),
        (
            Stream(WAKES),
            "subject_transform",
            transform(other_hash),
            &format!(
                "subject_transform.dest: wanted wakes.{{{{partition(8,2,3)}}}}.{{{{wildcard(1)}}}}.{{{{wildcard(2)}}}}.{{{{wildcard(3)}}}}, found {other_hash}"
            ),
            false,
        ),
        (
            Stream(WAKES),
            "subject_transform",
            transform(four),
            "partitions: wanted 8, found 4",
            false,
        ),
        (Stream(WAKES), "subject_transform", Value::Null, "", false),
        (Stream(WAKES), "discard", json!("old"), "discard: wanted new, found old", false),
        (Stream(WAKES), "max_age", json!(day), "max_age: wanted 7 d, found 1 d", false),
        (Stream(WAKES), "max_age", json!(8 * day), "max_age: wanted 7 d, found 8 d", true),
        (
            Stream(WAKES),
            "max_msg_size",
            json!(1_024),
            "max_msg_size: wanted 512 KiB, found 1 KiB",
            false,
        ),
        (Stream(WAKES), "max_msgs", json!(10), "max_msgs: wanted unlimited, found 10", false),
        (
            Stream(WAKES),
            "max_msgs_per_subject",
            json!(1),
            "max_msgs_per_subject: wanted unlimited, found 1",
            false,
        ),
        (
            Stream(WAKES),
            "max_bytes",
            json!(1 << 30),
            "max_bytes: wanted unlimited, found 1 GiB",
            true,
        ),
        (
            Stream(WAKES),
            "duplicate_window",
            json!(30 * SECOND),
            "duplicate_window: wanted 2 min, found 30 s",
            false,
        ),
        (Stream(WAKES), "no_ack", json!(true), "no_ack: wanted false, found true", false),
        (
            Stream(WAKES),
            "allow_rollup_hdrs",
            json!(true),
            "allow_rollup_hdrs: wanted false, found true",
            false,
        ),
        (
            Stream(WAKES),
            "description",
            json!("mine"),
            "description: wanted Wake events, kept for redrive; the transform puts the lane's partition in front, found mine",
            true,
        ),
        (Stream("WAKE_AUDIT"), "discard", json!("new"), "discard: wanted old, found new", false),
        (
            Stream("WAKE_AUDIT"),
            "max_msgs_per_subject",
            json!(5),
            "max_msgs_per_subject: wanted 10000, found 5",
            false,
        ),
        (
            Stream("WAKE_AUDIT"),
            "max_msgs_per_subject",
            json!(-1),
            "max_msgs_per_subject: wanted 10000, found unlimited",
            true,
        ),
        (Stream("WAKE_AUDIT"), "max_age", json!(day), "max_age: wanted 30 d, found 1 d", false),
        (Lane(3), "ack_wait", json!(30 * SECOND), "ack_wait: wanted 12 s, found 30 s", false),
        (Lane(3), "max_deliver", json!(5), "max_deliver: wanted unlimited, found 5", false),
        (Lane(3), "max_ack_pending", json!(7), "max_ack_pending: wanted 1000, found 7", false),
        (
            Lane(3),
            "filter_subject",
            json!("wakes.4.>"),
            "filter_subject: wanted wakes.3.>, found wakes.4.>",
            false,
        ),
        (
            Lane(3),
            "priority_timeout",
            json!(60 * SECOND),
            "priority_timeout: wanted 5 s, found 1 min",
            false,
        ),
        (
            Lane(3),
            "priority_groups",
            json!(["other"]),
            r#"priority_groups: wanted ["lane"], found ["other"]"#,
            false,
        ),
        (
            Lane(3),
            "inactive_threshold",
            json!(60 * SECOND),
            "inactive_threshold: wanted none, found 1 min",
            false,
        ),
        (Lane(3), "headers_only", json!(true), "headers_only: wanted false, found true", false),
        (
            Lane(3),
            "description",
            json!("mine"),
            "description: wanted Lane 3: one worker at a time, pinned by the server, found mine",
            true,
        ),
    ] {
        let answer = server.change(object, field, &value).await;
        assert_eq!(answer.get("error"), None, "{field} {value}");
        let differences = topology.check(&server.js, BATCH).await.unwrap();
        let on = match object {
            Stream(name) => format!("stream {name}"),
            Lane(lane) => format!("consumer lane-{lane} of WAKES"),
        };
        if !expected.is_empty() {
            assert_eq!(lines(&differences), [format!("{on}: {expected}")]);
        }
        assert!(!differences.is_empty(), "{field} {value}");

        match topology.verify(&server.js, BATCH).await {
            Ok(_) => assert!(starts, "a worker starts with {field} {value}"),
            Err(error) => {
                assert!(!starts, "a worker does not start with {field} {value}: {error}");
                assert!(error.to_string().ends_with("run: wakegate streams apply\n"), "{error}");
                assert!(!error.is_temporary());
            }
        }
        let report = topology.apply(&server.js, BATCH).await.unwrap();
        assert_eq!(report.changes.len(), 1, "{report}");
        assert_eq!(topology.check(&server.js, BATCH).await.unwrap(), [], "{field} {value}");
    }
}

/// Each unchangeable field: the server does refuse to change it, and the report says what to do.
#[tokio::test]
async fn what_the_server_never_changes_is_named_with_what_to_do() {
    let (server, topology) = Server::applied().await;
    let delete_stream = "cannot be changed: stop the publishers, let every lane run dry (wakegate \
                         run --until-caught-up), delete the stream, then run: wakegate streams apply";
    let delete_consumer = "cannot be changed: stop the workers, delete the consumer, then run: \
                           wakegate streams apply; it starts at the beginning of the stream, and \
                           wakes already decided are recognised";
    for (object, field, found, wanted, remedy) in [
        (Stream("WAKE_AUDIT"), "storage", json!("memory"), json!("file"), delete_stream),
        (Stream("WAKE_AUDIT"), "retention", json!("workqueue"), json!("limits"), delete_stream),
        (Stream("WAKE_AUDIT"), "deny_delete", json!(true), json!(false), delete_stream),
        (Stream("WAKE_AUDIT"), "deny_purge", json!(true), json!(false), delete_stream),
        (Stream("WAKE_AUDIT"), "allow_msg_ttl", json!(true), json!(false), delete_stream),
        (Lane(5), "ack_policy", json!("all"), json!("explicit"), delete_consumer),
        (Lane(5), "deliver_policy", json!("new"), json!("all"), delete_consumer),
        (Lane(5), "replay_policy", json!("original"), json!("instant"), delete_consumer),
        (Lane(5), "mem_storage", json!(true), json!(false), delete_consumer),
    ] {
        server.recreate(object, field, &found).await;
        let before = server.config(object).await;
        let plain = |value: &Value| value.to_string().replace('"', "");
        let line =
            format!("  {field}: wanted {}, found {}; {remedy}", plain(&wanted), plain(&found));

        let differences = topology.check(&server.js, BATCH).await.unwrap();
        let text = render(&differences);
        assert!(text.lines().any(|one| one == line), "{text}\nhas no line\n{line}");
        let error = topology.apply(&server.js, BATCH).await.unwrap_err();
        assert!(matches!(error, TopologyError::Unchangeable(_)), "{error}");
        assert!(error.to_string().starts_with("nothing was changed\n"), "{error}");
        assert!(error.to_string().contains(&line), "{error}");
        assert_eq!(server.config(object).await, before, "nothing was changed");
        let refused = server.change(object, field, &wanted).await;
        assert!(refused.get("error").is_some(), "the server does change {field}");

        server.ask_well(&object.delete(), &json!({})).await;
        topology.apply(&server.js, BATCH).await.unwrap();
        assert_eq!(topology.check(&server.js, BATCH).await.unwrap(), []);
    }
}
