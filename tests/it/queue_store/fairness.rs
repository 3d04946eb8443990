//! Fair with sixteen claimers at once: what the events say, in the order in which they were written,
//! are the turns that docs/queue.md promises, and nobody waits for a neighbour that floods. A wait is
//! measured in claims that were made meanwhile.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _};
use tokio::task::JoinSet;
use uuid::Uuid;
use wakegate::store::postgres::PostgresStore;
use wakegate::store::queue::{ClaimRequest, QueueStore, RunEnd, RunEvent, RunEventKind};
use wakegate::store::sqlite::SqliteStore;

use super::given::{
    OPTIONS, Queued, World, asking, at, finishing, held, insertion, number, queued,
};
use crate::harness::outside::Outside;
use crate::harness::{PATIENCE, until_some};

const CLAIMERS: usize = 16;
const SLOTS: u32 = 10;
const FLOOD: &str = "flood";
/// Half of them come behind the flood, where only their ids decide.
const NEIGHBOURS: [&str; 9] = ["a", "b", "c", "d", "n1", "n2", "n3", "n4", "n5"];
const ROUNDS: usize = 6;
/// As many runs of the flood come with each of a neighbour, and none before it.
const FLOOD_RUNS: u128 = 60;
/// Of a neighbour alone: its turn, and that of each other.
const TURNS_ALONE: i64 = 9;
/// And with the flood beside it: as often as the flood may be level with it, at most its weight in the
/// neighbour's, once before and once where their ids decide.
const TURNS_OF_FLOOD: i64 = 2;

/// What each organization's part is.
type Weights = fn(&str) -> u32;

fn equal(_: &str) -> u32 {
    1
}

fn unequal(organization: &str) -> u32 {
    match organization {
        FLOOD => 6,
        "a" | "n1" => 1,
        "b" | "n2" => 2,
        _ => 3,
    }
}

/// A database, and stores on it with connections of their own.
struct Stand<S> {
    world: World<S>,
    store: Box<dyn Fn() -> S>,
}

async fn on_postgres() -> Stand<PostgresStore> {
    let world = World::on_postgres().await;
    let url = world.url.clone();
    Stand { world, store: Box::new(move || PostgresStore::connect(&url, &OPTIONS).unwrap()) }
}

async fn on_sqlite() -> Stand<SqliteStore> {
    let world = World::on_sqlite().await;
    let url = world.url.clone();
    Stand { world, store: Box::new(move || SqliteStore::connect(&url, &OPTIONS).unwrap()) }
}

/// Claims by what an organization is called, and by nothing else.
async fn take_the_order_out(world: &World<PostgresStore>) {
    let sql = "DO $$ BEGIN EXECUTE replace(pg_get_functiondef('queue_claim'::regproc), \
               'ORDER BY o.share, o.served, o.organization_id', 'ORDER BY o.organization_id'); END $$";
    world.outside.execute(sql).await;
    let changed = "SELECT count(*) FROM pg_proc WHERE proname = 'queue_claim' AND prosrc NOT LIKE \
                   '%ORDER BY o.share%'";
    assert_eq!(world.outside.number(changed).await, 1);
}

/// Takes, starts and ends runs until it is over.
async fn claimer<S: QueueStore>(store: S, nth: usize, over: Arc<AtomicBool>) {
    let mut round = 0;
    while !over.load(Ordering::SeqCst) {
        round += 1;
        let request = ClaimRequest {
            claim_id: Uuid::from_u128((nth as u128) << 64 | round as u128),
            platform_active_max: SLOTS,
            ..asking(0, 1 + u32::try_from((nth + round) % 3).unwrap(), 100)
        };
        for run in store.claim(&request).await.unwrap() {
            let by = held(&run);
            store.start(&by, at(160), at(101)).await.unwrap();
            store.finish(&finishing(by, RunEnd::Succeeded, 102)).await.unwrap();
        }
    }
}

impl<S: QueueStore> Stand<S> {
    fn claimers(&self, over: &Arc<AtomicBool>) -> JoinSet<()> {
        let mut claimers = JoinSet::new();
        for nth in 0..CLAIMERS {
            claimers.spawn(claimer((self.store)(), nth, Arc::clone(over)));
        }
        claimers
    }

