//! Plots of the results as SVG: each ratio with its bar, and the lateness of messages.

use std::fmt::Write as _;

use crate::sheet::{Bar, Curve, Outcome, figure};

const WIDTH: f64 = 960.0;
const LABELS: f64 = 470.0;
const ROW: f64 = 24.0;
const STYLE: &str =
    "<style>text{font:12px system-ui,sans-serif;fill:#222}.small{font-size:11px;fill:#555}</style>";
const MET: &str = "#1a7f4b";
const MISSED: &str = "#b3261e";
const COLOURS: [&str; 4] = ["#1f5fa8", "#b3261e", "#1a7f4b", "#7a4fa3"];

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

/// The ratio of each figure to its bar: 1 is the bar, and more is better.
pub(crate) fn ratios(outcomes: &[Outcome]) -> String {
    let rows: Vec<(&Outcome, [f64; 3])> =
        outcomes.iter().filter_map(|outcome| Some((outcome, against_bar(outcome)?))).collect();
    let height = 70.0 + rows.len() as f64 * ROW;
    let mut svg = open(height, "Each figure against its bar: on the right of the line it is met");
    let (low, high) = (0.05f64, 20.0f64);
    let place = |value: f64| {
        let share = (value.clamp(low, high) / low).ln() / (high / low).ln();
        LABELS + share * (WIDTH - LABELS - 20.0)
    };
    for mark in [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0] {
        let (x, bottom) = (place(mark), height - 34.0);
        let colour = if mark == 1.0 { "#222" } else { "#ddd" };
        write_line(&mut svg, (x, 30.0), (x, bottom), colour, 1.0);
        text(&mut svg, x, height - 18.0, "middle", "small", &format!("{mark}"));
    }
    text(&mut svg, LABELS, height - 3.0, "start", "small", "median and spread; logarithmic, 1 is the bar");
    for (at, (outcome, [min, median, max])) in rows.iter().enumerate() {
        let y = 46.0 + at as f64 * ROW;
        let colour = if outcome.met == Some(true) { MET } else { MISSED };
        text(&mut svg, LABELS - 8.0, y + 4.0, "end", "", outcome.what);
        write_line(&mut svg, (place(*min), y), (place(*max), y), colour, 3.0);
        let x = place(*median);
        let shape = if outcome.met == Some(true) {
            format!("<circle cx='{x:.1}' cy='{y:.1}' r='5' fill='{colour}'/>")
        } else {
            format!("<rect x='{:.1}' y='{:.1}' width='10' height='10' fill='{colour}'/>", x - 5.0, y - 5.0)
        };
        svg.push_str(&shape);
        svg.push('\n');
    }
    svg.push_str("</svg>\n");
    svg
}

/// Min, median and max in bars; more is better.
fn against_bar(outcome: &Outcome) -> Option<[f64; 3]> {
    let (of, bar, more_is_better) = match outcome.bar {
        Bar::RatioAtLeast(bar) => (outcome.ratio?, bar, true),
        Bar::RatioAtMost(bar) => (outcome.ratio?, bar, false),
        Bar::AtLeast(bar) => (outcome.ours, bar, true),
        Bar::AtMost(bar) => (outcome.ours, bar, false),
        Bar::None => return None,
    };
    let scale = |value: f64| if more_is_better { value / bar } else { bar / value.max(1e-9) };
    Some([scale(of.min), scale(of.median), scale(of.max)])
}

/// The delay within which a share of messages arrived.
pub(crate) fn delays(curves: &[Curve]) -> String {
    let height = 420.0;
    let mut svg = open(height, "Delay from when an event was due to its arrival, all pairs together");
    let worst = curves.iter().flat_map(|curve| &curve.points).map(|point| point.1).fold(1.0, f64::max);
    let best =
        curves.iter().flat_map(|curve| &curve.points).map(|point| point.1).fold(worst, f64::min).max(0.01);
    let (left, right, top, bottom) = (60.0, WIDTH - 230.0, 40.0, height - 50.0);
    // Shares by their distance from 1, so that rare delays are visible.
    let x = |share: f64| left + (-(1.0 - share).max(0.000_05).log10() / 4.31) * (right - left);
    let y = |ms: f64| bottom - (ms.max(best) / best).ln() / (worst / best).ln().max(0.1) * (bottom - top);
    for share in [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999] {
        write_line(&mut svg, (x(share), top), (x(share), bottom), "#ddd", 1.0);
        text(&mut svg, x(share), bottom + 16.0, "middle", "small", &format!("{} %", share * 100.0));
    }
    let mut mark = 10f64.powf(best.log10().floor());
    while mark <= worst * 1.5 {
        if mark >= best {
            write_line(&mut svg, (left, y(mark)), (right, y(mark)), "#ddd", 1.0);
            text(&mut svg, left - 6.0, y(mark) + 4.0, "end", "small", &format!("{} ms", figure(mark)));
        }
        mark *= 10.0;
    }
    for (at, curve) in curves.iter().enumerate() {
        let colour = COLOURS[at % COLOURS.len()];
        let points: Vec<String> =
            curve.points.iter().map(|(share, ms)| format!("{:.1},{:.1}", x(*share), y(*ms))).collect();
        let dash = if curve.name.contains("by hand") { " stroke-dasharray='5 4'" } else { "" };
        writeln!(
            svg,
            "<polyline points='{}' fill='none' stroke='{colour}' stroke-width='2'{dash}/>",
            points.join(" ")
        )
        .expect("strings take what is written");
        let line = top + 14.0 + at as f64 * 20.0;
        write_line(&mut svg, (right + 14.0, line - 4.0), (right + 40.0, line - 4.0), colour, 2.0);
        text(&mut svg, right + 46.0, line, "start", "", &curve.name);
    }
    text(&mut svg, left, height - 8.0, "start", "small", "share of messages that came within the delay");
    svg.push_str("</svg>\n");
    svg
}

fn open(height: f64, title: &str) -> String {
    format!(
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height}' role='img' aria-label='{title}'>\n\
         <title>{title}</title>{STYLE}\n<rect width='100%' height='100%' fill='#fff'/>\n\
         <text x='12' y='20'>{title}</text>\n"
    )
}

fn write_line(svg: &mut String, from: (f64, f64), to: (f64, f64), colour: &str, width: f64) {
    writeln!(
        svg,
        "<line x1='{:.1}' y1='{:.1}' x2='{:.1}' y2='{:.1}' stroke='{colour}' stroke-width='{width}'/>",
        from.0, from.1, to.0, to.1
    )
    .expect("strings take what is written");
}

fn text(svg: &mut String, x: f64, y: f64, anchor: &str, class: &str, words: &str) {
    writeln!(
        svg,
        "<text x='{x:.1}' y='{y:.1}' text-anchor='{anchor}' class='{class}'>{}</text>",
        escape(words)
    )
    .expect("strings take what is written");
}
