//! Checks Cargo.lock for forbidden packages and sources. `deny.toml` has further rules for cargo-deny.

use super::Report;
use super::tree::Tree;

const RULE: &str = "supply";
const LOCK: &str = "Cargo.lock";

const BANNED: &[(&str, &str)] = &[
    ("openssl-sys", "needs a system library"),
    ("native-tls", "brings openssl"),
    ("aws-lc-rs", "needs more than a C compiler, and minutes"),
    ("aws-lc-sys", "needs more than a C compiler, and minutes"),
];

pub(super) fn check(tree: &Tree, report: &mut Report) {
    let Some(lock) = tree.texts.get(LOCK) else {
        report.refuse(LOCK, 1, RULE, "is missing; builds must be the same everywhere");
        return;
    };
    for (at, line) in lock.lines().enumerate() {
        let quoted = |key: &str| line.strip_prefix(key)?.strip_prefix(" = \"")?.strip_suffix('"');
        if let Some((name, why)) =
            quoted("name").and_then(|name| BANNED.iter().find(|(banned, _)| *banned == name))
        {
            report.refuse(LOCK, at + 1, RULE, format!("`{name}` {why}"));
        }
        if quoted("source").is_some_and(|source| source.starts_with("git+")) {
            report.refuse(
                LOCK,
                at + 1,
                RULE,
                "a source in git may change or disappear; use a released version",
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::refused_at;

    #[test]
    fn banned_crates_and_git_sources_are_refused() {
        for (name, _) in BANNED {
            refused_at(LOCK, &format!("[[package]]\nname = \"{name}\"\n"), RULE, 2);
        }
        let git = "[[package]]\nname = \"a\"\nsource = \"git+https://example.org/a#1\"\n";
        refused_at(LOCK, git, RULE, 3);
    }
}
