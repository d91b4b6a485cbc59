//! Group commit: requests to one run that wait together share an append. Each is judged by itself and answered by itself;
//! nobody is answered before the append is durable.

use std::sync::PoisonError;

use recount_event::family::run::Driver;
use recount_event::{Code, Draft, Event, Stamp};
use recount_log::RowPut;
use recount_run::Command;
use tokio::sync::oneshot;

use crate::write::artifacts::{blobs, uploads};
use crate::write::commit::Commit;
use crate::write::ingest;
use crate::write::ingest::{Landing, Standing};
use crate::write::loaded_run::LoadedRun;
use crate::write::request::{Answer, Inbox, Reported, Work, send};
use crate::write::run_writer::{Decided, Writer};
use crate::{Error, Receipt, Triple, limits};

/// One command that was accepted and waits for the append.
struct Pending {
    reply: oneshot::Sender<Answer>,
    outcome: Outcome,
}

enum Outcome {
    Refused(Error),
    Nothing,
    /// Events with these sequences, in the append in hand.
    Landing(u64, u64),
    /// Events of an earlier append.
    Landed(u64, u64),
}

impl Writer {
    /// Takes messages until an append is full, appends, and answers.
    pub(super) async fn serve_some(&mut self, left: &mut std::vec::Drain<'_, Inbox>) {
        let mut awake = match self.awake.take() {
            Some(awake) => awake,
            None => match self.wake().await {
                Ok(awake) => awake,
                Err(error) => {
                    for Inbox { reply, .. } in left {
                        send(reply, Answer::Done(Err(error.clone())));
                    }
                    return;
                }
            },
        };
        let first = awake.state.next_sequence();
        let had_ended = awake.state.is_ended();
        let mut pending = Vec::new();
        let mut bytes = 0;
        let mut commit = Commit::default();
        let mut next = first;
        // Whether the timers wait to hear what is due next.
        let mut looked = false;
        let mut driver = awake.state.driver();
        while bytes < limits::APPEND_BYTES_MAX {
            if left.as_slice().first().is_none_or(|next| next.work.is_alone()) {
                break;
            }
            let Some(Inbox { work, reply }) = left.next() else { break };
            looked |= matches!(work, Work::Due { .. });
            let decided = match work {
                Work::Command(command) => self.command(&mut awake, command, self.stamp()).await,
                Work::Due { at_ms } => {
                    // The timer says that it is time, whatever the clock says by now.
                    let stamp = self.stamp();
                    let stamp = Stamp { now_ms: stamp.now_ms.max(at_ms), ..stamp };
                    self.command(&mut awake, Command::Tick, stamp).await
                }
                Work::Report { claim, drafts, out } => self.report(&mut awake, claim, drafts, &out).await,
                Work::Ingest(triple, drafts) => {
                    self.ingest(&mut awake, triple, drafts, &mut commit.rows).await
                }
                Work::Beside { .. } | Work::Prune { .. } | Work::Erase { .. } => {
                    Err(Error::bug("what is served alone came with others"))
                }
            };
            let outcome = match decided {
                Ok(Decided::Events(events)) if events.is_empty() => Outcome::Nothing,
                Ok(Decided::Events(events)) => {
                    driver = awake.state.driver();
                    commit.rows.extend(self.used(driver, &events).await);
                    bytes += commit.events(self.run, next, &events);
                    let from = next;
                    next += events.len() as u64;
                    Outcome::Landing(from, next - 1)
                }
                Ok(Decided::Landed(landing)) => Outcome::Landed(landing.first, landing.last),
                Err(error) => Outcome::Refused(error),
            };
            pending.push(Pending { reply, outcome });
        }
        commit.rows.extend(awake.fold.rows(&awake.state));
        commit.rows.append(&mut awake.allowances);
        let named = blobs::named(&commit.rows);
        match self.tools.commit(commit).await {
            Ok(landed) => {
                self.tools.blobs.named(Some(self.run), named);
                self.landed(awake, had_ended, looked);
                for pending in pending {
                    let answer = self.answer(pending.outcome, landed.of(self.run)).await;
                    send(pending.reply, Answer::Done(answer));
                }
            }
            Err(failed) => {
                if driver != Driver::Own {
                    // They were held for this append alone; a run of our own tries again with what it keeps.
                    self.tools.blobs.named(Some(self.run), named);
                }
                let error = failed.meaning(self.run).into_error();
                // A guard can only fail here when two runs took the same id in the same moment, and a size
                // only be too large when somebody sent that much. When several commands shared the append
                // it is not known which was at fault; none has happened, so each may be tried again by who
                // sent it.
                let shared = pending.len() > 1;
                let blames_one = error.code() == Code::LimitReached || matches!(error, Error::Rejected(_));
                for pending in pending {
                    let answer = match pending.outcome {
                        Outcome::Refused(refused) if !shared => Err(refused),
                        _ if shared && blames_one => Err(Error::Failed(crate::Failure {
                            code: Code::StoreBusy,
                            message: "another command of the same moment was refused; try again".into(),
                            retry_after: Some(std::time::Duration::ZERO),
                            damage: None,
                        })),
                        _ => Err(error.clone()),
                    };
                    send(pending.reply, Answer::Done(answer));
                }
            }
        }
    }

