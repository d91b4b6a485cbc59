//! The command line: options that every verb has, and one file a verb.

mod aaep;
mod answer;
mod apply;
mod approve;
mod artifact;
mod backup;
mod cancel;
mod chat;
mod completion;
mod config;
mod credential;
mod delete;
mod demo;
mod digest;
mod doctor;
mod export;
mod extend;
mod handoff;
mod import;
mod ls;
mod man;
mod narrate;
mod partial;
mod pin;
mod policy;
mod prune;
mod run;
mod salvage;
mod schema;
mod serve;
mod session;
mod show;
mod tail;
mod token;
mod verify;

use std::process::ExitCode;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use recount_client::Client;
use serde::Serialize;

use self::run::View;
use crate::exit::{self, Failure};
use crate::limits;
use crate::output::Output;

pub(crate) use self::ls::gather;
pub(crate) use self::tail::damage_words;

/// A durable, verifiable event log for AI agent runs.
#[derive(Parser)]
#[command(name = "recount", version, max_term_width = 100, after_help = exit::TABLE)]
struct CommandLine {
    #[command(flatten, next_help_heading = "Options of every command")]
    common: Common,
    #[command(subcommand)]
    verb: Verb,
}

/// Options of every verb.
#[derive(Args)]
struct Common {
    /// The server's address
    #[arg(
        long,
        global = true,
        env = "RECOUNT_URL",
        hide_env_values = true,
        default_value = "http://127.0.0.1:8765"
    )]
    url: String,
    /// The token to show the server
    #[arg(long, global = true, env = "RECOUNT_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// Give data as JSON, one value a line
    #[arg(long, global = true)]
    json: bool,
    /// Write words alone: no colours, no signs, nothing that is drawn anew
    #[arg(long, global = true)]
    plain: bool,
}

#[derive(Subcommand)]
enum Verb {
    /// Start the server
    Serve(serve::Serve),
    /// Start a run and follow it
    Run(Box<run::Run>),
    /// Apply a run's changes to the folder that it worked on a copy of
    Apply(apply::Apply),
    /// Chat with an agent over AAP, the agent application protocol
    Chat(Box<chat::Chat>),
    /// Play a demo run, without a key or a network
    Demo(demo::Demo),
    /// List runs or tasks, newest first
    Ls(ls::Ls),
    /// Show a run's events, one a line
    Show(show::Show),
    /// Follow events live, of one run or of all
    Tail(tail::Tail),
    /// Speak what runs do, and answer prompts by keyboard
    Narrate(narrate::Narrate),
    /// Verify that runs are complete and unaltered
    Verify(verify::Verify),
    /// Print a run's digest: run, events, head
    Digest(digest::Digest),
    /// Export whole runs to a file
    Export(export::Export),
    /// Import the runs of an export
    Import(import::Import),
    /// Back up the store of a running server, or a data folder
    Backup(backup::Backup),
    /// Recover what can be read of a damaged data folder
    Salvage(salvage::Salvage),
    /// Check the server and its store, and say what to do
    Doctor(doctor::Doctor),
    /// Create, list and revoke tokens
    Token(token::Tokens),
    /// Cancel a run
    Cancel(cancel::Cancel),
    /// Remove the oldest events of ended runs
    Prune(prune::Prune),
    /// Protect a run from pruning
    Pin(pin::Pin),
    /// Let a run be pruned again
    Unpin(pin::Pin),
    /// Delete a task and erase its runs
    Delete(delete::Delete),
    /// Approve what a run asks permission for
    Approve(approve::Approve),
    /// Reject what a run asks permission for
    Deny(approve::Deny),
    /// Move the deadline of an approval, question or handoff
    Extend(extend::Extend),
    /// List and revoke allowances: calls that need no further approval
    Policy(policy::Policy),
    /// List the questions of runs, and answer one
    Answer(answer::Answer),
    /// List the handoffs of runs, and accept or decline one
    Handoff(handoff::Handoff),
    /// List, show and download artifacts
    Artifact(artifact::Artifact),
    /// Create, list, show and delete sessions
    Session(session::Session),
    /// Validate, capture, replay and test AAEP, the accessibility event protocol
    Aaep(aaep::Aaep),
    /// Show the configuration and where each value comes from
    Config(config::Config),
    /// Print the JSON Schema of an event type, or list the types
    Schema(schema::Schema),
    /// Print a shell completion script
    Completion(completion::Completion),
    /// Write the manual pages
    Man(man::Man),
}

impl Common {
    fn client(&self) -> Result<Client, Failure> {
        let token = self.token.as_deref().filter(|token| !token.is_empty());
        Ok(Client::new(&self.url, token)?)
    }
}

/// What a verb that asks a server works with.
struct Asking {
    client: Client,
    json: bool,
    out: Output,
}

impl Asking {
    /// Things one by one: as JSON, or as the lines that are made of all of them.
    fn things<T: Serialize>(&mut self, things: &[T], lines: fn(&[T]) -> Vec<String>) -> Result<(), Failure> {
        if self.json {
            return things.iter().try_for_each(|thing| self.out.value(thing));
        }
        self.out.lines(&lines(things))
    }
}

pub(crate) fn run() -> ExitCode {
    let matches = CommandLine::command().get_matches();
    let CommandLine { common, verb } =
        CommandLine::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    exit::report(dispatch(common, verb, &matches))
}

