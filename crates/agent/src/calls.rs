//! What becomes of the calls that a model made: refused, allowed, or asked about; and the one call of runs that have
//! no model.
//!
//! The order is that of the protocol: what needs nobody is settled first, then all permissions are asked for and all
//! calls of the application's own tools handed to it together, then questions are asked one at a time, a handoff last.
//! Look at [`Worker::see_to_calls`]. `execute` carries out an allowed call; `client` knows which tools are an
//! application's.

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

use crate::client;
use crate::leave::{Leave, LeaveTerms};
use crate::limits;
use crate::policy::Verdict;
use crate::tool::{Ask, Assessment, McpOrigin, Tool};
use crate::turn::{RAW, why_unreadable};
use crate::worker::{Done, Open, Worker};

/// What is to be done with a call.
enum Fate {
    Refuse {
        code: RefusalCode,
        message: String,
        before: Vec<Draft>,
    },
    Run(Box<Permit>),
    AskLeave(Leave),
    /// The application carries it out.
    Client(Box<Invoked>),
    Question(Ask),
}

/// A call that needs nobody's answer.
struct Permit {
    assessment: Assessment,
    /// The allowance by which nobody is asked, where the policy would ask.
    allowance: Option<AllowanceRow>,
}

impl Permit {
    fn by_policy(assessment: Assessment) -> Self {
        Permit { assessment, allowance: None }
    }
}

/// What others have to do before a run goes on.
#[derive(Default)]
struct OpenWork {
    leaves: Vec<Leave>,
    client: Vec<Invoked>,
    questions: Vec<Ask>,
}

