//! Who is next.

use wakegate::store::Store;
use wakegate::store::queue::{QueueStore, RunEnd};

use super::given::{World, asking, at, finishing, held, id, organization, queued};
use super::on_both;

on_both!(
    an_organization_is_served_first_come_first_served,
    classes_come_in_order_and_age_and_nothing_overtakes_people,
    a_project_runs_one_at_a_time_and_does_not_hold_up_the_others,
    slots_go_to_who_has_least_under_way,
    slots_are_shared_by_weight_also_where_they_are_few,
    an_organization_that_comes_back_has_saved_nothing_up,
    ceilings_hold_and_nought_is_none,
    what_is_paused_is_not_claimed,
    a_claim_may_be_limited_to_organizations,
    what_has_waited_too_long_is_never_started,
    a_claim_carries_what_the_runner_needs,
);

async fn an_organization_is_served_first_come_first_served<S: QueueStore + Store>(world: World<S>) {
    world
        .insert(&[
            queued(3).at(5).in_project("p"),
            queued(2).at(5),
            queued(5).at(1).in_project("q"),
            queued(4).at(9),
            queued(1).at(7).in_project("r"),
        ])
        .await;
    assert_eq!(world.claimed(&asking(1, 2, 10)).await, [5, 2], "ties by id");
    assert_eq!(world.claimed(&asking(2, 9, 10)).await, [3, 1, 4]);
    assert_eq!(world.claimed(&asking(3, 9, 10)).await, [0_u128; 0]);
    world.assert_counts("after all are claimed").await;
}

async fn classes_come_in_order_and_age_and_nothing_overtakes_people<S: QueueStore + Store>(
    world: World<S>,
) {
    let recovery = |id| super::given::Queued { producer: "recovery_sweep", ..queued(id) };
    let periodic = |id| super::given::Queued { reason: "heartbeat", ..queued(id) };
    world
        .insert(&[
            queued(1).at(1_000),
            periodic(2).at(1_000),
            recovery(3).at(1_000),
            queued(4).at(1_000).by_a_person(),
            // Two minutes are what an event gives recovery, ten what something periodic gives it.
            queued(5).at(1_000 - 121),
            queued(6).at(1_000 - 119),
            periodic(7).at(1_000 - 601),
            periodic(8).at(1_000 - 599),
            // And people come first, if they came last.
            queued(9).at(9_000).by_a_person(),
            recovery(10).at(-100_000),
        ])
        .await;
    let order = world.claimed(&asking(1, 20, 9_000)).await;
    assert_eq!(order, [4, 9, 10, 5, 7, 3, 6, 8, 1, 2]);
}

async fn a_project_runs_one_at_a_time_and_does_not_hold_up_the_others<S: QueueStore + Store>(
    world: World<S>,
) {
    world
        .insert(&[
            queued(1).at(1).in_project("p"),
            queued(2).at(2).in_project("p"),
            queued(3).at(3).in_project("p"),
            queued(4).at(4).in_project("q"),
            queued(5).at(5),
            queued(6).at(6),
            queued(7).at(7).of("other").in_project("p"),
        ])
        .await;
    let first = world.claim(&asking(1, 9, 10)).await;
    let mut taken = super::given::numbers(&first);
    taken.sort_unstable();
    assert_eq!(taken, [1, 4, 5, 6, 7], "one of each project, all of those without");
    let ends = [RunEnd::Failed, RunEnd::Cancelled];
    for (expected, end) in [2, 3].into_iter().zip(ends) {
        assert_eq!(world.claimed(&asking(expected * 100, 9, 10)).await, [0_u128; 0]);
        let last = world.claim(&asking(expected - 1, 9, 10)).await;
        let last = if expected == 2 { first[0].clone() } else { last[0].clone() };
        world.store.finish(&finishing(held(&last), end, 11)).await.unwrap();
        assert_eq!(world.claimed(&asking(expected, 9, 12)).await, [expected]);
        world.assert_counts("a project's next run").await;
    }
}

