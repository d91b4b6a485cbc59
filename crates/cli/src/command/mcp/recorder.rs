//! Records one connection as an external run: created with its first message, appended to exactly once, whatever the server
//! does meanwhile. See [`McpRecorder::run`].

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use recount_client::request::{AgentName, AppendEvents, CreateRun, NewEvent, Producer};
use recount_client::{Client, ClientError, moment};
use recount_record::mcp::{CallVerdict, McpRecording, ResultData, UnjudgedCall};
use recount_record::{Draft, Ending, cut};
use recount_world::World;
use serde_json::value::to_raw_value;
use tokio::time::Instant;

use super::pump::{McpBacklog, McpItem};
use crate::limits;
use crate::output::note;
use crate::render::count;

pub(super) struct McpRecorder {
    client: Client,
    recording: McpRecording,
    /// The command that started the server, for the run's title; `None` for one at an address.
    command: Option<String>,
    run: Option<String>,
    /// The request that creates the run, once it was sent, and a client that sends it with the same key again.
    creating: Option<(Client, CreateRun)>,
    producer: Producer,
    waiting: VecDeque<Draft>,
    waiting_bytes: usize,
    /// Calls without a verdict. Their events are in `waiting` and in no batch yet.
    unjudged: Vec<UnjudgedCall>,
    /// Data of results that are in `waiting`; it is uploaded before they are sent.
    data: VecDeque<ResultData>,
    /// Events of the batch that was sent and not answered; it is sent again with the same.
    in_flight: Option<usize>,
    dropped: u64,
    /// Until then the run is not created while the server has not sent its name.
    name_deadline: Instant,
    is_away: bool,
    /// Too much waited, so that nothing more is added.
    is_full: bool,
    /// The server does not take more of the run.
    is_refused: bool,
}

impl McpRecorder {
    /// `name` is the server's until it names itself; `command` started it, and is `None` for one at an address.
    pub(super) fn new(client: Client, name: &str, command: Option<&str>) -> Self {
        let wire = if command.is_some() { "mcp-stdio" } else { "mcp-http" };
        McpRecorder {
            client,
            recording: McpRecording::begin(name, wire),
            command: command.map(|command| cut(command, limits::MCP_TITLE_BYTES_MAX).0.to_owned()),
            run: None,
            creating: None,
            producer: Producer { id: "recount-mcp".to_owned(), epoch: World::real().clock.now_ms(), seq: 0 },
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            unjudged: Vec::new(),
            data: VecDeque::new(),
            in_flight: None,
            dropped: 0,
            name_deadline: moment() + limits::MCP_NAME_WAIT,
            is_away: false,
            is_full: false,
            is_refused: false,
        }
    }

    /// Records until the connection is over.
    pub(super) async fn run(mut self, mut items: McpBacklog) {
        loop {
            let pause =
                if self.is_away { limits::MCP_RETRY } else { self.name_wait().max(limits::MCP_GATHER) };
            tokio::select! {
                item = items.next() => match item {
                    Some(item) => self.take(item),
                    None => break,
                },
                () = tokio::time::sleep(pause), if !self.waiting.is_empty() => self.send().await,
            }
            while let Some(item) = items.next_now() {
                self.take(item);
            }
            self.count_dropped(items.take_dropped());
        }
        let until = moment() + limits::MCP_LAST_WAIT;
        while !self.waiting.is_empty() && !self.is_refused && moment() < until {
            self.send().await;
            if self.is_away {
                tokio::time::sleep(limits::MCP_RETRY).await;
            }
        }
        if !self.waiting.is_empty() && !self.is_refused {
            let events = count(self.waiting.len() as u64, "event");
            note(&format!("{events} not recorded: the server did not respond"));
        }
    }

    /// How long to wait for the server's name before the run is created.
    fn name_wait(&self) -> Duration {
        if self.run.is_some() || self.recording.is_named() {
            return Duration::ZERO;
        }
        self.name_deadline.saturating_duration_since(moment())
    }

