//! Functions that are too long to be read at once. Known ones are listed and can only become shorter. Look at [`check`].

mod known;

use super::Report;
use super::ratchet::{Counts, Ratchet};
use super::tree::Tree;
use known::KNOWN;

const RULE: &str = "functions";
const LIST: &str = "xtask/src/tidy/functions/known.rs";

/// Lines from `fn` to the closing brace; more is refused, in tests too.
const LINES_MAX: usize = 120;

pub(super) fn check(tree: &Tree, report: &mut Report) {
    let mut counts = Counts::new();
    for (path, source) in &tree.sources {
        for (name, lines) in source.bodies() {
            let found = counts.entry((path.clone(), name.to_owned())).or_default();
            if lines.len() > found.count {
                (found.path, found.line, found.count) = (path.clone(), lines.start, lines.len());
            }
        }
    }
    let reason = |_: &str, name: &str, count: usize| {
        format!("`{name}` has {count} lines; the most is {LINES_MAX}: what are its parts?")
    };
    Ratchet { rule: RULE, most: LINES_MAX, known: KNOWN, list: LIST }.hold(tree, &counts, reason, report);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::{clean, refused_at};

    #[test]
    fn a_long_function_is_refused_where_it_begins() {
        let of = |lines: usize| {
            format!("//! Head.\nfn short() {{}}\nfn long() {{\n{}}}\n", "f();\n".repeat(lines - 2))
        };
        for path in ["crates/engine/src/writer.rs", "crates/engine/tests/a.rs", "xtask/src/new.rs"] {
            clean(path, &of(LINES_MAX));
            refused_at(path, &of(LINES_MAX + 1), RULE, 3);
        }
        clean(
            "crates/engine/src/writer.rs",
            &format!("//! Head.\ntrait T {{ fn f();{}}}\n", "\n".repeat(200)),
        );
    }
}
