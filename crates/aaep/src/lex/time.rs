//! Parses and formats RFC 3339 times with full calendar checks. A leap second counts as the second before it. It must
//! not read a clock.

/// A point in time, with the number of its fractional digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Microseconds since 1970 in UTC.
    pub micros: i64,
    pub digits: usize,
}

impl Moment {
    /// Milliseconds since 1970 in UTC.
    pub fn millis(self) -> i64 {
        self.micros.div_euclid(1_000)
    }

    pub fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        if bytes.len() < 20 {
            return None;
        }
        let two = |at: usize| {
            let (tens, ones) = (bytes[at].wrapping_sub(b'0'), bytes[at + 1].wrapping_sub(b'0'));
            (tens < 10 && ones < 10).then_some(i64::from(tens) * 10 + i64::from(ones))
        };
        let marks = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
        if marks.iter().any(|(at, mark)| bytes[*at] != *mark) {
            return None;
        }
        let year = two(0)? * 100 + two(2)?;
        let (month, day, hour, minute, second) = (two(5)?, two(8)?, two(11)?, two(14)?, two(17)?);
        if !(1..=12).contains(&month)
            || day < 1
            || day > days_in(year, month)
            || hour > 23
            || minute > 59
            || second > 60
        {
            return None;
        }
        let mut at = 19;
        let mut fraction = 0;
        let mut digits = 0;
        if bytes[at] == b'.' {
            at += 1;
            while let Some(digit) = bytes.get(at).filter(|byte| byte.is_ascii_digit()) {
                if digits < 6 {
                    fraction = fraction * 10 + i64::from(digit - b'0');
                }
                digits += 1;
                at += 1;
            }
            if digits == 0 {
                return None;
            }
            for _ in digits..6 {
                fraction *= 10;
            }
        }
        let offset = match &bytes[at..] {
            [b'Z'] => 0,
            [sign @ (b'+' | b'-'), _, _, b':', _, _] => {
                let (hours, minutes) = (two(at + 1)?, two(at + 4)?);
                if hours > 23 || minutes > 59 {
                    return None;
                }
                (hours * 60 + minutes) * if *sign == b'-' { -60 } else { 60 }
            }
            _ => return None,
        };
        let seconds =
            days_since_1970(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second.min(59) - offset;
        Some(Moment { micros: seconds * 1_000_000 + fraction, digits })
    }

    /// Formats a time as `2026-05-24T14:22:11.342Z`. Times outside the years 0 to 9999 are clamped.
    pub fn write(millis: i64) -> String {
        const FIRST: i64 = -62_167_219_200_000;
        const LAST: i64 = 253_402_300_799_999;
        let millis = millis.clamp(FIRST, LAST);
        let (days, rest) = (millis.div_euclid(86_400_000), millis.rem_euclid(86_400_000));
        // Years start on the first of March, so that the leap day is the last day of a year.
        let shifted = days + 719_468;
        let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
        let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let moon = (5 * of_year + 2) / 153;
        let day = of_year - (153 * moon + 2) / 5 + 1;
        let month = if moon < 10 { moon + 3 } else { moon - 9 };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        let (hour, minute, second) = (rest / 3_600_000, rest / 60_000 % 60, rest / 1_000 % 60);
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", rest % 1_000)
    }
}

fn leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 => 28 + i64::from(leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year - 719_468
}

macro_rules! pattern {
    ($fraction:literal) => {
        concat!(
            "^(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)",
            "|02-(?:0[1-9]|1[0-9]|2[0-8]))",
            "|(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29)",
            "T(?:[01][0-9]|2[0-3]):[0-5][0-9]:(?:[0-5][0-9]|60)",
            $fraction,
            "(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])$"
        )
    };
}

/// The pattern of [`Moment::parse`] for JSON Schemas.
pub const MOMENT_PATTERN: &str = pattern!("(?:\\.[0-9]+)?");
/// The pattern with three or six fractional digits, or none.
pub const TIMESTAMP_PATTERN: &str = pattern!("(?:\\.(?:[0-9]{3}|[0-9]{6}))?");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_validated_against_the_calendar() {
        let millis = |text: &str| Moment::parse(text).map(Moment::millis);
        assert_eq!(millis("2026-05-24T14:22:11.342Z"), Some(1_779_632_531_342));
        assert_eq!(millis("2026-05-24T15:22:11.342+01:00"), Some(1_779_632_531_342));
        assert_eq!(millis("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(millis("1969-12-31T23:59:59.999999Z"), Some(-1));
        assert_eq!(millis("2016-12-31T23:59:60Z"), millis("2016-12-31T23:59:59Z"));
        assert!(millis("2024-02-29T00:00:00Z").is_some());
        for bad in [
            "May 24, 2026",
            "2026-13-01T00:00:00Z",
            "2026-02-29T00:00:00Z",
            "2100-02-29T00:00:00Z",
            "2026-05-24 14:22:11Z",
            "2026-05-24T14:22:11",
            "2026-05-24T24:00:00Z",
            "2026-05-24T14:22:11.Z",
            "2026-05-24T14:22:11z",
            "2026-05-24T14:22:11+0100",
            "2026-05-24T14:22:11Z\n",
            "",
        ] {
            assert_eq!(millis(bad), None, "{bad}");
        }
    }

    #[test]
    fn written_values_are_parsed_back() {
        for millis in [0, 1, 951_782_400_000, 951_868_799_999, 1_779_632_531_342, -1, 253_402_300_799_999] {
            assert_eq!(Moment::parse(&Moment::write(millis)).map(Moment::millis), Some(millis));
        }
        assert_eq!(Moment::write(i64::MAX), "9999-12-31T23:59:59.999Z");
        assert_eq!(Moment::write(i64::MIN), "0000-01-01T00:00:00.000Z");
    }
}
