//! The counts are right whoever changes runs, and however.

use wakegate::store::Store;
use wakegate::store::queue::{Depth, QueueStore};
use wakegate::store::{MergedRun, NewRun};
use wakegate::wake::{Payload, ProjectId, Wake};

use super::given::{World, asking, insertion, organization, queued};
use super::on_both;
use crate::harness::outside::Outside;
use crate::store_contract::given::{self, Lane};

on_both!(
    whoever_changes_runs_keeps_the_counts,
    a_run_stays_where_it_was_made,
    a_batch_of_a_lane_is_in_the_queue_and_what_joins_a_run_takes_no_place_away,
    depths_are_of_what_was_asked_for,
);

async fn whoever_changes_runs_keeps_the_counts<S: QueueStore + Store>(world: World<S>) {
    let statuses = [
        "queued",
        "claimed",
        "running",
        "succeeded",
        "failed",
        "cancelled",
        "expired",
        "timed_out",
        "limit_exceeded",
    ];
    let mut runs = Vec::new();
    for (nth, status) in (0..).zip(statuses) {
        for (more, project) in [(0, None), (100, Some("p")), (200, Some("q"))] {
            for (of, organization) in [(1, "a"), (2, ""), (3, "日本")] {
                let mut run = queued(1_000 * of + more + nth)
                    .of(organization)
                    .at(-i64::try_from(nth).unwrap());
                (run.project, run.status) = (project, status);
                runs.push(run);
            }
        }
    }
    world.insert(&runs).await;
    world.assert_counts("inserted in every status").await;
    world
        .outside
        .execute(&format!("{} ON CONFLICT DO NOTHING", insertion(&world.outside, &runs)))
        .await;
    world.assert_counts("inserted again").await;
    let mut steps = vec![
        "UPDATE runs SET status = 'claimed' WHERE status = 'queued' AND project_id = 'p'",
        "UPDATE runs SET status = 'queued' WHERE status IN ('claimed', 'succeeded')",
        "UPDATE runs SET requested_at = requested_at WHERE status = 'queued'",
        "UPDATE runs SET actor_type = 'user' WHERE status = 'queued' AND organization_id = ''",
        "UPDATE runs SET actor_type = 'agent', reason = 'heartbeat' WHERE organization_id = ''",
        "UPDATE runs SET producer = 'recovery_sweep', status = 'queued' WHERE status = 'expired'",
        "UPDATE runs SET queue_class = 3 WHERE organization_id = 'a'",
        "DELETE FROM runs WHERE status = 'queued' AND organization_id = 'a'",
        "UPDATE runs SET status = 'queued'",
        "DELETE FROM runs WHERE status <> 'queued'",
        "UPDATE runs SET status = 'running' WHERE project_id IS NULL",
        "UPDATE runs SET status = 'limit_exceeded' WHERE status = 'running'",
        "DELETE FROM runs WHERE status = 'limit_exceeded'",
    ];
    if matches!(world.outside, Outside::Postgres(_)) {
        steps.push("TRUNCATE runs");
    }
    steps.push("DELETE FROM runs");
    for step in steps {
        world.outside.execute(step).await;
        world.assert_counts(step).await;
    }
    for table in ["queue_projects", "runs"] {
        let left = world.outside.number(&format!("SELECT count(*) FROM {table}")).await;
        assert_eq!(left, 0, "{table}");
    }
}

async fn a_run_stays_where_it_was_made<S: QueueStore + Store>(world: World<S>) {
    world.insert(&[queued(1).in_project("p")]).await;
    for change in [
        "organization_id = 'b'",
        "project_id = 'q'",
        "project_id = NULL",
        "id = '00000000-0000-0000-0000-000000000009'",
    ] {
        let sql = sqlx::AssertSqlSafe(format!("UPDATE runs SET {change}"));
        let refused = match &world.outside {
            Outside::Sqlite(pool) => sqlx::raw_sql(sql).execute(pool).await.map(drop),
            Outside::Postgres(pool) => sqlx::raw_sql(sql).execute(pool).await.map(drop),
        };
        let error = refused.expect_err(change).to_string();
        assert!(error.contains("a run keeps its id"), "{change}: {error}");
    }
    world.outside.execute("UPDATE runs SET organization_id = organization_id").await;
    world.assert_counts("afterwards").await;
}

