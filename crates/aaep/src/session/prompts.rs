//! Prompts of a session: what they ask for, how they ended, and whether a call was allowed.

use super::stand::{Stand, make_room};
use super::states::{Speaker, or_idle};
use crate::field::Field;
use crate::hash::sum;
use crate::json::Node;
use crate::kind::Kind;
use crate::limits::{COUNTED_DOWN_SECONDS, FOLLOW_UP_MS};
use crate::reading::Reading;
use crate::rule::{self, Findings, quote};

/// One prompt.
pub(super) struct Prompt {
    pub(super) token: u64,
    /// The number of the event that opened it.
    pub(super) heard: u64,
    pub(super) speaker: usize,
    pub(super) asks: Asks,
    /// When its default is applied, in microseconds.
    pub(super) deadline: Option<i64>,
    pub(super) standing: Standing,
    /// When it was taken as settled, in microseconds.
    pub(super) settled: Option<i64>,
    /// Whether anything followed its rejection, or a tool its acceptance.
    pub(super) followed: bool,
    /// How many replies had been recorded before it that do not count.
    pub(super) refused_before: u64,
    /// Whether the producer went on to `calling_tool`, which is how an acceptance is announced.
    pub(super) went_to_call: bool,
    pub(super) countdown: Countdown,
    /// What it was accepted with, instead of what it asks for.
    pub(super) modified: Option<Modified>,
}

/// What a reply puts in place of what a prompt asks for, as far as a call shows it.
pub(super) struct Modified {
    tool: Option<u64>,
    arguments: Option<u64>,
}

impl Modified {
    /// Reads `modified_action`.
    pub(super) fn of(action: Node<'_>, seed: u64) -> Self {
        let named = |name: &str| Some(sum(seed, action.get(name)?.str()?.as_bytes()));
        Modified { tool: named("tool"), arguments: named("args_summary") }
    }
}

/// Why a call passed whose prompt has no reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Presumption {
    /// Sum of the token.
    pub(super) token: u64,
    /// Until when a reply could be in time, in microseconds.
    pub(super) until: Option<i64>,
    /// Whether `reject` is among the allowed replies.
    pub(super) reject: bool,
    /// Whether the producer went on to `calling_tool`; otherwise it had withdrawn the prompt.
    pub(super) announced: bool,
}

/// How the time of a prompt was told.
pub(super) struct Countdown {
    /// When half of the time and when a tenth was left, in microseconds; for prompts that are counted down.
    due: Option<(i64, i64)>,
    /// Reports of progress while it was open.
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

    /// Whether less was told than was due by a moment; answered once.
    fn is_behind(&mut self, moment: i64) -> bool {
        let Some((half, tenth)) = self.due else { return false };
        let late = |due: i64| u32::from(moment > due + FOLLOW_UP_MS * 1_000);
        let behind = self.reported < late(half) + late(tenth);
        if behind {
            self.due = None;
        }
        behind
    }
}

/// What a prompt asks for.
pub(super) enum Asks {
    Leave {
        /// Sums of the call and the tool that `extra_context` names.
        call: Option<u64>,
        tool: Option<u64>,
        /// Sum of the arguments that `extra_context` shows.
        arguments: Option<u64>,
        action: u64,
        /// Whether it says outright that the action can be undone.
        reversible: bool,
        /// Whether it says that the action cannot be undone.
        irreversible: bool,
        /// Whether it says that the action has high risk.
        high: bool,
        default_accepts: bool,
        accept: bool,
        reject: bool,
    },
    Words {
        freetext: bool,
        yes_no: bool,
        numeric: bool,
        /// Sums of the values of the choices, when a choice is taken.
        choices: Option<Vec<u64>>,
    },
}

/// What became of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// No reply is recorded, and the producer has not gone on.
    Open,
    /// A reply is recorded.
    Accepted,
    /// A reply is recorded that accepts a changed action; the original one is not allowed by it.
    Modified,
    /// A reply is recorded.
    Rejected,
    /// A reply is recorded, to a question.
    Answered,
    /// No reply is recorded, and the producer went on: it had one, or it applied its default.
    Presumed,
    /// The producer went on so late that only the default can have been applied, and that was `reject`.
    TimedOut,
    /// The producer went on, and what replies are recorded since it was opened do not count.
    Unaccepted,
    /// A call has used it.
    Used,
}

impl Prompt {
    fn is_over(&self, moment: Option<i64>, slack_ms: i64) -> bool {
        matches!((self.deadline, moment), (Some(deadline), Some(moment)) if moment >= deadline + slack_ms * 1_000)
    }

