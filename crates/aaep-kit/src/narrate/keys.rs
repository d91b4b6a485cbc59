//! What each key does: [`Narrator::press`]. Pure.

use recount_aaep::Message;
use recount_aaep::wire::{
    Capabilities, ClarificationReply, ConfirmationReply, Response, SubscriptionRenegotiate, Timestamp,
};

use super::dialog::{self, Dialog, HELP, NarratorKey, PromptAnswer, YesOrNo};
use super::narrator::{Narrator, NarratorEffect};
use super::open_prompt::{AskedPrompt, PromptKind};
use super::outgoing::Outgoing;
use super::utterance::SpeechPriority;
use super::wording;
use crate::limits;

const NOT_CONNECTED: &str = "Not connected. Nothing was sent. Press the key again when it is connected.";

impl Narrator {
    /// A key was pressed. `skipped` is how many utterances were cut short so far.
    pub fn press(&mut self, key: NarratorKey, now_ms: u64, skipped: u64) -> Vec<NarratorEffect> {
        press(self, key, now_ms, skipped);
        std::mem::take(&mut self.effects)
    }
}

fn press(narrator: &mut Narrator, key: NarratorKey, now_ms: u64, skipped: u64) {
    match std::mem::take(&mut narrator.dialog) {
        Dialog::Commands => command(narrator, key, now_ms, skipped),
        Dialog::Confirming(token) => match (key, narrator.open_prompt(&token)) {
            (NarratorKey::Enter, Some(prompt)) => {
                let accept = PromptAnswer::Decision(recount_aaep::wire::Decision::Accept);
                answer(narrator, &prompt, &accept, now_ms);
            }
            (_, Some(_)) => narrator.say_reply("Not approved. The prompt is still open."),
            (_, None) => narrator.say_reply("The prompt is closed. Nothing was sent."),
        },
        Dialog::Cancelling(session) => match (key, narrator.sessions.get(session)) {
            (NarratorKey::Enter, Some(known)) if known.end.is_none() => {
                let session = known.id.clone();
                match narrator.subscription.clone() {
                    Some(subscription) => {
                        narrator.say_reply("Asked to cancel.");
                        let cancel = Outgoing::Cancel { subscription, session };
                        narrator.effects.push(NarratorEffect::Send(cancel));
                    }
                    None => narrator.say_reply(NOT_CONNECTED),
                }
            }
            (NarratorKey::Enter, _) => narrator.say_reply("The run has ended already."),
            _ => narrator.say_reply("Not cancelled."),
        },
        Dialog::Typing { token, text } => typing(narrator, key, token, text, now_ms),
    }
}

fn command(narrator: &mut Narrator, key: NarratorKey, now_ms: u64, skipped: u64) {
    if let NarratorKey::Char(digit @ '0'..='9') = key {
        return press_digit(narrator, digit);
    }
    let digits = std::mem::take(&mut narrator.digits);
    match key {
        NarratorKey::Char(' ' | 's') => narrator.effects.push(NarratorEffect::Silence),
        NarratorKey::Char('r') => repeat(narrator, digits.parse().unwrap_or(1)),
        NarratorKey::Char('w') => where_am_i(narrator, now_ms, skipped),
        NarratorKey::Char('+' | '=') => change_level(narrator, true),
        NarratorKey::Char('-' | '_') => change_level(narrator, false),
        NarratorKey::Char('p') => match narrator.prompts.turn().cloned() {
            Some(prompt) => {
                narrator.effects.push(NarratorEffect::Cut);
                narrator.read(&prompt, now_ms);
            }
            None => narrator.say_reply("No prompt is open."),
        },
        NarratorKey::Char(yes @ ('y' | 'n')) => yes_or_no(narrator, yes == 'y', now_ms),
        NarratorKey::Char('a') => begin_typing(narrator, now_ms),
        NarratorKey::Enter if !digits.is_empty() => choose(narrator, &digits, now_ms),
        NarratorKey::Char('e') => extend(narrator),
        NarratorKey::Char('c') => ask_to_cancel(narrator),
        NarratorKey::Char('?' | 'h') => narrator.say_reply(HELP),
        NarratorKey::Char('q') => narrator.effects.push(NarratorEffect::Quit),
        NarratorKey::Escape | NarratorKey::Enter | NarratorKey::Backspace => {}
        NarratorKey::Char(_) => narrator.say_reply("Not a key here. Press question mark for help."),
    }
}

/// A digit belongs to the command that follows. Where a prompt has choices, the choice is read back.
fn press_digit(narrator: &mut Narrator, digit: char) {
    if narrator.digits.len() >= limits::KEY_DIGITS_MAX {
        narrator.digits.clear();
    }
    narrator.digits.push(digit);
    if let Some((_, choice)) = chosen(narrator, &narrator.digits) {
        let text = format!("{}: {}. Press Enter to answer.", narrator.digits, choice.1);
        narrator.say_reply(&text);
    }
}

