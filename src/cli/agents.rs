//! `wakegate agents list`, `wakegate agents get` and `wakegate agents set`.

use clap::{Args, Subcommand, ValueEnum};

use super::operators::{Signature, colours, complain, on_store, organization, print_as};
use super::servers::AnyStore;
use super::table::{Form, Side, Table, json_line, seconds};
use super::{Exit, Failure, print};
use crate::admission::facts::AgentStatus;
use crate::clock::Clock;
use crate::config::Config;
use crate::control::documents::{
    AgentDocument, AgentKey, AgentListRequest, AgentReply, AgentSetRequest, LIMIT_MAX, Status,
};
use crate::control::{ControlError, agents};
use crate::store::control::AgentStore;
use crate::wake::{AgentId, OrganizationId};

/// Agents listed, unless told otherwise.
const AGENTS_MAX: u32 = 1_000;

/// Shown below the help of `agents`.
pub(super) const AFTER_HELP: &str = "\
Examples:
  wakegate agents list --status stopped
  wakegate agents set --organization acme --agent builder --status stopped --reason 'loops'";

const AFTER_LIST_HELP: &str = "\
Agents that are listed are those whose status was ever set; all others may run.

Examples:
  wakegate agents list
  wakegate agents list --organization acme --status paused";

const AFTER_GET_HELP: &str = "\
The exit code is 5 where no status is known of the agent: it may run.

Examples:
  wakegate agents get --organization acme --agent builder";

const AFTER_SET_HELP: &str = "\
paused, stopped and pending-approval refuse the agent's wakes from the next batch on; idle and
working let them pass. The agent need not be known.

Examples:
  wakegate agents set --organization acme --agent builder --status stopped --reason 'loops'
  wakegate agents set --organization '' --agent builder --status idle --reason 'mended'";

/// Subcommands of `agents`.
#[derive(Debug, Clone, Subcommand)]
pub enum AgentsCommand {
    /// List the agents whose status was set
    #[command(after_help = AFTER_LIST_HELP)]
    List(ListArgs),
    /// Show one agent
    #[command(after_help = AFTER_GET_HELP)]
    Get(GetArgs),
    /// Set the status of an agent
    #[command(after_help = AFTER_SET_HELP)]
    Set(SetArgs),
}

/// Which agent.
#[derive(Debug, Clone, Args)]
pub struct AgentArgs {
    /// Its organization; '' is that of events which name none
    #[arg(long, value_name = "ID", value_parser = organization)]
    pub organization: OrganizationId,
    /// The agent's profile
    #[arg(long, value_name = "ID", value_parser = agent)]
    pub agent: AgentId,
}

fn agent(text: &str) -> Result<AgentId, String> {
    AgentId::parse(text).map_err(|fault| fault.to_string())
}

