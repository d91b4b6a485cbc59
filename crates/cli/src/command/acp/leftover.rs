//! Runs that a recorder left open when it was killed: the next one closes them, and says that the end is missing.
//!
//! Each recorder has a file with the ids of its open runs, locked while it lives. See [`Leftover`] and [`close_left_open`].

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

use recount_client::Client;
use recount_client::request::{AppendEvents, NewEvent, Producer};
use recount_record::{Ending, Recording, acp};
use serde::{Deserialize, Serialize};
use serde_json::value::to_raw_value;

use super::run::{AcpProducer, all_events};
use crate::limits;

#[derive(Debug, Default, Serialize, Deserialize)]
struct LeftoverState {
    url: String,
    producer: String,
    epoch: u64,
    runs: Vec<String>,
    /// Events that could not be sent before it ended.
    #[serde(default)]
    unsent: usize,
}

/// The open runs of this recorder. Without a folder to write to nothing is kept, and nothing fails.
pub(super) struct Leftover {
    file: Option<(PathBuf, File)>,
    state: LeftoverState,
}

impl Leftover {
    pub(super) fn open(folder: Option<&Path>, url: &str, who: &AcpProducer) -> Self {
        let state = LeftoverState {
            url: url.to_owned(),
            producer: who.producer.clone(),
            epoch: who.epoch,
            ..LeftoverState::default()
        };
        let file = folder.and_then(|folder| {
            fs::create_dir_all(folder).ok()?;
            let path = folder.join(format!("{}.json", who.producer));
            let file = OpenOptions::new().create_new(true).read(true).write(true).open(&path).ok()?;
            file.try_lock().ok()?;
            Some((path, file))
        });
        Leftover { file, state }
    }

    pub(super) fn opened(&mut self, run: &str) {
        self.state.runs.push(run.to_owned());
        self.write();
    }

    pub(super) fn closed(&mut self, run: &str) {
        self.state.runs.retain(|open| open != run);
        self.write();
    }

    /// This recorder ends. What it could not end is left to the next one.
    pub(super) fn end(&mut self, unsent: usize) {
        self.state.unsent = unsent;
        if !self.state.runs.is_empty() {
            return self.write();
        }
        if let Some((path, _)) = &self.file {
            fs::remove_file(path).ok();
        }
    }

    fn write(&mut self) {
        let Some((_, file)) = &mut self.file else { return };
        let text = serde_json::to_vec(&self.state).unwrap_or_default();
        // What cannot be written is not found by the next recorder; the run stays open then.
        file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(&text)).ok();
    }
}

/// Closes the runs of recorders that are gone.
pub(super) async fn close_left_open(folder: Option<&Path>, url: &str, client: &Client) {
    let Some(entries) = folder.and_then(|folder| fs::read_dir(folder).ok()) else { return };
    for entry in entries.flatten().take(limits::ACP_LEFT_OPEN_MAX) {
        let path = entry.path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let Ok(mut file) = OpenOptions::new().read(true).write(true).open(&path) else { continue };
        // A recorder that lives holds it.
        if file.try_lock().is_err() {
            continue;
        }
        let mut text = String::new();
        file.read_to_string(&mut text).ok();
        let state: LeftoverState = serde_json::from_str(&text).unwrap_or_default();
        if state.url != url && !state.url.is_empty() {
            continue;
        }
        let mut is_closed = true;
        for run in &state.runs {
            is_closed &= close(client, &state, run).await;
        }
        if is_closed {
            fs::remove_file(&path).ok();
        }
    }
}

/// Whether the run is over, or cannot be closed at all.
async fn close(client: &Client, state: &LeftoverState, run: &str) -> bool {
    let events = match all_events(client, run).await {
        Ok(events) => events,
        Err(why) => return !why.may_pass(),
    };
    let source = acp::source(None, 1);
    let mut recording = Recording::resume(&source, events.iter().map(|(kind, data)| (&**kind, data)));
    let what = match state.unsent {
        0 => "the recorder was ended; what the agent did after the last event was not seen".to_owned(),
        unsent => format!(
            "the server was away when the recorder ended; {unsent} events and what came after are missing"
        ),
    };
    recording.gap("recorder_gone", &what);
    recording.end(Ending::Failed { code: "recorder_gone".into(), message: what });
    let event = |draft: recount_record::Draft| {
        let data = to_raw_value(&draft.data).ok()?;
        Some(NewEvent { event_type: draft.kind.into_owned(), data })
    };
    let events: Vec<NewEvent> = recording.drain().into_iter().filter_map(event).collect();
    if events.is_empty() {
        return true;
    }
    let producer = Producer { id: state.producer.clone(), epoch: state.epoch + 1, seq: 0 };
    match client.append_run_events(run, &AppendEvents { producer, events }).await {
        Ok(_) => true,
        Err(why) => !why.may_pass(),
    }
}
