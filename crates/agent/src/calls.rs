//! Decides about the calls of a model: refuse, run, hand to the application, or ask a person. Also starts the single
//! call of runs that have no model.
//!
//! The protocol sets the order. Calls that need no response are settled first. Then all approvals are requested, and
//! all calls of the application's own tools are handed to it together. Then questions are asked one at a time, a
//! handoff last.
//!
//! Start at [`Worker::advance_calls`]. `execute` executes an allowed call; `client` knows which tools belong to an
//! application.

use std::sync::Arc;

use recount_engine::AllowanceRow;
use recount_event::digest::call_digest;
use recount_event::family::approval::Reversibility;
use recount_event::family::error::ToolUnavailable;
use recount_event::family::policy::ToolBlocked;
use recount_event::family::run::{RunKind, WaitKind, Waiting, WaitsFor};
use recount_event::family::tool::{Executor, Invoked, RefusalCode, Refused, Started};
use recount_event::{Draft, ForeignId, Payload, time};
use recount_run::{CallStage, Work, outstanding};
use recount_world::Kind;
use serde_json::{Value, json};

use crate::approval_request::{ApprovalRequest, ApprovalTerms};
use crate::client;
use crate::limits;
use crate::policy::Verdict;
use crate::tool::{Assessment, McpOrigin, Tool, ToolPrompt};
use crate::turn::{RAW, why_unreadable};
use crate::worker::{OpenCall, WorkResult, Worker};

/// What to do with a call.
enum CallDecision {
    Refuse {
        code: RefusalCode,
        message: String,
        before: Vec<Draft>,
    },
    Run(Box<Permit>),
    RequestApproval(ApprovalRequest),
    /// The application executes it.
    Client(Box<Invoked>),
    Question(ToolPrompt),
}

/// A call that needs no response from a person.
struct Permit {
    assessment: Assessment,
    /// The allowance that replaces an approval, if the policy requires one.
    allowance: Option<AllowanceRow>,
}

impl Permit {
    fn by_policy(assessment: Assessment) -> Self {
        Permit { assessment, allowance: None }
    }
}

/// Responses that the run has to wait for.
#[derive(Default)]
struct OpenWork {
    approvals: Vec<ApprovalRequest>,
    client: Vec<Invoked>,
    questions: Vec<ToolPrompt>,
}

impl Worker {
    /// Takes the next step for the open calls.
    pub(crate) async fn advance_calls(&mut self) -> WorkResult<()> {
        let mut opening = Vec::new();
        if self.lacks_workspace() && !self.provision(&mut opening).await? {
            return Ok(());
        }
        if self.calls_servers() {
            self.reach_servers(&mut opening).await?;
        }
        if !opening.is_empty() {
            self.report(opening).await?;
        }
        let state = self.worker_session.state();
        let mut proposed = Vec::new();
        let mut invoked = Vec::new();
        for work in outstanding(state).work {
            let Work::RunTool { tool_call_id } = work else { continue };
            let Some(call) = state.call(&tool_call_id) else { continue };
            match call.stage {
                CallStage::Invoked(_) => {
                    let name = call.tool_name.as_deref().unwrap_or_default();
                    invoked.push((tool_call_id, self.agent.only_reads(name)));
                }
                CallStage::Announced => return self.run_granted_single_call(tool_call_id).await,
                CallStage::Proposed => proposed.push(OpenCall {
                    name: call.tool_name.as_deref().unwrap_or_default().to_owned(),
                    turn_index: call.turn_index,
                    id: tool_call_id,
                }),
            }
        }
        if !invoked.is_empty() {
            return self.carry_out_first(invoked).await;
        }
        let mut settled = Vec::new();
        let mut next: Vec<(OpenCall, Box<Permit>)> = Vec::new();
        // Whether more calls may run concurrently with those.
        let mut is_open = true;
        let mut open_work = OpenWork::default();
        for open in proposed {
            match self.decide(&open).await? {
                CallDecision::Refuse { code, message, before } => {
                    settled.extend(before);
                    let refused = Refused::new(open.id.clone(), open.name.clone(), code, message);
                    settled.push(Payload::ToolRefused(Box::new(refused)).into());
                }
                CallDecision::Run(permit) => {
                    let only_reads = self.agent.only_reads(&open.name) && !permit.assessment.writes;
                    if is_open && (only_reads || next.is_empty()) {
                        next.push((open, permit));
                    }
                    // Calls after one that changes something may depend on it.
                    is_open &= only_reads && next.len() < limits::READS_AT_ONCE;
                }
                CallDecision::RequestApproval(approval) => open_work.approvals.push(approval),
                CallDecision::Client(invoked) => open_work.client.push(*invoked),
                CallDecision::Question(prompt) => open_work.questions.push(prompt),
            }
        }
        if !next.is_empty() {
            for (open, permit) in &next {
                settled.extend(self.invocation(open, permit));
            }
            self.report(settled).await?;
            let ids: Vec<ForeignId> = next.into_iter().map(|(open, _)| open.id).collect();
            return match ids.as_slice() {
                [only] => self.carry_out(only).await,
                several => self.carry_out_together(several).await,
            };
        }
        if !settled.is_empty() {
            return self.report(settled).await;
        }
        self.open_prompts(open_work).await
    }