/// A wake at an instant, of a person or an agent.
fn wake(number: u64, second: i64, actor: &str) -> Wake {
    let text = format!(r#"{{"task_id":"t","actor_type":"{actor}","actor_id":"ann"}}"#);
    Wake {
        requested_at: super::given::at(second),
        payload: Payload::read(&text).unwrap(),
        project_id: None,
        ..given::wake(number)
    }
}

async fn a_batch_of_a_lane_is_in_the_queue_and_what_joins_a_run_takes_no_place_away<
    S: QueueStore + Store,
>(
    world: World<S>,
) {
    let store = &world.store;
    let mut lane = Lane::take(store, 0).await;
    lane.admit(store, [wake(1, 1, "agent"), wake(2, 2, "user"), wake(3, 3, "agent")]).await;
    world.assert_counts("admitted").await;

    // An agent's wake joins a person's run, and a person's an agent's; and in the batch that makes
    // it, an agent's the run of a person, and first a person's and then an agent's that of an agent.
    let mut batch = lane.batch();
    let folded = |number: u64, second: i64, actor: &str, last: &str| NewRun {
        payload: wake(0, 0, last).payload,
        coalesced_count: 2,
        ..given::run(wake(number, second, actor))
    };
    for (run, joins) in [(2, vec![(12, "agent")]), (3, vec![(13, "user"), (14, "agent")])] {
        let last = joins.last().unwrap().1;
        batch.merges.push(MergedRun {
            run_id: given::id(run),
            payload: wake(0, 0, last).payload,
            joined: 1,
        });
        for (number, actor) in joins {
            batch.merged_wakes.push(given::merged(wake(number, 5, actor), given::id(run)));
        }
    }
    batch.runs.push(folded(20, 7, "user", "agent"));
    batch.merged_wakes.push(given::merged(wake(21, 7, "agent"), given::id(20)));
    batch.runs.push(folded(30, 8, "agent", "agent"));
    batch.merged_wakes.push(given::merged(wake(31, 8, "user"), given::id(30)));
    batch.merged_wakes.push(given::merged(wake(32, 8, "agent"), given::id(30)));
    batch.runs.push(folded(40, 0, "agent", "agent"));
    store.record(&batch).await.unwrap();
    world.assert_counts("joined").await;
    assert_eq!(world.claimed(&asking(1, 9, 10)).await, [2, 3, 20, 30, 40, 1]);
}

async fn depths_are_of_what_was_asked_for<S: QueueStore + Store>(world: World<S>) {
    world
        .insert(&[
            queued(1).of("a").in_project("p"),
            queued(2).of("a").in_project("p"),
            queued(3).of("a").in_project("q"),
            queued(4).of("a"),
            queued(5).of("b").in_project("p"),
        ])
        .await;
    world.claim(&asking(1, 3, 0)).await;
    let p = ProjectId::parse("p").unwrap();
    let none = ProjectId::parse("none").unwrap();
    let (a, b) = (organization("a"), organization("b"));
    let organizations = [a.clone(), organization("c"), b.clone()];
    let projects = [(a.clone(), p.clone()), (b.clone(), p.clone()), (a.clone(), none)];
    let depth = world.store.depth(&organizations, &projects).await.unwrap();
    let of = |queued, active| Depth { queued, active };
    assert_eq!(depth.platform, of(2, 3));
    assert_eq!(depth.organizations, [(a.clone(), of(2, 2)), (b.clone(), of(0, 1))].into());
    assert_eq!(depth.projects, [((a, p.clone()), of(1, 1)), ((b, p), of(0, 1))].into());
    let nothing = world.store.depth(&[], &[]).await.unwrap();
    assert_eq!((nothing.platform, nothing.organizations.len()), (of(2, 3), 0));
}
