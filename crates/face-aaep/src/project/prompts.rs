//! Projects prompts and handoffs, and their outcomes. Must not depend on tokens or envelopes: the caller passes them.
//!
//! While a prompt is open, the state is `awaiting_input`. When it settles, the state changes with a sentence that
//! states the decision and who made it. It changes back when another prompt is still open. Start with
//! [`Course::apply_prompt_event`].

use std::collections::BTreeSet;

use recount_aaep::wire::{
    AwaitingClarification, AwaitingConfirmation, Choice, Decision, HandoffRequested, HandoffTarget, Level,
    Reversibility, Summaries, Urgency,
};
use recount_event::family::{approval, clarification, handoff};
use recount_event::{ForeignId, Json, Payload, time};
use serde_json::{Map, Value};

use super::course::Course;
use super::event_builder::EventBuilder;
use super::open_prompt::OpenPrompt;
use super::state::State;
use super::{Tokens, id, text, token, tools};
use crate::limits;
use crate::speech::{Arg, Key};

impl Course {
    /// Projects an event of a prompt or handoff. Returns false for other events.
    pub(super) fn apply_prompt_event(
        &mut self,
        to: &mut EventBuilder<'_>,
        payload: &Payload,
        tokens: Tokens<'_>,
    ) -> bool {
        match payload {
            Payload::ApprovalRequested(request) => self.open_approval(to, request, tokens),
            Payload::ApprovalResolved(resolved) => self.resolve_approval(to, resolved),
            Payload::ApprovalExtended(more) => {
                self.extend_prompt(to, &more.approval_id, &more.by, more.seconds, &more.expires_at);
            }
            Payload::ClarificationExtended(more) => {
                self.extend_prompt(to, &more.clarification_id, &more.by, more.seconds, &more.expires_at);
            }
            // Handoffs of the protocol have no timeout.
            Payload::HandoffExtended(more) => {
                let summaries = more_time(to, &more.by, more.seconds);
                self.change_state(to, self.state, summaries, Urgency::Normal);
            }
            Payload::ApprovalTimedOut(late) => {
                let approved = late.decision == Some(approval::Decision::Approved);
                let key =
                    if approved { Key::ApprovalTimedOutApproved } else { Key::ApprovalTimedOutRejected };
                self.settle_prompt(to, &late.approval_id, approved, to.render(key, &[]));
            }
            Payload::ClarificationRequested(request) => self.open_clarification(to, request, tokens),
            Payload::ClarificationAnswered(answered) => {
                let (by, answer) = (answerer(to, &answered.by), text::quoted(&spoken(&answered.response)));
                let by: (&'static str, Arg<'_>) = ("by", Arg::Text(&by));
                let summaries = match answer.as_str() {
                    "" => to.render(Key::AnsweredPlain, &[by]),
                    answer => to.render(Key::Answered, &[by, ("answer", answer.into())]),
                };
                self.settle_prompt(to, &answered.clarification_id, false, summaries);
            }
            Payload::ClarificationTimedOut(late) => {
                let answer = late.response.as_ref().map(|response| text::quoted(&spoken(response)));
                let default = late.applied == clarification::Applied::Default;
                let summaries = match answer.filter(|answer| default && !answer.is_empty()) {
                    Some(answer) => to.render(Key::UnansweredDefault, &[("answer", answer.as_str().into())]),
                    None => to.render(Key::Unanswered, &[]),
                };
                self.settle_prompt(to, &late.clarification_id, false, summaries);
            }
            Payload::HandoffRequested(request) => self.open_handoff(to, request),
            Payload::HandoffAcknowledged(taken) => {
                self.handoffs.remove(&taken.handoff_id);
                let by = answerer(to, &taken.by);
                self.push_sentence(to, Key::HandoffAcknowledged, &[("by", by.as_str().into())]);
            }
            Payload::HandoffRejected(no) => {
                self.handoffs.remove(&no.handoff_id);
                let by = answerer(to, &no.by);
                let by: (&'static str, Arg<'_>) = ("by", Arg::Text(&by));
                match text::some_quoted(no.reason.as_deref()) {
                    Some(reason) => {
                        self.push_sentence(
                            to,
                            Key::HandoffRejectedWithReason,
                            &[by, ("reason", reason.as_str().into())],
                        );
                    }
                    None => self.push_sentence(to, Key::HandoffRejected, &[by]),
                }
            }
            Payload::HandoffTimedOut(late) => {
                self.handoffs.remove(&late.handoff_id);
                self.push_sentence(to, Key::HandoffTimedOut, &[]);
            }
            _ => return false,
        }
        true
    }

