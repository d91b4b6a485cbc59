//! Imports one transcript: its task, a run for each request, each line once.
//!
//! Which lines are in the log is read from the log: the raw event of each line carries its key. It must never know
//! formats. Look at [`TranscriptImport`].

use std::collections::{BTreeMap, HashSet};

use recount_client::reply::{Gap, Run};
use recount_client::request::{AgentName, AppendEvents, CreateRun, CreateTask, NewEvent, Producer};
use recount_client::{Client, Listing};
use recount_record::transcript::{
    LinePlace, Transcript, TranscriptLine, TranscriptStep, apply, apply_raw, apply_steps,
};
use recount_record::{Draft, Ending, Patch, PatchFacts, Recording, map_id, session_title_end};
use recount_world::World;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::super::recorded::find_session;
use crate::failure::Failure;
use crate::limits;
use crate::pages::collect;

/// What became of the lines of a transcript.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Tally {
    pub(super) lines: u64,
    pub(super) imported: u64,
    pub(super) already_present: u64,
    pub(super) runs_created: u64,
    /// Runs without a message of a person.
    pub(super) runs_without_prompt: u64,
    /// Lines after the end of a run, which come with the next.
    pub(super) held: u64,
    pub(super) invalid: u64,
    /// Types of lines that this release does not know, and how many of each were kept as raw text.
    pub(super) unknown: BTreeMap<String, u64>,
}

pub(super) struct TranscriptImport {
    client: Client,
    /// The name of the transcript, as an id.
    name: String,
    transcript: Box<dyn Transcript>,
    number: u64,
    task: Option<String>,
    /// Keys of the lines that are in the log.
    recorded: HashSet<String>,
    open: Option<OpenRun>,
    held: Vec<(TranscriptLine, String)>,
    held_bytes: usize,
    dropped: u64,
    has_runs: bool,
    /// The session in which the agent's session was recorded while it worked.
    recorded_session: Option<RecordedSession>,
    pub(super) tally: Tally,
}

/// A session that hooks or the recorder of ACP have recorded, if there is one.
#[derive(Default)]
struct RecordedSession {
    id: Option<String>,
    /// The titles and ids of its runs, which are those of its prompts, oldest first.
    runs: Vec<(String, String)>,
}

impl RecordedSession {
    /// The run of a prompt, which is taken out: an equal prompt is another run.
    fn take_run(&mut self, request: &str) -> Option<String> {
        let line = request.lines().map(str::trim).find(|line| !line.is_empty())?;
        let is_same = |title: &str| {
            title == line || (title.len() >= limits::RECORDED_TITLE_BYTES && line.starts_with(title))
        };
        let at = self.runs.iter().position(|(title, _)| is_same(title))?;
        Some(self.runs.remove(at).1)
    }
}

/// The run that lines are added to.
struct OpenRun {
    id: String,
    recording: Recording,
    producer: Producer,
    queue: Vec<NewEvent>,
    queue_bytes: usize,
}

/// The part of a stored event that is needed here.
#[derive(Deserialize)]
struct Stored {
    #[serde(rename = "type")]
    kind: String,
    data: Value,
}

impl TranscriptImport {
    /// Reads what is in the log of the transcript with this name.
    pub(super) async fn open(
        client: &Client,
        name: &str,
        transcript: Box<dyn Transcript>,
    ) -> Result<Self, Failure> {
        let mut session = TranscriptImport {
            client: client.clone(),
            name: map_id(name),
            transcript,
            number: 0,
            task: None,
            recorded: HashSet::new(),
            open: None,
            held: Vec::new(),
            held_bytes: 0,
            dropped: 0,
            has_runs: false,
            recorded_session: None,
            tally: Tally::default(),
        };
        session.load().await?;
        Ok(session)
    }

    pub(super) fn task(&self) -> Option<&str> {
        self.task.as_deref()
    }

    pub(super) fn has_open_run(&self) -> bool {
        self.open.is_some()
    }

    fn marker(&self) -> String {
        format!("session {}", self.name)
    }

