//! Prompts and handoffs: what is asked, and what came of it.
//!
//! While a prompt is open the state is `awaiting_input`, whatever else goes on; when it is settled the state leaves with
//! a sentence that says what was decided and by whom, and comes back when another prompt is still open.

use std::collections::BTreeSet;

use recount_aaep::wire::{
    AwaitingClarification, AwaitingConfirmation, Body, Choice, Decision, HandoffRequested, HandoffTarget,
    Level, Reversibility, Summaries, Urgency,
};
use recount_event::family::{approval, clarification, handoff};
use recount_event::{ForeignId, Json, Payload, time};
use serde_json::{Map, Value};

use super::course::Course;
use super::open_prompt::OpenPrompt;
use super::saying::Saying;
use super::state::State;
use super::{Tokens, id, text, token, tools};
use crate::limits;
use crate::speech::{Arg, Key};

impl Course {
    /// Whether the event was one of these.
    pub(super) fn of_prompts(&mut self, to: &mut Saying<'_>, payload: &Payload, tokens: Tokens<'_>) -> bool {
        match payload {
            Payload::ApprovalRequested(asked) => self.asks_leave(to, asked, tokens),
            Payload::ApprovalResolved(said) => {
                let (by, comment) =
                    (answerer(to, &said.by), text::some_quoted(said.comment.as_deref()).map(text::ended));
                let by: (&'static str, Arg<'_>) = ("by", Arg::Text(&by));
                // Where it was decided elsewhere, that decision counts, and what it is not known of may go on.
                let decision = match said.decided_elsewhere {
                    None => Some(said.decision),
                    Some(approval::DecidedElsewhere::Approved) => Some(approval::Decision::Approved),
                    Some(approval::DecidedElsewhere::Rejected) => Some(approval::Decision::Rejected),
                    Some(approval::DecidedElsewhere::Undecided) => None,
                };
                let approved = decision == Some(approval::Decision::Approved);
                let summaries = match (decision, &comment) {
                    (None, _) => to.say(Key::QuestionWithdrawn, &[]),
                    (Some(approval::Decision::Cancelled), _) => to.say(Key::ApprovalWithdrawn, &[]),
                    (Some(approval::Decision::Approved), None) => to.say(Key::Approved, &[by]),
                    (Some(approval::Decision::Rejected), None) => to.say(Key::Rejected, &[by]),
                    (Some(_), Some(comment)) => {
                        let key = if approved { Key::ApprovedSaying } else { Key::RejectedSaying };
                        to.say(key, &[by, ("comment", comment.as_str().into())])
                    }
                };
                self.settles(to, &said.approval_id, approved, summaries);
            }
            Payload::ApprovalExtended(more) => {
                self.gives_time(to, &more.approval_id, &more.by, more.seconds, &more.expires_at);
            }
            Payload::ClarificationExtended(more) => {
                self.gives_time(to, &more.clarification_id, &more.by, more.seconds, &more.expires_at);
            }
            // The protocol gives handoffs no time.
            Payload::HandoffExtended(more) => {
                let summaries = more_time(to, &more.by, more.seconds);
                self.changes(to, self.state, summaries, Urgency::Normal);
            }
            Payload::ApprovalTimedOut(late) => {
                let approved = late.decision == Some(approval::Decision::Approved);
                let key =
                    if approved { Key::ApprovalTimedOutApproved } else { Key::ApprovalTimedOutRejected };
                self.settles(to, &late.approval_id, approved, to.say(key, &[]));
            }
            Payload::ClarificationRequested(asked) => self.asks(to, asked, tokens),
            Payload::ClarificationAnswered(said) => {
                let (by, answer) = (answerer(to, &said.by), text::quoted(&spoken(&said.response)));
                let by: (&'static str, Arg<'_>) = ("by", Arg::Text(&by));
                let summaries = match answer.as_str() {
                    "" => to.say(Key::AnsweredPlain, &[by]),
                    answer => to.say(Key::Answered, &[by, ("answer", answer.into())]),
                };
                self.settles(to, &said.clarification_id, false, summaries);
            }
            Payload::ClarificationTimedOut(late) => {
                let answer = late.response.as_ref().map(|response| text::quoted(&spoken(response)));
                let default = late.applied == clarification::Applied::Default;
                let summaries = match answer.filter(|answer| default && !answer.is_empty()) {
                    Some(answer) => to.say(Key::UnansweredDefault, &[("answer", answer.as_str().into())]),
                    None => to.say(Key::Unanswered, &[]),
                };
                self.settles(to, &late.clarification_id, false, summaries);
            }
            Payload::HandoffRequested(asked) => self.hands_over(to, asked),
            Payload::HandoffAcknowledged(taken) => {
                self.handoffs.remove(&taken.handoff_id);
                let by = answerer(to, &taken.by);
                self.sentence(to, Key::HandoffAcknowledged, &[("by", by.as_str().into())]);
            }
            Payload::HandoffRejected(no) => {
                self.handoffs.remove(&no.handoff_id);
                let by = answerer(to, &no.by);
                let by: (&'static str, Arg<'_>) = ("by", Arg::Text(&by));
                match text::some_quoted(no.reason.as_deref()) {
                    Some(reason) => {
                        self.sentence(
                            to,
                            Key::HandoffRejectedSaying,
                            &[by, ("reason", reason.as_str().into())],
                        );
                    }
                    None => self.sentence(to, Key::HandoffRejected, &[by]),
                }
            }
            Payload::HandoffTimedOut(late) => {
                self.handoffs.remove(&late.handoff_id);
                self.sentence(to, Key::HandoffTimedOut, &[]);
            }
            _ => return false,
        }
        true
    }

