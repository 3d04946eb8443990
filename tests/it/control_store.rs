//! What both databases promise to operators: pauses, agents and counts.

use std::time::Duration;

use wakegate::admission::facts::{AgentStatus, Pauses, Scoped};
use wakegate::store::control::{
    Agent, AgentQuery, Change, ControlStore, NewPause, Operator, Pause, PauseMode, PauseScope,
    Released, Why,
};
use wakegate::store::postgres::PostgresStore;
use wakegate::store::sqlite::SqliteStore;
use wakegate::store::{Store, StoreOptions};
use wakegate::wake::{AgentId, OrganizationId, UtcMicros, WakeId};

use crate::harness::outside::Outside;
use crate::harness::{postgres, sqlite};

mod statements;

const OPTIONS: StoreOptions = StoreOptions {
    connections_max: 3,
    read_deadline: Duration::from_secs(20),
    record_deadline: Duration::from_secs(20),
};

/// Ids that are data, whatever they look like.
const ODD: [&str; 8] =
    ["", "*", "wakes.>", "a b", "\u{202e}x", "'; DROP TABLE pauses; --", "日本", "\n\t\u{1}"];

/// Makes of each `async fn name<S>(store: S, outside: Outside)` a test on either database.
macro_rules! on_both {
    ($($name:ident),+ $(,)?) => {
        $(mod $name {
            use super::*;

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_sqlite() {
                let (_directory, url) = sqlite::database().await;
                let outside = Outside::Sqlite(sqlx::SqlitePool::connect_lazy(&url).unwrap());
                super::$name(SqliteStore::connect(&url, &OPTIONS).unwrap(), outside).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_postgres() {
                let database = postgres::database().await;
                let outside = Outside::Postgres(database.pool());
                let store = PostgresStore::connect(&database.url(), &OPTIONS).unwrap();
                super::$name(store, outside).await;
            }
        })+
    };
}

mod redrives;

on_both!(
    a_pause_is_active_until_it_is_released,
    of_many_who_pause_at_once_one_does,
    a_pause_from_outside_is_shown_as_it_is,
    paused_organizations_come_in_pages,
    agents_are_set_and_read_within_their_organization,
    agents_come_in_pages_by_organization_and_status,
    counts_count,
);

fn at(seconds: i64) -> UtcMicros {
    UtcMicros::from_micros(1_790_000_000_000_001 + seconds * 1_000_000)
}

fn change(actor: &str, reason: &str, seconds: i64) -> Change {
    Change {
        actor: Operator::parse(actor).unwrap(),
        reason: Why::parse(reason).unwrap(),
        at: at(seconds),
    }
}

fn organization(id: &str) -> OrganizationId {
    OrganizationId::parse(id).unwrap()
}

fn of(id: &str) -> PauseScope {
    PauseScope::Organization(organization(id))
}

fn agent(organization_id: &str, id: &str) -> Scoped<AgentId> {
    (organization(organization_id), AgentId::parse(id).unwrap())
}

fn new(scope: PauseScope) -> NewPause {
    NewPause { scope, mode: PauseMode::StopNow, by: change("ann\u{202e}", "it's \"on\"\n", 0) }
}

async fn a_pause_is_active_until_it_is_released<S: ControlStore + Store>(store: S, _: Outside) {
    let scopes: Vec<PauseScope> = ODD.into_iter().map(of).chain([PauseScope::Platform]).collect();
    let mut ids = std::collections::BTreeSet::new();
    for scope in &scopes {
        assert_eq!(store.active_pause(scope).await.unwrap(), None, "{scope:?}");
        let made = store.insert_pause(&new(scope.clone())).await.unwrap().expect("it is free");
        let expected = Pause {
            id: made.id.clone(),
            scope: scope.clone(),
            mode: PauseMode::StopNow,
            actor: "ann\u{202e}".to_owned(),
            reason: "it's \"on\"\n".to_owned(),
            created_at: at(0),
            released: None,
        };
        assert_eq!(made, expected);
        assert_eq!(store.active_pause(scope).await.unwrap().as_ref(), Some(&expected));
        assert_eq!(store.pause(&made.id).await.unwrap(), Some(expected));
        assert_eq!(store.insert_pause(&new(scope.clone())).await.unwrap(), None, "{scope:?}");
        assert!(ids.insert(made.id), "ids differ");
    }
    // The gate reads the same rows.
    let pauses: Pauses = store.read_pauses(&ODD.map(organization)).await.unwrap();
    assert!(pauses.platform.is_some() && pauses.organizations.len() == ODD.len(), "{pauses:?}");

    for scope in &scopes {
        let active = store.active_pause(scope).await.unwrap().expect("it is paused");
        let by = change("bob", "over", 5);
        let released = store.release_pause(&active.id, &by).await.unwrap().expect("it is active");
        let end =
            Released { at: at(5), by: Some("bob".to_owned()), reason: Some("over".to_owned()) };
        assert_eq!(released, Pause { released: Some(end), ..active.clone() });
        assert_eq!(store.release_pause(&active.id, &by).await.unwrap(), None, "once");
        assert_eq!(store.active_pause(scope).await.unwrap(), None);
        assert_eq!(store.pause(&active.id).await.unwrap(), Some(released), "it stays on record");
        assert!(store.insert_pause(&new(scope.clone())).await.unwrap().is_some(), "again");
    }
    assert_eq!(store.pause("none").await.unwrap(), None);
}

async fn of_many_who_pause_at_once_one_does<S: ControlStore>(store: S, _: Outside) {
    let mut rivals = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let store = store.clone();
        rivals.spawn(async move { store.insert_pause(&new(of("acme"))).await.unwrap() });
    }
    let made: Vec<Pause> = rivals.join_all().await.into_iter().flatten().collect();
    assert_eq!(made.len(), 1);
    assert_eq!(store.active_pause(&of("acme")).await.unwrap().as_ref(), made.first());
}

