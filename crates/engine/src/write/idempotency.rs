//! Idempotency keys: the result of a request is stored under a key of the client, so that a repeated request is not
//! executed again.
//!
//! The append that executes a request also stores its result, so that no crash can separate them. A result refers to what
//! was created or to the event that changed a run; the face renders the response again from it. It must not know
//! responses or HTTP headers.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use recount_event::{ForeignId, RunId, SessionId, TaskId};
use recount_log::{Guard, RowPut};
use serde::{Deserialize, Serialize};

use crate::catalogue::artifact_rows::ARTIFACT_PREFIX;
use crate::ground::rows;
use crate::{Error, limits};

/// The idempotency key of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey {
    /// A unique key for client, path and the client's key, of bounded length.
    pub key: String,
    /// The digest of the request body.
    pub body: String,
}

impl IdempotencyKey {
    /// The rows that store the result.
    pub(crate) fn rows(&self, now_ms: u64, result: RequestResult) -> Vec<RowPut> {
        let life = u64::try_from(limits::IDEMPOTENCY_KEY_LIFE.as_millis()).unwrap_or(u64::MAX);
        let until_ms = now_ms.saturating_add(life);
        let row = IdempotencyRow { body: self.body.clone(), until_ms, result: Some(result), answer: None };
        vec![
            rows::put(rows::IDEMPOTENCY_KEYS, self.key.as_str(), Guard::Any, &row),
            rows::put(rows::IDEMPOTENCY_KEYS_DUE, rows::due_key(until_ms, &self.key), Guard::Any, &self.key),
        ]
    }
}

/// A response as earlier releases stored it. It is returned until its key expires, and not written any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredResponse {
    pub status: u16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// JSON.
    pub body: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct IdempotencyRow {
    pub(super) body: String,
    pub(super) until_ms: u64,
    #[serde(rename = "made", default, skip_serializing_if = "Option::is_none")]
    pub(super) result: Option<RequestResult>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) answer: Option<StoredResponse>,
}

/// The result of a request: the created item, or the change. Stored as text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum RequestResult {
    Run(RunId),
    Task(TaskId),
    Session(SessionId),
    /// An upload.
    Artifact(ForeignId),
    /// `RUN/SEQUENCE`: the run was changed, and this was its last event then.
    ChangedAt(RunId, u64),
    /// `RUN/FIRST/EVENTS`: so many events before the first one were pruned.
    PrunedRun {
        run: RunId,
        first_sequence: u64,
        events: u64,
    },
    /// `RUNS/EVENTS`: the progress of a prune by policy.
    Pruned {
        runs: u64,
        events: u64,
    },
    /// `RUNS/EVENTS/MORE/DAMAGED`: a prune by policy has finished; more than 0 if another one may find more.
    Swept {
        runs: u64,
        events: u64,
        more: u64,
        damaged: u64,
    },
}

impl RequestResult {
    pub fn run(&self) -> Result<RunId, Error> {
        match self {
            RequestResult::Run(run) => Ok(*run),
            other => Err(other.wrong_kind("run")),
        }
    }

    pub fn task(&self) -> Result<TaskId, Error> {
        match self {
            RequestResult::Task(task) => Ok(*task),
            other => Err(other.wrong_kind("task")),
        }
    }

    pub fn session(&self) -> Result<SessionId, Error> {
        match self {
            RequestResult::Session(session) => Ok(*session),
            other => Err(other.wrong_kind("session")),
        }
    }

    pub fn artifact(&self) -> Result<&ForeignId, Error> {
        match self {
            RequestResult::Artifact(artifact) => Ok(artifact),
            other => Err(other.wrong_kind("artifact")),
        }
    }

    /// A key is valid for one path, so it never stores the result of another kind of request.
    fn wrong_kind(&self, wanted: &str) -> Error {
        Error::bug(format!("the idempotency key of a request for a {wanted} belongs to {self:?}"))
    }
}

