//! Gates 4 and 5: which runs a wake may join, and which count against its task.

use std::time::Duration;

use wakegate::admission::facts::{CountedRuns, MergeBucket};
use wakegate::admission::{ALLOWANCE_WINDOW, COALESCE_WINDOW};
use wakegate::store::memory::RunStatus;
use wakegate::store::{CountWindow, Store as _};
use wakegate::wake::{RunId, UtcMicros, Wake};

use super::given::{
    Lane, MICRO, T0, agent, at, by_agent, id, keyed, organization, payload, task, wake,
};
use super::on_every_store;
use super::subject::{Row, Subject};

on_every_store!(
    a_queued_run_is_joined_within_the_half_open_window,
    of_several_queued_runs_the_newest_is_found_and_of_equals_the_greatest_id,
    only_what_is_queued_in_the_same_bucket_is_joined,
    taskless_wakes_join_taskless_runs_only,
    runs_keyed_by_a_comment_are_skipped,
    a_task_that_is_no_usable_string_never_merges,
    each_wake_of_a_batch_has_its_own_window,
    a_run_counts_within_the_half_open_window,
    runs_of_every_status_count,
    only_agents_assignments_of_the_same_task_count,
    each_window_is_read_newest_first_up_to_a_limit,
    a_merge_relabels_what_counts,
    ids_of_any_text_and_full_length_are_told_apart,
);

/// Text that no index can compress, of exactly so many bytes.
pub fn incompressible(bytes: usize, seed: u64) -> String {
    use rand::{Rng as _, SeedableRng as _};
    let mut random = rand::rngs::StdRng::seed_from_u64(seed);
    (0..bytes).map(|_| char::from(random.random_range(b'!'..=b'~'))).collect()
}

/// What a wake would find to join.
async fn found<S: Subject>(subject: &S, wake: &Wake) -> Option<RunId> {
    let queued = subject.store().read_queued(&[wake]).await.unwrap();
    assert!(queued.by_bucket.len() <= 1);
    let runs = queued.by_bucket.get(&MergeBucket::of(wake)?)?;
    assert_eq!(runs.len(), 1, "one wake, one candidate");
    runs.keys().next().map(|(_, id)| *id)
}

async fn counted<S: Subject>(subject: &S, at: UtcMicros) -> Vec<(UtcMicros, RunId)> {
    let window = CountWindow { organization_id: organization("acme"), task_id: task("t"), at };
    let counted = subject.store().read_counted(&[window], 100).await.unwrap();
    of(&counted, "acme", "t")
}

fn of(counted: &CountedRuns, tenant: &str, name: &str) -> Vec<(UtcMicros, RunId)> {
    let runs = counted.by_task.get(&(organization(tenant), task(name)));
    runs.into_iter().flatten().copied().collect()
}

async fn a_queued_run_is_joined_within_the_half_open_window<S: Subject>(subject: S) {
    subject.put_run(&Row::new(1, T0)).await;
    for (instant, expected) in [
        (T0 - MICRO, None),
        (T0, Some(id(1))),
        (T0 + COALESCE_WINDOW - MICRO, Some(id(1))),
        (T0 + COALESCE_WINDOW, None),
    ] {
        assert_eq!(found(&subject, &at(9, instant)).await, expected, "{instant}");
    }
}

async fn of_several_queued_runs_the_newest_is_found_and_of_equals_the_greatest_id<S: Subject>(
    subject: S,
) {
    let greatest = RunId::from(uuid::Uuid::from_u128(0xa << 100));
    subject.put_run(&Row::new(8, T0 - MICRO)).await;
    subject.put_run(&Row::new(3, T0)).await;
    subject.put_run(&Row { id: greatest, ..Row::new(0, T0) }).await;
    subject.put_run(&Row::new(0x10, T0)).await;
    subject.put_run(&Row::new(9, T0 + MICRO)).await;
    assert_eq!(found(&subject, &at(99, T0)).await, Some(greatest));
    assert_eq!(found(&subject, &at(99, T0 + MICRO)).await, Some(id(9)));
    assert_eq!(found(&subject, &at(99, T0 - MICRO)).await, Some(id(8)));
}

