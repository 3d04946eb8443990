//! Which replica a lane belongs to: a function of what the replicas say of themselves, and of nothing
//! else, so that all who have heard the same come to the same.

use std::collections::BTreeSet;

/// What one replica says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Standing {
    /// Lanes that are pinned to it.
    pub(super) owns: BTreeSet<u32>,
    /// Lanes that it takes for its own, and pulls.
    pub(super) wants: BTreeSet<u32>,
    /// Lanes that it cannot work.
    pub(super) declines: BTreeSet<u32>,
}

/// The replica of each lane, as an index into `replicas`, which are in an order that all agree on and
/// of which there is at least one.
///
/// Shares differ by one lane at most, among those who decline nothing. A lane stays with whoever has
/// it, unless that one has more than its share or declines it; of lanes that nobody has, each stays
/// with who wants it. What all decline is shared as if nobody did.
pub(super) fn plan(lanes: u32, replicas: &[&Standing]) -> Vec<usize> {
    let everyone = 0..replicas.len();
    let may_work: Vec<Vec<usize>> = (0..lanes)
        .map(|lane| {
            let willing = |replica: &usize| !replicas[*replica].declines.contains(&lane);
            let willing: Vec<usize> = everyone.clone().filter(willing).collect();
            if willing.is_empty() { everyone.clone().collect() } else { willing }
        })
        .collect();
    let claimants: Vec<Option<usize>> = (0..).zip(&may_work).map(claimant(replicas)).collect();
    let quotas = quotas(lanes as usize, &may_work, &claimants, replicas.len());

    let mut shares = vec![0; replicas.len()];
    let mut plan: Vec<Option<usize>> = claimants
        .into_iter()
        .map(|claimant| {
            let kept = claimant.filter(|replica| shares[*replica] < quotas[*replica])?;
            shares[kept] += 1;
            Some(kept)
        })
        .collect();
    for (place, may_work) in plan.iter_mut().zip(&may_work) {
        if place.is_none() {
            let has_room = |replica: &&usize| shares[**replica] < quotas[**replica];
            let least = || may_work.iter().min_by_key(|replica| shares[**replica]);
            let taken = may_work.iter().find(has_room).or_else(least).copied().unwrap_or(0);
            shares[taken] += 1;
            *place = Some(taken);
        }
    }
    plan.into_iter().flatten().collect()
}

