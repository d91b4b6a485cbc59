//! Checks for circles: modules of one folder that use each other, directly or through others.
//!
//! Only siblings count: a parent and its children are one module. A use in a deeper module counts for the sibling that
//! contains it. Test code does not count. Method calls, trait objects and paths built by macros are not seen. Known
//! circles are listed and can only become smaller. Start at [`check`].

mod arrows;
mod known;
mod rooms;

use std::collections::{BTreeMap, BTreeSet};

use super::Report;
use super::tree::Tree;
use arrows::Arrow;
use known::{KNOWN, Known};

const RULE: &str = "circles";

pub(super) fn check(tree: &Tree, report: &mut Report) {
    check_against(tree, KNOWN, report);
    rooms::check(tree, &arrows::folders(tree), rooms::HOUSES, report);
}

fn check_against(tree: &Tree, known: &[Known], report: &mut Report) {
    let mut unseen: Vec<&Known> = known.iter().collect();
    for circle in arrows::folders(tree).iter().flat_map(|(folder, arrows)| circles(folder, arrows)) {
        let names: BTreeSet<&str> = circle.members.iter().map(String::as_str).collect();
        let listed = known.iter().find(|(folder, members)| {
            *folder == circle.folder && names.iter().all(|name| members.contains(name))
        });
        let Some(listed) = listed else {
            circle.refuse("use each other", report);
            continue;
        };
        unseen.retain(|other| *other != listed);
        if listed.1.len() != names.len() {
            circle.refuse("remain of a known circle: list these in `circles/known.rs`", report);
        }
    }
    for (folder, members) in unseen {
        // A tree in a test has few files; circles of missing files are ignored.
        let is_here = |member: &&str| tree.under(folder).any(|path| holds(path, folder, member));
        if members.iter().all(is_here) {
            let message = format!("{} of {folder} are no circle: remove the line", listing(members));
            report.refuse("xtask/src/tidy/circles/known.rs", 1, RULE, message);
        }
    }
}

/// Whether the file is the module of this name in the folder.
fn holds(path: &str, folder: &str, member: &str) -> bool {
    path == format!("{folder}/{member}.rs") || path == format!("{folder}/{member}/mod.rs")
}

struct Circle<'a> {
    folder: &'a str,
    members: Vec<String>,
    /// One of the uses that close the circle.
    arrow: &'a Arrow,
}

impl Circle<'_> {
    fn refuse(&self, what: &str, report: &mut Report) {
        let Arrow { from, to, name, path, line } = self.arrow;
        let message = format!(
            "{} of {} {what}; here `{from}` uses `{name}` of `{to}`",
            listing(&self.members),
            self.folder
        );
        report.refuse(path, *line, RULE, message);
    }
}

/// The sets of siblings that reach each other.
fn circles<'a>(folder: &'a str, arrows: &'a [Arrow]) -> Vec<Circle<'a>> {
    let mut uses: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for arrow in arrows {
        uses.entry(&arrow.from).or_default().insert(&arrow.to);
    }
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        uses.keys().map(|from| (*from, reach(from, &uses))).collect();
    let mut placed: BTreeSet<&str> = BTreeSet::new();
    let mut found = Vec::new();
    for (from, reaches) in &reached {
        if !reaches.contains(from) || placed.contains(from) {
            continue;
        }
        let is_member = |to: &&str| reached.get(to).is_some_and(|back| back.contains(from));
        let members: BTreeSet<&str> = reaches.iter().copied().filter(is_member).collect();
        placed.extend(&members);
        let within = |arrow: &&Arrow| members.contains(&*arrow.from) && members.contains(&*arrow.to);
        let Some(arrow) = arrows.iter().find(within) else { continue };
        found.push(Circle {
            folder,
            members: members.iter().map(|name| (*name).to_owned()).collect(),
            arrow,
        });
    }
    found
}

fn reach<'a>(from: &str, uses: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&str> = uses.get(from).into_iter().flatten().copied().collect();
    while let Some(name) = open.pop() {
        if reached.insert(name) {
            open.extend(uses.get(name).into_iter().flatten());
        }
    }
    reached
}

fn listing(names: &[impl AsRef<str>]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{}`", name.as_ref())).collect();
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => quoted.join(""),
    }
}

#[cfg(test)]
mod tests;
