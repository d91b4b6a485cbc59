//! The command line: one file a verb, and a table of them. Look at [`verbs`].

mod aaep;
mod acp;
mod acp_agent;
mod answer;
mod apply;
mod approve;
mod artifact;
mod attach;
mod backup;
mod cancel;
mod chat;
mod child_output;
mod completion;
mod config;
mod confirm;
mod connect;
mod continuation;
mod credential;
mod delete;
mod demo;
mod digest;
mod doctor;
mod export;
mod extend;
mod handoff;
mod health;
mod hook;
mod ids;
mod import;
mod invocation;
mod keys;
mod lineage;
mod login;
mod ls;
mod man;
mod mcp;
mod message_head;
mod migrate;
mod narrate;
mod nodes;
mod patch;
mod pin;
mod policy;
mod prune;
mod reach;
mod recorded;
mod resume;
mod retry;
mod run;
mod salvage;
mod schema;
mod serve;
mod session;
mod show;
mod stored_login;
mod tail;
mod today;
mod token;
mod verify;
mod webhooks;

use std::process::ExitCode;

use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use recount_command_line::global_options;

use crate::exit;
use crate::failure::Failure;
use crate::version;

pub(crate) use self::invocation::Invocation;

/// How ids are given, as `recount help` prints it.
const IDS: &str = "\
Ids:
  the last characters of an id, at least four, if only one id ends with them; or last for the newest";

/// A durable, verifiable event log for AI agent runs.
#[derive(Parser)]
#[command(name = "recount", version, long_version = version::line(), max_term_width = 100, after_help = format!("{IDS}\n\n{}", exit::TABLE))]
struct CommandLine {
    #[command(flatten, next_help_heading = "Global options")]
    invocation: Invocation,
    #[command(subcommand)]
    verb: Verb,
}

/// The table of verbs: what each is called, in the order of the help, and the file and the type that it is in. The help
/// of a verb is the comment on its type.
macro_rules! verbs {
    ($($name:ident($file:ident::$options:ident),)+) => {
        #[derive(Subcommand)]
        enum Verb {
            $($name(Box<$file::$options>),)+
        }

        impl Verb {
            fn run(self, invocation: Invocation) -> Result<(), Failure> {
                match self {
                    $(Verb::$name(options) => options.run(invocation),)+
                }
            }
        }
    };
}

verbs! {
    Serve(serve::Serve),
    Run(run::Run),
    Resume(resume::Resume),
    Retry(retry::Retry),
    Continue(continuation::Continue),
    Apply(apply::Apply),
    Reject(patch::Reject),
    Revert(patch::Revert),
    Chat(chat::Chat),
    Demo(demo::Demo),
    Today(today::TodayVerb),
    Ls(ls::Ls),
    Show(show::Show),
    Tail(tail::Tail),
    Narrate(narrate::Narrate),
    Verify(verify::Verify),
    Digest(digest::Digest),
    Keys(keys::Keys),
    Export(export::Export),
    Import(import::Import),
    Mcp(mcp::Mcp),
    Backup(backup::Backup),
    Salvage(salvage::Salvage),
    Migrate(migrate::Migrate),
    Doctor(doctor::Doctor),
    Health(health::HealthCheck),
    Nodes(nodes::Nodes),
    Webhooks(webhooks::Webhooks),
    Token(token::Tokens),
    Login(login::Login),
    Logout(login::Logout),
    Cancel(cancel::Cancel),
    Prune(prune::Prune),
    Pin(pin::Pin),
    Unpin(pin::Unpin),
    Delete(delete::Delete),
    Approve(approve::Approve),
    Deny(approve::Deny),
    Extend(extend::Extend),
    Policy(policy::Policy),
    Answer(answer::Answer),
    Handoff(handoff::Handoff),
    Artifact(artifact::Artifact),
    Session(session::Session),
    Connect(connect::Connect),
    Hook(hook::SendHook),
    Aaep(aaep::Aaep),
    Acp(acp::Acp),
    Config(config::Config),
    Schema(schema::Schema),
    Completion(completion::Completion),
    Man(man::Man),
}

pub(crate) fn run() -> ExitCode {
    if hook::is_called() {
        return run_hook();
    }
    let matches = global_options::describe_once(CommandLine::command()).get_matches();
    let CommandLine { invocation, verb } =
        CommandLine::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    exit::report(verb.run(invocation.with_sources(&matches)))
}

/// The command line of the one verb that must start fast: making the table of all verbs takes longer than its work.
#[derive(Parser)]
#[command(name = "recount", version, max_term_width = 100)]
struct HookLine {
    #[command(flatten, next_help_heading = "Global options")]
    invocation: Invocation,
    #[command(subcommand)]
    verb: HookVerb,
}

#[derive(Subcommand)]
enum HookVerb {
    Hook(Box<hook::SendHook>),
}

fn run_hook() -> ExitCode {
    let matches = global_options::describe_once(HookLine::command()).try_get_matches();
    let line = matches.and_then(|matches| Ok((HookLine::from_arg_matches(&matches)?, matches)));
    match line {
        Ok((HookLine { invocation, verb: HookVerb::Hook(verb) }, matches)) => {
            exit::report(verb.run(invocation.with_sources(&matches)))
        }
        Err(why) => hook::not_understood(&why),
    }
}

/// One run, or all of them.
#[derive(Args)]
#[group(required = true, multiple = false)]
struct Subject {
    /// Id of the run
    run: Option<String>,
    /// Follow all runs
    #[arg(long)]
    all: bool,
    /// Follow the audit trail: starts, tokens, refused requests and deletions; needs the scope admin
    #[arg(long)]
    audit: bool,
}
