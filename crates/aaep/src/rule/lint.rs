//! Advice on single events: recommendations of the specification, and likely mistakes.

use super::measure::{Risk, stakes};
use super::spoken::{self, SpokenText};
use super::{Findings, secret};
use crate::field::Field;
use crate::json::{Node, big_integer, long_string};
use crate::kind::Kind;
use crate::limits;
use crate::quote::quote;
use crate::reading::Reading;
use crate::rules;

pub(super) fn check(event: &Reading<'_>, text: &str, findings: &mut Findings) {
    sizes(event, text, findings);
    spoken::for_each_text(event, |spoken| wording(event, spoken, text, findings));
    contexts(event, text, findings);
    let Some(kind) = event.kind() else { return };
    let announced = matches!(
        kind,
        Kind::StateChanged
            | Kind::ToolCompleted
            | Kind::AwaitingConfirmation
            | Kind::AwaitingClarification
            | Kind::HandoffRequested
    );
    if announced && !event.has(Field::SummaryNormal) {
        let message = || format!("`{}` is announced but has no `summary_normal`", kind.name());
        findings.add(&rules::SUMMARY_MISSING, text, Some(event.node()), || "summary_normal".into(), message);
    }
    if !kind.is_critical() && event.is(Field::Urgency, "critical") {
        let message = || format!("`{}` is rarely critical", kind.name());
        findings.add(&rules::URGENCY_UNUSUAL, text, event.get(Field::Urgency), || "urgency".into(), message);
    }
    match kind {
        Kind::AwaitingConfirmation => confirmation(event, text, findings),
        Kind::AwaitingClarification => clarification(event, text, findings),
        Kind::OutputStreaming => output(event, text, findings),
        Kind::ProgressUpdated => progress(event, text, findings),
        Kind::ToolCompleted if event.is(Field::Status, "error") && !event.has(Field::ErrorMessage) => {
            let message = || "a failed call without a reason".to_owned();
            let path = || "error_message".to_owned();
            findings.add(&rules::ERROR_UNEXPLAINED, text, Some(event.node()), path, message);
        }
        _ => {}
    }
    direction(event, text, findings);
}

fn confirmation(event: &Reading<'_>, text: &str, findings: &mut Findings) {
    let flag = event.bool(Field::Irreversible);
    let word = event.get(Field::Reversibility);
    if let (Some(flag), Some(word)) = (flag, word)
        && ["reversible", "reversible_with_effort", "irreversible"].iter().any(|known| word.is(known))
        && flag != word.is("irreversible")
    {
        let message = || format!("`irreversible` is {flag} but `reversibility` is `{}`", quote(word.raw()));
        let path = || "reversibility".to_owned();
        findings.add(&rules::REVERSIBILITY_CONTRADICTION, text, Some(word), path, message);
    }
    let stakes = stakes(event);
    let (least, most) = match stakes.risk {
        Risk::High if stakes.irreversible => (180, 600),
        Risk::Medium => (60, 180),
        _ => (30, i64::MAX),
    };
    timeout(event, least, most, text, findings);
}

fn progress(event: &Reading<'_>, text: &str, findings: &mut Findings) {
    let Some(progress) = event.get(Field::Progress) else { return };
    let total = progress.get("total_steps");
    let number = |node: Option<Node<'_>>| node.and_then(Node::int);
    let (of, at) = (number(total), number(progress.get("step")));
    let message = match (at, of) {
        (None, Some(of)) => format!("{of} steps in total, and no `step`"),
        (Some(at), Some(of)) if at > of => format!("step {at} of {of}"),
        _ => return,
    };
    findings.add(&rules::PROGRESS_STEP, text, total, || "progress.total_steps".into(), || message);
}

