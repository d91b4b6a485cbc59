//! Appends events of one or two runs with their rows, cuts and erasures, atomically. All events are appended here,
//! except imports. It must not know the reason.
//!
//! Start with [`Commit::append`]. [`NotCommitted::meaning`] translates failed guards into errors.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures_util::future::Shared;
use recount_event::{Code, Event, RunId};
use recount_log::{Answer, Append, AppendError, Cut, RowPut, Store, StreamAppend};
use recount_run::PromptKind;

use crate::catalogue::prompt_rows::id_taken;
use crate::ground::error::{may_have_happened, run_erased, session_erased, task_erased};
use crate::ground::{journal, rows};
use crate::{Error, Receipt};

/// The content of an append.
#[derive(Default)]
pub(crate) struct Commit {
    runs: Vec<(RunId, StreamAppend)>,
    pub(crate) rows: Vec<RowPut>,
    cuts: Vec<Cut>,
    erased: Vec<RunId>,
    /// Whether it is part of a deletion, which must work on a full disk.
    pub(crate) frees_space: bool,
}

/// The location of the events of each run.
pub(crate) type Receipts = BTreeMap<RunId, Receipt>;

#[derive(Debug, Clone)]
pub(crate) struct NotCommitted {
    pub(crate) error: AppendError,
    /// Nothing of it was written.
    pub(crate) is_certain: bool,
}

/// The outcome of the commit that starts a run, for all who wait for it.
pub(crate) type StartOutcome = Shared<Answer<Receipts, NotCommitted>>;

/// The error of a failed commit.
#[derive(Debug)]
pub(crate) enum CommitFailure {
    /// A row has changed since it was read: read it again.
    Stale,
    Refused(Error),
}

impl Commit {
    /// Adds events of a run after those added before. Returns their bytes.
    pub(crate) fn events(&mut self, run: RunId, first: u64, events: &[Event]) -> usize {
        let mut records = journal::encode(events, first);
        let bytes = records.iter().map(Bytes::len).sum();
        match self.runs.iter_mut().find(|(other, _)| *other == run) {
            Some((_, before)) => before.records.append(&mut records),
            None => {
                let stream = journal::stream_of(run);
                self.runs.push((run, StreamAppend { stream, expected_tail: first, records }));
            }
        }
        bytes
    }

    /// Removes the events before `keep_from`.
    pub(crate) fn cut(&mut self, run: RunId, keep_from: u64) {
        self.cuts.push(Cut { stream: journal::stream_of(run), keep_from });
    }

    /// Removes all events of a run permanently.
    pub(crate) fn erase(&mut self, run: RunId) {
        self.erased.push(run);
    }

    /// Whether it has events of this run only.
    pub(crate) fn is_only_of(&self, run: RunId) -> bool {
        self.runs.iter().all(|(other, _)| *other == run)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.rows.is_empty() && self.cuts.is_empty() && self.erased.is_empty()
    }

    /// Appends it. It is queued when this returns, before the future is polled. `look_again` is called for each run
    /// if the outcome is unknown.
    pub(crate) fn append(
        self,
        store: &dyn Store,
        look_again: impl Fn(RunId) + Send + 'static,
    ) -> Answer<Receipts, NotCommitted> {
        if self.is_empty() {
            return Box::pin(std::future::ready(Ok(Receipts::new())));
        }
        let firsts = self.runs.iter().map(|(run, stream)| (*run, stream.expected_tail)).collect::<Vec<_>>();
        let touched: Vec<RunId> = firsts.iter().map(|(run, _)| *run).chain(self.erased.clone()).collect();
        let answer = store.append(Append {
            streams: self.runs.into_iter().map(|(_, stream)| stream).collect(),
            rows: self.rows,
            cuts: self.cuts,
            erased: self.erased.into_iter().map(journal::stream_of).collect(),
            frees_space: self.frees_space,
        });
        Box::pin(async move {
            let error = match answer.await {
                Ok(committed) => {
                    assert_eq!(
                        committed.streams.len(),
                        firsts.len(),
                        "a receipt has every stream of its append"
                    );
                    let landed = firsts.into_iter().zip(&committed.streams).map(|((run, first), landed)| {
                        assert_eq!(
                            landed.first_sequence, first,
                            "records are stored at their expected positions"
                        );
                        let last_sequence = landed.last_sequence;
                        let position = landed.first_position + (last_sequence - first);
                        (run, Receipt { first_sequence: first, last_sequence, position })
                    });
                    return Ok(landed.collect());
                }
                Err(error) => error,
            };
            if !matches!(error, AppendError::GuardFailed { .. }) {
                tracing::warn!(
                    runs = ?touched,
                    %error,
                    "append failed; these runs are reloaded from the log"
                );
            }
            let is_certain = !may_have_happened(&error);
            if !is_certain {
                touched.into_iter().for_each(look_again);
            }
            Err(NotCommitted { error, is_certain })
        })
    }
}

