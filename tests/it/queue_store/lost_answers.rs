//! A caller that got no answer, at whatever point, asks again and gets the answer.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use wakegate::store::postgres::PostgresStore;
use wakegate::store::queue::RunEventKind::{Cancelled, Claimed, Returned, Started, Succeeded};
use wakegate::store::queue::{
    CancelAnswer, CancelScope, ClaimRequest, FinishAnswer, QueueStore, RunEnd, StartAnswer,
};
use wakegate::store::runners::RunnerStore;
use wakegate::store::{Store, StoreOptions};

use super::given::{World, asking, at, cancelling, finishing, held, queued};
use super::on_both;
use crate::harness::proxy::{Manner, Proxy, port_of};
use crate::harness::until_some;

on_both!(
    what_is_abandoned_at_any_point_is_asked_again,
    a_claim_is_repeated_until_something_moved_on,
    what_is_given_again_is_in_the_order_of_the_queue,
);

/// Polls it so many times, and forgets about it.
async fn abandon(polls: u32, work: impl Future) -> bool {
    let mut work = pin!(work);
    let mut left = polls;
    std::future::poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(false);
        }
        left -= 1;
        work.as_mut().poll(context).map(|_| true)
    })
    .await
}

/// The way of one run, each step of which `ask` first asks in its own way and then this asks again.
async fn every_step_is_taken_once<S: QueueStore>(
    world: &World<S>,
    nth: u128,
    mut ask: impl AsyncFnMut(Step),
) {
    let before: BTreeSet<i64> =
        world.store.take_events(10_000).await.unwrap().iter().map(|event| event.id).collect();
    let first = 100 * nth + 1;
    world.insert(&[queued(first), queued(first + 1).at(1), queued(first + 2).at(2)]).await;
    let claim = asking(nth, 2, 10);
    ask(Step::Claim(claim.clone())).await;
    let runs = world.claim(&claim).await;
    assert_eq!(super::given::numbers(&runs), [first, first + 1], "{nth}");
    assert!(runs.iter().all(|run| run.fencing_token == 1), "claimed once");

    ask(Step::Start(held(&runs[0]))).await;
    let start = world.store.start(&held(&runs[0]), at(71), at(11)).await.unwrap();
    assert_eq!(start, StartAnswer::Started { lease_expires_at: at(71) });
    let finish = finishing(held(&runs[0]), RunEnd::Succeeded, 12);
    ask(Step::Finish(finish.clone())).await;
    assert_eq!(world.store.finish(&finish).await.unwrap(), FinishAnswer::Finished);
    let cancel = cancelling(first + 2, CancelScope::Platform, 13);
    ask(Step::Cancel(cancel.clone())).await;
    assert_eq!(world.store.cancel(&cancel).await.unwrap(), CancelAnswer::Cancelled);
    ask(Step::Return).await;
    // Whoever was cut off may have it locked still, and what is locked is left for the next time.
    let returned = async || {
        world.store.return_lapsed(at(99), 9).await.unwrap();
        (world.status(first + 1).await == "queued").then_some(())
    };
    until_some(returned, || format!("{nth}: never returned")).await;
    world.assert_counts("after every step").await;
    world.outside.execute("UPDATE runs SET status = 'cancelled' WHERE status = 'queued'").await;

    let events = world.store.take_events(10_000).await.unwrap();
    let told: Vec<_> = events
        .iter()
        .filter(|event| !before.contains(&event.id))
        .map(|event| (super::given::number(event.run_id) - first, event.event))
        .collect();
    let expected = [
        (0, Claimed),
        (1, Claimed),
        (0, Started),
        (0, Succeeded),
        (2, Cancelled),
        (1, Returned),
        (1, Cancelled),
    ];
    assert_eq!(told, expected, "{nth}: each once");
    let ids: Vec<i64> = events.iter().map(|event| event.id).collect();
    world.store.delete_events(&ids).await.unwrap();
}

enum Step {
    Claim(ClaimRequest),
    Start(wakegate::store::queue::Held),
    Finish(wakegate::store::queue::FinishRequest),
    Cancel(wakegate::store::queue::CancelRequest),
    Return,
}