    async fn weigh(&self, weights: Weights) {
        for of in NEIGHBOURS.into_iter().chain([FLOOD]) {
            let weight = weights(of);
            let sql = format!(
                "INSERT INTO organization_limits (organization_id, weight) VALUES ('{of}', {weight})"
            );
            self.world.outside.execute(&sql).await;
        }
    }

    async fn until_none(&self, is: &str) {
        let sql = format!("SELECT count(*) FROM runs WHERE {is}");
        let look = async || (self.world.outside.number(&sql).await == 0).then_some(());
        until_some(look, || format!("for ever there are runs that are {is}")).await;
    }

    async fn events(&self) -> Vec<RunEvent> {
        self.world.store.take_events(1_000_000).await.unwrap()
    }
}

/// The first claim, by the order of events, that was not the turn of whoever got it.
fn out_of_turn(runs: &[Queued], weights: Weights, events: &[RunEvent]) -> Option<String> {
    let mut queued: BTreeMap<&'static str, u64> = BTreeMap::new();
    let mut active: BTreeMap<&'static str, u64> = BTreeMap::new();
    let mut served: BTreeMap<&'static str, u64> = BTreeMap::new();
    let mut least_served = 0;
    for run in runs {
        *queued.entry(run.organization).or_default() += 1;
    }
    for (nth, event) in events.iter().enumerate() {
        let of = event.organization_id.as_str();
        let (&of, _) = queued.get_key_value(of).expect("it is of one of these");
        match event.event {
            RunEventKind::Claimed => {
                let turn = |of: &'static str| {
                    let share = active.get(of).unwrap_or(&0) * 1_000_000_000;
                    (share / u64::from(weights(of)), *served.get(of).unwrap_or(&0), of)
                };
                let waiting = queued.iter().filter(|(_, left)| **left > 0);
                let next = waiting.map(|(of, _)| turn(of)).min();
                if next != Some(turn(of)) {
                    return Some(format!("claim {nth}: {:?} before {next:?}", turn(of)));
                }
                least_served = least_served.max(*served.get(of).unwrap_or(&0));
                served.insert(of, least_served + 1_000_000 / u64::from(weights(of)));
                *queued.get_mut(of).unwrap() -= 1;
                *active.entry(of).or_default() += 1;
            }
            RunEventKind::Succeeded => *active.get_mut(of).unwrap() -= 1,
            _ => {}
        }
    }
    None
}

/// All runs are there before anybody claims.
async fn turns<S: QueueStore>(stand: &Stand<S>, weights: Weights) -> Option<String> {
    stand.weigh(weights).await;
    let mut runs = Vec::new();
    for (nth, of) in (1..).zip(NEIGHBOURS) {
        runs.extend((0..20).map(|more| queued(1_000 * nth + more).of(of)));
    }
    runs.extend((0..160).map(|more| queued(100_000 + more).of(FLOOD)));
    stand.world.insert(&runs).await;
    let over = Arc::new(AtomicBool::new(false));
    let claimers = stand.claimers(&over);
    stand.until_none("status = 'queued'").await;
    over.store(true, Ordering::SeqCst);
    claimers.join_all().await;
    stand.world.assert_counts("after all").await;
    let events = stand.events().await;
    let claims = events.iter().filter(|event| event.event == RunEventKind::Claimed).count();
    assert_eq!(claims, runs.len());
    out_of_turn(&runs, weights, &events)
}

/// Inserts runs, and tells how many claims had been made then: the insertion holds the queue.
async fn insert_counting(url: &str, outside: &Outside, runs: &[Queued]) -> i64 {
    const CLAIMS: &str = "SELECT count(*) FROM run_events WHERE event = 'claimed'";
    let insert = AssertSqlSafe(insertion(outside, runs));
    match outside {
        Outside::Sqlite(_) => {
            let options: sqlx::sqlite::SqliteConnectOptions = url.parse().unwrap();
            let mut connection = options.busy_timeout(PATIENCE).connect().await.unwrap();
            let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await.unwrap();
            transaction.execute(sqlx::raw_sql(insert)).await.unwrap();
            let claims = sqlx::query_scalar(CLAIMS).fetch_one(&mut *transaction).await.unwrap();
            transaction.commit().await.unwrap();
            claims
        }
        Outside::Postgres(pool) => {
            let mut transaction = pool.begin().await.unwrap();
            transaction.execute(sqlx::raw_sql(insert)).await.unwrap();
            // It would only come to the queue, and lock it, in the commit.
            transaction.execute("SET CONSTRAINTS ALL IMMEDIATE").await.unwrap();
            let claims = sqlx::query_scalar(CLAIMS).fetch_one(&mut *transaction).await.unwrap();
            transaction.commit().await.unwrap();
            claims
        }
    }
}

