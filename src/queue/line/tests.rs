//! The line, alone.

use proptest::prelude::*;

use super::*;

fn ask(runs_max: u32, organizations: &[&str]) -> Ask {
    let organizations = organizations.iter().map(|id| OrganizationId::parse(id).unwrap());
    Ask {
        claim_id: Uuid::nil(),
        runner: RunnerId::parse("r").unwrap(),
        runs_max,
        organizations: organizations.collect(),
        lease: Duration::from_secs(30),
    }
}

fn line_of(asks: &[Ask]) -> Line<usize> {
    let mut line = Line::new(64);
    let until = Instant::now() + Duration::from_mins(1);
    for (nth, ask) in asks.iter().enumerate() {
        line.enter(Waiting::new(ask.clone(), until, nth)).unwrap();
    }
    line
}

#[test]
fn nobody_is_let_in_beyond_its_room() {
    let mut line = Line::new(2);
    let until = Instant::now();
    for nth in 0..2 {
        line.enter(Waiting::new(ask(1, &[]), until, nth)).unwrap();
    }
    assert_eq!(line.enter(Waiting::new(ask(1, &[]), until, 2)).unwrap_err().answer, 2);
    line.leave(|nth| *nth == 0);
    line.enter(Waiting::new(ask(1, &[]), until, 3)).unwrap();
    assert_eq!(line.close(), [1, 3]);
    assert!(line.is_empty());
}

#[test]
fn who_came_first_is_served_first_and_who_names_organizations_is_passed_over_for_want_of_work() {
    let mut line = line_of(&[ask(1, &["a"]), ask(2, &[]), ask(1, &["b"]), ask(1, &[])]);
    line.begin();
    assert_eq!(line.next(3).len(), 3);
    let served = line.serve(vec![vec![], vec!["x", "y"], vec!["z"]]);
    assert_eq!(served.answers, [(1, vec!["x", "y"]), (2, vec!["z"])]);
    assert!(served.more, "the last one was not looked for");
    assert_eq!(line.next(3).len(), 1);
    let served = line.serve(vec![vec!["v"]]);
    assert_eq!((served.answers, served.more), (vec![(3, vec!["v"])], false));
    // The one that was passed over is first at the next look.
    line.begin();
    assert_eq!(line.next(9), [ask(1, &["a"])]);
}

#[test]
fn where_any_organization_would_do_and_there_was_too_little_nobody_else_is_asked_for() {
    let mut line = line_of(&[ask(3, &[]), ask(1, &["a"]), ask(1, &[])]);
    line.begin();
    let served = line.serve(vec![vec!["x"]]);
    assert_eq!(served.answers, [(0, vec!["x"])]);
    assert!(!served.more);
    assert_eq!(line.over(Instant::now() + Duration::from_secs(61)), [1, 2], "they were looked for");
}

#[test]
fn a_claim_that_does_not_wait_is_looked_for_once_before_its_wait_is_over() {
    let mut line = Line::new(4);
    let now = Instant::now();
    line.enter(Waiting::new(ask(1, &[]), now, 0)).unwrap();
    assert_eq!(line.over(now), [] as [usize; 0]);
    assert_eq!(line.next_over(), Some(now));
    line.begin();
    assert!(line.serve::<()>(vec![vec![]]).answers.is_empty());
    assert_eq!(line.over(now), [0]);
    // Where the database does not answer, nobody is kept for longer than it wanted to wait.
    line.enter(Waiting::new(ask(1, &[]), now, 1)).unwrap();
    assert_eq!(line.failed(now), [1]);
}

/// A queue as a transaction sees it: one run after the other, each of an organization.
fn give(asks: &[Ask], queue: &mut Vec<String>) -> Vec<Vec<String>> {
    let fits = |ask: &Ask, of: &str| {
        ask.organizations.is_empty() || ask.organizations.iter().any(|id| id.as_str() == of)
    };
    let give_one = |ask: &Ask| {
        let mut runs = Vec::new();
        while runs.len() < ask.runs_max as usize
            && let Some(at) = queue.iter().position(|of| fits(ask, of))
        {
            runs.push(queue.remove(at));
        }
        runs
    };
    asks.iter().map(give_one).collect()
}

proptest! {
    /// However the look is cut into transactions, it gives what serving one after the other would.
    #[test]
    fn a_look_gives_what_serving_one_after_the_other_would(
        asks in prop::collection::vec(
            (1_u32..4, prop::collection::vec(prop::sample::select(vec!["a", "b", "c"]), 0..3)),
            0..20,
        ),
        queue in prop::collection::vec(prop::sample::select(vec!["a", "b", "c"]), 0..20),
        width in 1_usize..8,
    ) {
        let asks: Vec<Ask> = asks.iter().map(|(runs, of)| ask(*runs, of)).collect();
        let queue: Vec<String> = queue.into_iter().map(str::to_owned).collect();
        let mut left = queue.clone();
        let plain: Vec<(usize, Vec<String>)> = give(&asks, &mut left)
            .into_iter()
            .enumerate()
            .filter(|(_, runs)| !runs.is_empty())
            .collect();

        let mut line = line_of(&asks);
        let mut queue = queue;
        let mut answers = Vec::new();
        line.begin();
        loop {
            let next = line.next(width);
            let given = give(&next, &mut queue);
            let served = line.serve(given);
            answers.extend(served.answers);
            if !served.more {
                break;
            }
        }
        prop_assert_eq!(&answers, &plain);
        prop_assert_eq!(queue, left);
        prop_assert_eq!(line.len(), asks.len() - answers.len());
        let far = Instant::now() + Duration::from_hours(1);
        prop_assert_eq!(line.over(far).len(), asks.len() - answers.len(), "all were looked for");
    }
}
