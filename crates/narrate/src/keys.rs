//! Executes key presses: [`Narrator::press`]. Pure. Must not depend on terminals.

use recount_aaep::Message;
use recount_aaep::wire::{
    Capabilities, ClarificationReply, ConfirmationReply, Response, SubscriptionRenegotiate, Timestamp,
};

use super::dialog::{self, Dialog, NarratorKey, PromptAnswer, YesOrNo};
use super::narrator::{Narrator, NarratorEffect};
use super::open_prompt::{OpenPrompt, PromptKind};
use super::outgoing::Outgoing;
use super::phrases::PhraseKey;
use super::utterance::SpeechPriority;
use super::wording;
use crate::limits;

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
            (_, Some(_)) => narrator.reply(PhraseKey::NotApproved),
            (_, None) => narrator.reply(PhraseKey::PromptClosed),
        },
        Dialog::Cancelling(session) => match (key, narrator.sessions.get(session)) {
            (NarratorKey::Enter, Some(known)) if known.end.is_none() => {
                let session = known.id.clone();
                match narrator.subscription.clone() {
                    Some(subscription) => {
                        narrator.reply(PhraseKey::CancelRequested);
                        let cancel = Outgoing::Cancel { subscription, session };
                        narrator.effects.push(NarratorEffect::Send(cancel));
                    }
                    None => narrator.reply(PhraseKey::NotConnectedNotSent),
                }
            }
            (NarratorKey::Enter, _) => narrator.reply(PhraseKey::EndedAlready),
            _ => narrator.reply(PhraseKey::NotCancelled),
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
            None => narrator.reply(PhraseKey::NoPrompt),
        },
        NarratorKey::Char(yes @ ('y' | 'n')) => yes_or_no(narrator, yes == 'y', now_ms),
        NarratorKey::Char('a') => begin_typing(narrator, now_ms),
        NarratorKey::Enter if !digits.is_empty() => choose(narrator, &digits, now_ms),
        NarratorKey::Char('e') => extend(narrator),
        NarratorKey::Char('c') => confirm_cancel(narrator),
        NarratorKey::Char('?' | 'h') => narrator.reply(PhraseKey::Help),
        NarratorKey::Char('q') => narrator.effects.push(NarratorEffect::Quit),
        NarratorKey::Escape | NarratorKey::Enter | NarratorKey::Backspace => {}
        NarratorKey::Char(_) => narrator.reply(PhraseKey::NotAKey),
    }
}

/// Adds a digit to the next command. If the prompt has choices, the choice is read back.
fn press_digit(narrator: &mut Narrator, digit: char) {
    if narrator.digits.len() >= limits::KEY_DIGITS_MAX {
        narrator.digits.clear();
    }
    narrator.digits.push(digit);
    if let Some((_, choice)) = chosen(narrator, &narrator.digits) {
        let puts = [("number", (&narrator.digits).into()), ("answer", (&choice.1).into())];
        let text = narrator.phrases.render(PhraseKey::Choice, &puts);
        narrator.speak_reply(&text);
    }
}

/// The choice with a number, of the current prompt: its value and its label.
fn chosen(narrator: &Narrator, digits: &str) -> Option<(OpenPrompt, (String, String))> {
    let prompt = narrator.prompts.current()?;
    let PromptKind::Clarification { choices, .. } = &prompt.kind else { return None };
    let at = digits.parse::<usize>().ok()?.checked_sub(1)?;
    let choice = choices.get(at)?;
    Some((prompt.clone(), (choice.value.clone(), wording::line(&choice.label))))
}

fn choose(narrator: &mut Narrator, digits: &str, now_ms: u64) {
    match chosen(narrator, digits) {
        Some((prompt, (value, _))) => {
            answer(narrator, &prompt, &PromptAnswer::Response(Response::Text(value)), now_ms);
        }
        None => {
            narrator.speak_reply(&narrator.phrases.render(PhraseKey::NoChoice, &[("number", digits.into())]))
        }
    }
}