fn timeout(event: &Reading<'_>, least: i64, most: i64, text: &str, findings: &mut Findings) {
    let node = event.get(Field::TimeoutSeconds);
    if let Some(node) = node.filter(|node| node.int().is_some() && !node.is_integer()) {
        let message = || format!("`{}` is an integer in the form of a fraction", quote(node.raw()));
        findings.add(&rules::SECONDS_FORM, text, Some(node), || "timeout_seconds".into(), message);
    }
    if let Some(seconds) = event.int(Field::TimeoutSeconds)
        && !(least..=most).contains(&seconds)
    {
        let message = || match most {
            i64::MAX => format!("{seconds} seconds; at least {least} is advised"),
            _ => format!("{seconds} seconds; {least} to {most} is advised"),
        };
        let path = || "timeout_seconds".to_owned();
        findings.add(&rules::TIMEOUT_ADVICE, text, event.get(Field::TimeoutSeconds), path, message);
    }
}

fn clarification(event: &Reading<'_>, text: &str, findings: &mut Findings) {
    timeout(event, 60, i64::MAX, text, findings);
    let kinds = event.get(Field::AcceptedResponseKinds);
    let choices = event.get(Field::Choices);
    let takes = |kind: &str| match kinds {
        Some(kinds) => kinds.items().any(|item| item.is(kind)),
        // Without kinds: a choice if there are choices, free text otherwise.
        None => kind == if choices.is_some() { "multiple_choice" } else { "freetext" },
    };
    match (takes("multiple_choice"), choices) {
        (true, None) => {
            let message = || "`multiple_choice` is accepted but `choices` is missing".to_owned();
            findings.add(&rules::CHOICES_MISSING, text, kinds, || "accepted_response_kinds".into(), message);
        }
        (false, Some(choices)) if kinds.is_some() => {
            let message = || "`choices` is present but `multiple_choice` is not accepted".to_owned();
            findings.add(&rules::CHOICES_MISSING, text, Some(choices), || "choices".into(), message);
        }
        _ => {}
    }
    // Too many choices are reported by another rule.
    if let Some(choices) = choices.filter(|choices| choices.items().count() <= 32) {
        for (at, choice) in choices.items().enumerate() {
            let Some(value) = choice.get("value") else { continue };
            let twin =
                |earlier: Node<'_>| earlier.get("value").is_some_and(|other| other.str() == value.str());
            if choices.items().take(at).any(twin) {
                let message = || format!("the value `{}` appears twice", quote(value.raw()));
                findings.add(
                    &rules::CHOICES_REPEATED,
                    text,
                    Some(value),
                    || format!("choices[{at}].value"),
                    message,
                );
            }
        }
    }
    if let Some(default) = event.text(Field::DefaultResponse) {
        let chosen = choices.is_some_and(|choices| {
            choices.items().any(|choice| choice.get("value").is_some_and(|v| v.is(&default)))
        });
        let fits = (takes("freetext") && !default.is_empty())
            || (takes("multiple_choice") && (chosen || choices.is_none()))
            || (takes("numeric") && default.trim().parse::<f64>().is_ok_and(f64::is_finite))
            || (takes("yes_no") && matches!(default.as_ref(), "yes" | "no" | "true" | "false"));
        if !fits {
            let message = || format!("`{}` is not an answer of an accepted kind", quote(&default));
            let path = || "default_response".to_owned();
            findings.add(&rules::DEFAULT_RESPONSE, text, event.get(Field::DefaultResponse), path, message);
        }
    }
}

fn output(event: &Reading<'_>, text: &str, findings: &mut Findings) {
    let Some(node) = event.get(Field::Chunk) else { return };
    if !node.is_ascii()
        && let Some(first) = node.str().and_then(|chunk| chunk.chars().next())
        && is_combining(first)
    {
        let message = || format!("begins with U+{:04X}", u32::from(first));
        findings.add(&rules::COMBINING_START, text, Some(node), || "chunk".into(), message);
    }
    if event.bool(Field::Complete) == Some(false)
        && !node.is_ascii()
        && node.str().is_some_and(|chunk| chunk.ends_with('\u{200D}'))
    {
        let message = || "ends with the joiner U+200D".to_owned();
        findings.add(&rules::CHARACTER_CUT, text, Some(node), || "chunk".into(), message);
    }
    if event.bool(Field::Complete) == Some(false)
        && !event.has(Field::CoalesceHint)
        && node.raw().len() <= limits::SMALL_CHUNK_CHARS
    {
        let message = || "a small chunk without `coalesce_hint`".to_owned();
        findings.add(&rules::HINT_MISSING, text, Some(node), || "chunk".into(), message);
    }
}