    /// What of a call is not what was asked for, although that was accepted.
    fn change(&self, wanted: Wanted) -> Option<Change> {
        let Asks::Leave { tool, arguments, reversible, .. } = self.asks else { return None };
        let other = |prompted: Option<u64>, called: u64| prompted.is_some_and(|prompted| prompted != called);
        match &self.modified {
            Some(modified) => {
                if other(modified.tool.or(tool), wanted.tool) || (reversible && wanted.irreversible) {
                    return Some(Change::Unmodified);
                }
                let shown = match (modified.arguments, arguments) {
                    (Some(agreed), _) => wanted.arguments == Some(agreed),
                    // Another tool is the change; nothing is said of its arguments.
                    _ if modified
                        .tool
                        .is_some_and(|agreed| tool.is_some_and(|prompted| prompted != agreed)) =>
                    {
                        true
                    }
                    // The change is in words of the subscriber: at least it must not be what was asked for.
                    (None, Some(prompted)) => wanted.arguments.is_some_and(|called| called != prompted),
                    (None, None) => !wanted.needs(),
                };
                (!shown).then_some(Change::Unmodified)
            }
            None if !wanted.needs() && !self.is_grave() => None,
            None if other(tool, wanted.tool) || (reversible && wanted.irreversible) => Some(Change::Action),
            None => {
                let changed = |prompted: u64| match wanted.arguments {
                    Some(called) => called != prompted,
                    None => wanted.needs(),
                };
                arguments.is_some_and(changed).then_some(Change::Arguments)
            }
        }
    }

    /// Whether it says that what it asks for may not be done without its acceptance.
    fn is_grave(&self) -> bool {
        matches!(self.asks, Asks::Leave { irreversible, high, .. } if irreversible || high)
    }

    /// Whether it asks for this tool with these arguments, as far as both are shown.
    fn shows(&self, wanted: Wanted) -> bool {
        matches!(self.asks, Asks::Leave { tool: Some(tool), arguments: Some(arguments), .. }
            if tool == wanted.tool && wanted.arguments == Some(arguments))
    }

    /// Why its acceptance is presumed: no reply is recorded, and no default explains the call.
    fn presumption(&self, wanted: Wanted) -> Option<Presumption> {
        let Asks::Leave { reject, irreversible, .. } = self.asks else { return None };
        // The default may come before its time when everybody who could reply has left.
        let lasting = wanted.irreversible || irreversible;
        let by_default = self.default_accepts() && (!lasting || self.is_over(self.settled, 0));
        let until = match (self.deadline, self.settled) {
            (Some(deadline), Some(settled)) => Some(deadline.min(settled)),
            (deadline, settled) => deadline.or(settled),
        };
        let presumption = Presumption { token: self.token, until, reject, announced: self.went_to_call };
        (!by_default).then_some(presumption)
    }

    /// Whether a reply could have accepted it.
    fn takes_accept(&self) -> bool {
        !matches!(self.asks, Asks::Leave { accept: false, .. })
    }

    fn default_accepts(&self) -> bool {
        matches!(self.asks, Asks::Leave { default_accepts: true, .. })
    }
}

/// Whether a call may be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallVerdict {
    Fine,
    Unprompted,
    Open,
    /// The replies that are recorded do not count.
    Unaccepted,
    /// That it was accepted is presumed.
    Presumed(Presumption),
    /// What was accepted was something else.
    Changed(Change),
    /// Nobody who was recorded could be asked, so that it cannot be told.
    Unseen,
    Rejected,
    TimedOut,
}

/// What of a call is not as its prompt says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// Another tool, or something that can be undone.
    Action,
    /// The arguments are others, or are not shown.
    Arguments,
    /// The reply changed the action, and the call does not show the changed one.
    Unmodified,
}

/// What a call is, as far as its prompt must agree.
#[derive(Clone, Copy)]
pub(super) struct Wanted {
    pub(super) call: Option<u64>,
    pub(super) tool: u64,
    /// Sum of `args_summary`.
    pub(super) arguments: Option<u64>,
    pub(super) irreversible: bool,
    /// Whether it says that it has high risk.
    pub(super) high: bool,
}

impl Wanted {
    /// Whether it may not be made without an accepted prompt.
    fn needs(self) -> bool {
        self.irreversible || self.high
    }

    /// A call that leaves out its flags is no less grave than its prompt says.
    fn raise(&mut self, prompt: &Prompt) {
        if let Asks::Leave { irreversible, high, .. } = prompt.asks {
            self.irreversible |= irreversible;
            self.high |= high;
        }
    }
}