    async fn load(&mut self) -> Result<(), Failure> {
        let client = self.client.clone();
        let marker = self.marker();
        let filter = Listing { text: Some(marker.clone()), ..Listing::default() };
        let fetch = async |listing: Listing| client.list_tasks(&listing).await;
        let found = collect(fetch, None, limits::TRANSCRIPT_RUNS_MAX, &filter).await?.items;
        let own = |title: &Option<String>| title.as_deref().is_some_and(|title| title.ends_with(&marker));
        let Some(task) = found.into_iter().find(|task| own(&task.title)) else { return Ok(()) };
        let fetch = async |listing: Listing| client.list_task_runs(&task.id, &listing).await;
        let listed = collect(fetch, None, limits::TRANSCRIPT_RUNS_MAX, &Listing::default()).await?;
        if listed.next.is_some() {
            let most = limits::TRANSCRIPT_RUNS_MAX;
            return Err(Failure::Refused(format!("its task {} has more than {most} runs", task.id)));
        }
        for run in listed.items.iter().rev() {
            self.load_run(run).await?;
        }
        self.has_runs = !listed.items.is_empty();
        self.task = Some(task.id);
        Ok(())
    }

    /// Takes the keys of a run, and goes on with it if it has not ended.
    async fn load_run(&mut self, run: &Run) -> Result<(), Failure> {
        let mut events: Vec<(String, Value)> = Vec::new();
        let mut after = None;
        loop {
            let page = self.client.read_run_events(&run.id, after, None).await?;
            if let Some(gap) = &page.gap {
                let what = if matches!(gap, Gap::Pruned { .. }) { "were pruned" } else { "are damaged" };
                return Err(Failure::Refused(format!(
                    "events of its run {} {what}, so it is unknown which lines were imported",
                    run.id
                )));
            }
            for envelope in &page.data {
                let stored: Stored = serde_json::from_str(envelope.get())
                    .map_err(|why| Failure::Protocol(format!("an event of {}: {why}", run.id)))?;
                if let Some(key) = stored.data.get("key").and_then(Value::as_str) {
                    self.recorded.insert(key.to_owned());
                }
                if run.ended_at.is_none() {
                    events.push((stored.kind, stored.data));
                }
            }
            let next = page.next.as_ref().and_then(Value::as_u64);
            if !page.has_more || next == after {
                break;
            }
            after = next;
        }
        if run.ended_at.is_none() {
            let seen = events.iter().map(|(kind, data)| (kind.as_str(), data));
            let recording = Recording::resume(&self.transcript.source(), seen);
            self.open = Some(OpenRun::new(run.id.clone(), recording));
        }
        Ok(())
    }

    pub(super) async fn line(&mut self, raw: &str) -> Result<(), Failure> {
        self.number += 1;
        let line = self.transcript.line(self.number, raw);
        self.take(line, raw).await
    }

    pub(super) async fn not_text(&mut self, lossy: &str) -> Result<(), Failure> {
        self.number += 1;
        self.take(TranscriptLine::invalid(self.number, lossy, "it is not UTF-8"), lossy).await
    }

    pub(super) async fn too_long(&mut self, beginning: &str) -> Result<(), Failure> {
        self.number += 1;
        let line = TranscriptLine::too_long(self.number, beginning, limits::TRANSCRIPT_LINE_BYTES_MAX);
        self.take(line, beginning).await
    }

    async fn take(&mut self, line: TranscriptLine, raw: &str) -> Result<(), Failure> {
        self.tally.lines += 1;
        if self.recorded.contains(&map_id(&line.key)) {
            self.tally.already_present += 1;
            return Ok(());
        }
        if let Some(kind) = &line.unknown {
            *self.tally.unknown.entry(kind.clone()).or_default() += 1;
        }
        let is_gap = |step: &TranscriptStep| {
            matches!(step, TranscriptStep::Gap { reason: "line_invalid" | "line_too_long", .. })
        };
        self.tally.invalid += u64::from(line.steps.iter().any(is_gap));
        match &line.place {
            LinePlace::Begins { title, request } => {
                self.close(&line.before).await?;
                self.create(title, Some(request)).await?;
            }
            LinePlace::Within if self.open.is_none() => {
                let title = if self.has_runs {
                    "(continued)"
                } else {
                    "(the transcript does not contain the beginning)"
                };
                self.create(title, None).await?;
            }
            LinePlace::Around if self.open.is_none() => {
                self.hold(line, raw);
                return Ok(());
            }
            LinePlace::Within | LinePlace::Around => {}
        }
        self.record(&line, raw, apply).await
    }