/// Whether a character is a combining mark or a joiner; common blocks suffice to detect a cut inside a character.
pub(crate) fn is_combining(c: char) -> bool {
    matches!(u32::from(c),
        0x0300..=0x036F | 0x0483..=0x0489 | 0x0591..=0x05BD | 0x064B..=0x065F | 0x0900..=0x0902 | 0x093C | 0x094D
        | 0x0E31 | 0x0E34..=0x0E3A | 0x0E47..=0x0E4E | 0x1AB0..=0x1AFF | 0x1DC0..=0x1DFF | 0x200D | 0x20D0..=0x20FF
        | 0xFE00..=0xFE0F | 0xFE20..=0xFE2F | 0x1F3FB..=0x1F3FF | 0xE0100..=0xE01EF)
}

/// Checks the content of one text for people.
fn wording(event: &Reading<'_>, spoken: &SpokenText<'_>, text: &str, findings: &mut Findings) {
    let Some(words) = spoken.text() else { return };
    let node = Some(spoken.node);
    let found = secret::find(&words);
    if let Some(what) = found.secret {
        findings.add(
            &rules::SECRET,
            text,
            node,
            || spoken.path(),
            || format!("contains what looks like {what}"),
        );
    }
    if let Some(what) = found.personal {
        findings.add(
            &rules::PERSONAL,
            text,
            node,
            || spoken.path(),
            || format!("contains what looks like {what}"),
        );
    }
    if spoken.must_not_be_empty() && !words.is_empty() && words.chars().all(spoken::is_silent) {
        let message = || "contains nothing to speak".to_owned();
        findings.add(&rules::TEXT_BLANK, text, node, || spoken.path(), message);
    }
    // ASCII JSON can contain one unescaped control character: U+007F.
    if (!spoken.node.is_ascii() || words.contains('\u{7F}'))
        && let Some(c) = spoken::control(&words)
    {
        let message = || format!("contains U+{:04X}", u32::from(c));
        findings.add(&rules::CONTROL, text, node, || spoken.path(), message);
    }
    // A chunk of output may open an isolate that a later chunk closes.
    if !spoken.node.is_ascii()
        && let Some(c) = spoken::bidirectional(&words, !spoken.is(Field::Chunk))
    {
        let message = || format!("contains U+{:04X}, which is an override or is unbalanced", u32::from(c));
        findings.add(&rules::BIDIRECTIONAL, text, node, || spoken.path(), message);
    }
    if is_plain(event, spoken)
        && let Some(what) = spoken::markup(&words)
    {
        findings.add(&rules::MARKUP, text, node, || spoken.path(), || format!("contains {what}"));
    }
}

/// Finds secrets in the context objects of prompts and handoffs, by name and value. Personal data is not checked,
/// because numbers in them rarely are personal.
fn contexts(event: &Reading<'_>, text: &str, findings: &mut Findings) {
    for field in [Field::ExtraContext, Field::PackagedContext] {
        let Some(context) = event.get(field) else { continue };
        // `args_summary` is a text for people and is checked as one.
        let is_shown = |name: Node<'_>, value: Node<'_>| {
            field == Field::ExtraContext && name.is("args_summary") && value.str().is_some()
        };
        let members = context.members().filter(|(name, value)| !is_shown(*name, *value));
        if let Some(what) = members.into_iter().find_map(|(name, value)| secret_in(name, value)) {
            let message = || format!("contains what looks like {what}");
            findings.add(&rules::SECRET, text, Some(context), || field.name().to_owned(), message);
        }
    }
}