/// Looks for the prompt of a call (G-35): one that names it, else the newest of the same producer that names nothing.
/// One acceptance allows one call that needs it. Afterwards the call is as grave as its prompt says.
pub(super) fn check_call(prompts: &mut [Prompt], stand: Stand, wanted: &mut Wanted) -> CallVerdict {
    let Stand { speaker, unseen, .. } = stand;
    let (Wanted { call, tool, .. }, needs) = (*wanted, wanted.needs());
    // A session that shows prompts kept none from who recorded it.
    let unprompted = if unseen && prompts.is_empty() { CallVerdict::Unseen } else { CallVerdict::Unprompted };
    if prompts.is_empty() {
        return if needs { unprompted } else { CallVerdict::Fine };
    }
    let own = |prompt: &&mut Prompt| prompt.speaker == speaker;
    let names = |prompt: &Prompt| match prompt.asks {
        Asks::Leave { call: Some(named), .. } => call == Some(named),
        Asks::Leave { tool: Some(named), .. } => {
            tool == named || prompt.modified.as_ref().is_some_and(|modified| modified.tool == Some(tool))
        }
        _ => false,
    };
    let unlinked = |prompt: &Prompt| matches!(prompt.asks, Asks::Leave { call: None, tool: None, .. });
    let linked = prompts
        .iter_mut()
        .rev()
        .filter(own)
        .find(|prompt| names(prompt) && prompt.standing != Standing::Used);
    if let Some(prompt) = linked {
        prompt.followed = true;
        let verdict = judge(prompt, stand, *wanted);
        wanted.raise(prompt);
        if matches!(verdict, CallVerdict::Fine | CallVerdict::Presumed(_) | CallVerdict::Changed(_)) {
            prompt.standing = Standing::Used;
        }
        return verdict;
    }
    if !needs {
        // The same once more, under another id and without its flags.
        let shows = |prompt: &&mut Prompt| prompt.is_grave() && prompt.shows(*wanted);
        if let Some(prompt) = prompts.iter_mut().rev().filter(own).find(shows) {
            prompt.followed = true;
            let verdict = judge(prompt, stand, *wanted);
            wanted.raise(prompt);
            return verdict;
        }
        let newest = prompts.iter_mut().rev().filter(own).find(|prompt| unlinked(prompt));
        return match newest {
            // Nothing at all happened since the rejection: this is what was rejected (A.8.5).
            Some(prompt) if prompt.standing == Standing::Rejected && !prompt.followed => {
                prompt.followed = true;
                CallVerdict::Rejected
            }
            Some(prompt) => {
                prompt.followed |= prompt.standing == Standing::Accepted;
                CallVerdict::Fine
            }
            None => CallVerdict::Fine,
        };
    }
    let mut worst = unprompted;
    for prompt in prompts.iter_mut().rev().filter(own) {
        if !unlinked(prompt) || prompt.standing == Standing::Used {
            continue;
        }
        match judge(prompt, stand, *wanted) {
            verdict @ (CallVerdict::Fine | CallVerdict::Presumed(_)) => {
                prompt.standing = Standing::Used;
                prompt.followed = true;
                return verdict;
            }
            verdict if worst == unprompted => {
                // What was done in its place is told of this call, and not once more at the end.
                prompt.followed |= matches!(verdict, CallVerdict::Changed(_));
                worst = verdict;
            }
            _ => {}
        }
    }
    worst
}

fn judge(prompt: &Prompt, stand: Stand, wanted: Wanted) -> CallVerdict {
    match prompt.standing {
        Standing::Accepted | Standing::Modified | Standing::Presumed | Standing::Answered => {
            let presumed = prompt.standing == Standing::Presumed;
            match (prompt.change(wanted), prompt.presumption(wanted).filter(|_| presumed)) {
                (Some(change), _) => CallVerdict::Changed(change),
                (None, Some(_)) if !prompt.takes_accept() => CallVerdict::Unaccepted,
                (None, Some(presumption)) => CallVerdict::Presumed(presumption),
                (None, None) => CallVerdict::Fine,
            }
        }
        Standing::Unaccepted => CallVerdict::Unaccepted,
        Standing::Used => CallVerdict::Unprompted,
        Standing::Rejected => CallVerdict::Rejected,
        Standing::TimedOut => CallVerdict::TimedOut,
        Standing::Open if prompt.is_over(stand.moment, 0) => {
            if prompt.default_accepts() {
                prompt.change(wanted).map_or(CallVerdict::Fine, CallVerdict::Changed)
            } else {
                CallVerdict::TimedOut
            }
        }
        Standing::Open => CallVerdict::Open,
    }
}

