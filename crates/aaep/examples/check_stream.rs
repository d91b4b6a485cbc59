//! Anybody's side: what comes on standard input is held against the rules while it comes, sessions followed.
//!
//! ```text
//! cargo run -p recount-aaep --example make_events | cargo run -p recount-aaep --example check_stream
//! ```
//!
//! Ends with status 1 when there are errors. Memory stays small however long the input is: one text at a time is held,
//! and findings are taken after each.

use std::io::{Read, Write};
use std::process::ExitCode;

use recount_aaep::json::Splitter;
use recount_aaep::rule::{Profile, Severity};
use recount_aaep::session::{Checker, Options};

/// Tells the findings as they come; answers how many errors there were.
pub(crate) fn check(mut input: impl Read, out: &mut impl Write) -> std::io::Result<usize> {
    // Who checks what strangers send gives a seed that they cannot know.
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
        // What is so, and what to do.
        writeln!(out, "line {}: {finding}", finding.line)?;
        errors += usize::from(finding.severity == Severity::Error);
    }
    Ok(errors)
}

fn main() -> std::io::Result<ExitCode> {
    let errors = check(std::io::stdin().lock(), &mut std::io::stdout().lock())?;
    Ok(if errors == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
