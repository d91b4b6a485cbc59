//! Requests that are made once: what came of one is remembered under the key that its sender chose, so that it can
//! be sent again without being done again.
//!
//! What a request makes or changes is remembered in the append that does it, so that no crash comes in between. Where
//! the answer follows from that append alone it is in it too ([`KeyedReply`]); otherwise it follows. This knows nothing
//! of headers: an answer is what the face gives it to keep.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use recount_event::{ForeignId, RunId, SessionId, TaskId};
use recount_log::{Guard, RowPut};
use serde::{Deserialize, Serialize};

use crate::catalogue::artifact_rows::ARTIFACT_PREFIX;
use crate::catalogue::prompt_rows::PromptRow;
use crate::ground::rows;
use crate::{ApprovalRow, ClarificationRow, Error, HandoffRow, RunRow, limits};

/// One request that is to be done once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Once {
    /// Who asks for what under which key, in one text of bounded length.
    pub key: String,
    /// What was sent, added up.
    pub body: String,
}

impl Once {
    /// The rows that remember it.
    pub(crate) fn rows(&self, now_ms: u64, made: Option<Made>, answer: Option<KeptAnswer>) -> Vec<RowPut> {
        let life = u64::try_from(limits::ONCE_LIFE.as_millis()).unwrap_or(u64::MAX);
        let until_ms = now_ms.saturating_add(life);
        let row = OnceRow { body: self.body.clone(), until_ms, made, answer };
        vec![
            rows::put(rows::ONCE, self.key.as_str(), Guard::Any, &row),
            rows::put(rows::ONCE_DUE, rows::due_key(until_ms, &self.key), Guard::Any, &self.key),
        ]
    }
}

/// What was answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptAnswer {
    pub status: u16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// JSON.
    pub body: String,
}

/// Words an answer from what was done.
pub type WordReply<T> = Box<dyn FnOnce(&T) -> Option<KeptAnswer> + Send>;

/// A request with a key, and how it is answered once it is known what it does: worded before the append, so that the
/// answer is durable together with what it reports.
pub struct KeyedReply<T> {
    pub once: Once,
    /// `None` where the answer is too large to be kept: then only what was done is remembered.
    pub word: WordReply<T>,
}

impl<T> KeyedReply<T> {
    /// The rows for the append that does it, and the answer they hold. `made` names what was done for a repeat that
    /// finds no answer.
    pub(crate) fn rows(self, now_ms: u64, made: Made, outcome: &T) -> (Vec<RowPut>, Option<KeptAnswer>) {
        let answer = (self.word)(outcome);
        (self.once.rows(now_ms, Some(made), answer.clone()), answer)
    }
}

/// What a command leaves: the run, and the prompts that it settles.
pub struct CommandOutcome {
    run: RunRow,
    rows: Vec<RowPut>,
}

impl CommandOutcome {
    /// From the rows of the append that holds the command's events.
    pub(crate) fn of(run: RunRow, rows: &[RowPut]) -> Self {
        CommandOutcome { run, rows: rows.to_vec() }
    }

    pub fn run(&self) -> &RunRow {
        &self.run
    }

    pub fn approval(&self, id: &str) -> Option<ApprovalRow> {
        self.prompt(id)
    }

    pub fn clarification(&self, id: &str) -> Option<ClarificationRow> {
        self.prompt(id)
    }

    pub fn handoff(&self, id: &str) -> Option<HandoffRow> {
        self.prompt(id)
    }

    fn prompt<T: PromptRow>(&self, id: &str) -> Option<T> {
        let space = rows::prompts(T::KIND).each;
        let written =
            self.rows.iter().filter(|put| &*put.space == space).filter_map(|put| put.value.as_ref());
        written.filter_map(|value| serde_json::from_slice(value).ok()).find(|row: &T| **row.id() == *id)
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct OnceRow {
    pub(super) body: String,
    pub(super) until_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) made: Option<Made>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) answer: Option<KeptAnswer>,
}