impl Worker {
    /// Does the next thing that calls need.
    pub(crate) async fn see_to_calls(&mut self) -> Done<()> {
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
        let state = self.desk.state();
        let mut owed = Vec::new();
        let mut invoked = Vec::new();
        for work in outstanding(state).work {
            let Work::RunTool { tool_call_id } = work else { continue };
            let Some(call) = state.call(&tool_call_id) else { continue };
            match call.stage {
                CallStage::Invoked(_) => {
                    let name = call.tool_name.as_deref().unwrap_or_default();
                    invoked.push((tool_call_id, self.agent.only_reads(name)));
                }
                CallStage::Announced => return self.granted_only_call(tool_call_id).await,
                CallStage::Proposed => owed.push(Open {
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
        let mut next: Vec<(Open, Box<Permit>)> = Vec::new();
        // Whether more calls may be run beside those.
        let mut is_open = true;
        let mut wanted = OpenWork::default();
        for open in owed {
            match self.judge(&open).await? {
                Fate::Refuse { code, message, before } => {
                    settled.extend(before);
                    let refused = Refused::new(open.id.clone(), open.name.clone(), code, message);
                    settled.push(Payload::ToolRefused(Box::new(refused)).into());
                }
                Fate::Run(permit) => {
                    let only_reads = self.agent.only_reads(&open.name) && !permit.assessment.writes;
                    if is_open && (only_reads || next.is_empty()) {
                        next.push((open, permit));
                    }
                    // What comes after a call that changes something may count on that.
                    is_open &= only_reads && next.len() < limits::READS_AT_ONCE;
                }
                Fate::AskLeave(leave) => wanted.leaves.push(leave),
                Fate::Client(invoked) => wanted.client.push(*invoked),
                Fate::Question(ask) => wanted.questions.push(ask),
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
        self.ask(wanted).await
    }

    /// Carries out the first of the calls that are invoked, and beside it those after it, as far as all only read.
    async fn carry_out_first(&mut self, invoked: Vec<(ForeignId, bool)>) -> Done<()> {
        let reads = invoked.iter().take(limits::READS_AT_ONCE).take_while(|(_, only_reads)| *only_reads);
        let ids: Vec<ForeignId> = reads.map(|(id, _)| id.clone()).collect();
        match (ids.as_slice(), invoked.first()) {
            ([_, _, ..], _) => self.carry_out_together(&ids).await,
            (_, Some((first, _))) => self.carry_out(first).await,
            (_, None) => Ok(()),
        }
    }

    /// The beginning of a turn's only call, where nobody has to be asked first. Written with the end of the turn, it
    /// needs no wait of its own.
    pub(crate) async fn started_at_once(
        &mut self,
        id: ForeignId,
        name: String,
        turn_index: u64,
    ) -> Done<Vec<Draft>> {
        let open = Open { id, name, turn_index: Some(turn_index) };
        Ok(match self.judge(&open).await? {
            Fate::Run(permit) => self.invocation(&open, &permit),
            _ => Vec::new(),
        })
    }

    /// Opens what people or applications have to say something to, and lets the run wait for them.
    async fn ask(&mut self, wanted: OpenWork) -> Done<()> {
        let OpenWork { leaves, client, questions } = wanted;
        let mut waits_for = self.desk.state().waits_for_what();
        let mut drafts: Vec<Draft> = Vec::new();
        let mut wait = |kind, id: &ForeignId| waits_for.push(WaitsFor { kind, id: id.clone() });
        if leaves.is_empty() && client.is_empty() {
            let handoff = |ask: &Ask| matches!(ask, Ask::Handoff(_));
            let first = questions.iter().position(|ask| !handoff(ask)).unwrap_or(0);
            match questions.into_iter().nth(first) {
                Some(Ask::Clarification(mut asked)) => {
                    asked.expires_at = self.expires_at(asked.timeout_seconds);
                    wait(WaitKind::Clarification, &asked.clarification_id);
                    drafts.push(Payload::ClarificationRequested(asked).into());
                }
                Some(Ask::Handoff(mut asked)) => {
                    asked.expires_at = self.expires_at(asked.timeout_seconds);
                    wait(WaitKind::Handoff, &asked.handoff_id);
                    drafts.push(Payload::HandoffRequested(asked).into());
                }
                None => {}
            }
        }
        for Leave { asked, before } in leaves {
            wait(WaitKind::Approval, &asked.approval_id);
            drafts.extend(before);
            drafts.push(Payload::ApprovalRequested(asked).into());
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
        let now = self.desk.world().clock.now_ms();
        Some(time::format_ms(now.saturating_add(seconds.saturating_mul(1_000)).min(time::LAST_MS)))
    }

    /// What is to be done with a proposed call.
    async fn judge(&mut self, open: &Open) -> Done<Fate> {
        let refuse = |code, message: String| Fate::Refuse { code, message, before: Vec::new() };
        if self.desk.state().budget_exceeded() {
            return Ok(refuse(RefusalCode::Budget, "the budget is used up".to_owned()));
        }
        if client::carries_out(&self.order, &open.name) {
            return Ok(match self.client_invocation(open) {
                Ok(invoked) => Fate::Client(Box::new(invoked)),
                Err(why) => refuse(RefusalCode::InvalidInput, why),
            });
        }
        let Some(tool) = self.tool(&open.name).cloned() else {
            let message = self.no_such_tool(&open.name);
            return Ok(self.unavailable(open, RefusalCode::UnknownTool, "unknown_tool", message));
        };
        if !self.agent.offers(&self.order, &open.name) {
            let message = format!("{} is not among the tools of this run", open.name);
            return Ok(self.unavailable(open, RefusalCode::Unavailable, "not_offered", message));
        }
        if let Some(why) = tool.unavailable() {
            let message = format!("{} cannot be called: {why}", open.name);
            return Ok(self.unavailable(open, RefusalCode::Unavailable, "not_configured", message));
        }
        let Some(input) = self.input(&open.id).await? else {
            let message = "its input held a secret that was not kept, so it cannot be carried out".to_owned();
            return Ok(refuse(RefusalCode::InvalidInput, message));
        };
        if let Err(why) = readable(&input).and_then(|()| fits(&*tool, &input)) {
            return Ok(refuse(RefusalCode::InvalidInput, why));
        }
        if let Some(ask) = tool.asks(&open.id, &input) {
            return Ok(Fate::Question(self.named(open, ask)));
        }
        let (assessment, mut verdict) = self.assessed(&tool, &input).await;
        if self.order.ask_first.contains(&open.name) {
            verdict = verdict.only_with_leave(&assessment);
        }
        Ok(match verdict {
            Verdict::Allow => Fate::Run(Box::new(Permit::by_policy(assessment))),
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
                Fate::Refuse {
                    code: RefusalCode::Blocked,
                    message: format!("a rule forbids it: {reason}"),
                    before,
                }
            }
            Verdict::Ask { risk, reversibility, timeout_seconds, default_decision, policy_reason } => {
                let logged = self.desk.state().call(&open.id).and_then(|call| call.input.clone());
                let digest = logged.map(|input| call_digest(&open.name, input.text()));
                let terms =
                    LeaveTerms { risk, reversibility, timeout_seconds, default_decision, policy_reason };
                let shown = self.shown(&tool, &input, &terms).await;
                match self.allowance(&open.id, &shown).await {
                    Some(allowance) => Fate::Run(Box::new(Permit { assessment, allowance: Some(allowance) })),
                    None => Fate::AskLeave(self.leave(open, &assessment, terms, digest, shown).await),
                }
            }
        })
    }

    /// What a call would do, and what the policy says to it. A long input is judged where it holds up no other run.
    async fn assessed(&self, tool: &Arc<dyn Tool>, input: &Value) -> (Assessment, Verdict) {
        let (agent, tool, setting) = (self.agent.clone(), tool.clone(), self.setting());
        let judge = Arc::new(move |input: &Value| {
            let assessment = tool.assess(input);
            let verdict = agent.policy().judge(tool.name(), &assessment, &setting, tool.origin());
            (assessment, verdict)
        });
        if bytes(input) <= limits::JUDGED_AT_ONCE_BYTES {
            return judge(input);
        }
        let (beside, long) = (judge.clone(), input.clone());
        let judged = self.desk.world().tasks.block(Kind::Effect, move || beside(&long)).await;
        // A panic is a bug and ends this worker, as it would have done at once.
        judged.unwrap_or_else(|_| judge(input))
    }

    /// What hands a call to the application, or what the model is told when its input is no object. Whether it fits the
    /// schema is the application's to say.
    fn client_invocation(&self, open: &Open) -> Result<Invoked, String> {
        // The application reads the input where everybody does, so what was masked there is masked for it, too.
        let logged = self.desk.state().call(&open.id).and_then(|call| call.input.clone());
        let input =
            logged.and_then(|input| serde_json::from_str::<Value>(input.text()).ok()).unwrap_or_default();
        readable(&input)?;
        let mut invoked = Invoked::new(open.id.clone(), open.name.clone());
        invoked.turn_index = open.turn_index;
        invoked.executor = Some(Executor::Client);
        let summary: String = input.to_string().chars().take(limits::SUMMARY_CHARS_MAX).collect();
        invoked.args_summary = Some(summary);
        Ok(invoked)
    }

    fn unavailable(&self, open: &Open, code: RefusalCode, reason: &str, message: String) -> Fate {
        let mut gone = ToolUnavailable::new(open.name.clone(), reason.to_owned());
        gone.tool_call_id = Some(open.id.clone());
        let before = vec![Payload::ErrorToolUnavailable(Box::new(gone)).into()];
        Fate::Refuse { code, message, before }
    }

    /// Gives what is asked its name, and the name of the call that asks.
    fn named(&self, open: &Open, ask: Ask) -> Ask {
        match ask {
            Ask::Clarification(mut asked) => {
                asked.clarification_id = self.desk.mint("clar_");
                asked.tool_call_id = Some(open.id.clone());
                Ask::Clarification(asked)
            }
            Ask::Handoff(mut asked) => {
                asked.handoff_id = self.desk.mint("hand_");
                asked.tool_call_id = Some(open.id.clone());
                Ask::Handoff(asked)
            }
        }
    }

    fn invocation(&self, open: &Open, permit: &Permit) -> Vec<Draft> {
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

    /// Begins the call that a run without a model is.
    pub(crate) async fn only_call(&mut self) -> Done<()> {
        let mut opening = Vec::new();
        if !self.provision(&mut opening).await? {
            return Ok(());
        }
        let (name, input) = match self.only_input() {
            Ok(only) => only,
            Err(message) => return self.fail("order_refused", message, false).await,
        };
        let Some(tool) = self.agent.tool(&name).cloned() else {
            return self.fail("tool_unavailable", self.no_such_tool(&name), false).await;
        };
        if let Err(why) = fits(&*tool, &input) {
            return self.fail("invalid_input", why, false).await;
        }
        let open = Open { id: self.desk.mint("call_"), name: name.clone(), turn_index: None };
        let digest = Some(call_digest(&name, &input.to_string()));
        let (assessment, verdict) = self.assessed(&tool, &input).await;
        match verdict {
            Verdict::Allow => self.begin_only_call(open, Permit::by_policy(assessment), input, opening).await,
            Verdict::Block { policy_id, reason } => {
                let mut blocked = ToolBlocked::new(name, reason.clone());
                blocked.policy_id = Some(policy_id);
                blocked.kind = Some(tool.kind().to_owned());
                opening.push(Payload::PolicyToolBlocked(Box::new(blocked)).into());
                opening.push(self.failed("blocked", format!("a rule forbids it: {reason}"), false));
                self.report(opening).await
            }
            Verdict::Ask { risk, reversibility, timeout_seconds, default_decision, policy_reason } => {
                let terms =
                    LeaveTerms { risk, reversibility, timeout_seconds, default_decision, policy_reason };
                let shown = self.shown(&tool, &input, &terms).await;
                if let Some(allowance) = self.allowance(&open.id, &shown).await {
                    let permit = Permit { assessment, allowance: Some(allowance) };
                    return self.begin_only_call(open, permit, input, opening).await;
                }
                let Leave { asked, before } = self.leave(&open, &assessment, terms, digest, shown).await;
                opening.extend(before);
                let waits_for = vec![WaitsFor { kind: WaitKind::Approval, id: asked.approval_id.clone() }];
                opening.push(Payload::ApprovalRequested(asked).into());
                opening.push(Payload::RunWaiting(Box::new(Waiting::new(waits_for))).into());
                self.report(opening).await
            }
        }
    }

    /// Carries out the call that the run is, where nobody has to be asked.
    async fn begin_only_call(
        &mut self,
        open: Open,
        permit: Permit,
        input: Value,
        mut opening: Vec<Draft>,
    ) -> Done<()> {
        opening.extend(self.invocation(&open, &permit));
        self.originals.insert(open.id.clone(), input);
        self.report(opening).await?;
        self.carry_out(&open.id).await
    }

    /// A person has allowed the call that the run is.
    async fn granted_only_call(&mut self, id: ForeignId) -> Done<()> {
        let (name, input) = match self.only_input() {
            Ok(only) => only,
            Err(message) => return self.fail("order_refused", message, false).await,
        };
        let Some(tool) = self.agent.tool(&name).cloned() else {
            return self.fail("tool_unavailable", self.no_such_tool(&name), false).await;
        };
        let (assessment, _) = self.assessed(&tool, &input).await;
        let open = Open { id, name, turn_index: None };
        let invocation = self.invocation(&open, &Permit::by_policy(assessment));
        self.originals.insert(open.id.clone(), input);
        self.report(invocation).await?;
        self.carry_out(&open.id).await
    }

    /// The tool and the input that the order of such a run comes to.
    pub(crate) fn only_input(&self) -> Result<(String, Value), String> {
        match self.desk.state().kind() {
            RunKind::Shell => {
                let command = self.order.command.as_ref().ok_or("the run has no command")?;
                Ok(("shell_exec".to_owned(), json!({ "command": command })))
            }
            RunKind::Git => {
                let args = self.order.args.as_ref().ok_or("the run has no arguments for git")?;
                Ok(("git_exec".to_owned(), json!({ "args": args })))
            }
            RunKind::File => {
                let file = self.order.file.as_ref().ok_or("the run names no file tool")?;
                let input = serde_json::from_str(file.input.text())
                    .map_err(|why| format!("the input of {} cannot be read: {why}", file.tool))?;
                Ok((file.tool.clone(), input))
            }
            RunKind::AgentLoop | RunKind::External => Err("the run is not one call".to_owned()),
        }
    }
}

/// About as many bytes as an input has.
fn bytes(input: &Value) -> usize {
    match input {
        Value::Object(object) => object.iter().map(|(name, value)| name.len() + bytes(value)).sum(),
        Value::Array(values) => values.iter().map(bytes).sum(),
        Value::String(text) => text.len(),
        _ => size_of::<Value>(),
    }
}

fn fits(tool: &dyn Tool, input: &Value) -> Result<(), String> {
    crate::schema::check(&tool.schema(), input).map_err(|misfit| misfit.to_string())
}

/// Refuses an input that was no JSON object, in words that the model can act on.
fn readable(input: &Value) -> Result<(), String> {
    let raw = input.as_object().filter(|object| object.len() == 1).and_then(|object| object.get(RAW));
    match raw.and_then(Value::as_str) {
        Some(kept) => {
            let why = why_unreadable(kept);
            Err(format!("the input is not a readable JSON object: {why}; send one complete object"))
        }
        None => Ok(()),
    }
}