    /// Executes the first invoked call, and concurrently those after it, as long as all are read-only.
    async fn carry_out_first(&mut self, invoked: Vec<(ForeignId, bool)>) -> WorkResult<()> {
        let reads = invoked.iter().take(limits::READS_AT_ONCE).take_while(|(_, only_reads)| *only_reads);
        let ids: Vec<ForeignId> = reads.map(|(id, _)| id.clone()).collect();
        match (ids.as_slice(), invoked.first()) {
            ([_, _, ..], _) => self.carry_out_together(&ids).await,
            (_, Some((first, _))) => self.carry_out(first).await,
            (_, None) => Ok(()),
        }
    }

    /// The events that start a turn's only call, if it needs no approval. They are appended together with the end of
    /// the turn, which saves a wait.
    pub(crate) async fn single_call_start(
        &mut self,
        id: ForeignId,
        name: String,
        turn_index: u64,
    ) -> WorkResult<Vec<Draft>> {
        let open = OpenCall { id, name, turn_index: Some(turn_index) };
        Ok(match self.decide(&open).await? {
            CallDecision::Run(permit) => self.invocation(&open, &permit),
            _ => Vec::new(),
        })
    }

    /// Opens prompts and client calls, and lets the run wait for them.
    async fn open_prompts(&mut self, open_work: OpenWork) -> WorkResult<()> {
        let OpenWork { approvals, client, questions } = open_work;
        let mut waits_for = self.worker_session.state().waits_for_what();
        let mut drafts: Vec<Draft> = Vec::new();
        let mut wait = |kind, id: &ForeignId| waits_for.push(WaitsFor { kind, id: id.clone() });
        if approvals.is_empty() && client.is_empty() {
            let handoff = |prompt: &ToolPrompt| matches!(prompt, ToolPrompt::Handoff(_));
            let first = questions.iter().position(|prompt| !handoff(prompt)).unwrap_or(0);
            match questions.into_iter().nth(first) {
                Some(ToolPrompt::Clarification(mut request)) => {
                    request.expires_at = self.expires_at(request.timeout_seconds);
                    wait(WaitKind::Clarification, &request.clarification_id);
                    drafts.push(Payload::ClarificationRequested(request).into());
                }
                Some(ToolPrompt::Handoff(mut request)) => {
                    request.expires_at = self.expires_at(request.timeout_seconds);
                    wait(WaitKind::Handoff, &request.handoff_id);
                    drafts.push(Payload::HandoffRequested(request).into());
                }
                None => {}
            }
        }
        for ApprovalRequest { request, before } in approvals {
            wait(WaitKind::Approval, &request.approval_id);
            drafts.extend(before);
            drafts.push(Payload::ApprovalRequested(request).into());
        }
        for invoked in client {
            wait(WaitKind::ClientTool, &invoked.tool_call_id);
            drafts.push(Payload::ToolInvoked(Box::new(invoked)).into());
        }
        drafts.push(Payload::RunWaiting(Box::new(Waiting::new(waits_for))).into());
        self.report(drafts).await
    }

    pub(crate) fn expires_at(&self, timeout_seconds: Option<u64>) -> Option<String> {
        let seconds = timeout_seconds?;
        let now = self.worker_session.world().clock.now_ms();
        Some(time::format_ms(now.saturating_add(seconds.saturating_mul(1_000)).min(time::LAST_MS)))
    }

