//! Tests a subscriber: acts as a producer on every surface, and checks what the subscriber sends and whether it stays
//! connected. Entry: [`run`]. What a subscriber speaks or shows cannot be observed: a person is asked about it on
//! request ([`Subject::person`]), and `coverage` lists what cannot be tested.
//!
//! Most subscribers connect to a producer, so the test begins by printing an address to point the subscriber at.
//! [`push`] is for subscribers that listen for connections.

mod builder;
pub mod coverage;
mod judge;
mod parts;
mod piece;
mod process;
mod producer;
pub mod push;
mod received;
mod trial;

use std::net::SocketAddr;
use std::time::Duration;

use recount_world::World;
use tokio::sync::{mpsc, oneshot};

use super::{Check, Report};
use crate::limits;

/// Who answers prompts on the subscriber's side. The trial needs it to judge replies and silence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answers {
    /// No replies are configured: silence passes, a reply fails.
    Never,
    /// It is set up to accept by itself.
    Accept,
    /// It is set up to reject by itself.
    Reject,
    /// A person sits before it.
    Person,
}

impl Answers {
    /// The text for reports.
    pub fn description(self) -> &'static str {
        match self {
            Answers::Never => "nobody answers prompts",
            Answers::Accept => "it is configured to accept",
            Answers::Reject => "it is configured to reject",
            Answers::Person => "a person answers its prompts",
        }
    }
}

/// How long things are waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// Until it has come, in the beginning.
    pub comes: Duration,
    /// For a reply.
    pub reply: Duration,
    /// How long it is watched when nothing is to happen.
    pub quiet: Duration,
    /// Until it is there again after its connection was cut.
    pub returns: Duration,
    /// How long the producer is away.
    pub down: Duration,
    /// How long events come at the rate it declares.
    pub sustain: Duration,
}

impl Times {
    /// For subscribers of which nothing is known.
    pub fn usual(answers: Answers) -> Times {
        let reply = if answers == Answers::Person { limits::TRIAL_PERSON } else { limits::TRIAL_REPLY };
        Times {
            comes: limits::TRIAL_COMES,
            reply,
            quiet: limits::TRIAL_QUIET,
            returns: limits::TRIAL_RETURNS,
            down: limits::TRIAL_DOWN,
            sustain: limits::TRIAL_SUSTAIN,
        }
    }
}

/// A question to the person at the terminal. `None` says that it could not be told.
pub struct Question {
    pub text: String,
    pub answer: oneshot::Sender<Option<bool>>,
}

/// What is tried, and how.
#[derive(Debug, Clone)]
pub struct Subject {
    /// Where the trial's producer is served; port 0 takes a free one.
    pub address: SocketAddr,
    /// Starts the subscriber, anew wherever a fresh one is needed. `{url}` stands for the address; without it a person
    /// starts the subscriber by hand.
    pub command: Option<Vec<String>>,
    pub answers: Answers,
    /// A bearer token that is asked for.
    pub token: Option<String>,
    pub times: Times,
    /// Takes questions about what cannot be seen from here.
    pub person: Option<mpsc::Sender<Question>>,
}

impl Subject {
    pub fn new(address: SocketAddr, answers: Answers) -> Subject {
        let times = Times::usual(answers);
        Subject { address, command: None, answers, token: None, times, person: None }
    }
}

/// The requirement that a check is for, and a sentence that holds where it passes.
#[derive(Debug, Clone, Copy)]
struct Expectation(&'static str, &'static str);

/// A notice that is sent while the trial runs.
#[derive(Debug)]
pub enum TrialNotice<'a> {
    /// A message to the person who waits or has something to do.
    Note(&'a str),
    Check(&'a Check),
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    #[error("cannot listen on {address}: {why}; use another address, or port 0 for a free port")]
    Listen { address: SocketAddr, why: std::io::Error },
    #[error("`{program}` cannot be started: {why}")]
    Start { program: String, why: std::io::Error },
    #[error("no subscriber connected to {url} within {seconds} s{more}")]
    NoConnection { url: String, seconds: u64, more: String },
    #[error("{0}")]
    Push(String),
}

/// Tries a subscriber at a level, the lower ones included.
pub async fn run(
    world: &World,
    subject: &Subject,
    level: u8,
    sink: &mut (dyn FnMut(TrialNotice<'_>) + Send),
) -> Result<Report, TrialError> {
    let mut trial = trial::Trial::begin(world, subject, level, sink).await?;
    parts::hello::run(&mut trial).await?;
    parts::survive::run(&mut trial).await?;
    parts::prompts::run(&mut trial).await?;
    parts::flow::run(&mut trial).await?;
    parts::person::run(&mut trial).await?;
    parts::line::run(&mut trial).await?;
    judge::run(&mut trial);
    parts::end::run(&mut trial).await?;
    Ok(trial.finish().await)
}