    fn resolve_approval(&mut self, to: &mut EventBuilder<'_>, resolved: &approval::Resolved) {
        let (by, comment) =
            (answerer(to, &resolved.by), text::some_quoted(resolved.comment.as_deref()).map(text::ended));
        let by: (&'static str, Arg<'_>) = ("by", Arg::Text(&by));
        // A decision made elsewhere takes precedence. If it is unknown, the call may run.
        let decision = match resolved.decided_elsewhere {
            None => Some(resolved.decision),
            Some(approval::DecidedElsewhere::Approved) => Some(approval::Decision::Approved),
            Some(approval::DecidedElsewhere::Rejected) => Some(approval::Decision::Rejected),
            Some(approval::DecidedElsewhere::Undecided) => None,
        };
        let approved = decision == Some(approval::Decision::Approved);
        let summaries = match (decision, &comment) {
            (None, _) => to.render(Key::QuestionWithdrawn, &[]),
            (Some(approval::Decision::Cancelled), _) => to.render(Key::ApprovalWithdrawn, &[]),
            (Some(approval::Decision::Approved), None) => to.render(Key::Approved, &[by]),
            (Some(approval::Decision::Rejected), None) => to.render(Key::Rejected, &[by]),
            (Some(_), Some(comment)) => {
                let key = if approved { Key::ApprovedWithComment } else { Key::RejectedWithComment };
                to.render(key, &[by, ("comment", comment.as_str().into())])
            }
        };
        self.settle_prompt(to, &resolved.approval_id, approved, summaries);
    }

    fn open_approval(
        &mut self,
        to: &mut EventBuilder<'_>,
        request: &approval::Requested,
        tokens: Tokens<'_>,
    ) {
        if self.prompts.contains_key(&request.approval_id) {
            return;
        }
        self.enter(to, State::AwaitingInput);
        let kind = text::quoted(&request.kind);
        let action = text::some_field(request.action.as_deref())
            .or_else(|| text::some_field(Some(&request.summary)))
            .unwrap_or_else(|| to.sentence(Key::ActionUnknown, &[("tool", kind.as_str().into())]));
        let consequence = text::some_field(request.consequence.as_deref()).unwrap_or_else(|| {
            match text::some_quoted(request.policy_reason.as_deref()) {
                Some(reason) => to.sentence(Key::ConsequenceByRule, &[("reason", reason.as_str().into())]),
                None => to.sentence(Key::ConsequenceUnknown, &[]),
            }
        });
        // The marks around a command are not spoken, those within it are. The preview is omitted if the action contains it.
        let spoken_action = text::ended(text::without_outer_ticks(&action));
        let preview = text::some_field(request.preview.as_deref());
        let preview = preview.filter(|preview| !action.contains(preview.as_str())).unwrap_or_default();
        let irreversible = request.irreversible == Some(true)
            || request.reversibility == Some(approval::Reversibility::Irreversible);
        let key = if irreversible { Key::ConfirmationIrreversible } else { Key::Confirmation };
        let spoken_consequence = text::ended(consequence.clone());
        let args = [
            ("action", spoken_action.as_str().into()),
            ("consequence", spoken_consequence.as_str().into()),
            ("preview", preview.as_str().into()),
        ];
        let summaries = to.render(key, &args);
        // A timeout never approves a grave call.
        let accepts =
            request.default_decision == Some(approval::DefaultDecision::Approve) && !request.is_grave();
        let default = if accepts { Decision::Accept } else { Decision::Reject };
        let token = tokens(&request.approval_id);
        let mut body = AwaitingConfirmation::new(
            action,
            consequence,
            token,
            seconds(to, request.timeout_seconds, request.expires_at.as_deref()),
            default,
        );
        body.risk_level = request.risk_level.map(tools::level);
        body.irreversible = (irreversible || request.irreversible.is_some()).then_some(irreversible);
        body.reversibility = if irreversible {
            Some(Reversibility::Irreversible)
        } else {
            request.reversibility.map(|reversibility| match reversibility {
                approval::Reversibility::Reversible => Reversibility::Reversible,
                approval::Reversibility::PartiallyReversible => Reversibility::WithEffort,
                approval::Reversibility::Irreversible => Reversibility::Irreversible,
            })
        };
        let mut context = Map::new();
        context.insert("tool_call_id".into(), id::call_id(&request.tool_call_id).into());
        body.extra_context = Some(context);
        let deadline_ms = deadline_ms(to, body.timeout_seconds);
        to.push(body, summaries, Urgency::Critical);
        self.prompts.insert(request.approval_id.clone(), self.remember_prompt(to, deadline_ms));
        self.prompted_calls.insert(request.tool_call_id.clone());
    }