/// The choice with a number, of the current prompt: its value and its label.
fn chosen(narrator: &Narrator, digits: &str) -> Option<(AskedPrompt, (String, String))> {
    let prompt = narrator.prompts.current()?;
    let PromptKind::Clarification { choices, .. } = &prompt.asks else { return None };
    let at = digits.parse::<usize>().ok()?.checked_sub(1)?;
    let choice = choices.get(at)?;
    Some((prompt.clone(), (choice.value.clone(), wording::line(&choice.label))))
}

fn choose(narrator: &mut Narrator, digits: &str, now_ms: u64) {
    match chosen(narrator, digits) {
        Some((prompt, (value, _))) => {
            answer(narrator, &prompt, &PromptAnswer::Response(Response::Text(value)), now_ms);
        }
        None => narrator.say_reply(&format!("No open prompt has a choice {digits}.")),
    }
}

fn yes_or_no(narrator: &mut Narrator, yes: bool, now_ms: u64) {
    let Some(prompt) = narrator.prompts.current().cloned() else {
        return narrator.say_reply("No prompt is open.");
    };
    if narrator.prompts.has_just_changed(now_ms) {
        return narrator.say_reply("The prompt has just changed. Listen, and press the key again.");
    }
    match dialog::yes_or_no(&prompt, yes) {
        YesOrNo::Answer(given) => answer(narrator, &prompt, &given, now_ms),
        YesOrNo::ConfirmFirst => {
            narrator.dialog = Dialog::Confirming(prompt.token);
            narrator.say_reply(
                "High risk or not to be undone. Press Enter to approve, any other key to go back.",
            );
        }
        YesOrNo::NotTaken => narrator.say_reply(&prompt.asks.keys()),
    }
}

fn begin_typing(narrator: &mut Narrator, now_ms: u64) {
    let Some(prompt) = narrator.prompts.current().cloned() else {
        return narrator.say_reply("No prompt is open.");
    };
    if narrator.prompts.has_just_changed(now_ms) {
        return narrator.say_reply("The prompt has just changed. Listen, and press the key again.");
    }
    match &prompt.asks {
        PromptKind::Clarification { freetext, numeric, choices, .. }
            if *freetext || *numeric || !choices.is_empty() =>
        {
            narrator.dialog = Dialog::Typing { token: prompt.token, text: String::new() };
            narrator.say_reply("Type the answer, then Enter. Escape goes back.");
        }
        asks => narrator.say_reply(&asks.keys()),
    }
}

fn typing(
    narrator: &mut Narrator,
    key: NarratorKey,
    token: recount_aaep::wire::ReplyToken,
    mut text: String,
    now_ms: u64,
) {
    let Some(prompt) = narrator.open_prompt(&token) else {
        return narrator.say_reply("The prompt is closed. Nothing was sent.");
    };
    match key {
        NarratorKey::Enter => {
            narrator.effects.push(NarratorEffect::Echo("\n".to_owned()));
            match dialog::typed(&prompt, &text) {
                Ok(given) => answer(narrator, &prompt, &given, now_ms),
                Err(why) => narrator.say_reply(&why),
            }
            return;
        }
        NarratorKey::Escape => {
            narrator.effects.push(NarratorEffect::Echo("\n".to_owned()));
            return narrator.say_reply("Not answered. The prompt is still open.");
        }
        NarratorKey::Backspace => {
            if text.pop().is_some() {
                narrator.effects.push(NarratorEffect::Echo("\u{8} \u{8}".to_owned()));
            }
        }
        NarratorKey::Char(character) => {
            if dialog::type_character(&mut text, character) {
                narrator.effects.push(NarratorEffect::Echo(character.to_string()));
            }
        }
    }
    narrator.dialog = Dialog::Typing { token, text };
}

/// Sends an answer. What became of it shows in later events: the protocol acknowledges nothing.
fn answer(narrator: &mut Narrator, prompt: &AskedPrompt, given: &PromptAnswer, now_ms: u64) {
    let Some(subscription) = narrator.subscription.clone() else {
        return narrator.say_reply(NOT_CONNECTED);
    };
    let token = prompt.token.clone();
    let timestamp = Timestamp::of_millis(i64::try_from(now_ms).unwrap_or(i64::MAX));
    let message: Message = match given {
        PromptAnswer::Decision(decision) => {
            ConfirmationReply::new(token, decision.clone(), subscription, timestamp).into()
        }
        PromptAnswer::Response(response) => {
            ClarificationReply::new(token, response.clone(), subscription, timestamp).into()
        }
    };
    narrator.say_reply(&given.spoken(prompt));
    narrator.prompts.answered(&prompt.token);
    narrator.effects.push(NarratorEffect::Send(message.into()));
    if let Some(next) = narrator.prompts.advance(now_ms).cloned() {
        narrator.read(&next, now_ms);
    }
}

