//! Who holds what, and for how long.

use wakegate::store::Store;
use wakegate::store::control::Why;
use wakegate::store::queue::{
    FinishAnswer, FinishRequest, HeartbeatAnswer, Held, MovedRun, NotHeld, QueueStore, RunEnd,
    RunEvent, RunEventKind, RunStatus, StartAnswer,
};

use super::given::{World, asking, at, finishing, held, id, organization, queued};
use super::on_both;

on_both!(
    a_run_is_started_beats_and_ends_and_each_answer_is_given_again,
    what_is_not_held_is_not_changed,
    a_lease_that_ends_before_the_start_returns_the_run_to_its_place,
    a_lease_that_ends_after_the_start_ends_the_run,
    a_lease_that_was_not_taken_does_not_lapse,
    every_transition_is_an_event,
);

fn started(seconds: i64) -> StartAnswer {
    StartAnswer::Started { lease_expires_at: at(seconds) }
}

const fn not_held(status: Option<RunStatus>) -> NotHeld {
    NotHeld { status }
}

async fn a_run_is_started_beats_and_ends_and_each_answer_is_given_again<S: QueueStore + Store>(
    world: World<S>,
) {
    world.insert(&[queued(1)]).await;
    let run = world.claim(&asking(1, 1, 0)).await.remove(0);
    let (store, by) = (&world.store, held(&run));
    let early = store.finish(&finishing(by, RunEnd::Succeeded, 1)).await.unwrap();
    let claimed = not_held(Some(RunStatus::Claimed));
    assert_eq!(early, FinishAnswer::NotHeld(claimed), "what was not started has not succeeded");
    for (now, until) in [(1, 61), (2, 61), (70, 61)] {
        assert_eq!(store.start(&by, at(now + 60), at(now)).await.unwrap(), started(until));
    }
    for (now, lease, until) in [(3, 63, 63), (4, 64, 64), (2, 62, 64)] {
        let expected = HeartbeatAnswer::Held { lease_expires_at: at(until), cancelling: false };
        assert_eq!(store.heartbeat(&by, at(lease), at(now)).await.unwrap(), expected);
    }
    let reason = Some(Why::parse("done").unwrap());
    let end = FinishRequest { held: by, end: RunEnd::Succeeded, reason, now: at(5) };
    for _ in 0..3 {
        assert_eq!(store.finish(&end).await.unwrap(), FinishAnswer::Finished);
    }
    let other = store.finish(&finishing(by, RunEnd::Failed, 6)).await.unwrap();
    let succeeded = not_held(Some(RunStatus::Succeeded));
    assert_eq!(other, FinishAnswer::NotHeld(succeeded), "it ends once");
    let beat = store.heartbeat(&by, at(99), at(6)).await.unwrap();
    assert_eq!(beat, HeartbeatAnswer::NotHeld(succeeded));
    assert_eq!(store.start(&by, at(99), at(6)).await.unwrap(), StartAnswer::NotHeld(succeeded));
    let events = store.take_events(10).await.unwrap();
    assert_eq!(events.last().unwrap().reason.as_deref(), Some("done"));
    assert_eq!(events.len(), 3, "claimed, started, succeeded");
    world.assert_counts("at the end").await;
}

async fn what_is_not_held_is_not_changed<S: QueueStore + Store>(world: World<S>) {
    world.insert(&[queued(1)]).await;
    world.claim(&asking(1, 1, 0)).await;
    let store = &world.store;
    for (run, fencing_token, status) in
        [(1, 0, Some(RunStatus::Claimed)), (1, 2, Some(RunStatus::Claimed)), (2, 1, None)]
    {
        let by = Held { run_id: id(run), fencing_token };
        let not = not_held(status);
        let start = store.start(&by, at(60), at(1)).await.unwrap();
        assert_eq!(start, StartAnswer::NotHeld(not));
        let beat = store.heartbeat(&by, at(60), at(1)).await.unwrap();
        assert_eq!(beat, HeartbeatAnswer::NotHeld(not));
        for end in RunEnd::ALL {
            let finish = store.finish(&finishing(by, end, 1)).await.unwrap();
            assert_eq!(finish, FinishAnswer::NotHeld(not));
        }
    }
    assert_eq!(world.status(1).await, "claimed");
    let beyond = Held { run_id: id(1), fencing_token: u64::MAX };
    assert!(store.start(&beyond, at(60), at(1)).await.is_err(), "no such token was given out");
}

