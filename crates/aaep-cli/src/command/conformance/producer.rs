//! `aaep conformance producer`: tests a producer and prints the report.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use recount_aaep_kit::World;
use recount_aaep_kit::conformance::producer::{Drive, ProducerSubject, RunError, run};
use recount_aaep_kit::limits;
use recount_aaep_kit::link::{self, Framing, Target};
use recount_aaep_kit::scenario::Scenario;
use recount_command_line::output::note;

use super::ReportOptions;
use crate::failure::Failure;
use crate::invocation::{self, Invocation};

#[derive(Args)]
pub(super) struct Producer {
    /// URL of the producer: http://HOST:PORT, http://HOST:PORT/aaep/v1 or ws://HOST:PORT/PATH
    #[arg(
        value_name = "URL",
        id = "address",
        required_unless_present = "command",
        conflicts_with = "command"
    )]
    address: Option<String>,
    /// Start this program and send JSON-RPC over its standard input and output
    #[arg(long, value_name = "COMMAND")]
    command: Option<String>,
    /// Treat all copies of the program as one producer, as for `aaep stdio`
    #[arg(long, requires = "command")]
    shared: bool,
    /// Conformance level to test; includes the lower levels
    #[arg(long, value_name = "LEVEL", value_parser = clap::value_parser!(u8).range(1..=3))]
    level: u8,
    /// HTTP surface to use
    #[arg(long, value_enum, default_value_t = Surface::Auto)]
    surface: Surface,
    /// Read the producer's bearer token from a file
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// POST scenario requests to this URL instead of the producer's /messages
    #[arg(long, value_name = "URL", conflicts_with = "drive_command")]
    drive: Option<String>,
    /// Request scenarios by running this program, with the request as its last argument
    #[arg(long, value_name = "COMMAND")]
    drive_command: Option<String>,
    /// Text that requests a scenario, such as irreversible="Transfer 500 dollars"; repeatable
    #[arg(long = "say", value_name = "SCENARIO=TEXT", value_parser = parse_sentence)]
    sentences: Vec<(Scenario, String)>,
    /// Test only these requirements, such as; the report then claims no level
    #[arg(long, value_name = "IDS", value_delimiter = ',')]
    only: Vec<String>,
    /// Seconds to wait for each required event before its check fails
    #[arg(long, value_name = "SECONDS", default_value_t = limits::PATIENCE.as_secs(), value_parser = clap::value_parser!(u64).range(1..=600))]
    timeout: u64,
    /// Wait for prompt timeouts of up to this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = limits::OUTLAST.as_secs(), value_parser = clap::value_parser!(u64).range(0..=86_400))]
    outlast: u64,
    /// Seconds to listen to a quiet stream; 0 skips the check
    #[arg(long, value_name = "SECONDS", default_value_t = limits::QUIET.as_secs(), value_parser = clap::value_parser!(u64).range(0..=600))]
    quiet: u64,
    #[command(flatten)]
    report: ReportOptions,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Surface {
    /// The specification's surface if the producer has it, otherwise the de-facto one
    Auto,
    /// /events and /messages
    Legacy,
    /// /subscriptions, /events and /replies
    Versioned,
}

/// Parses `SCENARIO=TEXT`, such as `brief=Say hello.`
fn parse_sentence(text: &str) -> Result<(Scenario, String), String> {
    let known = || Scenario::ALL.map(scenario_name).join(", ");
    let (scenario, words) = text.split_once('=').ok_or("use SCENARIO=TEXT")?;
    let found = Scenario::ALL.into_iter().find(|one| scenario_name(*one) == scenario);
    let found =
        found.ok_or_else(|| format!("unknown scenario `{scenario}`; known scenarios: {}", known()))?;
    if words.trim().is_empty() {
        return Err(format!("no text given for `{scenario}`"));
    }
    Ok((found, words.to_owned()))
}

fn scenario_name(scenario: Scenario) -> String {
    let mut name = String::new();
    for c in format!("{scenario:?}").chars() {
        if c.is_ascii_uppercase() && !name.is_empty() {
            name.push('-');
        }
        name.push(c.to_ascii_lowercase());
    }
    name
}

impl Producer {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        // Remaining listeners are dropped at the end.
        invocation::block_on_threads(self.check(invocation))
    }

    async fn check(self, invocation: Invocation) -> Result<(), Failure> {
        let subject = self.subject(&invocation)?;
        let report = run(&World::real(), &subject, self.level, &|words| note(&format!("testing {words}")))
            .await
            .map_err(|why| match why {
                RunError::Unusable(why) => Failure::Usage(why),
                RunError::Unreachable(why) => {
                    Failure::Unreachable(format!("{why}; is a producer running there?"))
                }
            })?;
        self.report.show(&report, invocation.json)
    }

    fn subject(&self, invocation: &Invocation) -> Result<ProducerSubject, Failure> {
        let usage = |why: link::LinkError| Failure::Usage(why.to_string());
        let target = match (&self.address, &self.command) {
            (_, Some(command)) => {
                Target::Command { argv: link::words(command).map_err(usage)?, framing: Framing::JsonRpc }
            }
            (Some(address), None) => address.parse::<Target>().map_err(usage)?,
            (None, None) => return Err(Failure::Usage("give the producer's URL, or --command".to_owned())),
        };
        let mut subject = ProducerSubject::at(target);
        if let (Target::Http { base, surface }, true) =
            (&mut subject.target, self.surface == Surface::Versioned)
            && *surface == link::Surface::Legacy
        {
            (*base, *surface) = (format!("{base}/aaep/v1"), link::Surface::Versioned);
        }
        subject.shares_producer = self.shared;
        subject.look_for_versioned = self.surface == Surface::Auto;
        let base = self.address.as_deref().unwrap_or_default();
        subject.token = invocation.token(base, self.token_file.as_deref())?;
        subject.drive = match (&self.drive, &self.drive_command) {
            (Some(url), _) => Drive::Url(url.clone()),
            (_, Some(command)) => Drive::Command(link::words(command).map_err(usage)?),
            _ => Drive::Messages,
        };
        subject.sentences = BTreeMap::from_iter(self.sentences.clone());
        subject.patience = Duration::from_secs(self.timeout);
        subject.outlast = Duration::from_secs(self.outlast);
        subject.quiet = Duration::from_secs(self.quiet);
        subject.only = self.only.iter().map(|id| id.trim().to_uppercase()).collect();
        Ok(subject)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenarios_are_parsed_by_name() {
        assert_eq!(
            parse_sentence("tool-timeout=Take long."),
            Ok((Scenario::ToolTimeout, "Take long.".to_owned()))
        );
        assert_eq!(parse_sentence("brief=a=b"), Ok((Scenario::Brief, "a=b".to_owned())));
        for bad in ["brief", "brief=", "none=x"] {
            assert!(parse_sentence(bad).is_err(), "{bad}");
        }
    }
}