fn dispatch(common: Common, verb: Verb, matches: &ArgMatches) -> Result<(), Failure> {
    // What needs no server comes first.
    let verb = match verb {
        Verb::Config(config) => return config.run(&common, matches),
        Verb::Schema(schema) => return schema.run(common.json),
        Verb::Aaep(aaep) => {
            let token_is_typed = is_typed(matches, "token");
            return aaep.run(common, token_is_typed);
        }
        Verb::Completion(completion) => return completion.run(),
        Verb::Man(man) => return man.run(),
        Verb::Serve(serve) => return serve.run(common.json),
        Verb::Verify(ref verify @ verify::Verify { data: Some(ref data), .. }) => {
            return verify.offline(data, common.json);
        }
        Verb::Backup(backup) => return backup.run(&common),
        Verb::Salvage(salvage) => return salvage.run(&common),
        Verb::Run(run) => {
            let is_named = was_said(matches, "url");
            return staying(run.run(common, is_named));
        }
        Verb::Apply(apply) => {
            let is_named = was_said(matches, "url");
            return staying(apply.run(common, is_named));
        }
        Verb::Chat(chat) => {
            let token_is_typed = is_typed(matches, "token");
            let is_named = was_said(matches, "url");
            return staying(chat.run(common, is_named, token_is_typed));
        }
        Verb::Narrate(narrate) => return staying(narrate.run(common)),
        Verb::Demo(demo) => return staying(demo.run(View { json: common.json, plain: common.plain })),
        verb => verb,
    };
    runtime()?.block_on(async {
        // These can do without a server.
        let verb = match verb {
            Verb::Export(export) => return export.run(common).await,
            Verb::Import(import) => return import.run(common).await,
            Verb::Doctor(doctor) => return doctor.run(common).await,
            Verb::Token(token) => return token.run(common).await,
            verb => verb,
        };
        let asking = Asking { client: common.client()?, json: common.json, out: Output::new() };
        match verb {
            Verb::Serve(_)
            | Verb::Run(_)
            | Verb::Apply(_)
            | Verb::Chat(_)
            | Verb::Demo(_)
            | Verb::Narrate(_)
            | Verb::Export(_)
            | Verb::Import(_)
            | Verb::Backup(_)
            | Verb::Salvage(_)
            | Verb::Doctor(_)
            | Verb::Token(_)
            | Verb::Aaep(_)
            | Verb::Config(_)
            | Verb::Schema(_)
            | Verb::Completion(_)
            | Verb::Man(_) => {
                unreachable!("it was done before")
            }
            Verb::Ls(ls) => ls.run(asking).await,
            Verb::Show(show) => show.run(asking).await,
            Verb::Tail(tail) => tail.run(asking).await,
            Verb::Verify(verify) => verify.run(asking).await,
            Verb::Digest(digest) => digest.run(asking).await,
            Verb::Cancel(cancel) => cancel.run(asking).await,
            Verb::Prune(prune) => prune.run(asking).await,
            Verb::Pin(pin) => pin.run(asking, true).await,
            Verb::Unpin(pin) => pin.run(asking, false).await,
            Verb::Delete(delete) => delete.run(asking).await,
            Verb::Approve(approve) => approve.run(asking).await,
            Verb::Deny(deny) => deny.run(asking).await,
            Verb::Extend(extend) => extend.run(asking).await,
            Verb::Policy(policy) => policy.run(asking).await,
            Verb::Answer(answer) => answer.run(asking).await,
            Verb::Handoff(handoff) => handoff.run(asking).await,
            Verb::Artifact(artifact) => artifact.run(asking).await,
            Verb::Session(session) => session.run(asking).await,
        }
    })
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let built = builder.enable_all().build();
    built.map_err(|why| Failure::Own(format!("the operating system gives no runtime: {why}")))
}

/// For verbs that may be a server themselves. What still waits when they are done, such as for a line that somebody
/// types, is left behind.
fn staying(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let built = builder.worker_threads(limits::STAYING_THREADS).enable_all().build();
    let runtime =
        built.map_err(|why| Failure::Own(format!("the operating system gives no runtime: {why}")))?;
    let done = runtime.block_on(work);
    runtime.shutdown_background();
    done
}

/// Whether an option of every verb was said, on the command line or in the environment.
fn was_said(matches: &ArgMatches, name: &str) -> bool {
    let matches = matches.subcommand().map_or(matches, |(_, matches)| matches);
    matches!(matches.value_source(name), Some(ValueSource::CommandLine | ValueSource::EnvVariable))
}

/// Whether an option of every verb was said on the command line itself.
fn is_typed(matches: &ArgMatches, name: &str) -> bool {
    let matches = matches.subcommand().map_or(matches, |(_, matches)| matches);
    matches.value_source(name) == Some(ValueSource::CommandLine)
}

/// One run, or all of them.
#[derive(Args)]
#[group(required = true, multiple = false)]
struct Subject {
    /// The run's id
    run: Option<String>,
    /// All runs
    #[arg(long)]
    all: bool,
    /// The audit trail: starts, tokens, refused requests and what was deleted; needs the scope admin
    #[arg(long)]
    audit: bool,
}
