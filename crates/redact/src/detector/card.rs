//! Detects numbers of payment cards: 13 to 19 digits that some network issues, with the right check digit,
//! contiguous or in groups as on a card. Not a part of a longer number, of an id or of a fraction.

use crate::limits::SHOWN_DIGITS_MAX;
use crate::scan::{Candidate, Verdict, Window};

const DIGITS_MIN: usize = 13;
const DIGITS_MAX: usize = 19;

/// How digits are grouped on cards.
const GROUPS: &[&[usize]] = &[&[4, 4, 4, 4], &[4, 6, 5], &[4, 6, 4], &[4, 4, 4, 4, 3]];

/// Every so many bytes two are checked: one of them is a digit in every card number.
const STRIDE: usize = DIGITS_MIN - 1;

/// Passes every place where such a number is or may be to a closure.
pub(crate) fn each(window: &Window<'_>, mut visit: impl FnMut(Candidate) -> bool) {
    let bytes = window.bytes;
    let mut at = window.from;
    let mut passed = window.from;
    while at < bytes.len() {
        let two = bytes[at].is_ascii_digit() || bytes.get(at + 1).is_some_and(u8::is_ascii_digit);
        if !two {
            at += STRIDE;
            continue;
        }
        let begin = first_of(window, at, passed);
        let mut end = at + 1;
        while end < bytes.len() && (part(bytes[end]) || window.is_masked(end)) {
            end += 1;
        }
        // A shorter one that has ended holds none.
        if (end - begin >= DIGITS_MIN || end == bytes.len()) && !within(window, begin, end, &mut visit) {
            return;
        }
        passed = end;
        at = end + 1;
    }
    // A short number may continue in the next piece.
    if !window.ended && passed < bytes.len() {
        let begin = first_of(window, bytes.len(), passed);
        within(window, begin, bytes.len(), &mut visit);
    }
}

/// Digits, and what may be between groups of them.
fn part(byte: u8) -> bool {
    byte.is_ascii_digit() || matches!(byte, b' ' | b'-')
}

/// Where the digits before a place begin.
fn first_of(window: &Window<'_>, at: usize, least: usize) -> usize {
    let mut begin = at;
    while begin > least && (part(window.bytes[begin - 1]) || window.is_masked(begin - 1)) {
        begin -= 1;
    }
    begin
}

/// Passes the numbers among these digits to a closure; returns whether to continue.
fn within(window: &Window<'_>, begin: usize, end: usize, visit: &mut impl FnMut(Candidate) -> bool) -> bool {
    for at in begin..end {
        let first = window.bytes[at].is_ascii_digit() && (at == 0 || !window.bytes[at - 1].is_ascii_digit());
        if first {
            let verdict = look(window, at);
            let candidate = Candidate { at, named: at, verdict, stripped: false };
            if verdict != Verdict::No && !visit(candidate) {
                return false;
            }
        }
    }
    true
}

/// The number that begins with this digit.
fn look(window: &Window<'_>, at: usize) -> Verdict {
    if !is_separate_before(window, at) {
        return Verdict::No;
    }
    let digit = |byte: u8| byte.is_ascii_digit();
    let end = window.run(at, DIGITS_MAX + 1, digit);
    let count = end - at;
    if window.may_go_on(end) && count <= DIGITS_MAX {
        return open(window, at, end);
    }
    if count >= DIGITS_MIN {
        return judge(window, at, end);
    }
    let Some(separator @ (b' ' | b'-')) = window.get(end) else { return Verdict::No };
    if count != 4 {
        return Verdict::No;
    }
    let mut verdict = Verdict::No;
    for groups in GROUPS {
        match grouped(window, at, separator, groups) {
            // The longer form wins.
            found @ Verdict::Yes { .. } => verdict = found,
            found @ Verdict::Open { .. } if verdict == Verdict::No => verdict = found,
            _ => {}
        }
    }
    verdict
}

fn grouped(window: &Window<'_>, at: usize, separator: u8, groups: &[usize]) -> Verdict {
    let mut place = at;
    for (index, wanted) in groups.iter().enumerate() {
        if index > 0 {
            match window.get(place) {
                Some(byte) if byte == separator => place += 1,
                None if !window.ended => return open(window, at, place),
                _ => return Verdict::No,
            }
        }
        let end = window.run(place, wanted + 1, |byte| byte.is_ascii_digit());
        if window.may_go_on(end) && end - place <= *wanted {
            return open(window, at, end);
        }
        if end - place != *wanted {
            return Verdict::No;
        }
        place = end;
    }
    judge(window, at, place)
}

