//! The spoken text of an event: its summary at a level, or a sentence from its fields if it has none. Pure.
//!
//! Output text is in `held_text`. Start with [`of_event`]; [`line`] cleans any text for speech.

use recount_aaep::markdown::MarkdownPart;
use recount_aaep::wire::{
    AwaitingClarification, AwaitingConfirmation, Progress, SessionErrored, Summaries, ToolCompleted, Urgency,
};
use recount_aaep::{Body, Event};

use super::level::SpeechLevel;
use super::phrases::{PhraseKey, Phrases};
use super::utterance::SpeechPriority;
use crate::limits;

/// The state in which a prompt is open.
pub(super) const AWAITING: &str = "awaiting_input";

/// The priority and text of an event at a level; `None` if it is not spoken.
pub(super) fn of_event(
    event: &Event,
    level: SpeechLevel,
    phrases: &Phrases,
) -> Option<(SpeechPriority, String)> {
    let priority = priority(event);
    if !is_spoken(event, priority, level) {
        return None;
    }
    text_of(event, level, phrases).map(|text| (priority, text))
}

/// The text of an event at a level, whether it is spoken or not.
pub(super) fn text_of(event: &Event, level: SpeechLevel, phrases: &Phrases) -> Option<String> {
    let text = match &event.body {
        Body::AwaitingConfirmation(prompt) => {
            with_spoken_layout(&confirmation(&event.summaries, prompt, level), phrases)
        }
        Body::AwaitingClarification(prompt) => clarification(&event.summaries, prompt, level),
        Body::SessionErrored(error) => errored(&event.summaries, error, level, phrases),
        body => match event.summaries.at(&level.verbosity()) {
            Some(summary) => summary.to_owned(),
            None => from_fields(body, phrases)?,
        },
    };
    let text = line(&text);
    (!text.is_empty()).then_some(text)
}

/// A prompt of a run that has ended, as a fact; `None` for other events.
pub(super) fn past_prompt(event: &Event, phrases: &Phrases) -> Option<String> {
    let (key, text) = match &event.body {
        Body::AwaitingConfirmation(prompt) => {
            let action = without_outer_ticks(&prompt.action);
            (PhraseKey::PastPermission, with_parts("", &[&action, &prompt.consequence]))
        }
        Body::AwaitingClarification(prompt) => (PhraseKey::PastQuestion, sentence(&prompt.question)),
        _ => return None,
    };
    let text = line(&with_spoken_layout(&text, phrases));
    Some(phrases.render(key, &[("text", (&text).into())]))
}

/// The texts of a part of an answer. The lines of code are read only at higher levels.
pub(super) fn of_part(part: &MarkdownPart, level: SpeechLevel, phrases: &Phrases) -> Vec<String> {
    let about = |key, text: &str| phrases.render(key, &[("text", line(text).as_str().into())]);
    let text = match part {
        MarkdownPart::Text(text) => line(text),
        MarkdownPart::Heading(text) => about(PhraseKey::Heading, text),
        MarkdownPart::Task { is_done: true, text } => about(PhraseKey::TaskDone, text),
        MarkdownPart::Task { is_done: false, text } => about(PhraseKey::TaskOpen, text),
        MarkdownPart::Code { language, lines } => {
            let count = ("count", (lines.len() as u64).into());
            let announced = match line(language).as_str() {
                "" => phrases.render(PhraseKey::CodePlain, &[count]),
                language => phrases.render(PhraseKey::Code, &[("language", language.into()), count]),
            };
            let mut texts = vec![announced];
            if level >= SpeechLevel::Normal {
                let is_text = |c: &char| !c.is_control() || matches!(c, '\n' | '\t');
                texts.push(lines.join("\n").chars().filter(is_text).collect());
            }
            return texts;
        }
    };
    Some(text).filter(|text| !text.is_empty()).into_iter().collect()
}

fn priority(event: &Event) -> SpeechPriority {
    let must = event.kind().is_some_and(recount_aaep::Kind::is_critical);
    match event.envelope.urgency() {
        _ if must => SpeechPriority::Important,
        Urgency::Critical => SpeechPriority::Important,
        Urgency::Background => SpeechPriority::Progress,
        _ => SpeechPriority::Text,
    }
}

fn is_spoken(event: &Event, priority: SpeechPriority, level: SpeechLevel) -> bool {
    let ends_or_begins = matches!(event.body, Body::SessionStarted(_))
        || event.kind().is_some_and(recount_aaep::Kind::is_terminal);
    // The end of a prompt is in no other event.
    let ends_prompt = matches!(&event.body, Body::StateChanged(change)
        if change.from_state == AWAITING && change.to_state != AWAITING);
    if priority == SpeechPriority::Important || ends_or_begins || ends_prompt {
        return true;
    }
    match level {
        SpeechLevel::Brief => false,
        // The events that follow show a successful call.
        SpeechLevel::Terse => {
            priority != SpeechPriority::Progress
                && !matches!(event.body, Body::ProgressUpdated(_))
                && !matches!(&event.body, Body::ToolCompleted(done) if succeeded(done))
        }
        // What a state is about is in the events that follow.
        SpeechLevel::Normal => {
            priority != SpeechPriority::Progress || !matches!(&event.body, Body::StateChanged(_))
        }
        SpeechLevel::Detailed => true,
    }
}

