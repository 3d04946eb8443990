//! `docs/schemas/runs-*.json` are made of the types, and hold for what is read and written.
//! `BLESS=1` writes them anew.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use wakegate::control::body::read;
use wakegate::queue::Verb;
use wakegate::queue::documents::{
    CancelRequest, ClaimRequest, FinishRequest, HeartbeatRequest, StartRequest, WithdrawRequest,
};
use wakegate::queue::events::event_schema;

use crate::harness::schema::{check_current, faults, hold, schema};

#[test]
fn the_schemas_are_current() {
    let of_verbs = Verb::ALL.into_iter().flat_map(|verb| {
        let name = verb.as_str();
        [
            (format!("runs-{name}-request"), verb.request_schema().to_value()),
            (format!("runs-{name}-reply"), verb.reply_schema().to_value()),
        ]
    });
    let of_events = ("runs-event".to_owned(), event_schema().to_value());
    check_current(of_verbs.chain([of_events]), |name| name.starts_with("runs-"));
}

/// A request of each verb with every field that there is.
fn whole(verb: Verb) -> Value {
    let run = "0192f0c1-7c00-7000-8000-000000000001";
    match verb {
        Verb::Claim => json!({
            "runner_id": "r", "claim_id": run, "runs_max": 1, "organizations": ["o", ""],
            "wait_seconds": 0, "lease_seconds": 1,
        }),
        Verb::Start | Verb::Heartbeat => {
            json!({ "run_id": run, "fencing_token": 1, "lease_seconds": 1 })
        }
        Verb::Finish => {
            json!({ "run_id": run, "fencing_token": 1, "status": "failed", "reason": "r" })
        }
        Verb::Withdraw => {
            json!({ "run_id": run, "organization_id": "o", "actor": "a", "reason": "r" })
        }
        Verb::Cancel => json!({
            "run_id": run, "scope": "organization", "organization_id": "o", "actor": "a",
            "reason": "r",
        }),
    }
}

fn is_read(verb: Verb, request: &Value) -> Result<(), &'static str> {
    let body = request.to_string();
    let body = body.as_bytes();
    let read = match verb {
        Verb::Claim => read::<ClaimRequest>(body).map(drop),
        Verb::Start => read::<StartRequest>(body).map(drop),
        Verb::Heartbeat => read::<HeartbeatRequest>(body).map(drop),
        Verb::Finish => read::<FinishRequest>(body).map(drop),
        Verb::Withdraw => read::<WithdrawRequest>(body).map(drop),
        Verb::Cancel => read::<CancelRequest>(body).map(drop),
    };
    read.map_err(|error| error.code.as_str())
}

/// What a schema allows is read, and what it does not allow is refused: field by field.
#[test]
fn what_is_read_is_what_the_schema_of_the_request_says() {
    for verb in Verb::ALL {
        let name = format!("runs-{}-request", verb.as_str());
        let request = whole(verb);
        hold(&name, &request);
        assert_eq!(is_read(verb, &request), Ok(()), "{verb:?}");
        let names = |value: &Value| -> BTreeSet<String> {
            value.as_object().unwrap().keys().cloned().collect()
        };
        assert_eq!(
            names(&schema(&name)["properties"]),
            names(&request),
            "{verb:?} has every field"
        );
        for field in names(&request) {
            let mut without = request.clone();
            without.as_object_mut().unwrap().remove(&field);
            let allowed = faults(&name, &without).is_empty();
            assert_eq!(is_read(verb, &without).is_ok(), allowed, "{verb:?} without {field}");
            let mut wrong = request.clone();
            wrong[&field] = json!([true]);
            assert!(!faults(&name, &wrong).is_empty(), "{verb:?} with a wrong {field}");
            assert_eq!(is_read(verb, &wrong), Err("invalid_field"), "{verb:?} {field}");
        }
        let mut more = request.clone();
        more["typo"] = json!(1);
        assert!(!faults(&name, &more).is_empty(), "{verb:?} with a typo");
        assert_eq!(is_read(verb, &more), Err("unknown_field"), "{verb:?}");
    }
}

#[test]
fn limits_of_requests_are_kept_to_the_number() {
    let claim = |more: Value| is_read(Verb::Claim, &super::asking::with(whole(Verb::Claim), more));
    for (field, max) in [("runs_max", 100), ("wait_seconds", 300), ("lease_seconds", 3_600)] {
        assert_eq!(claim(json!({ field: max })), Ok(()), "{field}");
        assert_eq!(claim(json!({ field: max + 1 })), Err("invalid_field"), "{field}");
        assert_eq!(claim(json!({ field: -1 })), Err("invalid_field"), "{field}");
    }
    assert_eq!(claim(json!({ "runs_max": 0 })), Err("invalid_field"));
    assert_eq!(claim(json!({ "lease_seconds": 0 })), Err("invalid_field"));
    assert_eq!(claim(json!({ "organizations": vec!["o"; 64] })), Ok(()));
    assert_eq!(claim(json!({ "organizations": vec!["o"; 65] })), Err("invalid_field"));
    assert_eq!(claim(json!({ "claim_id": "x" })), Err("invalid_field"));
    let token = |token: Value| {
        let held = super::asking::with(whole(Verb::Start), json!({ "fencing_token": token }));
        is_read(Verb::Start, &held)
    };
    assert_eq!(token(json!(i64::MAX)), Ok(()));
    assert_eq!(token(json!(u64::MAX)), Ok(()), "a token that no claim has");
    assert_eq!(token(json!(-1)), Err("invalid_field"));
}