/// The last utterances of sessions, oldest first.
fn repeat(narrator: &mut Narrator, count: usize) {
    let count = count.clamp(1, limits::NARRATED_HISTORY_MAX).min(narrator.history.len());
    if count == 0 {
        return narrator.say_reply("Nothing was spoken yet.");
    }
    let last: Vec<_> = narrator.history.iter().skip(narrator.history.len() - count).cloned().collect();
    narrator.effects.push(NarratorEffect::Cut);
    for utterance in last {
        let again = super::utterance::Utterance { priority: SpeechPriority::Message, ..utterance };
        narrator.effects.push(NarratorEffect::Speak(again));
    }
}

fn where_am_i(narrator: &mut Narrator, now_ms: u64, skipped: u64) {
    narrator.effects.push(NarratorEffect::Cut);
    let active = narrator.sessions.active().count();
    let lead = match (active, narrator.sessions.last()) {
        (0, None) => "Nothing has happened yet.".to_owned(),
        (0, Some(_)) if narrator.names_sessions => "No run is active.".to_owned(),
        (0, Some(_)) => "The run has ended.".to_owned(),
        (1, _) if !narrator.names_sessions => String::new(),
        (1, _) => "1 run is active.".to_owned(),
        (count, _) => format!("{count} runs are active."),
    };
    if !lead.is_empty() {
        narrator.say_own(SpeechPriority::Message, &lead);
    }
    let newest: Vec<(u32, String, String)> = narrator
        .sessions
        .active()
        .rev()
        .take(limits::WHERE_SESSIONS_MAX)
        .map(|session| (session.number, session.doing.clone(), session.language.clone()))
        .collect();
    for (number, doing, language) in newest.into_iter().rev() {
        let doing = if doing.is_empty() { "It has not started.".to_owned() } else { doing };
        let text = if narrator.names_sessions { format!("Run {number}: {doing}") } else { doing };
        let utterance = super::utterance::Utterance {
            priority: SpeechPriority::Message,
            text,
            language,
            session: number,
        };
        narrator.effects.push(NarratorEffect::Speak(utterance));
    }
    let prompts: Vec<String> = narrator.prompts.open().map(|prompt| prompt.time_left(now_ms)).collect();
    let open = match prompts.as_slice() {
        [] => "No prompt is open.".to_owned(),
        [left] => format!("1 prompt is open: {left} Press p to hear it."),
        [first, ..] => {
            format!("{} prompts are open; of the first, {first} Press p to hear it.", prompts.len())
        }
    };
    narrator.say_own(SpeechPriority::Message, &open);
    if skipped > 0 {
        let text = format!("{skipped} utterances were cut short so far; r repeats the last ones.");
        narrator.say_own(SpeechPriority::Message, &text);
    }
    if narrator.subscription.is_none() {
        narrator.say_own(SpeechPriority::Message, "Not connected.");
    }
}

fn change_level(narrator: &mut Narrator, up: bool) {
    let Some(level) = narrator.level.step(up) else {
        let text =
            format!("{} is the {} level.", narrator.level.word(), if up { "highest" } else { "lowest" });
        return narrator.say_reply(&text);
    };
    narrator.level = level;
    narrator.say_reply(&format!("Level {}.", level.word()));
    if let Some(subscription) = narrator.subscription.clone() {
        let capabilities = Capabilities {
            preferred_verbosity: Some(level.verbosity()),
            cognitive_load: Some(level.load()),
            ..Capabilities::default()
        };
        let wish: Message = SubscriptionRenegotiate::new(subscription, capabilities).into();
        narrator.effects.push(NarratorEffect::Send(wish.into()));
    }
}

/// PromptKind for more time to answer the current prompt.
fn extend(narrator: &mut Narrator) {
    let Some(token) = narrator.prompts.current().map(|prompt| prompt.token.clone()) else {
        return narrator.say_reply("No prompt is open.");
    };
    let Some(subscription) = narrator.subscription.clone() else { return narrator.say_reply(NOT_CONNECTED) };
    let time = wording::seconds(limits::EXTENSION_SECONDS);
    narrator.say_reply(&format!("Asked for {time} more."));
    narrator.effects.push(NarratorEffect::Send(Outgoing::Extend { subscription, token }));
}

/// Of the current prompt's session, or of the one that was spoken of last.
fn ask_to_cancel(narrator: &mut Narrator) {
    let of_prompt = narrator.prompts.current().map(|prompt| prompt.session);
    let session = of_prompt.unwrap_or(narrator.last_session);
    match narrator.sessions.get(session) {
        Some(known) if known.end.is_none() => {
            let which = if narrator.names_sessions { format!("run {session}") } else { "the run".to_owned() };
            let text = format!("Cancel {which}? Press Enter to cancel it, any other key to go back.");
            narrator.dialog = Dialog::Cancelling(session);
            narrator.say_reply(&text);
        }
        _ => narrator.say_reply("No active run to cancel."),
    }
}
