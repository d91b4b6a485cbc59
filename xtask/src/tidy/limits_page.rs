//! Checks `docs/limits.md`: each constant that the page names exists, with the value on the page. In the files with
//! limits, each public constant has a comment that documents what happens when it is reached.
//!
//! The rule must not depend on the purpose of a limit. Start at [`check`].

use std::collections::BTreeMap;

use super::Report;
use super::tree::{Tree, crate_of};

const RULE: &str = "limits page";

/// The page of user-visible limits, as rows: what is limited, the value, what happens beyond it, the setting.
pub(super) const PAGE: &str = "docs/limits.md";

/// Constants by crate and name; a name may be in several modules of a crate.
type Constants = BTreeMap<(String, String), Vec<Constant>>;

struct Constant {
    line: usize,
    expression: String,
    is_documented: bool,
}

pub(super) fn check(tree: &Tree, report: &mut Report) {
    let mut constants = Constants::new();
    for (path, text) in &tree.texts {
        let Some(name) = crate_of(path).filter(|_| holds_limits(path)) else { continue };
        for (constant, found) in read_constants(text) {
            if !found.is_documented {
                let message = format!("`{constant}` does not document what happens when it is reached");
                report.refuse(path, found.line, RULE, message);
            }
            constants.entry((name.to_owned(), constant)).or_default().push(found);
        }
    }
    let Some(page) = tree.texts.get(PAGE) else {
        report.refuse(PAGE, 1, RULE, "is missing");
        return;
    };
    for (at, line) in page.lines().enumerate() {
        let Some(row) = line.strip_prefix("| ") else { continue };
        let mut cells = row.split(" | ");
        let (Some(limit), Some(value)) = (cells.next(), cells.next()) else { continue };
        let names = limit.split('`').skip(1).step_by(2);
        for (name, constant) in names.filter_map(|text| text.split_once("::")) {
            if let Err(reason) = compare(&constants, name, constant, value) {
                report.refuse(PAGE, at + 1, RULE, reason);
            }
        }
    }
}

fn holds_limits(path: &str) -> bool {
    path.contains("/src/")
        && (path.ends_with("/limits.rs") || path.contains("/limits/"))
        && path.ends_with(".rs")
}

fn compare(constants: &Constants, name: &str, constant: &str, cell: &str) -> Result<(), String> {
    let found = constants
        .get(&(name.to_owned(), constant.to_owned()))
        .ok_or_else(|| format!("`{name}::{constant}` is in no limits.rs"))?;
    let values: Vec<String> =
        found.iter().filter_map(|one| format_value(&one.expression, constant)).collect();
    // A constant that is computed from others cannot be compared.
    if values.is_empty() || values.iter().any(|value| contains_value(cell, value)) {
        return Ok(());
    }
    Err(format!("`{name}::{constant}` is {}, not {cell}", values.join(" or ")))
}

/// Whether the value is part of the text, and not of a longer number or word.
fn contains_value(text: &str, value: &str) -> bool {
    text.match_indices(value).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + value.len()..].chars().next();
        !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(char::is_alphanumeric)
    })
}

/// The public constants of a file, outside of its modules.
fn read_constants(text: &str) -> Vec<(String, Constant)> {
    let mut found = Vec::new();
    let mut is_documented = false;
    let mut lines = text.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        if line.starts_with("///") || line.starts_with("#[") {
            is_documented |= line.starts_with("///");
            continue;
        }
        let public = line.strip_prefix("pub const ").or(line.strip_prefix("pub(crate) const "));
        if let Some(rest) = public {
            let mut whole = rest.to_owned();
            while !whole.ends_with(';') {
                let Some((_, next)) = lines.next() else { break };
                whole.push(' ');
                whole.push_str(next.trim());
            }
            let split = whole.trim_end_matches(';').split_once(':');
            if let Some((name, (_, expression))) =
                split.and_then(|(name, rest)| Some((name, rest.split_once('=')?)))
            {
                let expression = expression.trim().to_owned();
                found.push((name.to_owned(), Constant { line: at + 1, expression, is_documented }));
            }
        }
        is_documented = false;
    }
    found
}

