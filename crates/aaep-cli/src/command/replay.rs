//! `aaep replay`: serves a recording to any subscriber.

use std::fs::File;
use std::io::{Read, Write as _};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use clap::Args;
use recount_aaep_kit::World;
use recount_aaep_kit::aaep::rule;
use recount_aaep_kit::replay::{
    NoticeSink, Pace, Replay, ReplayNotice, ReplayOptions, ReplayScript, ReplyOutcome,
};
use recount_aaep_kit::trace::Live;
use recount_command_line::output::note;
use serde_json::json;

use crate::failure::Failure;
use crate::invocation::{self, Invocation, Output};

#[derive(Args)]
pub(super) struct ReplayCommand {
    /// Recording: one event per line, as capture writes it; - is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Port to listen on; 0 picks a free port
    #[arg(long, default_value_t = 9000)]
    port: u16,
    /// Address to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    bind: IpAddr,
    /// Speed factor; 0.5 is half as fast as recorded
    #[arg(long, value_name = "TIMES", default_value = "1", value_parser = parse_speed)]
    speed: f64,
    /// Send all events without pauses
    #[arg(long, conflicts_with = "speed")]
    no_delay: bool,
    /// Repeat the recording, with new ids and tokens and current times
    #[arg(long = "loop")]
    repeat: bool,
    /// Use new ids and tokens and current times in the first pass too
    #[arg(long)]
    fresh: bool,
    /// Start without waiting for a subscriber
    #[arg(long)]
    no_wait: bool,
    /// Keep the server and its streams open after the last event
    #[arg(long, conflicts_with = "repeat")]
    stay: bool,
    /// Wait at each prompt for an answer, up to the prompt's timeout
    #[arg(long)]
    wait_for_replies: bool,
    /// Write replies of subscribers to this file, one message per line
    #[arg(long, value_name = "FILE")]
    replies: Option<PathBuf>,
    /// Print each event as text, with the rules that it breaks
    #[arg(long)]
    visualize: bool,
}

fn parse_speed(text: &str) -> Result<f64, String> {
    let speed: f64 = text.parse().map_err(|_| "it is not a number".to_owned())?;
    if speed.is_finite() && speed > 0.0 { Ok(speed) } else { Err("it must be more than 0".to_owned()) }
}

impl ReplayCommand {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        let name = self.file.display().to_string();
        let unusable = |why: &dyn std::fmt::Display| Failure::Usage(format!("{name}: {why}"));
        let (file, times): (Box<dyn Read>, _) = if self.file == Path::new("-") {
            (Box::new(std::io::stdin()), None)
        } else {
            (Box::new(File::open(&self.file).map_err(|why| unusable(&why))?), read_times(&self.file)?)
        };
        let script = ReplayScript::read(file, times.as_deref()).map_err(|why| unusable(&why))?;
        for warning in script.warnings() {
            note(&format!("{name}: {warning}"));
        }
        let replies = match &self.replies {
            Some(path) => {
                let file =
                    File::create(path).map_err(|why| Failure::Usage(format!("{}: {why}", path.display())))?;
                Some(Mutex::new(file))
            }
            None => None,
        };
        #[expect(clippy::cast_possible_truncation, reason = "no number is invalid")]
        let seed = World::real().entropy.draw() as u64;
        let live = self.visualize.then(|| Mutex::new(Live::new(rule::Profile::Strict, seed)));
        let printer = Arc::new(ReplayPrinter { json: invocation.json, replies, live });
        invocation::block_on(self.serve(&name, script, Arc::clone(&printer)))?;
        printer.finish()
    }

    async fn serve(
        &self,
        name: &str,
        script: ReplayScript,
        printer: Arc<ReplayPrinter>,
    ) -> Result<(), Failure> {
        let options = ReplayOptions {
            bind: self.bind,
            port: self.port,
            pace: if self.no_delay { Pace::AtOnce } else { Pace::Recorded { speed: self.speed } },
            wait: !self.no_wait,
            fresh: self.fresh,
            repeat: self.repeat,
            stay: self.stay,
            hold: self.wait_for_replies,
        };
        let (lines, skipped_lines) = (script.len(), script.skipped_lines());
        let json = printer.json;
        let notify: NoticeSink = Arc::new(move |notice| printer.print(&notice));
        let replay = Replay::start(&World::real(), script, options, notify).await.map_err(|why| {
            let place = format!("{}:{}", self.bind, self.port);
            Failure::Internal(format!("cannot listen on {place}: {why}; --port 0 picks a free port"))
        })?;
        if !self.bind.is_loopback() {
            note(&format!(
                "warning: every client that can reach {} receives this recording without authentication",
                self.bind
            ));
        }
        let besides = match skipped_lines {
            0 => String::new(),
            1 => "; 1 handshake or reply is skipped".to_owned(),
            count => format!("; {count} handshakes and replies are skipped"),
        };
        note(&format!("{name}: {lines} lines are sent{besides}"));
        note(&format!("listening on {}", replay.url()));
        if json {
            Output::new().value(&json!({ "told": "listening", "url": replay.url(), "lines": lines }))?;
        }
        tokio::select! {
            () = replay.ended() => return Ok(()),
            interrupted = tokio::signal::ctrl_c() => {
                interrupted.map_err(|why| Failure::Internal(format!("cannot receive signals: {why}")))?;
            }
        }
        note("interrupted; closing streams");
        replay.stop().await;
        Ok(())
    }
}

