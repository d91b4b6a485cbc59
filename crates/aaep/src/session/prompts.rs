//! Checks prompts of a session: their content, their outcome, and whether they allow a call.

use super::event_context::{EventContext, evict_settled};
use super::states::{Speaker, or_idle};
use crate::field::Field;
use crate::hash::hash_text;
use crate::json::Node;
use crate::kind::Kind;
use crate::limits::{COUNTED_DOWN_SECONDS, FOLLOW_UP_MS};
use crate::reading::Reading;
use crate::rule::{self, Findings, quote};

/// One prompt.
pub(super) struct Prompt {
    pub(super) token: u64,
    /// The number of the event that opened it.
    pub(super) opened_by: u64,
    pub(super) speaker: usize,
    pub(super) content: PromptContent,
    /// When its default is applied, in microseconds.
    pub(super) deadline: Option<i64>,
    pub(super) status: PromptStatus,
    /// When it was settled, in microseconds.
    pub(super) settled: Option<i64>,
    /// Whether an event followed its rejection, or a call its acceptance.
    pub(super) followed: bool,
    /// Number of invalid replies that were recorded before it.
    pub(super) invalid_replies_before: u64,
    /// Whether the producer then entered `calling_tool`, which announces an acceptance.
    pub(super) announced_call: bool,
    pub(super) countdown: Countdown,
    /// The changed action with which it was accepted.
    pub(super) modified: Option<Modified>,
}

/// The changed action of a reply, as far as a call shows it.
pub(super) struct Modified {
    tool: Option<u64>,
    arguments: Option<u64>,
}

impl Modified {
    /// Parses `modified_action`.
    pub(super) fn of(action: Node<'_>, seed: u64) -> Self {
        let named = |name: &str| Some(hash_text(seed, action.get(name)?.str()?.as_bytes()));
        Modified { tool: named("tool"), arguments: named("args_summary") }
    }
}

/// Why a call passed although its prompt has no recorded reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Presumption {
    /// Hash of the token.
    pub(super) token: u64,
    /// The deadline for a reply, in microseconds.
    pub(super) until: Option<i64>,
    /// Whether `reject` is among the allowed replies.
    pub(super) reject: bool,
    /// Whether the producer then entered `calling_tool`; otherwise it withdrew the prompt.
    pub(super) announced: bool,
}

/// The countdown of a prompt.
pub(super) struct Countdown {
    /// When half and a tenth of the time remain, in microseconds; for prompts that need a countdown.
    due: Option<(i64, i64)>,
    /// Number of progress events while it was open.
    reported: u32,
}

impl Countdown {
    fn new(opened: Option<i64>, seconds: Option<i64>) -> Self {
        let of = |(opened, seconds): (i64, i64)| {
            let time = seconds * 1_000_000;
            (opened.saturating_add(time / 2), opened.saturating_add(time / 10 * 9))
        };
        Countdown {
            due: opened.zip(seconds).filter(|(_, seconds)| *seconds > COUNTED_DOWN_SECONDS).map(of),
            reported: 0,
        }
    }

    /// Whether a countdown event is missing at this time; true only once.
    fn is_overdue(&mut self, moment: i64) -> bool {
        let Some((half, tenth)) = self.due else { return false };
        let late = |due: i64| u32::from(moment > due + FOLLOW_UP_MS * 1_000);
        let is_overdue = self.reported < late(half) + late(tenth);
        if is_overdue {
            self.due = None;
        }
        is_overdue
    }
}

/// The content of a prompt.
pub(super) enum PromptContent {
    Confirmation {
        /// Hashes of the call and the tool in `extra_context`.
        call: Option<u64>,
        tool: Option<u64>,
        /// Hash of the arguments in `extra_context`.
        arguments: Option<u64>,
        action: u64,
        /// Whether it declares that the action can be undone.
        reversible: bool,
        /// Whether it declares that the action cannot be undone.
        irreversible: bool,
        /// Whether it declares high risk.
        high: bool,
        default_accepts: bool,
        accept: bool,
        reject: bool,
    },
    Clarification {
        freetext: bool,
        yes_no: bool,
        numeric: bool,
        /// Hashes of the values of the choices, if choices are accepted.
        choices: Option<Vec<u64>>,
    },
}

