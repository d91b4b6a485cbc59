//! `cargo xtask check-targets`: compiles the program for each released platform, without linking it.
//!
//! A platform is checked if its standard library is there: `rustup target add` installs it, or Cargo builds it
//! (`CARGO_UNSTABLE_BUILD_STD`). Dependencies in C are compiled, so each target also needs a C compiler. Start at [`run`].

use std::path::Path;

use anyhow::{Context as _, Result, bail};

use crate::child::{cargo_program, command, output_of, watch};

/// The platforms of releases, and what is missing there.
pub(crate) const TARGETS: [&str; 6] = [
    "x86_64-unknown-linux-musl",
    "aarch64-unknown-linux-musl",
    "x86_64-apple-darwin",
    "aarch64-apple-darwin",
    "x86_64-pc-windows-msvc",
    // Checked on Linux, in place of the one before.
    "x86_64-pc-windows-gnu",
];

/// Which targets the command line selects: those named, which must be there, or all that are.
pub(crate) fn run(root: &Path, named: &[String]) -> Result<bool> {
    if let Some(unknown) = named.iter().find(|name| !TARGETS.contains(&name.as_str())) {
        bail!("unknown target `{unknown}`; the targets of releases are {}", TARGETS.join(", "));
    }
    let mut outcomes = Vec::new();
    for target in TARGETS {
        if !named.is_empty() && !named.iter().any(|name| name == target) {
            continue;
        }
        let outcome = match missing(root, target)? {
            Some(why) => Err(why),
            None => Ok(check(root, target)?),
        };
        outcomes.push((target, outcome));
    }
    println!();
    for (target, outcome) in &outcomes {
        match outcome {
            Ok(true) => println!("{target:<28} compiles"),
            Ok(false) => println!("{target:<28} does not compile"),
            Err(why) => println!("{target:<28} not checked: {why}"),
        }
    }
    Ok(outcomes.iter().all(|(_, outcome)| match outcome {
        Ok(compiles) => *compiles,
        Err(_) => named.is_empty(),
    }))
}

/// Why nothing can be compiled for a target.
pub(crate) fn missing(root: &Path, target: &str) -> Result<Option<String>> {
    if std::env::var_os("CARGO_UNSTABLE_BUILD_STD").is_some() {
        return Ok(None);
    }
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let library = output_of(root, &[&rustc, "--print", "target-libdir", "--target", target])
        .with_context(|| format!("the compiler does not know {target}"))?;
    let is_there = Path::new(library.trim()).is_dir();
    Ok((!is_there).then(|| format!("its standard library is missing (rustup target add {target})")))
}

fn check(root: &Path, target: &str) -> Result<bool> {
    let mut cargo = command(cargo_program(), root);
    cargo.args(["check", "--locked", "-p", "recount-cli", "--bin", "recount", "--target", target]);
    watch(cargo)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> &'static Path {
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
    }

    #[test]
    fn every_platform_of_the_release_workflow_is_a_target() {
        let workflow = std::fs::read_to_string(root().join(".github/workflows/release.yml")).unwrap();
        let built: Vec<&str> =
            workflow.lines().filter_map(|line| line.split("{ target: ").nth(1)?.split(',').next()).collect();
        assert_eq!(built.len(), 5, "{built:?}");
        assert!(built.iter().all(|target| TARGETS.contains(target)), "{built:?}");
    }

    #[test]
    fn an_unknown_target_is_refused() {
        let why = run(root(), &["wasm32-wasip1".into()]).unwrap_err().to_string();
        assert!(
            why.starts_with("unknown target `wasm32-wasip1`; the targets of releases are x86_64"),
            "{why}"
        );
    }
}
