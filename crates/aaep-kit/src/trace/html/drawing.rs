//! Draws the lanes of one session: the state of each producer, open calls, prompts and outputs, and broken rules. Each
//! text is one step, so that a long wait does not compress everything else.
//!
//! The size of a drawing is bounded: marks closer than [`NEAR`] are merged. The entries contain everything it shows,
//! so all but the links to problems is hidden from screen readers.

use super::super::model::{PartKind, PartOutcome, Session, Trace, TracePart};
use super::super::shown::{count, grouped, severity};
use super::super::time::span;
use super::escape::{push, push_plain};
use super::template::{Escaped, Fill, Markup, Plain, fill, filled};
use crate::limits;
use crate::trace::aaep::rule::Severity;
use crate::trace::text::{how_it_ended, put};

/// The least distance between the starts of two bars, dots, links, or times on the axis.
const NEAR: f64 = 4.0;
const NEAR_DOTS: f64 = 11.0;
const NEAR_LINKS: f64 = 26.0;
const NEAR_TIMES: f64 = 84.0;
/// A row with more bars is unreadable; its bars are merged until each is wide enough for its count.
const BARS_MAX: usize = 120;
const NEAR_IN_CROWDS: f64 = 112.0;
/// The width of a character.
const LETTER: f64 = 7.2;
/// The margins; on the right a link to a problem may extend halfway beyond the edge.
const LEFT: f64 = 2.0;
const RIGHT: f64 = 16.0;
const STEP_MAX: f64 = 104.0;
const BAR: f64 = 24.0;

/// A drawing, and its links to problems: pairs of problem and link numbers.
pub(super) struct Drawing {
    pub(super) svg: String,
    pub(super) links: Vec<(usize, usize)>,
    /// Whether marks were merged.
    pub(super) is_merged: bool,
}

/// A bar of a lane.
struct Bar {
    x: f64,
    end: f64,
    label: String,
    class: &'static str,
    /// Whether it has no end in the file.
    open: bool,
    count: usize,
}

struct LaneDrawing<'t> {
    session: &'t Session,
    step: f64,
    width: f64,
    y: f64,
    shapes: String,
    merged: bool,
}

pub(super) fn draw(trace: &Trace, session: &Session, number: usize) -> Drawing {
    let steps = f64::from(u32::try_from(session.entries.len().max(1)).unwrap_or(u32::MAX));
    #[expect(clippy::cast_precision_loss, reason = "it is a small number")]
    let most = limits::TRACE_WIDTH_MAX as f64 - LEFT - RIGHT;
    let step = (most / steps).min(STEP_MAX);
    let width = (step * steps + LEFT + RIGHT).max(260.0);
    let mut pen = LaneDrawing { session, step, width, y: 8.0, shapes: String::new(), merged: false };
    let (links, marks) = pen.problems(trace);
    let top = pen.y;
    pen.life();
    pen.states();
    for (part_kind, title) in
        [(PartKind::Call, "Calls"), (PartKind::Prompt, "Prompts"), (PartKind::Output, "Outputs")]
    {
        pen.parts(part_kind, title);
    }
    let bottom = pen.y;
    pen.axis();
    let LaneDrawing { y, shapes, merged, .. } = pen;
    let (mut words, mut pointers, mut links_to) = (String::new(), String::new(), String::new());
    describe(trace, session, &mut words);
    for mark in &marks {
        mark.pointer(top, bottom, &mut pointers);
        mark.link(trace, &mut links_to);
    }
    let values: [(&str, &dyn Fill); 8] = [
        ("width", &Escaped(&format!("{width:.0}"))),
        ("height", &Escaped(&format!("{y:.0}"))),
        ("number", &number),
        ("id", &Plain(&session.id)),
        ("words", &Markup(&words)),
        ("pointers", &Markup(&pointers)),
        ("shapes", &Markup(&shapes)),
        ("marks", &Markup(&links_to)),
    ];
    let svg = filled("svg", &values);
    Drawing { svg, links, is_merged: merged }
}