impl NotCommitted {
    pub(crate) fn meaning(self, run: RunId) -> CommitFailure {
        let AppendError::GuardFailed { space, key, .. } = &self.error else {
            return CommitFailure::Refused(match self.error {
                AppendError::Erased { .. } => run_erased(run),
                other => other.into(),
            });
        };
        let busy = |code, what| {
            let wait = "wait for it to end or cancel it";
            Error::rejected(code, format!("{what} {key} already has an active run; {wait}"))
        };
        CommitFailure::Refused(match &**space {
            rows::TASKS | rows::SETUPS => return CommitFailure::Stale,
            rows::TASK_ACTIVE => busy(Code::TaskBusy, "task"),
            rows::SESSION_ACTIVE => busy(Code::SessionBusy, "session"),
            rows::TASKS_ERASED => task_erased(key),
            rows::SESSIONS_ERASED => session_erased(key),
            rows::APPROVALS => id_taken(PromptKind::Approval, key.rsplit('/').next().unwrap_or(key)),
            rows::ALLOWANCES_HELD => Error::too_many_at_once("the allowance for this call"),
            rows::PINS => {
                let message = format!("{run} is pinned; unpin it before you prune it");
                Error::rejected(Code::RunPinned, message)
            }
            _ => Error::bug(format!("the row {space}/{key} was changed by another writer")),
        })
    }
}

impl CommitFailure {
    /// For a commit without rows that others change.
    pub(crate) fn into_error(self) -> Error {
        match self {
            CommitFailure::Stale => Error::bug("a row with a single writer was changed by another writer"),
            CommitFailure::Refused(error) => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(space: &str) -> NotCommitted {
        let key = "default/a".to_owned();
        let error = AppendError::GuardFailed { space: space.to_owned(), key, actual: None };
        NotCommitted { error, is_certain: true }
    }

    #[test]
    fn every_guarded_space_has_one_error() {
        let run: RunId = "run_01JZZZZZZZZZZZZZZZZZZZZZZZ".parse().unwrap();
        for space in [rows::TASKS, rows::SETUPS] {
            assert!(matches!(failed(space).meaning(run), CommitFailure::Stale), "{space}");
        }
        for (space, code) in [
            (rows::TASK_ACTIVE, Code::TaskBusy),
            (rows::SESSION_ACTIVE, Code::SessionBusy),
            (rows::TASKS_ERASED, Code::TaskErased),
            (rows::SESSIONS_ERASED, Code::SessionErased),
            (rows::APPROVALS, Code::IdTaken),
            (rows::ALLOWANCES_HELD, Code::StoreBusy),
            (rows::PINS, Code::RunPinned),
            (rows::PRODUCERS, Code::Internal),
        ] {
            assert_eq!(failed(space).meaning(run).into_error().code(), code, "{space}");
        }
        let erased = AppendError::Erased { stream: run.to_string() };
        let erased = NotCommitted { error: erased, is_certain: true };
        assert_eq!(erased.meaning(run).into_error().code(), Code::RunErased);
    }
}