/// Arguments of `agents list`.
#[derive(Debug, Clone, Args)]
pub struct ListArgs {
    /// Of one organization only
    #[arg(long, value_name = "ID", value_parser = organization)]
    pub organization: Option<OrganizationId>,
    /// With this status only
    #[arg(long, value_enum)]
    pub status: Option<StatusArg>,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = AGENTS_MAX, value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: u32,
    /// Print JSON also in a terminal
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `agents get`.
#[derive(Debug, Clone, Args)]
pub struct GetArgs {
    /// Which.
    #[command(flatten)]
    pub agent: AgentArgs,
    /// Print JSON also in a terminal
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `agents set`.
#[derive(Debug, Clone, Args)]
pub struct SetArgs {
    /// Which.
    #[command(flatten)]
    pub agent: AgentArgs,
    /// The status
    #[arg(long, value_enum)]
    pub status: StatusArg,
    /// Who and why.
    #[command(flatten)]
    pub signature: Signature,
    /// Print JSON also in a terminal
    #[arg(long)]
    pub json: bool,
}

/// As an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StatusArg {
    /// May run
    Idle,
    /// May run
    Working,
    /// Refused
    Paused,
    /// Refused
    Stopped,
    /// Refused
    PendingApproval,
}

impl From<StatusArg> for Status {
    fn from(status: StatusArg) -> Self {
        match status {
            StatusArg::Idle => Self::Idle,
            StatusArg::Working => Self::Working,
            StatusArg::Paused => Self::Paused,
            StatusArg::Stopped => Self::Stopped,
            StatusArg::PendingApproval => Self::PendingApproval,
        }
    }
}

/// Lists, shows or sets.
pub(super) fn execute(config: &Config, command: AgentsCommand) -> Result<Exit, Failure> {
    match command {
        AgentsCommand::List(args) => list(config, args),
        AgentsCommand::Get(GetArgs { agent, json }) => {
            let key =
                AgentKey { organization_id: agent.organization, agent_profile_id: agent.agent };
            let reply = on_store(config, async |store| match store {
                AnyStore::Postgres(store) => agents::get(&store, key).await,
                AnyStore::Sqlite(store) => agents::get(&store, key).await,
            })?;
            print_one(&reply, json)
        }
        AgentsCommand::Set(args) => {
            let request = AgentSetRequest {
                organization_id: args.agent.organization,
                agent_profile_id: args.agent.agent,
                status: args.status.into(),
                actor: args.signature.actor,
                reason: args.signature.reason,
            };
            let now = Clock::system().now();
            let reply = on_store(config, async |store| match store {
                AnyStore::Postgres(store) => agents::set(&store, request, now).await,
                AnyStore::Sqlite(store) => agents::set(&store, request, now).await,
            })?;
            print_one(&reply, args.json)
        }
    }
}

fn print_one(reply: &AgentReply, json: bool) -> Result<Exit, Failure> {
    print_as(Form::of_output(json), &reply.agent, |agent, width| {
        table(std::slice::from_ref(agent), width, colours())
    })
}

fn list(config: &Config, args: ListArgs) -> Result<Exit, Failure> {
    let (limit, json) = (args.limit, args.json);
    let (found, more) = on_store(config, async |store| match store {
        AnyStore::Postgres(store) => pages(&store, args).await,
        AnyStore::Sqlite(store) => pages(&store, args).await,
    })?;
    match Form::of_output(json) {
        Form::Json => print(&found.iter().map(json_line).collect::<String>())?,
        Form::Table { width } => print(&table(&found, width, colours()))?,
    }
    if more {
        complain(&format!("there are more than {limit}; --limit shows more of them"));
    }
    Ok(Exit::Done)
}

/// As many agents as are asked for, and whether there are more.
async fn pages<S: AgentStore>(
    store: &S,
    args: ListArgs,
) -> Result<(Vec<AgentDocument>, bool), ControlError> {
    let mut found: Vec<AgentDocument> = Vec::new();
    let mut after = None;
    loop {
        let left = args.limit - u32::try_from(found.len()).unwrap_or(args.limit).min(args.limit);
        if left == 0 {
            return Ok((found, true));
        }
        let request = AgentListRequest {
            organization_id: args.organization.clone(),
            status: args.status.map(Into::into),
            after: after.take(),
            limit: left.min(LIMIT_MAX),
        };
        let page = agents::list(store, request).await?;
        found.extend(page.agents);
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok((found, false)),
        }
    }
}

/// Agents for people.
#[must_use]
pub fn table(agents: &[AgentDocument], width: u16, colours: bool) -> String {
    if agents.is_empty() {
        return "no agent has a status\n".to_owned();
    }
    let mut table = Table::new(&[
        ("organization", Side::Left),
        ("agent", Side::Left),
        ("status", Side::Whole),
        ("since", Side::Whole),
        ("by", Side::Left),
        ("reason", Side::Left),
    ]);
    for agent in agents {
        let status = AgentStatus::from(agent.status).as_str();
        table.row([
            agent.organization_id.as_str(),
            agent.agent_profile_id.as_str(),
            status,
            &seconds(agent.updated_at),
            agent.actor.as_deref().unwrap_or("-"),
            agent.reason.as_deref().unwrap_or("-"),
        ]);
    }
    table.render(width, colours)
}