    fn open_clarification(
        &mut self,
        to: &mut EventBuilder<'_>,
        request: &clarification::Requested,
        tokens: Tokens<'_>,
    ) {
        if self.prompts.contains_key(&request.clarification_id) {
            return;
        }
        self.note_asking_call(request.tool_call_id.as_ref());
        self.enter(to, State::AwaitingInput);
        let question = text::field(&request.question);
        let question = if question.is_empty() { "?".to_owned() } else { question };
        let given = request.choices.as_deref().unwrap_or_default();
        let (kinds, choices) = answers(request.accepted_response_kinds.as_deref(), Some(given));
        let listed = given.iter().map(label).collect::<Vec<_>>().join("; ");
        let listed = match text::quoted(&listed).as_str() {
            "" => String::new(),
            listed => to.sentence(Key::Choices, &[("choices", listed.into())]),
        };
        // Choices that the protocol cannot carry are named in the context.
        let unlisted = if choices.is_none() { listed.as_str() } else { "" };
        let context = text::ended(text::field(request.context.as_deref().unwrap_or_default()));
        let in_context = ("context", Arg::Text(&context));
        let (in_question, in_choices) =
            (("question", question.as_str().into()), ("choices", listed.as_str().into()));
        let summaries = match context.as_str() {
            "" => to.render(Key::Clarification, &[in_question, in_choices]),
            _ => to.render(Key::ClarificationInContext, &[in_question, in_context, in_choices]),
        };
        let context =
            Some(format!("{context}\n{unlisted}").trim().to_owned()).filter(|context| !context.is_empty());
        let token = tokens(&request.clarification_id);
        let mut body = AwaitingClarification::new(
            question,
            token,
            seconds(to, request.timeout_seconds, request.expires_at.as_deref()),
        );
        body.accepted_response_kinds = Some(kinds.into_iter().map(str::to_owned).collect());
        body.choices = choices;
        body.context = context;
        body.default_response = text::some_field(request.default_response.as_ref().map(spoken).as_deref());
        let deadline_ms = deadline_ms(to, body.timeout_seconds);
        to.push(body, summaries, Urgency::Critical);
        self.prompts.insert(request.clarification_id.clone(), self.remember_prompt(to, deadline_ms));
    }

    /// Closes a prompt that has an outcome.
    fn settle_prompt(
        &mut self,
        to: &mut EventBuilder<'_>,
        prompt: &ForeignId,
        approved: bool,
        summaries: Summaries,
    ) {
        if self.prompts.remove(prompt).is_none() {
            return;
        }
        // In the protocol, the state `calling_tool` shows that a prompt was accepted.
        let next = if approved { State::CallingTool } else { self.after_prompts() };
        self.change_state(to, next, summaries, Urgency::Normal);
        if !self.prompts.is_empty() {
            let open = self.prompts.len() as u64;
            let summaries = to.render(Key::StillAwaitingInput, &[("prompts", open.into())]);
            self.change_state(to, State::AwaitingInput, summaries, Urgency::Normal);
        }
    }