    /// Decides what to do with a proposed call.
    async fn decide(&mut self, open: &OpenCall) -> WorkResult<CallDecision> {
        let refuse = |code, message: String| CallDecision::Refuse { code, message, before: Vec::new() };
        if self.worker_session.state().budget_exceeded() {
            return Ok(refuse(RefusalCode::Budget, "the budget is exhausted".to_owned()));
        }
        if client::carries_out(&self.config, &open.name) {
            return Ok(match self.client_invocation(open) {
                Ok(invoked) => CallDecision::Client(Box::new(invoked)),
                Err(why) => refuse(RefusalCode::InvalidInput, why),
            });
        }
        let Some(tool) = self.tool(&open.name).cloned() else {
            let message = self.unknown_tool_message(&open.name);
            return Ok(self.unavailable(open, RefusalCode::UnknownTool, "unknown_tool", message));
        };
        if !self.agent.offers(&self.config, &open.name) {
            let message = format!("the tool {} is not available in this run", open.name);
            return Ok(self.unavailable(open, RefusalCode::Unavailable, "not_offered", message));
        }
        if let Some(why) = tool.unavailable() {
            let message = format!("the tool {} is not available: {why}", open.name);
            return Ok(self.unavailable(open, RefusalCode::Unavailable, "not_configured", message));
        }
        let Some(input) = self.input(&open.id).await? else {
            let message =
                "the call was not run because its input contained a secret, which is not stored".to_owned();
            return Ok(refuse(RefusalCode::InvalidInput, message));
        };
        if let Err(why) = check_is_object(&input).and_then(|()| check_input(&*tool, &input)) {
            return Ok(refuse(RefusalCode::InvalidInput, why));
        }
        if let Some(prompt) = tool.prompt(&open.id, &input) {
            return Ok(CallDecision::Question(self.with_ids(open, prompt)));
        }
        let (assessment, mut verdict) = self.assess(&tool, &input).await;
        if self.config.ask_first.contains(&open.name) {
            verdict = verdict.with_approval(&assessment);
        }
        Ok(match verdict {
            Verdict::Allow => CallDecision::Run(Box::new(Permit::by_policy(assessment))),
            Verdict::Block { policy_id, reason } => {
                let mut blocked = ToolBlocked::new(open.name.clone(), reason.clone());
                blocked.tool_call_id = Some(open.id.clone());
                blocked.policy_id = Some(policy_id);
                blocked.kind = Some(tool.kind().to_owned());
                if let Some(McpOrigin { server, tool, .. }) = tool.origin() {
                    (blocked.mcp_server, blocked.mcp_tool) = (Some(server.clone()), Some(tool.clone()));
                    blocked.result = Some("blocked".to_owned());
                }
                let before = vec![Payload::PolicyToolBlocked(Box::new(blocked)).into()];
                CallDecision::Refuse {
                    code: RefusalCode::Blocked,
                    message: format!("blocked by a rule: {reason}"),
                    before,
                }
            }
            Verdict::Ask { risk, reversibility, timeout_seconds, default_decision, policy_reason } => {
                let logged = self.worker_session.state().call(&open.id).and_then(|call| call.input.clone());
                let digest = logged.map(|input| call_digest(&open.name, input.text()));
                let terms =
                    ApprovalTerms { risk, reversibility, timeout_seconds, default_decision, policy_reason };
                let shown = self.approval_preview(&tool, &input, &terms).await;
                match self.allowance(&open.id, &shown).await {
                    Some(allowance) => {
                        CallDecision::Run(Box::new(Permit { assessment, allowance: Some(allowance) }))
                    }
                    None => CallDecision::RequestApproval(
                        self.approval_request(open, &assessment, terms, digest, shown).await,
                    ),
                }
            }
        })
    }

    /// Assesses a call and asks the policy. A long input is assessed on another thread, so that it delays no other run.
    async fn assess(&self, tool: &Arc<dyn Tool>, input: &Value) -> (Assessment, Verdict) {
        let (agent, tool, setting) = (self.agent.clone(), tool.clone(), self.setting());
        let judge = Arc::new(move |input: &Value| {
            let assessment = setting.assess(tool.assess(input));
            let verdict = agent.policy().judge(tool.name(), &assessment, &setting, tool.origin());
            (assessment, verdict)
        });
        if input_bytes(input) <= limits::JUDGED_AT_ONCE_BYTES {
            return judge(input);
        }
        let (assess_elsewhere, long) = (judge.clone(), input.clone());
        let judged =
            self.worker_session.world().tasks.block(Kind::Effect, move || assess_elsewhere(&long)).await;
        // A panic is a bug. It ends this worker, as it would have without the other thread.
        judged.unwrap_or_else(|_| judge(input))
    }

