//! Checks states of a session: the chain of each producer, and the states that other events imply.

use super::call::Call;
use super::event_context::EventContext;
use crate::field::Field;
use crate::hash::hash_text;
use crate::json::Node;
use crate::kind::{EXTENSION_PREFIX, Kind};
use crate::reading::Reading;
use crate::rule::{self, Findings, quote};

/// States that events imply, as bits.
pub(super) const CALLING: u8 = 1;
pub(super) const AWAITING: u8 = 2;
pub(super) const WRITING: u8 = 4;
pub(super) const HANDING: u8 = 8;
pub(super) const THINKING: u8 = 16;

/// One producer in a session.
#[derive(Default)]
pub(super) struct Speaker {
    pub(super) agent: u64,
    /// Whether it ever announced a state.
    pub(super) announced: bool,
    pub(super) state: String,
    /// Hash of the summary of its last `state.changed`; 0 without one.
    pub(super) summary: u64,
    /// States implied by its events since the last `state.changed`.
    pub(super) implied: u8,
    /// Whether a call ended since the last `state.changed`.
    pub(super) call_ended: bool,
    /// Whether it requested a handoff and announced no other state since.
    pub(super) handing_off: bool,
}

impl Speaker {
    pub(super) fn is_in(&self, state: &str) -> bool {
        self.state == state
    }

    fn implies(&self, state: &str) -> bool {
        let bit = match state {
            "calling_tool" => CALLING,
            "awaiting_input" => AWAITING,
            "writing_output" => WRITING,
            "handing_off" => HANDING,
            "thinking" | "deciding" => THINKING,
            _ => 0,
        };
        self.implied & bit != 0
    }

    /// Adds the states that an event other than `state.changed` implies.
    pub(super) fn imply(&mut self, kind: Kind) {
        self.implied |= match kind {
            Kind::ToolInvoked => CALLING,
            Kind::ToolCompleted => CALLING | THINKING,
            Kind::AwaitingConfirmation | Kind::AwaitingClarification => AWAITING | THINKING,
            Kind::OutputStreaming => WRITING | THINKING,
            Kind::HandoffRequested => HANDING,
            _ => 0,
        };
    }
}

/// The effect of a `state.changed` on prompts and calls.
pub(super) struct StateEffect {
    /// Whether it leaves `awaiting_input`.
    pub(super) leaves_prompt: bool,
    /// Whether it enters `calling_tool`.
    pub(super) to_call: bool,
}

pub(super) fn change_state(
    speaker: &mut Speaker,
    calls: &mut [Call],
    context: EventContext,
    event: &Reading<'_>,
    findings: &mut Findings,
) -> StateEffect {
    let EventContext { speaker: number, seed, .. } = context;
    let text = event.doc().text();
    let from = event.text(Field::FromState).unwrap_or_default();
    let to = event.text(Field::ToState).unwrap_or_default();
    let node = event.get(Field::FromState);
    let path = || "from_state".to_owned();
    if !speaker.announced {
        if from != "idle" {
            let message = || format!("the first change of state is from `{}`", quote(&from));
            findings.add(&rule::STATE_FIRST, text, node, path, message);
        }
    } else if from != speaker.state.as_str() {
        if speaker.implies(&from) {
            let message = || {
                format!(
                    "`{}` was implied, not announced; the last announced state was `{}`",
                    quote(&from),
                    speaker.state
                )
            };
            findings.add(&rule::STATE_IMPLIED, text, node, path, message);
        } else {
            let message = || {
                format!("the change is from `{}`, but the last state was `{}`", quote(&from), speaker.state)
            };
            findings.add(&rule::STATE_CHAIN, text, node, path, message);
        }
    }
    let summary = event.text(Field::SummaryNormal).map_or(0, |summary| hash_text(seed, summary.as_bytes()));
    let is_new = speaker.announced && summary != 0 && summary != speaker.summary;
    if from == to && from == or_idle(&speaker.state) && !is_new && !is_coalesced(event) {
        let message =
            || format!("the state is `{}` before and after, and the summary is not new", quote(&to));
        findings.add(&rule::STATE_UNCHANGED, text, node, path, message);
    }
    speaker.summary = summary;
    let leaves_prompt = from == "awaiting_input" && to != "awaiting_input";
    // The producer leaves its tools while calls are open and none has ended: their completion will be late.
    let after_tools = matches!(to.as_ref(), "thinking" | "deciding" | "writing_output" | "idle");
    if after_tools && from != "awaiting_input" && !speaker.call_ended {
        for call in calls.iter_mut().filter(|call| !call.done && call.speaker == number) {
            call.late = true;
        }
    }
    if to == "calling_tool" {
        for call in calls.iter_mut().filter(|call| !call.done && call.speaker == number) {
            call.announced = true;
        }
    }
    speaker.state.clear();
    speaker.state.push_str(&to);
    speaker.announced = true;
    speaker.implied = 0;
    speaker.call_ended = false;
    // A call by itself does not announce that work continues after a handoff.
    speaker.handing_off = to == "handing_off" || (speaker.handing_off && to == "calling_tool");
    StateEffect { leaves_prompt, to_call: to == "calling_tool" }
}

/// Whether a producer or gateway merged several changes into this one.
fn is_coalesced(event: &Reading<'_>) -> bool {
    let own = event.get(Field::Extensions).and_then(|extensions| extensions.get(EXTENSION_PREFIX));
    own.is_some_and(|own| own.get("coalesced_from").is_some())
}

pub(super) fn request_handoff(speaker: &mut Speaker, event: &Reading<'_>, findings: &mut Findings) {
    if !speaker.is_in("handing_off") {
        let message = || format!("the state is `{}`", or_idle(&speaker.state));
        add_finding(&rule::STATE_HANDOFF, event.node(), event, message, findings);
    }
    speaker.handing_off = true;
}

pub(super) fn or_idle(state: &str) -> &str {
    if state.is_empty() { "idle" } else { state }
}

pub(super) fn add_finding(
    rule: &'static rule::Rule,
    node: Node<'_>,
    event: &Reading<'_>,
    message: impl FnOnce() -> String,
    findings: &mut Findings,
) {
    findings.add(rule, event.doc().text(), Some(node), String::new, message);
}