impl From<RequestResult> for String {
    fn from(result: RequestResult) -> String {
        match result {
            RequestResult::Run(run) => run.to_string(),
            RequestResult::Task(task) => task.to_string(),
            RequestResult::Session(session) => session.to_string(),
            RequestResult::Artifact(artifact) => artifact.to_string(),
            RequestResult::ChangedAt(run, sequence) => format!("{run}/{sequence}"),
            RequestResult::PrunedRun { run, first_sequence, events } => {
                format!("{run}/{first_sequence}/{events}")
            }
            RequestResult::Pruned { runs, events } => format!("{runs}/{events}"),
            RequestResult::Swept { runs, events, more, damaged } => {
                format!("{runs}/{events}/{more}/{damaged}")
            }
        }
    }
}

impl TryFrom<String> for RequestResult {
    type Error = String;

    fn try_from(text: String) -> Result<RequestResult, String> {
        let result = match text.split_once('/') {
            Some((item, numbers)) => with_numbers(item, numbers),
            None => (text.parse().map(RequestResult::Run))
                .or_else(|_| text.parse().map(RequestResult::Task))
                .or_else(|_| text.parse().map(RequestResult::Session))
                .ok()
                .or_else(|| ForeignId::parse(&text).ok().filter(is_artifact).map(RequestResult::Artifact)),
        };
        result.ok_or_else(|| format!("{text:?} is not the result of a request"))
    }
}

fn with_numbers(item: &str, numbers: &str) -> Option<RequestResult> {
    let numbers: Vec<u64> = numbers.split('/').map(|number| number.parse().ok()).collect::<Option<_>>()?;
    let (run, runs) = (item.parse().ok(), item.parse().ok());
    match *numbers {
        [sequence] if run.is_some() => run.map(|run| RequestResult::ChangedAt(run, sequence)),
        [first_sequence, events] => run.map(|run| RequestResult::PrunedRun { run, first_sequence, events }),
        [events] => runs.map(|runs| RequestResult::Pruned { runs, events }),
        [events, more, damaged] => runs.map(|runs| RequestResult::Swept { runs, events, more, damaged }),
        _ => None,
    }
}

/// Whether an id has the form of an upload id.
fn is_artifact(id: &ForeignId) -> bool {
    id.as_str().starts_with(ARTIFACT_PREFIX)
}

/// The state of a request with a key.
pub enum RequestState {
    /// Not executed before. No other request can claim the key while this is held.
    New(InFlight),
    /// Executed with this result.
    Executed(InFlight, RequestResult),
    /// Executed by an earlier release, which stored the response.
    Answered(StoredResponse),
    /// The key was used with another body.
    KeyReused,
    /// The same request is being executed.
    InProgress,
}

/// Requests that are being executed.
#[derive(Default)]
pub(crate) struct InFlightRequests(Mutex<HashSet<String>>);

impl InFlightRequests {
    /// Claims a key, unless its request is being executed.
    pub(super) fn claim(self: &Arc<Self>, key: &str) -> Option<InFlight> {
        let is_new = self.lock().insert(key.to_owned());
        is_new.then(|| InFlight { requests: self.clone(), key: key.to_owned() })
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.lock().contains(key)
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A claimed key; released when this is dropped.
pub struct InFlight {
    requests: Arc<InFlightRequests>,
    key: String,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.requests.lock().remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_stored_as_text() {
        let run: RunId = "run_01JZZZZZZZZZZZZZZZZZZZZZZZ".parse().unwrap();
        for (result, text) in [
            (RequestResult::Run(run), "run_01JZZZZZZZZZZZZZZZZZZZZZZZ"),
            (RequestResult::ChangedAt(run, 7), "run_01JZZZZZZZZZZZZZZZZZZZZZZZ/7"),
            (
                RequestResult::PrunedRun { run, first_sequence: 7, events: 3 },
                "run_01JZZZZZZZZZZZZZZZZZZZZZZZ/7/3",
            ),
            (RequestResult::Pruned { runs: 2, events: 9 }, "2/9"),
            (RequestResult::Swept { runs: 2, events: 9, more: 1, damaged: 4 }, "2/9/1/4"),
        ] {
            assert_eq!(String::from(result.clone()), text);
            assert_eq!(RequestResult::try_from(text.to_owned()), Ok(result));
        }
        for bad in
            ["", "7", "/", "2/", "2/9/1", "2/9/1/4/5", "run_1/7", "run_01JZZZZZZZZZZZZZZZZZZZZZZZ/7/3/1"]
        {
            assert!(RequestResult::try_from(bad.to_owned()).is_err(), "{bad:?}");
        }
    }
}