/// The status of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PromptStatus {
    /// No reply is recorded, and the producer still waits.
    Open,
    /// An acceptance is recorded.
    Accepted,
    /// An acceptance of a changed action is recorded; it does not allow the original action.
    Modified,
    /// A rejection is recorded.
    Rejected,
    /// A response to a question is recorded.
    Answered,
    /// No reply is recorded, but the producer continued: it got a reply or applied the default.
    Presumed,
    /// The producer continued after the deadline, so the default `reject` applied.
    TimedOut,
    /// The producer continued, but the replies recorded since the prompt are invalid.
    Unaccepted,
    /// A call has used it.
    Used,
}

impl Prompt {
    fn is_over(&self, moment: Option<i64>, slack_ms: i64) -> bool {
        matches!((self.deadline, moment), (Some(deadline), Some(moment)) if moment >= deadline + slack_ms * 1_000)
    }

    /// How a call differs from its accepted prompt.
    fn difference(&self, details: CallDetails) -> Option<CallDifference> {
        let PromptContent::Confirmation { tool, arguments, reversible, .. } = self.content else {
            return None;
        };
        let other = |prompted: Option<u64>, called: u64| prompted.is_some_and(|prompted| prompted != called);
        match &self.modified {
            Some(modified) => {
                if other(modified.tool.or(tool), details.tool) || (reversible && details.irreversible) {
                    return Some(CallDifference::Unmodified);
                }
                let shown = match (modified.arguments, arguments) {
                    (Some(agreed), _) => details.arguments == Some(agreed),
                    // The change is another tool; its arguments are unknown.
                    _ if modified
                        .tool
                        .is_some_and(|agreed| tool.is_some_and(|prompted| prompted != agreed)) =>
                    {
                        true
                    }
                    // The change is free text of the subscriber: the call must at least differ from the prompt.
                    (None, Some(prompted)) => details.arguments.is_some_and(|called| called != prompted),
                    (None, None) => !details.needs_confirmation(),
                };
                (!shown).then_some(CallDifference::Unmodified)
            }
            None if !details.needs_confirmation() && !self.is_grave() => None,
            None if other(tool, details.tool) || (reversible && details.irreversible) => {
                Some(CallDifference::Action)
            }
            None => {
                let changed = |prompted: u64| match details.arguments {
                    Some(called) => called != prompted,
                    None => details.needs_confirmation(),
                };
                arguments.is_some_and(changed).then_some(CallDifference::Arguments)
            }
        }
    }

    /// Whether its action requires an acceptance: it cannot be undone or has high risk.
    fn is_grave(&self) -> bool {
        matches!(self.content, PromptContent::Confirmation { irreversible, high, .. } if irreversible || high)
    }

    /// Whether it shows this tool with these arguments.
    fn shows(&self, details: CallDetails) -> bool {
        matches!(self.content, PromptContent::Confirmation { tool: Some(tool), arguments: Some(arguments), .. }
            if tool == details.tool && details.arguments == Some(arguments))
    }

    /// The presumption of its acceptance, if no default explains the call.
    fn presumption(&self, details: CallDetails) -> Option<Presumption> {
        let PromptContent::Confirmation { reject, irreversible, .. } = self.content else { return None };
        // The default may apply early if no subscriber that can reply remains.
        let lasting = details.irreversible || irreversible;
        let by_default = self.default_accepts() && (!lasting || self.is_over(self.settled, 0));
        let until = match (self.deadline, self.settled) {
            (Some(deadline), Some(settled)) => Some(deadline.min(settled)),
            (deadline, settled) => deadline.or(settled),
        };
        let presumption = Presumption { token: self.token, until, reject, announced: self.announced_call };
        (!by_default).then_some(presumption)
    }

    /// Whether a reply could have accepted it.
    fn takes_accept(&self) -> bool {
        !matches!(self.content, PromptContent::Confirmation { accept: false, .. })
    }

    fn default_accepts(&self) -> bool {
        matches!(self.content, PromptContent::Confirmation { default_accepts: true, .. })
    }
}

