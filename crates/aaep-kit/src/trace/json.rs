//! Writes a trace as JSON: one object, one entry per line. `docs/aaep/visualize.md` documents the fields; they are
//! only added to. Control characters are escaped.

use std::io::{self, Write};

use serde::Serialize;

use super::Options;
use super::aaep::kind::Kind;
use super::aaep::lex::time::Moment;
use super::model::{Entry, PartKind, Session, StatePeriod, Totals, Trace, TracePart};
use super::sentence::{Languages, PieceKind};
use super::shown::push_json;
use super::text::push_sentence;

#[derive(Serialize)]
struct Head<'t> {
    texts: u64,
    events: u64,
    messages: u64,
    unreadable: u64,
    sessions: u64,
    errors: u64,
    warnings: u64,
    notes: u64,
    texts_left_out: u64,
    problems_left_out: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    only_session: Option<&'t str>,
}

#[derive(Serialize)]
struct EntryOut<'t> {
    line: usize,
    at_ms: Option<i64>,
    #[serde(rename = "type")]
    kind: &'t str,
    event_id: Option<&'t str>,
    says: &'t str,
    texts: Vec<TextOut<'t>>,
    /// Numbers of findings.
    findings: Vec<usize>,
}

#[derive(Serialize)]
struct TextOut<'t> {
    text: &'t str,
    language: Option<&'t str>,
    direction: &'t str,
}

#[derive(Serialize)]
struct Span<'t> {
    name: &'t str,
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'t str>,
    from: Point,
    to: Option<Point>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<&'t str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pieces: Option<u32>,
}

#[derive(Serialize)]
struct Point {
    entry: u32,
    line: usize,
    at_ms: Option<i64>,
}

#[derive(Serialize)]
struct FindingOut<'t> {
    number: usize,
    line: usize,
    session: Option<&'t str>,
    event_id: Option<&'t str>,
    rule: &'t str,
    severity: &'t str,
    source: &'t str,
    cites: &'t str,
    path: &'t str,
    message: &'t str,
    remedy: &'t str,
}

pub(super) fn write(trace: &Trace, options: &Options<'_>, out: &mut impl Write) -> io::Result<()> {
    let mut to = Lines { out, line: String::new() };
    to.literal("{\"trace\":1,\"file\":");
    to.value(&options.name)?;
    to.literal(",\"profile\":");
    to.value(&super::profile(options.profile))?;
    to.literal(",\"summary\":");
    to.value(&head(&trace.totals, options.session))?;
    to.literal(",\n\"sessions\":[");
    for (at, session) in trace.sessions.iter().enumerate() {
        to.literal(if at > 0 { ",\n" } else { "\n" });
        write_session(trace, session, &mut to)?;
    }
    to.literal("],\n\"outside\":[");
    write_entries(trace, &trace.outside, &mut to)?;
    to.literal("],\n\"findings\":[");
    for (at, problem) in trace.problems.iter().enumerate() {
        to.literal(if at > 0 { ",\n" } else { "\n" });
        let finding = &problem.finding;
        to.value(&FindingOut {
            number: at + 1,
            line: finding.line,
            session: problem.session.and_then(|at| Some(&*trace.sessions.get(at)?.id)),
            event_id: finding.event_id.as_deref(),
            rule: finding.rule.id,
            severity: finding.severity.name(),
            source: finding.rule.source.name(),
            cites: finding.rule.cites,
            path: &finding.path,
            message: &finding.message,
            remedy: finding.rule.remedy,
        })?;
    }
    to.literal("]}\n");
    to.flush(0)
}

fn head<'t>(totals: &Totals, only_session: Option<&'t str>) -> Head<'t> {
    let Totals { texts, events, messages, unreadable, sessions, errors, warnings, notes, .. } = *totals;
    let Totals { texts_left_out, problems_left_out, .. } = *totals;
    Head {
        texts,
        events,
        messages,
        unreadable,
        sessions,
        errors,
        warnings,
        notes,
        texts_left_out,
        problems_left_out,
        only_session,
    }
}