    async fn record(
        &mut self,
        line: &TranscriptLine,
        raw: &str,
        how: fn(&mut Recording, &TranscriptLine, &str) -> Vec<Draft>,
    ) -> Result<(), Failure> {
        let mut patches = Vec::new();
        for step in &line.steps {
            if let TranscriptStep::Patch { patch, status } = step {
                patches.push((patch, *status, self.upload(patch).await?));
            }
        }
        let Some(open) = &mut self.open else { return Ok(()) };
        let mut drafts = how(&mut open.recording, line, raw);
        for (patch, status, stored) in patches {
            match stored {
                Ok(facts) => {
                    open.recording.patch(Some(&patch.call), &facts);
                    status.iter().for_each(|status| open.recording.patch_status(&facts.artifact_id, status));
                }
                Err(why) => open.recording.patch_not_stored(patch, &why),
            }
        }
        drafts.extend(open.recording.drain());
        open.queue(&self.client, drafts).await?;
        self.tally.imported += 1;
        self.recorded.insert(map_id(&line.key));
        if open.recording.is_ended() {
            self.flush().await?;
            self.open = None;
        }
        Ok(())
    }

    /// Uploads a patch. The inner error is why the server does not store it.
    async fn upload(&self, patch: &Patch) -> Result<Result<PatchFacts, String>, Failure> {
        let bytes = patch.text.clone().into_bytes();
        let size = bytes.len() as u64;
        match self.client.upload_artifact(bytes, "text/x-diff", Some("file"), None).await {
            Ok(artifact) => Ok(Ok(PatchFacts::of(patch, &artifact.id, artifact.hash, size))),
            Err(why) if why.may_pass() && why.code() != Some("artifact_quota") => Err(why.into()),
            Err(why) => Ok(Err(why.to_string())),
        }
    }

    /// Keeps a line for the next run.
    fn hold(&mut self, line: TranscriptLine, raw: &str) {
        self.held_bytes += raw.len();
        self.held.push((line, raw.to_owned()));
        while self.held.len() > limits::TRANSCRIPT_HELD_LINES_MAX
            || self.held_bytes > limits::TRANSCRIPT_HELD_BYTES_MAX
        {
            let (_, first) = self.held.remove(0);
            self.held_bytes -= first.len();
            self.dropped += 1;
        }
        self.tally.held = self.held.len() as u64 + self.dropped;
    }

    async fn create(&mut self, title: &str, request: Option<&str>) -> Result<(), Failure> {
        let source = self.transcript.source();
        let task = match &self.task {
            Some(task) => task.clone(),
            None => {
                let folder = self.transcript.folder().map_or(String::new(), |folder| format!(" in {folder}"));
                let title = Some(format!("{}{folder}, {}", self.transcript.agent(), self.marker()));
                let task = self.client.create_task(&CreateTask { title, ..CreateTask::default() }).await?.id;
                self.task.insert(task).clone()
            }
        };
        let mut recorded = self.recorded().await?;
        let recorded_run = request.and_then(|request| recorded.take_run(request));
        let session_id = recorded.id.clone();
        self.recorded_session = Some(recorded);
        let order = CreateRun {
            kind: "external".to_owned(),
            session_id,
            title: Some(title.to_owned()),
            request_text: request
                .map(|text| recount_record::cut(text, limits::TRANSCRIPT_REQUEST_BYTES_MAX).0.to_owned()),
            agent: Some(AgentName {
                name: self.transcript.agent().to_owned(),
                version: source.version.clone(),
                ..AgentName::default()
            }),
            ..CreateRun::default()
        };
        let run = self.client.create_task_run(&task, &order).await?.id;
        self.tally.runs_created += 1;
        self.has_runs = true;
        let mut open = OpenRun::new(run, Recording::begin(&source));
        if let Some(run) = recorded_run {
            open.recording.note("recorded_as", &serde_json::json!({ "run_id": run }));
        }
        if request.is_none() {
            self.tally.runs_without_prompt += 1;
            let what = "the message that started this run: the transcript has none before it, or has it in a \
                        form that this release does not know";
            open.recording.gap("prompt_not_seen", what);
        }
        if self.dropped > 0 {
            let what = format!("{} lines before this run, because too many were buffered", self.dropped);
            open.recording.gap("lines_dropped", &what);
        }
        let drafts = open.recording.drain();
        open.queue(&self.client, drafts).await?;
        self.open = Some(open);
        (self.held_bytes, self.dropped, self.tally.held) = (0, 0, 0);
        for (line, raw) in std::mem::take(&mut self.held) {
            self.record(&line, &raw, apply_raw).await?;
        }
        Ok(())
    }