/// Whether a call may be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallVerdict {
    Allowed,
    Unprompted,
    Open,
    /// The recorded replies are invalid.
    Unaccepted,
    /// Its acceptance is presumed.
    Presumed(Presumption),
    /// The acceptance was for a different action.
    Changed(CallDifference),
    /// No recorded subscription gets prompts, so a confirmation cannot be verified.
    Unseen,
    Rejected,
    TimedOut,
}

/// How a call differs from its prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallDifference {
    /// Another tool, or an action that cannot be undone although the prompt declares that it can.
    Action,
    /// The arguments differ or are missing.
    Arguments,
    /// The reply changed the action, and the call does not show the change.
    Unmodified,
}

/// The details of a call that its prompt must match.
#[derive(Clone, Copy)]
pub(super) struct CallDetails {
    pub(super) call: Option<u64>,
    pub(super) tool: u64,
    /// Hash of `args_summary`.
    pub(super) arguments: Option<u64>,
    pub(super) irreversible: bool,
    /// Whether it declares high risk.
    pub(super) high: bool,
}

impl CallDetails {
    /// Whether it requires an accepted prompt.
    fn needs_confirmation(self) -> bool {
        self.irreversible || self.high
    }

    /// Adds the flags of the prompt, because a call may omit its own.
    fn raise(&mut self, prompt: &Prompt) {
        if let PromptContent::Confirmation { irreversible, high, .. } = prompt.content {
            self.irreversible |= irreversible;
            self.high |= high;
        }
    }
}

/// Finds the prompt of a call (G-35): one that names it, else the newest of the same producer without a name. One
/// acceptance allows one call. Afterwards, `details` includes the flags of the prompt.
pub(super) fn check_call(
    prompts: &mut [Prompt],
    context: EventContext,
    details: &mut CallDetails,
) -> CallVerdict {
    let EventContext { speaker, prompts_hidden, .. } = context;
    let (CallDetails { call, tool, .. }, needs_confirmation) = (*details, details.needs_confirmation());
    // A recording that contains a prompt of the session contains all of its prompts.
    let unprompted =
        if prompts_hidden && prompts.is_empty() { CallVerdict::Unseen } else { CallVerdict::Unprompted };
    if prompts.is_empty() {
        return if needs_confirmation { unprompted } else { CallVerdict::Allowed };
    }
    let own = |prompt: &&mut Prompt| prompt.speaker == speaker;
    let names = |prompt: &Prompt| match prompt.content {
        PromptContent::Confirmation { call: Some(named), .. } => call == Some(named),
        PromptContent::Confirmation { tool: Some(named), .. } => {
            tool == named || prompt.modified.as_ref().is_some_and(|modified| modified.tool == Some(tool))
        }
        _ => false,
    };
    let unlinked = |prompt: &Prompt| {
        matches!(prompt.content, PromptContent::Confirmation { call: None, tool: None, .. })
    };
    let linked = prompts
        .iter_mut()
        .rev()
        .filter(own)
        .find(|prompt| names(prompt) && prompt.status != PromptStatus::Used);
    if let Some(prompt) = linked {
        prompt.followed = true;
        let verdict = judge(prompt, context, *details);
        details.raise(prompt);
        if matches!(verdict, CallVerdict::Allowed | CallVerdict::Presumed(_) | CallVerdict::Changed(_)) {
            prompt.status = PromptStatus::Used;
        }
        return verdict;
    }
    if !needs_confirmation {
        // The same action again, with another id and without its flags.
        let shows = |prompt: &&mut Prompt| prompt.is_grave() && prompt.shows(*details);
        if let Some(prompt) = prompts.iter_mut().rev().filter(own).find(shows) {
            prompt.followed = true;
            let verdict = judge(prompt, context, *details);
            details.raise(prompt);
            return verdict;
        }
        let newest = prompts.iter_mut().rev().filter(own).find(|prompt| unlinked(prompt));
        return match newest {
            // No event since the rejection: this is the rejected action (A.8.5).
            Some(prompt) if prompt.status == PromptStatus::Rejected && !prompt.followed => {
                prompt.followed = true;
                CallVerdict::Rejected
            }
            Some(prompt) => {
                prompt.followed |= prompt.status == PromptStatus::Accepted;
                CallVerdict::Allowed
            }
            None => CallVerdict::Allowed,
        };
    }
    let mut worst = unprompted;
    for prompt in prompts.iter_mut().rev().filter(own) {
        if !unlinked(prompt) || prompt.status == PromptStatus::Used {
            continue;
        }
        match judge(prompt, context, *details) {
            verdict @ (CallVerdict::Allowed | CallVerdict::Presumed(_)) => {
                prompt.status = PromptStatus::Used;
                prompt.followed = true;
                return verdict;
            }
            verdict if worst == unprompted => {
                // The difference is reported for this call, not again at the end.
                prompt.followed |= matches!(verdict, CallVerdict::Changed(_));
                worst = verdict;
            }
            _ => {}
        }
    }
    worst
}

