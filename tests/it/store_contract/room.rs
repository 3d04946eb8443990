//! Room: what is read of it, and what a record claims.

use wakegate::admission::facts::Room;
use wakegate::admission::intake::{Admitted, SLOT, Slot};
use wakegate::admission::limits::{Ceilings, Dimension, Limits};
use wakegate::store::memory::RunStatus;
use wakegate::store::{RecordError, RoomClaim, RoomQuery, Store as _};
use wakegate::wake::{ProjectId, Wake};

use super::given::{Lane, T0, at, id, organization, run, wake};
use super::on_every_store;
use super::subject::{Row, Subject};

on_every_store!(
    room_is_read_as_it_is,
    projects_that_may_be_full_are_read_also_where_others_are_left_out,
    a_record_over_a_ceiling_leaves_nothing_and_says_what_is_taken,
    what_is_claimed_is_counted_once_and_with_the_batch,
    an_expiry_is_none_of_the_reads_business,
);

/// Wakes of this batch, claimed under these ceilings.
fn claim(wakes: &[Wake], ceilings: Ceilings) -> RoomClaim {
    let limits = Limits { ceilings, organizations: None };
    let mut claim = RoomClaim::new(&limits, true);
    for wake in wakes {
        claim.admit(wake, &limits);
    }
    claim
}

async fn admit<S: Subject>(
    subject: &S,
    lane: &mut Lane,
    wakes: Vec<Wake>,
    ceilings: Ceilings,
) -> Result<(), RecordError> {
    let mut batch = lane.batch();
    batch.room = Some(claim(&wakes, ceilings));
    batch.runs = wakes.into_iter().map(run).collect();
    subject.store().record(&batch).await?;
    lane.at = batch.to;
    Ok(())
}

async fn room_of<S: Subject>(subject: &S, wakes: &[Wake]) -> Room {
    let mut room = subject.store().read_room(&RoomQuery::of(wakes)).await.unwrap();
    // How fast it drains is told by a clock that some stores do not have.
    room.drains.clear();
    room
}

async fn room_is_read_as_it_is<S: Subject>(subject: S) {
    let mut lane = Lane::take(subject.store(), 0).await;
    let other = Wake { organization_id: organization("other"), ..wake(9) };
    assert_eq!(room_of(&subject, &[wake(1), other.clone()]).await, Room::default());
    let elsewhere = Wake { project_id: Some(ProjectId::parse("q").unwrap()), ..wake(3) };
    let nowhere = Wake { project_id: None, ..at(4, T0 + SLOT) };
    let wakes = vec![wake(1), wake(2), elsewhere, nowhere, other.clone()];
    admit(&subject, &mut lane, wakes, Ceilings::all(100)).await.unwrap();
    subject.put_run(&Row::new(50, T0)).await;
    subject.set_status(id(2), RunStatus::Claimed).await;

    let room = room_of(&subject, &[wake(1)]).await;
    let acme = organization("acme");
    assert_eq!(room.queued_platform, 5, "of all organizations, from outside too");
    assert_eq!(room.queued_organizations.get(&acme), Some(&4));
    assert_eq!(room.queued_organizations.len(), 1, "only what was asked about");
    let project = (acme.clone(), ProjectId::parse("p").unwrap());
    assert_eq!(room.queued_projects.get(&project), Some(&1));
    let mut admitted = Admitted::default();
    admitted.add(Slot::of(T0), 3);
    admitted.add(Slot::of(T0 + SLOT), 1);
    let producer = (acme, wake(1).producer.class());
    assert_eq!(room.intake.get(&producer), Some(&admitted), "whatever became of the runs");
    assert_eq!(room.intake.len(), 1);
    // What shares no minute with a wake is not read for it.
    let later = at(99, T0 + SLOT * 7);
    assert_eq!(room_of(&subject, &[later]).await.intake.len(), 0);
    let theirs = room_of(&subject, &[other]).await;
    assert_eq!(theirs.queued_organizations.get(&organization("other")), Some(&1));
}

