//! Checks tool calls of a session: each is invoked once and completed once, with one name, after its prompt if needed.

use super::call::Call;
use super::event_context::{EventContext, evict_settled};
use super::prompts::{self, CallDetails, CallDifference, CallVerdict, Presumption, Prompt};
use super::states::Speaker;
use crate::field::Field;
use crate::hash::hash_text;
use crate::reading::Reading;
use crate::rule::{self, Findings, quote};

fn hashes(event: &Reading<'_>, seed: u64) -> (Option<u64>, u64) {
    let id = event.text(Field::ToolCallId).map(|id| hash_text(seed, id.as_bytes()));
    let tool = event.text(Field::Tool).map_or(0, |tool| hash_text(seed, tool.as_bytes()));
    (id, tool)
}

/// Checks a call. Returns whether it is tracked, and the presumption by which it passed without a recorded reply.
pub(super) fn invoke_call(
    calls: &mut Vec<Call>,
    prompts: &mut [Prompt],
    speaker: &Speaker,
    context: EventContext,
    event: &Reading<'_>,
    findings: &mut Findings,
) -> (bool, Option<Presumption>) {
    let text = event.doc().text();
    let (id, tool) = hashes(event, context.seed);
    if id.is_some() && calls.iter().any(|call| call.id == id) {
        let node = event.get(Field::ToolCallId);
        let message = || format!("`{}` was used before", node.map_or("", |node| quote_raw(node.raw())));
        findings.add(&rule::TOOL_ID_REUSED, text, node, || "tool_call_id".into(), message);
    }
    if speaker.handing_off {
        let message = || "a tool is called after a handoff was requested".to_owned();
        findings.add(&rule::HANDOFF_WORK, text, Some(event.node()), String::new, message);
    }
    let (irreversible, high) = prompts::gravity(event);
    let arguments =
        event.text(Field::ArgsSummary).map(|arguments| hash_text(context.seed, arguments.as_bytes()));
    let mut details = CallDetails { call: id, tool, arguments, irreversible, high };
    let verdict = prompts::check_call(prompts, context, &mut details);
    let CallDetails { irreversible, high, .. } = details;
    let name = || quote(&event.text(Field::Tool).unwrap_or_default());
    let node = Some(event.node());
    let changed;
    let breach = match verdict {
        CallVerdict::Allowed | CallVerdict::Presumed(_) => None,
        CallVerdict::Unprompted if irreversible => {
            Some((&rule::TOOL_UNCONFIRMED, "cannot be undone and has no accepted prompt of its own"))
        }
        CallVerdict::Unprompted => {
            Some((&rule::TOOL_HIGH_RISK, "has high risk and no accepted prompt of its own"))
        }
        CallVerdict::Unaccepted if irreversible => {
            Some((&rule::TOOL_UNCONFIRMED, "cannot be undone, and no valid reply accepted its prompt"))
        }
        CallVerdict::Unaccepted => {
            Some((&rule::TOOL_BEFORE_ANSWER, "is called, and no valid reply accepted its prompt"))
        }
        CallVerdict::Changed(change) => {
            let (rule, of) = if irreversible {
                (&rule::TOOL_UNCONFIRMED, "cannot be undone")
            } else if high {
                (&rule::TOOL_HIGH_RISK, "has high risk")
            } else {
                (&rule::TOOL_BEFORE_ANSWER, "is called")
            };
            changed = format!("{of}, and {}", change.description());
            Some((rule, changed.as_str()))
        }
        CallVerdict::Unseen => {
            Some((&rule::TOOL_UNSEEN, "may have been confirmed by a person who was not recorded"))
        }
        CallVerdict::Open => Some((&rule::TOOL_BEFORE_ANSWER, "is called while its prompt is open")),
        CallVerdict::Rejected => Some((&rule::TOOL_AFTER_REJECT, "is called after its prompt was rejected")),
        CallVerdict::TimedOut => Some((
            &rule::TOOL_AFTER_DEFAULT,
            "is called after its prompt timed out, with `reject` as default",
        )),
    };
    if let Some((rule, what)) = breach {
        findings.add(rule, text, node, String::new, || format!("`{}` {what}", name()));
    }
    let room = evict_settled(calls, |call| call.done);
    if room {
        let announced = speaker.is_in("calling_tool");
        let EventContext { speaker, event_number, .. } = context;
        calls.push(Call { id, tool, opened_by: event_number, speaker, done: false, late: false, announced });
    }
    let presumption = if let CallVerdict::Presumed(presumption) = verdict { Some(presumption) } else { None };
    (room, presumption)
}