fn judge(prompt: &Prompt, context: EventContext, details: CallDetails) -> CallVerdict {
    match prompt.status {
        PromptStatus::Accepted | PromptStatus::Modified | PromptStatus::Presumed | PromptStatus::Answered => {
            let presumed = prompt.status == PromptStatus::Presumed;
            match (prompt.difference(details), prompt.presumption(details).filter(|_| presumed)) {
                (Some(change), _) => CallVerdict::Changed(change),
                (None, Some(_)) if !prompt.takes_accept() => CallVerdict::Unaccepted,
                (None, Some(presumption)) => CallVerdict::Presumed(presumption),
                (None, None) => CallVerdict::Allowed,
            }
        }
        PromptStatus::Unaccepted => CallVerdict::Unaccepted,
        PromptStatus::Used => CallVerdict::Unprompted,
        PromptStatus::Rejected => CallVerdict::Rejected,
        PromptStatus::TimedOut => CallVerdict::TimedOut,
        PromptStatus::Open if prompt.is_over(context.moment, 0) => {
            if prompt.default_accepts() {
                prompt.difference(details).map_or(CallVerdict::Allowed, CallVerdict::Changed)
            } else {
                CallVerdict::TimedOut
            }
        }
        PromptStatus::Open => CallVerdict::Open,
    }
}

/// Adds a prompt; returns whether it is tracked.
pub(super) fn open_prompt(
    prompts: &mut Vec<Prompt>,
    speaker: &Speaker,
    context: EventContext,
    kind: Kind,
    event: &Reading<'_>,
    findings: &mut Findings,
) -> bool {
    let EventContext { speaker: number, moment, seed, event_number, .. } = context;
    let text = event.doc().text();
    let content = if kind == Kind::AwaitingConfirmation {
        confirmation_content(event, seed)
    } else {
        clarification_content(event, seed)
    };
    if !speaker.is_in("awaiting_input") {
        let message = || format!("the state is `{}`", or_idle(&speaker.state));
        findings.add(&rule::PROMPT_STATE, text, Some(event.node()), String::new, message);
    }
    if let PromptContent::Confirmation { call, action, .. } = &content {
        let again = prompts.iter().any(|prompt| {
            let same = matches!(&prompt.content, PromptContent::Confirmation { call: other, action: same, .. }
                if (call.is_some() && call == other) || (call.is_none() && action == same));
            prompt.status == PromptStatus::Open
                && prompt.speaker == number
                && same
                && !prompt.is_over(moment, 0)
        });
        if again {
            let message = || "this action already has an open prompt".to_owned();
            findings.add(&rule::PROMPT_REPEATED, text, event.get(Field::Action), || "action".into(), message);
        }
    }
    let token = event.text(Field::ReplyToken).map_or(0, |token| hash_text(seed, token.as_bytes()));
    let seconds = event.int(Field::TimeoutSeconds).filter(|seconds| (1..=86_400).contains(seconds));
    let deadline = moment.zip(seconds).map(|(moment, seconds)| moment + seconds * 1_000_000);
    let settled = |prompt: &Prompt| prompt.status != PromptStatus::Open;
    let room = evict_settled(prompts, settled);
    if room {
        let status = PromptStatus::Open;
        prompts.push(Prompt {
            token,
            opened_by: event_number,
            speaker: number,
            content,
            deadline,
            status,
            settled: None,
            followed: false,
            invalid_replies_before: context.invalid_replies,
            announced_call: false,
            countdown: Countdown::new(moment, seconds),
            modified: None,
        });
    }
    room
}