/// A possible number, or one if nothing follows. Its first digits are shown until it looks like one.
fn open(window: &Window<'_>, at: usize, end: usize) -> Verdict {
    let digits = digits_of(window, at, end);
    if !may_be_given_out(&digits[..digits.len().min(6)]) {
        return Verdict::No;
    }
    if is_given_out(&digits) && check_digit_fits(&digits) {
        return Verdict::Open { from: at };
    }
    let counted = (at..end).filter(|place| window.bytes[*place].is_ascii_digit() || window.is_masked(*place));
    Verdict::Open { from: counted.into_iter().nth(SHOWN_DIGITS_MAX).unwrap_or(window.len()) }
}

fn digits_of(window: &Window<'_>, at: usize, end: usize) -> Vec<u8> {
    window.bytes[at..end].iter().copied().filter(u8::is_ascii_digit).collect()
}

fn judge(window: &Window<'_>, at: usize, end: usize) -> Verdict {
    if !is_separate_after(window, end) {
        return Verdict::No;
    }
    let masked = (at..end).any(|place| window.is_masked(place));
    let digits = digits_of(window, at, end);
    if !may_be_given_out(&digits[..digits.len().min(6)]) {
        return Verdict::No;
    }
    let fits = masked || (is_given_out(&digits) && check_digit_fits(&digits));
    if !fits {
        return Verdict::No;
    }
    // The next bytes decide whether it is a part of something longer.
    if window.len() < end + 2 && !window.ended {
        return open(window, at, end);
    }
    Verdict::Yes { from: at, to: end, goes_on: false }
}

fn is_separate_before(window: &Window<'_>, at: usize) -> bool {
    let Some(before) = at.checked_sub(1).and_then(|at| window.get(at)) else { return true };
    let earlier = at.checked_sub(2).and_then(|at| window.get(at));
    let is_separate = match before {
        b'.' | b',' | b'/' => !earlier.is_some_and(|byte| byte.is_ascii_digit()),
        b'-' | b'+' => !earlier.is_some_and(|byte| byte.is_ascii_alphanumeric()),
        b'_' | b'#' | b'$' | b'%' | b'@' => false,
        _ => window.word_begins(at),
    };
    is_separate || window.escape_ends(at)
}

fn is_separate_after(window: &Window<'_>, end: usize) -> bool {
    let Some(after) = window.get(end) else { return true };
    let later = window.get(end + 1);
    match after {
        b'.' | b',' | b'/' => !later.is_some_and(|byte| byte.is_ascii_digit()),
        b'-' => !later.is_some_and(|byte| byte.is_ascii_alphanumeric()),
        b'_' | b'%' | b'@' => false,
        byte => !byte.is_ascii_alphanumeric(),
    }
}

/// The value of the first digits.
fn number(digits: &[u8], count: usize) -> u32 {
    digits[..count].iter().fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0'))
}

/// Whether some network's numbers begin like this, as far as is known.
fn may_be_given_out(digits: &[u8]) -> bool {
    match digits.len() {
        0 => true,
        1 => matches!(digits[0], b'2'..=b'6'),
        2 | 3 => matches!(number(digits, 2), 22..=27 | 30 | 34..=39 | 40..=49 | 50..=58 | 60..=69),
        _ => networks(digits).is_some(),
    }
}

/// How long the numbers of the network are that these first digits belong to.
fn networks(digits: &[u8]) -> Option<&'static [usize]> {
    let (two, three, four) = (number(digits, 2), number(digits, 3), number(digits, 4));
    Some(match (two, three, four) {
        (40..=49, ..) => &[13, 16, 19],
        (51..=55, ..) | (_, _, 2221..=2720) => &[16],
        (34 | 37, ..) => &[15],
        (_, 300..=305, _) | (36 | 38 | 39, ..) => &[14, 16],
        (_, _, 6011) | (_, 644..=649, _) | (65, ..) => &[16, 19],
        (_, _, 3528..=3589) => &[16],
        (62, ..) => &[16, 17, 18, 19],
        (50 | 56..=58 | 63 | 67, ..) => &[13, 15, 16, 18, 19],
        _ => return None,
    })
}

fn is_given_out(digits: &[u8]) -> bool {
    digits.len() >= DIGITS_MIN && networks(digits).is_some_and(|lengths| lengths.contains(&digits.len()))
}

fn check_digit_fits(digits: &[u8]) -> bool {
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(place, digit)| {
            let digit = u32::from(digit - b'0');
            match (place % 2, digit * 2) {
                (0, _) => digit,
                (_, double) if double > 9 => double - 9,
                (_, double) => double,
            }
        })
        .sum();
    // Numbers such as 4444 4444 4444 4444 are never issued.
    sum.is_multiple_of(10) && digits.iter().any(|digit| *digit != digits[0])
}
