//! The open run of a session or trace: creates it, rebuilds its state from the log, and appends what is recorded. Start with
//! [`OpenRun::create`] and [`OpenRun::load`].

use bytes::Bytes;
use recount_engine::{BatchId, Engine, Error, Failure, IdempotencyKey, ListQuery, NewRun, RunRow, Upload};
use recount_event::family::run::{Agent, Driver, Queued, RunKind};
use recount_event::{Code, Event, ForeignId, RunId, SessionId, codec, door};
use recount_record::{Draft, Patch, PatchFacts, Recording, Source};
use serde_json::Value;

use crate::limits;

/// The producer id of this face.
const PRODUCER: &str = "recount-hooks";

/// An open run and its recording state.
pub(crate) struct OpenRun {
    engine: Engine,
    pub(crate) id: RunId,
    pub(crate) recording: Recording,
    /// The last known event.
    pub(crate) last: Option<u64>,
    epoch: u64,
    seq: u64,
}

/// A run to be opened.
pub(crate) struct Opening {
    pub(crate) title: String,
    pub(crate) agent: Agent,
    pub(crate) source: Source,
    /// What the first event records of the session.
    pub(crate) facts: Value,
    /// The caller's name.
    pub(crate) by: String,
    /// Finds the run again.
    pub(crate) key: Option<IdempotencyKey>,
}

impl OpenRun {
    /// Events at the beginning of a run, of which some describe it.
    pub(crate) const HEAD_EVENTS: usize = 32;

    /// Opens a run.
    pub(crate) async fn create(
        engine: &Engine,
        session: SessionId,
        opening: Opening,
        epoch: u64,
    ) -> Result<Self, Error> {
        let mut queued = Queued::new(RunKind::External);
        queued.driver = Driver::External;
        queued.title = Some(opening.title);
        queued.requested_by = Some(opening.by);
        queued.agent = Some(opening.agent);
        let new = NewRun { queued, task: None, session: Some(session), resumed_from: None };
        let (id, receipt) = engine.write().create_run_keyed(new, opening.key.as_ref()).await?;
        let mut recording = Recording::begin(&opening.source);
        recording.note("session", &opening.facts);
        Ok(OpenRun {
            engine: engine.clone(),
            id,
            recording,
            last: Some(receipt.last_sequence),
            epoch,
            seq: 0,
        })
    }

    /// Rebuilds the recording state of a run from its events.
    pub(crate) async fn load(engine: &Engine, id: RunId, source: &Source, epoch: u64) -> Result<Self, Error> {
        Self::load_seen(engine, id, source, epoch, |_, _| ()).await
    }

    /// The same for a caller that looks at the events, too.
    pub(crate) async fn load_seen(
        engine: &Engine,
        id: RunId,
        source: &Source,
        epoch: u64,
        mut look: impl FnMut(&str, &Value),
    ) -> Result<Self, Error> {
        let mut recording = Recording::resuming(source);
        let mut last = None;
        Self::each_event(engine, id, |sequence, kind, data| {
            last = Some(sequence);
            recording.saw(kind, data);
            look(kind, data);
        })
        .await?;
        recording.resumed();
        Ok(OpenRun { engine: engine.clone(), id, recording, last, epoch, seq: 0 })
    }

    /// Reads the events of a run: sequence, type and data.
    pub(crate) async fn each_event(
        engine: &Engine,
        id: RunId,
        mut take: impl FnMut(u64, &str, &Value),
    ) -> Result<(), Error> {
        let mut last = None;
        loop {
            let (page, has_more) = engine.read().read_run(id, last, limits::APPEND_EVENTS_MAX).await?;
            Self::each_of(&page, &mut take);
            last = page.last().map(|(sequence, _)| *sequence).or(last);
            if !has_more || page.is_empty() {
                return Ok(());
            }
        }
    }

    /// The same for events that were read.
    pub(crate) fn each_of(page: &[(u64, Bytes)], mut take: impl FnMut(u64, &str, &Value)) {
        for (sequence, bytes) in page {
            if let Some((kind, data)) = codec::decode(bytes).ok().as_ref().map(data_of) {
                take(*sequence, &kind, &data);
            }
        }
    }

    /// The newest runs of a session, the newest first.
    pub(crate) async fn newest(
        engine: &Engine,
        session: SessionId,
        limit: usize,
    ) -> Result<Vec<RunRow>, Error> {
        let newest = ListQuery { limit, ..ListQuery::default() };
        Ok(engine.catalogue().list_session_runs(session, &newest).await?.items)
    }

    /// The ids of the messages at the beginning of a run.
    pub(crate) async fn messages(engine: &Engine, id: RunId) -> Result<Vec<String>, Error> {
        let (page, _) = engine.read().read_run(id, None, Self::HEAD_EVENTS).await?;
        let events = page.iter().filter_map(|(_, bytes)| codec::decode(bytes).ok());
        let messages = events.filter(|event| event.type_name() == "user.message");
        Ok(messages.filter_map(|event| data_of(&event).1["message_id"].as_str().map(str::to_owned)).collect())
    }

    /// Stores a change that the agent made as a patch of the run. `by` is the caller.
    pub(crate) async fn add_patch(&mut self, patch: &Patch, by: &str) {
        let upload = Upload {
            kind: "file_snapshot".to_owned(),
            mime: "text/x-diff".to_owned(),
            name: None,
            bytes: patch.text.clone().into(),
            by: by.to_owned(),
        };
        match self.engine.write().upload(upload).await {
            Ok(row) => {
                let facts = PatchFacts::of(patch, &row.id.to_string(), Some(row.hash), row.size_bytes);
                self.recording.patch(Some(&patch.call), &facts);
                self.recording.patch_status(&facts.artifact_id, "applied");
            }
            Err(why) => self.recording.patch_not_stored(patch, &why.to_string()),
        }
    }

    /// Appends the recorded events. After an error the recording may differ from the log and must be loaded again.
    pub(crate) async fn append(&mut self) -> Result<(), Error> {
        let drafts = self.recording.drain();
        for part in drafts.chunks(limits::APPEND_EVENTS_MAX) {
            let drafts = part.iter().map(checked).collect::<Result<Vec<_>, Error>>()?;
            let producer = ForeignId::parse(PRODUCER).expect("the name of this producer is an identifier");
            let triple = BatchId { producer, epoch: self.epoch, seq: self.seq };
            let receipt = self.engine.write().ingest(self.id, triple, drafts).await?;
            self.seq += 1;
            self.last = self.last.max(Some(receipt.last_sequence));
        }
        Ok(())
    }
}

/// The type and data of an event.
pub(crate) fn data_of(event: &Event) -> (String, Value) {
    let written;
    let text = match &event.body.verbatim {
        Some(text) => text.as_ref(),
        None => {
            written = event.payload().write();
            written.as_str()
        }
    };
    (event.type_name().to_owned(), serde_json::from_str(text).unwrap_or(Value::Null))
}

/// Converts a draft to the form of the engine. `recount-record` creates legal drafts, so a refusal is a bug there.
fn checked(draft: &Draft) -> Result<recount_event::Draft, Error> {
    door::draft(&draft.kind, &draft.data.to_string()).map_err(|why| {
        let message =
            format!("a report was translated to an event of type {} that was refused: {why}", draft.kind);
        Failure::new(Code::Internal, message).into()
    })
}
