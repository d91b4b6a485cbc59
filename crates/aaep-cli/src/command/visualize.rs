//! `aaep visualize`: renders a recorded session as text, as an HTML page with drawings, or as JSON.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use recount_aaep_kit::World;
use recount_aaep_kit::trace::{self, Options, TraceError};
use recount_command_line::partial::Partial;

use super::Profile;
use super::validate::open;
use crate::failure::Failure;
use crate::invocation::{Invocation, Output};

#[derive(Args)]
pub(super) struct Visualize {
    /// Recorded session as JSON lines, one JSON value or an array; - is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Output format
    #[arg(long, value_enum)]
    format: Option<TraceFormat>,
    /// File to write, only on success; - is standard output
    #[arg(short, long, value_name = "OUT", default_value = "-")]
    output: PathBuf,
    /// Which violations are errors
    #[arg(long, value_enum, default_value_t = Profile::Strict)]
    profile: Profile,
    /// Show only the session with this id
    #[arg(long, value_name = "ID")]
    session: Option<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum TraceFormat {
    /// Plain text, for a terminal or a screen reader
    Text,
    /// One self-contained page with drawings
    Html,
    /// One JSON object
    Json,
}

impl Visualize {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        let format = match self.format {
            Some(TraceFormat::Text) => trace::Format::Text,
            Some(TraceFormat::Html) => trace::Format::Html,
            None if invocation.json => trace::Format::Json,
            Some(TraceFormat::Json) => trace::Format::Json,
            None => trace::Format::Text,
        };
        let name = match self.file.to_str() {
            Some("-") => "standard input".to_owned(),
            _ => self.file.display().to_string(),
        };
        let file = open(&self.file).map_err(|why| Failure::Usage(format!("cannot read {name}: {why}")))?;
        #[expect(clippy::cast_possible_truncation, reason = "no number is invalid")]
        let seed = World::real().entropy.draw() as u64;
        let options =
            Options { name: &name, profile: self.profile.of_rules(), session: self.session.as_deref(), seed };
        let empty = || Failure::Usage(format!("{name} is empty"));
        if self.output.to_str() == Some("-") {
            let mut out = Terminal { out: Output::new(), closed: false };
            let traced = trace::write(file, format, &mut out, &options);
            if out.closed {
                return Err(Failure::OutputClosed);
            }
            let totals = traced.map_err(|why| failed(&name, why))?;
            if totals.texts == 0 { Err(empty()) } else { verdict(&totals) }
        } else {
            let mut out = Partial::begin(&self.output).map_err(Failure::Usage)?;
            let totals = trace::write(file, format, &mut out, &options).map_err(|why| failed(&name, why))?;
            if totals.texts == 0 {
                return Err(empty());
            }
            out.finish()?;
            verdict(&totals)
        }
    }
}

/// The exit status of `validate`: 1 if a finding is an error. The output is complete either way.
fn verdict(totals: &trace::Totals) -> Result<(), Failure> {
    if totals.errors == 0 { Ok(()) } else { Err(Failure::Negative) }
}

fn failed(name: &str, why: TraceError) -> Failure {
    match why {
        TraceError::Read(why) => Failure::Usage(format!("cannot read {name}: {why}")),
        TraceError::NoSession(_) => Failure::Usage(format!("{name}: {why}")),
        TraceError::Write(why) => why.into(),
    }
}

/// Standard output as a [`Write`].
struct Terminal {
    out: Output,
    closed: bool,
}

impl Write for Terminal {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.out.bytes(bytes) {
            Ok(()) => Ok(bytes.len()),
            Err(why) => {
                self.closed |= matches!(why, Failure::OutputClosed);
                Err(io::Error::other(why.to_string()))
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
