//! The trace as one HTML page without network, scripts or other files, which its own policy enforces. Each session has
//! a drawing and the same entries as the text form. Problems are linked from the drawing and from the list at the top,
//! and back.

mod drawing;
mod escape;
mod template;

use std::io::{self, Write};

use super::Options;
use super::aaep::lex::time::Moment;
use super::model::{Entry, EntryKind, Problem, Session, Trace};
use super::shown::{count, grouped, problems, severity};
use super::text::{capitalize, ending, how_it_ended, push_left_open, sentence_of, summary};
use super::time::span;
use crate::limits;
use drawing::Drawing;
use template::{Escaped, Fill, Markup, Plain, RuleText, SentenceMarkup, When, fill, filled};

/// The style sheet of the page.
pub const STYLE: &str = include_str!("html/style.css");

/// The SHA-256 of [`STYLE`] in base64; the page's policy allows this style only.
pub const STYLE_SUM: &str = "ipkiS3KBaHrrnTGyTHTdYIAfiWuLgbemdSs8T4DAqg8=";

/// Bytes buffered before each write.
const FLUSH: usize = 64 * 1024;

pub(super) fn write(trace: &Trace, options: &Options<'_>, out: &mut impl Write) -> io::Result<()> {
    let mut page = String::new();
    top(trace, options, &mut page);
    contents(trace, &mut page);
    fill(&mut page, "main", &[]);
    overview(trace, &mut page);
    if !trace.outside.is_empty() {
        fill(&mut page, "outside", &[]);
        pages(trace, None, &trace.outside, &[], &mut page, out)?;
        fill(&mut page, "section-end", &[]);
    }
    let drawn = which_are_drawn(trace);
    for (at, session) in trace.sessions.iter().enumerate() {
        write_session(trace, session, at, drawn[at], &mut page, out)?;
    }
    fill(&mut page, "bottom", &[]);
    flush(&mut page, out, 0)
}

fn flush(page: &mut String, out: &mut impl Write, least: usize) -> io::Result<()> {
    if page.len() >= least {
        out.write_all(page.as_bytes())?;
        page.clear();
    }
    Ok(())
}

fn top(trace: &Trace, options: &Options<'_>, page: &mut String) {
    let mut skips = String::new();
    let mut skip = |is: bool, to: &'static str, what: &'static str| {
        if is {
            fill(&mut skips, "skip", &[("to", &to), ("what", &what)]);
        }
    };
    skip(!trace.problems.is_empty(), "problems", "problems");
    skip(!trace.sessions.is_empty(), "s1", "first session");
    let totals = &trace.totals;
    let mut tiles = String::new();
    for (number, one, many, class) in [
        (totals.events, "event", "events", ""),
        (totals.sessions, "session", "sessions", ""),
        (totals.errors, "error", "errors", "error"),
        (totals.warnings, "warning", "warnings", "warning"),
        (totals.notes, "note", "notes", "note"),
    ] {
        let word = if number == 1 { one } else { many };
        let class = if number == 0 { "" } else { class };
        fill(
            &mut tiles,
            "tile",
            &[("class", &class), ("number", &Escaped(&grouped(number))), ("word", &word)],
        );
    }
    let mut sentences = String::new();
    for sentence in summary(trace, options) {
        fill(&mut sentences, "paragraph", &[("text", &Escaped(&sentence))]);
    }
    let values: [(&str, &dyn Fill); 7] = [
        ("sum", &STYLE_SUM),
        ("style", &STYLE),
        ("title", &Plain(options.name)),
        ("name", &Escaped(options.name)),
        ("skips", &Markup(&skips)),
        ("tiles", &Markup(&tiles)),
        ("summary", &Markup(&sentences)),
    ];
    fill(page, "top", &values);
}

/// A paragraph with the number of omitted items, if any.
fn more(all: usize, shown: usize, label: impl Fn(usize) -> String) -> String {
    match all.saturating_sub(shown) {
        0 => String::new(),
        more => filled("paragraph", &[("text", &Escaped(&label(more)))]),
    }
}

fn contents(trace: &Trace, page: &mut String) {
    if trace.sessions.len() < 2 {
        return;
    }
    let mut items = String::new();
    for (session, number) in trace.sessions.iter().zip(1_usize..).take(limits::TRACE_CONTENTS_MAX) {
        let values: [(&str, &dyn Fill); 4] = [
            ("number", &number),
            ("id", &Escaped(&session.id)),
            ("ending", &how_it_ended(session)),
            ("problems", &Escaped(&problems(&session.totals))),
        ];
        fill(&mut items, "contents-item", &values);
    }
    let more = more(trace.sessions.len(), limits::TRACE_CONTENTS_MAX, |more| {
        format!("And {} more, below.", grouped(more as u64))
    });
    fill(page, "contents", &[("items", &Markup(&items)), ("more", &Markup(&more))]);
}

