//! `wakegate limits` and `wakegate limits set`.

use std::fmt::Write as _;

use clap::{Args, Subcommand};

use super::operators::{Signature, colours, on_store, organization, print_as};
use super::servers::AnyStore;
use super::table::{Form, Side, Table, seconds, shown};
use super::{Exit, Failure};
use crate::clock::Clock;
use crate::config::Config;
use crate::control::documents::{LimitSource, LimitsGetRequest, LimitsReply, LimitsSetRequest};
use crate::control::limits;
use crate::wake::{OrganizationId, ProjectId};

const AFTER_HELP: &str = "\
What is in force is the lesser of the platform's ceiling, which is configuration, and what the
organization has set; what it has not set is the platform's, and 0 is none.

Examples:
  wakegate limits
  wakegate limits --organization acme --project site
  wakegate limits set --organization acme --queued-runs-max 500 --reason 'agreed'";

const AFTER_SET_HELP: &str = "\
What is not named stays as it is; `platform` takes the organization's own limit away. What is over
the platform's ceiling is as good as none of its own. It holds from the next batch and the next
claim on; nothing that is queued already is dropped for it.

Examples:
  wakegate limits set --organization acme --queued-runs-max 500 --weight 2 --reason 'agreed'
  wakegate limits set --organization acme --queued-runs-max platform --reason 'as before'
  wakegate limits set --organization acme --active-runs-max 0 --reason 'not paid'";

/// Arguments of `limits`.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP, args_conflicts_with_subcommands = true)]
pub struct LimitsArgs {
    /// Set instead of show.
    #[command(subcommand)]
    pub command: Option<LimitsCommand>,
    /// Of one organization; '' is that of events which name none
    #[arg(long, value_name = "ID", value_parser = organization)]
    pub organization: Option<OrganizationId>,
    /// With the use of one of its projects
    #[arg(long, value_name = "ID", value_parser = project, requires = "organization")]
    pub project: Option<ProjectId>,
    /// Print JSON also in a terminal
    #[arg(long)]
    pub json: bool,
}

/// Subcommands of `limits`.
#[derive(Debug, Clone, Subcommand)]
pub enum LimitsCommand {
    /// Set what an organization lowers
    #[command(after_help = AFTER_SET_HELP)]
    Set(Box<SetArgs>),
}

/// Arguments of `limits set`.
#[derive(Debug, Clone, Args)]
pub struct SetArgs {
    /// Whose; '' is that of events which name none
    #[arg(long, value_name = "ID", value_parser = organization)]
    pub organization: OrganizationId,
    /// Most runs of it that wait
    #[arg(long, value_name = "N", value_parser = limit)]
    pub queued_runs_max: Option<Limit>,
    /// Most runs of one of its projects that wait
    #[arg(long, value_name = "N", value_parser = limit)]
    pub queued_runs_project_max: Option<Limit>,
    /// How long a run of it may wait, in seconds
    #[arg(long, value_name = "N", value_parser = limit)]
    pub waiting_seconds_max: Option<Limit>,
    /// Most runs of it that are claimed or running
    #[arg(long, value_name = "N", value_parser = limit)]
    pub active_runs_max: Option<Limit>,
    /// Most runs that the events of one producer may make in it in a minute
    #[arg(long, value_name = "N", value_parser = limit)]
    pub intake_events_per_minute_max: Option<Limit>,
    /// Most bytes of one event's body
    #[arg(long, value_name = "N", value_parser = limit)]
    pub event_bytes_max: Option<Limit>,
    /// Its part of the slots beside other organizations' parts
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub weight: Option<u32>,
    /// Who and why.
    #[command(flatten)]
    pub signature: Signature,
    /// Print JSON also in a terminal
    #[arg(long)]
    pub json: bool,
}

/// A limit of an organization's own, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit(Option<u32>);

fn limit(text: &str) -> Result<Limit, String> {
    if text == "platform" {
        return Ok(Limit(None));
    }
    let number = text.parse().map_err(|_| "wants a whole number, or platform".to_owned())?;
    Ok(Limit(Some(number)))
}

fn project(text: &str) -> Result<ProjectId, String> {
    ProjectId::parse(text).map_err(|fault| fault.to_string())
}

/// Shows or sets.
pub(super) fn execute(config: &Config, args: LimitsArgs) -> Result<Exit, Failure> {
    let now = Clock::system().now();
    let platform = &config.limits;
    let (reply, json) = match args.command {
        None => {
            let request =
                LimitsGetRequest { organization_id: args.organization, project_id: args.project };
            let reply = on_store(config, async |store| match store {
                AnyStore::Postgres(store) => limits::get(&store, platform, request, now).await,
                AnyStore::Sqlite(store) => limits::get(&store, platform, request, now).await,
            })?;
            (reply, args.json)
        }
        Some(LimitsCommand::Set(args)) => {
            let json = args.json;
            let request = asked(*args);
            let reply = on_store(config, async |store| match store {
                AnyStore::Postgres(store) => limits::set(&store, platform, request, now).await,
                AnyStore::Sqlite(store) => limits::set(&store, platform, request, now).await,
            })?;
            (reply, json)
        }
    };
    print_as(Form::of_output(json), &reply, |reply, width| table(reply, width, colours()))
}

fn asked(args: SetArgs) -> LimitsSetRequest {
    let named = |limit: Option<Limit>| limit.map(|Limit(limit)| limit);
    LimitsSetRequest {
        organization_id: args.organization,
        queued_runs_max: named(args.queued_runs_max),
        queued_runs_project_max: named(args.queued_runs_project_max),
        waiting_seconds_max: named(args.waiting_seconds_max),
        active_runs_max: named(args.active_runs_max),
        intake_events_per_minute_max: named(args.intake_events_per_minute_max),
        event_bytes_max: named(args.event_bytes_max),
        weight: args.weight.map(Some),
        actor: args.signature.actor,
        reason: args.signature.reason,
    }
}

/// Limits for people.
#[must_use]
pub fn table(reply: &LimitsReply, width: u16, colours: bool) -> String {
    let mut text = match &reply.version {
        Some(version) => format!("ceilings {}, {}", shown(version), reply.mode),
        None => format!("ceilings without a version, {}", reply.mode),
    };
    if !reply.enforced {
        text.push_str(", not enforced");
    }
    text.push('\n');
    if let Some(own) = &reply.own {
        let _ = writeln!(
            text,
            "set at {} by {}: {}; weight {}",
            seconds(own.updated_at),
            own.actor.as_deref().map_or_else(|| "-".into(), shown),
            own.reason.as_deref().map_or_else(|| "-".into(), shown),
            own.weight,
        );
    }
    let columns = [
        ("limit", Side::Left),
        ("in use", Side::Right),
        ("max", Side::Right),
        ("unit", Side::Left),
        ("from", Side::Left),
        ("platform", Side::Right),
        ("organization", Side::Right),
    ];
    let mut table = Table::new(&columns);
    for limit in &reply.limits {
        let source = match limit.source {
            LimitSource::Platform => "platform",
            LimitSource::Organization => "organization",
        };
        let number = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), |n| n.to_string());
        table.row([
            limit.name,
            &number(limit.in_use),
            &limit.max.to_string(),
            limit.unit,
            source,
            &limit.platform.to_string(),
            &number(limit.organization.map(u64::from)),
        ]);
    }
    text.push_str(&table.render(width, colours));
    text
}