    async fn report(
        &self,
        awake: &mut LoadedRun,
        claim: Option<u64>,
        drafts: Vec<Draft>,
        out: &Reported,
    ) -> Result<Decided, Error> {
        if claim != awake.state.claim() {
            let message = format!("another worker has {} by now; leave it", self.run);
            return Err(Error::rejected(Code::EventRefused, message));
        }
        let decided = self.command(awake, Command::Progress { drafts }, self.stamp()).await?;
        if let Decided::Events(events) = &decided {
            out.lock().unwrap_or_else(PoisonError::into_inner).clone_from(events);
        }
        Ok(decided)
    }

    async fn ingest(
        &self,
        awake: &mut LoadedRun,
        triple: Triple,
        mut drafts: Vec<Draft>,
        rows: &mut Vec<RowPut>,
    ) -> Result<Decided, Error> {
        let said = ingest::Said::by(&drafts);
        let standing = awake.producers.judge(&*self.tools.store, self.run, &triple, &said).await?;
        if let Standing::Repeated(landing) = standing {
            return Ok(Decided::Landed(landing));
        }
        let masking = awake.redaction.drafts(&awake.texts, &awake.state, &mut drafts)?;
        let events = recount_run::decide(&awake.state, Command::Append { drafts }, self.stamp())?;
        let (Some(first), Some(last)) = (events.first(), events.last()) else {
            return Err(Error::bug("an accepted batch has no events"));
        };
        self.check_ids(&events).await?;
        let digest = said.digest(masking.masked);
        let landing = Landing { first: first.sequence, last: last.sequence, digest };
        rows.push(awake.producers.note(self.run, &triple, landing));
        awake.apply(&events, masking);
        Ok(Decided::Events(events))
    }

    /// What was sent in and is an artifact of this run now: see [`artifact::used`]. Where that cannot be seen it is
    /// forgotten in its time, or is not known to have been here.
    async fn used(&self, driver: Driver, events: &[Event]) -> Vec<RowPut> {
        let mut changes = Vec::new();
        for event in events {
            match uploads::used(&*self.tools.store, &self.tools.blobs, driver, event).await {
                Ok(rows) => changes.extend(rows),
                Err(error) => {
                    tracing::warn!(run = %self.run, %error, "what was sent in still counts as waiting")
                }
            }
        }
        changes
    }

    async fn answer(&self, outcome: Outcome, landed: Option<Receipt>) -> Result<Option<Receipt>, Error> {
        let (first_sequence, last_sequence, position) = match (outcome, landed) {
            (Outcome::Refused(error), _) => return Err(error),
            (Outcome::Nothing, _) => return Ok(None),
            (Outcome::Landing(first, last), Some(all)) => {
                (first, last, all.position - (all.last_sequence - last))
            }
            (Outcome::Landing(..), None) => return Err(Error::bug("an append of one run landed in none")),
            (Outcome::Landed(first, last), _) => (first, last, self.position_of(last).await?),
        };
        Ok(Some(Receipt { first_sequence, last_sequence, position }))
    }
}