    /// Moves the deadline of a prompt. A prompt states its time once, so it is withdrawn and emitted again with the
    /// remaining time and a new token.
    fn extend_prompt(
        &mut self,
        to: &mut EventBuilder<'_>,
        prompt: &ForeignId,
        by: &str,
        seconds: u64,
        until: &str,
    ) {
        let Some(open) = self.prompts.remove(prompt) else { return };
        let summaries = more_time(to, by, seconds);
        self.change_state(to, self.after_prompts(), summaries, Urgency::Normal);
        self.enter(to, State::AwaitingInput);
        let deadline_ms = time::parse_ms(until).and_then(|at_ms| i64::try_from(at_ms).ok());
        let repeated = open.shown.as_deref().map(|shown| {
            let mut body = shown.body.clone();
            let left = deadline_ms.map_or(limits::PROMPT_SECONDS_MAX, |at_ms| {
                u64::try_from(at_ms.saturating_sub(to.millis()) / 1_000).unwrap_or(0)
            });
            if let Some((token, seconds)) = body.prompt_mut() {
                (*token, *seconds) = (token::next(token), bounded(left));
            }
            (body, shown.summaries.clone())
        });
        let kept = match repeated {
            Some((body, summaries)) => {
                to.push(body, summaries, Urgency::Critical);
                self.remember_prompt(to, deadline_ms)
            }
            None => OpenPrompt { deadline_ms, ..open },
        };
        self.prompts.insert(prompt.clone(), kept);
    }

    fn open_handoff(&mut self, to: &mut EventBuilder<'_>, request: &handoff::Requested) {
        if self.handoffs.contains_key(&request.handoff_id) {
            return;
        }
        self.note_asking_call(request.tool_call_id.as_ref());
        // Leaving `awaiting_input` would mean that the open prompts are settled.
        if self.prompts.is_empty() {
            self.enter(to, State::HandingOff);
        }
        let reason = text::field(&request.reason);
        let reason = if reason.is_empty() { "?".to_owned() } else { reason };
        let ours = to.render(Key::Handoff, &[("reason", text::quoted(&reason).as_str().into())]);
        let summaries = Summaries {
            terse: text::some_field(request.summary_terse.as_deref()).or(ours.terse),
            normal: text::some_field(request.summary_normal.as_deref()).or(ours.normal),
            detailed: text::some_field(request.summary_detailed.as_deref()).or(ours.detailed),
        };
        let mut body = HandoffRequested::new(
            reason,
            match request.target_kind {
                handoff::TargetKind::Human => HandoffTarget::Human,
                handoff::TargetKind::SpecialistAgent => HandoffTarget::SpecialistAgent,
                handoff::TargetKind::EscalationQueue => HandoffTarget::EscalationQueue,
            },
        );
        body.target_uri = request.target_uri.clone().filter(|uri| is_uri(uri));
        body.packaged_context = request.packaged_context.as_ref().and_then(|context| {
            let texts = [&summaries.terse, &summaries.normal, &summaries.detailed].into_iter().flatten();
            let others = body.reason.len() + texts.map(String::len).sum::<usize>();
            let small = context.text().len() + others <= limits::HANDOFF_BYTES_MAX;
            if small { serde_json::from_str(context.text()).ok() } else { None }
        });
        body.urgency_for_handoff = request.urgency_for_handoff.map(|urgency| match urgency {
            handoff::HandoffUrgency::Low => Level::Low,
            handoff::HandoffUrgency::Medium => Level::Medium,
            handoff::HandoffUrgency::High => Level::High,
        });
        // A listener that accepts the handoff names it.
        let mut own = Map::from_iter([("handoff_id".to_owned(), request.handoff_id.as_str().into())]);
        if request.packaged_context.is_some() && body.packaged_context.is_none() {
            own.insert("packaged_context_omitted".into(), true.into());
        }
        to.push(body, summaries, Urgency::Critical);
        to.extend_last(own);
        self.handoffs.insert(request.handoff_id.clone(), self.remember_prompt(to, None));
    }
}

fn answerer(to: &EventBuilder<'_>, by: &str) -> String {
    match text::quoted(by) {
        by if by.is_empty() => to.sentence(Key::Unnamed, &[]),
        by => by,
    }
}

fn more_time(to: &EventBuilder<'_>, by: &str, seconds: u64) -> Summaries {
    let by = answerer(to, by);
    let by: (&'static str, Arg<'_>) = ("by", Arg::Text(&by));
    match seconds {
        0..=119 => to.render(Key::ExtendedSeconds, &[by, ("seconds", seconds.into())]),
        _ => to.render(Key::ExtendedMinutes, &[by, ("minutes", (seconds / 60).into())]),
    }
}

