//! Which events of the feed a reader wants, and picking them out.
//!
//! What an envelope says is asked of it; what is said of its run, its kind and how it stands, of the run's row as it
//! is at that moment. What is not wanted moves the reader's cursor all the same.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use recount_event::codec::Envelope;
use recount_event::{RunId, SessionId, TaskId};
use recount_log::{FeedRecord, Store};

use crate::catalogue::table::read_row;
use crate::ground::rows;
use crate::{Error, Narrowing, RunRow};

/// A wish for types of events: one, or all that begin so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TypePattern {
    Exactly(String),
    /// All that begin with this, which ends with a dot or is empty.
    Below(String),
}

impl TypePattern {
    fn takes(&self, type_name: &str) -> bool {
        match self {
            TypePattern::Exactly(name) => name == type_name,
            TypePattern::Below(prefix) => type_name.starts_with(prefix.as_str()),
        }
    }
}

/// What a reader wants; where a part is empty it does not matter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sieve {
    pub types: Vec<TypePattern>,
    pub runs: BTreeSet<RunId>,
    pub tasks: BTreeSet<TaskId>,
    pub sessions: BTreeSet<SessionId>,
    pub kinds: BTreeSet<String>,
    pub statuses: BTreeSet<String>,
    /// What the reader may see at all.
    pub within: Narrowing,
}

impl Sieve {
    /// Whether everything passes.
    pub fn is_open(&self) -> bool {
        *self == Sieve::default()
    }

    fn takes(&self, envelope: &Envelope<'_>) -> bool {
        let wants = |name| self.types.is_empty() || self.types.iter().any(|pattern| pattern.takes(name));
        let among_runs = self.runs.is_empty() || self.runs.contains(&envelope.run_id);
        let among_tasks =
            self.tasks.is_empty() || envelope.task_id.is_some_and(|task| self.tasks.contains(&task));
        let among_sessions = self.sessions.is_empty()
            || envelope.session_id.is_some_and(|session| self.sessions.contains(&session));
        among_runs
            && among_tasks
            && among_sessions
            && self.within.admits(envelope.task_id, envelope.session_id)
            && wants(&envelope.type_name)
    }

    fn asks_for_rows(&self) -> bool {
        !self.kinds.is_empty() || !self.statuses.is_empty()
    }

    fn takes_run(&self, row: &RunRow) -> bool {
        (self.kinds.is_empty() || self.kinds.contains(&row.kind))
            && (self.statuses.is_empty() || self.statuses.contains(&row.status))
    }
}

/// Picks out of the feed what passes a sieve.
#[derive(Clone)]
pub(crate) struct FeedFilter {
    sieve: Arc<Sieve>,
    store: Arc<dyn Store>,
}

impl FeedFilter {
    pub(crate) fn new(sieve: Sieve, store: Arc<dyn Store>) -> Self {
        FeedFilter { sieve: Arc::new(sieve), store }
    }

    pub(crate) async fn sift(&self, found: Vec<FeedRecord>) -> Result<Vec<FeedRecord>, Error> {
        let mut wanted = Vec::new();
        let mut runs: HashMap<RunId, bool> = HashMap::new();
        for found in found {
            let envelope = Envelope::read(&found.record.bytes).map_err(|why| {
                Error::bug(format!("the event at position {} cannot be read: {why}", found.record.position))
            })?;
            if !self.sieve.takes(&envelope) {
                continue;
            }
            if self.sieve.asks_for_rows() {
                let run = envelope.run_id;
                let takes = match runs.get(&run) {
                    Some(takes) => *takes,
                    None => {
                        let takes = self.takes_run(run).await?;
                        runs.insert(run, takes);
                        takes
                    }
                };
                if !takes {
                    continue;
                }
            }
            wanted.push(found);
        }
        Ok(wanted)
    }

    async fn takes_run(&self, run: RunId) -> Result<bool, Error> {
        let Some(row) = self.store.row(rows::RUNS, &rows::tenant_key(run)).await? else { return Ok(false) };
        let row: RunRow = read_row(rows::RUNS, &row.key, &row.value)?;
        Ok(self.sieve.takes_run(&row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_by_name_and_by_what_they_begin_with() {
        let below = |text: &str| TypePattern::Below(text.into());
        let exactly = |text: &str| TypePattern::Exactly(text.into());
        for (pattern, name, takes) in [
            (exactly("tool.completed"), "tool.completed", true),
            (exactly("tool"), "tool.completed", false),
            (below("tool."), "tool.shell.exited", true),
            (below("tool.shell."), "tool.completed", false),
            (below("tool."), "toolbox.opened", false),
            (below(""), "anything.else", true),
        ] {
            assert_eq!(pattern.takes(name), takes, "{pattern:?} {name}");
        }
    }

    #[test]
    fn parts_must_all_be_met() {
        let run = "run_01JZZZZZZZZZZZZZZZZZZZZZZZ";
        let task = "task_01JZZZZZZZZZZZZZZZZZZZZZZZ";
        let text = format!(
            r#"{{"schema_version":"1","event_id":"evt_01JZZZZZZZZZZZZZZZZZZZZZZZ","run_id":"{run}","task_id":"{task}","sequence":0,"occurred_at":"2026-01-01T00:00:00.000Z","type":"run.started","data":{{}}}}"#
        );
        let envelope = Envelope::read(text.as_bytes()).unwrap();
        let types = vec![TypePattern::Below("run.".into())];
        let tasks: BTreeSet<TaskId> = [task.parse().unwrap()].into();
        let other: BTreeSet<TaskId> = ["task_01JYYYYYYYYYYYYYYYYYYYYYYY".parse().unwrap()].into();
        assert!(Sieve::default().is_open() && Sieve::default().takes(&envelope));
        let sieve = Sieve { types: types.clone(), tasks: tasks.clone(), ..Sieve::default() };
        assert!(sieve.takes(&envelope));
        assert!(!Sieve { tasks: other.clone(), ..sieve.clone() }.takes(&envelope));
        assert!(
            !Sieve { sessions: ["chat_01JZZZZZZZZZZZZZZZZZZZZZZZ".parse().unwrap()].into(), ..sieve.clone() }
                .takes(&envelope)
        );
        let within = |tasks| Narrowing { tasks, ..Narrowing::default() };
        assert!(Sieve { within: within(tasks), ..sieve.clone() }.takes(&envelope));
        assert!(!Sieve { within: within(other), ..sieve }.takes(&envelope));
    }
}
