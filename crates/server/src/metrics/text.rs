//! OpenMetrics text, version 1.0.0: families, samples and the end mark. See [`MetricsPage`].

use std::fmt::Write as _;

use recount_log::Histogram;

pub(super) const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Powers of two that bound the buckets of times: 64 µs to 16.8 s. Values outside count in the nearest bucket.
const TIMES: std::ops::RangeInclusive<usize> = 6..=24;

/// The same of long times, in milliseconds: 1.024 s to 37 hours.
const LONG_TIMES: std::ops::RangeInclusive<usize> = 10..=27;

/// The same of whole numbers: 1 to 8191.
const WHOLES: std::ops::RangeInclusive<usize> = 1..=13;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
    Info,
}

/// The unit of a histogram, and how its values are printed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Scale {
    /// Microseconds, printed in seconds.
    Micros,
    /// Milliseconds, printed in seconds.
    Millis,
    /// Printed as they are.
    Whole,
}

#[derive(Default)]
pub(super) struct MetricsPage {
    text: String,
    family: &'static str,
}

impl MetricsPage {
    /// Begins a family; its samples follow.
    pub(super) fn family(&mut self, name: &'static str, kind: Kind, unit: Option<&str>, help: &str) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
            Kind::Info => "info",
        };
        self.family = name;
        self.line(format_args!("# TYPE {name} {kind}"));
        if let Some(unit) = unit {
            self.line(format_args!("# UNIT {name} {unit}"));
        }
        self.line(format_args!("# HELP {name} {help}"));
    }

    /// Adds a sample to the open family.
    pub(super) fn sample(&mut self, suffix: &str, labels: &[(&str, &str)], value: f64) {
        let label = |(name, value): &(&str, &str)| format!("{name}=\"{}\"", escaped(value));
        let labels: Vec<String> = labels.iter().map(label).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let family = self.family;
        self.line(format_args!("{family}{suffix}{labels} {}", number(value)));
    }

    pub(super) fn gauge(&mut self, name: &'static str, unit: Option<&str>, help: &str, value: f64) {
        self.family(name, Kind::Gauge, unit, help);
        self.sample("", &[], value);
    }

    pub(super) fn counter(&mut self, name: &'static str, unit: Option<&str>, help: &str, value: u64) {
        self.family(name, Kind::Counter, unit, help);
        self.sample("_total", &[], value as f64);
    }

    pub(super) fn histogram(&mut self, name: &'static str, scale: Scale, help: &str, values: &Histogram) {
        let unit = (scale != Scale::Whole).then_some("seconds");
        self.family(name, Kind::Histogram, unit, help);
        self.histogram_of(&[], scale, values);
    }

    /// Adds a histogram to the open family.
    pub(super) fn histogram_of(&mut self, labels: &[(&str, &str)], scale: Scale, values: &Histogram) {
        let (powers, unit) = match scale {
            Scale::Micros => (TIMES, 1e6),
            Scale::Millis => (LONG_TIMES, 1e3),
            Scale::Whole => (WHOLES, 1.0),
        };
        let mut below: u64 = values.counts[..*powers.start()].iter().sum();
        let buckets = powers.map(|power| {
            below += values.counts[power];
            let bound = (1_u64 << power) as f64;
            (if scale == Scale::Whole { bound - 1.0 } else { bound / unit }, below)
        });
        self.buckets(labels, buckets, values.count(), values.sum as f64 / unit);
    }

    /// Adds a histogram to the open family. `buckets`: bounds, and the values up to each.
    pub(super) fn buckets(
        &mut self,
        labels: &[(&str, &str)],
        buckets: impl Iterator<Item = (f64, u64)>,
        count: u64,
        sum: f64,
    ) {
        let mut bucket = |bound: &str, below: u64| {
            self.sample("_bucket", &[labels, &[("le", bound)]].concat(), below as f64);
        };
        for (bound, below) in buckets {
            // Always with a point and never with an exponent, so that each bound has one spelling.
            let point = if bound.fract() == 0.0 { ".0" } else { "" };
            bucket(&format!("{bound}{point}"), below);
        }
        bucket("+Inf", count);
        self.sample("_count", labels, count as f64);
        self.sample("_sum", labels, sum);
    }

    pub(super) fn finish(mut self) -> String {
        self.line(format_args!("# EOF"));
        self.text
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.text, "{line}").expect("writing to a string cannot fail");
    }
}

/// A label value as it is between quotes.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Whole numbers without a point, others as short as possible.
fn number(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 { format!("{value:.0}") } else { format!("{value}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_add_up_and_what_is_outside_is_in_the_nearest() {
        let mut values = Histogram::default();
        for value in [0, 1, 63, 64, 1_000_000, u64::from(u32::MAX) * 4] {
            values.note(value);
        }
        let mut page = MetricsPage::default();
        page.histogram("a_seconds", Scale::Micros, "Times.", &values);
        let text = page.finish();
        for line in [
            "# TYPE a_seconds histogram",
            "# UNIT a_seconds seconds",
            "a_seconds_bucket{le=\"0.000064\"} 3",
            "a_seconds_bucket{le=\"0.000128\"} 4",
            "a_seconds_bucket{le=\"1.048576\"} 5",
            "a_seconds_bucket{le=\"16.777216\"} 5",
            "a_seconds_bucket{le=\"+Inf\"} 6",
            "a_seconds_count 6",
        ] {
            assert!(text.lines().any(|there| there == line), "{line}\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
        let mut page = MetricsPage::default();
        page.histogram("b", Scale::Whole, "Numbers.", &values);
        let text = page.finish();
        assert!(
            text.contains("b_bucket{le=\"1.0\"} 2\n") && text.contains("b_bucket{le=\"63.0\"} 3\n"),
            "{text}"
        );
    }
    #[test]
    fn label_values_are_escaped() {
        let mut page = MetricsPage::default();
        page.family("a", Kind::Gauge, None, "Values.");
        page.sample("", &[("model", "a \"b\"\\\n")], 1.0);
        assert!(page.finish().contains("a{model=\"a \\\"b\\\"\\\\\\n\"} 1\n"));
    }
}