async fn a_pause_from_outside_is_shown_as_it_is<S: ControlStore>(store: S, outside: Outside) {
    outside.execute("INSERT INTO pauses (scope) VALUES ('platform')").await;
    let pause = store.active_pause(&PauseScope::Platform).await.unwrap().expect("it is paused");
    assert_eq!((pause.actor.as_str(), pause.reason.as_str()), ("", ""));
    assert_eq!(pause.mode, PauseMode::Drain);
    let released = store.release_pause(&pause.id, &change("a", "b", 1)).await.unwrap();
    assert!(released.is_some_and(|pause| pause.released.is_some()));
}

async fn paused_organizations_come_in_pages<S: ControlStore>(store: S, _: Outside) {
    store.insert_pause(&new(PauseScope::Platform)).await.unwrap();
    let mut expected: Vec<OrganizationId> = ODD.into_iter().map(organization).collect();
    for id in &expected {
        store.insert_pause(&new(PauseScope::Organization(id.clone()))).await.unwrap();
    }
    let ended = store.insert_pause(&new(of("ended"))).await.unwrap().expect("it is free");
    store.release_pause(&ended.id, &change("a", "b", 1)).await.unwrap();
    expected.sort();
    let mut found = Vec::new();
    let mut after: Option<OrganizationId> = None;
    loop {
        let page = store.paused_organizations(after.as_ref(), 3).await.unwrap();
        assert!(page.len() <= 3);
        let Some(last) = page.last() else { break };
        after = Some(last.scope.organization());
        found.extend(page.into_iter().map(|pause| pause.scope.organization()));
    }
    assert_eq!(found, expected, "in the order of their bytes, each once");
}

async fn agents_are_set_and_read_within_their_organization<S: ControlStore + Store>(
    store: S,
    outside: Outside,
) {
    outside.set_agent("acme", "from-outside", "working").await;
    let known = store.agent(&agent("acme", "from-outside")).await.unwrap().expect("it is known");
    assert_eq!((known.status, known.actor, known.reason), (AgentStatus::Working, None, None));

    for (nth, id) in (0..).zip(ODD.into_iter().filter(|id| !id.is_empty())) {
        let (ours, theirs) = (agent("acme", id), agent("", id));
        assert_eq!(store.agent(&ours).await.unwrap(), None);
        for status in AgentStatus::ALL {
            let by = change("ann", "because", nth);
            let expected = Agent {
                id: ours.clone(),
                status,
                actor: Some("ann".to_owned()),
                reason: Some("because".to_owned()),
                updated_at: at(nth),
            };
            assert_eq!(store.set_agent(&ours, status, &by).await.unwrap(), expected);
            assert_eq!(store.agent(&ours).await.unwrap(), Some(expected));
            assert_eq!(store.agent(&theirs).await.unwrap(), None, "another organization's");
            let gate = store.read_agents(std::slice::from_ref(&ours)).await.unwrap();
            assert_eq!(gate.get(&ours), Some(&status), "the gate reads the same row");
        }
    }
}

