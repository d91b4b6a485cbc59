//! Development commands: `cargo xtask <verb>`.
//!
//! It knows the layout of the workspace but not the product. Verbs are listed in [`HELP`]; `test` runs all checks of a
//! change.
#![allow(clippy::print_stdout, reason = "a tool for the terminal")]
#![allow(clippy::disallowed_methods, reason = "it measures how long steps take, outside the product")]

mod child;
mod contract;
mod disk;
mod dist;
mod golden;
mod package;
mod programs;
mod runner;
mod setup;
mod site;
mod steps;
mod targets;
mod tidy;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

const HELP: &str = "\
cargo xtask <verb>

  test [--full] [--only STEP,…] [--filter TEXT] [--skip-browser]
          Runs the checks that every change must pass: tidy, format, tests, simulation, browser.
          --full adds lints, contract (the server against /openapi.json), agents (of other vendors, recorded) and the
          tests marked `full`, with ten times the random cases. It takes hours; run it before an issue is closed.
          Installs what only tests need if it may; otherwise it names what to install.
          --only limits the steps, --filter the tests to those whose name contains the text.
          --skip-browser leaves out the browser; CI refuses it.
  lints   Runs clippy on libraries and programs, without tests
  bench [NAME…] [--quick] [--pairs N] [--seconds S] [--folder DIR] [--json FILE] [--plots DIR]
          Measures against yardsticks, built in release; `docs/performance.md` explains the figures
  soak [--minutes N] [--events N] [--seed N] [--folder DIR] | soak --million [--events N] [--folder DIR]
       | soak --bits|--log-damage|--salvage [--minutes N] [--seed N] [--folder DIR]
       | soak --nodes [--sequences N] [--first N] [--faults NAME,NAME] [--spread] [--seed N] [--folder DIR]
       | soak --disks [--minutes N] [--seed N] | soak --conformance | soak --output [--bytes N]
          Loads a real server and kills it sometimes (default); runs every operation on one large store (--million);
          damages a database bit by bit (--bits), logs of killed stores (--log-damage) or whole folders that are then
          salvaged (--salvage); runs agents on slow and failing disks (--disks); runs our own AAEP suite with every
          wait over each transport, four minutes (--conformance); or one command with 1 GiB of output (--output).
          A broken promise ends it with status 1
  tidy    Checks the hard rules of STYLE.md, crate edges, heads, requirements
  golden  Runs the tests that rewrite their expectations, then shows what changed
  package Packs the libraries `recount-json` and `recount-aaep`, and runs their tests from the packages
  site    Makes the site of the documentation in target/site, and checks its links; installs mdBook below target/
  dist [--deb] [--npm] [--image] [--binary FILE] [--target TRIPLE]
          Builds the program `recount` for publication, statically on Linux, and packs it into target/packages with man
          pages, completions, licences, SBOM and checksums; --deb and --npm add packages for Debian and npm, --image the
          files of a container image. --binary packs a program that is already built. The address of releases in
          RECOUNT_RELEASES is written into install.sh
  check-targets [TRIPLE…]
          Compiles the program for each released platform whose standard library is installed, without linking it, and lists
          the others. A platform that is named must be installed
  help    Prints this text
";

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Returns whether all checks passed; an error means that they could not run.
fn run() -> Result<bool> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (verb, rest) = match arguments.split_first() {
        Some((verb, rest)) => (verb.as_str(), rest),
        None => ("help", [].as_slice()),
    };
    if !matches!(verb, "test" | "bench" | "soak" | "dist" | "check-targets") && !rest.is_empty() {
        bail!("`{verb}` takes no arguments; see `cargo xtask help`");
    }
    match verb {
        "test" => steps::run(&root()?, &steps::Plan::parse(rest, in_ci())?),
        "lints" => steps::lints(&root()?),
        "bench" => steps::bench(&root()?, rest),
        "soak" => steps::soak(&root()?, rest),
        "tidy" => steps::tidy(&root()?),
        "golden" => golden::run(&root()?),
        "dist" => dist::run(&root()?, &dist::Options::parse(rest)?),
        "check-targets" => targets::run(&root()?, rest),
        "package" => package::run(&root()?),
        "site" => site::run(&root()?),
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            Ok(true)
        }
        other => bail!("unknown verb `{other}`; see `cargo xtask help`"),
    }
}

/// The root of the tree, from any folder inside it.
fn root() -> Result<PathBuf> {
    let here = std::env::current_dir().context("there is no current folder")?;
    let top = here.ancestors().find(|folder| folder.join("xtask/Cargo.toml").is_file());
    Ok(top.with_context(|| format!("{} is not inside the tree", here.display()))?.to_owned())
}

fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| !matches!(value.as_str(), "" | "0" | "false"))
}