/// The first secret in a member and its nested values.
fn secret_in(name: Node<'_>, value: Node<'_>) -> Option<&'static str> {
    let mut waiting = vec![(Some(name), value)];
    while let Some((name, value)) = waiting.pop() {
        let inside = value.members().map(|(name, value)| (Some(name), value));
        waiting.extend(inside.chain(value.items().map(|item| (None, item))));
        if value.members().next().is_some() || value.items().next().is_some() {
            continue;
        }
        let text = value.str().unwrap_or_else(|| value.raw().into());
        let named = name.and_then(|name| Some(format!("\"{}\": \"{text}\"", name.str()?)));
        let found = secret::find(&text).secret.or_else(|| secret::find(&named?).secret);
        if found.is_some() {
            return found;
        }
    }
    None
}

/// Whether a text is plain text for speech. The user's request is quoted verbatim, and output may declare another type.
fn is_plain(event: &Reading<'_>, spoken: &SpokenText<'_>) -> bool {
    let typed = event.get(Field::ContentType).is_some_and(|node| !node.is("text/plain"));
    !(spoken.is(Field::RequestText) || spoken.is(Field::Chunk) && typed)
}

/// Reports texts in right-to-left scripts that do not declare it.
fn direction(event: &Reading<'_>, text: &str, findings: &mut Findings) {
    let declared = |direction: &str| {
        let hints = event.get(Field::LocalizationHints);
        hints.and_then(|hints| hints.get("text_direction")).is_some_and(|node| node.is(direction))
    };
    let mut reported = false;
    spoken::for_each_text(event, |spoken| {
        if reported || spoken.node.is_ascii() {
            return;
        }
        let Some(words) = spoken.text() else { return };
        let mut right = false;
        let mut left = false;
        let mut marked = false;
        for c in words.chars() {
            match u32::from(c) {
                0x0590..=0x061B | 0x061D..=0x08FF | 0xFB1D..=0xFDFF | 0xFE70..=0xFEFE => right = true,
                0x200E | 0x200F | 0x202A..=0x202E | 0x2066..=0x2069 | 0x061C => marked = true,
                _ => left |= c.is_ascii_alphabetic(),
            }
        }
        if right && !marked && !declared("auto") && (left || !declared("rtl")) {
            let message = || match left {
                true => "letters of both directions without isolates".to_owned(),
                false => "letters from right to left, and the direction is `ltr`".to_owned(),
            };
            findings.add(&rules::DIRECTION, text, Some(spoken.node), || spoken.path(), message);
            reported = true;
        }
    });
}

/// Reports sizes above the soft limits.
fn sizes(event: &Reading<'_>, text: &str, findings: &mut Findings) {
    let doc = event.doc();
    let size = event.node().raw().len();
    if size > limits::EVENT_BYTES_SOFT {
        findings.add(&rules::SIZE_EVENT, text, Some(event.node()), String::new, || format!("{size} bytes"));
    }
    let (mut fields, _) = event.counts();
    if let Some(extensions) = event.get(Field::Extensions) {
        fields += extensions.members().count();
    }
    if fields > limits::EVENT_FIELDS_SOFT {
        findings
            .add(&rules::SIZE_FIELDS, text, Some(event.node()), String::new, || format!("{fields} fields"));
    }
    if doc.depth() > limits::EVENT_DEPTH_SOFT {
        let depth = doc.depth();
        findings.add(&rules::SIZE_DEPTH, text, Some(event.node()), String::new, || format!("{depth} levels"));
    }
    if let Some(node) = long_string(doc) {
        let length = node.raw().len();
        let path = || doc.path_at(node.offset());
        findings.add(&rules::SIZE_STRING, text, Some(node), path, || format!("{length} bytes"));
    }
    if let Some(node) = big_integer(doc) {
        let path = || doc.path_at(node.offset());
        let message = || format!("`{}` exceeds 2^53", quote(node.raw()));
        findings.add(&rules::BIG_INTEGER, text, Some(node), path, message);
    }
}
