//! Checks hard rule 5: every queue and every wait has a named limit in a `limits.rs`.
//!
//! The rule finds numbers in place of names. Whether the comment of a limit describes what happens is checked in
//! review.

use super::Report;
use super::source::{PathUse, Source};
use super::tree::{Tree, crate_of};

const RULE: &str = "rule 5";

/// Programs that test or measure may use their own numbers.
const TOOLS: &[&str] = &["sim", "bench"];

pub(super) fn check(tree: &Tree, report: &mut Report) {
    for (path, source) in &tree.sources {
        let Some(name) = crate_of(path) else { continue };
        let names_limits = path.ends_with("/limits.rs");
        for used in source.paths() {
            if source.is_test(used.tokens.start) || source.is_excused(used.line) {
                continue;
            }
            if let Some(what) = unbounded(source, used) {
                report.refuse(path, used.line, RULE, format!("{what} has no limit; use one from limits.rs"));
            } else if !names_limits && !TOOLS.contains(&name) && bound_by_number(source, used) {
                let message = format!(
                    "`{}` with a number; name it in limits.rs and document what happens there",
                    used.segments.join("::")
                );
                report.refuse(path, used.line, RULE, message);
            }
        }
    }
}

fn unbounded(source: &Source, used: &PathUse) -> Option<String> {
    let by_name =
        matches!(used.last(), "unbounded_channel" | "UnboundedSender" | "UnboundedReceiver" | "unbounded");
    let queue =
        used.segments.iter().any(|part| matches!(part.as_str(), "mpsc" | "channel" | "unbounded_channel"));
    let std_channel = used.has("std::sync::mpsc::channel") && !used.in_use;
    let empty = source.is_sign(used.tokens.end, '(') && source.is_sign(used.tokens.end + 1, ')');
    let bare = used.has("mpsc::channel") && empty;
    ((by_name && queue) || std_channel || bare).then(|| format!("`{}`", used.segments.join("::")))
}

fn bound_by_number(source: &Source, used: &PathUse) -> bool {
    let called_with_number = source.is_sign(used.tokens.end, '(') && source.is_number(used.tokens.end + 1);
    let bounds = ["mpsc::channel", "broadcast::channel", "sync_channel", "Semaphore::new"];
    let duration = used.has("Duration::new") || (used.has("Duration") && used.last().starts_with("from_"));
    called_with_number && (duration || bounds.iter().any(|what| used.has(what)))
}

#[cfg(test)]
mod tests {
    use crate::tidy::tests::{clean, refused_at};

    #[test]
    fn unbounded_queues_and_numbers_are_refused() {
        for line in [
            "fn f() { tokio::sync::mpsc::unbounded_channel::<u8>(); }",
            "use tokio::sync::mpsc::UnboundedSender;",
            "fn f() { std::sync::mpsc::channel::<u8>(); }",
            "fn f() { mpsc::channel(16); }",
            "fn f() { mpsc::channel::<Vec<u8>>(16); }",
            "fn f() { std::sync::mpsc::sync_channel(0); }",
            "fn f() { tokio::sync::broadcast::channel(1_024); }",
            "fn f() { Semaphore::new(4); }",
            "const A: Duration = Duration::from_secs(5);",
            "fn f() { std::time::Duration::from_millis(30); }",
        ] {
            refused_at("crates/server/src/config.rs", &format!("//! Head.\n{line}\n"), "rule 5", 2);
        }
    }

    #[test]
    fn an_import_does_not_hide_it() {
        let text = "//! Head.\nuse tokio::sync::mpsc::channel;\nfn f() { channel(8); }\n";
        refused_at("crates/server/src/config.rs", text, "rule 5", 3);
    }

    #[test]
    fn names_limits_files_tests_and_reasons_pass() {
        let named = "//! Head.\nfn f() { mpsc::channel(limits::INBOX_MAX); oneshot::channel(); watch::channel(0); \
                     Duration::from_millis(left); }\n";
        clean("crates/server/src/config.rs", named);
        clean("crates/server/src/limits.rs", "//! Head.\nconst A: Duration = Duration::from_secs(5);\n");
        clean("crates/server/tests/a.rs", "//! Head.\nfn f() { mpsc::channel(8); }\n");
        let excused = "//! Head.\n// tidy: one answer, one place\nfn f() { mpsc::channel(1); }\n";
        clean("crates/server/src/config.rs", excused);
    }
}
