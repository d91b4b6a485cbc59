//! Projects the events of a run onto session updates of ACP, and onto what the agent asks the editor.
//!
//! Pure: the same events give the same updates, live and replayed, except that only a replay has the messages of the user.
//! It must not know requests, connections or other runs. Look at [`Projector::event`].

pub(crate) mod call;
pub(crate) mod question;

use std::collections::BTreeMap;

use recount_event::family::run::WaitKind;
use recount_event::family::{approval, assistant, clarification, handoff, turn};
use recount_event::registry::Payload;
use recount_event::{Event, ForeignId};
use serde_json::{Value, json};

use self::call::Call;
use crate::patch;

/// Tools whose call is shown as the question that it asks.
const ASK_USER: &str = "ask_user";

/// What follows from an event.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    /// The `update` of a `session/update`.
    Update(Value),
    /// The run waits for an answer to this.
    Ask(OpenPrompt),
    /// A prompt was decided, by anyone.
    Settled {
        prompt: String,
    },
    /// The diff of this artifact belongs to a call: fetch it and give it to [`Projector::patched`].
    Patch {
        call: String,
        artifact: String,
        path: String,
    },
    Ended(Ending),
}

/// Something that a person has to answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum OpenPrompt {
    Approval(Box<approval::Requested>),
    Clarification(Box<clarification::Requested>),
    Handoff(Box<handoff::Requested>),
}

