//! One run as it is sent to the server: created once, appended to exactly once, whatever is lost on the way.
//! See [`RecordedRun::send`].

use std::collections::{BTreeMap, VecDeque};

use recount_client::request::{AgentName, AppendEvents, CreateRun, NewEvent, Producer};
use recount_client::{Client, ClientError};
use recount_record::acp::{AcpStep, PromptRecording};
use recount_record::{Draft, Patch, Recording};
use serde_json::value::to_raw_value;

use super::leftover::Leftover;
use super::producer::{AcpProducer, all_events};
use crate::limits;
use crate::output::note;

pub(super) struct RecordedRun {
    pub(super) recording: PromptRecording,
    pub(super) session: String,
    title: String,
    request_text: Option<String>,
    /// The request that creates it, once it was sent, and its key: it is sent again with the same.
    creating: Option<(String, CreateRun)>,
    pub(super) id: Option<String>,
    steps: VecDeque<AcpStep>,
    steps_bytes: usize,
    /// The artifacts of patches that were uploaded, by the keys of the patches.
    artifacts: BTreeMap<u64, String>,
    seq: u64,
    /// How many steps the batch has that was sent and not answered. It is sent again with the same.
    in_flight: Option<usize>,
    pub(super) last_sequence: Option<u64>,
    /// Messages of it were dropped.
    pub(super) has_gap: bool,
    /// The agent has sent output since the prompt.
    pub(super) has_started: bool,
    /// The server does not take more of it.
    is_refused: bool,
}

/// Why nothing more is sent now.
#[derive(Debug)]
pub(super) enum SendStop {
    /// The server may take it later.
    Away(String),
    /// The server takes nothing from this recorder.
    Refused(String),
}

impl RecordedRun {
    pub(super) fn new(recording: PromptRecording, session: &str, folder: &str, prompt: Option<&str>) -> Self {
        let line = prompt.and_then(|text| text.lines().find(|line| !line.trim().is_empty()));
        let title = line
            .map_or_else(|| format!("in {folder}"), |line| short(line.trim(), limits::ACP_TITLE_BYTES_MAX));
        RecordedRun {
            recording,
            session: session.to_owned(),
            title,
            request_text: prompt.map(|text| short(text, limits::ACP_REQUEST_TEXT_BYTES_MAX)),
            creating: None,
            id: None,
            steps: VecDeque::new(),
            steps_bytes: 0,
            artifacts: BTreeMap::new(),
            seq: 0,
            in_flight: None,
            last_sequence: None,
            has_gap: false,
            has_started: false,
            is_refused: false,
        }
    }

    /// Takes over what the recording has made.
    pub(super) fn gather(&mut self) {
        for step in self.recording.drain() {
            if !self.is_refused {
                self.steps_bytes += size(&step);
                self.steps.push_back(step);
            }
        }
    }

