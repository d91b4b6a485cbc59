//! Helpers for the corpus in `testdata/`: its files and expected findings.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use recount_aaep::rule::{Finding, Severity};

pub(crate) fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(name)
}

pub(crate) fn read(name: &str) -> String {
    let path = testdata(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The ids of broken rules, from this severity on.
pub(crate) fn ids(findings: &[Finding], least: Severity) -> Vec<&'static str> {
    let grave = findings.iter().filter(|finding| finding.severity >= least);
    let ids: BTreeSet<&str> = grave.map(|finding| finding.rule.id).collect();
    ids.into_iter().collect()
}

#[derive(serde::Deserialize)]
pub(crate) struct Entry {
    pub(crate) file: String,
    pub(crate) like: Option<String>,
    pub(crate) strict: Vec<String>,
    pub(crate) compat: String,
}

pub(crate) fn manifest(name: &str) -> Vec<Entry> {
    serde_json::from_str(&read(name)).unwrap()
}