async fn slots_go_to_who_has_least_under_way<S: QueueStore + Store>(world: World<S>) {
    for nth in 0..6 {
        world
            .insert(&[
                queued(100 + nth).of("a").at(0),
                queued(200 + nth).of("b").at(1_000),
                queued(300 + nth).of("").at(2_000),
            ])
            .await;
    }
    let first = world.claim(&asking(1, 4, 3_000)).await;
    let of = |runs: &[wakegate::store::queue::ClaimedRun]| -> Vec<String> {
        runs.iter().map(|run| run.organization_id.to_string()).collect()
    };
    assert_eq!(of(&first), ["", "a", "b", ""], "each in turn, whoever came first");
    // Two of the first end: it has least now, and is served until it is level.
    for run in first.iter().filter(|run| run.organization_id == organization("")) {
        world.store.finish(&finishing(held(run), RunEnd::Failed, 3_001)).await.unwrap();
    }
    let next = world.claim(&asking(2, 3, 3_002)).await;
    assert_eq!(of(&next), ["", "a", "b"]);
}

async fn slots_are_shared_by_weight_also_where_they_are_few<S: QueueStore + Store>(
    world: World<S>,
) {
    for nth in 0..40 {
        world.insert(&[queued(100 + nth).of("light"), queued(200 + nth).of("heavy")]).await;
    }
    world
        .outside
        .execute("INSERT INTO organization_limits (organization_id, weight) VALUES ('heavy', 3)")
        .await;
    let many = world.claim(&asking(1, 16, 1)).await;
    let heavy = many.iter().filter(|run| run.organization_id == organization("heavy")).count();
    assert_eq!(heavy, 12, "three slots of four");
    for run in &many {
        world.store.finish(&finishing(held(run), RunEnd::Failed, 1)).await.unwrap();
    }
    // One slot: nothing is under way whenever it is given.
    let mut heavy = 0;
    for nth in 0..20 {
        let one = world.claim(&asking(10 + nth, 1, 2)).await;
        heavy += usize::from(one[0].organization_id == organization("heavy"));
        world.store.finish(&finishing(held(&one[0]), RunEnd::Failed, 2)).await.unwrap();
    }
    assert_eq!(heavy, 15, "three turns of four");
    world.assert_counts("with weights").await;
}

async fn an_organization_that_comes_back_has_saved_nothing_up<S: QueueStore + Store>(
    world: World<S>,
) {
    for nth in 0..40 {
        world.insert(&[queued(100 + nth).of("busy")]).await;
    }
    world.insert(&[queued(1).of("idle")]).await;
    for nth in 0..20 {
        let one = world.claim(&asking(10 + nth, 1, 1)).await;
        world.store.finish(&finishing(held(&one[0]), RunEnd::Failed, 1)).await.unwrap();
    }
    for nth in 0..10 {
        world.insert(&[queued(200 + nth).of("idle")]).await;
    }
    let mut of = Vec::new();
    for nth in 0..6 {
        let one = world.claim(&asking(50 + nth, 1, 1)).await;
        of.push(one[0].organization_id.to_string());
        world.store.finish(&finishing(held(&one[0]), RunEnd::Failed, 1)).await.unwrap();
    }
    assert_eq!(of.iter().filter(|of| *of == "idle").count(), 3, "{of:?}");
}

async fn ceilings_hold_and_nought_is_none<S: QueueStore + Store>(world: World<S>) {
    for nth in 0..9 {
        world
            .insert(&[
                queued(100 + nth).of("a"),
                queued(200 + nth).of("b"),
                queued(300 + nth).of("c"),
            ])
            .await;
    }
    world
        .outside
        .execute(
            "INSERT INTO organization_limits (organization_id, active_runs_max)
             VALUES ('a', 1), ('b', 0), ('c', 100)",
        )
        .await;
    let mut request = asking(1, 50, 1);
    request.platform_active_max = 0;
    assert_eq!(world.claimed(&request).await, [0_u128; 0]);
    request.platform_active_max = 50;
    request.organization_active_max = 0;
    assert_eq!(world.claimed(&request).await, [0_u128; 0]);
    request.organization_active_max = 4;
    assert_eq!(world.claimed(&request).await, [100, 300, 301, 302, 303]);
    world.outside.execute("DELETE FROM organization_limits WHERE organization_id = 'b'").await;
    world
        .outside
        .execute("UPDATE organization_limits SET active_runs_max = 2 WHERE organization_id = 'a'")
        .await;
    let mut request = asking(2, 50, 1);
    request.organization_active_max = 4;
    request.platform_active_max = 7;
    assert_eq!(world.claimed(&request).await, [200, 101], "two more are seven");
    world.assert_counts("at the ceilings").await;
}

