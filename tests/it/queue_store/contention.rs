//! Many at once: what the events say, in the order in which they were written, is what one at a time
//! would have done.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::task::JoinSet;
use uuid::Uuid;
use wakegate::store::postgres::PostgresStore;
use wakegate::store::queue::{
    CancelScope, ClaimRequest, FinishAnswer, QueueStore, RunEnd, RunEvent, RunEventKind,
    StartAnswer,
};
use wakegate::store::sqlite::SqliteStore;
use wakegate::store::{MergedRun, RecordError, Store};
use wakegate::wake::{Payload, RunnerId};

use super::given::{
    OPTIONS, Queued, World, asking, at, cancelling, finishing, held, number, organization, queued,
};
use crate::store_contract::given::{self, Lane};

const CLAIMERS: usize = 16;
const ORGANIZATIONS: [&str; 5] = ["a", "b", "c", "d", ""];
const PROJECTS: [Option<&str>; 3] = [None, Some("p"), Some("q")];
const PLATFORM_MAX: u32 = 11;
const ORGANIZATION_MAX: u32 = 3;
/// Organization `d` has set itself this.
const OWN_MAX: u32 = 2;
const BATCHES: usize = 40;
const RUNS_OF_BATCH: usize = 3;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sixteen_claimers_do_what_one_would_on_postgres() {
    let world = World::on_postgres().await;
    let url = world.url.clone();
    let store = move || PostgresStore::connect(&url, &OPTIONS).unwrap();
    contend(world, store, 12).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sixteen_claimers_do_what_one_would_on_sqlite() {
    let world = World::on_sqlite().await;
    let url = world.url.clone();
    let store = move || SqliteStore::connect(&url, &OPTIONS).unwrap();
    contend(world, store, 12).await;
}

fn runs(each: u128) -> Vec<Queued> {
    let mut runs = Vec::new();
    for nth in 0..each {
        for (of, organization) in (1..).zip(ORGANIZATIONS) {
            for (within, project) in (0..).zip(PROJECTS) {
                let mut run = queued(10_000 * of + 1_000 * within + nth).of(organization);
                run.project = project;
                // Not in the order of their ids.
                runs.push(run.at(i64::try_from((nth * 7) % each).unwrap()));
            }
        }
    }
    runs
}

async fn contend<S: QueueStore + Store>(world: World<S>, store: impl Fn() -> S, each: u128) {
    world
        .outside
        .execute(&format!(
            "INSERT INTO organization_limits (organization_id, active_runs_max) VALUES ('d', {OWN_MAX})"
        ))
        .await;
    let runs = runs(each);
    world.insert(&runs).await;
    let left = Arc::new(AtomicUsize::new(runs.len() + BATCHES * RUNS_OF_BATCH));
    let active = Arc::new(AtomicUsize::new(0));
    let mut claimers = JoinSet::new();
    for nth in 0..CLAIMERS {
        let (store, left, active) = (store(), Arc::clone(&left), Arc::clone(&active));
        claimers.spawn(async move { claimer(&store, nth, &left, &active).await });
    }
    // Beside them a lane that records, a claim that is limited and called off, and what is paused.
    let mut lanes = JoinSet::new();
    lanes.spawn(admit(store()));
    let pauses = {
        let outside = world.outside.clone();
        async move {
            for nth in 0..6 {
                outside.pause(&format!("p{nth}"), Some("b")).await;
                outside.resume_all().await;
            }
        }
    };
    pauses.await;
    claimers.join_all().await;
    lanes.join_all().await;
    world.assert_counts("after all").await;
    let events = world.store.take_events(100_000).await.unwrap();
    replay(&runs, &events);
}

/// Takes, starts and ends runs until none is left.
async fn claimer<S: QueueStore>(store: &S, nth: usize, left: &AtomicUsize, active: &AtomicUsize) {
    let mut round = 0;
    while left.load(Ordering::SeqCst) > 0 {
        round += 1;
        let request = ClaimRequest {
            claim_id: Uuid::from_u128((nth as u128) << 64 | round as u128),
            runner: RunnerId::parse(&format!("r{nth}")).unwrap(),
            runs_max: 1 + u32::try_from((nth + round) % 3).unwrap(),
            organizations: if nth == 0 { ["a", ""].map(organization).to_vec() } else { Vec::new() },
            platform_active_max: PLATFORM_MAX,
            organization_active_max: ORGANIZATION_MAX,
            ..asking(0, 0, 100)
        };
        let runs = store.claim(&request).await.unwrap();
        let now = active.fetch_add(runs.len(), Ordering::SeqCst) + runs.len();
        assert!(now <= PLATFORM_MAX as usize, "{now} are known to be under way");
        for (at_once, run) in runs.iter().enumerate() {
            let by = held(run);
            if (nth + round + at_once).is_multiple_of(5) {
                let request = cancelling(number(run.run_id), CancelScope::Platform, 101);
                store.cancel(&request).await.unwrap();
            } else {
                let started = store.start(&by, at(160), at(101)).await.unwrap();
                assert!(matches!(started, StartAnswer::Started { .. }), "{started:?}");
            }
            active.fetch_sub(1, Ordering::SeqCst);
            let end = if round % 2 == 0 { RunEnd::Failed } else { RunEnd::Cancelled };
            let finished = store.finish(&finishing(by, end, 102)).await.unwrap();
            assert_eq!(finished, FinishAnswer::Finished);
            left.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// Runs of one more organization and project. A wake joins the last run of the batch before, and makes
/// it a person's where it is still queued: a lane holds runs while it waits for the queue.
async fn admit<S: Store>(store: S) {
    let mut lane = Lane::take(&store, 0).await;
    for nth in 0..BATCHES as u64 {
        let wake = |number| wakegate::wake::Wake {
            organization_id: organization("lane"),
            requested_at: at(0),
            ..given::wake(number)
        };
        let mut batch = lane.batch();
        for more in 0..RUNS_OF_BATCH as u64 {
            batch.runs.push(given::run(wake(1_000_000 + nth * 10 + more)));
        }
        let joined = (nth > 0).then(|| given::id(1_000_000 + nth * 10 - 10));
        if let Some(run_id) = joined {
            let payload = Payload::read(r#"{"actor_type":"user"}"#).unwrap();
            batch.merges.push(MergedRun { run_id, payload, joined: 1 });
        }
        match store.record(&batch).await {
            // It was claimed meanwhile.
            Err(RecordError::RaceLost { .. }) => {
                batch.merges.clear();
                lane.record(&store, batch).await;
            }
            recorded => {
                recorded.unwrap();
                lane.at = batch.to;
            }
        }
    }
}

/// One at a time, by the text: who was next when each run was taken?
fn replay(runs: &[Queued], events: &[RunEvent]) {
    let mut queues: BTreeMap<_, VecDeque<(i64, u128)>> = BTreeMap::new();
    for run in runs {
        queues.entry((run.organization, run.project)).or_default().push_back((run.at, run.id));
    }
    for queue in queues.values_mut() {
        queue.make_contiguous().sort_unstable();
    }
    let of: BTreeMap<u128, &Queued> = runs.iter().map(|run| (run.id, run)).collect();
    let mut active: BTreeMap<(String, Option<String>), u32> = BTreeMap::new();
    let mut ended = BTreeMap::new();
    for event in events {
        let id = number(event.run_id);
        let place = (event.organization_id.to_string(), event.project_id.clone());
        match event.event {
            RunEventKind::Claimed => {
                if let Some(run) = of.get(&id) {
                    let queue = queues.get_mut(&(run.organization, run.project)).unwrap();
                    assert_eq!(queue.pop_front(), Some((run.at, id)), "first come, first served");
                }
                *active.entry(place.clone()).or_default() += 1;
                assert!(place.1.is_none() || active[&place] == 1, "{place:?}: two at once");
                let under_way: u32 =
                    active.iter().filter(|((of, _), _)| *of == place.0).map(|(_, n)| n).sum();
                let own = if place.0 == "d" { OWN_MAX } else { ORGANIZATION_MAX };
                assert!(under_way <= own, "{place:?}: {under_way} under way");
                let all = active.values().sum::<u32>();
                assert!(all <= PLATFORM_MAX, "{all} under way");
            }
            RunEventKind::Started | RunEventKind::CancelRequested => {}
            RunEventKind::Failed | RunEventKind::Cancelled => {
                *active.get_mut(&place).unwrap() -= 1;
                assert_eq!(ended.insert(id, event.event), None, "it ends once");
            }
            other => panic!("{other} of {id}"),
        }
    }
    assert_eq!(ended.len(), runs.len() + BATCHES * RUNS_OF_BATCH);
}