    fn asks_leave(&mut self, to: &mut Saying<'_>, asked: &approval::Requested, tokens: Tokens<'_>) {
        if self.prompts.contains_key(&asked.approval_id) {
            return;
        }
        self.enters(to, State::AwaitingInput);
        let kind = text::quoted(&asked.kind);
        let action = text::some_field(asked.action.as_deref())
            .or_else(|| text::some_field(Some(&asked.summary)))
            .unwrap_or_else(|| to.sentence(Key::ActionUnknown, &[("tool", kind.as_str().into())]));
        let consequence = text::some_field(asked.consequence.as_deref()).unwrap_or_else(|| {
            match text::some_quoted(asked.policy_reason.as_deref()) {
                Some(reason) => to.sentence(Key::ConsequenceByRule, &[("reason", reason.as_str().into())]),
                None => to.sentence(Key::ConsequenceUnknown, &[]),
            }
        });
        // Code marks are for the eye, and what the action shows already is not repeated.
        let spoken_action = text::ended(action.replace('`', ""));
        let preview = text::some_field(asked.preview.as_deref());
        let preview = preview.filter(|preview| !action.contains(preview.as_str())).unwrap_or_default();
        let irreversible = asked.irreversible == Some(true)
            || asked.reversibility == Some(approval::Reversibility::Irreversible);
        let key = if irreversible { Key::ConfirmationIrreversible } else { Key::Confirmation };
        let spoken_consequence = text::ended(consequence.clone());
        let args = [
            ("action", spoken_action.as_str().into()),
            ("consequence", spoken_consequence.as_str().into()),
            ("preview", preview.as_str().into()),
        ];
        let summaries = to.say(key, &args);
        // What cannot be undone is never done because nobody answered.
        let accepts = asked.default_decision == Some(approval::DefaultDecision::Approve) && !asked.is_grave();
        let default = if accepts { Decision::Accept } else { Decision::Reject };
        let token = tokens(&asked.approval_id);
        let mut body = AwaitingConfirmation::new(
            action,
            consequence,
            token,
            seconds(to, asked.timeout_seconds, asked.expires_at.as_deref()),
            default,
        );
        body.risk_level = asked.risk_level.map(tools::level);
        body.irreversible = (irreversible || asked.irreversible.is_some()).then_some(irreversible);
        body.reversibility = if irreversible {
            Some(Reversibility::Irreversible)
        } else {
            asked.reversibility.map(|reversibility| match reversibility {
                approval::Reversibility::Reversible => Reversibility::Reversible,
                approval::Reversibility::PartiallyReversible => Reversibility::WithEffort,
                approval::Reversibility::Irreversible => Reversibility::Irreversible,
            })
        };
        let mut context = Map::new();
        context.insert("tool_call_id".into(), id::call_id(&asked.tool_call_id).into());
        body.extra_context = Some(context);
        let deadline_ms = deadline_ms(to, body.timeout_seconds);
        to.push(body, summaries, Urgency::Critical);
        self.prompts.insert(asked.approval_id.clone(), self.keeps(to, deadline_ms));
    }