fn yes_or_no(narrator: &mut Narrator, yes: bool, now_ms: u64) {
    let Some(prompt) = narrator.prompts.current().cloned() else {
        return narrator.reply(PhraseKey::NoPrompt);
    };
    if narrator.prompts.has_just_changed(now_ms) {
        return narrator.reply(PhraseKey::PromptChanged);
    }
    match dialog::yes_or_no(&prompt, yes) {
        YesOrNo::Answer(given) => answer(narrator, &prompt, &given, now_ms),
        YesOrNo::ConfirmFirst => {
            narrator.dialog = Dialog::Confirming(prompt.token);
            narrator.reply(PhraseKey::ConfirmFirst);
        }
        YesOrNo::NotTaken => narrator.speak_reply(&prompt.kind.keys(narrator.phrases)),
    }
}

fn begin_typing(narrator: &mut Narrator, now_ms: u64) {
    let Some(prompt) = narrator.prompts.current().cloned() else {
        return narrator.reply(PhraseKey::NoPrompt);
    };
    if narrator.prompts.has_just_changed(now_ms) {
        return narrator.reply(PhraseKey::PromptChanged);
    }
    match &prompt.kind {
        PromptKind::Clarification { freetext, numeric, choices, .. }
            if *freetext || *numeric || !choices.is_empty() =>
        {
            narrator.dialog = Dialog::Typing { token: prompt.token, text: String::new() };
            narrator.reply(PhraseKey::TypeAnswer);
        }
        kind => narrator.speak_reply(&kind.keys(narrator.phrases)),
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
        return narrator.reply(PhraseKey::PromptClosed);
    };
    match key {
        NarratorKey::Enter => {
            narrator.effects.push(NarratorEffect::Echo("\n".to_owned()));
            match dialog::typed(&prompt, &text, narrator.phrases) {
                Ok(given) => answer(narrator, &prompt, &given, now_ms),
                Err(why) => narrator.speak_reply(&why),
            }
            return;
        }
        NarratorKey::Escape => {
            narrator.effects.push(NarratorEffect::Echo("\n".to_owned()));
            return narrator.reply(PhraseKey::NotAnswered);
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

/// Sends an answer. Later events show the outcome: the protocol has no acknowledgement.
fn answer(narrator: &mut Narrator, prompt: &OpenPrompt, given: &PromptAnswer, now_ms: u64) {
    let Some(subscription) = narrator.subscription.clone() else {
        return narrator.reply(PhraseKey::NotConnectedNotSent);
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
    narrator.speak_reply(&given.spoken(prompt, narrator.phrases));
    narrator.prompts.answered(&prompt.token, now_ms);
    narrator.effects.push(NarratorEffect::Send(message.into()));
    if let Some(next) = narrator.prompts.advance(now_ms).cloned() {
        narrator.read(&next, now_ms);
    }
}

/// The last utterances of sessions, oldest first.
fn repeat(narrator: &mut Narrator, count: usize) {
    let count = count.clamp(1, limits::NARRATED_HISTORY_MAX).min(narrator.history.len());
    if count == 0 {
        return narrator.reply(PhraseKey::NothingSpoken);
    }
    let last: Vec<_> = narrator.history.iter().skip(narrator.history.len() - count).cloned().collect();
    narrator.effects.push(NarratorEffect::Cut);
    for utterance in last {
        narrator.push_speech(&super::utterance::Utterance { priority: SpeechPriority::Message, ..utterance });
    }
}

fn where_am_i(narrator: &mut Narrator, now_ms: u64, skipped: u64) {
    narrator.effects.push(NarratorEffect::Cut);
    let phrases = narrator.phrases;
    let active = narrator.sessions.active().count();
    let lead = match (active, narrator.sessions.last()) {
        (0, None) => Some(phrases.plain(PhraseKey::NothingHappened)),
        (0, Some(_)) if narrator.names_sessions => Some(phrases.plain(PhraseKey::NoRunActive)),
        (0, Some(_)) => Some(phrases.plain(PhraseKey::RunEnded)),
        (1, _) if !narrator.names_sessions => None,
        (count, _) => Some(phrases.render(PhraseKey::RunsActive, &[("count", (count as u64).into())])),
    };
    if let Some(lead) = lead {
        narrator.speak_phrase(SpeechPriority::Message, &lead);
    }
    let newest: Vec<(u32, String, String)> = narrator
        .sessions
        .active()
        .rev()
        .take(limits::WHERE_SESSIONS_MAX)
        .map(|session| (session.number, session.doing.clone(), session.language.clone()))
        .collect();
    for (number, doing, language) in newest.into_iter().rev() {
        let (doing, language) = match doing.is_empty() {
            true => (phrases.plain(PhraseKey::NotStarted), phrases.tag().to_owned()),
            false => (doing, language),
        };
        let text = if narrator.names_sessions { narrator.with_run_number(number, &doing) } else { doing };
        let utterance = super::utterance::Utterance {
            priority: SpeechPriority::Message,
            subject: super::utterance::SpeechSubject::Run,
            text,
            language,
            session: number,
        };
        narrator.push_speech(&utterance);
    }
    let prompts: Vec<String> =
        narrator.prompts.open().map(|prompt| prompt.time_left(now_ms, phrases)).collect();
    let open = match prompts.as_slice() {
        [] => phrases.plain(PhraseKey::NoPrompt),
        [left] => phrases.render(PhraseKey::PromptOpen, &[("left", left.into())]),
        [first, ..] => {
            let puts = [("count", (prompts.len() as u64).into()), ("left", first.into())];
            phrases.render(PhraseKey::PromptsOpen, &puts)
        }
    };
    narrator.speak_phrase(SpeechPriority::Message, &open);
    if skipped > 0 {
        let text = phrases.render(PhraseKey::CutShort, &[("count", skipped.into())]);
        narrator.speak_phrase(SpeechPriority::Message, &text);
    }
    if narrator.subscription.is_none() {
        narrator.speak_phrase(SpeechPriority::Message, &phrases.plain(PhraseKey::NotConnected));
    }
}

fn change_level(narrator: &mut Narrator, up: bool) {
    let (key, level) = match narrator.level.step(up) {
        Some(level) => (PhraseKey::LevelNow, Some(level)),
        None if up => (PhraseKey::LevelHighest, None),
        None => (PhraseKey::LevelLowest, None),
    };
    let word = narrator.phrases.plain(level.unwrap_or(narrator.level).word());
    let text = narrator.phrases.render(key, &[("level", (&word).into())]);
    narrator.speak_reply(&text);
    let Some(level) = level else { return };
    narrator.level = level;
    if let Some(subscription) = narrator.subscription.clone() {
        let capabilities = Capabilities {
            preferred_verbosity: Some(level.verbosity()),
            cognitive_load: Some(level.load()),
            ..Capabilities::default()
        };
        let renegotiate: Message = SubscriptionRenegotiate::new(subscription, capabilities).into();
        narrator.effects.push(NarratorEffect::Send(renegotiate.into()));
    }
}

/// Requests more time for the current prompt.
fn extend(narrator: &mut Narrator) {
    let Some(token) = narrator.prompts.current().map(|prompt| prompt.token.clone()) else {
        return narrator.reply(PhraseKey::NoPrompt);
    };
    let Some(subscription) = narrator.subscription.clone() else {
        return narrator.reply(PhraseKey::NotConnectedNotSent);
    };
    let time = wording::seconds(limits::EXTENSION_SECONDS, narrator.phrases);
    let text = narrator.phrases.render(PhraseKey::TimeRequested, &[("time", (&time).into())]);
    narrator.speak_reply(&text);
    narrator.effects.push(NarratorEffect::Send(Outgoing::Extend { subscription, token }));
}

/// Cancels the session of the current prompt, or of the last utterance, after confirmation.
fn confirm_cancel(narrator: &mut Narrator) {
    let of_prompt = narrator.prompts.current().map(|prompt| prompt.session);
    let session = of_prompt.unwrap_or(narrator.last_session);
    match narrator.sessions.get(session) {
        Some(known) if known.end.is_none() => {
            let run = u64::from(session).into();
            let text = match narrator.names_sessions {
                true => narrator.phrases.render(PhraseKey::CancelRunOf, &[("run", run)]),
                false => narrator.phrases.plain(PhraseKey::CancelRun),
            };
            narrator.dialog = Dialog::Cancelling(session);
            narrator.speak_reply(&text);
        }
        _ => narrator.reply(PhraseKey::NothingToCancel),
    }
}