/// Reads the arrival times from the file beside the recording, if it exists.
fn read_times(recording: &Path) -> Result<Option<String>, Failure> {
    let mut name = recording.as_os_str().to_owned();
    name.push(".times");
    match std::fs::read_to_string(&name) {
        Ok(times) => Ok(Some(times)),
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(why) => Err(Failure::Usage(format!("{}: {why}", Path::new(&name).display()))),
    }
}

/// Prints notices as sentences on stderr or as JSON on stdout, and writes replies to their file.
struct ReplayPrinter {
    json: bool,
    replies: Option<Mutex<File>>,
    /// Describes the sent events, with `--visualize`.
    live: Option<Mutex<Live>>,
}

impl ReplayPrinter {
    /// Prints the end of the description.
    fn finish(&self) -> Result<(), Failure> {
        let Some(live) = &self.live else { return Ok(()) };
        self.print_account(None, &live.lock().unwrap_or_else(PoisonError::into_inner).finish())
    }

    fn print_account(&self, line: Option<u32>, lines: &[String]) -> Result<(), Failure> {
        if self.json && !lines.is_empty() {
            return Output::new().value(&json!({ "told": "account", "line": line, "account": lines }));
        }
        Output::new().lines(lines)
    }

    fn print(&self, notice: &ReplayNotice<'_>) {
        if let (ReplayNotice::Reply { text, .. }, Some(file)) = (notice, &self.replies) {
            let line: String = text.chars().map(|c| if matches!(c, '\r' | '\n') { ' ' } else { c }).collect();
            let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
            if let Err(why) = writeln!(file, "{line}") {
                note(&format!("cannot write a reply: {why}"));
            }
        }
        if let (ReplayNotice::Line { line, text, .. }, Some(live)) = (notice, &self.live) {
            let text = String::from_utf8_lossy(text);
            let mut live = live.lock().unwrap_or_else(PoisonError::into_inner);
            // A closed output is ignored; the replay continues for its subscribers.
            self.print_account(Some(*line), &live.push(*line as usize, &text)).ok();
        }
        if !self.json {
            if let Some(words) = describe_notice(notice) {
                note(&words);
            }
            return;
        }
        let Some(value) = notice_json(notice) else { return };
        // A closed output is ignored; the replay continues for its subscribers.
        Output::new().value(&value).ok();
    }
}