/// Writes a text description of the drawing.
fn describe(trace: &Trace, session: &Session, out: &mut String) {
    let texts = count(session.entries.len() as u64, "text", "texts");
    put(out, format_args!("One step for each of {texts}."));
    for (state_periods, producer) in
        session.state_periods().iter().zip(&session.producers).take(limits::TRACE_PRODUCERS_MAX)
    {
        if state_periods.is_empty() {
            continue;
        }
        out.push_str(" States of ");
        push_plain(out, &producer.id);
        out.push_str(": idle");
        for state_period in state_periods.iter().take(limits::TRACE_OVERVIEW_LINES_MAX) {
            out.push_str(", ");
            push_plain(out, &state_period.state);
        }
        let more = state_periods.len().saturating_sub(limits::TRACE_OVERVIEW_LINES_MAX);
        if more > 0 {
            put(out, format_args!(" and {more} more"));
        }
        out.push('.');
    }
    let number = |part_kind: PartKind| u64::from(session.counts[part_kind as usize]);
    put(
        out,
        format_args!(
            " {}, {}, {}.",
            count(number(PartKind::Call), "call", "calls"),
            count(number(PartKind::Prompt), "prompt", "prompts"),
            count(number(PartKind::Output), "output", "outputs")
        ),
    );
    let problems = session.entries.iter().map(|entry| trace.of(entry).count()).sum::<usize>();
    let problems = (problems + session.problems.len()) as u64;
    put(out, format_args!(" {} marked.", count(problems, "problem is", "problems are")));
    put(
        out,
        format_args!(" The session: {}. The account below says the same in words.", how_it_ended(session)),
    );
}

/// A link to a problem, or to the first of several close ones.
struct ProblemMark {
    x: f64,
    /// The number of the first problem, and the count.
    first: usize,
    count: usize,
    worst: Severity,
}

impl ProblemMark {
    fn class(&self) -> &'static str {
        match self.worst {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        }
    }

    fn pointer(&self, top: f64, bottom: f64, out: &mut String) {
        let (class, top) = (self.class(), top - 4.0);
        fill(out, "pointer", &[("class", &class), ("x", &self.x), ("top", &top), ("bottom", &bottom)]);
    }

    fn link(&self, trace: &Trace, out: &mut String) {
        let mut label = String::new();
        // The visible text comes first, so that voice control can name the link.
        if self.count > 1 {
            put(&mut label, format_args!("{}×: ", self.count));
        }
        if let Some(problem) = trace.problems.get(self.first - 1) {
            let finding = &problem.finding;
            let (severity, rule) = (severity(finding.severity), finding.rule.id);
            put(&mut label, format_args!("{severity} {rule} in line {}", finding.line));
        }
        if self.count > 1 {
            put(&mut label, format_args!(" and {} more", self.count - 1));
        }
        // The shape also shows the severity: a diamond, a triangle, a circle.
        let (form, y) = match self.worst {
            Severity::Error => ("mark-error", 22.5),
            Severity::Warning => ("mark-warning", 26.5),
            Severity::Note => ("mark-note", 22.5),
        };
        let form = filled(form, &[("x", &self.x)]);
        let words = if self.count > 1 { format!("{}×", self.count) } else { "!".to_owned() };
        let values: [(&str, &dyn Fill); 7] = [
            ("first", &self.first),
            ("class", &self.class()),
            ("label", &Plain(&label)),
            ("form", &Markup(&form)),
            ("x", &self.x),
            ("y", &y),
            ("words", &Escaped(&words)),
        ];
        fill(out, "mark", &values);
    }
}