/// For each run of a neighbour, how many claims were made until it had its turn, its own included.
async fn waits<S: QueueStore>(
    stand: &Stand<S>,
    weights: Weights,
    flood: bool,
) -> Vec<(&'static str, i64)> {
    let Stand { world, .. } = stand;
    stand.weigh(weights).await;
    let over = Arc::new(AtomicBool::new(false));
    let mut claimers = None;
    let mut before = BTreeMap::new();
    for round in 0..ROUNDS as u128 {
        let claimers = claimers.get_or_insert_with(|| stand.claimers(&over));
        assert_eq!(claimers.len(), CLAIMERS);
        for (nth, of) in (1..).zip(NEIGHBOURS) {
            let mut runs = vec![queued(100 * round + nth).of(of)];
            if flood {
                let first = 1_000_000 * (100 * round + nth + 1);
                runs.extend((0..FLOOD_RUNS).map(|more| queued(first + more).of(FLOOD)));
            }
            let claims = insert_counting(&world.url, &world.outside, &runs).await;
            before.insert(100 * round + nth, (of, claims));
        }
        // They trickle: the next ones come when these have ended. Beside one that is still under way, for
        // however long its claimer gets no processor, the flood may have any number of turns.
        stand
            .until_none("organization_id <> 'flood' AND status IN ('queued', 'claimed', 'running')")
            .await;
    }
    over.store(true, Ordering::SeqCst);
    claimers.expect("there was a round").join_all().await;
    let events = stand.events().await;
    let claimed = events.iter().filter(|event| event.event == RunEventKind::Claimed);
    let waits: Vec<_> = (1..)
        .zip(claimed)
        .filter_map(|(turn, event)| {
            let (of, claims) = before.get(&number(event.run_id))?;
            Some((*of, turn - claims))
        })
        .collect();
    assert_eq!(waits.len(), ROUNDS * NEIGHBOURS.len());
    waits
}

/// The longest wait beyond what is promised.
fn beyond(waits: &[(&'static str, i64)], weights: Weights, flood: bool) -> i64 {
    let allowed = |of: &str| {
        let level = TURNS_OF_FLOOD + i64::from(weights(FLOOD) / weights(of));
        TURNS_ALONE + if flood { level } else { 0 }
    };
    waits.iter().map(|(of, wait)| wait - allowed(of)).max().unwrap()
}

macro_rules! on_both {
    ($($name:ident: $stand:ident, $weights:ident;)+) => {
        mod every_claim_is_the_turn_of_whoever_gets_it {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
                async fn $name() {
                    let stand = super::$stand().await;
                    assert_eq!(super::turns(&stand, super::$weights).await, None);
                }
            )+
        }

        mod nobody_waits_for_a_neighbour_that_floods {
            use super::{beyond, waits};

            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
                async fn $name() {
                    for flood in [false, true] {
                        let waits = waits(&super::$stand().await, super::$weights, flood).await;
                        let beyond = beyond(&waits, super::$weights, flood);
                        assert!(beyond <= 0, "flood {flood}: {beyond} turns too late: {waits:?}");
                    }
                }
            )+
        }
    };
}

on_both! {
    with_equal_weights_on_sqlite: on_sqlite, equal;
    with_equal_weights_on_postgres: on_postgres, equal;
    with_unequal_weights_on_sqlite: on_sqlite, unequal;
    with_unequal_weights_on_postgres: on_postgres, unequal;
}

/// Both measures see it where turns do not go by what is under way and by who was served.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn without_the_order_of_turns_both_measures_say_so() {
    let stand = on_postgres().await;
    take_the_order_out(&stand.world).await;
    assert!(turns(&stand, equal).await.is_some());
    let stand = on_postgres().await;
    take_the_order_out(&stand.world).await;
    let waits = waits(&stand, equal, true).await;
    assert!(beyond(&waits, equal, true) > 0, "{waits:?}");
}