fn describe_notice(notice: &ReplayNotice<'_>) -> Option<String> {
    Some(match notice {
        ReplayNotice::RoundStarted { round: 0 } => "playback started".to_owned(),
        ReplayNotice::RoundStarted { round } => {
            format!("playback started again (round {})", u64::from(*round) + 1)
        }
        ReplayNotice::ListenerJoined { listeners, after: None } => {
            format!("a subscriber connected ({listeners} in total)")
        }
        ReplayNotice::ListenerJoined { listeners, after: Some(id) } => {
            format!("a subscriber resumed after {id} ({listeners} in total)")
        }
        ReplayNotice::ListenerLeft { lines, of, listeners } => {
            format!("a subscriber disconnected after {lines} of {of} lines ({listeners} connected)")
        }
        ReplayNotice::WaitingForReply { line, until } => {
            format!("line {line} is a prompt: waiting for a reply, at most {} s", until.as_secs_f32().ceil())
        }
        ReplayNotice::ReplyTimedOut { line } => format!("line {line} got no reply in time"),
        ReplayNotice::WaitingForListener => "all lines sent; waiting for a subscriber to return".to_owned(),
        ReplayNotice::Reply { text, outcome } => format!("{}: {text}", describe_outcome(outcome)),
        ReplayNotice::Input { text } => format!("work requested, which a recording cannot do: {text}"),
        _ => return None,
    })
}

fn describe_outcome(outcome: &ReplyOutcome) -> String {
    match outcome {
        ReplyOutcome::Accepted { line, value, recorded } => {
            let differs = match recorded {
                Some(recorded) if recorded == value => String::new(),
                Some(recorded) => format!("; the recording continues as after {recorded}"),
                None => "; the recording has no reply here".to_owned(),
            };
            format!("line {line}: reply {value}{differs}")
        }
        ReplyOutcome::Duplicate { line } => format!("line {line}: another reply, ignored"),
        ReplyOutcome::Late { line } => format!("line {line}: reply too late"),
        ReplyOutcome::Invalid { line, value } => {
            format!("line {line}: reply {value}, which the prompt does not offer")
        }
        ReplyOutcome::UnknownSubscription => "reply on an unknown subscription".to_owned(),
        ReplyOutcome::Unknown => "reply to an unknown prompt".to_owned(),
    }
}

fn notice_json(notice: &ReplayNotice<'_>) -> Option<serde_json::Value> {
    Some(match notice {
        ReplayNotice::RoundStarted { round } => json!({ "told": "begins", "round": round }),
        ReplayNotice::ListenerJoined { listeners, after } => {
            json!({ "told": "comes", "listeners": listeners, "after": after })
        }
        ReplayNotice::ListenerLeft { lines, of, listeners } => {
            json!({ "told": "left", "lines": lines, "of": of, "listeners": listeners })
        }
        ReplayNotice::WaitingForReply { line, until } => {
            json!({ "told": "waits", "line": line, "ms": until.as_millis() })
        }
        ReplayNotice::ReplyTimedOut { line } => json!({ "told": "timed_out", "line": line }),
        ReplayNotice::WaitingForListener => json!({ "told": "lingers" }),
        ReplayNotice::Reply { text, outcome } => {
            let (outcome, line) = match outcome {
                ReplyOutcome::Accepted { line, .. } => ("taken", Some(line)),
                ReplyOutcome::Duplicate { line } => ("again", Some(line)),
                ReplyOutcome::Late { line } => ("late", Some(line)),
                ReplyOutcome::Invalid { line, .. } => ("unfit", Some(line)),
                ReplyOutcome::UnknownSubscription => ("stranger", None),
                ReplyOutcome::Unknown => ("unknown", None),
            };
            json!({ "told": "reply", "outcome": outcome, "line": line, "reply": text })
        }
        ReplayNotice::Input { text } => json!({ "told": "input", "input": text }),
        _ => return None,
    })
}
