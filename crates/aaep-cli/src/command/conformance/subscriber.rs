//! `aaep conformance subscriber`: serves a test producer to a subscriber and prints the report.

use std::collections::BTreeSet;
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use clap::{ArgGroup, Args};
use recount_aaep_kit::World;
use recount_aaep_kit::conformance::Outcome;
use recount_aaep_kit::conformance::subscriber::{
    Question, ReplyPolicy, SubscriberSubject, TrialError, TrialNotice, TrialTimes, declarable, push, run,
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
    /// Declare that requirements hold which only a person can judge, such as, or all of them; the report
    /// lists them as declared
    #[arg(long, value_name = "REQUIREMENTS", value_delimiter = ',', conflicts_with = "push")]
    declare: Vec<String>,
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
        // A read of standard input may remain at the end.
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
            // The trial holds the sender, so the questions end with it.
            let (report, ()) = tokio::join!(
                async move { run(&world, &subject, self.level, &mut sink).await },
                ask_person(questions)
            );
            report.map_err(failure)?
        };
        self.report.show(&report, json)
    }

    fn subject(&self, person: Option<mpsc::Sender<Question>>) -> Result<SubscriberSubject, Failure> {
        let address = parse_address(&self.address)?;
        if !address.ip().is_loopback() && self.want_token.is_none() {
            let why = "is not a loopback address; use 127.0.0.1, or require a token with --want-token";
            return Err(Failure::Usage(format!("{} {why}", self.address)));
        }
        let answers = match (self.auto_accept, self.auto_reject, self.person) {
            (true, _, _) => ReplyPolicy::Accept,
            (_, true, _) => ReplyPolicy::Reject,
            (_, _, true) => ReplyPolicy::Person,
            _ => ReplyPolicy::Never,
        };
        let command = self.command.as_deref().map(link::words).transpose();
        let mut subject = SubscriberSubject::new(address, answers);
        subject.command = command.map_err(|why| Failure::Usage(why.to_string()))?;
        subject.token.clone_from(&self.want_token);
        subject.times = TrialTimes { sustain: Duration::from_secs(self.sustain.into()), ..subject.times };
        subject.person = person;
        subject.declared = declared(&self.declare)?;
        Ok(subject)
    }
}

/// The declared requirements. What a conversation can show cannot be declared.
fn declared(names: &[String]) -> Result<BTreeSet<&'static str>, Failure> {
    let declarable = declarable();
    if names == ["all"] {
        return Ok(declarable);
    }
    let find = |name: &String| {
        declarable.get(name.trim()).copied().ok_or_else(|| {
            let known: Vec<&str> = declarable.iter().copied().collect();
            let known = known.join(", ");
            Failure::Usage(format!(
                "`{name}` cannot be declared; use \"all\" or any of {known} with --declare"
            ))
        })
    };
    names.iter().map(find).collect()
}

/// The address to listen on.
fn parse_address(url: &str) -> Result<SocketAddr, Failure> {
    let unusable =
        |why: &str| Failure::Usage(format!("`{url}` {why}; use an address such as http://127.0.0.1:8787"));
    let host = url.strip_prefix("http://").ok_or_else(|| unusable("does not begin with http://"))?;
    let host = host.strip_suffix('/').unwrap_or(host);
    if host.contains('/') {
        return Err(unusable("has a path; omit the path, the subscriber adds its own"));
    }
    let host = if host.contains(':') { host.to_owned() } else { format!("{host}:80") };
    let mut addresses =
        host.to_socket_addrs().map_err(|why| unusable(&format!("cannot be resolved ({why})")))?;
    addresses.next().ok_or_else(|| unusable("resolves to no address"))
}

fn failure(why: TrialError) -> Failure {
    let message = why.to_string();
    match why {
        TrialError::Listen { .. } | TrialError::Start { .. } => Failure::Usage(message),
        TrialError::NoConnection { .. } | TrialError::Push(_) => Failure::Unreachable(message),
    }
}

/// Asks the person at the terminal one question at a time until the channel closes. Input other than yes or no counts
/// as no answer, and so does the end of the input.
async fn ask_person(mut questions: mpsc::Receiver<Question>) {
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(question) = questions.recv().await {
        note(&format!("Question: {} Type yes or no, or press Enter if you do not know.", question.text));
        let typed = lines.next_line().await.ok().flatten();
        let answer = match typed.as_deref().map(|line| line.trim().to_lowercase()).as_deref() {
            Some("yes" | "y") => Some(true),
            Some("no" | "n") => Some(false),
            _ => None,
        };
        // The trial may have stopped waiting for it.
        question.answer.send(answer).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_person_judges_can_be_declared() {
        let of = |names: &[&str]| declared(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_eq!(of(&[]).ok(), Some(BTreeSet::new()));
        assert_eq!(of(&["R-041", "R-034"]).ok(), Some(BTreeSet::from(["R-034", "R-041"])));
        assert_eq!(of(&["all"]).ok(), Some(declarable()));
        let Err(Failure::Usage(why)) = of(&["R-034", "R-051"]) else { panic!("R-051 is shown on the wire") };
        assert_eq!(
            why,
            "`R-051` cannot be declared; use \"all\" or any of R-034, R-035, R-038, R-041, R-061, R-092, R-185, R-189 \
             with --declare"
        );
    }
}
