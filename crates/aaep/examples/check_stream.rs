//! Checks events and sessions from standard input against the rules.
//!
//! ```text
//! cargo run -p recount-aaep --example make_events | cargo run -p recount-aaep --example check_stream
//! ```
//!
//! Exits with status 1 if there are errors. Memory is bounded for any input: it holds one text at a time and takes
//! findings after each chunk.

use std::io::{Read, Write};
use std::process::ExitCode;

use recount_aaep::json::Splitter;
use recount_aaep::rule::{Profile, Severity};
use recount_aaep::session::{Checker, Options};

/// Prints the findings; returns the number of errors.
pub(crate) fn check(mut input: impl Read, out: &mut impl Write) -> std::io::Result<usize> {
    // For untrusted input, set an unpredictable seed.
    let mut checker = Checker::new(Options { profile: Profile::Strict, ..Options::default() });
    let mut splitter = Splitter::new();
    let mut buffer = [0; 4096];
    let mut errors = 0;
    loop {
        let count = input.read(&mut buffer)?;
        if count == 0 {
            break;
        }
        splitter.push(&buffer[..count], |piece| {
            checker.piece(piece);
        });
        errors += report(&mut checker, out)?;
    }
    splitter.finish(|piece| {
        checker.piece(piece);
    });
    // Sessions that are open have no ending.
    checker.finish();
    errors += report(&mut checker, out)?;
    writeln!(out, "{errors} errors")?;
    Ok(errors)
}

fn report(checker: &mut Checker, out: &mut impl Write) -> std::io::Result<usize> {
    let mut errors = 0;
    for finding in checker.take() {
        // The finding contains the problem and the remedy.
        writeln!(out, "line {}: {finding}", finding.line)?;
        errors += usize::from(finding.severity == Severity::Error);
    }
    Ok(errors)
}

fn main() -> std::io::Result<ExitCode> {
    let errors = check(std::io::stdin().lock(), &mut std::io::stdout().lock())?;
    Ok(if errors == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
