//! The linear text form: headings, and one line for each text of the file, followed by its problems. Nothing depends
//! on columns, colour or drawing, so it can be read aloud from top to bottom.

use std::fmt::Write as _;
use std::io::{self, Write};

use super::Options;
use super::aaep::lex::time::Moment;
use super::model::{Entry, Problem, Session, Totals, Trace};
use super::sentence::{PieceKind, Sentence};
use super::shown::{self, count, problems, push_line, severity};
use super::time::write_when;
use crate::limits;

/// Bytes buffered before each write.
const FLUSH: usize = 64 * 1024;

pub(super) fn write(trace: &Trace, options: &Options<'_>, out: &mut impl Write) -> io::Result<()> {
    let mut page = String::new();
    page.push_str("Trace of ");
    push_line(&mut page, options.name);
    page.push_str("\n\nSummary\n");
    for sentence in summary(trace, options) {
        page.push_str(&sentence);
        page.push('\n');
    }
    overview(trace, &mut page);
    if !trace.outside.is_empty() {
        page.push_str("\nLines of no session\n");
        for entry in &trace.outside {
            push_entry_and_problems(trace, entry, &mut page);
            flush(&mut page, out, FLUSH)?;
        }
    }
    let of = trace.sessions.len();
    for (at, session) in trace.sessions.iter().enumerate() {
        put(&mut page, format_args!("\nSession {} of {of}: ", at + 1));
        push_line(&mut page, &session.id);
        page.push('\n');
        push_facts(session, &mut page);
        for entry in &session.entries {
            push_entry_and_problems(trace, entry, &mut page);
            flush(&mut page, out, FLUSH)?;
        }
        push_end(session, &mut page);
        let mut line = session.last_line;
        for number in &session.problems {
            if let Some(problem) = trace.problems.get(*number) {
                push_problem_at(&mut line, problem, &mut page);
            }
        }
    }
    page.push_str("\nEnd of the trace\n");
    flush(&mut page, out, 0)
}

/// Writes a problem; one that is not about the line before it names its line.
pub(super) fn push_problem_at(line: &mut usize, problem: &Problem, page: &mut String) {
    if problem.finding.line != *line {
        *line = problem.finding.line;
        put(page, format_args!("Line {line}, found later:\n"));
    }
    push_problem(problem, page);
}

fn flush(page: &mut String, out: &mut impl Write, least: usize) -> io::Result<()> {
    if page.len() >= least {
        out.write_all(page.as_bytes())?;
        page.clear();
    }
    Ok(())
}

pub(super) fn put(out: &mut String, words: std::fmt::Arguments<'_>) {
    out.write_fmt(words).expect("writing to a string cannot fail");
}

/// The summary of the file, one sentence per item.
pub(super) fn summary(trace: &Trace, options: &Options<'_>) -> Vec<String> {
    let totals = &trace.totals;
    if totals.texts == 0 {
        return vec!["The file is empty.".to_owned()];
    }
    let mut held = vec![count(totals.events, "event", "events")];
    if totals.messages > 0 {
        held.push(count(totals.messages, "reply or handshake message", "replies and handshake messages"));
    }
    if totals.unreadable > 0 {
        held.push(count(totals.unreadable, "other text", "other texts"));
    }
    let mut sentences = Vec::new();
    let held = shown::list(&held);
    sentences.push(match options.session {
        Some(_) => format!("The file has {held}. Only one of its sessions is shown."),
        None => format!("The file has {held}, in {}.", count(totals.sessions, "session", "sessions")),
    });
    let endings = endings(trace);
    if !endings.is_empty() {
        sentences.push(endings);
    }
    let profile = super::profile(options.profile);
    sentences.push(format!("Checked with the profile {profile}: {}.", problems(totals)));
    if totals.texts_left_out > 0 {
        let texts = count(totals.texts_left_out, "text is", "texts are");
        sentences.push(format!("The trace is full: {texts} checked and counted, but not shown."));
    }
    if totals.problems_left_out > 0 {
        let some = count(totals.problems_left_out, "problem is", "problems are");
        sentences.push(format!("{some} counted but not listed."));
    }
    sentences
}

/// How the sessions ended.
fn endings(trace: &Trace) -> String {
    let mut numbers = [0_u64; 4];
    for session in &trace.sessions {
        numbers[match how_it_ended(session) {
            "completed" => 0,
            "ended with an error" => 1,
            "cancelled" => 2,
            _ => 3,
        }] += 1;
    }
    let words = ["completed", "ended with an error", "was cancelled", "has no ending"];
    let some: Vec<String> = (0..4)
        .filter(|at| numbers[*at] > 0)
        .map(|at| {
            let word = match (at, numbers[at]) {
                (2, 2..) => "were cancelled",
                (3, 2..) => "have no ending",
                _ => words[at],
            };
            format!("{} {word}", count(numbers[at], "session", "sessions"))
        })
        .collect();
    if some.is_empty() { String::new() } else { format!("{}.", some.join(", ")) }
}

pub(super) fn how_it_ended(session: &Session) -> &'static str {
    use super::aaep::kind::Kind;
    match session.ending {
        Some(Kind::SessionCompleted) => "completed",
        Some(Kind::SessionErrored) => "ended with an error",
        Some(Kind::SessionCancelled) => "cancelled",
        _ => "without an ending",
    }
}