fn confirmation_content(event: &Reading<'_>, seed: u64) -> PromptContent {
    let context = event.get(Field::ExtraContext);
    let named = |name: &str| Some(hash_text(seed, context?.get(name)?.str()?.as_bytes()));
    let allowed = event.get(Field::AllowedReplies);
    let allows = |decision: &str| allowed.is_none_or(|allowed| allowed.items().any(|item| item.is(decision)));
    let (irreversible, high) = gravity(event);
    PromptContent::Confirmation {
        call: named("tool_call_id"),
        tool: named("tool"),
        arguments: named("args_summary"),
        action: event.text(Field::Action).map_or(0, |action| hash_text(seed, action.as_bytes())),
        reversible: event.bool(Field::Irreversible) == Some(false)
            || event.is(Field::Reversibility, "reversible"),
        irreversible,
        high,
        default_accepts: event.is(Field::DefaultDecision, "accept"),
        accept: allows("accept"),
        reject: allows("reject"),
    }
}

/// Whether an event declares that its action cannot be undone, and that it has high risk.
pub(super) fn gravity(event: &Reading<'_>) -> (bool, bool) {
    let stakes = rule::stakes(event);
    (stakes.irreversible, event.is(Field::RiskLevel, "high") && stakes.risk == rule::Risk::High)
}

fn clarification_content(event: &Reading<'_>, seed: u64) -> PromptContent {
    let kinds = event.get(Field::AcceptedResponseKinds);
    let choices = event.get(Field::Choices);
    // Without kinds: a choice if there are choices, free text otherwise.
    let takes =
        |kind: &str, default: bool| kinds.map_or(default, |kinds| kinds.items().any(|item| item.is(kind)));
    let values = || {
        let choices = choices.into_iter().flat_map(|choices| choices.items());
        choices.filter_map(|choice| Some(hash_text(seed, choice.get("value")?.str()?.as_bytes()))).collect()
    };
    PromptContent::Clarification {
        freetext: takes("freetext", choices.is_none()),
        yes_no: takes("yes_no", false),
        numeric: takes("numeric", false),
        choices: takes("multiple_choice", choices.is_some()).then(values),
    }
}

/// Checks the countdowns of a producer's prompts at an event, until they are settled.
pub(super) fn check_countdowns(
    prompts: &mut [Prompt],
    context: EventContext,
    kind: Kind,
    event: &Reading<'_>,
    findings: &mut Findings,
) {
    for prompt in prompts.iter_mut().filter(|prompt| prompt.speaker == context.speaker) {
        let Some(moment) = prompt.settled.or(context.moment) else { continue };
        if kind == Kind::ProgressUpdated && prompt.settled.is_none() {
            prompt.countdown.reported = prompt.countdown.reported.saturating_add(1);
        }
        // After the deadline no countdown is needed.
        let until = prompt.deadline.map_or(moment, |deadline| moment.min(deadline));
        if prompt.countdown.is_overdue(until) {
            let message = || "no countdown was sent while a prompt was open".to_owned();
            let text = event.doc().text();
            findings.add(&rule::PROMPT_COUNTDOWN, text, Some(event.node()), String::new, message);
        }
        if prompt.settled.is_some() {
            prompt.countdown.due = None;
        }
    }
}

/// Whether an open prompt requests a call that was made before it.
pub(super) fn is_requested(
    prompts: &[Prompt],
    context: EventContext,
    invoked_by: u64,
    id: Option<u64>,
    tool: u64,
) -> bool {
    prompts.iter().any(|prompt| {
        let names = match prompt.content {
            PromptContent::Confirmation { call: Some(named), .. } => id == Some(named),
            PromptContent::Confirmation { tool: Some(named), .. } => tool == named,
            _ => false,
        };
        names
            && prompt.speaker == context.speaker
            && prompt.opened_by > invoked_by
            && prompt.status == PromptStatus::Open
            && !prompt.is_over(context.moment, 0)
    })
}