/// Checks a call of a producer beyond the limit of tracked ones: its prompt is unknown, and no acceptance is presumed.
pub(super) fn check_untracked_call(event: &Reading<'_>, findings: &mut Findings) {
    let (rule, what) = match prompts::gravity(event) {
        (true, _) => (&rule::TOOL_UNCONFIRMED, "cannot be undone"),
        (false, true) => (&rule::TOOL_HIGH_RISK, "has high risk"),
        (false, false) => return,
    };
    let tool = quote(&event.text(Field::Tool).unwrap_or_default());
    let message = || format!("`{tool}` {what}, and the session has more producers than the limit");
    findings.add(rule, event.doc().text(), Some(event.node()), String::new, message);
}

impl CallDifference {
    fn description(self) -> &'static str {
        match self {
            CallDifference::Action => "its prompt was for another action",
            CallDifference::Arguments => "its `args_summary` differs from the one in its prompt",
            CallDifference::Unmodified => {
                "its prompt was accepted with a changed action, which the call does not show"
            }
        }
    }
}

fn quote_raw(raw: &str) -> &str {
    raw.get(..crate::limits::QUOTE_BYTES_MAX).unwrap_or(raw)
}

pub(super) fn complete_call(
    calls: &mut [Call],
    prompts: &[Prompt],
    speaker: &mut Speaker,
    context: EventContext,
    event: &Reading<'_>,
    findings: &mut Findings,
) {
    let text = event.doc().text();
    let (id, tool) = hashes(event, context.seed);
    speaker.call_ended = true;
    let open = |call: &&mut Call| !call.done;
    let name = || quote(&event.text(Field::Tool).unwrap_or_default());
    let node = event.get(Field::ToolCallId).or_else(|| event.get(Field::Tool)).or(Some(event.node()));
    let mut breach = |rule: &'static rule::Rule, what: &str| {
        findings.add(rule, text, node, String::new, || format!("`{}` {what}", name()));
    };
    let found = match id {
        Some(_) => match calls.iter().position(|call| call.id == id) {
            Some(at) if calls[at].done => return breach(&rule::TOOL_COMPLETED_TWICE, "was completed before"),
            Some(at) => {
                if calls[at].tool != tool {
                    breach(&rule::TOOL_RENAMED, "is not the name with which the call was invoked");
                }
                Some(at)
            }
            None => {
                match calls.iter().position(|call| !call.done && call.id.is_none() && call.tool == tool) {
                    Some(at) => {
                        breach(&rule::TOOL_ID_ONE_SIDE, "was invoked without a `tool_call_id`");
                        Some(at)
                    }
                    None => {
                        return breach(&rule::TOOL_NOT_INVOKED, "was not invoked under this `tool_call_id`");
                    }
                }
            }
        },
        None => match calls.iter_mut().filter(open).position(|call| call.id.is_none() && call.tool == tool) {
            Some(_) => calls.iter().position(|call| !call.done && call.id.is_none() && call.tool == tool),
            None => match calls.iter().position(|call| !call.done && call.tool == tool) {
                Some(at) => {
                    breach(&rule::TOOL_ID_ONE_SIDE, "was invoked with a `tool_call_id`");
                    Some(at)
                }
                None if calls.iter().any(|call| call.tool == tool) => {
                    return breach(&rule::TOOL_COMPLETED_TWICE, "was completed before");
                }
                None => return breach(&rule::TOOL_NOT_INVOKED, "was not invoked"),
            },
        },
    };
    let Some(call) = found.and_then(|at| calls.get_mut(at)) else { return };
    call.done = true;
    if !prompts.is_empty()
        && event.is(Field::Status, "success")
        && prompts::is_requested(prompts, context, call.opened_by, call.id, call.tool)
    {
        breach(&rule::PROMPT_IMPLIED, "was done while its prompt is open");
    }
    if call.late {
        breach(&rule::TOOL_LATE, "is completed after the next state was announced");
    }
    if !call.announced && !speaker.is_in("calling_tool") {
        breach(&rule::STATE_TOOL, "was called without the state `calling_tool`");
    }
}

/// Reports open calls at the end of a session.
pub(super) fn check_end(calls: &[Call], completed: bool, event: &Reading<'_>, findings: &mut Findings) {
    let open = calls.iter().filter(|call| !call.done).count();
    if open > 0 {
        let rule = if completed { &rule::TOOL_OPEN } else { &rule::TOOL_OPEN_BROKEN_OFF };
        let message = || format!("{open} {} open", if open == 1 { "call is" } else { "calls are" });
        findings.add(rule, event.doc().text(), Some(event.node()), String::new, message);
    }
}