fn succeeded(done: &ToolCompleted) -> bool {
    done.status == recount_aaep::wire::ToolStatus::Success
}

/// A prompt is never shortened: its action and its consequence are always spoken.
fn confirmation(summaries: &Summaries, prompt: &AwaitingConfirmation, level: SpeechLevel) -> String {
    let summary = summaries.at(&level.max(SpeechLevel::Normal).verbosity()).unwrap_or_default();
    with_parts(summary, &[&prompt.action, &prompt.consequence])
}

/// The choices are spoken once, with their numbers, although the summary may contain them.
fn clarification(summaries: &Summaries, prompt: &AwaitingClarification, level: SpeechLevel) -> String {
    let summary = summaries.at(&level.max(SpeechLevel::Normal).verbosity()).unwrap_or_default();
    let mut choices = prompt.choices.iter().flatten().peekable();
    let has_choices = choices.peek().is_some() && choices.all(|choice| summary.contains(choice.label.trim()));
    let mut text = match &prompt.context {
        _ if !has_choices => with_parts(summary, &[&prompt.question]),
        Some(context) if summary.contains(context.trim()) => with_parts("", &[context, &prompt.question]),
        _ => with_parts("", &[&prompt.question]),
    };
    for (at, choice) in prompt.choices.iter().flatten().enumerate() {
        text.push_str(&format!(" {}: {}", at + 1, sentence(&choice.label)));
    }
    text
}

/// Never shortened to less than the reason, and followed by the advice.
fn errored(summaries: &Summaries, error: &SessionErrored, level: SpeechLevel, phrases: &Phrases) -> String {
    let summary = summaries.at(&level.max(SpeechLevel::Normal).verbosity()).map(str::to_owned);
    let summary = summary.unwrap_or_else(|| phrases.plain(PhraseKey::SessionFailed));
    let hint = error.remediation_hint.as_deref();
    with_parts(&summary, hint.as_slice())
}

/// The text with its line ends and long runs of blanks in words: both change what a command does, and speech has no sound for them.
fn with_spoken_layout(text: &str, phrases: &Phrases) -> String {
    let tick = format!(" [{}] ", phrases.plain(PhraseKey::Backtick));
    let text = text.trim().replace('`', &tick);
    let mut spoken = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(start) = rest.find(char::is_whitespace) {
        let (before, from) = rest.split_at(start);
        let run = &from[..from.find(|c: char| !c.is_whitespace()).unwrap_or(from.len())];
        rest = &from[run.len()..];
        spoken.push_str(before);
        let line_ends = run.matches('\n').count();
        let words = match run.chars().count() {
            _ if line_ends > 0 => {
                phrases.render(PhraseKey::LineEnds, &[("count", (line_ends as u64).into())])
            }
            blanks if blanks > limits::BLANKS_SILENT_MAX => {
                phrases.render(PhraseKey::Blanks, &[("count", (blanks as u64).into())])
            }
            _ => String::new(),
        };
        spoken.push_str(&if words.is_empty() { " ".to_owned() } else { format!(" [{words}] ") });
    }
    spoken + rest
}

/// A text without the marks around its code: of several, those within may be part of a command.
fn without_outer_ticks(text: &str) -> String {
    match (text.find('`'), text.rfind('`')) {
        (Some(first), Some(last)) if first < last => {
            [&text[..first], &text[first + 1..last], &text[last + 1..]].concat()
        }
        _ => text.to_owned(),
    }
}

/// A summary, followed by the parts that it does not contain.
fn with_parts(summary: &str, parts: &[&str]) -> String {
    let mut text = summary.to_owned();
    for part in parts {
        let spoken = without_outer_ticks(part);
        let is_in = |part: &str| text.contains(part.trim_end().trim_end_matches('.'));
        if !is_in(part) && !is_in(&spoken) {
            let part = spoken.as_str();
            let before = std::mem::take(&mut text);
            text = if before.is_empty() {
                sentence(part)
            } else {
                format!("{} {}", sentence(&before), sentence(part))
            };
        }
    }
    text
}

/// With a final mark that makes speech pause.
fn sentence(text: &str) -> String {
    let text = text.trim();
    let is_ended = text.ends_with(|last: char| !last.is_alphanumeric() && !matches!(last, '"' | '\'' | ')'));
    if is_ended || text.is_empty() { text.to_owned() } else { format!("{text}.") }
}

