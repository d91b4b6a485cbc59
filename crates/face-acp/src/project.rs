//! Projects the events of a run onto session updates of ACP and prompts for the editor. Pure.
//!
//! The same events give the same updates, live and replayed, except that only a replay has the messages of the user.
//! Must not depend on requests, connections or other runs. Start with [`Projector::event`].

pub(crate) mod call;
pub(crate) mod question;

use std::collections::BTreeMap;

use recount_event::family::run::WaitKind;
use recount_event::family::{approval, assistant, clarification, handoff, turn};
use recount_event::registry::Payload;
use recount_event::{Event, ForeignId, PromptEvent, PromptStep};
use serde_json::{Value, json};

use self::call::Call;
use crate::patch;

/// The tool whose call is shown as its question.
const ASK_USER: &str = "ask_user";

/// One consequence of an event.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    /// The `update` of a `session/update`.
    Update(Value),
    /// The run waits for the answer to this prompt.
    Prompt(OpenPrompt),
    /// A prompt was decided by any client.
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

/// A prompt that needs an answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum OpenPrompt {
    Approval(Box<approval::Requested>),
    Clarification(Box<clarification::Requested>),
    Handoff(Box<handoff::Requested>),
}

impl OpenPrompt {
    pub(crate) fn id(&self) -> &ForeignId {
        match self {
            OpenPrompt::Approval(request) => &request.approval_id,
            OpenPrompt::Clarification(request) => &request.clarification_id,
            OpenPrompt::Handoff(request) => &request.handoff_id,
        }
    }
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Ending {
    /// A normal ending, with a stop reason of ACP.
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
    /// A sentence about an ending that is not a normal one.
    pub(crate) fn words(&self) -> Option<String> {
        match self {
            Ending::Stopped(_) => None,
            Ending::Cancelled { by } => Some(format!("The run was cancelled ({by}).")),
            Ending::Failed { code, message, .. } => Some(format!("The run failed: {message} ({code}).")),
        }
    }
}

/// Tokens and cost so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct TokenUsage {
    pub(crate) input_tokens: u64,
    pub(crate) output_tokens: u64,
    pub(crate) cost_micros_usd: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum TextKind {
    Answer,
    Thought,
}

/// Projects one run, event by event.
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
    /// Whether pieces of the open attempt were sent, and whether any text of the open turn was.
    sent_pieces: bool,
    sent_text: bool,
    /// Bytes sent of each text block.
    blocks: BTreeMap<(u64, u64, TextKind), usize>,
    calls: BTreeMap<String, Call>,
    open: Vec<OpenPrompt>,
    is_waiting: bool,
    stop_reason: Option<turn::StopReason>,
    used: TokenUsage,
}