/// Takes a new prompt; answers whether there was room to follow it.
pub(super) fn opened(
    prompts: &mut Vec<Prompt>,
    speaker: &Speaker,
    stand: Stand,
    kind: Kind,
    event: &Reading<'_>,
    findings: &mut Findings,
) -> bool {
    let Stand { speaker: number, moment, seed, heard, .. } = stand;
    let text = event.doc().text();
    let asks = if kind == Kind::AwaitingConfirmation { leave(event, seed) } else { words(event, seed) };
    if !speaker.is_in("awaiting_input") {
        let message = || format!("the state is `{}`", or_idle(&speaker.state));
        findings.add(&rule::PROMPT_STATE, text, Some(event.node()), String::new, message);
    }
    if let Asks::Leave { call, action, .. } = &asks {
        let again = prompts.iter().any(|prompt| {
            let same = matches!(&prompt.asks, Asks::Leave { call: other, action: same, .. }
                if (call.is_some() && call == other) || (call.is_none() && action == same));
            prompt.standing == Standing::Open
                && prompt.speaker == number
                && same
                && !prompt.is_over(moment, 0)
        });
        if again {
            let message = || "this action already has an open prompt".to_owned();
            findings.add(&rule::PROMPT_REPEATED, text, event.get(Field::Action), || "action".into(), message);
        }
    }
    let token = event.text(Field::ReplyToken).map_or(0, |token| sum(seed, token.as_bytes()));
    let seconds = event.int(Field::TimeoutSeconds).filter(|seconds| (1..=86_400).contains(seconds));
    let deadline = moment.zip(seconds).map(|(moment, seconds)| moment + seconds * 1_000_000);
    let settled = |prompt: &Prompt| prompt.standing != Standing::Open;
    let room = make_room(prompts, settled);
    if room {
        let standing = Standing::Open;
        prompts.push(Prompt {
            token,
            heard,
            speaker: number,
            asks,
            deadline,
            standing,
            settled: None,
            followed: false,
            refused_before: stand.refused,
            went_to_call: false,
            countdown: Countdown::new(moment, seconds),
            modified: None,
        });
    }
    room
}

fn leave(event: &Reading<'_>, seed: u64) -> Asks {
    let context = event.get(Field::ExtraContext);
    let named = |name: &str| Some(sum(seed, context?.get(name)?.str()?.as_bytes()));
    let allowed = event.get(Field::AllowedReplies);
    let allows = |decision: &str| allowed.is_none_or(|allowed| allowed.items().any(|item| item.is(decision)));
    let (irreversible, high) = gravity(event);
    Asks::Leave {
        call: named("tool_call_id"),
        tool: named("tool"),
        arguments: named("args_summary"),
        action: event.text(Field::Action).map_or(0, |action| sum(seed, action.as_bytes())),
        reversible: event.bool(Field::Irreversible) == Some(false)
            || event.is(Field::Reversibility, "reversible"),
        irreversible,
        high,
        default_accepts: event.is(Field::DefaultDecision, "accept"),
        accept: allows("accept"),
        reject: allows("reject"),
    }
}

/// Whether an event says that its action cannot be undone, and that it has high risk.
pub(super) fn gravity(event: &Reading<'_>) -> (bool, bool) {
    let stakes = rule::stakes(event);
    (stakes.irreversible, event.is(Field::RiskLevel, "high") && stakes.risk == rule::Risk::High)
}

fn words(event: &Reading<'_>, seed: u64) -> Asks {
    let kinds = event.get(Field::AcceptedResponseKinds);
    let choices = event.get(Field::Choices);
    // Without kinds: a choice where there are choices, free text otherwise.
    let takes =
        |kind: &str, default: bool| kinds.map_or(default, |kinds| kinds.items().any(|item| item.is(kind)));
    let values = || {
        let choices = choices.into_iter().flat_map(|choices| choices.items());
        choices.filter_map(|choice| Some(sum(seed, choice.get("value")?.str()?.as_bytes()))).collect()
    };
    Asks::Words {
        freetext: takes("freetext", choices.is_none()),
        yes_no: takes("yes_no", false),
        numeric: takes("numeric", false),
        choices: takes("multiple_choice", choices.is_some()).then(values),
    }
}

