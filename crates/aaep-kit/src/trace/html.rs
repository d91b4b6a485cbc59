//! The trace as one page: it needs no network, no script and no other file, and says so in its own policy. Each session
//! has a drawing and, beside it, the same account as the text form; problems are linked from the drawing and from the
//! list at the top, and back.

mod drawing;
mod escape;

use std::io::{self, Write};

use super::Options;
use super::aaep::lex::time::Moment;
use super::model::{Entry, Problem, Session, Trace, What};
use super::shown::{count, grouped, problems, severity};
use super::text::{capital, ending, how_it_ended, push_left_open, put, sentence_of, summary};
use super::time::{span, write_when};
use crate::limits;
use drawing::Drawing;
use escape::{push, push_message, push_plain, push_sentence};

/// The page's style.
pub const STYLE: &str = include_str!("html/style.css");

/// The SHA-256 of [`STYLE`] in base64, by which the page's policy lets it in and nothing else.
pub const STYLE_SUM: &str = "ipkiS3KBaHrrnTGyTHTdYIAfiWuLgbemdSs8T4DAqg8=";

/// Bytes that are gathered before they are written.
const FLUSH: usize = 64 * 1024;

pub(super) fn write(trace: &Trace, options: &Options<'_>, out: &mut impl Write) -> io::Result<()> {
    let mut page = String::new();
    head(options, &mut page);
    skips(trace, &mut page);
    top(trace, options, &mut page);
    contents(trace, &mut page);
    page.push_str("<main id=\"main\">\n");
    overview(trace, &mut page);
    if !trace.outside.is_empty() {
        page.push_str("<section class=\"card\" aria-labelledby=\"outside\"><h2 id=\"outside\">Lines of no session</h2>\n");
        pages(trace, None, &trace.outside, &[], &mut page, out)?;
        page.push_str("</section>\n");
    }
    let drawn = which_are_drawn(trace);
    for (at, session) in trace.sessions.iter().enumerate() {
        write_session(trace, session, at, drawn[at], &mut page, out)?;
    }
    page.push_str("</main>\n<footer><p>A trace of the Agent Accessibility Event Protocol, made by Recount. ");
    page.push_str("Text in “quotes” comes from the file; signs that cannot be seen are shown as ");
    page.push_str("<span class=\"sign\">U+0000</span>.</p></footer>\n</body>\n</html>\n");
    flush(&mut page, out, 0)
}

fn flush(page: &mut String, out: &mut impl Write, least: usize) -> io::Result<()> {
    if page.len() >= least {
        out.write_all(page.as_bytes())?;
        page.clear();
    }
    Ok(())
}

fn head(options: &Options<'_>, page: &mut String) {
    page.push_str("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    put(
        page,
        format_args!(
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
             style-src 'sha256-{STYLE_SUM}'; base-uri 'none'; form-action 'none'\">\n"
        ),
    );
    page.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    page.push_str("<meta name=\"color-scheme\" content=\"light dark\">\n<title>Trace of ");
    push_plain(page, options.name);
    page.push_str("</title>\n<style>");
    page.push_str(STYLE);
    page.push_str("</style>\n</head>\n<body>\n");
}

fn skips(trace: &Trace, page: &mut String) {
    page.push_str("<nav aria-label=\"Skip\"><ul class=\"skips\">");
    if !trace.problems.is_empty() {
        page.push_str("<li><a href=\"#problems\">Skip to the problems</a></li>");
    }
    if !trace.sessions.is_empty() {
        page.push_str("<li><a href=\"#s1\">Skip to the first session</a></li>");
    }
    page.push_str("</ul></nav>\n");
}

fn top(trace: &Trace, options: &Options<'_>, page: &mut String) {
    page.push_str("<header><p class=\"kind\">AAEP session trace</p><h1>");
    push(page, options.name);
    page.push_str("</h1>\n<div class=\"tiles\">");
    let totals = &trace.totals;
    let tile = |number: u64, one: &str, many: &str, class: &str, page: &mut String| {
        let word = if number == 1 { one } else { many };
        let class = if number == 0 { "" } else { class };
        put(page, format_args!("<p class=\"tile {class}\"><b>{}</b> {word}</p>", grouped(number)));
    };
    tile(totals.events, "event", "events", "", page);
    tile(totals.sessions, "session", "sessions", "", page);
    tile(totals.errors, "error", "errors", "error", page);
    tile(totals.warnings, "warning", "warnings", "warning", page);
    tile(totals.notes, "note", "notes", "note", page);
    page.push_str("</div>\n<div class=\"summary\">");
    for sentence in summary(trace, options) {
        page.push_str("<p>");
        push(page, &sentence);
        page.push_str("</p>");
    }
    page.push_str("</div></header>\n");
}

