//! The result sheet: all figures, and their medians, spread, and whether bars are met.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context as _, Result};
use serde::Serialize;

use crate::histogram::Histogram;

/// One figure, and its bar.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SheetRow {
    pub(crate) key: &'static str,
    pub(crate) what: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) bar: Bar,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) enum Bar {
    /// Ours over the yardstick's.
    RatioAtLeast(f64),
    RatioAtMost(f64),
    /// Ours alone.
    AtLeast(f64),
    AtMost(f64),
    /// Without a bar.
    None,
}

/// Smallest, middle and largest of some figures.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Spread {
    pub(crate) min: f64,
    pub(crate) median: f64,
    pub(crate) max: f64,
}

impl Spread {
    fn of(figures: &[f64]) -> Option<Spread> {
        let mut sorted = figures.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let half = sorted.len() / 2;
        let median =
            if sorted.len() % 2 == 1 { sorted[half] } else { (sorted[half - 1] + sorted[half]) / 2.0 };
        Some(Spread { min, median, max })
    }
}

/// The results of one line.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Outcome {
    pub(crate) key: &'static str,
    pub(crate) what: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) bar: Bar,
    pub(crate) pairs: usize,
    pub(crate) ours: Spread,
    pub(crate) yardstick: Option<Spread>,
    /// Of each pair by itself.
    pub(crate) ratio: Option<Spread>,
    pub(crate) met: Option<bool>,
}

/// Percentiles of a delay, for the plot.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Curve {
    pub(crate) name: String,
    /// Share of messages, and the milliseconds it did not pass.
    pub(crate) points: Vec<(f64, f64)>,
}

#[derive(Default)]
pub(crate) struct Sheet {
    ours: BTreeMap<&'static str, Vec<f64>>,
    yardsticks: BTreeMap<&'static str, Vec<f64>>,
    shares: BTreeMap<String, (Vec<f64>, f64)>,
    curves: BTreeMap<String, Histogram>,
    foreign: Vec<f64>,
    broken: Vec<String>,
    notes: Vec<String>,
}

impl Sheet {
    /// Records a figure and the yardstick's figure of the same minute.
    pub(crate) fn pair(&mut self, key: &'static str, ours: f64, yardstick: f64) {
        self.ours.entry(key).or_default().push(ours);
        self.yardsticks.entry(key).or_default().push(yardstick);
    }

    /// Records a figure without a yardstick.
    pub(crate) fn one(&mut self, key: &'static str, ours: f64) {
        self.ours.entry(key).or_default().push(ours);
    }

    /// Records the share of a raw limit that a yardstick reaches, and its minimum.
    pub(crate) fn share(&mut self, name: String, share: f64, least: f64) {
        self.shares.entry(name).or_insert_with(|| (Vec::new(), least)).0.push(share);
    }

    /// Records a requirement that is independent of speed; if it does not hold, the bench fails.
    pub(crate) fn must(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.broken.push(what());
        }
    }

    /// Records how many processors other programs kept busy during a pair.
    pub(crate) fn neighbours(&mut self, cores: f64) {
        self.foreign.push(cores);
    }

    pub(crate) fn foreign(&self) -> Option<Spread> {
        Spread::of(&self.foreign)
    }

    /// Records a note for the output.
    pub(crate) fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    pub(crate) fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    pub(crate) fn curve(&mut self, name: String, late: &Histogram) {
        self.curves.entry(name).or_default().merge(late);
    }

    pub(crate) fn curves(&self) -> Vec<Curve> {
        const SHARES: [f64; 12] = [0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9999, 1.0];
        let points =
            |late: &Histogram| SHARES.iter().map(|share| (*share, late.share_ns(*share) / 1e6)).collect();
        self.curves.iter().map(|(name, late)| Curve { name: name.clone(), points: points(late) }).collect()
    }

    /// The requirements that did not hold.
    pub(crate) fn broken(&self) -> &[String] {
        &self.broken
    }

    /// Yardsticks below their minimum share.
    pub(crate) fn straw_men(&self) -> Vec<String> {
        let reached = |shares: &[f64]| Spread::of(shares).map_or(0.0, |spread| spread.median);
        self.shares
            .iter()
            .filter(|(_, (shares, least))| reached(shares) < *least)
            .map(|(name, (shares, least))| {
                format!("{name} reached {:.2} of the raw limit; it must reach {least:.2}", reached(shares))
            })
            .collect()
    }

    pub(crate) fn shares(&self) -> Vec<(String, Spread, f64)> {
        let spread = |(name, (shares, least)): (&String, &(Vec<f64>, f64))| {
            Spread::of(shares).map(|spread| (name.clone(), spread, *least))
        };
        self.shares.iter().filter_map(spread).collect()
    }

    pub(crate) fn outcome(&self, line: &SheetRow) -> Result<Outcome> {
        let ours = self.ours.get(line.key).with_context(|| format!("{} was not measured", line.key))?;
        let yardstick = self.yardsticks.get(line.key);
        let ratios: Option<Vec<f64>> =
            yardstick.map(|theirs| ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect());
        let spread = Spread::of(ours).context("a figure without a number")?;
        let ratio = ratios.as_deref().and_then(Spread::of);
        let held = |of: Option<Spread>, good: &dyn Fn(f64) -> bool| of.map(|spread| good(spread.median));
        let met = match line.bar {
            Bar::RatioAtLeast(bar) => held(ratio, &|ratio| ratio >= bar),
            Bar::RatioAtMost(bar) => held(ratio, &|ratio| ratio <= bar),
            Bar::AtLeast(bar) => held(Some(spread), &|ours| ours >= bar),
            Bar::AtMost(bar) => held(Some(spread), &|ours| ours <= bar),
            Bar::None => None,
        };
        Ok(Outcome {
            key: line.key,
            what: line.what,
            unit: line.unit,
            bar: line.bar,
            pairs: ours.len(),
            ours: spread,
            yardstick: yardstick.and_then(|theirs| Spread::of(theirs)),
            ratio,
            met,
        })
    }
}