/// The problems in the order of the file.
fn overview(trace: &Trace, page: &mut String) {
    if trace.problems.is_empty() {
        return;
    }
    page.push_str("\nProblems\n");
    for problem in trace.problems.iter().take(limits::TRACE_OVERVIEW_LINES_MAX) {
        let finding = &problem.finding;
        let severity = severity(finding.severity);
        put(page, format_args!("{severity} {} in line {}", finding.rule.id, finding.line));
        if let Some(session) = problem.session.and_then(|at| trace.sessions.get(at)) {
            page.push_str(", session ");
            push_line(page, &session.id);
        }
        page.push_str(": ");
        push_line(page, &finding.message);
        page.push_str(".\n");
    }
    let more = trace.problems.len().saturating_sub(limits::TRACE_OVERVIEW_LINES_MAX);
    if more > 0 {
        put(page, format_args!("And {more} more; each is listed after its line.\n"));
    }
}

/// Writes a text and its problems.
fn push_entry_and_problems(trace: &Trace, entry: &Entry, page: &mut String) {
    push_entry(entry, page);
    let mut line = entry.line;
    for (_, problem) in trace.of(entry) {
        push_problem_at(&mut line, problem, page);
    }
}

/// `Line 7, after 6 s: …`
pub(super) fn push_entry(entry: &Entry, page: &mut String) {
    put(page, format_args!("Line {}, ", entry.line));
    match (entry.at_ms, entry.what) {
        (None, super::model::EntryKind::Event(_) | super::model::EntryKind::OtherEvent) => {
            write_when(page, None)
        }
        (None, _) => page.truncate(page.len() - 2),
        (at, _) => write_when(page, at),
    }
    page.push_str(": ");
    push_sentence(&entry.sentence, page);
    page.push('\n');
}

/// Writes a sentence in plain text: names as they are, texts for people in quotes.
pub(super) fn push_sentence(sentence: &Sentence, page: &mut String) {
    for (piece, _, text) in sentence.body() {
        match piece {
            PieceKind::Text => {
                page.push('“');
                push_line(page, text);
                page.push('”');
            }
            PieceKind::Name if text.is_empty() => page.push_str("“”"),
            PieceKind::Name => push_line(page, text),
            _ => page.push_str(text),
        }
    }
}

/// Writes a problem after its line.
pub(super) fn push_problem(problem: &Problem, page: &mut String) {
    let finding = &problem.finding;
    put(page, format_args!("  {} {}: ", severity(finding.severity), finding.rule.id));
    push_line(page, &finding.message);
    if !finding.path.is_empty() {
        page.push_str(", at ");
        push_line(page, &finding.path);
    }
    put(page, format_args!(". What to do: {} ({})\n", finding.rule.remedy, finding.rule.cites));
}

/// Writes the producers and the start time below the heading of a session.
fn push_facts(session: &Session, page: &mut String) {
    match &*session.producers {
        [] => page.push_str("No producer is named. "),
        [one] => {
            page.push_str("Its producer is ");
            push_line(page, &one.id);
            page.push_str(". ");
        }
        many => {
            page.push_str("Its producers are ");
            for (at, producer) in many.iter().take(limits::TRACE_PRODUCERS_MAX).enumerate() {
                page.push_str(if at > 0 { ", " } else { "" });
                push_line(page, &producer.id);
            }
            let more = many.len().saturating_sub(limits::TRACE_PRODUCERS_MAX);
            if more > 0 {
                put(page, format_args!(" and {more} more"));
            }
            page.push_str(". ");
        }
    }
    if let Some(began) = session.began {
        put(page, format_args!("It begins at {}.", Moment::write(began.div_euclid(1_000))));
    }
    page.truncate(page.trim_end().len());
    page.push('\n');
}

/// Writes how a session ended, its open parts, and the number of its problems.
pub(super) fn push_end(session: &Session, page: &mut String) {
    page.push_str("End of session ");
    push_line(page, &session.id);
    page.push_str(": ");
    page.push_str(&ending(session));
    page.push(' ');
    push_left_open(session, page);
    put(page, format_args!(" {}.\n", sentence_of(&session.totals)));
}

/// `completed after 9 s.`
pub(super) fn ending(session: &Session) -> String {
    let lasted = session.lasted_ms().map(super::time::span);
    match (session.ending, lasted) {
        (Some(_), Some(lasted)) => format!("{} after {lasted}.", how_it_ended(session)),
        (Some(_), None) => format!("{}.", how_it_ended(session)),
        (None, Some(lasted)) => format!("no ending; the last event came after {lasted}."),
        (None, None) => "no ending.".to_owned(),
    }
}

pub(super) fn sentence_of(totals: &Totals) -> String {
    capitalize(&problems(totals))
}

pub(super) fn capitalize(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// `Left open: call 2 (transfer, since line 7).`
pub(super) fn push_left_open(session: &Session, page: &mut String) {
    if session.open.is_empty() {
        page.push_str("Nothing remains open.");
        return;
    }
    page.push_str("Still open: ");
    for (at, part) in session.open_parts().take(limits::TRACE_OVERVIEW_LINES_MAX).enumerate() {
        page.push_str(if at > 0 { ", " } else { "" });
        put(page, format_args!("{} {} (", part.part_kind.name(), part.number));
        if !part.label.is_empty() {
            push_line(page, &part.label);
            page.push_str(", ");
        }
        put(page, format_args!("since line {})", part.line));
    }
    let more = session.open.len().saturating_sub(limits::TRACE_OVERVIEW_LINES_MAX);
    if more > 0 {
        put(page, format_args!(" and {more} more"));
    }
    page.push('.');
}