/// All problems in the order of the file.
fn overview(trace: &Trace, page: &mut String) {
    if trace.problems.is_empty() {
        return;
    }
    let mut items = String::new();
    for (problem, number) in trace.problems.iter().zip(1_usize..).take(limits::TRACE_OVERVIEW_MAX) {
        let finding = &problem.finding;
        let session = problem.session.and_then(|at| trace.sessions.get(at));
        let session = session
            .filter(|_| trace.sessions.len() > 1)
            .map_or(String::new(), |session| filled("in-session", &[("id", &Escaped(&session.id))]));
        let values: [(&str, &dyn Fill); 7] = [
            ("number", &number),
            ("class", &finding.severity.name()),
            ("severity", &severity(finding.severity)),
            ("rule", &finding.rule.id),
            ("line", &finding.line),
            ("session", &Markup(&session)),
            ("message", &RuleText(&finding.message)),
        ];
        fill(&mut items, "overview-item", &values);
    }
    let more = more(trace.problems.len(), limits::TRACE_OVERVIEW_MAX, |more| {
        format!("And {more} more; each is shown at its line.")
    });
    fill(page, "overview", &[("items", &Markup(&items)), ("more", &Markup(&more))]);
}

/// Which sessions have a drawing: those with problems first, up to the limit.
fn which_are_drawn(trace: &Trace) -> Vec<bool> {
    let mut left = limits::TRACE_DRAWINGS_MAX;
    let mut drawn = vec![false; trace.sessions.len()];
    for bad in [true, false] {
        for (session, drawn) in trace.sessions.iter().zip(&mut drawn) {
            let totals = &session.totals;
            if left > 0 && !*drawn && (totals.errors + totals.warnings + totals.notes > 0) == bad {
                *drawn = true;
                left -= 1;
            }
        }
    }
    drawn
}

fn write_session(
    trace: &Trace,
    session: &Session,
    at: usize,
    drawn: bool,
    page: &mut String,
    out: &mut impl Write,
) -> io::Result<()> {
    let number = at + 1;
    // Distant sessions are laid out when they are scrolled to.
    let far = if number > limits::TRACE_NEAR_SESSIONS { " far" } else { "" };
    let drawing = drawn.then(|| drawing::draw(trace, session, number));
    let figure = match &drawing {
        Some(drawing) => figure(session, drawing, number),
        None => {
            let why = "This session has no drawing, because there are too many sessions.";
            filled("paragraph", &[("text", &why)])
        }
    };
    let values: [(&str, &dyn Fill); 5] = [
        ("far", &far),
        ("number", &number),
        ("id", &Escaped(&session.id)),
        ("facts", &Markup(&facts(session))),
        ("figure", &Markup(&figure)),
    ];
    fill(page, "session", &values);
    let links = drawing.as_ref().map_or(&[][..], |drawing| &drawing.links);
    pages(trace, Some(number), &session.entries, links, page, out)?;
    let mut open = String::new();
    push_left_open(session, &mut open);
    let mut rest = String::new();
    for at in &session.problems {
        if let Some(problem) = trace.problems.get(*at) {
            push_problem(at + 1, problem, links, &mut rest);
        }
    }
    let values: [(&str, &dyn Fill); 4] = [
        ("ending", &Escaped(&capitalize(&ending(session)))),
        ("open", &Escaped(&open)),
        ("problems", &Escaped(&sentence_of(&session.totals))),
        ("rest", &Markup(&rest)),
    ];
    fill(page, "session-end", &values);
    flush(page, out, FLUSH)
}

fn facts(session: &Session) -> String {
    let producers = session.producers.iter().take(limits::TRACE_PRODUCERS_MAX);
    let producers: Vec<String> =
        producers.map(|producer| filled("code", &[("text", &Escaped(&producer.id))])).collect();
    let mut named = producers.join(", ");
    match session.producers.len() {
        0 => named.push_str("none is named"),
        many if many > limits::TRACE_PRODUCERS_MAX => {
            named.push_str(&format!(" and {} more", many - limits::TRACE_PRODUCERS_MAX));
        }
        _ => {}
    }
    let mut facts = String::new();
    let mut fact = |name: &'static str, value: &dyn Fill| {
        fill(&mut facts, "fact", &[("name", &name), ("value", value)]);
    };
    fact(if session.producers.len() == 1 { "Producer" } else { "Producers" }, &Markup(&named));
    if let Some(began) = session.began {
        let moment = Moment::write(began.div_euclid(1_000));
        fact("Began", &Markup(&filled("time", &[("moment", &Escaped(&moment))])));
    }
    if let Some(ms) = session.lasted_ms() {
        fact("Lasted", &Escaped(&span(ms)));
    }
    fact("Ending", &how_it_ended(session));
    fact("Problems", &Escaped(&problems(&session.totals)));
    facts
}

fn figure(session: &Session, drawing: &Drawing, number: usize) -> String {
    let merged =
        if drawing.is_merged { " Marks that are too close to each other are drawn as one." } else { "" };
    let values: [(&str, &dyn Fill); 4] = [
        ("number", &number),
        ("drawing", &Markup(&drawing.svg)),
        ("merged", &merged),
        ("legend", &Markup(&legend(session))),
    ];
    filled("figure", &values)
}