impl LaneDrawing<'_> {
    /// The middle of a step.
    fn at(&self, entry: u32) -> f64 {
        LEFT + (f64::from(entry) + 0.5) * self.step
    }

    fn end(&self) -> f64 {
        self.width - RIGHT
    }

    /// Collects the problems before anything is drawn: their pointers lie below the bars.
    fn problems(&mut self, trace: &Trace) -> (Vec<(usize, usize)>, Vec<ProblemMark>) {
        let mut links = Vec::new();
        let mut marks: Vec<ProblemMark> = Vec::new();
        let mut add = |x: f64, number: usize, grave: Severity| {
            match marks.last_mut() {
                Some(last) if x - last.x < NEAR_LINKS => {
                    last.count += 1;
                    last.worst = last.worst.max(grave);
                }
                _ => marks.push(ProblemMark { x, first: number, count: 1, worst: grave }),
            }
            links.push((number, marks.last().map_or(number, |mark| mark.first)));
        };
        for (entry, at) in self.session.entries.iter().zip(0..) {
            for (number, problem) in trace.of(entry) {
                add(self.at(at), number, problem.finding.severity);
            }
        }
        for at in &self.session.problems {
            if let Some(problem) = trace.problems.get(*at) {
                add(self.end(), at + 1, problem.finding.severity);
            }
        }
        if !marks.is_empty() {
            self.y = 42.0;
        }
        (links, marks)
    }

    /// Writes the name of a lane.
    fn lane(&mut self, name: &dyn Fill) {
        self.y += 20.0;
        fill(&mut self.shapes, "lane", &[("y", &(self.y - 6.0)), ("name", name)]);
    }

    /// Draws the session: from its first text to its last, with a dot for each.
    fn life(&mut self) {
        self.lane(&"Session");
        let is_open = self.session.ending.is_none();
        let last = u32::try_from(self.session.entries.len().saturating_sub(1)).unwrap_or(u32::MAX);
        let end = if is_open { self.end() } else { self.at(last) };
        let (x, y) = (self.at(0), self.y + BAR / 2.0);
        let class = match how_it_ended(self.session) {
            "completed" => "life good",
            "ended with an error" => "life bad",
            _ => "life",
        };
        let dashed = if is_open { " open" } else { "" };
        let values: [(&str, &dyn Fill); 5] =
            [("class", &class), ("open", &dashed), ("x", &x), ("y", &y), ("end", &end)];
        fill(&mut self.shapes, "life", &values);
        let mut before = f64::NEG_INFINITY;
        for at in 0..=last {
            let x = self.at(at);
            if x - before < NEAR_DOTS {
                self.merged = true;
                continue;
            }
            if at == last && !is_open {
                break;
            }
            before = x;
            fill(&mut self.shapes, "dot", &[("x", &x), ("y", &y)]);
        }
        if !is_open {
            fill(&mut self.shapes, "life-end", &[("class", &class), ("end", &end), ("y", &(y - 8.0))]);
        }
        self.y += BAR + 6.0;
    }

    fn states(&mut self) {
        let session = self.session;
        let state_periods = session.state_periods();
        for (state_periods, producer) in
            state_periods.iter().zip(&session.producers).take(limits::TRACE_PRODUCERS_MAX)
        {
            if state_periods.is_empty() {
                continue;
            }
            let mut name = "States of ".to_owned();
            push(&mut name, &producer.id);
            self.lane(&Markup(&name));
            let mut bars = Vec::new();
            let idle = Bar {
                x: self.at(0),
                end: self.at(state_periods[0].from),
                label: "idle".to_owned(),
                class: "s-idle",
                open: false,
                count: 1,
            };
            if idle.end > idle.x {
                bars.push(idle);
            }
            for state_period in state_periods {
                let end = state_period.to.map_or(self.end(), |to| self.at(to));
                let (x, open) = (self.at(state_period.from), state_period.to.is_none());
                let label = state_period.state.to_string();
                bars.push(Bar { x, end, label, class: state_class(&state_period.state), open, count: 1 });
            }
            self.bars(bars, "states");
            self.y += BAR + 6.0;
        }
        let more = session.producers.len().saturating_sub(limits::TRACE_PRODUCERS_MAX);
        if more > 0 {
            let more = count(more as u64, "producer", "producers");
            self.lane(&Escaped(&format!("{more} more, in the account")));
        }
    }

    fn parts(&mut self, part_kind: PartKind, title: &'static str) {
        let session = self.session;
        let mut rows: Vec<(u32, Vec<Bar>)> = Vec::new();
        for part in session.parts.iter().filter(|part| part.part_kind == part_kind) {
            let free = rows.iter().position(|row| row.0 <= part.from);
            let bar = self.part(part);
            let end = part.to.unwrap_or(u32::MAX);
            match free {
                Some(row) => {
                    rows[row].0 = end;
                    rows[row].1.push(bar);
                }
                None if rows.len() < limits::TRACE_ROWS_MAX => rows.push((end, vec![bar])),
                None => {
                    if let Some(last) = rows.last_mut() {
                        last.0 = last.0.max(end);
                        last.1.push(bar);
                    }
                }
            }
        }
        if rows.is_empty() {
            return;
        }
        self.lane(&title);
        for (_, bars) in rows {
            self.bars(bars, part_kind.plural());
            self.y += BAR + 4.0;
        }
        self.y += 2.0;
    }

    fn part(&self, part: &TracePart) -> Bar {
        let sign = match part.outcome.is_good() {
            Some(true) => " ✓",
            Some(false) => " ✗",
            None => "",
        };
        let how = match part.outcome {
            PartOutcome::Success | PartOutcome::Complete => "",
            other => other.word(),
        };
        let name = if part.label.is_empty() { part.part_kind.name() } else { &part.label };
        let mut label = format!("{name}{sign}");
        if !how.is_empty() {
            put(&mut label, format_args!(" {}", how.replace('_', " ")));
        }
        let class = match (part.outcome, part.outcome.is_good()) {
            (PartOutcome::Open, _) => "part",
            (_, Some(true)) => "part good",
            (_, Some(false)) => "part bad",
            (_, None) => "part",
        };
        let end = part.to.map_or(self.end(), |to| self.at(to));
        Bar { x: self.at(part.from), end, label, class, open: part.to.is_none(), count: 1 }
    }

    /// Draws bars in a row, merging close ones.
    fn bars(&mut self, bars: Vec<Bar>, many: &str) {
        let all = bars.len();
        let mut drawn = merge(bars, NEAR);
        if drawn.len() > BARS_MAX {
            drawn = merge(drawn, NEAR_IN_CROWDS);
        }
        self.merged |= drawn.len() < all;
        let y = self.y;
        let mut bars = drawn.into_iter().peekable();
        while let Some(bar) = bars.next() {
            let free = bars.peek().map_or(self.end(), |next| next.x);
            let wide = (bar.end - bar.x).max(NEAR - 1.0);
            let class = if bar.count > 1 { "many" } else { bar.class };
            let open = if bar.open { " open" } else { "" };
            let x = bar.x;
            let label =
                if bar.count > 1 { format!("{} {many}", grouped(bar.count as u64)) } else { bar.label };
            let values: [(&str, &dyn Fill); 6] = [
                ("class", &class),
                ("open", &open),
                ("x", &x),
                ("y", &y),
                ("wide", &wide),
                ("label", &Plain(&label)),
            ];
            fill(&mut self.shapes, "bar", &values);
            // Beside its bar, if it does not fit inside and the space is free.
            let inside = letters(&label) <= capacity(wide);
            let beside = free - (x + wide);
            if !inside && capacity(wide) < capacity(beside) {
                self.label(&label, " class=\"beside\"", x + wide, beside, y + 16.5);
            } else {
                self.label(&label, "", x, wide, y + 16.5);
            }
        }
    }

    /// Draws as much of a label as fits, or nothing.
    fn label(&mut self, label: &str, class: &'static str, x: f64, wide: f64, y: f64) {
        let (capacity, length) = (capacity(wide), letters(label));
        if capacity < 3 || (length > capacity && capacity < 5) {
            return;
        }
        let mut left = capacity.saturating_sub(1);
        let fits = |c: &char| {
            left = left.saturating_sub(letters(c.encode_utf8(&mut [0; 4])));
            left > 0
        };
        let words = match length <= capacity {
            true => label.to_owned(),
            false => label.chars().take_while(fits).collect::<String>() + "…",
        };
        let values: [(&str, &dyn Fill); 4] =
            [("class", &class), ("x", &(x + 5.0)), ("y", &y), ("words", &Plain(&words))];
        fill(&mut self.shapes, "label", &values);
    }

    /// Draws lines and times below the lanes.
    fn axis(&mut self) {
        let y = self.y + 4.0;
        let session = self.session;
        let (from, to) = (LEFT, self.end());
        fill(&mut self.shapes, "axis", &[("from", &from), ("y", &y), ("to", &to)]);
        let mut before = f64::NEG_INFINITY;
        for (entry, at) in session.entries.iter().zip(0..) {
            let x = self.at(at);
            if x - before < NEAR_TIMES || x + NEAR_TIMES / 2.0 > self.width {
                continue;
            }
            before = x;
            // The first time is at the edge of the drawing.
            let class = if x < NEAR_TIMES / 2.0 { "time first" } else { "time" };
            let below = y + 18.0;
            let values: [(&str, &dyn Fill); 5] =
                [("x", &x), ("y", &y), ("class", &class), ("below", &below), ("line", &entry.line)];
            fill(&mut self.shapes, "axis-line", &values);
            if let Some(ms) = entry.at_ms {
                let words = span(rounded(ms));
                let values: [(&str, &dyn Fill); 4] =
                    [("class", &class), ("x", &x), ("y", &(y + 33.0)), ("words", &Escaped(&words))];
                fill(&mut self.shapes, "axis-time", &values);
            }
        }
        self.y = y + 42.0;
    }
}

