//! Tool calls of a session: each invoked once and completed once, under one name, after its prompt if it needs one.

use super::call::Call;
use super::prompts::{self, CallVerdict, Change, Presumption, Prompt, Wanted};
use super::stand::{Stand, make_room};
use super::states::Speaker;
use crate::field::Field;
use crate::hash::sum;
use crate::reading::Reading;
use crate::rule::{self, Findings, quote};

fn sums(event: &Reading<'_>, seed: u64) -> (Option<u64>, u64) {
    let id = event.text(Field::ToolCallId).map(|id| sum(seed, id.as_bytes()));
    let tool = event.text(Field::Tool).map_or(0, |tool| sum(seed, tool.as_bytes()));
    (id, tool)
}

/// Follows a call. Returns whether there was room for it, and why it passed when its prompt has no reply.
pub(super) fn invoked(
    calls: &mut Vec<Call>,
    prompts: &mut [Prompt],
    speaker: &Speaker,
    stand: Stand,
    event: &Reading<'_>,
    findings: &mut Findings,
) -> (bool, Option<Presumption>) {
    let text = event.doc().text();
    let (id, tool) = sums(event, stand.seed);
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
    let arguments = event.text(Field::ArgsSummary).map(|arguments| sum(stand.seed, arguments.as_bytes()));
    let mut wanted = Wanted { call: id, tool, arguments, irreversible, high };
    let verdict = prompts::check_call(prompts, stand, &mut wanted);
    let Wanted { irreversible, high, .. } = wanted;
    let name = || quote(&event.text(Field::Tool).unwrap_or_default());
    let node = Some(event.node());
    let changed;
    let breach = match verdict {
        CallVerdict::Fine | CallVerdict::Presumed(_) => None,
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
    let room = make_room(calls, |call| call.done);
    if room {
        let announced = speaker.is_in("calling_tool");
        let Stand { speaker, heard, .. } = stand;
        calls.push(Call { id, tool, heard, speaker, done: false, late: false, announced });
    }
    let presumption = if let CallVerdict::Presumed(presumption) = verdict { Some(presumption) } else { None };
    (room, presumption)
}

/// A call of a producer that is not followed, because the session has more of them than are: that a prompt of its own was
/// accepted is not known, and not presumed.
pub(super) fn unfollowed(event: &Reading<'_>, findings: &mut Findings) {
    let (rule, what) = match prompts::gravity(event) {
        (true, _) => (&rule::TOOL_UNCONFIRMED, "cannot be undone"),
        (false, true) => (&rule::TOOL_HIGH_RISK, "has high risk"),
        (false, false) => return,
    };
    let tool = quote(&event.text(Field::Tool).unwrap_or_default());
    let message = || format!("`{tool}` {what}, and the session has more producers than the limit");
    findings.add(rule, event.doc().text(), Some(event.node()), String::new, message);
}

impl Change {
    fn description(self) -> &'static str {
        match self {
            Change::Action => "its prompt was for another action",
            Change::Arguments => "its `args_summary` differs from the one in its prompt",
            Change::Unmodified => {
                "its prompt was accepted with a changed action, which the call does not show"
            }
        }
    }
}

fn quote_raw(raw: &str) -> &str {
    raw.get(..crate::limits::QUOTE_BYTES_MAX).unwrap_or(raw)
}

pub(super) fn completed(
    calls: &mut [Call],
    prompts: &[Prompt],
    speaker: &mut Speaker,
    stand: Stand,
    event: &Reading<'_>,
    findings: &mut Findings,
) {
    let text = event.doc().text();
    let (id, tool) = sums(event, stand.seed);
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
        && prompts::is_asked_for(prompts, stand, call.heard, call.id, call.tool)
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

/// At the end of a session: calls that are open.
pub(super) fn ended(calls: &[Call], completed: bool, event: &Reading<'_>, findings: &mut Findings) {
    let open = calls.iter().filter(|call| !call.done).count();
    if open > 0 {
        let rule = if completed { &rule::TOOL_OPEN } else { &rule::TOOL_OPEN_BROKEN_OFF };
        let message = || format!("{open} {} open", if open == 1 { "call is" } else { "calls are" });
        findings.add(rule, event.doc().text(), Some(event.node()), String::new, message);
    }
}
