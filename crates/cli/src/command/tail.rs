//! `recount tail`: events as they come, each once, over any number of connections.

use clap::Args;
use recount_client::reply::Gap;
use recount_client::{Filter, Source, TailItem, Until};

use super::Subject;
use super::ids::{self, IdKind};
use super::invocation::{Asking, Invocation};
use super::reach;
use crate::failure::Failure;
use crate::output::note;
use crate::render::Account;
use crate::render::gap::gap_words;

/// Follow the events of one run or of all runs
#[derive(Args)]
pub(super) struct Tail {
    #[command(flatten)]
    subject: Subject,
    /// Start after this event: its sequence in the run, or with --all its position; -1 starts at the beginning
    #[arg(long, value_name = "CURSOR", allow_negative_numbers = true, value_parser = clap::value_parser!(i64).range(-1..))]
    after: Option<i64>,
    /// Keep following new events until the run ends; with --all, until interrupted
    #[arg(short, long)]
    follow: bool,
    /// Show each piece of streamed text, and never shorten text
    #[arg(long)]
    pieces: bool,
    /// With --all, only events of these types, such as run.failed or tool.*, separated by commas
    #[arg(long = "type", value_name = "TYPES", value_delimiter = ',', conflicts_with = "run")]
    types: Vec<String>,
    /// With --all, only events of runs in this task; repeatable
    #[arg(long, value_name = "TASK", conflicts_with = "run")]
    task: Vec<String>,
    /// With --all, only events of runs in this session; repeatable
    #[arg(long, value_name = "SESSION", conflicts_with = "run")]
    session: Vec<String>,
    /// With --all, only events of runs with this status, such as waiting, separated by commas
    #[arg(long, value_name = "STATUS", value_delimiter = ',', conflicts_with = "run")]
    status: Vec<String>,
    /// With --all, print the position and a tab before each line
    #[arg(long, conflicts_with = "run")]
    positions: bool,
}

impl Tail {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        reach::ask(invocation, |asking| self.ask(asking))
    }

    async fn ask(self, mut asking: Asking) -> Result<(), Failure> {
        if self.subject.audit {
            asking.client = asking.client.audit();
        }
        let (source, mut account) = match self.subject.run {
            Some(run) => {
                let run = ids::full(&asking.client, IdKind::Run, &run).await?;
                (Source::Run(run), Account::of_run(self.pieces))
            }
            None => {
                let filter = Filter {
                    types: self.types,
                    tasks: self.task,
                    sessions: self.session,
                    statuses: self.status,
                    ..Filter::default()
                };
                let source = if filter == Filter::default() { Source::Feed } else { Source::FeedOf(filter) };
                (source, Account::of_feed(self.pieces))
            }
        };
        let until = if self.follow { Until::Ended } else { Until::CaughtUp };
        let after = self.after.and_then(|after| u64::try_from(after).ok());
        let mut tail = asking.client.tail(source, after, until);
        let mut interrupt = std::pin::pin!(tokio::signal::ctrl_c());
        let mut away = false;
        loop {
            let item = tokio::select! {
                biased;
                _ = &mut interrupt => {
                    finish(&mut asking, &mut account)?;
                    note(&format!("interrupted; {}", goes_on(&tail)));
                    return Err(Failure::Interrupted);
                }
                item = tail.next() => item,
            };
            match item {
                None => break,
                Some(Ok(TailItem::Event { cursor, envelope })) => {
                    away = false;
                    let position = self.positions.then_some(cursor);
                    print_event_at(&mut asking, &mut account, position, &envelope)?;
                }
                Some(Ok(TailItem::Gap(gap))) => print_gap(&mut asking, &gap)?,
                Some(Ok(TailItem::CaughtUp { .. })) => {
                    if std::mem::take(&mut away) {
                        note("reconnected");
                    }
                }
                Some(Ok(TailItem::Disconnected { reason, .. })) => {
                    if !std::mem::replace(&mut away, true) {
                        note(&format!("connection lost ({reason}); reconnecting"));
                    }
                }
                Some(Err(why)) => {
                    if tail.cursor() != after {
                        note(&goes_on(&tail));
                    }
                    return Err(why.into());
                }
            }
        }
        finish(&mut asking, &mut account)?;
        // Following ends with the run only. Otherwise the server is queried; without a response it counts as open.
        if self.follow || tail.is_whole().await.unwrap_or(false) {
            note("the run has ended");
        } else {
            note(&format!("caught up; {}", goes_on(&tail)));
        }
        Ok(())
    }
}

/// How to continue after the last event that was printed.
fn goes_on(tail: &recount_client::Tail) -> String {
    match tail.cursor() {
        Some(cursor) => format!("continue with --after {cursor}"),
        None => "continue with --after -1".to_owned(),
    }
}

/// Prints one event, as JSON or in words.
pub(super) fn print_event(asking: &mut Asking, account: &mut Account, envelope: &str) -> Result<(), Failure> {
    print_event_at(asking, account, None, envelope)
}

/// The same, with a position before each line.
fn print_event_at(
    asking: &mut Asking,
    account: &mut Account,
    position: Option<u64>,
    envelope: &str,
) -> Result<(), Failure> {
    let before = position.map(|position| format!("{position}\t")).unwrap_or_default();
    if asking.json {
        return asking.out.json_behind(&before, envelope);
    }
    let lines = account.event(envelope.as_bytes());
    lines.iter().try_for_each(|line| asking.out.line(&format!("{before}{line}")))
}

/// Prints what was started and never completed.
pub(super) fn finish(asking: &mut Asking, account: &mut Account) -> Result<(), Failure> {
    asking.out.lines(&account.finish())
}

/// Prints which events are missing: among the lines, or on stderr beside JSON.
pub(super) fn print_gap(asking: &mut Asking, gap: &Gap) -> Result<(), Failure> {
    let words = gap_words(gap);
    if asking.json {
        note(&words);
        return Ok(());
    }
    asking.out.line(&words)
}