/// A time with as many parts as fit below the axis.
fn rounded(ms: i64) -> i64 {
    let part = match ms.unsigned_abs() {
        0..60_000 => 1,
        60_000..3_600_000 => 1_000,
        _ => 60_000,
    };
    ms / part * part
}

/// Merges bars that start close to each other.
fn merge(bars: Vec<Bar>, near: f64) -> Vec<Bar> {
    let mut merged: Vec<Bar> = Vec::new();
    for bar in bars {
        match merged.last_mut() {
            Some(last) if bar.x - last.x < near => {
                last.end = last.end.max(bar.end);
                last.count += bar.count;
                last.open |= bar.open;
            }
            _ => merged.push(bar),
        }
    }
    merged
}

/// How many letters fit.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is small and not negative")]
fn capacity(wide: f64) -> usize {
    ((wide - 10.0).max(0.0) / LETTER) as usize
}

/// The width of a label in letters: East Asian characters count as two.
fn letters(label: &str) -> usize {
    label.chars().map(|c| if c >= '\u{1100}' { 2 } else { 1 }).sum()
}

/// The style class of a state; states outside the protocol share one.
pub(super) fn state_class(state: &str) -> &'static str {
    match state {
        "idle" => "s-idle",
        "thinking" => "s-thinking",
        "calling_tool" => "s-calling",
        "writing_output" => "s-writing",
        "awaiting_input" => "s-awaiting",
        "deciding" => "s-deciding",
        "handing_off" => "s-handing",
        _ => "s-other",
    }
}
