//! `recount tail`: events as they come, each once, over any number of connections.

use clap::Args;
use recount_client::{Source, Told, Until};

use super::{Asking, Subject};
use crate::exit::Failure;
use crate::output::note;
use crate::render::Account;

#[derive(Args)]
pub(super) struct Tail {
    #[command(flatten)]
    subject: Subject,
    /// Begin behind this event: its sequence in the run, or with --all its position
    #[arg(long)]
    after: Option<u64>,
    /// Go on with what comes, until the run ends; with --all until interrupted
    #[arg(short, long)]
    follow: bool,
    /// Tell the pieces of texts as they came, and every text in full
    #[arg(long)]
    pieces: bool,
}

impl Tail {
    pub(super) async fn run(self, mut asking: Asking) -> Result<(), Failure> {
        let (source, mut account) = match self.subject.run {
            Some(run) => (Source::Run(run), Account::of_run(self.pieces)),
            None => (Source::Feed, Account::of_feed(self.pieces)),
        };
        let until = if self.follow { Until::Ended } else { Until::CaughtUp };
        let mut tail = asking.client.tail(source, self.after, until);
        let mut away = false;
        while let Some(told) = tail.next().await {
            match told? {
                Told::Event { envelope, .. } => {
                    away = false;
                    tell(&mut asking, &mut account, &envelope)?;
                }
                Told::CaughtUp { cursor } => {
                    let back = std::mem::take(&mut away);
                    if back {
                        note("connected again");
                    }
                    if until == Until::CaughtUp
                        && let Some(cursor) = cursor
                    {
                        note(&format!("caught up; --after {cursor} goes on from here"));
                    }
                }
                Told::Disconnected { reason, .. } => {
                    if !std::mem::replace(&mut away, true) {
                        note(&format!("the connection broke ({reason}); trying again"));
                    }
                }
            }
        }
        finish(&mut asking, &mut account)
    }
}

/// Tells one event, as it is or in words.
pub(super) fn tell(asking: &mut Asking, account: &mut Account, envelope: &str) -> Result<(), Failure> {
    if asking.json {
        return asking.out.json(envelope);
    }
    asking.out.lines(&account.event(envelope.as_bytes()))
}

/// Tells what was begun and never completed.
pub(super) fn finish(asking: &mut Asking, account: &mut Account) -> Result<(), Failure> {
    asking.out.lines(&account.finish())
}