    fn asks(&mut self, to: &mut Saying<'_>, asked: &clarification::Requested, tokens: Tokens<'_>) {
        if self.prompts.contains_key(&asked.clarification_id) {
            return;
        }
        self.is_asking(asked.tool_call_id.as_ref());
        self.enters(to, State::AwaitingInput);
        let question = text::field(&asked.question);
        let question = if question.is_empty() { "?".to_owned() } else { question };
        let given = asked.choices.as_deref().unwrap_or_default();
        let (kinds, choices) = answers(asked.accepted_response_kinds.as_deref(), Some(given));
        let listed = given.iter().map(label).collect::<Vec<_>>().join("; ");
        let listed = match text::quoted(&listed).as_str() {
            "" => String::new(),
            listed => to.sentence(Key::Choices, &[("choices", listed.into())]),
        };
        // Choices that the protocol cannot carry are named in the context.
        let unlisted = if choices.is_none() { listed.as_str() } else { "" };
        let context = text::ended(text::field(asked.context.as_deref().unwrap_or_default()));
        let in_context = ("context", Arg::Text(&context));
        let (in_question, in_choices) =
            (("question", question.as_str().into()), ("choices", listed.as_str().into()));
        let summaries = match context.as_str() {
            "" => to.say(Key::Clarification, &[in_question, in_choices]),
            _ => to.say(Key::ClarificationInContext, &[in_question, in_context, in_choices]),
        };
        let context =
            Some(format!("{context}\n{unlisted}").trim().to_owned()).filter(|context| !context.is_empty());
        let token = tokens(&asked.clarification_id);
        let mut body = AwaitingClarification::new(
            question,
            token,
            seconds(to, asked.timeout_seconds, asked.expires_at.as_deref()),
        );
        body.accepted_response_kinds = Some(kinds.into_iter().map(str::to_owned).collect());
        body.choices = choices;
        body.context = context;
        body.default_response = text::some_field(asked.default_response.as_ref().map(spoken).as_deref());
        let deadline_ms = deadline_ms(to, body.timeout_seconds);
        to.push(body, summaries, Urgency::Critical);
        self.prompts.insert(asked.clarification_id.clone(), self.keeps(to, deadline_ms));
    }

    /// A prompt has its answer, or will have none.
    fn settles(&mut self, to: &mut Saying<'_>, prompt: &ForeignId, approved: bool, summaries: Summaries) {
        if self.prompts.remove(prompt).is_none() {
            return;
        }
        // Going on to the tool is how the protocol says that it was accepted.
        let next = if approved { State::CallingTool } else { self.after_prompts() };
        self.changes(to, next, summaries, Urgency::Normal);
        if !self.prompts.is_empty() {
            let open = self.prompts.len() as u64;
            let summaries = to.say(Key::StillAwaitingInput, &[("prompts", open.into())]);
            self.changes(to, State::AwaitingInput, summaries, Urgency::Normal);
        }
    }

    /// The deadline of a prompt has moved. A prompt states its time once, so it is withdrawn and asked again with the
    /// time that is left now, under a token of its own.
    fn gives_time(&mut self, to: &mut Saying<'_>, prompt: &ForeignId, by: &str, seconds: u64, until: &str) {
        let Some(open) = self.prompts.remove(prompt) else { return };
        let summaries = more_time(to, by, seconds);
        self.changes(to, self.after_prompts(), summaries, Urgency::Normal);
        self.enters(to, State::AwaitingInput);
        let deadline_ms = time::parse_ms(until).and_then(|at_ms| i64::try_from(at_ms).ok());
        let asked_again = open.shown.as_deref().map(|shown| {
            let mut body = shown.body.clone();
            let left = deadline_ms.map_or(limits::PROMPT_SECONDS_MAX, |at_ms| {
                u64::try_from(at_ms.saturating_sub(to.millis()) / 1_000).unwrap_or(0)
            });
            match &mut body {
                Body::AwaitingConfirmation(ask) => {
                    ask.timeout_seconds = bounded(left);
                    ask.reply_token = token::next(&ask.reply_token);
                }
                Body::AwaitingClarification(ask) => {
                    ask.timeout_seconds = bounded(left);
                    ask.reply_token = token::next(&ask.reply_token);
                }
                _ => {}
            }
            (body, shown.summaries.clone())
        });
        let kept = match asked_again {
            Some((body, summaries)) => {
                to.push(body, summaries, Urgency::Critical);
                self.keeps(to, deadline_ms)
            }
            None => OpenPrompt { deadline_ms, ..open },
        };
        self.prompts.insert(prompt.clone(), kept);
    }