    fn take(&mut self, item: McpItem) {
        match item {
            McpItem::Line(side, line) => match std::str::from_utf8(&line) {
                Ok(line) => self.recording.line(side, line.trim_end_matches(['\n', '\r'])),
                Err(_) => self.recording.line(side, &String::from_utf8_lossy(&line)),
            },
            McpItem::LongLine(side, line, long) => {
                let beginning = String::from_utf8_lossy(&line);
                self.recording.too_long(side, &beginning, limits::MCP_LINE_BYTES_MAX, &long);
            }
            McpItem::ServerEnded(Ok(())) => {
                self.recording.end(Ending::Finished { status: "completed".to_owned() });
            }
            McpItem::ServerEnded(Err(how)) => {
                let message = format!("the MCP server {how}");
                self.recording.end(Ending::Failed { code: "server_ended".to_owned(), message });
            }
        }
        self.gather();
    }

    /// Takes over what the recording made, up to the bound.
    fn gather(&mut self) {
        let drafts = self.recording.drain();
        let (unjudged, data) = (self.recording.take_unjudged(), self.recording.take_data());
        if self.is_refused || self.is_full {
            return;
        }
        let bytes =
            drafts.iter().map(size).sum::<usize>() + data.iter().map(|data| data.base64.len()).sum::<usize>();
        let is_last = drafts.iter().any(|draft| matches!(&*draft.kind, "run.finished" | "run.failed"));
        if self.waiting_bytes + bytes > limits::MCP_WAITING_BYTES_MAX && !is_last {
            // The rules need every event of a run, so that nothing more of it can be recorded.
            note(
                "recording stopped: the server did not respond for too long, and too many events wait for it",
            );
            self.is_full = true;
            return;
        }
        self.waiting_bytes += bytes;
        self.waiting.extend(drafts);
        self.unjudged.extend(unjudged);
        self.data.extend(data);
    }

    fn count_dropped(&mut self, dropped: u64) {
        self.dropped += dropped;
        if self.dropped > 0 {
            let messages = count(self.dropped, "message");
            let what = format!("{messages}, which arrived faster than they could be recorded");
            self.recording.lost("messages_dropped", &what);
            self.dropped = 0;
            self.gather();
        }
    }

    /// Sends what waits, as far as the server takes it now.
    async fn send(&mut self) {
        while !self.waiting.is_empty() && !self.is_refused {
            let done = match self.run.clone() {
                None => self.create().await,
                Some(_) if self.in_flight.is_none() && !self.unjudged.is_empty() => self.judge().await,
                Some(_) if self.in_flight.is_none() && !self.data.is_empty() => self.upload().await,
                Some(run) => self.append(&run).await,
            };
            match done {
                Ok(()) => self.is_away = false,
                Err(why) if why.may_pass() => {
                    if !std::mem::replace(&mut self.is_away, true) {
                        note(&format!("not recorded yet: {why}"));
                    }
                    return;
                }
                Err(why) => {
                    note(&format!("no longer recorded: {why}"));
                    self.is_refused = true;
                }
            }
        }
    }

    async fn create(&mut self) -> Result<(), ClientError> {
        let (client, request) = match &self.creating {
            Some(creating) => creating,
            None => {
                let key = format!("recount-mcp-{:032x}", World::real().entropy.draw());
                let request = self.request();
                self.creating.insert((self.client.once(&key), request))
            }
        };
        self.run = Some(client.create_run(request).await?.id);
        Ok(())
    }

    fn request(&self) -> CreateRun {
        let (name, version) = self.recording.client().unwrap_or(("mcp-client", None));
        CreateRun {
            kind: "external".to_owned(),
            title: Some(match &self.command {
                None => format!("MCP server {}", self.recording.server()),
                Some(command) => format!("MCP server {}: {command}", self.recording.server()),
            }),
            agent: Some(AgentName {
                name: name.to_owned(),
                version: version.map(str::to_owned),
                ..AgentName::default()
            }),
            ..CreateRun::default()
        }
    }

