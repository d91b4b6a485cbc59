//! `aaep capture`: records the messages of a producer as they arrive.
//!
//! Lines go to a file, with arrival times in a second file, or to standard output. Progress goes to standard error. The
//! final summary goes to standard output unless the lines do.

use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use recount_aaep_kit::World;
use recount_aaep_kit::aaep::VERSION;
use recount_aaep_kit::aaep::wire::{Capabilities, Decision, SubscriptionRequest};
use recount_aaep_kit::capture::{
    CaptureError, CaptureNotice, CapturePlan, CaptureSink, CaptureSummary, EndReason, Filter, capture,
};
use recount_aaep_kit::link::{Dial, LinkError, Target, words};
use recount_aaep_kit::recording::{Direction, Stamp, Writer, times_of};
use recount_command_line::clean;
use recount_command_line::credential::small_file;
use recount_command_line::output::note;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use crate::failure::Failure;
use crate::invocation::{self, Invocation, Output};

#[derive(Args)]
pub(super) struct Capture {
    /// URL of the producer: http://HOST:PORT for /events and /messages, http://HOST:PORT/aaep/v1 for subscriptions,
    /// or ws://HOST:PORT/PATH
    #[arg(value_name = "URL", required_unless_present = "command", conflicts_with = "command")]
    producer: Option<String>,
    /// Start this program, without a shell, and exchange messages over its standard input and output
    #[arg(long, value_name = "COMMAND")]
    command: Option<String>,
    /// Message format of the program's lines
    #[arg(long, value_enum, default_value_t = Framing::JsonRpc, requires = "command")]
    framing: Framing,
    /// File to write, with arrival times in FILE.times; - is standard output, without times
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Send a subscription.request first, which subscribes to all events and answers no prompts
    #[arg(long)]
    handshake: bool,
    /// Send the subscription.request in this file first
    #[arg(long, value_name = "FILE")]
    request: Option<PathBuf>,
    /// Read the producer's bearer token from a file
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Stop after N seconds
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    timeout: Option<Duration>,
    /// Stop after N events
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_events: Option<u64>,
    /// Keep only events of these types, such as tool.invoked or tool.*
    #[arg(long = "type", value_name = "PATTERN", value_delimiter = ',')]
    types: Vec<String>,
    /// Keep only events of these urgencies
    #[arg(long, value_enum, value_name = "URGENCY", value_delimiter = ',')]
    urgency: Vec<Urgency>,
    /// Keep only events of these sessions
    #[arg(long, value_name = "SESSION", value_delimiter = ',')]
    session: Vec<String>,
    /// Answer every confirmation this way; default: answer none
    #[arg(long, value_enum, value_name = "DECISION")]
    auto: Option<Auto>,
    /// Stop when the connection ends instead of reconnecting
    #[arg(long)]
    no_reconnect: bool,
    /// Do not print progress
    #[arg(short, long)]
    quiet: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Framing {
    /// One JSON-RPC 2.0 object per line
    JsonRpc,
    /// One message per line
    Lines,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Urgency {
    Background,
    Normal,
    Critical,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Auto {
    Accept,
    Reject,
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "it is not a number".to_owned())?;
    let duration = Duration::try_from_secs_f64(seconds).ok().filter(|duration| !duration.is_zero());
    duration.ok_or_else(|| "it must be greater than 0 and fit into a clock".to_owned())
}

impl Capture {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        let plan = self.plan(&invocation)?;
        let mut sink = Sink::open(&self.output)?;
        if self.auto.is_some() {
            let word = if self.auto == Some(Auto::Accept) { "accepted" } else { "rejected" };
            note(&format!("warning: every confirmation is {word} without a prompt"));
        }
        let ended = invocation::block_on(async { Ok(record(&plan, &mut sink, self.quiet).await) })?;
        let summary = match ended {
            Ok(summary) => summary,
            Err(why) => return Err(sink.failure(why)),
        };
        sink.finish()?;
        self.print_summary(invocation.json, &summary)?;
        if summary.events == 0 { Err(Failure::Negative) } else { Ok(()) }
    }

    fn plan(&self, invocation: &Invocation) -> Result<CapturePlan, Failure> {
        let target = match (&self.producer, &self.command) {
            (Some(address), _) => address.parse().map_err(link_failure)?,
            (None, Some(command)) => {
                let framing = match self.framing {
                    Framing::JsonRpc => recount_aaep_kit::link::Framing::JsonRpc,
                    Framing::Lines => recount_aaep_kit::link::Framing::Lines,
                };
                Target::Command { argv: words(command).map_err(link_failure)?, framing }
            }
            (None, None) => {
                return Err(Failure::Usage("give the producer's URL, or --command".to_owned()));
            }
        };
        let token = match &self.producer {
            Some(address) => invocation.token(address, self.token_file.as_deref())?,
            None => None,
        };
        let auto = self.auto.map(|auto| match auto {
            Auto::Accept => Decision::Accept,
            Auto::Reject => Decision::Reject,
        });
        let request = match &self.request {
            Some(path) => Some(small_file(path).map_err(Failure::Usage)?),
            None if self.handshake => Some(subscription_request(auto.is_some())?),
            None => None,
        };
        let urgencies = self.urgency.iter().filter_map(ValueEnum::to_possible_value);
        Ok(CapturePlan {
            dial: Dial { token, request, ..Dial::to(target) },
            timeout: self.timeout,
            max_events: self.max_events,
            filter: Filter {
                types: self.types.clone(),
                urgencies: urgencies.map(|value| value.get_name().to_owned()).collect(),
                sessions: self.session.clone(),
            },
            reconnect: !self.no_reconnect,
            auto,
        })
    }

    /// Prints the summary on standard output, or on standard error if the lines went to standard output.
    fn print_summary(&self, as_json: bool, summary: &CaptureSummary) -> Result<(), Failure> {
        let on_stdout = self.output == Path::new("-");
        if as_json && !on_stdout {
            return Output::new().value(&json!({
                "file": self.output.display().to_string(),
                "events": summary.events,
                "lines": summary.lines,
                "filtered": summary.filtered,
                "repeated": summary.repeated,
                "broken": summary.broken,
                "answered": summary.answered,
                "connections": summary.connections,
                "seconds": summary.took.as_millis() as f64 / 1_000.0,
                "ended": ended_code(summary).0,
                "why": ended_code(summary).1,
            }));
        }
        let line = self.summary_line(summary);
        match on_stdout {
            true => note(&line),
            false => Output::new().line(&clean::line(&line))?,
        }
        Ok(())
    }

    fn summary_line(&self, summary: &CaptureSummary) -> String {
        let besides = summary.lines - summary.events;
        let mut parts = vec![format!(
            "{} in {:.1} s over {}",
            counted(summary.events, "event"),
            summary.took.as_secs_f64(),
            counted(summary.connections, "connection"),
        )];
        let mut part = |count: u64, words: &str| {
            if count > 0 {
                parts.push(format!("{count} {words}"));
            }
        };
        part(besides, if besides == 1 { "other message" } else { "other messages" });
        part(summary.answered, "answered automatically");
        part(summary.filtered, "not wanted");
        part(summary.repeated, "repeated and stored once");
        part(summary.broken, "not JSON objects, skipped");
        let mut line = parts.join(", ");
        if self.output != Path::new("-") && summary.lines > 0 {
            line.push_str(&format!("; written to {}", self.output.display()));
        }
        let (word, why) = ended_code(summary);
        let why =
            why.map_or_else(|| ended_text(word).to_owned(), |why| format!("{}: {why}", ended_text(word)));
        format!("{line}; {why}")
    }
}

/// Builds a request for all events at every level. It claims support for replies only if prompts are answered, because
/// the producer then waits for them.
fn subscription_request(can_reply: bool) -> Result<String, Failure> {
    let capabilities = Capabilities {
        supports_confirmation_reply: Some(can_reply),
        supports_clarification_reply: Some(false),
        supported_conformance_levels: Some(vec![1, 2, 3]),
        ..Capabilities::default()
    };
    let request = SubscriptionRequest::new(VERSION.to_owned(), "recount-capture".to_owned(), capabilities);
    serde_json::to_string(&request).map_err(|why| Failure::Internal(why.to_string()))
}

async fn record(plan: &CapturePlan, sink: &mut Sink, quiet: bool) -> Result<CaptureSummary, CaptureError> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let stop = async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    };
    let mut notify = |notice: CaptureNotice<'_>| {
        if let Some(words) = describe_notice(&notice).filter(|_| !quiet) {
            note(&words);
        }
    };
    capture(&World::real(), plan, sink, &mut notify, stop).await
}

