//! `wakegate redrive`: refused and rejected wakes, published again.

mod render;

use std::time::Duration;

use clap::{Args, ValueEnum};
use futures_util::StreamExt as _;
use tokio::runtime::Builder;
use tokio::time::MissedTickBehavior;
use uuid::Uuid;

pub use self::render::{Line, State, Tally};
use super::operators::{colours, complain, operator, organization, why};
use super::publish::message::MessageIds;
use super::servers::{AnyStore, block_on, connect, control_store};
use super::table::Form;
use super::times::When;
use super::{Exit, Failure, print};
use crate::clock::Clock;
use crate::config::Config;
use crate::error_text::one_line;
use crate::redrive::{Candidate, Choice, Found, Original, Post, PostError, Verdict, choose};
use crate::store::Store;
use crate::store::control::{Change, Operator, Why};
use crate::store::history::HistoryStore;
use crate::store::redrive::RedriveStore;
use crate::topology::TopologyError;
use crate::wake::{OrganizationId, WakeId};

/// Messages that a preview asks for at once.
const ASKED_AT_ONCE: usize = 16;

const AFTER_HELP: &str = "\
Without --execute it is a preview: what would be published, counts by reason, and nothing is done.
With it, each wake is published again from the stream, as it was and where it was, as a new
occurrence: it gets a new id, is judged at its new instant, and its key, where it is taken by now,
makes it a duplicate. A rejected event is rejected again unless what was wrong has been mended on
this side.

Each is published once, however often the command is run, wherever it is ended, and however many
run it at once; --again publishes once more what was published before. What has left the stream is
named, and the exit code is then 1, as it is for a wake that cannot be published.

It needs a user that may publish wakes: `redrive` of ops/nats/users.conf. A preview does not.

Examples:
  wakegate redrive --outcome-reason platform_paused --since 2h
  wakegate redrive --outcome-reason platform_paused --since 2h --execute --reason 'paused in error'
  wakegate redrive --wake 019a3c5e-8f00-7c3a-b1d2-6f1f0a9b7c21 --execute --reason 'asked by ann'";

/// Arguments of `redrive`.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP)]
pub struct RedriveArgs {
    /// Which.
    #[command(flatten)]
    pub which: WhichArgs,
    /// Also wakes that were published again already
    #[arg(long)]
    pub again: bool,
    /// Most wakes, the oldest first
    #[arg(long, value_name = "WAKES", default_value_t = 1_000,
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub limit: u32,
    /// Publish them, instead of telling which
    #[arg(long, requires = "reason", requires = "actor")]
    pub execute: bool,
    /// Most wakes to publish in a second
    #[arg(long, value_name = "WAKES", default_value_t = 10,
          value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub rate: u32,
    /// Why they are published again; it is kept, and shown to whoever asks
    #[arg(long, value_name = "TEXT", value_parser = why)]
    pub reason: Option<Why>,
    /// Who has them published; the user of this shell, unless told otherwise
    #[arg(long, value_name = "NAME", env = "USER", hide_env_values = true, value_parser = operator)]
    pub actor: Option<Operator>,
    /// JSON also in a terminal
    #[arg(long)]
    pub json: bool,
}

/// Which wakes; all of what is given has to hold.
#[derive(Debug, Clone, Args)]
#[group(required = true, multiple = true)]
pub struct WhichArgs {
    /// This one; may be given more than once
    #[arg(long, value_name = "WAKE")]
    pub wake: Vec<Uuid>,
    /// What became of them; may be given more than once
    #[arg(long, value_enum)]
    pub outcome: Vec<VerdictArg>,
    /// The reason of that outcome, such as `platform_paused`; may be given more than once
    #[arg(long, value_name = "REASON")]
    pub outcome_reason: Vec<String>,
    /// Of this organization; '' is that of events which name none
    #[arg(long, value_name = "ID", value_parser = organization)]
    pub organization: Option<OrganizationId>,
    /// Requested so long ago or since: 90m, 36h, 2d, or an instant
    #[arg(long, value_name = "DURATION|INSTANT", value_parser = When::parse)]
    pub since: Option<When>,
    /// Requested before that
    #[arg(long, value_name = "DURATION|INSTANT", value_parser = When::parse)]
    pub until: Option<When>,
}

/// As an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum VerdictArg {
    /// A gate declined it
    Refused,
    /// The event was at fault
    Rejected,
}

impl From<VerdictArg> for Verdict {
    fn from(verdict: VerdictArg) -> Self {
        match verdict {
            VerdictArg::Refused => Self::Refused,
            VerdictArg::Rejected => Self::Rejected,
        }
    }
}

/// Tells what would be published again, or does it.
pub(super) fn execute(config: &Config, args: &RedriveArgs) -> Result<Exit, Failure> {
    block_on(&mut Builder::new_current_thread(), async {
        match control_store(config)? {
            AnyStore::Postgres(store) => Box::pin(on(&store, config, args)).await,
            AnyStore::Sqlite(store) => Box::pin(on(&store, config, args)).await,
        }
    })
}

/// One command's work.
struct Work<'a, S> {
    store: &'a S,
    config: &'a Config,
    args: &'a RedriveArgs,
    post: Post,
    form: Form,
    tally: Tally,
}

