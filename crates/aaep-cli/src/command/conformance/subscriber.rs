//! `aaep conformance subscriber`: serves a producer to test a subscriber with, and prints the report.

use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use clap::{ArgGroup, Args};
use recount_aaep_kit::World;
use recount_aaep_kit::conformance::Outcome;
use recount_aaep_kit::conformance::subscriber::{
    Answers, Question, Subject, Times, TrialError, TrialNotice, push, run,
};
use recount_aaep_kit::link;
use recount_command_line::output::note;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::mpsc;

use super::ReportOptions;
use crate::failure::Failure;
use crate::invocation::{self, Invocation};

#[derive(Args)]
#[command(group(ArgGroup::new("answers").args(["auto_accept", "auto_reject", "person"])))]
pub(super) struct Subscriber {
    /// URL to serve the test producer at, where port 0 picks a free port; with --push, URL at which the
    /// subscriber listens
    #[arg(value_name = "URL", id = "address", default_value = "http://127.0.0.1:0")]
    address: String,
    /// Conformance level to test; includes the lower levels
    #[arg(long, value_name = "LEVEL", value_parser = clap::value_parser!(u8).range(1..=3))]
    level: u8,
    /// Start the subscriber with this command, again for each fresh start; {url} is replaced by the URL
    #[arg(long, value_name = "COMMAND", conflicts_with = "push")]
    command: Option<String>,
    /// Send events to a listening subscriber, as the protocol's public suite does
    #[arg(long)]
    push: bool,
    /// State that the subscriber is configured to accept prompts
    #[arg(long)]
    auto_accept: bool,
    /// State that the subscriber is configured to reject prompts
    #[arg(long)]
    auto_reject: bool,
    /// State that a person answers the subscriber's prompts
    #[arg(long)]
    person: bool,
    /// Ask yes/no questions at this terminal about what only a person can observe
    #[arg(long, conflicts_with = "push")]
    ask: bool,
    /// Require this bearer token from the subscriber
    #[arg(long, value_name = "TOKEN", conflicts_with = "push")]
    want_token: Option<String>,
    /// Seconds to send events at the agreed rate
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    sustain: u16,
    #[command(flatten)]
    report: ReportOptions,
}

impl Subscriber {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        // A typed line may still be waited for at the end.
        invocation::block_on_threads(self.check(invocation.json))
    }

    async fn check(self, json: bool) -> Result<(), Failure> {
        let world = World::real();
        let mut sink = |notice: TrialNotice<'_>| match notice {
            TrialNotice::Note(words) => note(words),
            TrialNotice::Check(check) if check.outcome == Outcome::Failed => {
                note(&format!("FAILED {}: {}. {}", check.requirement, check.name, check.detail));
            }
            TrialNotice::Check(_) => {}
        };
        let report = if self.push {
            push::run(&world, &self.address, self.level, &mut sink).await.map_err(failure)?
        } else {
            let (asks, questions) = mpsc::channel(1);
            let subject = self.subject(self.ask.then_some(asks))?;
            // The questions end with the trial, which holds the other end of their channel.
            let (report, ()) = tokio::join!(
                async move { run(&world, &subject, self.level, &mut sink).await },
                people(questions)
            );
            report.map_err(failure)?
        };
        self.report.show(&report, json)
    }

    fn subject(&self, person: Option<mpsc::Sender<Question>>) -> Result<Subject, Failure> {
        let address = address(&self.address)?;
        if !address.ip().is_loopback() && self.want_token.is_none() {
            let why = "is not a loopback address; use 127.0.0.1, or require a token with --want-token";
            return Err(Failure::Usage(format!("{} {why}", self.address)));
        }
        let answers = match (self.auto_accept, self.auto_reject, self.person) {
            (true, _, _) => Answers::Accept,
            (_, true, _) => Answers::Reject,
            (_, _, true) => Answers::Person,
            _ => Answers::Never,
        };
        let command = self.command.as_deref().map(link::words).transpose();
        let mut subject = Subject::new(address, answers);
        subject.command = command.map_err(|why| Failure::Usage(why.to_string()))?;
        subject.token.clone_from(&self.want_token);
        subject.times = Times { sustain: Duration::from_secs(self.sustain.into()), ..subject.times };
        subject.person = person;
        Ok(subject)
    }
}

/// Where to listen.
fn address(url: &str) -> Result<SocketAddr, Failure> {
    let unusable =
        |why: &str| Failure::Usage(format!("`{url}` {why}; use an address such as http://127.0.0.1:8787"));
    let place = url.strip_prefix("http://").ok_or_else(|| unusable("does not begin with http://"))?;
    let place = place.strip_suffix('/').unwrap_or(place);
    if place.contains('/') {
        return Err(unusable("has a path; omit the path, the subscriber adds its own"));
    }
    let place = if place.contains(':') { place.to_owned() } else { format!("{place}:80") };
    let mut places =
        place.to_socket_addrs().map_err(|why| unusable(&format!("cannot be resolved ({why})")))?;
    places.next().ok_or_else(|| unusable("resolves to no address"))
}

fn failure(why: TrialError) -> Failure {
    let message = why.to_string();
    match why {
        TrialError::Listen { .. } | TrialError::Start { .. } => Failure::Usage(message),
        TrialError::NoConnection { .. } | TrialError::Push(_) => Failure::Unreachable(message),
    }
}

/// Asks the person at the terminal, a question at a time, until no more come. What is neither yes nor no is told as
/// such; without a terminal or behind the end of the input nothing can be told.
async fn people(mut questions: mpsc::Receiver<Question>) {
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(question) = questions.recv().await {
        note(&format!("Question: {} Type yes or no, or press Enter if you do not know.", question.text));
        let typed = lines.next_line().await.ok().flatten();
        let answer = match typed.as_deref().map(|line| line.trim().to_lowercase()).as_deref() {
            Some("yes" | "y") => Some(true),
            Some("no" | "n") => Some(false),
            _ => None,
        };
        // The trial may have gone on without it.
        question.answer.send(answer).ok();
    }
}
