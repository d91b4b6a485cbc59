//! Tests a subscriber: acts as a producer on every surface, and checks what the subscriber sends and whether it stays
//! connected. Entry: [`run`]. Speech and display cannot be observed: on request a person is asked about them
//! ([`Subject::person`]), and `coverage` lists what cannot be tested.
//!
//! Most subscribers connect to a producer, so the test starts by printing an address for the subscriber.
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

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use recount_world::World;
use tokio::sync::{mpsc, oneshot};

use super::{Check, Report};
use crate::limits;

/// How the subscriber's prompts are answered. The trial needs it to evaluate replies and silence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyPolicy {
    /// No replies are configured: silence passes, a reply fails.
    Never,
    /// It accepts automatically.
    Accept,
    /// It rejects automatically.
    Reject,
    /// A person answers.
    Person,
}

impl ReplyPolicy {
    /// The text for reports.
    pub fn description(self) -> &'static str {
        match self {
            ReplyPolicy::Never => "nobody answers prompts",
            ReplyPolicy::Accept => "it is configured to accept",
            ReplyPolicy::Reject => "it is configured to reject",
            ReplyPolicy::Person => "a person answers its prompts",
        }
    }
}

/// Timeouts and durations of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrialTimes {
    /// Until the first connection.
    pub connect: Duration,
    /// For a reply.
    pub reply: Duration,
    /// How long to watch for messages that must not arrive.
    pub quiet: Duration,
    /// Until it reconnects after its connection was cut.
    pub reconnect: Duration,
    /// How long the producer is unreachable.
    pub down: Duration,
    /// How long to send events at the declared rate.
    pub sustain: Duration,
}

impl TrialTimes {
    /// Defaults for an unknown subscriber.
    pub fn usual(answers: ReplyPolicy) -> TrialTimes {
        let reply = if answers == ReplyPolicy::Person { limits::TRIAL_PERSON } else { limits::TRIAL_REPLY };
        TrialTimes {
            connect: limits::TRIAL_CONNECT,
            reply,
            quiet: limits::TRIAL_QUIET,
            reconnect: limits::TRIAL_RECONNECT,
            down: limits::TRIAL_DOWN,
            sustain: limits::TRIAL_SUSTAIN,
        }
    }
}

/// A question to the person at the terminal. The answer `None` means that the person cannot tell.
pub struct Question {
    pub text: String,
    pub answer: oneshot::Sender<Option<bool>>,
}

/// The subscriber to test, and how.
#[derive(Debug, Clone)]
pub struct SubscriberSubject {
    /// The listen address of the trial's producer; port 0 picks a free one.
    pub address: SocketAddr,
    /// Starts the subscriber, and restarts it when a fresh one is needed. `{url}` is replaced by the address. Without
    /// a command, a person starts the subscriber.
    pub command: Option<Vec<String>>,
    pub answers: ReplyPolicy,
    /// The bearer token to require.
    pub token: Option<String>,
    pub times: TrialTimes,
    /// Receives questions about what cannot be observed.
    pub person: Option<mpsc::Sender<Question>>,
    /// Requirements that only a person can judge and that the caller declares to hold; see [`declarable`]. They are
    /// not tested, and the report lists them as declared.
    pub declared: BTreeSet<&'static str>,
}

impl SubscriberSubject {
    pub fn new(address: SocketAddr, answers: ReplyPolicy) -> SubscriberSubject {
        let times = TrialTimes::usual(answers);
        let declared = BTreeSet::new();
        SubscriberSubject { address, command: None, answers, token: None, times, person: None, declared }
    }
}

/// The requirements that only a person can judge, in order.
pub fn declarable() -> BTreeSet<&'static str> {
    parts::person::requirements().collect()
}

/// The requirement of a check, and a sentence that is true if it passes.
#[derive(Debug, Clone, Copy)]
struct Expectation(&'static str, &'static str);

/// A progress notice of the trial.
#[derive(Debug)]
pub enum TrialNotice<'a> {
    /// A message to the person who runs the trial.
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

/// Tests a subscriber at a level, including the lower ones.
pub async fn run(
    world: &World,
    subject: &SubscriberSubject,
    level: u8,
    sink: &mut (dyn FnMut(TrialNotice<'_>) + Send),
) -> Result<Report, TrialError> {
    let mut trial = trial::Trial::begin(world, subject, level, sink).await?;
    parts::handshake::run(&mut trial).await?;
    parts::unusual_input::run(&mut trial).await?;
    parts::prompts::run(&mut trial).await?;
    parts::load::run(&mut trial).await?;
    parts::person::run(&mut trial).await?;
    parts::reconnect::run(&mut trial).await?;
    judge::run(&mut trial);
    parts::ending::run(&mut trial).await?;
    Ok(trial.finish().await)
}