impl OpenPrompt {
    pub(crate) fn id(&self) -> &ForeignId {
        match self {
            OpenPrompt::Approval(asked) => &asked.approval_id,
            OpenPrompt::Clarification(asked) => &asked.clarification_id,
            OpenPrompt::Handoff(asked) => &asked.handoff_id,
        }
    }
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Ending {
    /// With a stop reason of ACP.
    Stopped(&'static str),
    Cancelled {
        by: String,
    },
    Failed {
        code: String,
        message: String,
        retriable: bool,
    },
}

impl Ending {
    /// The ending in words, where it is not a normal one.
    pub(crate) fn words(&self) -> Option<String> {
        match self {
            Ending::Stopped(_) => None,
            Ending::Cancelled { by } => Some(format!("The run was cancelled ({by}).")),
            Ending::Failed { code, message, .. } => Some(format!("The run failed: {message} ({code}).")),
        }
    }
}

/// Tokens and cost so far, as the log has them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Used {
    pub(crate) input_tokens: u64,
    pub(crate) output_tokens: u64,
    pub(crate) cost_micros_usd: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Voice {
    Answer,
    Thought,
}

/// See the file's head.
#[derive(Debug, Clone)]
pub(crate) struct Projector {
    run: String,
    /// The address of the server, for artifacts.
    server: String,
    is_replay: bool,
    /// The folder that the run works in.
    root: Option<String>,
    request_text: Option<String>,
    user_spoke: bool,
    turn_index: u64,
    attempt: u64,
    /// Whether pieces of the open attempt were sent, and of the open turn any text.
    sent_pieces: bool,
    sent_text: bool,
    /// Bytes sent of each text block.
    blocks: BTreeMap<(u64, u64, Voice), usize>,
    calls: BTreeMap<String, Call>,
    open: Vec<OpenPrompt>,
    is_waiting: bool,
    stop_reason: Option<turn::StopReason>,
    used: Used,
}

impl Projector {
    /// Of one run, from its first event on. `server` is the address that artifacts are read from.
    pub(crate) fn new(run: &str, server: &str, is_replay: bool) -> Self {
        Projector {
            run: run.to_owned(),
            server: server.to_owned(),
            is_replay,
            root: None,
            request_text: None,
            user_spoke: false,
            turn_index: 0,
            attempt: 0,
            sent_pieces: false,
            sent_text: false,
            blocks: BTreeMap::new(),
            calls: BTreeMap::new(),
            open: Vec::new(),
            is_waiting: false,
            stop_reason: None,
            used: Used::default(),
        }
    }

    pub(crate) fn run(&self) -> &str {
        &self.run
    }

    pub(crate) fn used(&self) -> Used {
        self.used
    }

    /// What waits for an answer, oldest first.
    pub(crate) fn open(&self) -> &[OpenPrompt] {
        &self.open
    }

    /// Whether the run waits for answers and does nothing before.
    pub(crate) fn is_waiting(&self) -> bool {
        self.is_waiting
    }

    /// From here on events are new: messages of the user come from the editor, and prompts are asked.
    pub(crate) fn go_live(&mut self) {
        self.is_replay = false;
    }

    pub(crate) fn event(&mut self, event: &Event) -> Vec<Step> {
        match event.payload() {
            Payload::RunQueued(queued) => {
                self.root = queued.workspace_path.clone();
                self.request_text = queued.request_text.clone();
                Vec::new()
            }
            Payload::RunWaiting(waiting) => {
                self.is_waiting = true;
                let waits = waiting.waits_for.iter().any(|waits| waits.kind == WaitKind::ClientTool);
                let words = "The run waits for the application that brought the tool.";
                if waits { vec![self.note(words)] } else { Vec::new() }
            }
            Payload::RunContinued(_) => {
                self.is_waiting = false;
                Vec::new()
            }
            Payload::RunFinished(_) => {
                let reason = match self.stop_reason {
                    Some(turn::StopReason::MaxTokens) => "max_tokens",
                    Some(turn::StopReason::Refusal) => "refusal",
                    _ => "end_turn",
                };
                self.ended(Ending::Stopped(reason))
            }
            Payload::RunFailed(failed) if failed.code == "turn_limit" => {
                self.ended(Ending::Stopped("max_turn_requests"))
            }
            Payload::RunFailed(failed) => self.ended(Ending::Failed {
                code: failed.code.clone(),
                message: failed.message.clone(),
                retriable: failed.retriable,
            }),
            Payload::RunCancelled(cancelled) => self.ended(Ending::Cancelled { by: cancelled.by.clone() }),
            Payload::UserMessage(message) => self.user(&message.text),
            Payload::UserAttachment(attached) => {
                let link = self.artifact(&attached.artifact_id, Some(&attached.mime));
                self.replayed(link)
            }
            Payload::CostTick(tick) => {
                self.used = Used {
                    input_tokens: tick.cumulative_input_tokens,
                    output_tokens: tick.cumulative_output_tokens,
                    cost_micros_usd: tick.cumulative_cost_micros_usd,
                };
                Vec::new()
            }
            other => self.spoken(other).or_else(|| self.prompt(other)).unwrap_or_else(|| self.work(other)),
        }
    }

    /// The diff of an artifact that [`Step::Patch`] named; `None` if it cannot be shown.
    pub(crate) fn patched(
        &mut self,
        call: &str,
        artifact: &str,
        path: &str,
        diff: Option<&str>,
    ) -> Vec<Step> {
        let root = self.root.clone();
        let Some(call) = self.calls.get_mut(call) else { return Vec::new() };
        let places = diff.map(patch::sides).unwrap_or_default();
        if places.is_empty() {
            let words = format!("{path}: the diff is the artifact {artifact}");
            call.add(call::text(&words));
        }
        for place in places {
            let path = call::absolute(root.as_deref(), place.path.as_deref().unwrap_or(path));
            call.add(call::diff(&path, &place));
        }
        vec![Step::Update(call.update_content())]
    }

    // Messages.

    /// Before the run does anything, or when it never will: the request of a run without a message is what the user said.
    fn request(&mut self) -> Vec<Step> {
        match self.request_text.take() {
            Some(text) if !self.user_spoke => self.user(&text),
            _ => Vec::new(),
        }
    }

    fn user(&mut self, text: &str) -> Vec<Step> {
        self.user_spoke = true;
        self.replayed(json!({ "type": "text", "text": text }))
    }

    fn replayed(&self, content: Value) -> Vec<Step> {
        let update = json!({ "sessionUpdate": "user_message_chunk", "content": content });
        if self.is_replay { vec![Step::Update(update)] } else { Vec::new() }
    }

    fn artifact(&self, id: &ForeignId, mime: Option<&String>) -> Value {
        let mut link = json!({
            "type": "resource_link",
            "name": id.as_str(),
            "uri": format!("{}/v1/artifacts/{}/raw", self.server, id.as_str()),
        });
        if let Some(mime) = mime {
            link["mimeType"] = json!(mime);
        }
        link
    }

    fn chunk(&self, voice: Voice, content: Value) -> Step {
        let (kind, part) = match voice {
            Voice::Answer => ("agent_message_chunk", ""),
            Voice::Thought => ("agent_thought_chunk", ".thought"),
        };
        let (run, turn, attempt) = (&self.run, self.turn_index, self.attempt);
        let message = format!("{run}.{turn}.{attempt}{part}");
        Step::Update(json!({ "sessionUpdate": kind, "messageId": message, "content": content }))
    }

    /// Words of this face, not of the model.
    pub(crate) fn note(&self, words: &str) -> Step {
        let message = format!("{}.note", self.run);
        let content = json!({ "type": "text", "text": format!("\n\n[{words}]\n\n") });
        Step::Update(
            json!({ "sessionUpdate": "agent_message_chunk", "messageId": message, "content": content }),
        )
    }

    /// What the model said. `None` for other events.
    fn spoken(&mut self, payload: &Payload) -> Option<Vec<Step>> {
        Some(match payload {
            Payload::TurnStarted(started) => {
                let mut told = self.request();
                told.extend(self.abandon("interrupted"));
                if started.turn_index != self.turn_index {
                    self.attempt = 0;
                }
                self.turn_index = started.turn_index;
                self.sent_text = false;
                told
            }
            Payload::TurnFailed(failed) if failed.will_retry => {
                let told = self.abandon(&failed.code);
                self.attempt += 1;
                told
            }
            Payload::TurnFailed(_) => {
                self.sent_pieces = false;
                Vec::new()
            }
            Payload::TurnCompleted(completed) => {
                self.sent_pieces = false;
                self.stop_reason = Some(completed.stop_reason);
                Vec::new()
            }
            Payload::AssistantTextDelta(piece) => self.piece(Voice::Answer, piece),
            Payload::AssistantThinkingDelta(piece) => self.piece(Voice::Thought, piece),
            Payload::AssistantTextComplete(whole) => self.whole(Voice::Answer, whole),
            Payload::AssistantThinkingComplete(whole) => self.whole(Voice::Thought, whole),
            Payload::AssistantImageBlock(image) => {
                let link = self.artifact(&image.artifact_id, image.mime.as_ref());
                vec![self.chunk(Voice::Answer, link)]
            }
            Payload::AssistantFinalAnswer(answer) if !self.sent_text => {
                vec![self.chunk(Voice::Answer, json!({ "type": "text", "text": answer.summary }))]
            }
            Payload::AssistantFinalAnswer(_) => Vec::new(),
            _ => return None,
        })
    }

    fn piece(&mut self, voice: Voice, piece: &assistant::TextDelta) -> Vec<Step> {
        *self.blocks.entry((piece.turn_index, piece.block_index, voice)).or_default() += piece.delta.len();
        self.text(voice, &piece.delta)
    }

    /// A block that came in pieces was sent already.
    fn whole(&mut self, voice: Voice, whole: &assistant::TextComplete) -> Vec<Step> {
        match self.blocks.remove(&(whole.turn_index, whole.block_index, voice)) {
            Some(sent) if sent > 0 => Vec::new(),
            _ => self.text(voice, &whole.text),
        }
    }

    fn text(&mut self, voice: Voice, text: &str) -> Vec<Step> {
        if text.is_empty() {
            return Vec::new();
        }
        self.sent_pieces = true;
        self.sent_text |= voice == Voice::Answer;
        vec![self.chunk(voice, json!({ "type": "text", "text": text }))]
    }

    /// ACP cannot retract what was sent, so the editor is told that it counts no longer.
    fn abandon(&mut self, code: &str) -> Vec<Step> {
        match std::mem::take(&mut self.sent_pieces) {
            true => vec![self.note(&format!("The answer was cut off ({code}) and starts again."))],
            false => Vec::new(),
        }
    }

    // Prompts.

    /// What is asked of people. `None` for other events.
    fn prompt(&mut self, payload: &Payload) -> Option<Vec<Step>> {
        Some(match payload {
            Payload::ApprovalRequested(asked) => self.ask(OpenPrompt::Approval(asked.clone())),
            Payload::ApprovalResolved(resolved) => self.settled(&resolved.approval_id),
            Payload::ApprovalTimedOut(over) => self.settled(&over.approval_id),
            Payload::ClarificationRequested(asked) => {
                let mut steps = self.ask(OpenPrompt::Clarification(asked.clone()));
                if self.is_replay {
                    steps.push(self.question(asked));
                }
                steps
            }
            Payload::ClarificationAnswered(answered) => {
                let mut steps = self.settled(&answered.clarification_id);
                let text = answered.response.texts();
                steps.extend(self.replayed(json!({ "type": "text", "text": text })));
                steps
            }
            Payload::ClarificationTimedOut(over) => self.settled(&over.clarification_id),
            Payload::HandoffRequested(asked) => self.ask(OpenPrompt::Handoff(asked.clone())),
            Payload::HandoffAcknowledged(answered) => self.settled(&answered.handoff_id),
            Payload::HandoffRejected(answered) => self.settled(&answered.handoff_id),
            Payload::HandoffTimedOut(over) => self.settled(&over.handoff_id),
            _ => return None,
        })
    }

    /// A question as a text of the agent.
    pub(crate) fn question(&self, asked: &clarification::Requested) -> Step {
        let message = format!("{}.{}", self.run, asked.clarification_id.as_str());
        let content = json!({ "type": "text", "text": question::text(asked) });
        Step::Update(
            json!({ "sessionUpdate": "agent_message_chunk", "messageId": message, "content": content }),
        )
    }

    fn ask(&mut self, prompt: OpenPrompt) -> Vec<Step> {
        self.open.push(prompt.clone());
        if self.is_replay { Vec::new() } else { vec![Step::Ask(prompt)] }
    }

    fn settled(&mut self, id: &ForeignId) -> Vec<Step> {
        self.open.retain(|open| open.id() != id);
        if self.is_replay { Vec::new() } else { vec![Step::Settled { prompt: id.as_str().to_owned() }] }
    }

    fn ended(&mut self, ending: Ending) -> Vec<Step> {
        self.is_waiting = false;
        self.open.clear();
        let mut steps = self.request();
        steps.push(Step::Ended(ending));
        steps
    }
}

impl Projector {
    /// What the run does: its calls, files and lists.
    fn work(&mut self, payload: &Payload) -> Vec<Step> {
        match payload {
            Payload::AssistantToolCallProposed(proposed) if proposed.tool_name == ASK_USER => Vec::new(),
            Payload::AssistantToolCallProposed(proposed) => {
                let input = serde_json::from_str(proposed.input.text()).unwrap_or(Value::Null);
                let call =
                    Call::proposed(&proposed.tool_call_id, &proposed.tool_name, input, self.root.as_deref());
                self.begin(call)
            }
            Payload::ToolInvoked(invoked) if invoked.tool_name == ASK_USER => Vec::new(),
            Payload::ToolInvoked(invoked) => {
                let mut steps = self.request();
                if !self.calls.contains_key(invoked.tool_call_id.as_str()) {
                    let summary = invoked.args_summary.as_deref();
                    let call = Call::invoked(&invoked.tool_call_id, &invoked.tool_name, summary);
                    steps.extend(self.begin(call));
                }
                steps.extend(self.on(&invoked.tool_call_id, Call::start));
                steps
            }
            Payload::ToolRefused(refused) => {
                self.on(&refused.tool_call_id, |call| Some(call.refuse(&refused.message)))
            }
            Payload::ToolCompleted(ended) => self.on(&ended.tool_call_id, |call| Some(call.end(ended, true))),
            Payload::ToolFailed(ended) | Payload::ToolCancelled(ended) | Payload::ToolTimedOut(ended) => {
                self.on(&ended.tool_call_id, |call| Some(call.end(ended, false)))
            }
            Payload::ToolShellOutputChunk(chunk) => {
                let bytes = chunk.bytes().unwrap_or_default();
                self.on(&chunk.tool_call_id, |call| call.output(&String::from_utf8_lossy(&bytes)))
            }
            Payload::ToolEditProposed(file) | Payload::ToolFileWriteProposed(file) => {
                self.patch(&file.tool_call_id, &file.patch_artifact_id, &file.path)
            }
            Payload::ToolMultiEditProposed(files) => {
                let paths = files.paths.as_deref().unwrap_or_default();
                let patch = |(at, artifact)| {
                    let path = paths.get(at).map_or("", String::as_str);
                    self.patch(&files.tool_call_id, artifact, path)
                };
                files.patch_artifact_ids.iter().enumerate().flat_map(patch).collect()
            }
            Payload::ToolTodoWriteUpdated(list) => {
                let entry = |todo: &recount_event::family::tool::Todo| json!({ "content": todo.content, "priority": "medium", "status": todo.status.as_str() });
                let entries: Vec<Value> = list.todos.iter().map(entry).collect();
                vec![Step::Update(json!({ "sessionUpdate": "plan", "entries": entries }))]
            }
            Payload::GapEventsPruned(gap) => {
                let (first, last) = (gap.first_pruned_sequence, gap.last_pruned_sequence);
                vec![self.note(&format!("Events {first} to {last} of the run were pruned."))]
            }
            _ => Vec::new(),
        }
    }

    fn begin(&mut self, call: Call) -> Vec<Step> {
        let update = call.opening();
        self.calls.insert(call.id().to_owned(), call);
        vec![Step::Update(update)]
    }

    fn on(&mut self, id: &ForeignId, change: impl FnOnce(&mut Call) -> Option<Value>) -> Vec<Step> {
        let update = self.calls.get_mut(id.as_str()).and_then(change);
        update.map(Step::Update).into_iter().collect()
    }

    fn patch(&self, call: &ForeignId, artifact: &ForeignId, path: &str) -> Vec<Step> {
        let (call, artifact) = (call.as_str().to_owned(), artifact.as_str().to_owned());
        vec![Step::Patch { call, artifact, path: path.to_owned() }]
    }

    /// The call that a permission is asked for, as far as it is known.
    pub(crate) fn asked_call(&self, id: &ForeignId) -> Option<Value> {
        self.calls.get(id.as_str()).map(Call::shown)
    }

    /// The folder that the run works in.
    pub(crate) fn root(&self) -> Option<&str> {
        self.root.as_deref()
    }
}
