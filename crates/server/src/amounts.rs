//! Lengths of time and sizes as people write them: `30d`, `12h`, `5GiB`. A bare number is seconds, or bytes.

use std::time::Duration;

/// A length of time: a whole number of `s`, `m`, `h` or `d`.
pub fn duration(text: &str) -> Option<Duration> {
    let seconds = amount(text, &[("s", 1), ("m", 60), ("h", 60 * 60), ("d", 24 * 60 * 60)])?;
    Some(Duration::from_secs(seconds))
}

/// A size: a whole number of `B`, `KiB`, `MiB`, `GiB` or `TiB`.
pub fn bytes(text: &str) -> Option<u64> {
    amount(text, &[("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40)])
}

/// The same backwards: a size in the largest unit that it is a whole number of.
pub fn sized(bytes: u64) -> String {
    let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let fits = units.iter().find(|(_, shift)| bytes > 0 && bytes.trailing_zeros() >= *shift);
    fits.map_or_else(|| format!("{bytes}B"), |(unit, shift)| format!("{}{unit}", bytes >> shift))
}

fn amount(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let times = match unit {
        // A number alone could mean anything, except nothing.
        "" if number.parse() == Ok(0u64) => 1,
        unit => units.iter().find(|(name, _)| *name == unit)?.1,
    };
    number.parse::<u64>().ok()?.checked_mul(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_whole_numbers_with_a_unit() {
        for (text, seconds) in
            [("0", 0), ("0s", 0), ("90s", 90), ("2m", 120), ("12h", 43_200), ("7d", 604_800)]
        {
            assert_eq!(duration(text), Some(Duration::from_secs(seconds)), "{text}");
        }
        for (text, size) in [("0", 0), ("5B", 5), ("2KiB", 2048), ("5GiB", 5 << 30), ("1TiB", 1 << 40)] {
            assert_eq!(bytes(text), Some(size), "{text}");
            assert_eq!(bytes(&sized(size)), Some(size), "{text}");
        }
        for bad in
            ["", "3", "90", "d", "-1d", "1.5h", "1 d", "1w", "1D", "99999999999999999999", "300000000000000d"]
        {
            assert_eq!(duration(bad), None, "{bad}");
        }
        for bad in ["", "5", "GiB", "1GB", "1gib", "99999999999TiB"] {
            assert_eq!(bytes(bad), None, "{bad}");
        }
    }
}
