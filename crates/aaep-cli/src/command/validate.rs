//! `aaep validate`: checks files of events against the rules of the protocol, line by line.

use std::fs::File;
use std::io::{IsTerminal as _, Read};
use std::path::{Path, PathBuf};

use clap::Args;
use recount_aaep_kit::World;
use recount_aaep_kit::validate::{FindingReport, JsonReport, TextReport, Total, Validation, Verdict};
use recount_command_line::clean;
use recount_command_line::output::note;

use super::{Format, Profile};
use crate::failure::Failure;
use crate::invocation::{Invocation, Output};

#[derive(Args)]
pub(super) struct Validate {
    /// Files of JSON lines, one JSON value or an array; - or no file is standard input
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Which violations are errors
    #[arg(long, value_enum, default_value_t = Profile::Strict)]
    profile: Profile,
    /// Check each event by itself, without session rules
    #[arg(long)]
    events: bool,
    /// Format of the findings on standard output; default: text, or json with --json
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Exit with status 1 on warnings too
    #[arg(long)]
    deny_warnings: bool,
}

impl Validate {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        let mut out = Output::new();
        match Format::of(self.format, invocation.json) {
            Format::Text => self.print_report(TextReport::new(|line: &str| out.line(&clean::line(line)))),
            Format::Json => {
                let total = self.all(JsonReport::new(|part: &str| out.json_part(part)))?;
                out.line("")?;
                self.verdict(total)
            }
        }
    }

    fn print_report(&self, report: impl FindingReport<Error = Failure>) -> Result<(), Failure> {
        self.verdict(self.all(report)?)
    }

    fn all(&self, report: impl FindingReport<Error = Failure>) -> Result<Total, Failure> {
        let mut validation = Validation::new(&World::real(), self.profile.of_rules(), self.events, report);
        let standard_input = [PathBuf::from("-")];
        let files = if self.files.is_empty() { &standard_input[..] } else { &self.files[..] };
        for file in files {
            validation.input(&file.display().to_string(), open(file))?;
        }
        validation.finish()
    }

    fn verdict(&self, total: Total) -> Result<(), Failure> {
        match total.verdict(self.deny_warnings) {
            Verdict::Good => Ok(()),
            Verdict::Bad => Err(Failure::Negative),
            Verdict::Unusable => {
                let more = match total.unusable {
                    0 | 1 => String::new(),
                    2 => " (and one more file)".to_owned(),
                    count => format!(" (and {} more files)", count - 1),
                };
                Err(Failure::Usage(format!("{}{more}", total.first_unusable.unwrap_or_default())))
            }
        }
    }
}

pub(super) fn open(file: &Path) -> std::io::Result<Box<dyn Read>> {
    if file == Path::new("-") {
        let input = std::io::stdin();
        if input.is_terminal() {
            note("reading standard input; end it with Ctrl-D");
        }
        return Ok(Box::new(input));
    }
    Ok(Box::new(File::open(file)?))
}
