//! One call and the hooks that are about it.
//!
//! Look at [`HookedCall::admit`] before the call and [`HookedCall::report_end`] after it. It must not know where events
//! are stored.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use recount_event::registry::Opaque;
use recount_event::{Draft, ForeignId, Payload, RunId, codec};
use serde_json::{Value, json};

use super::claude::{self, ScriptContext};
use super::hook::Hook;
use super::names::{self, ForeignCall};
use super::process::{self, HookFault, HookOrder, HookReply};
use super::ruling::{Ruling, VETO_STATUS, by_status};
use super::settings::{HookStyle, OnFailure};
use crate::tool::{Cancel, Outcome, Teller};
use crate::tools::ending::Stop;

/// The code of a call that a hook vetoed.
const VETOED: &str = "vetoed";

/// The type of the event that says that a hook failed and that the run continued.
const HOOK_FAILED: &str = "ext.recount.hook_failed";

/// Where a call is made.
#[derive(Debug, Clone)]
pub(crate) struct HookPlace {
    pub(crate) run: RunId,
    /// The session's id, or the run's if it is part of none.
    pub(crate) session: String,
    /// The run's folder; empty if it has none.
    pub(crate) root: PathBuf,
}

/// See the file's head.
pub(crate) struct HookedCall {
    pub(crate) hooks: Vec<Arc<Hook>>,
    pub(crate) place: HookPlace,
    pub(crate) call: ForeignId,
    pub(crate) tool: String,
    /// As the log has it: masked.
    pub(crate) input: Value,
    /// Whether a person allowed this call.
    pub(crate) is_granted: bool,
    /// The stored event, or why it cannot be read.
    pub(crate) event: Result<Bytes, String>,
}

/// What a hook is asked: usually once, and for a call that several inputs make up once for each.
struct Question {
    bytes: Bytes,
    /// The input that it holds.
    input: Value,
}

impl HookedCall {
    /// Asks the hooks before a call, one after the other. Returns the outcome of a call that is not to be made.
    pub(crate) async fn admit(&self, teller: &mut dyn Teller, cancel: &mut Cancel) -> Option<Outcome> {
        for hook in &self.hooks {
            let ruled = tokio::select! {
                biased;
                () = cancel.cancelled() => return Some(Stop::cancelled().into()),
                ruled = self.rule(hook) => ruled,
            };
            let veto = match ruled {
                Ok(Ruling::Pass) => continue,
                Ok(Ruling::Ask(_)) if self.is_granted => continue,
                Ok(Ruling::Veto(reason)) => {
                    format!("the hook {} vetoed the call{}", hook.name, after_colon(&reason))
                }
                Ok(Ruling::Ask(reason)) => format!(
                    "the hook {} wants a person to approve the call, and a call that has been invoked cannot wait for an \
                     approval{}; a rule of the policy that asks about {} comes before the hook",
                    hook.name,
                    after_colon(&reason),
                    self.tool
                ),
                Err(fault) if hook.on_failure == OnFailure::Closed => {
                    self.log(hook, &fault);
                    format!("the hook {} failed, and the call is not made without it: {fault}", hook.name)
                }
                Err(fault) => {
                    self.log(hook, &fault);
                    match teller.tell(vec![self.failed(hook, &fault)]).await {
                        Ok(_) => continue,
                        Err(gone) => return Some(Stop::from(gone).into()),
                    }
                }
            };
            return Some(Stop::failed(VETOED, veto).into());
        }
        None
    }

    /// Gives the hooks the event that ended a call, one after the other. Returns what the log is to say of hooks that
    /// failed.
    pub(crate) async fn report_end(self) -> Vec<Draft> {
        let mut notes = Vec::new();
        for hook in &self.hooks {
            if let Err(fault) = self.hand_over(hook).await {
                self.log(hook, &fault);
                notes.push(self.failed(hook, &fault));
            }
        }
        notes
    }

