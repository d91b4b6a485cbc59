//! Runs the hooks of one tool call.
//!
//! Start at [`HookedCall::admit`] before the call and [`HookedCall::report_end`] after it. The module must not depend
//! on where events are stored.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use recount_event::registry::Opaque;
use recount_event::{Draft, ForeignId, Payload, RunId, codec};
use serde_json::{Value, json};

use super::claude::{self, ScriptContext};
use super::hook::Hook;
use super::names::{self, ForeignCall};
use super::process::{self, HookFault, HookReply, HookRequest};
use super::ruling::{Ruling, VETO_STATUS, ruling_of_status};
use super::settings::{HookStyle, OnFailure};
use crate::tool::{Cancel, EventReporter, Outcome};
use crate::tools::ending::CallFailure;

/// The code of a call that a hook vetoed.
const VETOED: &str = "vetoed";

/// The type of the event that records a failed hook after which the run continued.
const HOOK_FAILED: &str = "ext.recount.hook_failed";

/// The context of a call.
#[derive(Debug, Clone)]
pub(crate) struct HookContext {
    pub(crate) run: RunId,
    /// The session's id, or the run's id without a session.
    pub(crate) session: String,
    /// The run's folder; empty if the run has none.
    pub(crate) root: PathBuf,
}

/// A call with its hooks.
pub(crate) struct HookedCall {
    pub(crate) hooks: Vec<Arc<Hook>>,
    pub(crate) place: HookContext,
    pub(crate) call: ForeignId,
    pub(crate) tool: String,
    /// The masked input, as in the log.
    pub(crate) input: Value,
    /// Whether a person allowed this call.
    pub(crate) is_granted: bool,
    /// The stored event, or why it cannot be read.
    pub(crate) event: Result<Bytes, String>,
}

/// One input of a hook. A call that consists of several inputs has one for each.
struct HookInput {
    bytes: Bytes,
    /// The tool input inside `bytes`.
    input: Value,
}

impl HookedCall {
    /// Runs the hooks before a call in order. Returns the outcome if the call must not run.
    pub(crate) async fn admit(
        &self,
        reporter: &mut dyn EventReporter,
        cancel: &mut Cancel,
    ) -> Option<Outcome> {
        for hook in &self.hooks {
            let ruled = tokio::select! {
                biased;
                () = cancel.cancelled() => return Some(CallFailure::cancelled().into()),
                ruled = self.rule(hook) => ruled,
            };
            let veto = match ruled {
                Ok(Ruling::Pass) => continue,
                Ok(Ruling::Ask(_)) if self.is_granted => continue,
                Ok(Ruling::Veto(reason)) => {
                    format!("the hook {} vetoed the call{}", hook.name, after_colon(&reason))
                }
                Ok(Ruling::Ask(reason)) => format!(
                    "the hook {} requires approval, but a call that has started cannot wait for approval{}; \
                     add a policy rule that asks for {}, which is checked before hooks",
                    hook.name,
                    after_colon(&reason),
                    self.tool
                ),
                Err(fault) if hook.on_failure == OnFailure::Closed => {
                    self.log(hook, &fault);
                    format!("the hook {} failed, so the call was not run: {fault}", hook.name)
                }
                Err(fault) => {
                    self.log(hook, &fault);
                    match reporter.report(vec![self.failed(hook, &fault)]).await {
                        Ok(_) => continue,
                        Err(refused) => return Some(CallFailure::from(refused).into()),
                    }
                }
            };
            return Some(CallFailure::failed(VETOED, veto).into());
        }
        None
    }

    /// Runs the hooks after a call in order. Returns events about hooks that failed.
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
        let mut approval = None;
        for hook_input in self.inputs(hook, None)? {
            let reply = self.run(hook, &hook_input, until).await?;
            let ruling = match hook.style {
                HookStyle::Event => ruling_of_status(&reply)?,
                HookStyle::ClaudeCode => claude::ruling(&reply, &hook_input.input)?,
            };
            match ruling {
                Ruling::Pass => {}
                veto @ Ruling::Veto(_) => return Ok(veto),
                ask @ Ruling::Ask(_) => approval = Some(ask),
            }
        }
        Ok(approval.unwrap_or(Ruling::Pass))
    }

    async fn hand_over(&self, hook: &Hook) -> Result<(), HookFault> {
        let until = recount_world::moment() + hook.timeout;
        let output = match hook.style {
            HookStyle::Event => None,
            // Claude Code runs this hook only after successful calls.
            HookStyle::ClaudeCode => match completed(self.event()?) {
                Some(output) => Some(output),
                None => return Ok(()),
            },
        };
        for hook_input in self.inputs(hook, output.as_ref())? {
            let reply = self.run(hook, &hook_input, until).await?;
            // A veto is too late here, but it is no failure of the hook.
            if reply.status != VETO_STATUS {
                ruling_of_status(&reply)?;
            }
        }
        Ok(())
    }

    fn inputs(&self, hook: &Hook, output: Option<&Value>) -> Result<Vec<HookInput>, HookFault> {
        let event = self.event()?;
        if hook.style == HookStyle::Event {
            return Ok(vec![HookInput { bytes: event.clone(), input: Value::Null }]);
        }
        let cwd = self.cwd().to_string_lossy();
        let around = ScriptContext { session: &self.place.session, cwd: &cwd, tool_use_id: &self.call };
        let calls = names::translate(&self.tool, &self.input, self.cwd(), &hook.matcher);
        let hook_input = |call: ForeignCall| HookInput {
            bytes: claude::request(hook.event, &around, &call, output).into(),
            input: call.input,
        };
        Ok(calls.into_iter().map(hook_input).collect())
    }

    fn event(&self) -> Result<&Bytes, HookFault> {
        self.event.as_ref().map_err(|why| HookFault::Unread { call: self.call.clone(), why: why.clone() })
    }

    /// A run without a folder uses an empty path.
    fn cwd(&self) -> &Path {
        if self.place.root.as_os_str().is_empty() { Path::new("/") } else { &self.place.root }
    }

    async fn run(
        &self,
        hook: &Hook,
        hook_input: &HookInput,
        until: tokio::time::Instant,
    ) -> Result<HookReply, HookFault> {
        let mut environment = hook.environment.clone();
        environment.push(("RECOUNT_RUN_ID".to_owned(), self.place.run.to_string()));
        if hook.style == HookStyle::ClaudeCode {
            environment.push(("CLAUDE_PROJECT_DIR".to_owned(), self.cwd().to_string_lossy().into_owned()));
        }
        let request = HookRequest {
            argv: &hook.argv,
            cwd: self.cwd(),
            environment: &environment,
            input: &hook_input.bytes,
            until,
            timeout: hook.timeout,
        };
        process::run(request).await
    }

    /// Logs the failure without the hook's output, because that is not masked.
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

/// The output of a completed call, from its event.
fn completed(event: &Bytes) -> Option<Value> {
    match codec::decode(event).ok()?.payload() {
        Payload::ToolCompleted(ended) => {
            let output = ended.output.as_ref().and_then(|output| serde_json::from_str(output.text()).ok());
            Some(output.unwrap_or_default())
        }
        _ => None,
    }
}
