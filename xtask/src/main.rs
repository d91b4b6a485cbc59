//! House-keeping of the tree: `cargo xtask <verb>`.
//!
//! Knows the shape of the workspace and nothing of the product. Verbs are in [`HELP`]; `test` is the one
//! command that says whether the tree is good.
#![allow(clippy::print_stdout, reason = "a tool for the terminal")]
#![allow(clippy::disallowed_methods, reason = "it measures how long steps take, outside the product")]

mod child;
mod contract;
mod disk;
mod golden;
mod package;
mod programs;
mod runner;
mod setup;
mod steps;
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
          Installs what only tests need where it may, and says what to install where it may not.
          --only limits the steps, --filter the tests to those whose name contains the text.
          --skip-browser leaves out the browser; CI refuses it.
  lints   Runs clippy on libraries and programs, without tests
  bench [NAME…] [--quick] [--pairs N] [--seconds S] [--folder DIR] [--json FILE] [--plots DIR]
          figures against yardsticks, built in release; `docs/performance.md` says what they mean
  soak [--minutes N] [--events N] [--seed N] [--folder DIR] | soak --million [--events N] [--folder DIR]
       | soak --bits|--log-damage|--salvage [--minutes N] [--seed N] [--folder DIR]
       | soak --disks [--minutes N] [--seed N] | soak --conformance | soak --output [--bytes N]
          a real server under everything at once, killed now and then; or one large store and all that can be
          done with it; or a database damaged bit by bit, the logs of killed stores damaged, damaged folders salvaged;
          or runs of agents on slow and failing disks, half of the time under SQLite; or our own AAEP suite with every
          wait over each transport, four minutes; or a command that writes 1 GiB, whose memory is bounded. Promises are checked, and any that is broken ends it with status 1
  tidy    the hard rules of STYLE.md, crate edges, heads, requirements
  golden  runs the tests that rewrite their expectations, then shows what changed
  package packs the libraries `recount-json` and `recount-aaep`, and runs their tests from the packages
  help    this text
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

/// Whether all was well; an error means that it could not be found out.
fn run() -> Result<bool> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (verb, rest) = match arguments.split_first() {
        Some((verb, rest)) => (verb.as_str(), rest),
        None => ("help", [].as_slice()),
    };
    if !matches!(verb, "test" | "bench" | "soak") && !rest.is_empty() {
        bail!("`{verb}` takes nothing more; see `cargo xtask help`");
    }
    match verb {
        "test" => steps::run(&root()?, &steps::Plan::parse(rest, in_ci())?),
        "lints" => steps::lints(&root()?),
        "bench" => steps::bench(&root()?, rest),
        "soak" => steps::soak(&root()?, rest),
        "tidy" => steps::tidy(&root()?),
        "golden" => golden::run(&root()?),
        "package" => package::run(&root()?),
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            Ok(true)
        }
        other => bail!("there is no verb `{other}`; see `cargo xtask help`"),
    }
}

/// The top of the tree, from wherever inside it we were called.
fn root() -> Result<PathBuf> {
    let here = std::env::current_dir().context("there is no current folder")?;
    let top = here.ancestors().find(|folder| folder.join("xtask/Cargo.toml").is_file());
    Ok(top.with_context(|| format!("{} is not inside the tree", here.display()))?.to_owned())
}

fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| !matches!(value.as_str(), "" | "0" | "false"))
}