fn contents(trace: &Trace, page: &mut String) {
    if trace.sessions.len() < 2 {
        return;
    }
    page.push_str("<nav class=\"card\" aria-labelledby=\"contents\"><h2 id=\"contents\">Sessions</h2>\n<ol class=\"contents\">");
    for (at, session) in trace.sessions.iter().enumerate().take(limits::TRACE_CONTENTS_MAX) {
        put(page, format_args!("<li><a href=\"#s{}\"><code>", at + 1));
        push(page, &session.id);
        put(page, format_args!("</code></a> {}, {}</li>", how_it_ended(session), problems(&session.totals)));
    }
    let more = trace.sessions.len().saturating_sub(limits::TRACE_CONTENTS_MAX);
    page.push_str("</ol>");
    if more > 0 {
        put(page, format_args!("<p>And {} more, below.</p>", grouped(more as u64)));
    }
    page.push_str("</nav>\n");
}

/// All problems together, in the order of the file.
fn overview(trace: &Trace, page: &mut String) {
    if trace.problems.is_empty() {
        return;
    }
    page.push_str("<section class=\"card\" aria-labelledby=\"problems\"><h2 id=\"problems\">Problems</h2>\n<ol class=\"overview\">");
    for (problem, number) in trace.problems.iter().zip(1..).take(limits::TRACE_OVERVIEW_MAX) {
        let finding = &problem.finding;
        put(page, format_args!("<li id=\"o{number}\" class=\"{}\">", finding.severity.name()));
        badge(problem, page);
        let line = finding.line;
        put(page, format_args!("<a href=\"#p{number}\">line {line}</a>"));
        if let Some(session) = problem.session.and_then(|at| trace.sessions.get(at))
            && trace.sessions.len() > 1
        {
            page.push_str(" in <code>");
            push(page, &session.id);
            page.push_str("</code>");
        }
        page.push_str(": ");
        push_message(page, &finding.message);
        page.push_str(".</li>\n");
    }
    page.push_str("</ol>");
    let more = trace.problems.len().saturating_sub(limits::TRACE_OVERVIEW_MAX);
    if more > 0 {
        put(page, format_args!("<p>And {more} more; each stands at its line.</p>"));
    }
    page.push_str("</section>\n");
}

fn badge(problem: &Problem, page: &mut String) {
    let finding = &problem.finding;
    let (class, word) = (finding.severity.name(), severity(finding.severity));
    put(
        page,
        format_args!("<strong class=\"badge {class}\">{word}</strong> <code>{}</code> ", finding.rule.id),
    );
}

/// Sessions with a drawing: those with problems first, while there are drawings left.
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
    // What is far down is laid out when it is reached.
    let far = if number > limits::TRACE_NEAR_SESSIONS { " far" } else { "" };
    put(
        page,
        format_args!(
            "<section class=\"card session{far}\" aria-labelledby=\"s{number}\"><h2 id=\"s{number}\">Session <code>"
        ),
    );
    push(page, &session.id);
    page.push_str("</code></h2>\n");
    facts(session, page);
    let drawing = drawn.then(|| drawing::draw(trace, session, number));
    if let Some(drawing) = &drawing {
        figure(session, drawing, number, page);
    } else {
        page.push_str("<p>This session has no drawing: there are too many sessions to draw them all.</p>");
    }
    put(page, format_args!("<h3 id=\"a{number}\">Account</h3>\n"));
    let links = drawing.as_ref().map_or(&[][..], |drawing| &drawing.links);
    pages(trace, Some(number), &session.entries, links, page, out)?;
    put(page, format_args!("<p class=\"end\"><strong>{}</strong> ", capital(&ending(session))));
    let mut open = String::new();
    push_left_open(session, &mut open);
    push(page, &open);
    put(page, format_args!(" {}.</p>\n", sentence_of(&session.totals)));
    for at in &session.problems {
        if let Some(problem) = trace.problems.get(*at) {
            push_problem(at + 1, problem, links, page);
        }
    }
    page.push_str("</section>\n");
    flush(page, out, FLUSH)
}

fn facts(session: &Session, page: &mut String) {
    page.push_str("<dl class=\"facts\">");
    let row = |name: &str, page: &mut String| put(page, format_args!("<div><dt>{name}</dt><dd>"));
    row(if session.producers.len() == 1 { "Producer" } else { "Producers" }, page);
    for (at, producer) in session.producers.iter().take(limits::TRACE_PRODUCERS_MAX).enumerate() {
        page.push_str(if at > 0 { ", <code>" } else { "<code>" });
        push(page, &producer.id);
        page.push_str("</code>");
    }
    match session.producers.len() {
        0 => page.push_str("none is named"),
        many if many > limits::TRACE_PRODUCERS_MAX => {
            put(page, format_args!(" and {} more", many - limits::TRACE_PRODUCERS_MAX));
        }
        _ => {}
    }
    page.push_str("</dd></div>");
    if let Some(began) = session.began {
        row("Began", page);
        let moment = Moment::write(began.div_euclid(1_000));
        put(page, format_args!("<time datetime=\"{moment}\">{moment}</time></dd></div>"));
    }
    if let Some(ms) = session.lasted_ms() {
        row("Lasted", page);
        put(page, format_args!("{}</dd></div>", span(ms)));
    }
    row("Ending", page);
    put(page, format_args!("{}</dd></div>", how_it_ended(session)));
    row("Problems", page);
    put(page, format_args!("{}</dd></div></dl>\n", problems(&session.totals)));
}