    /// The invocation for the application, or an error for the model if the input is not an object. The application
    /// checks the schema itself.
    fn client_invocation(&self, open: &OpenCall) -> Result<Invoked, String> {
        // The application reads the input from the log, so secrets are masked for it too.
        let logged = self.worker_session.state().call(&open.id).and_then(|call| call.input.clone());
        let input =
            logged.and_then(|input| serde_json::from_str::<Value>(input.text()).ok()).unwrap_or_default();
        check_is_object(&input)?;
        let mut invoked = Invoked::new(open.id.clone(), open.name.clone());
        invoked.turn_index = open.turn_index;
        invoked.executor = Some(Executor::Client);
        let summary: String = input.to_string().chars().take(limits::SUMMARY_CHARS_MAX).collect();
        invoked.args_summary = Some(summary);
        Ok(invoked)
    }

    fn unavailable(&self, open: &OpenCall, code: RefusalCode, reason: &str, message: String) -> CallDecision {
        let mut unavailable = ToolUnavailable::new(open.name.clone(), reason.to_owned());
        unavailable.tool_call_id = Some(open.id.clone());
        let before = vec![Payload::ErrorToolUnavailable(Box::new(unavailable)).into()];
        CallDecision::Refuse { code, message, before }
    }

    /// Gives a prompt its own id and the id of its call.
    fn with_ids(&self, open: &OpenCall, prompt: ToolPrompt) -> ToolPrompt {
        match prompt {
            ToolPrompt::Clarification(mut request) => {
                request.clarification_id = self.worker_session.mint("clar_");
                request.tool_call_id = Some(open.id.clone());
                ToolPrompt::Clarification(request)
            }
            ToolPrompt::Handoff(mut request) => {
                request.handoff_id = self.worker_session.mint("hand_");
                request.tool_call_id = Some(open.id.clone());
                ToolPrompt::Handoff(request)
            }
        }
    }

    fn invocation(&self, open: &OpenCall, permit: &Permit) -> Vec<Draft> {
        let Permit { assessment, allowance } = permit;
        let tool = self.tool(&open.name);
        let kind = tool.map(|tool| tool.kind().to_owned());
        let mut invoked = Invoked::new(open.id.clone(), open.name.clone());
        invoked.kind = kind.clone();
        if let Some(origin) = tool.and_then(|tool| tool.origin()) {
            (invoked.mcp_server, invoked.mcp_tool) = (Some(origin.server.clone()), Some(origin.tool.clone()));
        }
        invoked.turn_index = open.turn_index;
        invoked.executor = Some(Executor::Server);
        invoked.risk_level = Some(assessment.risk);
        invoked.irreversible = Some(assessment.reversibility == Reversibility::Irreversible)
            .filter(|irreversible| *irreversible);
        invoked.args_summary = Some(assessment.summary.clone());
        if let Some(allowance) = allowance {
            invoked.allowance_id = ForeignId::parse(&allowance.id).ok();
            invoked.allowance_scope = Some(allowance.scope);
            invoked.allowed_by = Some(allowance.given_by.clone());
        }
        let mut started = Started::new(open.id.clone(), open.name.clone());
        started.kind = kind;
        started.turn_index = open.turn_index;
        vec![Payload::ToolInvoked(Box::new(invoked)).into(), Payload::ToolStarted(Box::new(started)).into()]
    }

    // ---- runs that are one call --------------------------------------------------------------