fn describe_notice(notice: &CaptureNotice<'_>) -> Option<String> {
    Some(match notice {
        CaptureNotice::Connected { connection: 1, subscription: None } => {
            "connected; Ctrl-C ends the capture".to_owned()
        }
        CaptureNotice::Connected { connection: 1, subscription: Some(id) } => {
            format!("connected, with the subscription {id}; Ctrl-C ends the capture")
        }
        CaptureNotice::Connected { connection, .. } => format!("reconnected ({connection})"),
        CaptureNotice::Progress { summary } => format!("{} so far", counted(summary.events, "event")),
        CaptureNotice::Broken { text } => {
            let shown: String = text.chars().take(80).collect();
            format!("skipped, because it is not a JSON object: {shown}")
        }
        CaptureNotice::Answered { decision, reply_token, status } => {
            let status = status.map(|status| format!(" (status {status})")).unwrap_or_default();
            format!("answered {reply_token} with {}{status}", decision.as_str())
        }
        CaptureNotice::Unanswered { why } => format!("not answered: {why}"),
        CaptureNotice::Remark { why } => why.clone(),
        CaptureNotice::Lost { why, wait_ms } => {
            format!("{why}; reconnecting in {:.1} s", *wait_ms as f64 / 1_000.0)
        }
    })
}

