//! Finds which module of a crate uses which, with every name followed through re-exports to the file that defines it.
//!
//! It reads names, not types. Start at [`folders`].

use std::collections::{BTreeMap, BTreeSet};

use super::super::source::{PathUse, Source, is_test_file};
use super::super::tree::{Tree, crate_of};

/// One use of a sibling.
pub(super) struct Arrow {
    pub(super) from: String,
    pub(super) to: String,
    /// The used name.
    pub(super) name: String,
    /// The file of the use.
    pub(super) path: String,
    pub(super) line: usize,
}

/// Re-exports that are followed in a chain. A longer chain counts as the last file reached.
const REEXPORTS_MAX: usize = 8;

/// The uses between the modules of each folder, by the folder's path.
pub(super) fn folders(tree: &Tree) -> BTreeMap<String, Vec<Arrow>> {
    let mut crates: BTreeMap<&str, Modules<'_>> = BTreeMap::new();
    for (path, source) in &tree.sources {
        if let Some((base, module)) = module_of(path) {
            crates.entry(base).or_default().add(module, path, source);
        }
    }
    let mut found: BTreeMap<String, Vec<Arrow>> = BTreeMap::new();
    for (base, modules) in &crates {
        for (folder, arrow) in modules.arrows() {
            let place = [&[base.to_owned()], folder].concat().join("/");
            found.entry(place).or_default().push(arrow);
        }
    }
    found
}

/// The folder of the crate's root and the module's path in it; `None` for test code.
fn module_of(path: &str) -> Option<(&str, Vec<&str>)> {
    let has_modules = crate_of(path).is_some() || path.starts_with("xtask/");
    if !has_modules || (is_test_file(path) && !path.contains("/src/conformance/")) {
        return None;
    }
    let after = path.find("/src/")? + "/src/".len();
    let mut base = after - 1;
    if let Some(program) = path[after..].strip_prefix("bin/") {
        // A program of one file has no modules.
        base = path.len() - program.len() + program.find('/')?;
    }
    let mut module: Vec<&str> = path[base + 1..].strip_suffix(".rs")?.split('/').collect();
    match module.as_slice() {
        ["lib" | "main"] => module.clear(),
        [.., "mod"] => drop(module.pop()),
        _ => {}
    }
    Some((&path[..base], module))
}

/// The modules of one crate by their paths in it.
#[derive(Default)]
struct Modules<'a> {
    files: BTreeMap<Vec<&'a str>, File<'a>>,
}

struct File<'a> {
    path: &'a str,
    source: &'a Source,
    /// The targets of its `use` lines by alias.
    aliases: BTreeMap<&'a str, &'a PathUse>,
    globs: Vec<&'a PathUse>,
    /// Items it declares.
    items: BTreeSet<&'a str>,
}

const DECLARES: &[&str] = &["fn", "struct", "enum", "trait", "type", "const", "static", "union", "mod"];

impl<'a> Modules<'a> {
    fn add(&mut self, module: Vec<&'a str>, path: &'a str, source: &'a Source) {
        let imports = source.paths().iter().filter(|used| used.in_use && !source.is_test(used.tokens.start));
        let (globs, named): (Vec<_>, Vec<_>) = imports.partition(|used| used.last() == "*");
        let aliases = named.into_iter().filter_map(|used| Some((used.alias.as_deref()?, used))).collect();
        let items = (1..source.tokens.len())
            .filter(|at| source.name(at - 1).is_some_and(|word| DECLARES.contains(&word)))
            .filter_map(|at| source.name(at))
            .collect();
        self.files.insert(module, File { path, source, aliases, globs, items });
    }

    /// Every use between siblings, with the folder in which they are siblings.
    fn arrows(&self) -> Vec<(&[&'a str], Arrow)> {
        let mut found = Vec::new();
        for (module, file) in &self.files {
            for used in file.source.paths() {
                if file.source.is_test(used.tokens.start) || file.source.is_excused(used.line) {
                    continue;
                }
                let Some(target) = self.resolve(module, &used.segments, 0) else { continue };
                let shared = module.iter().zip(target).take_while(|(ours, theirs)| ours == theirs).count();
                let (Some(from), Some(to)) = (module.get(shared), target.get(shared)) else { continue };
                found.push((
                    &module[..shared],
                    Arrow {
                        from: (*from).to_owned(),
                        to: (*to).to_owned(),
                        name: used.last().to_owned(),
                        path: file.path.to_owned(),
                        line: used.line,
                    },
                ));
            }
        }
        found
    }

    /// The module that defines a path that is written in this one.
    fn resolve(&self, module: &[&'a str], segments: &'a [String], followed: usize) -> Option<&[&'a str]> {
        let (absolute, rest) = self.place(module, segments)?;
        let mut at = absolute;
        let mut rest = rest;
        while let Some((next, after)) = rest.split_first() {
            let deeper = [at.as_slice(), &[next.as_str()]].concat();
            if !self.files.contains_key(&deeper) {
                break;
            }
            (at, rest) = (deeper, after);
        }
        let (here, file) = self.files.get_key_value(&at)?;
        let Some(name) = rest.first().filter(|_| followed < REEXPORTS_MAX) else { return Some(here) };
        if let Some(import) = file.aliases.get(name.as_str())
            && let Some(found) = self.resolve(here, &import.segments, followed + 1)
        {
            return Some(found);
        }
        if !file.items.contains(name.as_str()) {
            let globbed = file.globs.iter().find_map(|glob| {
                let all = glob.segments.len() - 1;
                let target = self.resolve(here, &glob.segments[..all], followed + 1)?;
                self.files.get(target)?.items.contains(name.as_str()).then_some(target)
            });
            return Some(globbed.unwrap_or(here));
        }
        Some(here)
    }

    /// The module to which a path is relative, and the remaining segments.
    fn place(&self, module: &[&'a str], segments: &'a [String]) -> Option<(Vec<&'a str>, &'a [String])> {
        let (first, rest) = segments.split_first()?;
        match first.as_str() {
            "crate" => Some((Vec::new(), rest)),
            "self" => Some((module.to_vec(), rest)),
            "super" => {
                let supers = segments.iter().take_while(|segment| *segment == "super").count();
                let kept = module.len().checked_sub(supers)?;
                Some((module[..kept].to_vec(), &segments[supers..]))
            }
            child => {
                let deeper = [module, &[child]].concat();
                self.files.contains_key(&deeper).then_some((deeper, rest))
            }
        }
    }
}