/// Settles a producer's prompts without a recorded reply when it leaves `awaiting_input`. An unrecorded acceptance is
/// presumed, unless the prompt timed out or the recording contradicts it.
pub(super) fn leave_prompts(prompts: &mut [Prompt], context: EventContext, to_call: bool) {
    let EventContext { speaker: number, moment, invalid_replies, .. } = context;
    for prompt in
        prompts.iter_mut().filter(|prompt| prompt.speaker == number && prompt.status == PromptStatus::Open)
    {
        let over = prompt.is_over(moment, 0);
        prompt.status = match prompt.content {
            PromptContent::Confirmation { .. } if over && !prompt.default_accepts() => PromptStatus::TimedOut,
            PromptContent::Confirmation { .. }
                if !over && invalid_replies > prompt.invalid_replies_before =>
            {
                PromptStatus::Unaccepted
            }
            _ => PromptStatus::Presumed,
        };
        prompt.announced_call = to_call;
        prompt.followed = true;
        prompt.settled = moment;
    }
}

/// Marks rejections and timeouts of a producer as followed by an event.
pub(super) fn mark_followed(prompts: &mut [Prompt], context: EventContext) {
    for prompt in prompts.iter_mut().filter(|prompt| prompt.speaker == context.speaker) {
        let over = prompt.status == PromptStatus::Open && prompt.is_over(context.moment, 0);
        prompt.followed |= over || prompt.status == PromptStatus::Rejected;
    }
}

/// Checks the prompts at the end of a session.
pub(super) fn check_end(
    prompts: &[Prompt],
    speakers: &[Speaker],
    completed: bool,
    event: &Reading<'_>,
    moment: Option<i64>,
    findings: &mut Findings,
) {
    if !completed {
        return;
    }
    let text = event.doc().text();
    let mut add = |rule: &'static rule::Rule, message: &str| {
        findings.add(rule, text, Some(event.node()), String::new, || message.to_owned());
    };
    for prompt in prompts {
        match prompt.status {
            PromptStatus::Open if !prompt.is_over(moment, 0) => {
                add(&rule::PROMPT_OPEN, "a prompt has no answer and its timeout has not passed");
            }
            PromptStatus::Open
                if !prompt.followed && matches!(prompt.content, PromptContent::Confirmation { .. }) =>
            {
                if prompt.default_accepts() {
                    add(&rule::PROMPT_NOT_DONE, "the default of a prompt is `accept` but no tool was called");
                } else {
                    add(&rule::PROMPT_NO_FOLLOW_UP, "no event reports that a prompt timed out");
                }
            }
            PromptStatus::Rejected if !prompt.followed => {
                add(&rule::PROMPT_NO_FOLLOW_UP, "no event reports that the action was rejected");
            }
            PromptStatus::Accepted if !prompt.followed => {
                add(&rule::PROMPT_NOT_DONE, "an action was accepted but no tool was called");
            }
            _ => {}
        }
    }
    if !prompts.is_empty() && speakers.iter().any(|speaker| speaker.is_in("awaiting_input")) {
        add(&rule::PROMPT_STATE_STAYS, "the state is still `awaiting_input`");
    }
}

/// Checks whether the question accepts the kind of a response.
pub(super) fn check_response(
    content: &PromptContent,
    response: crate::json::Node<'_>,
    seed: u64,
) -> Result<(), String> {
    let PromptContent::Clarification { freetext, yes_no, numeric, choices } = content else {
        return Err("a clarification reply was sent to a confirmation prompt".into());
    };
    let fits = match response.str() {
        Some(text) => {
            let chosen =
                || choices.as_ref().is_some_and(|values| values.contains(&hash_text(seed, text.as_bytes())));
            (*freetext && !text.is_empty()) || chosen()
        }
        None if response.bool().is_some() => *yes_no,
        None => *numeric && response.number().is_some(),
    };
    if fits {
        Ok(())
    } else {
        Err(format!("`{}` is not of a kind that the question accepts", quote(response.raw())))
    }
}