/// A code for programs, and the reason from the producer or the network.
fn ended_code(summary: &CaptureSummary) -> (&'static str, Option<&str>) {
    match &summary.ended {
        EndReason::Enough => ("max_events", None),
        EndReason::TimedOut => ("timeout", None),
        EndReason::Stopped => ("stopped", None),
        EndReason::ByProducer => ("producer", None),
        EndReason::Rejected(answer) => ("rejected", Some(answer)),
        EndReason::Lost(why) => ("lost", Some(why)),
    }
}

fn ended_text(word: &str) -> &'static str {
    match word {
        "max_events" => "the limit of events was reached",
        "timeout" => "the timeout was reached",
        "stopped" => "it was stopped",
        "producer" => "the producer ended it",
        "rejected" => "the producer rejected the subscription",
        _ => "the connection to the producer was lost",
    }
}

fn counted(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

fn link_failure(why: LinkError) -> Failure {
    let words = why.to_string();
    match why {
        LinkError::Unusable(_) => Failure::Usage(words),
        LinkError::Unreachable { .. } => {
            Failure::Unreachable(format!("{words}; is a producer running there?"))
        }
        LinkError::Refused { status: 401, .. } => {
            Failure::Refused(format!("{words}; the producer requires a token: use --token-file FILE"))
        }
        LinkError::Refused { status: 404, .. } => {
            Failure::Refused(format!("{words}; check the path: some producers use /aaep/v1, others do not"))
        }
        LinkError::Refused { status: 400 | 405, .. } | LinkError::NoAnswer { .. } => Failure::Refused(
            format!("{words}; if the producer supports no handshake, omit --handshake and --request"),
        ),
        _ => Failure::Refused(words),
    }
}

/// The output for captured lines.
enum Sink {
    File {
        path: PathBuf,
        /// Opened with the first line, so that old content is replaced only by new content.
        writer: Option<Writer>,
        /// Whether this command created the file to check that it is writable.
        is_trial: bool,
    },
    Stdout {
        out: Output,
        failed: Option<Failure>,
    },
}

impl Sink {
    fn open(path: &Path) -> Result<Sink, Failure> {
        if path == Path::new("-") {
            return Ok(Sink::Stdout { out: Output::new(), failed: None });
        }
        let is_trial = !path.exists();
        OpenOptions::new()
            .append(true)
            .create(true)
            .open(path)
            .map_err(|why| Failure::Usage(format!("cannot write {}: {why}", path.display())))?;
        Ok(Sink::File { path: path.to_owned(), writer: None, is_trial })
    }

    fn finish(self) -> Result<(), Failure> {
        match self {
            Sink::File { writer: Some(writer), .. } => Ok(writer.finish()?),
            Sink::File { path, writer: None, is_trial } => {
                remove_trial_file(&path, is_trial);
                Ok(())
            }
            Sink::Stdout { .. } => Ok(()),
        }
    }

    fn failure(self, why: CaptureError) -> Failure {
        match (self, why) {
            (Sink::Stdout { failed: Some(failed), .. }, _) => failed,
            (Sink::File { path, writer: None, is_trial }, CaptureError::Link(why)) => {
                remove_trial_file(&path, is_trial);
                link_failure(why)
            }
            (_, CaptureError::Link(why)) => link_failure(why),
            (_, why @ CaptureError::Write(_)) => Failure::Internal(why.to_string()),
        }
    }
}

fn remove_trial_file(path: &Path, is_trial: bool) {
    if is_trial {
        std::fs::remove_file(path).ok();
    }
}

impl CaptureSink for Sink {
    fn put(&mut self, text: &str, direction: Direction, stamp: &Stamp<'_>) -> io::Result<()> {
        match self {
            Sink::File { path, writer, .. } => {
                let writer = match writer {
                    Some(writer) => writer,
                    None => writer.insert(Writer::create(path).map_err(|why| {
                        let times = times_of(path);
                        io::Error::new(
                            why.kind(),
                            format!("{} and {}: {why}", path.display(), times.display()),
                        )
                    })?),
                };
                writer.put(text, direction, stamp)
            }
            Sink::Stdout { out, failed } => {
                out.json(&recount_aaep_kit::recording::one_line(text)).map_err(|why| {
                    *failed = Some(why);
                    io::Error::other("standard output")
                })
            }
        }
    }
}