    /// Bytes that wait to be sent.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.steps_bytes
    }

    pub(super) fn waiting_events(&self) -> usize {
        self.steps.len()
    }

    /// Nothing is to be sent, and nothing more will be.
    pub(super) fn is_done(&self) -> bool {
        self.steps.is_empty() && (self.recording.is_ended() || self.is_refused)
    }

    /// Sends all that waits.
    pub(super) async fn send(
        &mut self,
        client: &Client,
        who: &AcpProducer,
        chat: &mut Option<String>,
        leftover: &mut Leftover,
    ) -> Result<(), SendStop> {
        self.gather();
        while !self.steps.is_empty() {
            if self.id.is_none() {
                self.create(client, who, chat, leftover).await?;
                continue;
            }
            self.upload(client, who).await?;
            if !self.steps.is_empty() {
                self.append(client, who).await?;
            }
        }
        Ok(())
    }

    async fn create(
        &mut self,
        client: &Client,
        who: &AcpProducer,
        chat: &mut Option<String>,
        leftover: &mut Leftover,
    ) -> Result<(), SendStop> {
        let (key, request) = match &self.creating {
            Some(creating) => creating.clone(),
            None => {
                let request = self.request(who, chat.clone());
                let key = leftover.creating(&request);
                self.creating.insert((key, request)).clone()
            }
        };
        match client.once(&key).create_run(&request).await {
            Ok(run) => {
                leftover.created(&key, &run.id);
                self.id = Some(run.id);
                Ok(())
            }
            // It was deleted meanwhile: what follows is in a new one.
            Err(why) if why.code() == Some("session_not_found") && chat.is_some() => {
                *chat = None;
                leftover.not_created(&key);
                self.creating = None;
                Ok(())
            }
            Err(why) => Err(stop(&why)),
        }
    }

    fn request(&self, who: &AcpProducer, chat: Option<String>) -> CreateRun {
        let agent =
            AgentName { name: who.agent.clone(), version: who.agent_version.clone(), ..AgentName::default() };
        CreateRun {
            kind: "external".to_owned(),
            session_id: chat,
            title: Some(self.title.clone()),
            request_text: self.request_text.clone(),
            agent: Some(agent),
            ..CreateRun::default()
        }
    }

    /// Uploads patches that the next batch would name. One that cannot be uploaded is kept in the event.
    async fn upload(&mut self, client: &Client, who: &AcpProducer) -> Result<(), SendStop> {
        if self.in_flight.is_some() {
            return Ok(());
        }
        let mut index = 0;
        while index < self.steps.len().min(limits::ACP_BATCH_EVENTS_MAX) {
            let draft = match &self.steps[index] {
                AcpStep::Draft(_) => None,
                AcpStep::Patch(patch) => {
                    let (draft, artifact) = uploaded(client, who, patch).await?;
                    self.artifacts.extend(artifact.map(|id| (patch.key(), id)));
                    Some(draft)
                }
                AcpStep::PatchStatus { key, status } => {
                    let Some(artifact) = self.artifacts.get(key) else {
                        // Its text is in an event, which has no status.
                        self.steps.remove(index);
                        continue;
                    };
                    Some(PromptRecording::patch_status_draft(artifact, status))
                }
            };
            if let Some(draft) = draft {
                self.steps[index] = AcpStep::Draft(draft);
            }
            index += 1;
        }
        Ok(())
    }

    async fn append(&mut self, client: &Client, who: &AcpProducer) -> Result<(), SendStop> {
        let count = self.in_flight.unwrap_or_else(|| self.batch_len());
        let Some(id) = self.id.clone() else { return Ok(()) };
        let events = self.steps.iter().take(count).filter_map(event).collect();
        self.in_flight = Some(count);
        match client.append_run_events(&id, &self.batch(who, events)).await {
            Ok(receipt) => {
                self.last_sequence = Some(receipt.last_sequence);
                self.appended(count);
                Ok(())
            }
            Err(why) => match why.code() {
                Some("event_refused" | "limit_reached") => self.one_by_one(client, who, &id).await,
                Some("run_ended" | "run_not_found" | "run_erased") => {
                    note(&format!("{id} is no longer recorded: {why}"));
                    self.refuse();
                    Ok(())
                }
                Some(code) if code.starts_with("producer_") => {
                    note(&format!("{id} is no longer recorded: {why}"));
                    self.refuse();
                    Ok(())
                }
                _ => Err(stop(&why)),
            },
        }
    }

    /// Events of a batch that is not taken are sent one by one; those that are refused are kept as what they are. Then the
    /// recording goes on from what the log has.
    async fn one_by_one(&mut self, client: &Client, who: &AcpProducer, id: &str) -> Result<(), SendStop> {
        self.in_flight = None;
        while let Some(AcpStep::Draft(draft)) = self.steps.front() {
            let draft = draft.clone();
            self.in_flight = Some(1);
            let one = event(&AcpStep::Draft(draft.clone())).into_iter().collect();
            match client.append_run_events(id, &self.batch(who, one)).await {
                Ok(receipt) => self.last_sequence = Some(receipt.last_sequence),
                Err(why) if matches!(why.code(), Some("event_refused" | "limit_reached")) => {
                    self.in_flight = None;
                    let kept = Recording::not_taken(&draft.kind, &draft.data, &why.to_string());
                    if matches!(&*draft.kind, "run.finished" | "run.failed" | "run.cancelled") {
                        // It is made again, after what is open is closed.
                        self.drop_first();
                    } else if draft.kind == kept.kind {
                        // Not even that is taken.
                        note(&format!("an event of {id} is not recorded: {why}"));
                        self.drop_first();
                    } else {
                        self.steps[0] = AcpStep::Draft(kept);
                    }
                    continue;
                }
                Err(why) => return Err(stop(&why)),
            }
            self.appended(1);
        }
        self.in_flight = None;
        let events = all_events(client, id).await.map_err(|why| stop(&why))?;
        self.recording.resume(events.iter().map(|(kind, data)| (&**kind, data)));
        self.gather();
        Ok(())
    }

    fn batch(&self, who: &AcpProducer, events: Vec<NewEvent>) -> AppendEvents {
        let producer = Producer { id: who.producer.clone(), epoch: who.epoch, seq: self.seq };
        AppendEvents { producer, events }
    }

    fn batch_len(&self) -> usize {
        let mut bytes = 0;
        let fits = |step: &&AcpStep| {
            bytes += size(step);
            bytes <= limits::ACP_BATCH_BYTES_MAX && matches!(step, AcpStep::Draft(_))
        };
        self.steps.iter().take(limits::ACP_BATCH_EVENTS_MAX).take_while(fits).count().max(1)
    }

    fn appended(&mut self, count: usize) {
        self.seq += 1;
        self.in_flight = None;
        (0..count).for_each(|_| self.drop_first());
    }

    fn drop_first(&mut self) {
        if let Some(step) = self.steps.pop_front() {
            self.steps_bytes = self.steps_bytes.saturating_sub(size(&step));
        }
        if self.steps.is_empty() {
            self.steps_bytes = 0;
        }
    }

    fn refuse(&mut self) {
        self.is_refused = true;
        self.steps.clear();
        self.steps_bytes = 0;
    }
}