async fn a_lease_that_ends_before_the_start_returns_the_run_to_its_place<S: QueueStore + Store>(
    world: World<S>,
) {
    world.insert(&[queued(1).at(1), queued(2).at(2), queued(3).at(3)]).await;
    let first = world.claim(&asking(1, 1, 0)).await.remove(0);
    let store = &world.store;
    assert_eq!(store.return_lapsed(at(59), 9).await.unwrap(), []);
    // From the instant on it is over, whether or not a keeper has come by.
    let by = held(&first);
    assert_eq!(store.start(&by, at(120), at(60)).await.unwrap(), StartAnswer::Lapsed);
    assert_eq!(store.heartbeat(&by, at(120), at(60)).await.unwrap(), HeartbeatAnswer::Lapsed);
    let late = store.finish(&finishing(by, RunEnd::Failed, 60)).await.unwrap();
    assert_eq!(late, FinishAnswer::NotHeld(not_held(Some(RunStatus::Claimed))));
    let back = MovedRun {
        run_id: id(1),
        organization_id: organization("acme"),
        status: RunStatus::Queued,
    };
    assert_eq!(store.return_lapsed(at(60), 9).await.unwrap(), [back]);
    assert_eq!(store.return_lapsed(at(60), 9).await.unwrap(), [], "once");
    world.assert_counts("returned").await;
    let again = world.claim(&asking(2, 1, 61)).await.remove(0);
    assert_eq!((again.run_id, again.fencing_token), (id(1), 2), "before those that came later");
    let stale = store.start(&by, at(120), at(61)).await.unwrap();
    assert_eq!(stale, StartAnswer::NotHeld(not_held(Some(RunStatus::Claimed))), "fenced off");
    assert_eq!(store.start(&held(&again), at(130), at(62)).await.unwrap(), started(130));
}

async fn a_lease_that_ends_after_the_start_ends_the_run<S: QueueStore + Store>(world: World<S>) {
    world.insert(&[queued(1), queued(2)]).await;
    let runs = world.claim(&asking(1, 2, 0)).await;
    let store = &world.store;
    for run in &runs {
        store.start(&held(run), at(60), at(1)).await.unwrap();
    }
    store.heartbeat(&held(&runs[1]), at(90), at(50)).await.unwrap();
    assert_eq!(store.return_lapsed(at(75), 9).await.unwrap(), [], "never again in the queue");
    let ended = store.end_lapsed(at(75), 9).await.unwrap();
    assert_eq!(ended.len(), 1);
    assert_eq!((ended[0].run_id, ended[0].status), (runs[0].run_id, RunStatus::Failed));
    let events = store.take_events(99).await.unwrap();
    assert_eq!(events.last().unwrap().reason.as_deref(), Some("lease_lost"));
    let late = store.finish(&finishing(held(&runs[0]), RunEnd::Succeeded, 76)).await.unwrap();
    assert_eq!(late, FinishAnswer::NotHeld(not_held(Some(RunStatus::Failed))));
    // One whose keeper was late may still say how it ended: nobody else has run it.
    let late = store.finish(&finishing(held(&runs[1]), RunEnd::Succeeded, 99)).await.unwrap();
    assert_eq!(late, FinishAnswer::Finished);
    assert_eq!(store.end_lapsed(at(999), 9).await.unwrap(), []);
    world.assert_counts("ended").await;
}

async fn a_lease_that_was_not_taken_does_not_lapse<S: QueueStore + Store>(world: World<S>) {
    world.insert(&[queued(1), queued(2)]).await;
    world.outside.claim_all().await;
    world.assert_counts("claimed from outside").await;
    world
        .outside
        .execute(&format!("UPDATE runs SET status = 'running' WHERE id = '{}'", id(2)))
        .await;
    assert_eq!(world.store.return_lapsed(at(99_999), 9).await.unwrap(), []);
    assert_eq!(world.store.end_lapsed(at(99_999), 9).await.unwrap(), []);
    assert_eq!(world.claimed(&asking(1, 9, 0)).await, [0_u128; 0]);
    world.assert_counts("under way outside").await;
}

async fn every_transition_is_an_event<S: QueueStore + Store>(world: World<S>) {
    use RunEventKind::{Claimed, Expired, Failed, Returned, Started};
    world.insert(&[queued(1), queued(2).expiring(100)]).await;
    assert_eq!(world.events().await, [], "what is queued was told when it was decided");
    let run = world.claim(&asking(1, 1, 0)).await.remove(0);
    world.store.return_lapsed(at(60), 9).await.unwrap();
    let again = world.claim(&asking(2, 1, 61)).await.remove(0);
    assert_eq!(run.run_id, again.run_id);
    world.store.start(&held(&again), at(121), at(62)).await.unwrap();
    world.store.heartbeat(&held(&again), at(122), at(63)).await.unwrap();
    world.store.expire(at(100), 9).await.unwrap();
    world.store.end_lapsed(at(200), 9).await.unwrap();
    let expected =
        [(1, Claimed), (1, Returned), (1, Claimed), (1, Started), (2, Expired), (1, Failed)];
    assert_eq!(world.events().await, expected);

    let events = world.store.take_events(3).await.unwrap();
    let told: Vec<_> = events
        .iter()
        .map(|event| (event.at, event.runner_id.as_deref(), event.fencing_token))
        .collect();
    let r = Some("r");
    assert_eq!(told, [(at(0), r, 1), (at(60), r, 1), (at(61), r, 2)]);
    let ids: Vec<i64> = events.iter().map(|event| event.id).collect();
    assert!(ids.is_sorted(), "{ids:?}");
    world.store.delete_events(&ids).await.unwrap();
    world.store.delete_events(&ids).await.unwrap();
    world.store.delete_events(&[]).await.unwrap();
    assert_eq!(world.events().await, expected[3..], "what is published is gone");
    let names: std::collections::BTreeSet<String> =
        world.store.take_events(9).await.unwrap().iter().map(RunEvent::message_id).collect();
    assert_eq!(names.len(), 3);
}
