//! Calling runs off.

use wakegate::store::Store;
use wakegate::store::queue::{
    CancelAnswer, CancelScope, FinishAnswer, HeartbeatAnswer, QueueStore, RunEnd, RunEventKind,
    RunStatus, StartAnswer,
};
use wakegate::wake::ActorId;

use super::given::{World, asking, at, cancelling, finishing, held, id, organization, queued};
use super::on_both;

on_both!(
    what_is_queued_is_cancelled_at_once,
    who_asks_may_cancel_what_is_theirs,
    what_is_under_way_learns_of_it_and_confirms,
    what_is_not_confirmed_ends_all_the_same,
    what_was_to_be_cancelled_does_not_go_back_to_the_queue,
);

async fn what_is_queued_is_cancelled_at_once<S: QueueStore + Store>(world: World<S>) {
    world.insert(&[queued(1).in_project("p"), queued(2).at(1).in_project("p")]).await;
    let request = cancelling(1, CancelScope::Platform, 5);
    for _ in 0..2 {
        assert_eq!(world.store.cancel(&request).await.unwrap(), CancelAnswer::Cancelled);
    }
    assert_eq!(world.events().await, [(1, RunEventKind::Cancelled)], "once");
    let event = world.store.take_events(1).await.unwrap().remove(0);
    assert_eq!(event.at, at(5));
    assert_eq!(event.actor.as_deref(), Some("ann"));
    assert_eq!(event.reason.as_deref(), Some("no longer wanted"));
    world.assert_counts("cancelled").await;
    assert_eq!(world.claimed(&asking(1, 9, 6)).await, [2]);
    let ended = world.store.cancel(&cancelling(9, CancelScope::Platform, 5)).await.unwrap();
    assert_eq!(ended, CancelAnswer::NotFound);
}

async fn who_asks_may_cancel_what_is_theirs<S: QueueStore + Store>(world: World<S>) {
    let store = &world.store;
    let initiator = |of: &str, actor: &str| {
        CancelScope::Initiator(organization(of), ActorId::parse(actor).unwrap())
    };
    world.insert(&[queued(1), queued(2).at(1), queued(3).at(2)]).await;
    for scope in [
        CancelScope::Organization(organization("other")),
        CancelScope::Organization(organization("")),
        initiator("other", "ann"),
        initiator("acme", "bob"),
    ] {
        let answer = store.cancel(&cancelling(1, scope.clone(), 1)).await.unwrap();
        assert_eq!(answer, CancelAnswer::NotFound, "{scope:?}");
    }
    assert_eq!(world.events().await, []);
    let run = world.claim(&asking(1, 1, 1)).await.remove(0);
    assert_eq!(run.run_id, id(1));
    let mine = initiator("acme", "ann");
    let answer = store.cancel(&cancelling(1, mine.clone(), 1)).await.unwrap();
    assert_eq!(answer, CancelAnswer::UnderWay, "only what is queued is withdrawn");
    assert_eq!(
        store.cancel(&cancelling(2, mine.clone(), 1)).await.unwrap(),
        CancelAnswer::Cancelled
    );
    let ours = CancelScope::Organization(organization("acme"));
    assert_eq!(
        store.cancel(&cancelling(3, ours.clone(), 1)).await.unwrap(),
        CancelAnswer::Cancelled
    );
    let answer = store.cancel(&cancelling(1, ours, 2)).await.unwrap();
    assert_eq!(answer, CancelAnswer::Requested { at: at(2) });
    assert_eq!(store.cancel(&cancelling(1, mine, 3)).await.unwrap(), CancelAnswer::UnderWay);
    world.assert_counts("some cancelled").await;
}

async fn what_is_under_way_learns_of_it_and_confirms<S: QueueStore + Store>(world: World<S>) {
    world.insert(&[queued(1), queued(2), queued(3)]).await;
    let runs = world.claim(&asking(1, 3, 0)).await;
    let store = &world.store;
    store.start(&held(&runs[0]), at(60), at(1)).await.unwrap();
    store.start(&held(&runs[2]), at(60), at(1)).await.unwrap();
    for nth in [0, 1, 2] {
        for seconds in [2, 3] {
            let request = cancelling(nth + 1, CancelScope::Platform, seconds);
            let answer = store.cancel(&request).await.unwrap();
            assert_eq!(answer, CancelAnswer::Requested { at: at(2) }, "since the first time");
        }
    }
    let beat = store.heartbeat(&held(&runs[0]), at(63), at(3)).await.unwrap();
    assert_eq!(beat, HeartbeatAnswer::Held { lease_expires_at: at(63), cancelling: true });
    let start = store.start(&held(&runs[1]), at(63), at(3)).await.unwrap();
    assert_eq!(start, StartAnswer::Cancelling, "it is not started any more");
    for nth in [0, 1] {
        let end = finishing(held(&runs[nth]), RunEnd::Cancelled, 4);
        assert_eq!(store.finish(&end).await.unwrap(), FinishAnswer::Finished);
    }
    // It was done before it learned of it: that is how it ended.
    let end = finishing(held(&runs[2]), RunEnd::Succeeded, 4);
    assert_eq!(store.finish(&end).await.unwrap(), FinishAnswer::Finished);
    let answer = store.cancel(&cancelling(3, CancelScope::Platform, 5)).await.unwrap();
    assert_eq!(answer, CancelAnswer::Ended(RunStatus::Succeeded));
    let asked = world.events().await;
    let asked = asked.iter().filter(|(_, kind)| *kind == RunEventKind::CancelRequested).count();
    assert_eq!(asked, 3, "each once");
    assert_eq!(store.end_unconfirmed(at(99), at(99), 9).await.unwrap(), []);
    world.assert_counts("confirmed").await;
}

async fn what_is_not_confirmed_ends_all_the_same<S: QueueStore + Store>(world: World<S>) {
    world.insert(&[queued(1), queued(2), queued(3)]).await;
    let runs = world.claim(&asking(1, 3, 0)).await;
    let store = &world.store;
    store.start(&held(&runs[0]), at(60), at(1)).await.unwrap();
    for (run, seconds) in [(1, 2), (2, 2), (3, 9)] {
        store.cancel(&cancelling(run, CancelScope::Platform, seconds)).await.unwrap();
    }
    assert_eq!(store.end_unconfirmed(at(1), at(31), 9).await.unwrap(), []);
    let ended = store.end_unconfirmed(at(2), at(32), 9).await.unwrap();
    assert_eq!(ended.len(), 2);
    assert!(ended.iter().all(|run| run.status == RunStatus::Cancelled));
    let late = store.finish(&finishing(held(&runs[0]), RunEnd::Cancelled, 33)).await.unwrap();
    assert_eq!(late, FinishAnswer::Finished, "as it says");
    let late = store.finish(&finishing(held(&runs[1]), RunEnd::Failed, 33)).await.unwrap();
    assert!(matches!(late, FinishAnswer::NotHeld(_)), "{late:?}");
    world.assert_counts("unconfirmed").await;
}

async fn what_was_to_be_cancelled_does_not_go_back_to_the_queue<S: QueueStore + Store>(
    world: World<S>,
) {
    world.insert(&[queued(1)]).await;
    world.claim(&asking(1, 1, 0)).await;
    world.store.cancel(&cancelling(1, CancelScope::Platform, 1)).await.unwrap();
    let moved = world.store.return_lapsed(at(60), 9).await.unwrap();
    assert_eq!(moved[0].status, RunStatus::Cancelled);
    assert_eq!(world.claimed(&asking(2, 9, 61)).await, [0_u128; 0]);
    world.assert_counts("cancelled by its lease").await;
}