fn figure(session: &Session, drawing: &Drawing, number: usize, page: &mut String) {
    put(
        page,
        format_args!(
            "<h3 id=\"l{number}\">Lanes</h3>\n<figure><div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-labelledby=\"l{number}\">"
        ),
    );
    page.push_str(&drawing.svg);
    page.push_str("</div>\n<figcaption>One step for each line that belongs to the session, in their order; below are lines and times since its beginning.");
    if drawing.is_merged {
        page.push_str(" Marks that lie too near to each other are drawn as one.");
    }
    put(page, format_args!(" <a href=\"#a{number}\">The account</a> says the same in words."));
    page.push_str("</figcaption>");
    legend(session, page);
    page.push_str("</figure>\n");
}

/// The colours of the states, where their names may have no room.
fn legend(session: &Session, page: &mut String) {
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for stay in &session.states {
        let class = drawing::state_class(&stay.state);
        let name = if class == "s-other" { "another state" } else { &*stay.state };
        if !seen.iter().any(|(known, _)| *known == class) {
            seen.push((class, name));
        }
    }
    if seen.is_empty() {
        return;
    }
    page.push_str("<ul class=\"legend\" aria-hidden=\"true\">");
    for (class, name) in seen {
        put(
            page,
            format_args!(
                "<li><svg width=\"16\" height=\"16\"><rect class=\"bar {class}\" x=\"1\" y=\"1\" width=\"14\" height=\"14\" rx=\"4\"/></svg>{name}</li>"
            ),
        );
    }
    page.push_str("</ul>");
}

/// A list of texts; a long one in pages that open by themselves when something in them is linked to.
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
            page.push_str(if at == 0 { "<details open><summary>" } else { "<details><summary>" });
            let (first, last) = (some.first().map_or(0, |e| e.line), some.last().map_or(0, |e| e.line));
            let texts = count(some.len() as u64, "text", "texts");
            put(page, format_args!("Lines {first} to {last}: {texts}"));
            if bad > 0 {
                put(page, format_args!(", {}", count(bad as u64, "problem", "problems")));
            }
            page.push_str("</summary>\n");
        }
        page.push_str("<ol class=\"account\">\n");
        for entry in some {
            push_entry(trace, entry, session.is_some(), links, page);
            flush(page, out, FLUSH)?;
        }
        page.push_str(if paged { "</ol></details>\n" } else { "</ol>\n" });
    }
    Ok(())
}

fn push_entry(trace: &Trace, entry: &Entry, placed: bool, links: &[(usize, usize)], page: &mut String) {
    put(page, format_args!("<li class=\"{}\"><p class=\"when\">Line {}", class_of(entry.what), entry.line));
    if placed {
        page.push_str(" <span>");
        write_when(page, entry.at_ms);
        page.push_str("</span>");
    }
    page.push_str("</p><p>");
    push_sentence(page, &entry.said, &trace.tongues);
    page.push_str("</p>");
    for (number, problem) in trace.of(entry) {
        push_problem(number, problem, links, page);
    }
    page.push_str("</li>\n");
}

fn class_of(what: What) -> &'static str {
    use super::aaep::kind::Kind;
    match what {
        What::Event(Kind::StateChanged) => "k-state",
        What::Event(Kind::ToolInvoked | Kind::ToolCompleted) => "k-tool",
        What::Event(Kind::OutputStreaming) => "k-output",
        What::Event(Kind::AwaitingConfirmation | Kind::AwaitingClarification | Kind::HandoffRequested) => {
            "k-prompt"
        }
        What::Event(Kind::ProgressUpdated) | What::OtherEvent => "k-other",
        What::Event(_) => "k-life",
        What::Message(_) => "k-reply",
        What::Stranger | What::Unreadable => "k-bad",
    }
}

fn push_problem(number: usize, problem: &Problem, links: &[(usize, usize)], page: &mut String) {
    let finding = &problem.finding;
    put(page, format_args!("<div class=\"problem {}\" id=\"p{number}\"><p>", finding.severity.name()));
    badge(problem, page);
    push_message(page, &finding.message);
    if !finding.path.is_empty() {
        page.push_str(", at <code>");
        push(page, &finding.path);
        page.push_str("</code>");
    }
    page.push_str(".</p><p><b>What to do:</b> ");
    push_message(page, finding.rule.remedy);
    page.push_str(" <span class=\"cites\">");
    push(page, finding.rule.cites);
    page.push_str("</span></p>");
    let in_list = number <= limits::TRACE_OVERVIEW_MAX;
    let mark = links.binary_search_by_key(&number, |link| link.0).ok().map(|at| links[at].1);
    if in_list || mark.is_some() {
        page.push_str("<p class=\"back\">");
        if in_list {
            put(page, format_args!("<a href=\"#o{number}\">Problem {number} in the list</a> "));
        }
        if let Some(mark) = mark {
            put(page, format_args!("<a href=\"#m{mark}\">Problem {number} in the drawing</a>"));
        }
        page.push_str("</p>");
    }
    page.push_str("</div>");
}
