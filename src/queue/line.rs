//! Who waits for work, in the order of their coming. Pure: time is an argument, and what became of a
//! look at the queue too.
//!
//! First come, first served: every look begins at the front. A claim that names organizations may be
//! passed over for want of work there, and is served before whoever came later once there is some.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;
use uuid::Uuid;

use crate::wake::{OrganizationId, RunnerId};

/// What a claim asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// This request and no other: repeated, it is given the same runs.
    pub claim_id: Uuid,
    /// Who.
    pub runner: RunnerId,
    /// At most so many runs; at least one.
    pub runs_max: u32,
    /// Of these organizations only; empty means of any.
    pub organizations: Vec<OrganizationId>,
    /// For how long the runs are the runner's.
    pub lease: Duration,
}

/// Somebody who waits.
#[derive(Debug)]
pub struct Waiting<A> {
    /// For what.
    pub ask: Ask,
    /// Until when.
    pub until: Instant,
    /// Where the answer goes.
    pub answer: A,
    /// Whether it was looked for work at least once.
    looked: bool,
}

impl<A> Waiting<A> {
    /// Has just come.
    #[must_use]
    pub fn new(ask: Ask, until: Instant, answer: A) -> Self {
        Self { ask, until, answer, looked: false }
    }
}

/// The line.
#[derive(Debug)]
pub struct Line<A> {
    waiting: VecDeque<Waiting<A>>,
    waiters_max: usize,
    /// How far the look that is going on has come.
    at: usize,
}

/// What one transaction gave.
#[derive(Debug)]
pub struct Served<A, R> {
    /// Who is answered with what.
    pub answers: Vec<(A, Vec<R>)>,
    /// Whether to look on: there are claims behind those, and there may be work for them.
    pub more: bool,
}

impl<A> Line<A> {
    /// With room for so many.
    #[must_use]
    pub fn new(waiters_max: usize) -> Self {
        Self { waiting: VecDeque::new(), waiters_max, at: 0 }
    }

    /// How many wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether nobody waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether there is no room.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.waiting.len() >= self.waiters_max
    }

    /// Lets somebody in at the end.
    ///
    /// # Errors
    /// It is full; whoever came is given back.
    pub fn enter(&mut self, waiting: Waiting<A>) -> Result<(), Waiting<A>> {
        if self.is_full() {
            return Err(waiting);
        }
        self.waiting.push_back(waiting);
        Ok(())
    }

    /// Whoever has gone away does not wait any more.
    pub fn leave(&mut self, gone: impl Fn(&A) -> bool) {
        self.waiting.retain(|waiting| !gone(&waiting.answer));
    }

    /// Begins a look at the queue.
    pub fn begin(&mut self) {
        self.at = 0;
    }

    /// What the next claims ask for, in order, for one transaction.
    #[must_use]
    pub fn next(&self, claims_max: usize) -> Vec<Ask> {
        self.waiting.iter().skip(self.at).take(claims_max).map(|one| one.ask.clone()).collect()
    }

    /// Takes in what that transaction gave: for each of the claims, in order, its runs.
    ///
    /// Where a claim of any organization's runs got fewer than it wanted, there is nothing left to
    /// be had, for nobody.
    pub fn serve<R>(&mut self, given: Vec<Vec<R>>) -> Served<A, R> {
        let asked = given.len();
        let mut answers = Vec::new();
        let mut exhausted = false;
        for runs in given {
            let Some(waiting) = self.waiting.get_mut(self.at) else { break };
            waiting.looked = true;
            let wanted = waiting.ask.runs_max as usize;
            exhausted |= waiting.ask.organizations.is_empty() && runs.len() < wanted;
            if runs.is_empty() {
                self.at += 1;
            } else if let Some(served) = self.waiting.remove(self.at) {
                answers.push((served.answer, runs));
            }
        }
        if exhausted {
            // A look was taken for them too: there was nothing.
            self.waiting.iter_mut().skip(self.at).for_each(|waiting| waiting.looked = true);
        }
        let more = asked > 0 && !exhausted && self.at < self.waiting.len();
        Served { answers, more }
    }

    /// Whether somebody's wait is over for whom no look was taken.
    #[must_use]
    pub fn owes_a_look(&self, now: Instant) -> bool {
        self.waiting.iter().any(|waiting| !waiting.looked && waiting.until <= now)
    }

    /// Those whose wait is over, and for whom a look was taken.
    pub fn over(&mut self, now: Instant) -> Vec<A> {
        self.remove(|waiting| waiting.looked && waiting.until <= now)
    }

    /// As [`Line::over`], where no look could be taken.
    pub fn failed(&mut self, now: Instant) -> Vec<A> {
        self.remove(|waiting| waiting.until <= now)
    }

    /// Everybody, in order: there will be no further look.
    pub fn close(&mut self) -> Vec<A> {
        self.remove(|_| true)
    }

    /// When the first of them will have waited long enough.
    #[must_use]
    pub fn next_over(&self) -> Option<Instant> {
        self.waiting.iter().map(|waiting| waiting.until).min()
    }

    fn remove(&mut self, ends: impl Fn(&Waiting<A>) -> bool) -> Vec<A> {
        let mut left = VecDeque::with_capacity(self.waiting.len());
        let mut removed = Vec::new();
        for waiting in self.waiting.drain(..) {
            if ends(&waiting) {
                removed.push(waiting.answer);
            } else {
                left.push_back(waiting);
            }
        }
        self.waiting = left;
        removed
    }
}

#[cfg(test)]
mod tests;