async fn what_is_paused_is_not_claimed<S: QueueStore + Store>(world: World<S>) {
    world.insert(&[queued(1).of("a"), queued(2).of("b"), queued(3).of("")]).await;
    world.outside.pause("p1", Some("a")).await;
    world.outside.pause("p2", Some("")).await;
    world.assert_counts("paused").await;
    world.outside.pause("p3", None).await;
    assert_eq!(world.claimed(&asking(1, 9, 1)).await, [0_u128; 0], "the platform is paused");
    world.outside.execute("DELETE FROM pauses WHERE id = 'p3'").await;
    assert_eq!(world.claimed(&asking(2, 9, 1)).await, [2]);
    world.outside.resume_all().await;
    world.assert_counts("resumed").await;
    assert_eq!(world.claimed(&asking(3, 9, 1)).await, [3, 1]);
}

async fn a_claim_may_be_limited_to_organizations<S: QueueStore + Store>(world: World<S>) {
    world
        .insert(&[queued(1).of("a"), queued(2).of("b"), queued(3).of(""), queued(4).of("b")])
        .await;
    let mut request = asking(1, 9, 1);
    request.organizations = ["b", "none", ""].map(organization).to_vec();
    assert_eq!(world.claimed(&request).await, [3, 2, 4]);
    request.claim_id = uuid::Uuid::from_u128(2);
    request.organizations = vec![organization("none")];
    assert_eq!(world.claimed(&request).await, [0_u128; 0]);
}

async fn what_has_waited_too_long_is_never_started<S: QueueStore + Store>(world: World<S>) {
    let mut runs: Vec<_> = (0..130).map(|nth| queued(100 + nth).expiring(10)).collect();
    runs.push(queued(1).at(5).expiring(12));
    runs.push(queued(2).at(6));
    world.insert(&runs).await;
    // A claim that would have to end more than it may gives what it has, and no run that is over.
    assert_eq!(world.claimed(&asking(1, 2, 10)).await, [0_u128; 0]);
    assert_eq!(world.claimed(&asking(2, 2, 11)).await, [1, 2]);
    assert_eq!(world.status(100).await, "expired");
    world.assert_counts("after the claims").await;
    let sql = "SELECT count(*) FROM run_events WHERE event = 'expired'";
    assert_eq!(world.outside.number(sql).await, 130, "each once");
    let sql = "SELECT count(*) FROM runs WHERE status = 'expired' AND \
               ended_reason = 'waited_too_long' AND finished_at IS NOT NULL";
    assert_eq!(world.outside.number(sql).await, 130);
}

async fn a_claim_carries_what_the_runner_needs<S: QueueStore + Store>(world: World<S>) {
    world.insert(&[queued(7).of("a").in_project("p").at(3)]).await;
    world
        .outside
        .execute(
            "UPDATE runs SET payload = '{\"a\": \"\\u0000\"}', task_id = 't', traceparent = 'tp', \
             idempotency_key = 'k', coalesced_count = 3",
        )
        .await;
    let claimed = world.claim(&asking(1, 1, 10)).await.remove(0);
    let expected = wakegate::store::queue::ClaimedRun {
        run_id: id(7),
        fencing_token: 1,
        lease_expires_at: at(70),
        claimed_at: at(10),
        organization_id: organization("a"),
        project_id: Some("p".to_owned()),
        agent_profile_id: "builder".to_owned(),
        reason: "task_assigned".to_owned(),
        payload: "{\"a\": \"\\u0000\"}".to_owned(),
        task_id: Some("t".to_owned()),
        actor_type: Some("agent".to_owned()),
        actor_id: Some("ann".to_owned()),
        idempotency_key: Some("k".to_owned()),
        coalesced_count: 3,
        producer: "task_mutation".to_owned(),
        traceparent: Some("tp".to_owned()),
        requested_at: at(3),
    };
    assert_eq!(claimed, expected);
}
