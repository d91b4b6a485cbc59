//! RFC 3339 in UTC with exactly three fraction digits, and milliseconds since 1970.

use jiff::Timestamp;
use jiff::fmt::temporal::DateTimePrinter;

static PRINTER: DateTimePrinter = DateTimePrinter::new().precision(Some(3));

/// The largest instant that can be printed, in the last days of the year 9999.
pub const LAST_MS: u64 = 253_402_207_200_999;

/// `2026-05-03T10:23:45.123Z`. Instants after [`LAST_MS`] print as that.
pub fn format_ms(ms: u64) -> String {
    let clamped = i64::try_from(ms.min(LAST_MS)).unwrap_or(i64::MAX);
    let timestamp = Timestamp::from_millisecond(clamped).unwrap_or(Timestamp::MAX);
    let mut text = String::with_capacity(24);
    if PRINTER.print_timestamp(&timestamp, &mut text).is_err() {
        unreachable!("writing into a string does not fail");
    }
    text
}

/// Reads any RFC 3339 instant from 1970 on; finer digits are cut off.
pub fn parse_ms(text: &str) -> Option<u64> {
    let timestamp: Timestamp = text.parse().ok()?;
    u64::try_from(timestamp.as_millisecond()).ok()
}

/// Reads exactly what [`format_ms`] prints, and nothing else.
pub fn parse_stored_ms(text: &str) -> Option<u64> {
    parse_ms(text).filter(|ms| format_ms(*ms) == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_always() {
        assert_eq!(format_ms(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(format_ms(1_777_803_825_120), "2026-05-03T10:23:45.120Z");
        assert_eq!(format_ms(u64::MAX), format_ms(LAST_MS));
    }

    #[test]
    fn reads_what_it_prints_and_what_others_print() {
        assert_eq!(parse_ms(&format_ms(1_777_803_825_123)), Some(1_777_803_825_123));
        assert_eq!(parse_ms("2026-05-03T12:23:45.123456+02:00"), Some(1_777_803_825_123));
        assert_eq!(parse_ms("yesterday"), None);
        assert_eq!(parse_stored_ms("2026-05-03T10:23:45.120Z"), Some(1_777_803_825_120));
        for other in
            ["2026-05-03T10:23:45.12Z", "2026-05-03T10:23:45.120000Z", "2026-05-03T10:23:45.120+00:00"]
        {
            assert_eq!(parse_stored_ms(other), None, "{other}");
        }
        assert_eq!(parse_ms("1969-12-31T23:59:59Z"), None);
    }
}
