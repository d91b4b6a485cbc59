//! The licences of the packages of others that are in the program: a list, and every text that they contain, once.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result};

use super::parts::Parts;

pub(super) const FILE: &str = "THIRD-PARTY-LICENSES.txt";

/// Beginnings of the names of files with licences.
const NAMES: [&str; 6] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"];

/// Folders below a package that are searched: C sources that it contains have licences of their own.
const DEPTH_MAX: usize = 2;

pub(super) fn page(parts: &Parts) -> Result<String> {
    let mut page = String::from(
        "The program recount contains these packages of others, under these licences. The texts of the licences follow, as\n\
         the packages contain them. SQLite, in libsqlite3-sys, is in the public domain.\n\n",
    );
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for part in parts.0.values().filter(|part| !part.is_own()) {
        writeln!(page, "{} {}: {}", part.name, part.version, part.licence)?;
        let mut found = Vec::new();
        collect(&part.folder, DEPTH_MAX, &mut found)?;
        found.sort();
        found.dedup();
        for text in found {
            texts.entry(text).or_default().push(part.reference());
        }
    }
    for (text, packages) in &texts {
        write!(page, "\n{}\n{}\n\n{text}\n", "=".repeat(80), packages.join(", "))?;
    }
    Ok(page)
}

fn collect(folder: &Path, depth: usize, found: &mut Vec<String>) -> Result<()> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    for entry in entries {
        let (path, kind) =
            (entry.as_ref().map(|entry| entry.path()), entry.as_ref().map(|entry| entry.file_type()));
        let (Ok(path), Ok(kind)) = (path, kind) else { continue };
        let (name, kind) = (path.file_name().unwrap_or_default().to_string_lossy().to_uppercase(), kind?);
        if kind.is_dir() && depth > 0 {
            collect(&path, depth - 1, found)?;
        } else if kind.is_file()
            && NAMES.iter().any(|begin| name.starts_with(begin))
            && !name.ends_with(".RS")
        {
            // A licence that is not text is none.
            found.extend(std::fs::read_to_string(&path).ok().map(|text| text.trim().replace('\r', "")));
        }
    }
    Ok(())
}
