//! Runs that a killed recorder left open: the next recorder closes them and records that the end is missing.
//!
//! Each recorder keeps a journal, locked while the process lives: the request for a run before it is sent, then the run's id,
//! then its end. A torn last line is ignored; earlier lines are never rewritten. See [`Leftover`] and [`close_left_open`].

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use recount_client::request::{AppendEvents, CreateRun, NewEvent, Producer};
use recount_client::{Client, ClientError};
use recount_record::{Ending, Recording, acp};
use recount_world::platform::private_file;
use serde::{Deserialize, Serialize};
use serde_json::value::to_raw_value;

use super::producer::{AcpProducer, all_events};
use crate::limits;
use crate::render::count;

/// A line of the journal.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum LeftoverLine {
    Recorder {
        url: String,
        producer: String,
        epoch: u64,
    },
    /// It will be created with this key.
    Creating {
        key: String,
        request: Box<CreateRun>,
    },
    Created {
        key: String,
        run: String,
    },
    /// The server did not create it.
    NotCreated {
        key: String,
    },
    /// It is over, or is no longer recorded.
    Over {
        run: String,
    },
    /// Events that could not be sent before the recorder ended.
    Unsent(usize),
}

/// The open runs of this recorder. Without a folder to write to nothing is kept, and nothing fails.
pub(super) struct Leftover {
    file: Option<(PathBuf, File)>,
    producer: String,
    creations: u64,
    /// Runs that are not over, or may have been created.
    open: usize,
}

impl Leftover {
    pub(super) fn open(folder: Option<&Path>, url: &str, who: &AcpProducer) -> Self {
        let file = folder.and_then(|folder| {
            fs::create_dir_all(folder).ok()?;
            let path = folder.join(format!("{}.jsonl", who.producer));
            let mut options = OpenOptions::new();
            // Prompts are in it.
            let file = private_file(options.create_new(true).append(true)).open(&path).ok()?;
            file.try_lock().ok()?;
            Some((path, file))
        });
        let producer = who.producer.clone();
        let mut leftover = Leftover { file, producer: producer.clone(), creations: 0, open: 0 };
        leftover.write(&LeftoverLine::Recorder { url: url.to_owned(), producer, epoch: who.epoch });
        leftover
    }

    /// Records the request for a run before it is sent; returns its idempotency key.
    pub(super) fn creating(&mut self, request: &CreateRun) -> String {
        self.creations += 1;
        self.open += 1;
        let key = format!("{}-{}", self.producer, self.creations);
        self.write(&LeftoverLine::Creating { key: key.clone(), request: Box::new(request.clone()) });
        key
    }

    pub(super) fn created(&mut self, key: &str, run: &str) {
        self.write(&LeftoverLine::Created { key: key.to_owned(), run: run.to_owned() });
    }

    pub(super) fn not_created(&mut self, key: &str) {
        self.open = self.open.saturating_sub(1);
        self.write(&LeftoverLine::NotCreated { key: key.to_owned() });
    }

    pub(super) fn over(&mut self, run: &str) {
        self.open = self.open.saturating_sub(1);
        self.write(&LeftoverLine::Over { run: run.to_owned() });
    }

    /// This recorder ends. What it could not end is left to the next one.
    pub(super) fn end(&mut self, unsent: usize) {
        if self.open > 0 {
            return self.write(&LeftoverLine::Unsent(unsent));
        }
        if let Some((path, _)) = &self.file {
            fs::remove_file(path).ok();
        }
    }

    fn write(&mut self, line: &LeftoverLine) {
        let Some((_, file)) = &mut self.file else { return };
        let mut text = serde_json::to_vec(line).unwrap_or_default();
        text.push(b'\n');
        // What cannot be written is not found by the next recorder; the run stays open then.
        file.write_all(&text).ok();
    }
}

/// The journal of a recorder that no longer runs.
#[derive(Debug, Default)]
struct LeftOpen {
    url: String,
    producer: String,
    epoch: u64,
    creating: Vec<(String, CreateRun)>,
    runs: Vec<String>,
    unsent: usize,
}

impl LeftOpen {
    fn read(journal: &str) -> Self {
        let mut left = LeftOpen::default();
        for line in journal.lines() {
            let Ok(line) = serde_json::from_str(line) else { continue };
            match line {
                LeftoverLine::Recorder { url, producer, epoch } => {
                    (left.url, left.producer, left.epoch) = (url, producer, epoch);
                }
                LeftoverLine::Creating { key, request } => left.creating.push((key, *request)),
                LeftoverLine::Created { key, run } => {
                    left.creating.retain(|(creating, _)| *creating != key);
                    left.runs.push(run);
                }
                LeftoverLine::NotCreated { key } => left.creating.retain(|(creating, _)| *creating != key),
                LeftoverLine::Over { run } => left.runs.retain(|open| *open != run),
                LeftoverLine::Unsent(unsent) => left.unsent = unsent,
            }
        }
        left
    }

    fn what(&self) -> String {
        match self.unsent {
            0 => {
                "the recorder was killed; what the agent did after the last event was not recorded".to_owned()
            }
            unsent => format!(
                "the server was unreachable when the recorder ended; {} and everything after are missing",
                count(unsent as u64, "event")
            ),
        }
    }
}

