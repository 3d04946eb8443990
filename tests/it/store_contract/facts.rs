//! What a lane knows of a batch, whichever way its store is asked.

use wakegate::admission::GateName;
use wakegate::admission::facts::{AgentStatus, Facts, MergeBucket};
use wakegate::admission::limits::{Ceilings, Limits};
use wakegate::lane::facts::{Asking, Loaded, load};
use wakegate::store::facts::FactsQuery;
use wakegate::store::{RoomClaim, Store as _};
use wakegate::wake::Wake;

use super::given::{
    Lane, READS, T0, agent, at, by_agent, id, key, keyed, merged, organization, run, task, wake,
};
use super::on_every_store;
use super::subject::{OnPostgres, Subject};

on_every_store!(a_batch_knows_what_its_gates_ask, a_read_that_fails_is_that_of_its_gate_alone);

const ASKING: Asking = Asking { doubtful: false, ceilings: Some(Ceilings::all(100)), told: true };

async fn known<S: Subject>(subject: &S, lane: &Lane, wakes: &[&Wake]) -> Loaded {
    load(subject.store(), lane.at, wakes, ASKING).await
}

/// Of every kind one, and of each something that was not asked about.
async fn a_batch_knows_what_its_gates_ask<S: Subject>(subject: S) {
    let mut lane = Lane::take(subject.store(), 0).await;
    let of_other = Wake { organization_id: organization("other"), ..keyed(2, "k") };
    let earlier = [keyed(1, "k"), of_other, Wake { payload: by_agent("else"), ..wake(3) }];
    let limits = Limits { ceilings: Ceilings::all(100), organizations: None };
    let mut batch = lane.batch();
    let mut claim = RoomClaim::new(&limits, true);
    for wake in &earlier {
        claim.admit(wake, &limits);
        batch.keys.extend(super::given::key_of(wake, wake.id));
        batch.runs.push(run(wake.clone()));
    }
    batch.room = Some(claim);
    batch.merged_wakes.push(merged(keyed(4, "k"), id(1)));
    lane.record(subject.store(), batch).await;
    subject.set_agent("acme", "builder", AgentStatus::Paused).await;
    subject.set_agent("acme", "somebody", AgentStatus::Paused).await;
    subject.pause(None, "everything").await;
    subject.pause(Some("acme"), "of acme").await;
    subject.pause(Some("other"), "of the other").await;

    let next = keyed(10, "k");
    let Loaded { facts, failed, .. } = known(&subject, &lane, &[&next]).await;
    assert_eq!(failed, []);
    let Facts { agents, pauses, keys, queued, counted, room, .. } = facts;
    let acme = organization("acme");
    let builder = (acme.clone(), agent("builder"));
    let agents = agents.unwrap();
    assert_eq!((agents.len(), agents.get(&builder)), (1, Some(&AgentStatus::Paused)));
    let pauses = pauses.unwrap();
    assert_eq!(pauses.platform.as_deref(), Some("everything"));
    assert_eq!(pauses.organizations.get(&acme).map(String::as_str), Some("of acme"));
    assert_eq!(pauses.organizations.len(), 1);
    let keys = keys.unwrap();
    assert_eq!(keys.len(), 1);
    assert!(keys.contains_key(&(acme.clone(), key("k"))));
    let queued = queued.unwrap();
    assert_eq!(queued.by_bucket.len(), 1);
    let bucket = &queued.by_bucket[&MergeBucket::of(&next).unwrap()];
    assert_eq!(bucket.keys().copied().collect::<Vec<_>>(), [(T0, id(1))]);
    let counted = counted.unwrap().by_task;
    assert_eq!(counted.len(), 1);
    let of_task = &counted[&(acme.clone(), task("t"))];
    assert_eq!(of_task.iter().copied().collect::<Vec<_>>(), [(T0, id(1))]);
    let room = room.unwrap();
    assert_eq!(room.queued_platform, 3);
    assert_eq!(room.queued_organizations.get(&acme), Some(&2));
    assert_eq!(room.queued_organizations.len(), 1);
    assert_eq!(room.intake.len(), 1);
    subject.resume().await;
}

async fn a_read_that_fails_is_that_of_its_gate_alone<S: Subject>(subject: S) {
    let lane = Lane::take(subject.store(), 0).await;
    let wake = keyed(1, "k");
    for gate in READS.into_iter().filter(|gate| *gate != GateName::Identity) {
        subject.break_read(gate).await;
        assert_eq!(known(&subject, &lane, &[&wake]).await.failed, [gate]);
        subject.mend_read(gate).await;
        assert_eq!(known(&subject, &lane, &[&wake]).await.failed, [], "{gate:?} works again");
    }
    // What no wake needs cannot fail.
    subject.break_read(GateName::Identity).await;
    assert_eq!(known(&subject, &lane, &[&wake]).await.failed, []);
    subject.mend_read(GateName::Identity).await;
}

/// Or nothing that the other tests say of it would be said of anything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_is_asked_in_one_statement_unless_something_rare_is_asked() {
    let subject = OnPostgres::open().await;
    let asked = async |asked: FactsQuery<'_>| subject.store().read_facts(&asked).await.is_some();
    let (tasked, taskless) = (wake(1), Wake { payload: super::given::payload("{}"), ..at(2, T0) });
    let organizations = vec![organization("acme")];
    let query = || FactsQuery { organizations: organizations.clone(), ..FactsQuery::default() };
    assert!(asked(query()).await);
    assert!(asked(FactsQuery { merging: vec![&tasked], ..query() }).await);
    assert!(!asked(FactsQuery { merging: vec![&tasked, &taskless], ..query() }).await);
    assert!(!asked(FactsQuery { wakes: vec![id(1)], ..query() }).await);
}