async fn take<S: QueueStore>(store: &S, step: &Step) {
    match step {
        Step::Claim(claim) => drop(store.claim(claim).await),
        Step::Start(held) => drop(store.start(held, at(71), at(11)).await),
        Step::Finish(finish) => drop(store.finish(finish).await),
        Step::Cancel(cancel) => drop(store.cancel(cancel).await),
        Step::Return => drop(store.return_lapsed(at(99), 9).await),
    }
}

async fn what_is_abandoned_at_any_point_is_asked_again<S: QueueStore + Store>(world: World<S>) {
    let mut whole = 0;
    for polls in 0..60 {
        let mut done = true;
        every_step_is_taken_once(&world, u128::from(polls) + 1, async |step| {
            done &= abandon(polls, take(&world.store, &step)).await;
        })
        .await;
        whole += u32::from(done);
    }
    assert!(whole < 60, "some were abandoned");
}

async fn a_claim_is_repeated_until_something_moved_on<S: QueueStore + Store>(world: World<S>) {
    world.insert(&[queued(1), queued(2).at(1), queued(3).at(2)]).await;
    let request = asking(1, 2, 0);
    let runs = world.claim(&request).await;
    assert_eq!(world.claim(&request).await, runs);
    world.store.start(&held(&runs[0]), at(60), at(1)).await.unwrap();
    assert_eq!(world.claim(&request).await, runs[1..], "what is started is known to be had");
    assert_eq!(world.claimed(&asking(2, 2, 0)).await, [3], "another request is another");
}

/// Neither the ids nor the order in which rows were written, changed and claimed say it.
async fn what_is_given_again_is_in_the_order_of_the_queue<S: RunnerStore + Store>(world: World<S>) {
    let recovery = super::given::Queued { producer: "recovery_sweep", ..queued(5) };
    world
        .insert(&[
            queued(9).at(1).of("b"),
            queued(1).at(9).of("b").in_project("p"),
            queued(3).at(4).of("a"),
            queued(2).at(4).of("a").in_project("q"),
            recovery.at(100).of("a"),
            queued(7).at(500).of("b").by_a_person(),
            queued(8).at(700),
        ])
        .await;
    let request = asking(1, 6, 1_000);
    let runs = world.claim(&request).await;
    assert_eq!(super::given::numbers(&runs), [5, 8, 7, 2, 9, 3], "each organization in turn");
    let again = [7, 5, 9, 2, 3, 8];
    for (nth, run) in [(0, &runs[4]), (1, &runs[0]), (2, &runs[2])] {
        assert_eq!(world.claimed(&request).await, again, "{nth}");
        let later = ClaimRequest { now: at(1_001 + nth), ..request.clone() };
        assert_eq!(world.claimed(&later).await, again, "{nth}, later");
        // Its row is written elsewhere.
        world.store.heartbeat(&held(run), at(2_000 + nth), at(1_000)).await.unwrap();
    }
    // Asked twice before there was any work, and answered by one transaction.
    let waiting = [asking(2, 3, 1_000), asking(2, 3, 1_000), asking(3, 3, 1_000)];
    world.insert(&[queued(12).at(3).of("b"), queued(11).at(20)]).await;
    let given = world.store.claim_each(&waiting).await.unwrap();
    let given: Vec<_> = given.iter().map(|runs| super::given::numbers(runs)).collect();
    assert_eq!(given, [vec![11, 12, 1], vec![12, 1, 11], vec![]]);
}

/// Cut where the server has answered and the answer is lost, and at every other place. A pool that is cut
/// while it prepares a connection tries until the deadline, which is short therefore: nothing was asked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_is_cut_at_any_byte_is_asked_again_on_postgres() {
    const HASTY: StoreOptions = StoreOptions {
        connections_max: 2,
        read_deadline: Duration::from_millis(300),
        record_deadline: Duration::from_millis(300),
    };
    let world = World::on_postgres().await;
    let proxy = Proxy::before(port_of(&world.url)).await;
    let url = proxy.url(&world.url);
    for (nth, bytes) in (1..).zip((500..3_500).step_by(40)) {
        every_step_is_taken_once(&world, nth, async |step| {
            proxy.set(Manner::CutAfter(bytes));
            let store = PostgresStore::connect(&url, &HASTY).unwrap();
            take(&store, &step).await;
            proxy.set(Manner::Forward);
        })
        .await;
    }
}