    /// Starts the call of a run without a model.
    pub(crate) async fn start_single_call(&mut self) -> WorkResult<()> {
        let mut opening = Vec::new();
        if !self.provision(&mut opening).await? {
            return Ok(());
        }
        let (name, input) = match self.single_call_input() {
            Ok(only) => only,
            Err(message) => return self.fail("order_refused", message, false).await,
        };
        let Some(tool) = self.agent.tool(&name).cloned() else {
            return self.fail("tool_unavailable", self.unknown_tool_message(&name), false).await;
        };
        if let Err(why) = check_input(&*tool, &input) {
            return self.fail("invalid_input", why, false).await;
        }
        let open = OpenCall { id: self.worker_session.mint("call_"), name: name.clone(), turn_index: None };
        let digest = Some(call_digest(&name, &input.to_string()));
        let (assessment, verdict) = self.assess(&tool, &input).await;
        match verdict {
            Verdict::Allow => self.run_single_call(open, Permit::by_policy(assessment), input, opening).await,
            Verdict::Block { policy_id, reason } => {
                let mut blocked = ToolBlocked::new(name, reason.clone());
                blocked.policy_id = Some(policy_id);
                blocked.kind = Some(tool.kind().to_owned());
                opening.push(Payload::PolicyToolBlocked(Box::new(blocked)).into());
                opening.push(self.failed("blocked", format!("blocked by a rule: {reason}"), false));
                self.report(opening).await
            }
            Verdict::Ask { risk, reversibility, timeout_seconds, default_decision, policy_reason } => {
                let terms =
                    ApprovalTerms { risk, reversibility, timeout_seconds, default_decision, policy_reason };
                let shown = self.approval_preview(&tool, &input, &terms).await;
                if let Some(allowance) = self.allowance(&open.id, &shown).await {
                    let permit = Permit { assessment, allowance: Some(allowance) };
                    return self.run_single_call(open, permit, input, opening).await;
                }
                let ApprovalRequest { request, before } =
                    self.approval_request(&open, &assessment, terms, digest, shown).await;
                opening.extend(before);
                let waits_for = vec![WaitsFor { kind: WaitKind::Approval, id: request.approval_id.clone() }];
                opening.push(Payload::ApprovalRequested(request).into());
                opening.push(Payload::RunWaiting(Box::new(Waiting::new(waits_for))).into());
                self.report(opening).await
            }
        }
    }

    /// Executes the call of such a run. It needs no further approval.
    async fn run_single_call(
        &mut self,
        open: OpenCall,
        permit: Permit,
        input: Value,
        mut opening: Vec<Draft>,
    ) -> WorkResult<()> {
        opening.extend(self.invocation(&open, &permit));
        self.originals.insert(open.id.clone(), input);
        self.report(opening).await?;
        self.carry_out(&open.id).await
    }

    /// Executes the call of such a run after a person approved it.
    async fn run_granted_single_call(&mut self, id: ForeignId) -> WorkResult<()> {
        let (name, input) = match self.single_call_input() {
            Ok(only) => only,
            Err(message) => return self.fail("order_refused", message, false).await,
        };
        let Some(tool) = self.agent.tool(&name).cloned() else {
            return self.fail("tool_unavailable", self.unknown_tool_message(&name), false).await;
        };
        let (assessment, _) = self.assess(&tool, &input).await;
        let open = OpenCall { id, name, turn_index: None };
        let invocation = self.invocation(&open, &Permit::by_policy(assessment));
        self.originals.insert(open.id.clone(), input);
        self.report(invocation).await?;
        self.carry_out(&open.id).await
    }

    /// The tool and the input of the call that the run consists of.
    pub(crate) fn single_call_input(&self) -> Result<(String, Value), String> {
        match self.worker_session.state().kind() {
            RunKind::Shell => {
                let command = self.config.command.as_ref().ok_or("the run has no command")?;
                Ok(("shell_exec".to_owned(), json!({ "command": command })))
            }
            RunKind::Git => {
                let args = self.config.args.as_ref().ok_or("the run has no arguments for git")?;
                Ok(("git_exec".to_owned(), json!({ "args": args })))
            }
            RunKind::File => {
                let file = self.config.file.as_ref().ok_or("the run does not name a file tool")?;
                let input = serde_json::from_str(file.input.text())
                    .map_err(|why| format!("the input of {} cannot be read: {why}", file.tool))?;
                Ok((file.tool.clone(), input))
            }
            RunKind::AgentLoop | RunKind::External => Err("the run is not a single tool call".to_owned()),
        }
    }
}

/// The approximate size of an input in bytes.
fn input_bytes(input: &Value) -> usize {
    match input {
        Value::Object(object) => object.iter().map(|(name, value)| name.len() + input_bytes(value)).sum(),
        Value::Array(values) => values.iter().map(input_bytes).sum(),
        Value::String(text) => text.len(),
        _ => size_of::<Value>(),
    }
}

fn check_input(tool: &dyn Tool, input: &Value) -> Result<(), String> {
    crate::schema::check(&tool.schema(), input).map_err(|misfit| misfit.to_string())
}

/// Refuses an input that was not a JSON object, with an error that the model can act on.
fn check_is_object(input: &Value) -> Result<(), String> {
    let raw = input.as_object().filter(|object| object.len() == 1).and_then(|object| object.get(RAW));
    match raw.and_then(Value::as_str) {
        Some(text) => {
            let why = why_unreadable(text);
            Err(format!("the input is not a valid JSON object: {why}; send one complete object"))
        }
        None => Ok(()),
    }
}