/// Something of a producer happened: whether the time of its prompts was told until now, or until they were settled.
pub(super) fn count_down(
    prompts: &mut [Prompt],
    stand: Stand,
    kind: Kind,
    event: &Reading<'_>,
    findings: &mut Findings,
) {
    for prompt in prompts.iter_mut().filter(|prompt| prompt.speaker == stand.speaker) {
        let Some(moment) = prompt.settled.or(stand.moment) else { continue };
        if kind == Kind::ProgressUpdated && prompt.settled.is_none() {
            prompt.countdown.reported = prompt.countdown.reported.saturating_add(1);
        }
        // Behind its time nothing is left to be told.
        let until = prompt.deadline.map_or(moment, |deadline| moment.min(deadline));
        if prompt.countdown.is_behind(until) {
            let message = || "no countdown was sent while a prompt was open".to_owned();
            let text = event.doc().text();
            findings.add(&rule::PROMPT_COUNTDOWN, text, Some(event.node()), String::new, message);
        }
        if prompt.settled.is_some() {
            prompt.countdown.due = None;
        }
    }
}

/// Whether a call that was made before is what an open prompt asks for.
pub(super) fn is_asked_for(prompts: &[Prompt], stand: Stand, made: u64, id: Option<u64>, tool: u64) -> bool {
    prompts.iter().any(|prompt| {
        let names = match prompt.asks {
            Asks::Leave { call: Some(named), .. } => id == Some(named),
            Asks::Leave { tool: Some(named), .. } => tool == named,
            _ => false,
        };
        names
            && prompt.speaker == stand.speaker
            && prompt.heard > made
            && prompt.standing == Standing::Open
            && !prompt.is_over(stand.moment, 0)
    })
}

/// The producer leaves `awaiting_input`: its prompts without a recorded reply are settled. That a person who is not
/// recorded accepted is presumed, unless the time was up or what is recorded speaks against it.
pub(super) fn left(prompts: &mut [Prompt], stand: Stand, to_call: bool) {
    let Stand { speaker: number, moment, refused, .. } = stand;
    for prompt in
        prompts.iter_mut().filter(|prompt| prompt.speaker == number && prompt.standing == Standing::Open)
    {
        let over = prompt.is_over(moment, 0);
        prompt.standing = match prompt.asks {
            Asks::Leave { .. } if over && !prompt.default_accepts() => Standing::TimedOut,
            Asks::Leave { .. } if !over && refused > prompt.refused_before => Standing::Unaccepted,
            _ => Standing::Presumed,
        };
        prompt.went_to_call = to_call;
        prompt.followed = true;
        prompt.settled = moment;
    }
}

/// Something of this producer happened: rejections and timeouts have been followed.
pub(super) fn follow(prompts: &mut [Prompt], stand: Stand) {
    for prompt in prompts.iter_mut().filter(|prompt| prompt.speaker == stand.speaker) {
        let over = prompt.standing == Standing::Open && prompt.is_over(stand.moment, 0);
        prompt.followed |= over || prompt.standing == Standing::Rejected;
    }
}

/// At the end of a session.
pub(super) fn ended(
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
        match prompt.standing {
            Standing::Open if !prompt.is_over(moment, 0) => {
                add(&rule::PROMPT_OPEN, "a prompt has no answer and its timeout has not passed");
            }
            Standing::Open if !prompt.followed && matches!(prompt.asks, Asks::Leave { .. }) => {
                if prompt.default_accepts() {
                    add(&rule::PROMPT_NOT_DONE, "the default of a prompt is `accept` but no tool was called");
                } else {
                    add(&rule::PROMPT_NO_FOLLOW_UP, "no event reports that a prompt timed out");
                }
            }
            Standing::Rejected if !prompt.followed => {
                add(&rule::PROMPT_NO_FOLLOW_UP, "no event reports that the action was rejected");
            }
            Standing::Accepted if !prompt.followed => {
                add(&rule::PROMPT_NOT_DONE, "an action was accepted but no tool was called");
            }
            _ => {}
        }
    }
    if !prompts.is_empty() && speakers.iter().any(|speaker| speaker.is_in("awaiting_input")) {
        add(&rule::PROMPT_STATE_STAYS, "the state is still `awaiting_input`");
    }
}

/// Whether a response is of a kind that the question takes.
pub(super) fn takes(asks: &Asks, response: crate::json::Node<'_>, seed: u64) -> Result<(), String> {
    let Asks::Words { freetext, yes_no, numeric, choices } = asks else {
        return Err("a clarification reply was sent to a confirmation prompt".into());
    };
    let fits = match response.str() {
        Some(text) => {
            let chosen =
                || choices.as_ref().is_some_and(|values| values.contains(&sum(seed, text.as_bytes())));
            *freetext || chosen()
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