    /// What was recorded of the session while the agent worked.
    async fn recorded(&mut self) -> Result<RecordedSession, Failure> {
        if let Some(recorded) = self.recorded_session.take() {
            return Ok(recorded);
        }
        let Some(session) = self.transcript.session() else { return Ok(RecordedSession::default()) };
        let Some(id) = find_session(&self.client, "", &session_title_end(session)).await? else {
            return Ok(RecordedSession::default());
        };
        let client = self.client.clone();
        let fetch = async |listing: Listing| client.list_session_runs(&id, &listing).await;
        let listed = collect(fetch, None, limits::TRANSCRIPT_RUNS_MAX, &Listing::default()).await?.items;
        let live = listed
            .into_iter()
            .rev()
            .filter(|run| run.source.as_deref() != Some(&*self.transcript.source().name));
        let runs = live.filter_map(|run| Some((run.title?, run.id))).collect();
        Ok(RecordedSession { id: Some(id), runs })
    }

    /// Ends the run that is open.
    async fn close(&mut self, steps: &[TranscriptStep]) -> Result<(), Failure> {
        let Some(open) = &mut self.open else { return Ok(()) };
        let mut drafts = apply_steps(&mut open.recording, steps);
        open.recording.end(Ending::Finished { status: "end_not_seen".to_owned() });
        drafts.extend(open.recording.drain());
        open.queue(&self.client, drafts).await?;
        self.flush().await?;
        self.open = None;
        Ok(())
    }

    /// Sends what is gathered.
    pub(super) async fn flush(&mut self) -> Result<(), Failure> {
        match &mut self.open {
            Some(open) => open.flush(&self.client).await,
            None => Ok(()),
        }
    }

    /// Ends the open run if the agent reported the end of its turn, or if nothing more can be expected.
    pub(super) async fn settle(&mut self, is_idle: bool) -> Result<(), Failure> {
        self.flush().await?;
        if self.open.is_some() && (is_idle || self.transcript.is_complete()) {
            let rest = self.transcript.rest();
            self.close(&rest).await?;
        }
        Ok(())
    }
}

impl OpenRun {
    /// The epoch is the time, so that a later import takes over from an earlier one.
    fn new(id: String, recording: Recording) -> Self {
        let epoch = World::real().clock.now_ms();
        let producer = Producer { id: "recount-import".to_owned(), epoch, seq: 0 };
        OpenRun { id, recording, producer, queue: Vec::new(), queue_bytes: 0 }
    }

    /// The drafts of one line go in one batch, unless they alone are too large for it.
    async fn queue(&mut self, client: &Client, drafts: Vec<Draft>) -> Result<(), Failure> {
        let mut events = Vec::with_capacity(drafts.len());
        let mut bytes = 0;
        for draft in drafts {
            let data = serde_json::to_string(&draft.data).map_err(|why| Failure::Own(why.to_string()))?;
            bytes += data.len();
            let data = RawValue::from_string(data).map_err(|why| Failure::Own(why.to_string()))?;
            events.push(NewEvent { event_type: draft.kind.into_owned(), data });
        }
        if !self.has_room(events.len(), bytes) {
            self.flush(client).await?;
        }
        for event in events {
            if !self.has_room(1, event.data.get().len()) {
                self.flush(client).await?;
            }
            self.queue_bytes += event.data.get().len();
            self.queue.push(event);
        }
        Ok(())
    }

    fn has_room(&self, events: usize, bytes: usize) -> bool {
        self.queue.is_empty()
            || self.queue.len() + events <= limits::TRANSCRIPT_BATCH_EVENTS
                && self.queue_bytes + bytes <= limits::TRANSCRIPT_BATCH_BYTES
    }

    async fn flush(&mut self, client: &Client) -> Result<(), Failure> {
        if self.queue.is_empty() {
            return Ok(());
        }
        let events = std::mem::take(&mut self.queue);
        self.queue_bytes = 0;
        let batch = AppendEvents { producer: self.producer.clone(), events };
        client.append_run_events(&self.id, &batch).await?;
        self.producer.seq += 1;
        Ok(())
    }
}