    fn hands_over(&mut self, to: &mut Saying<'_>, asked: &handoff::Requested) {
        if self.handoffs.contains_key(&asked.handoff_id) {
            return;
        }
        self.is_asking(asked.tool_call_id.as_ref());
        // Leaving `awaiting_input` would say that the open prompts are settled.
        if self.prompts.is_empty() {
            self.enters(to, State::HandingOff);
        }
        let reason = text::field(&asked.reason);
        let reason = if reason.is_empty() { "?".to_owned() } else { reason };
        let ours = to.say(Key::Handoff, &[("reason", text::quoted(&reason).as_str().into())]);
        let summaries = Summaries {
            terse: text::some_field(asked.summary_terse.as_deref()).or(ours.terse),
            normal: text::some_field(asked.summary_normal.as_deref()).or(ours.normal),
            detailed: text::some_field(asked.summary_detailed.as_deref()).or(ours.detailed),
        };
        let mut body = HandoffRequested::new(
            reason,
            match asked.target_kind {
                handoff::TargetKind::Human => HandoffTarget::Human,
                handoff::TargetKind::SpecialistAgent => HandoffTarget::SpecialistAgent,
                handoff::TargetKind::EscalationQueue => HandoffTarget::EscalationQueue,
            },
        );
        body.target_uri = asked.target_uri.clone().filter(|uri| is_uri(uri));
        body.packaged_context = asked.packaged_context.as_ref().and_then(|context| {
            let texts = [&summaries.terse, &summaries.normal, &summaries.detailed].into_iter().flatten();
            let others = body.reason.len() + texts.map(String::len).sum::<usize>();
            let small = context.text().len() + others <= limits::HANDOFF_BYTES_MAX;
            if small { serde_json::from_str(context.text()).ok() } else { None }
        });
        body.urgency_for_handoff = asked.urgency_for_handoff.map(|urgency| match urgency {
            handoff::HandoffUrgency::Low => Level::Low,
            handoff::HandoffUrgency::Medium => Level::Medium,
            handoff::HandoffUrgency::High => Level::High,
        });
        to.push(body, summaries, Urgency::Critical);
        self.handoffs.insert(asked.handoff_id.clone(), self.keeps(to, None));
    }
}

fn answerer(to: &Saying<'_>, by: &str) -> String {
    match text::quoted(by) {
        by if by.is_empty() => to.sentence(Key::Unnamed, &[]),
        by => by,
    }
}

fn more_time(to: &Saying<'_>, by: &str, seconds: u64) -> Summaries {
    let by = answerer(to, by);
    let by: (&'static str, Arg<'_>) = ("by", Arg::Text(&by));
    match seconds {
        0..=119 => to.say(Key::ExtendedSeconds, &[by, ("seconds", seconds.into())]),
        _ => to.say(Key::ExtendedMinutes, &[by, ("minutes", (seconds / 60).into())]),
    }
}

/// For how many seconds a prompt is open: as many as it says, or until the time that it names.
fn seconds(to: &Saying<'_>, timeout_seconds: Option<u64>, expires_at: Option<&str>) -> u32 {
    let until_expiry = || {
        let expires_ms = i64::try_from(time::parse_ms(expires_at?)?).ok()?;
        u64::try_from(expires_ms.saturating_sub(to.millis()) / 1_000).ok()
    };
    bounded(timeout_seconds.or_else(until_expiry).unwrap_or(limits::PROMPT_SECONDS_MAX))
}

/// As many seconds as a prompt can state.
fn bounded(seconds: u64) -> u32 {
    let seconds = seconds.clamp(1, limits::PROMPT_SECONDS_MAX);
    u32::try_from(seconds).unwrap_or(u32::MAX)
}

/// The protocol counts from the timestamp of the prompt.
fn deadline_ms(to: &Saying<'_>, timeout_seconds: u32) -> Option<i64> {
    to.millis().checked_add(i64::from(timeout_seconds) * 1_000)
}

/// A value as people say it: a text without its quotation marks, of an answer what was answered.
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

/// The forms that an answer may have, in the protocol's words, each once. A question with choices takes one of them, and
/// a question that would take nothing takes text.
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

/// A choice as people read it.
fn label(choice: &Json) -> String {
    match serde_json::from_str(choice.text()) {
        Ok(Value::Object(object)) => {
            let named = ["label", "value", "id"].into_iter().find_map(|name| object.get(name)?.as_str());
            named.map_or_else(|| choice.text().to_owned(), str::to_owned)
        }
        _ => spoken(choice),
    }
}

/// The kinds of answers that a question takes, in the words of the protocol, and its choices.
pub(crate) fn answers(
    kinds: Option<&[String]>,
    given: Option<&[Json]>,
) -> (BTreeSet<&'static str>, Option<Vec<Choice>>) {
    let choices = choices(given.unwrap_or_default());
    (response_kinds(kinds, choices.is_some()), choices)
}

/// Choices as the protocol has them, or none when they are not what it can carry.
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

/// Whether it is an absolute URI: a scheme, and nothing that a URI cannot hold.
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