/// For how many seconds a prompt is open: its timeout, or the time until it expires.
fn seconds(to: &EventBuilder<'_>, timeout_seconds: Option<u64>, expires_at: Option<&str>) -> u32 {
    let until_expiry = || {
        let expires_ms = i64::try_from(time::parse_ms(expires_at?)?).ok()?;
        u64::try_from(expires_ms.saturating_sub(to.millis()) / 1_000).ok()
    };
    bounded(timeout_seconds.or_else(until_expiry).unwrap_or(limits::PROMPT_SECONDS_MAX))
}

/// Limits seconds to what a prompt of the protocol can state.
pub(super) fn bounded(seconds: u64) -> u32 {
    let seconds = seconds.clamp(1, limits::PROMPT_SECONDS_MAX);
    u32::try_from(seconds).unwrap_or(u32::MAX)
}

/// The protocol counts from the timestamp of the prompt.
fn deadline_ms(to: &EventBuilder<'_>, timeout_seconds: u32) -> Option<i64> {
    to.millis().checked_add(i64::from(timeout_seconds) * 1_000)
}

/// A value as it is spoken: a string without quotation marks; of an object with one member, the value of that member.
fn spoken(value: &Json) -> String {
    match serde_json::from_str(value.text()) {
        Ok(Value::String(text)) => text,
        Ok(Value::Object(answer)) if answer.len() == 1 => {
            let only = answer.into_iter().next().map(|(_, answer)| answer);
            only.map_or_else(String::new, |answer| {
                answer.as_str().map_or_else(|| answer.to_string(), str::to_owned)
            })
        }
        _ => value.text().to_owned(),
    }
}

/// The response kinds of a question, as the protocol names them. A question with choices takes one of them. A question
/// without any known kind takes text.
fn response_kinds(given: Option<&[String]>, has_choices: bool) -> BTreeSet<&'static str> {
    let known = |kind: &String| match kind.as_str() {
        "text" | "freetext" => Some("freetext"),
        "yes_no" => Some("yes_no"),
        "number" | "numeric" => Some("numeric"),
        _ => None,
    };
    let mut kinds: BTreeSet<&'static str> = given.unwrap_or_default().iter().filter_map(known).collect();
    if has_choices {
        kinds.insert("multiple_choice");
    } else if kinds.is_empty() {
        kinds.insert("freetext");
    }
    kinds
}

/// The label of a choice.
fn label(choice: &Json) -> String {
    match serde_json::from_str(choice.text()) {
        Ok(Value::Object(object)) => {
            let named = ["label", "value", "id"].into_iter().find_map(|name| object.get(name)?.as_str());
            named.map_or_else(|| choice.text().to_owned(), str::to_owned)
        }
        _ => spoken(choice),
    }
}

/// The response kinds that a question takes, as the protocol names them, and its choices.
pub(crate) fn answers(
    kinds: Option<&[String]>,
    given: Option<&[Json]>,
) -> (BTreeSet<&'static str>, Option<Vec<Choice>>) {
    let choices = choices(given.unwrap_or_default());
    (response_kinds(kinds, choices.is_some()), choices)
}

/// Choices in the form of the protocol; `None` if the protocol cannot carry them.
fn choices(given: &[Json]) -> Option<Vec<Choice>> {
    if !(2..=limits::CHOICES_MAX).contains(&given.len()) {
        return None;
    }
    let mut choices: Vec<Choice> = Vec::with_capacity(given.len());
    for choice in given {
        let (value, label) = match serde_json::from_str(choice.text()).ok()? {
            Value::String(text) => (text.clone(), text),
            Value::Object(object) => {
                let value = object.get("value").or_else(|| object.get("id"))?.as_str()?.to_owned();
                (value, label(choice))
            }
            _ => return None,
        };
        let fits = (1..=256).contains(&value.chars().count()) && (1..=1_024).contains(&label.chars().count());
        if !fits || choices.iter().any(|known| known.value == value) {
            return None;
        }
        choices.push(Choice { value, label });
    }
    Some(choices)
}

/// Whether the text is an absolute URI: a scheme, and only characters that a URI may have.
fn is_uri(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
        && !rest.is_empty()
        && rest.bytes().all(|byte| {
            byte.is_ascii_graphic()
                && !matches!(byte, b'<' | b'>' | b'"' | b'{' | b'}' | b'|' | b'\\' | b'^' | b'`')
        })
}
