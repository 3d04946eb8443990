//! Gate 0: what became of a wake.

use std::sync::Arc;

use wakegate::admission::Shadowed;
use wakegate::admission::decision::{DegradedReason, PriorOutcome};
use wakegate::admission::facts::{CountedRuns, Pauses, QueuedRuns};
use wakegate::store::{ShadowedWake, Store as _};
use wakegate::wake::{RunId, Wake, WakeId};

use super::given::{Lane, MICRO, T0, at, id, keyed, organization, refused, run, wake};
use super::on_every_store;
use super::subject::Subject;

on_every_store!(
    every_outcome_is_found_by_the_wakes_id,
    what_gates_in_shadow_would_have_refused_is_found_by_the_wakes_id,
    a_hundred_wakes_are_recorded_and_found_at_once,
    nothing_is_found_of_nothing,
);

async fn every_outcome_is_found_by_the_wakes_id<S: Subject>(subject: S) {
    let store = subject.store();
    let mut lane = Lane::take(store, 0).await;
    let mut batch = lane.batch();
    batch.runs.push(run(at(1, T0)));
    for (number, degraded) in (2..).zip(DegradedReason::ALL) {
        let mut degraded_run = run(at(number, T0));
        degraded_run.degraded = Some(degraded);
        batch.runs.push(degraded_run);
    }
    let refusal = refused(wake(5));
    batch.refusals.push(refusal.clone());
    lane.record(store, batch).await;
    lane.merge(store, at(4, T0 + MICRO), id(1), false).await;

    let found = store.read_identity(&[1, 2, 3, 4, 5, 6, 1].map(id)).await.unwrap();
    let queued =
        |degraded| PriorOutcome::Queued { degraded, requested_at: T0, decided_at: T0 + MICRO };
    let expected = [
        (id(1), queued(None)),
        (id(2), queued(Some(DegradedReason::ALL[0]))),
        (id(3), queued(Some(DegradedReason::ALL[1]))),
        (
            id(4),
            PriorOutcome::Coalesced {
                run_id: id(1),
                requested_at: T0 + MICRO,
                decided_at: T0 + MICRO + MICRO,
            },
        ),
        (
            id(5),
            PriorOutcome::Refused { reason: refusal.reason.to_owned(), record: refusal.record },
        ),
    ];
    assert_eq!(found, expected.into_iter().collect());
}

async fn what_gates_in_shadow_would_have_refused_is_found_by_the_wakes_id<S: Subject>(subject: S) {
    let store = subject.store();
    let mut lane = Lane::take(store, 0).await;
    let mut batch = lane.batch();
    let reasons = ["agent_paused", "platform_paused", "allowance_exhausted"];
    for number in 1..=3 {
        let of = usize::try_from(number).unwrap();
        batch.shadowed.push(ShadowedWake {
            wake: Arc::new(wake(number)),
            reasons: reasons[..of].to_vec(),
            record: format!("{{\"n\":{number},\"text\":\"\u{202e}\\u0000'\"}}"),
        });
    }
    let shadowed = batch.shadowed.clone();
    lane.record(store, batch).await;
    let found = store.read_shadowed(&[1, 2, 3, 4, 1].map(id)).await.unwrap();
    assert_eq!(found.len(), 3);
    for row in shadowed {
        let reasons = row.reasons.iter().map(|reason| (*reason).to_owned()).collect();
        assert_eq!(found[&row.wake.id], Shadowed { reasons, record: row.record });
    }
    assert!(store.read_identity(&[1, 2, 3].map(id)).await.unwrap().is_empty(), "it is no outcome");
}

async fn a_hundred_wakes_are_recorded_and_found_at_once<S: Subject>(subject: S) {
    let store = subject.store();
    let mut lane = Lane::take(store, 0).await;
    let wakes: Vec<Wake> = (1..=600).map(|number| keyed(number, &format!("k{number}"))).collect();
    lane.admit(store, wakes.clone()).await;
    assert_eq!(subject.counts().await, [600, 0, 0, 600]);

    let ids: Vec<WakeId> = wakes.iter().map(|wake| wake.id).collect();
    assert_eq!(store.read_identity(&ids).await.unwrap().len(), 600);
    let keys: Vec<_> = wakes
        .iter()
        .map(|wake| (organization("acme"), wake.occurrence.key().unwrap().clone()))
        .collect();
    let seen = store.read_keys(&keys).await.unwrap();
    for (wake, key) in wakes.iter().zip(&keys) {
        assert_eq!(seen[key].run_id, RunId::from(wake.id.uuid()));
    }
}

async fn nothing_is_found_of_nothing<S: Subject>(subject: S) {
    let store = subject.store();
    assert!(store.read_identity(&[]).await.unwrap().is_empty());
    assert!(store.read_shadowed(&[]).await.unwrap().is_empty());
    assert!(store.read_agents(&[]).await.unwrap().is_empty());
    assert_eq!(store.read_pauses(&[]).await.unwrap(), Pauses::default());
    assert!(store.read_keys(&[]).await.unwrap().is_empty());
    assert_eq!(store.read_queued(&[]).await.unwrap(), QueuedRuns::default());
    assert_eq!(store.read_counted(&[], 100).await.unwrap(), CountedRuns::default());
}
