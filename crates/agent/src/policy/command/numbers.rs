//! Tracks which variables of a command line can only hold numbers.
//!
//! A shell evaluates a variable's text inside arithmetic, and that text may run commands (`x='a[$(rm b)]'`, `$((x))`).
//! Start at [`Numbers::are_known`]. Variables of the environment are trusted. Pure.

use std::collections::BTreeSet;

/// The variables of one line by their use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Numbers {
    used: BTreeSet<String>,
    numeric: BTreeSet<String>,
    loose: BTreeSet<String>,
}

impl Numbers {
    /// Records that a variable's text is evaluated.
    pub(super) fn used(&mut self, name: &str) {
        // The shell sets these itself.
        if self.loose.contains(name)
            || !matches!(name, "RANDOM" | "SECONDS" | "LINENO" | "UID" | "EUID" | "PPID")
        {
            self.used.insert(name.to_owned());
        }
    }

    /// Records every name in an arithmetic expression. Returns those that it assigns.
    pub(super) fn used_in(&mut self, expression: &str) -> Vec<String> {
        let word = |char: char| !(char.is_ascii_alphanumeric() || char == '_');
        for name in expression.split(word) {
            if super::is_name(name) {
                self.used(name);
            }
        }
        let mut assigned = Vec::new();
        for (at, _) in expression.match_indices('=') {
            let compares =
                expression[at + 1..].starts_with('=') || expression[..at].ends_with(['=', '!', '<', '>']);
            let target = expression[..at].trim_end().rsplit(word).next().unwrap_or_default();
            if !compares && super::is_name(target) {
                assigned.push(target.to_owned());
            }
        }
        assigned
    }

    /// Records that a variable is set, to a number or to another text.
    pub(super) fn set(&mut self, name: &str, numeric: bool) {
        // The shell itself sets these to texts: `read`, `mapfile`, `getopts`, `cd`, and each command.
        const BY_THE_SHELL: &[&str] =
            &["_", "REPLY", "MAPFILE", "OPTARG", "PWD", "OLDPWD", "DIRSTACK", "COPROC", "FUNCNAME"];
        let numeric = numeric && !BY_THE_SHELL.contains(&name) && !name.starts_with("BASH");
        let names = if numeric { &mut self.numeric } else { &mut self.loose };
        names.insert(name.to_owned());
    }

    /// Whether the line sets every evaluated variable, and only to numbers.
    pub(super) fn are_known(&self) -> bool {
        self.used.iter().all(|name| self.numeric.contains(name) && !self.loose.contains(name))
    }
}