async fn projects_that_may_be_full_are_read_also_where_others_are_left_out<S: Subject>(subject: S) {
    let mut lane = Lane::take(subject.store(), 0).await;
    let elsewhere = Wake { project_id: Some(ProjectId::parse("q").unwrap()), ..wake(3) };
    let wakes = vec![wake(1), wake(2), elsewhere];
    admit(&subject, &mut lane, wakes, Ceilings::all(100)).await.unwrap();
    let asked = RoomQuery::of(&[wake(4)]);
    let read = async |max: u32, wakes: usize| {
        let asked = asked.clone().sparing(&Ceilings::all(max), wakes);
        subject.store().read_room(&asked).await.unwrap().queued_projects
    };
    let project = (organization("acme"), ProjectId::parse("p").unwrap());
    // Three are queued of the organization, two of them of the project.
    for (max, wakes) in [(2, 1), (3, 1), (4, 2), (10, 8)] {
        assert_eq!(read(max, wakes).await.get(&project), Some(&2), "{max}, {wakes}");
    }
    // Left out or not, nothing else is said of it.
    for (max, wakes) in [(4, 1), (10, 7), (100, 1)] {
        let depth = read(max, wakes).await.get(&project).copied();
        assert!(depth.is_none_or(|depth| depth == 2), "{max}, {wakes}: {depth:?}");
    }
}

async fn a_record_over_a_ceiling_leaves_nothing_and_says_what_is_taken<S: Subject>(subject: S) {
    let mut lane = Lane::take(subject.store(), 0).await;
    admit(&subject, &mut lane, vec![wake(1), wake(2)], Ceilings::all(2)).await.unwrap();
    let before = (subject.counts().await, room_of(&subject, &[wake(3)]).await);
    let high = Ceilings::all(100);
    for dimension in [
        Dimension::QueuedPlatform,
        Dimension::QueuedOrganization,
        Dimension::QueuedProject,
        Dimension::Intake,
    ] {
        let refused = admit(&subject, &mut lane, vec![wake(3)], high.with(dimension, 2)).await;
        match refused {
            Err(RecordError::RoomTaken { boundary }) => assert_eq!(boundary, dimension),
            other => panic!("{dimension:?}: {other:?}"),
        }
        let after = (subject.counts().await, room_of(&subject, &[wake(3)]).await);
        assert_eq!(after, before, "{dimension:?}");
        assert_eq!(subject.store().lane_cursor(&lane.key).await.unwrap(), lane.at);
    }
    // Over the same connection there is room for what fits.
    admit(&subject, &mut lane, vec![wake(3)], high.with(Dimension::QueuedPlatform, 3))
        .await
        .unwrap();
}

async fn what_is_claimed_is_counted_once_and_with_the_batch<S: Subject>(subject: S) {
    let mut lane = Lane::take(subject.store(), 0).await;
    let three = vec![wake(1), wake(2), wake(3)];
    let refused = admit(&subject, &mut lane, three.clone(), Ceilings::all(2)).await;
    assert!(matches!(refused, Err(RecordError::RoomTaken { .. })), "{refused:?}");
    admit(&subject, &mut lane, three, Ceilings::all(3)).await.unwrap();
    let many: Vec<Wake> = (10..700).map(wake).collect();
    admit(&subject, &mut lane, many, Ceilings::all(693)).await.unwrap();
    let room = room_of(&subject, &[wake(1)]).await;
    assert_eq!(room.queued_platform, 693);
    assert_eq!(
        room.intake.values().next().unwrap().slots().collect::<Vec<_>>(),
        [(Slot::of(T0), 693)]
    );
}

async fn an_expiry_is_none_of_the_reads_business<S: Subject>(subject: S) {
    let mut lane = Lane::take(subject.store(), 0).await;
    let mut batch = lane.batch();
    batch.runs = vec![run(wake(1))];
    batch.runs[0].expires_at = Some(T0);
    lane.record(subject.store(), batch).await;
    assert_eq!(room_of(&subject, &[wake(1)]).await.queued_platform, 1, "until somebody ends it");
}