/// Closes the runs of recorders whose process has ended.
pub(super) async fn close_left_open(folder: Option<&Path>, url: &str, client: &Client) {
    let Some(entries) = folder.and_then(|folder| fs::read_dir(folder).ok()) else { return };
    for entry in entries.flatten().take(limits::ACP_LEFT_OPEN_MAX) {
        let path = entry.path();
        if path.extension().is_none_or(|extension| extension != "jsonl") {
            continue;
        }
        let Ok(mut file) = OpenOptions::new().read(true).write(true).open(&path) else { continue };
        // A recorder that lives holds it.
        if file.try_lock().is_err() {
            continue;
        }
        let mut journal = Vec::new();
        // What cannot be read now is kept for the next recorder.
        if file.read_to_end(&mut journal).is_err() {
            continue;
        }
        let mut left = LeftOpen::read(&String::from_utf8_lossy(&journal));
        if left.url != url && !left.url.is_empty() {
            continue;
        }
        if close_all(client, &mut left).await.is_ok() {
            fs::remove_file(&path).ok();
        }
    }
}

/// Fails only where a later attempt may succeed.
async fn close_all(client: &Client, left: &mut LeftOpen) -> Result<(), ClientError> {
    for (key, request) in std::mem::take(&mut left.creating) {
        // Created earlier or now: the agent got its prompt in either case.
        match client.once(&key).create_run(&request).await {
            Ok(run) => left.runs.push(run.id),
            Err(why) if why.may_pass() => return Err(why),
            Err(_) => {}
        }
    }
    for run in &left.runs {
        close(client, left, run).await?;
    }
    Ok(())
}

/// Closes a run, if possible. The killed recorder's last batch may arrive meanwhile; then the run is read again.
async fn close(client: &Client, left: &LeftOpen, run: &str) -> Result<(), ClientError> {
    for attempt in 0..limits::ACP_CLOSE_ATTEMPTS_MAX {
        let events = match all_events(client, run).await {
            Ok(events) => events,
            Err(why) if why.may_pass() => return Err(why),
            Err(_) => return Ok(()),
        };
        let source = acp::source(None, 1);
        let mut recording = Recording::resume(&source, events.iter().map(|(kind, data)| (&**kind, data)));
        let what = left.what();
        recording.gap("recorder_gone", &what);
        recording.end(Ending::Failed { code: "recorder_gone".into(), message: what });
        let event = |draft: recount_record::Draft| {
            let data = to_raw_value(&draft.data).ok()?;
            Some(NewEvent { event_type: draft.kind.into_owned(), data })
        };
        let events: Vec<NewEvent> = recording.drain().into_iter().filter_map(event).collect();
        if events.is_empty() {
            return Ok(());
        }
        let producer = Producer { id: left.producer.clone(), epoch: left.epoch + 1 + attempt, seq: 0 };
        match client.append_run_events(run, &AppendEvents { producer, events }).await {
            Ok(_) => return Ok(()),
            Err(why) if why.may_pass() => return Err(why),
            Err(_) => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wherever_a_journal_is_cut_off_what_was_written_before_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let who = AcpProducer {
            producer: "acp-1".to_owned(),
            epoch: 7,
            agent: "scripted".to_owned(),
            agent_version: None,
        };
        let mut leftover = Leftover::open(Some(folder.path()), "http://127.0.0.1:1", &who);
        let first = leftover.creating(&CreateRun::default());
        leftover.created(&first, "run_1");
        let second = leftover.creating(&CreateRun::default());
        leftover.created(&second, "run_2");
        leftover.over("run_1");
        let third = leftover.creating(&CreateRun::default());
        leftover.not_created(&third);
        let fourth = leftover.creating(&CreateRun::default());
        leftover.end(3);
        let path = folder.path().join("acp-1.jsonl");
        let journal = std::fs::read_to_string(&path).unwrap();
        // How many lines are whole, and what is open then.
        let open = [
            (vec![], vec![]),
            (vec![], vec![]),
            (vec![&first], vec![]),
            (vec![], vec!["run_1"]),
            (vec![&second], vec!["run_1"]),
            (vec![], vec!["run_1", "run_2"]),
            (vec![], vec!["run_2"]),
            (vec![&third], vec!["run_2"]),
            (vec![], vec!["run_2"]),
            (vec![&fourth], vec!["run_2"]),
            (vec![&fourth], vec!["run_2"]),
        ];
        assert_eq!(journal.lines().count() + 1, open.len());
        for end in 0..=journal.len() {
            // A line counts when all but its line feed is there.
            let whole = journal[..end].matches('\n').count() + usize::from(journal[end..].starts_with('\n'));
            let left = LeftOpen::read(&journal[..end]);
            let (creating, runs) = &open[whole];
            assert_eq!(left.creating.iter().map(|(key, _)| key).collect::<Vec<_>>(), *creating, "{end}");
            assert_eq!(left.runs, *runs, "{end}");
            assert_eq!(left.unsent, if whole + 1 == open.len() { 3 } else { 0 });
        }
    }

    #[test]
    fn a_recorder_without_open_runs_leaves_no_journal() {
        let folder = tempfile::tempdir().unwrap();
        let who = AcpProducer {
            producer: "acp-2".to_owned(),
            epoch: 7,
            agent: "scripted".to_owned(),
            agent_version: None,
        };
        let mut leftover = Leftover::open(Some(folder.path()), "http://127.0.0.1:1", &who);
        let key = leftover.creating(&CreateRun::default());
        leftover.created(&key, "run_1");
        leftover.over("run_1");
        leftover.end(0);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
