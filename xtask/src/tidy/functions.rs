//! Checks the length of functions. Start at [`check`].

use super::Report;
use super::tree::Tree;

const RULE: &str = "functions";

/// Lines from `fn` to the closing brace. More are refused, also in tests.
const LINES_MAX: usize = 120;

pub(super) fn check(tree: &Tree, report: &mut Report) {
    for (path, source) in &tree.sources {
        for (name, lines) in source.bodies() {
            let count = lines.len();
            if count > LINES_MAX {
                let why = format!("`{name}` has {count} lines; the limit is {LINES_MAX}; split it");
                report.refuse(path, lines.start, RULE, why);
            }
        }
    }
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