impl Bar {
    fn words(self) -> String {
        match self {
            Bar::RatioAtLeast(bar) => format!("ratio ≥ {bar}"),
            Bar::RatioAtMost(bar) => format!("ratio ≤ {bar}"),
            Bar::AtLeast(bar) => format!("≥ {}", figure(bar)),
            Bar::AtMost(bar) => format!("≤ {}", figure(bar)),
            Bar::None => "–".to_owned(),
        }
    }
}

/// Three significant digits.
pub(crate) fn figure(value: f64) -> String {
    match value.abs() {
        size if size >= 1e6 => format!("{:.2}M", value / 1e6),
        size if size >= 1e4 => format!("{:.0}k", value / 1e3),
        size if size >= 1e3 => format!("{:.2}k", value / 1e3),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.1 || size == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

fn spread(of: Spread) -> String {
    format!("{} / {} / {}", figure(of.min), figure(of.median), figure(of.max))
}

/// The outcomes as a table that people and pages can read.
pub(crate) fn table(outcomes: &[Outcome]) -> String {
    let mut text = String::from(
        "| what | unit | ours min / median / max | yardstick | ratio | bar | met |\n| --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for outcome in outcomes {
        let or_dash = |of: Option<Spread>| of.map_or("–".to_owned(), spread);
        let met = outcome.met.map_or("–", |met| if met { "yes" } else { "**no**" });
        writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {met} |",
            outcome.what,
            outcome.unit,
            spread(outcome.ours),
            or_dash(outcome.yardstick),
            or_dash(outcome.ratio),
            outcome.bar.words()
        )
        .expect("strings take what is written");
    }
    text
}

/// What the yardsticks reached of the raw limits.
pub(crate) fn share_table(shares: &[(String, Spread, f64)]) -> String {
    let mut text =
        String::from("| yardstick: of what | share min / median / max | least |\n| --- | --- | --- |\n");
    for (name, of, least) in shares {
        writeln!(text, "| {name} | {} | {least} |", spread(*of)).expect("strings take what is written");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: SheetRow = SheetRow { key: "k", what: "w", unit: "u", bar: Bar::RatioAtLeast(0.5) };

    fn met(bar: Bar, figures: &[(f64, f64)]) -> Option<bool> {
        let mut sheet = Sheet::default();
        for (ours, theirs) in figures {
            sheet.pair("k", *ours, *theirs);
        }
        sheet.outcome(&SheetRow { bar, ..LINE }).unwrap().met
    }

    #[test]
    fn a_bar_is_compared_with_the_median_of_the_pairs() {
        let figures = [(1.0, 4.0), (3.0, 4.0), (2.0, 4.0)];
        assert_eq!(met(Bar::RatioAtLeast(0.5), &figures), Some(true));
        assert_eq!(met(Bar::RatioAtLeast(0.51), &figures), Some(false));
        assert_eq!(met(Bar::RatioAtMost(0.49), &figures), Some(false));
        assert_eq!(met(Bar::AtLeast(2.0), &figures), Some(true));
        assert_eq!(met(Bar::AtMost(1.9), &figures), Some(false));
        assert_eq!(met(Bar::None, &figures), None);
    }

    #[test]
    fn a_line_without_a_measurement_is_an_error() {
        Sheet::default().outcome(&LINE).unwrap_err();
    }

    #[test]
    fn a_yardstick_below_its_share_is_named() {
        let mut sheet = Sheet::default();
        sheet.share("good".into(), 0.6, 0.5);
        sheet.share("lame".into(), 0.4, 0.5);
        assert_eq!(sheet.straw_men(), ["lame reached 0.40 of the raw limit; it must reach 0.50"]);
    }
}