    /// Requests the server's verdict on each waiting call, and inserts it directly after the call's event.
    async fn judge(&mut self) -> Result<(), ClientError> {
        let key = |call: &UnjudgedCall| (call.server.clone(), call.tool.clone(), call.destructive);
        let mut known = BTreeMap::new();
        for call in &self.unjudged {
            if let Entry::Vacant(vacant) = known.entry(key(call)) {
                vacant.insert(verdict(&self.client, call).await?);
            }
        }
        let mut place = 0;
        for call in std::mem::take(&mut self.unjudged) {
            let started = self.waiting.iter().skip(place).position(|draft| call.is_started_by(draft));
            if let (Some(started), Some(verdict)) = (started, known.get(&key(&call))) {
                let draft = call.judged(verdict.clone());
                place += started + 1;
                self.waiting_bytes += size(&draft);
                self.waiting.insert(place, draft);
            }
        }
        Ok(())
    }

    /// Uploads the data of a result, and inserts its event directly after the outcome of the call.
    async fn upload(&mut self) -> Result<(), ClientError> {
        let Some(data) = self.data.front() else { return Ok(()) };
        let draft = match STANDARD.decode(&data.base64) {
            Err(why) => data.not_stored(&why.to_string()),
            Ok(bytes) => {
                let size = bytes.len() as u64;
                match self.client.upload_artifact(bytes, &data.mime, Some("file"), None).await {
                    Ok(artifact) => data.stored(&artifact.id, artifact.hash, size),
                    Err(why) if why.may_pass() && why.code() != Some("artifact_quota") => return Err(why),
                    Err(why) => data.not_stored(&why.to_string()),
                }
            }
        };
        let place =
            self.waiting.iter().position(|waiting| data.belongs_after(waiting)).map_or(0, |at| at + 1);
        self.waiting_bytes = (self.waiting_bytes + size(&draft)).saturating_sub(data.base64.len());
        self.waiting.insert(place, draft);
        self.data.pop_front();
        Ok(())
    }

    async fn append(&mut self, run: &str) -> Result<(), ClientError> {
        let count = self.in_flight.unwrap_or_else(|| self.batch_len());
        self.in_flight = Some(count);
        let events = self.waiting.iter().take(count).filter_map(|draft| {
            let data = to_raw_value(&draft.data).ok()?;
            Some(NewEvent { event_type: draft.kind.clone().into_owned(), data })
        });
        let batch = AppendEvents { producer: self.producer.clone(), events: events.collect() };
        self.client.append_run_events(run, &batch).await?;
        self.producer.seq += 1;
        self.in_flight = None;
        for _ in 0..count {
            let sent = self.waiting.pop_front();
            self.waiting_bytes -= sent.as_ref().map_or(0, size);
        }
        Ok(())
    }

    fn batch_len(&self) -> usize {
        let mut bytes = 0;
        let fits = |draft: &&Draft| {
            bytes += size(draft);
            bytes <= limits::MCP_BATCH_BYTES_MAX
        };
        self.waiting.iter().take(limits::MCP_BATCH_EVENTS_MAX).take_while(fits).count().max(1)
    }
}

/// Returns only errors that may pass; any other error becomes the verdict `unknown`.
async fn verdict(client: &Client, call: &UnjudgedCall) -> Result<CallVerdict, ClientError> {
    match client.judge_mcp_call(&call.server, &call.tool, call.destructive).await {
        Ok(judgement) => Ok(CallVerdict {
            verdict: judgement.verdict,
            risk_level: Some(judgement.risk_level),
            irreversible: Some(judgement.irreversible),
            policy_id: judgement.policy_id,
            reason: judgement.reason,
            policy_digest: judgement.policy_digest,
        }),
        Err(why) if why.may_pass() => Err(why),
        Err(why) => {
            let reason = Some(why.to_string());
            Ok(CallVerdict { verdict: "unknown".to_owned(), reason, ..CallVerdict::default() })
        }
    }
}

fn size(draft: &Draft) -> usize {
    draft.kind.len() + draft.data.to_string().len()
}