/// The draft that names a patch, and its artifact if it could be uploaded.
async fn uploaded(
    client: &Client,
    who: &AcpProducer,
    patch: &Patch,
) -> Result<(Draft, Option<String>), SendStop> {
    let bytes = patch.text.clone().into_bytes();
    let size = bytes.len() as u64;
    let sent = client.upload_artifact(bytes, "text/x-diff", Some("file"), None).await;
    match sent {
        Ok(artifact) => {
            let id = format!("art-{}-{}", who.producer, artifact.id);
            Ok((PromptRecording::patch_draft(patch, &id, artifact.hash, size), Some(id)))
        }
        Err(why) if why.may_pass() && !matches!(why.code(), Some("artifact_quota")) => Err(stop(&why)),
        Err(why) => Ok((PromptRecording::inline_patch_draft(patch, &why.to_string()), None)),
    }
}

fn event(step: &AcpStep) -> Option<NewEvent> {
    let AcpStep::Draft(draft) = step else { return None };
    let data = to_raw_value(&draft.data).ok()?;
    Some(NewEvent { event_type: draft.kind.clone().into_owned(), data })
}

fn size(step: &AcpStep) -> usize {
    match step {
        AcpStep::Draft(draft) => draft.data.to_string().len() + draft.kind.len(),
        AcpStep::Patch(patch) => patch.text.len(),
        AcpStep::PatchStatus { .. } => 0,
    }
}

pub(super) fn stop(why: &ClientError) -> SendStop {
    if why.may_pass() { SendStop::Away(why.to_string()) } else { SendStop::Refused(why.to_string()) }
}

pub(super) fn short(text: &str, bytes_max: usize) -> String {
    recount_record::cut(text, bytes_max).0.to_owned()
}
