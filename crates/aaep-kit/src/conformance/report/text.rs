//! Writes a report as text that is suitable for reading aloud: the claim, the totals, then each level with its
//! failures first and their evidence.

use super::verdict::leaves_open;
use super::{Check, Outcome, Report};

impl Report {
    /// The lines without line ends.
    pub fn lines(&self) -> Vec<String> {
        let tally = self.tally();
        let mut lines = vec![
            self.claim(),
            format!(
                "{} checks at {} in {}.{} s: {} passed, {} failed, {} warned, {} not shown, {} not applicable, \
                 {} not from outside{}.",
                self.checks.len(),
                self.address,
                self.took_ms / 1_000,
                self.took_ms % 1_000 / 100,
                tally.passed,
                tally.failed,
                tally.warned,
                tally.not_shown,
                tally.inapplicable,
                tally.outside,
                if tally.declared > 0 { format!(", {} declared", tally.declared) } else { String::new() },
            ),
        ];
        for level in 1..=self.level {
            let of: Vec<&Check> = self.checks.iter().filter(|check| check.level == level).collect();
            if of.is_empty() {
                continue;
            }
            lines.push(String::new());
            let failed = of.iter().filter(|check| check.outcome == Outcome::Failed).count();
            let unshown = of.iter().filter(|check| leaves_open(check)).count();
            lines.push(match failed {
                0 if unshown == 1 => {
                    format!("Level {level}: nothing failed; one check of what must hold was not shown.")
                }
                0 if unshown > 1 => {
                    format!(
                        "Level {level}: nothing failed; {unshown} checks of what must hold were not shown."
                    )
                }
                0 => format!("Level {level}: nothing failed."),
                1 => format!("Level {level}: one check failed."),
                _ => format!("Level {level}: {failed} checks failed."),
            });
            for (heading, wanted) in [
                ("FAILED", "failed"),
                ("warning", "warned"),
                ("passed", "passed"),
                ("not shown", "not_shown"),
                ("not applicable", "inapplicable"),
                ("not from outside", "outside"),
                ("declared, not observed,", "declared"),
            ] {
                for check in of.iter().filter(|check| check.outcome.name() == wanted) {
                    lines.extend(check_lines(heading, check));
                }
            }
        }
        lines
    }

    /// The text, each line with its line end.
    pub fn text(&self) -> String {
        self.lines().into_iter().fold(String::new(), |text, line| text + &line + "\n")
    }
}

fn check_lines(heading: &str, check: &Check) -> Vec<String> {
    let mut line = format!("  {heading} {}: {}", check.requirement, check.name);
    for more in [check.outcome.reason().unwrap_or_default(), &check.detail] {
        if !more.is_empty() {
            line.push_str(if line.ends_with('.') { " " } else { ". " });
            line.push_str(more);
        }
    }
    if !line.ends_with('.') {
        line.push('.');
    }
    let mut lines = vec![line];
    lines.extend(check.evidence.iter().map(|line| format!("      {line}")));
    lines
}