impl Projector {
    /// For one run, from its first event on. `server` is the address for links to artifacts.
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
            used: TokenUsage::default(),
        }
    }

    pub(crate) fn run(&self) -> &str {
        &self.run
    }

    pub(crate) fn used(&self) -> TokenUsage {
        self.used
    }

    /// The open prompts, oldest first.
    pub(crate) fn open(&self) -> &[OpenPrompt] {
        &self.open
    }

    /// Whether the run is waiting.
    pub(crate) fn is_waiting(&self) -> bool {
        self.is_waiting
    }

    /// Later events are new: the editor sends the messages of the user, and prompts are forwarded.
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
                let words = "Waiting for the application that provides the tool.";
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
                self.used = TokenUsage {
                    input_tokens: tick.cumulative_input_tokens,
                    output_tokens: tick.cumulative_output_tokens,
                    cost_micros_usd: tick.cumulative_cost_micros_usd,
                };
                Vec::new()
            }
            other => self
                .apply_message(other)
                .or_else(|| self.apply_prompt(other))
                .unwrap_or_else(|| self.work(other)),
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
            let words = format!("{path}: the diff is in the artifact {artifact}");
            call.add(call::text(&words));
        }
        for place in places {
            let path = call::absolute(root.as_deref(), place.path.as_deref().unwrap_or(path));
            call.add(call::diff(&path, &place));
        }
        vec![Step::Update(call.update_content())]
    }

    // Messages.

    /// The request as the message of the user, if the run has no message. Emitted before the first turn or at the
    /// ending.
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

    fn chunk(&self, kind: TextKind, content: Value) -> Step {
        let (update_kind, part) = match kind {
            TextKind::Answer => ("agent_message_chunk", ""),
            TextKind::Thought => ("agent_thought_chunk", ".thought"),
        };
        let (run, turn, attempt) = (&self.run, self.turn_index, self.attempt);
        let message = format!("{run}.{turn}.{attempt}{part}");
        Step::Update(json!({ "sessionUpdate": update_kind, "messageId": message, "content": content }))
    }

    /// A message of this face, not of the model.
    pub(crate) fn note(&self, words: &str) -> Step {
        let message = format!("{}.note", self.run);
        let content = json!({ "type": "text", "text": format!("\n\n[{words}]\n\n") });
        Step::Update(
            json!({ "sessionUpdate": "agent_message_chunk", "messageId": message, "content": content }),
        )
    }

    /// Projects the messages of the model. `None` for other events.
    fn apply_message(&mut self, payload: &Payload) -> Option<Vec<Step>> {
        Some(match payload {
            Payload::TurnStarted(started) => {
                let mut steps = self.request();
                steps.extend(self.abandon("interrupted"));
                if started.turn_index != self.turn_index {
                    self.attempt = 0;
                }
                self.turn_index = started.turn_index;
                self.sent_text = false;
                steps
            }
            Payload::TurnFailed(failed) if failed.will_retry => {
                let steps = self.abandon(&failed.code);
                self.attempt += 1;
                steps
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
            Payload::AssistantTextDelta(piece) => self.piece(TextKind::Answer, piece),
            Payload::AssistantThinkingDelta(piece) => self.piece(TextKind::Thought, piece),
            Payload::AssistantTextComplete(whole) => self.whole(TextKind::Answer, whole),
            Payload::AssistantThinkingComplete(whole) => self.whole(TextKind::Thought, whole),
            Payload::AssistantImageBlock(image) => {
                let link = self.artifact(&image.artifact_id, image.mime.as_ref());
                vec![self.chunk(TextKind::Answer, link)]
            }
            Payload::AssistantFinalAnswer(answer) if !self.sent_text => {
                vec![self.chunk(TextKind::Answer, json!({ "type": "text", "text": answer.summary }))]
            }
            Payload::AssistantFinalAnswer(_) => Vec::new(),
            _ => return None,
        })
    }

    fn piece(&mut self, kind: TextKind, piece: &assistant::TextDelta) -> Vec<Step> {
        *self.blocks.entry((piece.turn_index, piece.block_index, kind)).or_default() += piece.delta.len();
        self.text(kind, &piece.delta)
    }

    /// Sends a complete block, unless it was sent in pieces.
    fn whole(&mut self, kind: TextKind, whole: &assistant::TextComplete) -> Vec<Step> {
        match self.blocks.remove(&(whole.turn_index, whole.block_index, kind)) {
            Some(sent) if sent > 0 => Vec::new(),
            _ => self.text(kind, &whole.text),
        }
    }

    fn text(&mut self, kind: TextKind, text: &str) -> Vec<Step> {
        if text.is_empty() {
            return Vec::new();
        }
        self.sent_pieces = true;
        self.sent_text |= kind == TextKind::Answer;
        vec![self.chunk(kind, json!({ "type": "text", "text": text }))]
    }

    /// Reports that the response so far is void, because ACP cannot retract it.
    fn abandon(&mut self, code: &str) -> Vec<Step> {
        match std::mem::take(&mut self.sent_pieces) {
            true => vec![self.note(&format!("The response was cut off ({code}) and starts again."))],
            false => Vec::new(),
        }
    }

    // Prompts.

    /// Projects prompts and their outcomes. `None` for other events.
    fn apply_prompt(&mut self, payload: &Payload) -> Option<Vec<Step>> {
        Some(match payload {
            Payload::ApprovalRequested(request) => self.open_prompt(OpenPrompt::Approval(request.clone())),
            Payload::ClarificationRequested(request) => {
                let mut steps = self.open_prompt(OpenPrompt::Clarification(request.clone()));
                if self.is_replay {
                    steps.push(self.question(request));
                }
                steps
            }
            Payload::ClarificationAnswered(answered) => {
                let mut steps = self.settle(&answered.clarification_id);
                let text = answered.response.texts();
                steps.extend(self.replayed(json!({ "type": "text", "text": text })));
                steps
            }
            Payload::HandoffRequested(request) => self.open_prompt(OpenPrompt::Handoff(request.clone())),
            other => {
                let prompt = PromptEvent::of(other)?;
                if prompt.step != PromptStep::Settled {
                    return None;
                }
                self.settle(prompt.id)
            }
        })
    }

    /// A question as a message of the agent.
    pub(crate) fn question(&self, request: &clarification::Requested) -> Step {
        let message = format!("{}.{}", self.run, request.clarification_id.as_str());
        let content = json!({ "type": "text", "text": question::text(request) });
        Step::Update(
            json!({ "sessionUpdate": "agent_message_chunk", "messageId": message, "content": content }),
        )
    }

    fn open_prompt(&mut self, prompt: OpenPrompt) -> Vec<Step> {
        self.open.push(prompt.clone());
        if self.is_replay { Vec::new() } else { vec![Step::Prompt(prompt)] }
    }

    fn settle(&mut self, id: &ForeignId) -> Vec<Step> {
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
    /// Projects the work of the run: its calls, files and lists.
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

    /// The call that needs a permission, if it is known.
    pub(crate) fn prompted_call(&self, id: &ForeignId) -> Option<Value> {
        self.calls.get(id.as_str()).map(Call::shown)
    }

    /// The folder that the run works in.
    pub(crate) fn root(&self) -> Option<&str> {
        self.root.as_deref()
    }
}