    async fn rule(&self, hook: &Hook) -> Result<Ruling, HookFault> {
        let until = recount_world::moment() + hook.timeout;
        let mut asks = None;
        for question in self.questions(hook, None)? {
            let reply = self.run(hook, &question, until).await?;
            let ruling = match hook.style {
                HookStyle::Event => by_status(&reply)?,
                HookStyle::ClaudeCode => claude::ruling(&reply, &question.input)?,
            };
            match ruling {
                Ruling::Pass => {}
                veto @ Ruling::Veto(_) => return Ok(veto),
                ask @ Ruling::Ask(_) => asks = Some(ask),
            }
        }
        Ok(asks.unwrap_or(Ruling::Pass))
    }

    async fn hand_over(&self, hook: &Hook) -> Result<(), HookFault> {
        let until = recount_world::moment() + hook.timeout;
        let output = match hook.style {
            HookStyle::Event => None,
            // There it is told of calls that went well.
            HookStyle::ClaudeCode => match completed(self.event()?) {
                Some(output) => Some(output),
                None => return Ok(()),
            },
        };
        for question in self.questions(hook, output.as_ref())? {
            let reply = self.run(hook, &question, until).await?;
            // A veto comes too late, and is no failure of the hook.
            if reply.status != VETO_STATUS {
                by_status(&reply)?;
            }
        }
        Ok(())
    }

    fn questions(&self, hook: &Hook, output: Option<&Value>) -> Result<Vec<Question>, HookFault> {
        let event = self.event()?;
        if hook.style == HookStyle::Event {
            return Ok(vec![Question { bytes: event.clone(), input: Value::Null }]);
        }
        let cwd = self.cwd().to_string_lossy();
        let around = ScriptContext { session: &self.place.session, cwd: &cwd, tool_use_id: &self.call };
        let calls = names::seen_as(&self.tool, &self.input, self.cwd(), &hook.matcher);
        let question = |call: ForeignCall| Question {
            bytes: claude::request(hook.event, &around, &call, output).into(),
            input: call.input,
        };
        Ok(calls.into_iter().map(question).collect())
    }

    fn event(&self) -> Result<&Bytes, HookFault> {
        self.event.as_ref().map_err(|why| HookFault::Unread { call: self.call.clone(), why: why.clone() })
    }

    /// A run without a folder works nowhere.
    fn cwd(&self) -> &Path {
        if self.place.root.as_os_str().is_empty() { Path::new("/") } else { &self.place.root }
    }

    async fn run(
        &self,
        hook: &Hook,
        question: &Question,
        until: tokio::time::Instant,
    ) -> Result<HookReply, HookFault> {
        let mut environment = hook.environment.clone();
        environment.push(("RECOUNT_RUN_ID".to_owned(), self.place.run.to_string()));
        if hook.style == HookStyle::ClaudeCode {
            environment.push(("CLAUDE_PROJECT_DIR".to_owned(), self.cwd().to_string_lossy().into_owned()));
        }
        let order = HookOrder {
            argv: &hook.argv,
            cwd: self.cwd(),
            environment: &environment,
            input: &question.bytes,
            until,
            timeout: hook.timeout,
        };
        process::run(order).await
    }

    /// Without what the hook wrote, which nothing masks here.
    fn log(&self, hook: &Hook, fault: &HookFault) {
        let (run, event) = (self.place.run, hook.event.as_str());
        tracing::warn!(%run, call = %self.call, hook = hook.name, event, code = fault.code(), "a hook failed");
    }

    fn failed(&self, hook: &Hook, fault: &HookFault) -> Draft {
        let data = json!({
            "tool_call_id": &*self.call,
            "tool_name": self.tool,
            "hook": hook.name,
            "hook_event": hook.event.as_str(),
            "code": fault.code(),
            "error": fault.to_string(),
        });
        Payload::Opaque(Opaque { type_name: HOOK_FAILED.into(), data: data.to_string().into() }).into()
    }
}

fn after_colon(reason: &str) -> String {
    if reason.is_empty() { String::new() } else { format!(": {reason}") }
}

/// The output of a call that completed, as its event has it.
fn completed(event: &Bytes) -> Option<Value> {
    match codec::decode(event).ok()?.payload() {
        Payload::ToolCompleted(ended) => {
            let output = ended.output.as_ref().and_then(|output| serde_json::from_str(output.text()).ok());
            Some(output.unwrap_or_default())
        }
        _ => None,
    }
}
