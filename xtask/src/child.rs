//! Programs that are started and watched: cargo and others. Must not know what they are started for.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

pub(crate) fn target_folder(root: &Path) -> Result<PathBuf> {
    let output = command(cargo_program(), root)
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .stdout(Stdio::piped())
        .output()
        .context("cannot run cargo metadata")?;
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    Ok(answer["target_directory"].as_str().context("cargo metadata names no target folder")?.into())
}

pub(crate) fn cargo_program() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".into())
}

pub(crate) fn cargo(root: &Path, arguments: &[&str]) -> Result<bool> {
    let mut cargo = command(cargo_program(), root);
    // Expectations are rewritten by `golden` alone.
    cargo.args(arguments).env_remove("RECOUNT_BLESS");
    watch(cargo)
}

/// Builds the programs as the tests have them: what these have built already is not built a second time with the fewer
/// features that one program alone asks for.
pub(crate) fn build_programs(root: &Path) -> Result<bool> {
    cargo(root, &["build", "--workspace", "--bins", "--tests", "--locked"])
}

/// A child that reads nothing and writes where we write.
pub(crate) fn command(program: impl AsRef<OsStr>, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder).stdin(Stdio::null());
    // What cargo says of this program is not true of that one. Some build scripts read it, and all that depends on them would
    // be built again after each change between `cargo xtask` and `cargo`.
    for (name, _) in std::env::vars_os() {
        let is_of_this_package = name.to_str().is_some_and(|name| {
            name.starts_with("CARGO_PKG_")
                || name.starts_with("CARGO_MANIFEST_")
                || matches!(name, "CARGO_BIN_NAME" | "CARGO_CRATE_NAME" | "CARGO_PRIMARY_PACKAGE")
        });
        if is_of_this_package {
            command.env_remove(name);
        }
    }
    command
}

pub(crate) fn watch(mut command: Command) -> Result<bool> {
    let program = PathBuf::from(command.get_program());
    let short = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned();
    let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
    println!("$ {short} {}", words.join(" "));
    let status = command.status().with_context(|| format!("cannot run {short}"))?;
    if !status.success() {
        println!("{short} ended with {status}");
    }
    Ok(status.success())
}