async fn on<S: Store + HistoryStore + RedriveStore>(
    store: &S,
    config: &Config,
    args: &RedriveArgs,
) -> Result<Exit, Failure> {
    let clock = Clock::system();
    store.ping().await.map_err(|error| of_database(config, &one_line(&error)))?;
    let broker = connect(config).await?;
    let context = broker.jetstream();
    let now = clock.now();
    let choice = Choice {
        wakes: args.which.wake.iter().copied().map(WakeId::from).collect(),
        verdicts: args.which.outcome.iter().copied().map(Verdict::from).collect(),
        reasons: args.which.outcome_reason.clone(),
        organization: args.which.organization.clone(),
        since: args.which.since.map(|since| since.before(now)),
        until: args.which.until.map(|until| until.before(now)),
        again: args.again,
        wakes_max: args.limit as usize,
    };
    let found = Box::pin(choose(store, &context, &choice)).await;
    let found = found.map_err(|error| of_database(config, &one_line(&error)))?;
    let mut work = Work {
        store,
        config,
        args,
        post: Post::new(context, clock),
        form: Form::of_output(args.json),
        tally: Tally::of(&found),
    };
    let done = if args.execute {
        Box::pin(work.publish(&found.candidates)).await
    } else {
        Box::pin(work.preview(&found.candidates)).await
    };
    work.sum_up(&found)?;
    done?;
    let all = found.unknown.is_empty() && work.tally.failed() == 0;
    Ok(if all { Exit::Done } else { Exit::Failed })
}

impl<S: RedriveStore> Work<'_, S> {
    async fn preview(&mut self, candidates: &[Candidate]) -> Result<(), Failure> {
        let (post, again) = (self.post.clone(), self.args.again);
        let looked_at = futures_util::stream::iter(candidates).map(|candidate| {
            let post = post.clone();
            async move { (candidate, would_be(&post, candidate, again).await) }
        });
        let mut looked_at = Box::pin(looked_at.buffered(ASKED_AT_ONCE));
        while let Some((candidate, state)) = looked_at.next().await {
            let state = state.map_err(|error| Failure::new(error.to_string()))?;
            self.tell(&Line::of(candidate, state))?;
        }
        Ok(())
    }

    async fn publish(&mut self, candidates: &[Candidate]) -> Result<(), Failure> {
        let (Some(actor), Some(reason)) = (&self.args.actor, &self.args.reason) else {
            // The parser asks for both.
            return Err(Failure::new("--execute wants --reason and --actor")
                .exits(Exit::Configuration)
                .remedy("nothing was published"));
        };
        let mut ids = MessageIds::new();
        let mut pace = tokio::time::interval(Duration::from_secs(1) / self.args.rate);
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for candidate in candidates {
            if !candidate.is_done(self.args.again) {
                pace.tick().await;
            }
            let by =
                Change { actor: actor.clone(), reason: reason.clone(), at: Clock::system().now() };
            let posted = self.post.redrive(self.store, candidate, self.args.again, &by, ids.make());
            let posted = Box::pin(posted).await.map_err(|error| self.stopped(candidate, &error))?;
            self.tell(&Line::posted(candidate, posted))?;
        }
        Ok(())
    }

    fn tell(&mut self, line: &Line) -> Result<(), Failure> {
        self.tally.add(line);
        print(&line.written(self.form))
    }

    /// Why the rest was not published.
    fn stopped(&self, candidate: &Candidate, error: &PostError) -> Failure {
        let wake = candidate.chosen.wake_id;
        let what = match error {
            PostError::Store(_) => return of_database(self.config, &one_line(error)),
            _ => format!("wake {wake}: {}", one_line(error)),
        };
        let remedy = match error {
            PostError::Publish { unanswered: true, .. } => {
                "the server did not answer, or this user may not publish wakes; run it again: what \
                 was begun is finished, and nothing is published twice"
            }
            _ => "run it again: what was begun is finished, and nothing is published twice",
        };
        Failure::new(what).remedy(remedy)
    }

    /// Counts, and what there is to say beside them.
    fn sum_up(&self, found: &Found) -> Result<(), Failure> {
        if let Form::Table { width } = self.form {
            print(&self.tally.table(width, colours()))?;
        }
        for wake in &found.unknown {
            complain(&format!("wake {wake} is not known to be refused or rejected as asked for"));
        }
        if found.more {
            complain(&format!(
                "there are more than {}; run it again for the rest, or with --limit",
                self.args.limit
            ));
        }
        if found.unread {
            complain(
                "the audit stream holds more than one reading takes; rejections may be missing",
            );
        }
        let done: u64 = found.done.values().sum();
        if self.form == Form::Json && done > 0 {
            complain(&format!("{done} were published again before, and are not listed"));
        }
        let would = self.tally.would();
        if !self.args.execute && would > 0 {
            complain(&format!(
                "this is a preview and nothing was published; --execute --reason TEXT publishes \
                 {would}, {} in a second at most",
                self.args.rate
            ));
        }
        Ok(())
    }
}

async fn would_be(post: &Post, candidate: &Candidate, again: bool) -> Result<State, TopologyError> {
    if candidate.is_done(again) {
        return Ok(State::Already);
    }
    Ok(match post.original(&candidate.chosen).await? {
        Original::Gone => State::Gone,
        Original::There(message) if message.published_on().is_none() => State::Unusable,
        Original::There(_) => match &candidate.last {
            Some(last) if last.published.is_none() => State::WouldFinish,
            _ => State::WouldPublish,
        },
    })
}

fn of_database(config: &Config, what: &str) -> Failure {
    let url = config.control.database_url.as_ref().unwrap_or(&config.database.url);
    Failure::new(url.url().scrub(what))
        .remedy("run it again: what was begun is finished, and nothing is published twice")
}