/// Formats a value for people: `64 KiB`, `15 s`, `20000`. `None` if the expression is more than plain numbers.
fn format_value(expression: &str, name: &str) -> Option<String> {
    let plain = expression.replace('_', "");
    let number = |text: &str| -> Option<u64> {
        if let Some((base, shift)) = text.split_once("<<") {
            return base.trim().parse::<u64>().ok()?.checked_shl(shift.trim().parse().ok()?);
        }
        text.split('*').map(|factor| factor.trim().parse::<u64>().ok()).product()
    };
    for (call, unit) in [("Duration::fromsecs(", "s"), ("Duration::frommillis(", "ms")] {
        let inner = plain.split_once(call).and_then(|(_, rest)| rest.strip_suffix(')'));
        if let Some(count) = inner.and_then(number) {
            return Some(format!("{count} {unit}"));
        }
    }
    let count = number(&plain)?;
    Some(match name.contains("BYTES") {
        true if count >= 1 << 20 && count.is_multiple_of(1 << 20) => format!("{} MiB", count >> 20),
        true if count >= 1 << 10 && count.is_multiple_of(1 << 10) => format!("{} KiB", count >> 10),
        true => format!("{count} bytes"),
        false => count.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::judge;
    use crate::tidy::tests::{clean, refused_at, with};

    const LIMITS: &str = "crates/engine/src/limits.rs";

    fn refused_rows(rows: &str) -> Vec<(usize, &'static str)> {
        let mut tree = with(PAGE, &format!("| limit | value | beyond it |\n| --- | --- | --- |\n{rows}\n"));
        let limits = "//! Limits.\n/// Refused.\npub const BODY_BYTES_MAX: usize = 64 << 10;\n\
                      /// Closed.\npub const BODY_WAIT: Duration = Duration::from_secs(30);\n\
                      /// Refused.\npub const OTHER: usize = BODY_BYTES_MAX;\n";
        tree.texts.insert(LIMITS.to_owned(), limits.to_owned());
        judge(&tree).findings.into_iter().map(|finding| (finding.line, finding.rule)).collect()
    }

    #[test]
    fn a_row_has_an_existing_constant_and_its_value() {
        for good in [
            "| a body<br>`engine::BODY_BYTES_MAX` | up to 64 KiB of text | refused |",
            "| a body<br>`engine::BODY_WAIT` | 30 s (half a minute) | refused |",
            "| a body<br>`engine::OTHER` | 64 KiB | refused |",
            "| a body | 1 byte | refused |",
        ] {
            assert_eq!(refused_rows(good), [], "{good}");
        }
        for bad in [
            "| a body<br>`engine::BODY_BYTES_MAX` | 164 KiB | refused |",
            "| a body<br>`engine::BODY_BYTES_MAX` | 64 | refused |",
            "| a body<br>`engine::BODY_WAIT` | 30 sheep | refused |",
            "| a body<br>`engine::BODY_BYTES` | 64 KiB | refused |",
            "| a body<br>`server::BODY_BYTES_MAX` | 64 KiB | refused |",
        ] {
            assert_eq!(refused_rows(bad), [(3, RULE)], "{bad}");
        }
    }

    #[test]
    fn a_missing_page_is_refused() {
        let mut tree = with(LIMITS, "//! Limits.\n");
        tree.texts.remove(PAGE);
        let places: Vec<_> =
            judge(&tree).findings.into_iter().map(|finding| (finding.path, finding.rule)).collect();
        assert_eq!(places, [(PAGE.to_owned(), RULE)]);
    }

    #[test]
    fn a_public_limit_has_a_comment() {
        for path in [LIMITS, "crates/engine/src/read/limits.rs"] {
            refused_at(path, "//! Limits.\npub const A: u32 = 1;\n", RULE, 2);
            refused_at(
                path,
                "//! Limits.\n/// Refused.\npub const A: u32 = 1;\npub const B: u32 = 1;\n",
                RULE,
                4,
            );
            clean(
                path,
                "//! Limits.\n/// Refused.\n#[cfg(unix)]\npub(crate) const A: u32 =\n    1;\nconst B: u32 = 1;\n",
            );
        }
        clean("crates/engine/src/lib.rs", "//! Head.\npub const A: u32 = 1;\n");
    }

    #[test]
    fn values_are_formatted_as_people_read_them() {
        for (expression, name, expected) in [
            ("25_000", "A", Some("25000")),
            ("256 << 20", "A_BYTES_MAX", Some("256 MiB")),
            ("64 * 1024", "A_BYTES_MAX", Some("64 KiB")),
            ("1_000", "A_BYTES", Some("1000 bytes")),
            ("Duration::from_secs(5)", "A", Some("5 s")),
            ("std::time::Duration::from_millis(50)", "A", Some("50 ms")),
            ("recount_log::limits::B", "A", None),
        ] {
            assert_eq!(format_value(expression, name).as_deref(), expected, "{expression}");
        }
    }
}