/// The colours of the states, whose names may not fit.
fn legend(session: &Session) -> String {
    let mut seen = Vec::new();
    let mut items = String::new();
    for state_period in &session.states {
        let class = drawing::state_class(&state_period.state);
        if seen.contains(&class) {
            continue;
        }
        seen.push(class);
        let name = if class == "s-other" { "another state" } else { &*state_period.state };
        fill(&mut items, "legend-item", &[("class", &class), ("state", &Escaped(name))]);
    }
    match seen.is_empty() {
        true => items,
        false => filled("legend", &[("items", &Markup(&items))]),
    }
}

/// A list of texts; a long one is split into pages that open when a target inside is linked to.
fn pages(
    trace: &Trace,
    session: Option<usize>,
    entries: &[Entry],
    links: &[(usize, usize)],
    page: &mut String,
    out: &mut impl Write,
) -> io::Result<()> {
    let paged = entries.len() > limits::TRACE_PAGE_ENTRIES;
    for (at, some) in entries.chunks(limits::TRACE_PAGE_ENTRIES).enumerate() {
        if paged {
            let bad: usize = some.iter().map(|entry| entry.problems.1 as usize).sum();
            let bad = match bad {
                0 => String::new(),
                bad => format!(", {}", count(bad as u64, "problem", "problems")),
            };
            let values: [(&str, &dyn Fill); 5] = [
                ("open", if at == 0 { &" open" } else { &"" }),
                ("first", &some.first().map_or(0, |entry| entry.line)),
                ("last", &some.last().map_or(0, |entry| entry.line)),
                ("texts", &Escaped(&count(some.len() as u64, "text", "texts"))),
                ("problems", &Escaped(&bad)),
            ];
            fill(page, "account-page", &values);
        }
        fill(page, "account", &[]);
        for entry in some {
            push_entry(trace, entry, session.is_some(), links, page);
            flush(page, out, FLUSH)?;
        }
        fill(page, "account-end", &[("details", if paged { &"</details>" } else { &"" })]);
    }
    Ok(())
}

fn push_entry(trace: &Trace, entry: &Entry, placed: bool, links: &[(usize, usize)], page: &mut String) {
    let when = match placed {
        true => filled("when", &[("when", &When(entry.at_ms))]),
        false => String::new(),
    };
    let mut problems = String::new();
    for (number, problem) in trace.of(entry) {
        push_problem(number, problem, links, &mut problems);
    }
    let values: [(&str, &dyn Fill); 5] = [
        ("class", &class_of(entry.what)),
        ("line", &entry.line),
        ("when", &Markup(&when)),
        ("sentence", &SentenceMarkup(&entry.sentence, &trace.languages)),
        ("problems", &Markup(&problems)),
    ];
    fill(page, "entry", &values);
}

fn class_of(what: EntryKind) -> &'static str {
    use super::aaep::kind::Kind;
    match what {
        EntryKind::Event(Kind::StateChanged) => "k-state",
        EntryKind::Event(Kind::ToolInvoked | Kind::ToolCompleted) => "k-tool",
        EntryKind::Event(Kind::OutputStreaming) => "k-output",
        EntryKind::Event(
            Kind::AwaitingConfirmation | Kind::AwaitingClarification | Kind::HandoffRequested,
        ) => "k-prompt",
        EntryKind::Event(Kind::ProgressUpdated) | EntryKind::OtherEvent => "k-other",
        EntryKind::Event(_) => "k-life",
        EntryKind::Message(_) => "k-reply",
        EntryKind::Other | EntryKind::Unreadable => "k-bad",
    }
}

fn push_problem(number: usize, problem: &Problem, links: &[(usize, usize)], page: &mut String) {
    let finding = &problem.finding;
    let place = match finding.path.is_empty() {
        true => String::new(),
        false => filled("problem-place", &[("path", &Escaped(&finding.path))]),
    };
    let values: [(&str, &dyn Fill); 9] = [
        ("number", &number),
        ("class", &finding.severity.name()),
        ("severity", &severity(finding.severity)),
        ("rule", &finding.rule.id),
        ("message", &RuleText(&finding.message)),
        ("place", &Markup(&place)),
        ("remedy", &RuleText(finding.rule.remedy)),
        ("cites", &Escaped(finding.rule.cites)),
        ("links", &Markup(&problem_links(number, links))),
    ];
    fill(page, "problem", &values);
}

/// Links from a problem to its other occurrences.
fn problem_links(number: usize, links: &[(usize, usize)]) -> String {
    let in_list = number <= limits::TRACE_OVERVIEW_MAX;
    let mark = links.binary_search_by_key(&number, |link| link.0).ok().map(|at| links[at].1);
    if !in_list && mark.is_none() {
        return String::new();
    }
    let list = if in_list { filled("to-list", &[("number", &number)]) + " " } else { String::new() };
    let mark = mark.map_or(String::new(), |mark| filled("to-mark", &[("mark", &mark), ("number", &number)]));
    filled("problem-links", &[("list", &Markup(&list)), ("mark", &Markup(&mark))])
}
