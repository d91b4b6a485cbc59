//! `aaep conformance`: tests producers and subscribers against the requirements of the protocol.

mod producer;
mod subscriber;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use recount_aaep_kit::conformance::Report;
use recount_command_line::clean;

use super::Format;
use crate::failure::Failure;
use crate::invocation::{Invocation, Output};

#[derive(Args)]
pub(super) struct Conformance {
    #[command(subcommand)]
    side: Side,
}

#[derive(Subcommand)]
enum Side {
    /// Test a producer: trigger events, listen, and send valid and invalid answers
    Producer(Box<producer::Producer>),
    /// Test a subscriber: serve a producer for it and check what it does
    Subscriber(subscriber::Subscriber),
}

impl Conformance {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        match self.side {
            Side::Producer(producer) => producer.run(invocation),
            Side::Subscriber(subscriber) => subscriber.run(invocation),
        }
    }
}

/// Output options of a report.
#[derive(Args)]
struct ReportOptions {
    /// Also write the report as JSON to a file
    #[arg(long, value_name = "FILE")]
    report_json: Option<PathBuf>,
    /// Format of the report on standard output; default: text, or json with --json
    #[arg(long, value_enum)]
    format: Option<Format>,
}

impl ReportOptions {
    /// Prints a report. The verb fails if a requirement is not met.
    fn show(&self, report: &Report, json: bool) -> Result<(), Failure> {
        if let Some(file) = &self.report_json {
            std::fs::write(file, report.to_json() + "\n").map_err(|why| {
                Failure::Internal(format!("cannot write the report to {}: {why}", file.display()))
            })?;
        }
        let mut out = Output::new();
        match Format::of(self.format, json) {
            Format::Text => {
                let lines: Vec<String> = report.lines().iter().map(|line| clean::line(line)).collect();
                out.lines(&lines)?;
            }
            Format::Json => out.json(&report.to_json())?,
        }
        if report.passed() { Ok(()) } else { Err(Failure::Negative) }
    }
}
