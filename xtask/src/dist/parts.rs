//! The packages of crates that are linked into the program, with licences and checksums, as Cargo knows them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::child::{cargo_program, output_of};

/// The package of the program.
pub(super) const PROGRAM: &str = "recount-cli";

/// A package.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub(super) name: String,
    pub(super) version: String,
    /// As an SPDX expression.
    pub(super) licence: String,
    pub(super) repository: Option<String>,
    /// SHA-256 of the published package; `None` for those of this tree.
    pub(super) checksum: Option<String>,
    pub(super) folder: PathBuf,
    /// Names, as in [`Part::reference`], of the packages that it uses.
    pub(super) uses: BTreeSet<String>,
}

impl Part {
    pub(super) fn reference(&self) -> String {
        reference(&self.name, &self.version)
    }

    pub(super) fn is_own(&self) -> bool {
        self.checksum.is_none()
    }
}

/// All packages, by [`Part::reference`].
pub(super) struct Parts(pub(super) BTreeMap<String, Part>);

impl Parts {
    pub(super) fn read(root: &Path, target: &str) -> Result<Parts> {
        let cargo = cargo_program();
        // The metadata are those of the whole workspace, where tests enable more features; the tree is that of the program.
        let tree = [
            &cargo, "tree", "-p", PROGRAM, "-e", "normal", "--prefix", "none", "--target", target, "--locked",
        ];
        let linked: BTreeSet<String> = output_of(root, &tree)?.lines().filter_map(linked).collect();
        let metadata = [&cargo, "metadata", "--format-version", "1", "--filter-platform", target, "--locked"];
        let metadata: Value = serde_json::from_str(&output_of(root, &metadata)?)?;
        let lock = std::fs::read_to_string(root.join("Cargo.lock"))?;
        let (checksums, mut uses) = (checksums(&lock), uses(&metadata));
        let mut parts = BTreeMap::new();
        for package in list(&metadata["packages"]) {
            let name = text(&package["name"]).context("a package has no name")?;
            let version = text(&package["version"]).context("a package has no version")?;
            let reference = reference(&name, &version);
            if !linked.contains(&reference) {
                continue;
            }
            let licence =
                text(&package["license"]).with_context(|| format!("{reference} names no licence"))?;
            let manifest =
                PathBuf::from(text(&package["manifest_path"]).context("a package has no manifest")?);
            let mut used = text(&package["id"]).and_then(|id| uses.remove(&id)).unwrap_or_default();
            used.retain(|name| linked.contains(name));
            let part = Part {
                // An old way to write `OR`.
                licence: licence.replace(" / ", " OR ").replace('/', " OR "),
                repository: text(&package["repository"]),
                checksum: checksums.get(&reference).cloned(),
                folder: manifest.parent().context("a manifest is in a folder")?.to_owned(),
                uses: used,
                name,
                version,
            };
            parts.insert(reference, part);
        }
        Ok(Parts(parts))
    }
}

fn reference(name: &str, version: &str) -> String {
    format!("{name}@{version}")
}

/// Reads `name v1.2.3 (path)`.
fn linked(line: &str) -> Option<String> {
    let (name, rest) = line.split_once(" v")?;
    Some(reference(name, rest.split(' ').next()?))
}

/// Checksums of published packages, by reference.
pub(super) fn checksums(lock: &str) -> BTreeMap<String, String> {
    let packages = lock.split("[[package]]").skip(1);
    let of = |package: &str| {
        let value = |key: &str| {
            let line = package.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \""))?;
            Some(line.trim_end_matches('"').to_owned())
        };
        Some((reference(&value("name")?, &value("version")?), value("checksum")?))
    };
    packages.filter_map(of).collect()
}

/// What each package uses when it runs, by the id of the package.
fn uses(metadata: &Value) -> BTreeMap<String, BTreeSet<String>> {
    let packages = list(&metadata["packages"]).iter().filter_map(|package| {
        Some((text(&package["id"])?, reference(&text(&package["name"])?, &text(&package["version"])?)))
    });
    let names: BTreeMap<String, String> = packages.collect();
    let nodes = list(&metadata["resolve"]["nodes"]).iter().filter_map(|node| {
        let used = list(&node["deps"])
            .iter()
            .filter(|used| list(&used["dep_kinds"]).iter().any(|of| of["kind"].is_null()));
        let used = used.filter_map(|used| names.get(used["pkg"].as_str()?).cloned());
        Some((text(&node["id"])?, used.collect()))
    });
    nodes.collect()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}