fn write_session<W: Write>(trace: &Trace, session: &Session, to: &mut Lines<'_, W>) -> io::Result<()> {
    to.literal("{\"id\":");
    to.value(&session.id)?;
    to.literal(",\"producers\":");
    to.value(&session.producers.iter().map(|producer| &*producer.id).collect::<Vec<_>>())?;
    to.literal(",\"began\":");
    to.value(&session.began.map(|micros| Moment::write(micros.div_euclid(1_000))))?;
    to.literal(",\"lasted_ms\":");
    to.value(&session.lasted_ms())?;
    to.literal(",\"ending\":");
    to.value(&session.ending.map(ending))?;
    to.literal(",\"left_open\":");
    let open: Vec<String> =
        session.open_parts().map(|part| format!("{} {}", part.part_kind.name(), part.number)).collect();
    to.value(&open)?;
    let totals = &session.totals;
    to.literal(&format!(
        ",\"errors\":{},\"warnings\":{},\"notes\":{},\"findings\":",
        totals.errors, totals.warnings, totals.notes
    ));
    to.value(&session.problems.iter().map(|at| at + 1).collect::<Vec<_>>())?;
    to.literal(",\n\"lanes\":[");
    for (state_periods, producer) in session.state_periods().into_iter().zip(&session.producers) {
        to.literal("{\"lane\":\"state\",\"producer\":");
        to.value(&producer.id)?;
        to.literal(",\"spans\":[");
        write_spans(state_periods.into_iter().map(|state_period| state_span(session, state_period)), to)?;
        to.literal("]},\n");
    }
    for (at, (lane, part_kind)) in
        [("tools", PartKind::Call), ("prompts", PartKind::Prompt), ("outputs", PartKind::Output)]
            .into_iter()
            .enumerate()
    {
        to.literal(if at > 0 { ",\n" } else { "" });
        to.literal(&format!("{{\"lane\":\"{lane}\",\"spans\":["));
        let parts = session.parts.iter().filter(|part| part.part_kind == part_kind);
        write_spans(parts.map(|part| part_span(session, part)), to)?;
        to.literal("]}");
    }
    to.literal("],\n\"entries\":[");
    write_entries(trace, &session.entries, to)?;
    to.literal("]}");
    Ok(())
}

pub(super) fn ending(kind: Kind) -> &'static str {
    kind.name().rsplit('.').next().unwrap_or_default()
}

fn write_spans<'t, W: Write>(spans: impl Iterator<Item = Span<'t>>, to: &mut Lines<'_, W>) -> io::Result<()> {
    for (at, span) in spans.enumerate() {
        to.literal(if at > 0 { ",\n" } else { "" });
        to.value(&span)?;
    }
    Ok(())
}

fn point(session: &Session, entry: u32) -> Point {
    let found = session.entries.get(entry as usize);
    Point { entry, line: found.map_or(0, |found| found.line), at_ms: found.and_then(|found| found.at_ms) }
}

fn state_span<'t>(session: &Session, state_period: &'t StatePeriod) -> Span<'t> {
    Span {
        name: &state_period.state,
        number: None,
        key: None,
        from: point(session, state_period.from),
        to: state_period.to.map(|to| point(session, to)),
        outcome: None,
        pieces: None,
    }
}

fn part_span<'t>(session: &Session, part: &'t TracePart) -> Span<'t> {
    Span {
        name: &part.label,
        number: Some(part.number),
        key: Some(&*part.key).filter(|key| !key.is_empty()),
        from: point(session, part.from),
        to: part.to.map(|to| point(session, to)),
        outcome: Some(part.outcome.word()),
        pieces: Some(part.pieces).filter(|_| part.part_kind == PartKind::Output),
    }
}

fn write_entries<W: Write>(trace: &Trace, entries: &[Entry], to: &mut Lines<'_, W>) -> io::Result<()> {
    let mut says = String::new();
    for (at, entry) in entries.iter().enumerate() {
        to.literal(if at > 0 { ",\n" } else { "\n" });
        says.clear();
        push_sentence(&entry.sentence, &mut says);
        to.value(&EntryOut {
            line: entry.line,
            at_ms: entry.at_ms,
            kind: entry.sentence.first(PieceKind::Type).unwrap_or(entry.what.name()),
            event_id: entry.sentence.first(PieceKind::Id),
            says: &says,
            texts: texts(&trace.languages, entry),
            findings: trace.of(entry).map(|(number, _)| number).collect(),
        })?;
    }
    Ok(())
}

fn texts<'t>(languages: &'t Languages, entry: &'t Entry) -> Vec<TextOut<'t>> {
    let texts = entry.sentence.body().filter(|(piece, ..)| *piece == PieceKind::Text);
    texts
        .map(|(_, language, text)| {
            let (language, direction) = languages.get(language);
            let language = Some(language).filter(|tag| !tag.is_empty());
            TextOut { text, language, direction: direction.word() }
        })
        .collect()
}

/// Buffers the output.
struct Lines<'w, W> {
    out: &'w mut W,
    line: String,
}

/// Bytes buffered before each write.
const FLUSH: usize = 64 * 1024;

impl<W: Write> Lines<'_, W> {
    fn literal(&mut self, words: &str) {
        self.line.push_str(words);
    }

    fn value(&mut self, value: &impl Serialize) -> io::Result<()> {
        let json = serde_json::to_string(value)?;
        push_json(&mut self.line, &json);
        self.flush(FLUSH)
    }

    fn flush(&mut self, least: usize) -> io::Result<()> {
        if self.line.len() >= least {
            self.out.write_all(self.line.as_bytes())?;
            self.line.clear();
        }
        Ok(())
    }
}
