//! Gates 3 and 7: where a key has been seen.

use std::collections::HashMap;
use std::time::Duration;

use wakegate::admission::facts::KeySightings;
use wakegate::store::Store as _;
use wakegate::wake::{DERIVED_KEY_BYTES_MAX, KEY_BYTES_MAX, Occurrence, Wake};

use super::given::{Lane, MICRO, T0, id, key, keyed, organization};
use super::on_every_store;
use super::subject::Subject;

on_every_store!(
    a_key_is_seen_with_the_run_it_created,
    a_key_that_a_merge_took_is_seen_once_with_the_run_it_joined,
    an_aged_key_keeps_its_first_run_and_is_seen_at_every_merge,
    one_key_in_two_organizations_never_meets,
    keys_outlive_runs_and_claims,
    keys_of_any_text_and_full_length_are_told_apart,
);

const DAY: Duration = Duration::from_hours(24);

async fn a_key_is_seen_with_the_run_it_created<S: Subject>(subject: S) {
    let store = subject.store();
    Lane::take(store, 0).await.admit(store, [keyed(1, "k")]).await;
    let asked = [(organization("acme"), key("k")), (organization("acme"), key("unknown"))];
    let seen = store.read_keys(&asked).await.unwrap();
    let expected = KeySightings { run_id: id(1), seen: vec![(T0, id(1))] };
    assert_eq!(seen, HashMap::from([(asked[0].clone(), expected)]));
}

async fn a_key_that_a_merge_took_is_seen_once_with_the_run_it_joined<S: Subject>(subject: S) {
    let store = subject.store();
    let mut lane = Lane::take(store, 0).await;
    lane.admit(store, [keyed(1, "first")]).await;
    lane.merge(store, keyed(2, "k"), id(1), true).await;
    let asked = (organization("acme"), key("k"));
    let seen = store.read_keys(std::slice::from_ref(&asked)).await.unwrap();
    assert_eq!(seen[&asked], KeySightings { run_id: id(1), seen: vec![(T0, id(1))] });
}

async fn an_aged_key_keeps_its_first_run_and_is_seen_at_every_merge<S: Subject>(subject: S) {
    let store = subject.store();
    let mut lane = Lane::take(store, 0).await;
    lane.admit(store, [keyed(1, "k"), keyed(2, "other")]).await;
    let later = T0 + DAY + MICRO;
    for (number, at) in [(3, later), (4, later + DAY)] {
        let wake = Wake { requested_at: at, ..keyed(number, "k") };
        lane.merge(store, wake, id(2), false).await;
    }
    let asked = (organization("acme"), key("k"));
    let seen = store.read_keys(std::slice::from_ref(&asked)).await.unwrap();
    let expected = vec![(T0, id(1)), (later, id(2)), (later + DAY, id(2))];
    assert_eq!(seen[&asked], KeySightings { run_id: id(1), seen: expected });
}

async fn one_key_in_two_organizations_never_meets<S: Subject>(subject: S) {
    let store = subject.store();
    let mut lane = Lane::take(store, 0).await;
    let other = Wake { organization_id: organization("other"), ..keyed(2, "k") };
    let none = Wake { organization_id: organization(""), ..keyed(3, "k") };
    lane.admit(store, [keyed(1, "k"), other, none]).await;
    for (name, number) in [("acme", 1), ("other", 2), ("", 3)] {
        let asked = (organization(name), key("k"));
        let seen = store.read_keys(std::slice::from_ref(&asked)).await.unwrap();
        assert_eq!(seen[&asked].run_id, id(number), "{name}");
    }
}

async fn keys_outlive_runs_and_claims<S: Subject>(subject: S) {
    let store = subject.store();
    Lane::take(store, 0).await.admit(store, [keyed(1, "k")]).await;
    subject.set_status(id(1), wakegate::store::memory::RunStatus::Succeeded).await;
    let asked = (organization("acme"), key("k"));
    let seen = store.read_keys(std::slice::from_ref(&asked)).await.unwrap();
    assert_eq!(seen[&asked].run_id, id(1));
}

async fn keys_of_any_text_and_full_length_are_told_apart<S: Subject>(subject: S) {
    let store = subject.store();
    let mut names: Vec<String> = [
        "*",
        ">",
        "a.b",
        "a b",
        "a:b",
        "a/b",
        "a\nb",
        "'",
        "\"",
        "\\",
        "%",
        "_",
        "\u{202e}x",
        "é",
        "e\u{301}",
        "A",
        "a",
        " a",
        "a ",
        "NULL",
        "{}",
        "[1]",
        "\u{10ffff}",
    ]
    .map(str::to_owned)
    .to_vec();
    for bytes in [KEY_BYTES_MAX, DERIVED_KEY_BYTES_MAX] {
        names.push(super::windows::incompressible(bytes, 1));
        names.push(super::windows::incompressible(bytes, 2));
    }
    let long = organization(&super::windows::incompressible(256, 3));
    let wakes = names.iter().zip(1..).map(|(name, number)| Wake {
        organization_id: long.clone(),
        occurrence: Occurrence::Keyed(key(name)),
        ..keyed(number, "x")
    });
    let mut lane = Lane::take(store, 0).await;
    lane.admit(store, wakes).await;
    let merged = Wake { organization_id: long.clone(), ..keyed(999, names.last().unwrap()) };
    lane.merge(store, merged, id(1), false).await;

    let asked: Vec<_> = names.iter().map(|name| (long.clone(), key(name))).collect();
    let seen = store.read_keys(&asked).await.unwrap();
    for (asked, number) in asked.iter().zip(1..) {
        assert_eq!(seen[asked].run_id, id(number), "{asked:?}");
    }
    assert_eq!(seen[asked.last().unwrap()].seen.len(), 2);
}
