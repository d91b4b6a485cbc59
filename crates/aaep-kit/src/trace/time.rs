//! Formats durations in words for reading aloud.

use std::fmt::Write;

/// `0 s`, `1.5 s`, `2 min 5 s`, `1 h 2 min`; `minus` precedes negative ones.
pub(super) fn span(ms: i64) -> String {
    let mut out = String::new();
    write_span(&mut out, ms);
    out
}

pub(super) fn write_span(out: &mut String, ms: i64) {
    if ms < 0 {
        out.push_str("minus ");
    }
    let ms = ms.unsigned_abs();
    let (hours, minutes) = (ms / 3_600_000, ms / 60_000 % 60);
    let (seconds, rest) = (ms / 1_000 % 60, ms % 1_000);
    if hours > 0 {
        put(out, format_args!("{hours} h"));
    }
    if minutes > 0 {
        put(out, format_args!("{}{minutes} min", if hours > 0 { " " } else { "" }));
    }
    let before = hours > 0 || minutes > 0;
    if before && seconds == 0 && rest == 0 {
        return;
    }
    put(out, format_args!("{}{seconds}", if before { " " } else { "" }));
    if rest > 0 {
        let digits = format!("{rest:03}");
        put(out, format_args!(".{}", digits.trim_end_matches('0')));
    }
    out.push_str(" s");
}

fn put(out: &mut String, words: std::fmt::Arguments<'_>) {
    out.write_fmt(words).expect("writing to a string cannot fail");
}

/// The time of a text in its session: `after 3 s`.
pub(super) fn write_when(out: &mut String, at_ms: Option<i64>) {
    match at_ms {
        None => out.push_str("at an unknown time"),
        Some(ms) if ms < 0 => {
            write_span(out, ms.saturating_neg());
            out.push_str(" before the start");
        }
        Some(ms) => {
            out.push_str("after ");
            write_span(out, ms);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_as_spoken() {
        for (ms, words) in [
            (0, "0 s"),
            (7, "0.007 s"),
            (1_500, "1.5 s"),
            (60_000, "1 min"),
            (125_040, "2 min 5.04 s"),
            (3_600_000, "1 h"),
            (3_720_000, "1 h 2 min"),
            (3_600_001, "1 h 0.001 s"),
            (-1_000, "minus 1 s"),
        ] {
            assert_eq!(span(ms), words);
        }
        // The extreme values that a file can contain.
        assert!(span(i64::MIN).starts_with("minus 2562047788015 h"));
    }
}
