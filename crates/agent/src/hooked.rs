//! Runs the hooks of a worker's calls, with the events as they are stored.
//!
//! Start at [`Worker::hooks_before`] and [`Worker::hooks_after`]. `hooks` defines what a hook receives and returns;
//! `execute` and `together` decide when it runs.

use bytes::Bytes;
use recount_event::family::tool::Ended;
use recount_event::{Draft, Event, ForeignId, Payload};
use recount_run::CallStage;
use serde_json::Value;

use crate::hooks::{HookContext, HookEvent, HookedCall};
use crate::worker::{WorkResult, Worker};

impl Worker {
    /// The hooks to run before an invoked call.
    pub(crate) async fn hooks_before(&self, id: &ForeignId, tool: &str) -> Option<HookedCall> {
        let mut hooked = self.hooked_call(HookEvent::PreToolUse, id, tool)?;
        hooked.event = match self.invoked.get(id) {
            Some(sequence) => self.stored(*sequence).await,
            None => Err("its sequence number is unknown".to_owned()),
        };
        Some(hooked)
    }

    /// The hooks to run after a call that is about to end.
    pub(crate) fn hooks_after(&self, ended: &Ended) -> Option<HookedCall> {
        self.hooked_call(HookEvent::PostToolUse, &ended.tool_call_id, &ended.tool_name)
    }

    /// The hooks to run after all invoked calls.
    pub(crate) fn hooks_after_all(&self) -> Vec<HookedCall> {
        let open = self.worker_session.state().open_calls();
        let invoked = open.filter(|(_, call)| matches!(call.stage, CallStage::Invoked(_)));
        let hooked = invoked.filter_map(|(id, call)| {
            self.hooked_call(HookEvent::PostToolUse, id, call.tool_name.as_deref().unwrap_or_default())
        });
        hooked.collect()
    }

    /// Adds the stored event that ended the call, which is one of `events`.
    pub(crate) async fn with_end(&self, mut hooked: HookedCall, events: &[Event]) -> HookedCall {
        let end = events.iter().rev().find(|event| ends(event, &hooked.call));
        hooked.event = match end {
            Some(event) => self.stored(event.sequence).await,
            None => Err("it is not one of the appended events".to_owned()),
        };
        hooked
    }

    /// Waits for the hooks after a call while the run goes on, and appends which of them failed.
    pub(crate) async fn run_hooks_after(&mut self, hooked: HookedCall) -> WorkResult<()> {
        let mut watch = self.worker_session.watch();
        let notes: Vec<Draft> = tokio::select! {
            biased;
            () = watch.ended() => return Err(recount_engine::WorkerExit::Ended),
            notes = hooked.report_end() => notes,
        };
        if notes.is_empty() { Ok(()) } else { self.report(notes).await }
    }

    fn hooked_call(&self, event: HookEvent, id: &ForeignId, tool: &str) -> Option<HookedCall> {
        let hooks = self.agent.settings.hooks.about(event, tool);
        if hooks.is_empty() {
            return None;
        }
        let state = self.worker_session.state();
        let session = state.session_id().map(|session| session.to_string());
        let call = state.call(id);
        let logged = call.and_then(|call| call.input.as_ref());
        let input = match logged {
            Some(input) => serde_json::from_str(input.text()).unwrap_or_default(),
            // In a run that is one call, the order has the input, as the log holds it.
            None => self.single_call_input().map_or(Value::Null, |(_, input)| input),
        };
        Some(HookedCall {
            hooks,
            place: HookContext {
                run: self.worker_session.run(),
                session: session.unwrap_or_else(|| self.worker_session.run().to_string()),
                root: self.terms().map(|terms| terms.root).unwrap_or_default(),
            },
            call: id.clone(),
            tool: tool.to_owned(),
            input,
            is_granted: call.is_some_and(|call| call.granted().is_some()),
            event: Err("it was not read".to_owned()),
        })
    }

    /// The stored bytes of an event, as every reader gets them.
    async fn stored(&self, sequence: u64) -> Result<Bytes, String> {
        let page =
            self.worker_session.read().read_run(self.worker_session.run(), sequence.checked_sub(1), 1).await;
        let (page, _) = page.map_err(|error| error.to_string())?;
        let found = page.into_iter().find(|(found, _)| *found == sequence);
        found.map(|(_, bytes)| bytes).ok_or_else(|| format!("event {sequence} does not exist"))
    }
}

fn ends(event: &Event, call: &ForeignId) -> bool {
    match event.payload() {
        Payload::ToolCompleted(end)
        | Payload::ToolFailed(end)
        | Payload::ToolTimedOut(end)
        | Payload::ToolCancelled(end) => end.tool_call_id == *call,
        _ => false,
    }
}
