//! Starts cargo and other programs and waits for them. The module must not depend on their purpose.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

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
    // Only `golden` rewrites expectations.
    cargo.args(arguments).env_remove("RECOUNT_BLESS");
    watch(cargo)
}

/// Builds the programs with the same features as the tests, so that nothing is built twice.
pub(crate) fn build_programs(root: &Path) -> Result<bool> {
    cargo(root, &["build", "--workspace", "--bins", "--tests", "--locked"])
}

/// A child with empty standard input and inherited output.
pub(crate) fn command(program: impl AsRef<OsStr>, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder).stdin(Stdio::null());
    // Cargo's variables describe this program, not the child. Some build scripts read them, and their dependents would
    // be rebuilt after each change between `cargo xtask` and `cargo`.
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

/// What a program prints, if it succeeds.
pub(crate) fn output_of(folder: &Path, words: &[&str]) -> Result<String> {
    let mut command = command(words[0], folder);
    let output = command.args(&words[1..]).stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("cannot run {}", words[0]))?;
    ensure!(output.status.success(), "`{}` ended with {}", words.join(" "), output.status);
    String::from_utf8(output.stdout).with_context(|| format!("{} does not print UTF-8", words[0]))
}
