//! The command line: options that every verb has, and one file a verb.

mod aaep;
mod answer;
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
mod handoff;
mod import;
mod ls;
mod man;
mod partial;
mod pin;
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
use recount_client::request::Verdict;
use serde::Serialize;

use crate::exit::{self, Failure};
use crate::limits;
use crate::output::Output;

pub(crate) use self::ls::gather;

/// Keeps one truthful account of what agents do, and tells it.
#[derive(Parser)]
#[command(name = "recount", version, term_width = 100, after_help = exit::TABLE)]
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
}

#[derive(Subcommand)]
enum Verb {
    /// Run the server until it is told to stop
    Serve(serve::Serve),
    /// Have something done, and stay with it: follow it, answer what it asks
    Run(Box<run::Run>),
    /// Talk with an agent, of any server that speaks the agent application protocol
    Chat(Box<chat::Chat>),
    /// Show what a run is, in under a minute, without a key or a network
    Demo(demo::Demo),
    /// List runs, or tasks, newest first
    Ls(ls::Ls),
    /// Tell what happened in a run, one event a line
    Show(show::Show),
    /// Tell events as they come, of one run or of all
    Tail(tail::Tail),
    /// Check that accounts are whole and unaltered
    Verify(verify::Verify),
    /// Print what a run's bytes add up to: run, events, head
    Digest(digest::Digest),
    /// Write whole runs to a file, to be imported elsewhere or kept
    Export(export::Export),
    /// Take in the runs of such a file, each whole or not at all
    Import(import::Import),
    /// Copy the whole store while it works, or a data folder that no server uses
    Backup(backup::Backup),
    /// Make a new data folder of what can be read of a damaged one, and report what was saved
    Salvage(salvage::Salvage),
    /// Tell whether all is well, and what to do where it is not
    Doctor(doctor::Doctor),
    /// Hand out tokens, list them, take them back
    Token(token::Tokens),
    /// Stop a run
    Cancel(cancel::Cancel),
    /// Take away the oldest events of runs that have ended
    Prune(prune::Prune),
    /// Withhold a run from pruning
    Pin(pin::Pin),
    /// Let a run be pruned again
    Unpin(pin::Pin),
    /// Delete a task and erase its runs
    Delete(delete::Delete),
    /// Say yes to what a run asks permission for
    Approve(approve::Answer),
    /// Say no to what a run asks permission for
    Deny(approve::Answer),
    /// Tell what runs ask, and answer it
    Answer(answer::Answer),
    /// List what runs hand over, take it or not
    Handoff(handoff::Handoff),
    /// List what runs keep apart from the log, tell of it, get its bytes
    Artifact(artifact::Artifact),
    /// Begin, list, tell and delete sessions
    Session(session::Session),
    /// Check, record, replay and try what speaks the accessibility event protocol
    Aaep(aaep::Aaep),
    /// Tell what is configured, and where each value comes from
    Config(config::Config),
    /// Print the JSON Schema of an event type, or name them all
    Schema(schema::Schema),
    /// Print what a shell needs to complete command lines
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
        Verb::Chat(chat) => {
            let token_is_typed = is_typed(matches, "token");
            return staying(chat.run(common, token_is_typed));
        }
        Verb::Demo(demo) => return staying(demo.run(common.json)),
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
            | Verb::Chat(_)
            | Verb::Demo(_)
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
            Verb::Approve(answer) => answer.run(asking, Verdict::Approve).await,
            Verb::Deny(answer) => answer.run(asking, Verdict::Reject).await,
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