/// Who has a lane: its owner, or else the first who wants it, among those who may work it.
fn claimant<'a>(replicas: &'a [&Standing]) -> impl Fn((u32, &'a Vec<usize>)) -> Option<usize> + 'a {
    |(lane, may_work)| {
        let owner = may_work.iter().find(|replica| replicas[**replica].owns.contains(&lane));
        let wanter = || may_work.iter().find(|replica| replicas[**replica].wants.contains(&lane));
        owner.or_else(wanter).copied()
    }
}

/// How many lanes each may keep: as many as any other or one more, and the one more where it moves
/// least. Who can work no lane at all has no share.
fn quotas(
    lanes: usize,
    may_work: &[Vec<usize>],
    claimants: &[Option<usize>],
    replicas: usize,
) -> Vec<usize> {
    let claims = |replica: &usize| claimants.iter().flatten().filter(|c| *c == replica).count();
    let able: BTreeSet<usize> = may_work.iter().flatten().copied().collect();
    let mut able: Vec<usize> = able.into_iter().collect();
    able.sort_by_key(|replica| std::cmp::Reverse(claims(replica)));
    let mut quotas = vec![0; replicas];
    let count = able.len().max(1);
    for (rank, replica) in able.into_iter().enumerate() {
        quotas[replica] = lanes / count + usize::from(rank < lanes % count);
    }
    quotas
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn some(lanes: &[u32]) -> BTreeSet<u32> {
        lanes.iter().copied().collect()
    }

    fn owner(lanes: &[u32]) -> Standing {
        Standing { owns: some(lanes), ..Standing::default() }
    }

    fn planned(lanes: u32, replicas: &[Standing]) -> Vec<usize> {
        plan(lanes, &replicas.iter().collect::<Vec<_>>())
    }

    #[test]
    fn lanes_stay_where_they_are_unless_that_is_too_many() {
        let everyone = some(&[0, 1, 2, 3, 4, 5, 6, 7]);
        let unable = Standing { declines: everyone, ..owner(&[0, 1, 2]) };
        let wants = Standing { wants: some(&[2, 5]), ..Standing::default() };
        for (what, replicas, expected) in [
            ("alone", vec![Standing::default()], vec![0; 8]),
            ("nobody has any", vec![Standing::default(); 3], vec![0, 0, 0, 1, 1, 1, 2, 2]),
            (
                "a late joiner gets its share",
                vec![owner(&[0, 1, 2, 3, 4, 5, 6, 7]), Standing::default()],
                vec![0, 0, 0, 0, 1, 1, 1, 1],
            ),
            (
                "the one more stays where it is",
                vec![owner(&[0, 1]), owner(&[2, 3, 4]), owner(&[5, 6, 7])],
                vec![0, 0, 1, 1, 1, 2, 2, 2],
            ),
            (
                "what a leaver had is shared",
                vec![owner(&[3, 4, 5]), owner(&[6, 7])],
                vec![0, 1, 1, 0, 0, 0, 1, 1],
            ),
            ("what one wants stays", vec![owner(&[0]), wants], vec![0, 0, 1, 0, 0, 1, 1, 1]),
            (
                "who declines has none",
                vec![unable.clone(), owner(&[3, 4, 5]), owner(&[6, 7])],
                vec![1, 2, 2, 1, 1, 1, 2, 2],
            ),
            ("where all decline nothing moves", vec![unable; 1], vec![0; 8]),
        ] {
            assert_eq!(planned(8, &replicas), expected, "{what}");
        }
        assert_eq!(planned(1, &[owner(&[0]), Standing::default()]), [0], "it is worked already");
        assert_eq!(planned(1, &[Standing::default(), owner(&[0])]), [1], "it is worked already");
    }

    fn lanes_of(replicas: &[Standing], plan: &[usize]) -> Vec<usize> {
        let of = |replica| plan.iter().filter(|place| **place == replica).count();
        (0..replicas.len()).map(of).collect()
    }

    /// Replicas of which each lane has one owner at most.
    fn standings() -> impl Strategy<Value = (u32, Vec<Standing>)> {
        (1_u32..20, 1_usize..7).prop_flat_map(|(lanes, replicas)| {
            let owners = prop::collection::vec(prop::option::of(0..replicas), lanes as usize);
            owners.prop_map(move |owners| {
                let mut standings = vec![Standing::default(); replicas];
                for (lane, owner) in (0..).zip(owners) {
                    if let Some(owner) = owner {
                        standings[owner].owns.insert(lane);
                    }
                }
                (lanes, standings)
            })
        })
    }

    proptest! {
        #[test]
        fn shares_differ_by_one_at_most_and_no_more_moves_than_must(
            (lanes, replicas) in standings(),
        ) {
            let plan = planned(lanes, &replicas);
            prop_assert_eq!(plan.len(), lanes as usize);
            let shares = lanes_of(&replicas, &plan);
            prop_assert!(shares.iter().max().unwrap() - shares.iter().min().unwrap() <= 1);

            let moved = replicas.iter().enumerate().map(|(replica, standing)| {
                standing.owns.iter().filter(|lane| plan[**lane as usize] != replica).count()
            });
            let moved: usize = moved.sum();
            // The least that any balanced distribution moves: the larger shares go to those who
            // have most.
            let mut had: Vec<usize> = replicas.iter().map(|standing| standing.owns.len()).collect();
            had.sort_by_key(|had| std::cmp::Reverse(*had));
            let (share, more) = (lanes as usize / had.len(), lanes as usize % had.len());
            let least = had.iter().enumerate().map(|(rank, had)| {
                had.saturating_sub(share + usize::from(rank < more))
            });
            prop_assert_eq!(moved, least.sum::<usize>());
        }

        #[test]
        fn what_is_planned_is_planned_again_once_it_is_so(
            (lanes, replicas) in standings(),
            wanted in any::<bool>(),
        ) {
            let plan = planned(lanes, &replicas);
            let mut then = vec![Standing::default(); replicas.len()];
            for (lane, place) in (0..).zip(&plan) {
                let standing = &mut then[*place];
                if wanted { &mut standing.wants } else { &mut standing.owns }.insert(lane);
            }
            prop_assert_eq!(planned(lanes, &then), plan);
        }

        #[test]
        fn who_declines_a_lane_has_it_only_where_all_do(
            (lanes, mut replicas) in standings(),
            declines in prop::collection::vec((0_usize..7, 0_u32..20), 0..60),
        ) {
            for (replica, lane) in declines {
                if let Some(replica) = replicas.get_mut(replica) {
                    replica.declines.insert(lane);
                }
            }
            for (lane, place) in (0..).zip(planned(lanes, &replicas)) {
                let declined = replicas[place].declines.contains(&lane);
                prop_assert!(!declined || replicas.iter().all(|r| r.declines.contains(&lane)));
            }
        }
    }
}