async fn only_what_is_queued_in_the_same_bucket_is_joined<S: Subject>(subject: S) {
    for (number, status) in (1..).zip(RunStatus::ALL) {
        if status != RunStatus::Queued {
            subject.put_run(&Row { status, ..Row::new(number, T0) }).await;
        }
    }
    let others = [
        Row { organization: "other", ..Row::new(21, T0) },
        Row { agent: "reviewer", ..Row::new(22, T0) },
        Row { reason: "task_comment", ..Row::new(23, T0) },
        Row { payload: r#"{"task_id":"T"}"#, ..Row::new(24, T0) },
        Row { payload: "{}", ..Row::new(25, T0) },
    ];
    for row in &others {
        subject.put_run(row).await;
    }
    assert_eq!(found(&subject, &wake(99)).await, None);
    let other = Wake { organization_id: organization("other"), ..wake(99) };
    assert_eq!(found(&subject, &other).await, Some(id(21)));
    let reviewer = Wake { agent_profile_id: agent("reviewer"), ..wake(99) };
    assert_eq!(found(&subject, &reviewer).await, Some(id(22)));
    // Whoever acted: a person's wake joins an agent's run.
    let person = Wake { payload: payload(r#"{"task_id":"T","actor_type":"user"}"#), ..wake(99) };
    assert_eq!(found(&subject, &person).await, Some(id(24)));
}

async fn taskless_wakes_join_taskless_runs_only<S: Subject>(subject: S) {
    subject.put_run(&Row::new(9, T0)).await;
    for (number, text) in (1..).zip(["{}", r#"{"task_id":null}"#, r#"{"task_id":""}"#, "no json"]) {
        subject.put_run(&Row { payload: text, ..Row::new(number, T0) }).await;
        let taskless = Wake { payload: payload("[]"), ..wake(99) };
        assert_eq!(found(&subject, &taskless).await, Some(id(number)), "{text}");
    }
    let late = Wake { payload: payload("{}"), ..at(99, T0 + COALESCE_WINDOW) };
    assert_eq!(found(&subject, &late).await, None);
    let reviewer = Wake { payload: payload("{}"), agent_profile_id: agent("reviewer"), ..wake(99) };
    assert_eq!(found(&subject, &reviewer).await, None);
}

async fn runs_keyed_by_a_comment_are_skipped<S: Subject>(subject: S) {
    for (number, text) in [(1, r#"{"task_id":"t"}"#), (2, "{}")] {
        let plain = Row { payload: text, key: Some("task_comment"), ..Row::new(number, T0) };
        subject.put_run(&plain).await;
        let comment = Row { key: Some("task_comment:1"), ..plain };
        let newer = Row { id: id(number + 10), at: T0 + MICRO, ..comment };
        subject.put_run(&newer).await;
        let other = Wake { payload: payload(text), ..at(99, T0 + MICRO) };
        assert_eq!(found(&subject, &other).await, Some(id(number)), "{text}");
        let comment = Wake { payload: payload(text), ..keyed(98, "task_comment:2") };
        assert!(subject.store().read_queued(&[&comment]).await.unwrap().by_bucket.is_empty());
    }
}

async fn a_task_that_is_no_usable_string_never_merges<S: Subject>(subject: S) {
    let store = subject.store();
    let unusable = r#"{"task_id":7}"#;
    let mut lane = Lane::take(store, 0).await;
    lane.admit(store, [Wake { payload: payload(unusable), ..wake(1) }]).await;
    let taskless = Wake { payload: payload("{}"), ..wake(98) };
    assert_eq!(found(&subject, &taskless).await, None);
    let same = Wake { payload: payload(unusable), ..wake(99) };
    assert!(store.read_queued(&[&same]).await.unwrap().by_bucket.is_empty());
}

async fn each_wake_of_a_batch_has_its_own_window<S: Subject>(subject: S) {
    let seconds = |count| Duration::from_secs(count);
    for number in 0..4 {
        subject.put_run(&Row::new(number, T0 + seconds(10 * number))).await;
    }
    let wakes: Vec<Wake> = (0..4).map(|number| at(50, T0 + seconds(10 * number + 1))).collect();
    let late = at(60, T0 + seconds(100));
    let mut asked: Vec<&Wake> = wakes.iter().collect();
    asked.extend([&late, &wakes[0]]);
    let queued = subject.store().read_queued(&asked).await.unwrap();
    let runs = &queued.by_bucket[&MergeBucket::of(&late).unwrap()];
    let ids: Vec<RunId> = runs.keys().map(|(_, id)| *id).collect();
    assert_eq!(ids, [0, 1, 2, 3].map(id));
    assert!(runs.values().all(|run| run.actor_type.as_ref().unwrap().is_agent()));
}

async fn a_run_counts_within_the_half_open_window<S: Subject>(subject: S) {
    subject.put_run(&Row::new(1, T0)).await;
    for (instant, expected) in [
        (T0 - MICRO, vec![]),
        (T0, vec![(T0, id(1))]),
        (T0 + ALLOWANCE_WINDOW - MICRO, vec![(T0, id(1))]),
        (T0 + ALLOWANCE_WINDOW, vec![]),
    ] {
        assert_eq!(counted(&subject, instant).await, expected, "{instant}");
    }
}

async fn runs_of_every_status_count<S: Subject>(subject: S) {
    for (number, status) in (1..).zip(RunStatus::ALL) {
        subject.put_run(&Row { status, ..Row::new(number, T0) }).await;
    }
    assert_eq!(counted(&subject, T0).await.len(), RunStatus::ALL.len());
}

async fn only_agents_assignments_of_the_same_task_count<S: Subject>(subject: S) {
    let others = [
        Row { organization: "other", ..Row::new(1, T0) },
        Row { organization: "", ..Row::new(2, T0) },
        Row { reason: "task_comment", ..Row::new(3, T0) },
        Row { payload: r#"{"task_id":"t","actor_type":"user"}"#, ..Row::new(4, T0) },
        Row { payload: r#"{"task_id":"t","actor_type":"Agent"}"#, ..Row::new(5, T0) },
        Row { payload: r#"{"task_id":"t"}"#, ..Row::new(6, T0) },
        Row { payload: r#"{"task_id":"t2","actor_type":"agent"}"#, ..Row::new(7, T0) },
        Row { payload: r#"{"actor_type":"agent"}"#, ..Row::new(8, T0) },
        Row { payload: r#"["t","agent"]"#, ..Row::new(9, T0) },
    ];
    for row in &others {
        subject.put_run(row).await;
    }
    assert_eq!(counted(&subject, T0).await, []);
    // Whichever agent is assigned, and whatever the key.
    subject.put_run(&Row { agent: "reviewer", key: Some("k"), ..Row::new(10, T0) }).await;
    subject.put_run(&Row { key: Some("task_comment:1"), ..Row::new(11, T0) }).await;
    assert_eq!(counted(&subject, T0).await, [(T0, id(10)), (T0, id(11))]);
}

async fn each_window_is_read_newest_first_up_to_a_limit<S: Subject>(subject: S) {
    let instant = |number: u64| T0 + Duration::from_secs(number);
    for number in 1..=9 {
        subject.put_run(&Row::new(number, instant(number))).await;
    }
    subject.put_run(&Row { organization: "other", ..Row::new(20, instant(2)) }).await;
    let window = |tenant: &str, number| CountWindow {
        organization_id: organization(tenant),
        task_id: task("t"),
        at: instant(number),
    };
    let windows = [window("acme", 4), window("acme", 8), window("other", 9), window("acme", 4)];
    let read = subject.store().read_counted(&windows, 2).await.unwrap();
    let expected = [3, 4, 7, 8].map(|number| (instant(number), id(number)));
    assert_eq!(of(&read, "acme", "t"), expected);
    assert_eq!(of(&read, "other", "t"), [(instant(2), id(20))]);
}

async fn a_merge_relabels_what_counts<S: Subject>(subject: S) {
    let store = subject.store();
    let mut lane = Lane::take(store, 0).await;
    lane.admit(store, [wake(1)]).await;
    let person = r#"{"task_id":"t","actor_type":"user"}"#;
    let second = T0 + Duration::from_secs(1);
    for (number, text, counts) in
        [(2, person.to_owned(), false), (3, by_agent("t").text().to_owned(), true)]
    {
        lane.merge(store, Wake { payload: payload(&text), ..at(number, second) }, id(1), false)
            .await;
        let expected = if counts { vec![(T0, id(1))] } else { vec![] };
        assert_eq!(counted(&subject, second).await, expected, "{text}");
        let queued = store.read_queued(&[&at(99, second)]).await.unwrap();
        let run = &queued.by_bucket[&MergeBucket::of(&wake(99)).unwrap()][&(T0, id(1))];
        assert_eq!(run.actor_type.as_ref().unwrap().is_agent(), counts);
    }
}

async fn ids_of_any_text_and_full_length_are_told_apart<S: Subject>(subject: S) {
    let store = subject.store();
    let long = [incompressible(256, 5), incompressible(256, 6)];
    let names = ["'", "*", "a\nb", "\u{202e}", "é", "%", long[0].as_str(), long[1].as_str()];
    let wakes: Vec<Wake> = (1..)
        .zip(names)
        .map(|(number, name)| Wake {
            organization_id: organization(name),
            agent_profile_id: agent(name),
            payload: payload(
                &serde_json::json!({"task_id": name, "actor_type": "agent", "actor_id": name})
                    .to_string(),
            ),
            ..wake(number)
        })
        .collect();
    Lane::take(store, 0).await.admit(store, wakes.clone()).await;
    for (wake, name) in wakes.iter().zip(names) {
        assert_eq!(found(&subject, wake).await, Some(wake.id), "{name:?}");
        let window =
            CountWindow { organization_id: organization(name), task_id: task(name), at: T0 };
        let read = store.read_counted(&[window], 100).await.unwrap();
        assert_eq!(of(&read, name, name), [(T0, wake.id)], "{name:?}");
    }
}