async fn agents_come_in_pages_by_organization_and_status<S: ControlStore>(store: S, _: Outside) {
    let mut all = Vec::new();
    for organization_id in ODD {
        for (nth, id) in ["a", "b", "Z", "ä"].into_iter().enumerate() {
            let id = agent(organization_id, id);
            let status = AgentStatus::ALL[nth];
            store.set_agent(&id, status, &change("ann", "r", 0)).await.unwrap();
            all.push((id, status));
        }
    }
    all.sort_by(|(left, _), (right, _)| left.cmp(right));
    for organization_id in [None, Some(organization("")), Some(organization("日本"))] {
        for status in [None, Some(AgentStatus::Paused), Some(AgentStatus::PendingApproval)] {
            let expected: Vec<Scoped<AgentId>> = all
                .iter()
                .filter(|((of, _), s)| {
                    organization_id.as_ref().is_none_or(|o| o == of)
                        && status.is_none_or(|status| status == *s)
                })
                .map(|(id, _)| id.clone())
                .collect();
            let mut query = AgentQuery {
                organization_id: organization_id.clone(),
                status,
                after: None,
                agents_max: 3,
            };
            let mut found = Vec::new();
            loop {
                let page = store.agents(&query).await.unwrap();
                assert!(page.len() <= 3);
                let Some(last) = page.last() else { break };
                query.after = Some(last.id.clone());
                found.extend(page.into_iter().map(|agent| agent.id));
            }
            assert_eq!(found, expected, "{organization_id:?} {status:?}");
        }
    }
}

async fn counts_count<S: ControlStore>(store: S, outside: Outside) {
    assert_eq!(store.queued_runs().await.unwrap(), 0);
    assert_eq!(store.refusals_since(at(0)).await.unwrap(), []);
    for (nth, status) in ["queued", "claimed", "queued", "failed"].into_iter().enumerate() {
        let run = crate::harness::outside::OutsideRun {
            id: nth as u128 + 1,
            status,
            ..Default::default()
        };
        outside.insert_run(&run).await;
    }
    assert_eq!(store.queued_runs().await.unwrap(), 2);

    // An id says when its wake was stored, to the millisecond.
    let millis = |seconds: i64| (i128::from(at(seconds).micros()) / 1_000) * 1_000_000;
    for (nth, (seconds, reason)) in (1..).zip([
        (-1, "agent_paused"),
        (0, "agent_paused"),
        (0, "allowance_exhausted"),
        (9, "agent_paused"),
    ]) {
        let id = WakeId::derive("WAKES", nth, millis(seconds));
        outside
            .execute(&format!(
                "INSERT INTO refused_wakes (wake_id, organization_id, reason, record)
                 VALUES ('{id}', 'acme', '{reason}', '{{}}')"
            ))
            .await;
    }
    let counted = |pairs: &[(&str, u64)]| -> Vec<(String, u64)> {
        pairs.iter().map(|(name, number)| ((*name).to_owned(), *number)).collect()
    };
    for (seconds, expected) in [
        (-1, counted(&[("agent_paused", 3), ("allowance_exhausted", 1)])),
        (0, counted(&[("agent_paused", 2), ("allowance_exhausted", 1)])),
        (9, counted(&[("agent_paused", 1)])),
        (10, Vec::new()),
    ] {
        assert_eq!(store.refusals_since(at(seconds)).await.unwrap(), expected, "{seconds}");
    }

    assert_eq!(store.pauses_by_scope().await.unwrap(), []);
    for scope in [of("a"), of("b"), PauseScope::Platform] {
        store.insert_pause(&new(scope)).await.unwrap();
    }
    let ended = store.insert_pause(&new(of("c"))).await.unwrap().expect("it is free");
    store.release_pause(&ended.id, &change("a", "b", 1)).await.unwrap();
    let pauses = counted(&[("organization", 2), ("platform", 1)]);
    assert_eq!(store.pauses_by_scope().await.unwrap(), pauses);

    for (id, status) in [("a", AgentStatus::Idle), ("b", AgentStatus::Idle)] {
        store.set_agent(&agent("x", id), status, &change("a", "b", 0)).await.unwrap();
    }
    store.set_agent(&agent("", "b"), AgentStatus::Stopped, &change("a", "b", 0)).await.unwrap();
    let agents = counted(&[("idle", 2), ("stopped", 1)]);
    assert_eq!(store.agents_by_status().await.unwrap(), agents);
}
