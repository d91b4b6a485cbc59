//! Tidy: checks the tree against the hard rules of the style page and related rules.
//!
//! A rule is a function from a [`Tree`] to [`Finding`]s, one file per rule under `tidy/`. Rules must not read the disk.
//! To add one: its file, its line in [`RULES`], its seeded violation in its tests.

mod circles;
mod edges;
mod frozen;
mod functions;
mod homonyms;
mod limits;
mod limits_page;
mod pure;
mod ratchet;
mod requirements;
mod shape;
mod source;
mod supply;
mod testing;
mod tree;
mod visible;
mod voice;
mod words;
mod world;

use std::fmt;
use std::path::Path;

use anyhow::Result;
use tree::Tree;

/// One violation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    pub(crate) path: String,
    pub(crate) line: usize,
    /// `rule 1` … `rule 6` for the hard rules of the style page, a word for the others.
    pub(crate) rule: &'static str,
    pub(crate) message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.path, self.line, self.rule, self.message)
    }
}

/// The findings of all rules.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) findings: Vec<Finding>,
    /// Notes for review, which do not fail.
    pub(crate) notes: Vec<String>,
}

impl Report {
    fn refuse(&mut self, path: &str, line: usize, rule: &'static str, message: impl Into<String>) {
        self.findings.push(Finding { path: path.to_owned(), line, rule, message: message.into() });
    }

    fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }
}

const RULES: &[fn(&Tree, &mut Report)] = &[
    pure::check,
    world::check,
    frozen::check,
    visible::check,
    limits::check,
    limits_page::check,
    testing::check,
    edges::check,
    circles::check,
    shape::check,
    functions::check,
    homonyms::check,
    words::check,
    voice::check,
    supply::check,
    requirements::check,
];

/// Checks the tree under `root`.
pub(crate) fn examine(root: &Path) -> Result<Report> {
    Ok(judge(&Tree::read(root)?))
}

fn judge(tree: &Tree) -> Report {
    let mut report = Report::default();
    for rule in RULES {
        rule(tree, &mut report);
    }
    report.findings.sort();
    report.findings.dedup();
    report
}

#[cfg(test)]
mod tests;