/// For producers without summaries.
fn from_fields(body: &Body, phrases: &Phrases) -> Option<String> {
    Some(match body {
        Body::SessionStarted(_) => phrases.plain(PhraseKey::SessionStarted),
        Body::SessionCompleted(done) => {
            done.output_summary.clone().unwrap_or_else(|| phrases.plain(PhraseKey::SessionFinished))
        }
        Body::SessionCancelled(cancelled) => {
            let by = cancelled.cancelled_by.to_string();
            phrases.render(PhraseKey::SessionCancelled, &[("by", (&by).into())])
        }
        Body::StateChanged(change) => sentence(&change.to_state.replace('_', " ")),
        Body::ProgressUpdated(update) => progress(&update.progress, phrases)?,
        Body::ToolInvoked(call) => match &call.description {
            Some(description) => sentence(description),
            None => phrases.render(PhraseKey::UsingTool, &[("tool", call.tool.as_str().into())]),
        },
        Body::ToolCompleted(done) => match &done.error_message {
            Some(error) => format!("{}: {}", done.tool, sentence(error)),
            None => {
                let status = done.status.to_string();
                let puts = [("tool", done.tool.as_str().into()), ("status", (&status).into())];
                phrases.render(PhraseKey::ToolEnded, &puts)
            }
        },
        Body::HandoffRequested(handoff) => {
            let target = handoff.target_kind.as_str().replace('_', " ");
            let reason = sentence(&handoff.reason);
            phrases.render(PhraseKey::Handover, &[("target", (&target).into()), ("reason", (&reason).into())])
        }
        Body::SessionErrored(_)
        | Body::AwaitingConfirmation(_)
        | Body::AwaitingClarification(_)
        | Body::OutputStreaming(_)
        | Body::Other { .. } => return None,
    })
}

fn progress(progress: &Progress, phrases: &Phrases) -> Option<String> {
    if let Some(description) = &progress.description {
        return Some(sentence(description));
    }
    match (&progress.percent, progress.step, progress.total_steps) {
        (Some(percent), _, _) => {
            let percent = percent.to_string();
            Some(phrases.render(PhraseKey::Percent, &[("percent", (&percent).into())]))
        }
        (None, Some(step), Some(steps)) => {
            Some(phrases.render(PhraseKey::StepOf, &[("step", step.into()), ("total", steps.into())]))
        }
        (None, Some(step), None) => Some(phrases.render(PhraseKey::Step, &[("step", step.into())])),
        _ => None,
    }
}

/// A text in pieces of limited length, divided between words where that is possible.
pub(super) fn utterances(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((end, _)) = rest.char_indices().nth(limits::UTTERANCE_CHARS_MAX) {
        let end = rest[..end].rfind([' ', '\n']).filter(|blank| *blank > 0).unwrap_or(end);
        pieces.push(&rest[..end]);
        rest = rest[end..].trim_start();
    }
    if !rest.is_empty() {
        pieces.push(rest);
    }
    pieces
}

/// A text on one line, without control characters.
pub(super) fn line(text: &str) -> String {
    let words = text.split(|character: char| character.is_whitespace() || character.is_control());
    let mut line = String::new();
    for word in words.filter(|word| !word.is_empty()) {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    line
}

/// A remaining time as text.
pub(super) fn seconds(seconds: u64, phrases: &Phrases) -> String {
    let (key, count) = match seconds {
        0..=119 => (PhraseKey::Seconds, seconds),
        120..=7_199 => (PhraseKey::Minutes, seconds / 60),
        _ => (PhraseKey::Hours, seconds / 3_600),
    };
    phrases.render(key, &[("count", count.into())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_ends_and_blanks_of_what_is_approved_are_spoken() {
        let phrases = Phrases::of(&["en-US".to_owned()]);
        let far = format!("ls;{}rm x\n", " ".repeat(6_000));
        for (text, spoken) in [
            ("Run rm -r build. Allow this?", "Run rm -r build. Allow this?"),
            ("cd /tmp\nrm x", "cd /tmp [new line] rm x"),
            (&format!("ls{}rm x", "\n \t".repeat(90)), "ls [90 new lines] rm x"),
            (&far, "ls; [6000 blanks] rm x"),
            ("Run echo `rm x`.", "Run echo [backtick] rm x [backtick] ."),
        ] {
            assert_eq!(with_spoken_layout(text, phrases), spoken);
        }
    }

    #[test]
    fn marks_within_a_command_stay() {
        for (action, spoken) in [
            ("Run `ls`.", "Run ls."),
            ("Run `echo `rm x``.", "Run echo `rm x`."),
            ("Run ` ls.", "Run ` ls."),
            ("Run.", "Run."),
        ] {
            assert_eq!(without_outer_ticks(action), spoken);
        }
    }

    #[test]
    fn a_long_text_is_divided_between_words_and_nothing_is_lost() {
        let most = limits::UTTERANCE_CHARS_MAX;
        for (text, pieces) in [
            (String::new(), 0),
            ("word ".repeat(most / 5).trim_end().to_owned(), 1),
            ("wörd ".repeat(most).trim_end().to_owned(), 5),
            ("x".repeat(2 * most), 2),
        ] {
            let divided = utterances(&text);
            assert_eq!(divided.len(), pieces);
            assert!(divided.iter().all(|piece| piece.chars().count() <= most && !piece.ends_with(' ')));
            assert_eq!(divided.concat().replace(' ', ""), text.replace(' ', ""));
        }
    }
}