/// What a request made, or where it did what it did. Stored as its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Made {
    Run(RunId),
    Task(TaskId),
    Session(SessionId),
    /// An upload.
    Artifact(ForeignId),
    /// `RUN/SEQUENCE`: the run was changed there.
    At(RunId, u64),
    /// `RUNS/EVENTS`: how much was pruned so far.
    Pruned {
        runs: u64,
        events: u64,
    },
}

impl Made {
    pub fn run(&self) -> Result<RunId, Error> {
        match self {
            Made::Run(run) => Ok(*run),
            other => Err(other.is_no("run")),
        }
    }

    pub fn task(&self) -> Result<TaskId, Error> {
        match self {
            Made::Task(task) => Ok(*task),
            other => Err(other.is_no("task")),
        }
    }

    pub fn session(&self) -> Result<SessionId, Error> {
        match self {
            Made::Session(session) => Ok(*session),
            other => Err(other.is_no("session")),
        }
    }

    pub fn artifact(&self) -> Result<&ForeignId, Error> {
        match self {
            Made::Artifact(artifact) => Ok(artifact),
            other => Err(other.is_no("artifact")),
        }
    }

    /// A key counts for one address, so it never remembers what another address makes.
    fn is_no(&self, wanted: &str) -> Error {
        Error::bug(format!("the idempotency key of a request for a {wanted} belongs to {self:?}"))
    }
}

impl From<Made> for String {
    fn from(made: Made) -> String {
        match made {
            Made::Run(run) => run.to_string(),
            Made::Task(task) => task.to_string(),
            Made::Session(session) => session.to_string(),
            Made::Artifact(artifact) => artifact.to_string(),
            Made::At(run, sequence) => format!("{run}/{sequence}"),
            Made::Pruned { runs, events } => format!("{runs}/{events}"),
        }
    }
}

impl TryFrom<String> for Made {
    type Error = String;

    fn try_from(text: String) -> Result<Made, String> {
        let made = match text.split_once('/') {
            Some((run, sequence)) if run.starts_with(RunId::PREFIX) => {
                run.parse().ok().zip(sequence.parse().ok()).map(|(run, sequence)| Made::At(run, sequence))
            }
            Some((runs, events)) => {
                let numbers = runs.parse().ok().zip(events.parse().ok());
                numbers.map(|(runs, events)| Made::Pruned { runs, events })
            }
            None => (text.parse().map(Made::Run))
                .or_else(|_| text.parse().map(Made::Task))
                .or_else(|_| text.parse().map(Made::Session))
                .ok()
                .or_else(|| ForeignId::parse(&text).ok().filter(is_artifact).map(Made::Artifact)),
        };
        made.ok_or_else(|| format!("{text:?} is not the result of a request"))
    }
}

/// Whether an id is one of those that uploads get.
fn is_artifact(id: &ForeignId) -> bool {
    id.as_str().starts_with(ARTIFACT_PREFIX)
}

/// How such a request stands.
pub enum Standing {
    /// It was not made before: nobody else can make it while this is held.
    New(UnderWay),
    /// It made this, and the client was not answered.
    Made(UnderWay, Made),
    /// It was answered.
    Answered(KeptAnswer),
    /// The key was used for something else.
    Other,
    /// It is being done.
    Busy,
}

/// Requests that are being done.
#[derive(Default)]
pub(crate) struct InFlight(Mutex<HashSet<String>>);

impl InFlight {
    /// Takes a request up, unless it is being done.
    pub(super) fn take_up(self: &Arc<Self>, key: &str) -> Option<UnderWay> {
        let is_new = self.lock().insert(key.to_owned());
        is_new.then(|| UnderWay { doing: self.clone(), key: key.to_owned() })
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.lock().contains(key)
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// That one request is being done; it is over when this is dropped.
pub struct UnderWay {
    doing: Arc<InFlight>,
    key: String,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.doing.lock().remove(&self.key);
    }
}
