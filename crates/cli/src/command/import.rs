//! `recount import`: takes in the runs of an export, one by one, each whole or not at all; or, with `--from`, the
//! transcripts that other agents write.

mod blocks;
mod transcript_file;
mod transcript_import;
mod transcripts;

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use clap::Args;
use recount_client::export::{End, RUN_BYTES_MAX};
use recount_world::platform;
use serde_json::json;

use self::blocks::{Block, Blocks};
use self::transcripts::From;
use super::invocation::{self, Invocation};
use crate::failure::Failure;
use crate::output::{Output, note};
use crate::place::{ImportOutcome, Place};
use crate::render::{clean, count};

/// Import the runs of an export, or transcripts of other agents
#[derive(Args)]
pub(super) struct Import {
    /// File that recount export wrote; - is standard input. With --from: a transcript, or a folder of them
    #[arg(value_name = "PATH")]
    file: PathBuf,
    /// Import the transcripts of another agent
    #[arg(long, value_name = "SOURCE", value_enum, conflicts_with = "data")]
    from: Option<From>,
    /// Keep importing as the transcripts grow, until interrupted
    #[arg(long, requires = "from")]
    follow: bool,
    /// Import into this data folder, which no server may be using; created if missing
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

impl Import {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        invocation::block_on(self.import(invocation))
    }

    async fn import(self, invocation: Invocation) -> Result<(), Failure> {
        if let Some(from) = self.from {
            let client = invocation.client()?;
            return transcripts::import(client, from, &self.file, self.follow, invocation.json).await;
        }
        let input = open(&self.file)?;
        let place = match &self.data {
            Some(data) => Place::open_or_create(data)?,
            None => Place::server(invocation.client()?),
        };
        let mut blocks = Blocks::new(input, RUN_BYTES_MAX);
        let (mut tally, mut export) = (ImportTally::default(), Section::default());
        let mut out = Output::new();
        while let Some(block) =
            blocks.next().map_err(|why| Failure::Own(format!("cannot read the input: {why}")))?
        {
            if let Some(end) = block.end() {
                if let Err(outcome) = std::mem::take(&mut export).compare(end) {
                    tally.print_result(&mut out, invocation.json, &block.name(), &outcome)?;
                }
                continue;
            }
            let name = block.name();
            export.take(&block);
            let outcome = match block {
                Block { is_too_large: true, .. } => ImportOutcome::Refused {
                    code: "limit_reached".to_owned(),
                    detail: format!("the run is larger than {RUN_BYTES_MAX} bytes (RUN_BYTES_MAX)"),
                },
                Block { lines, .. } => place.import(lines).await?,
            };
            tally.print_result(&mut out, invocation.json, &name, &outcome)?;
        }
        place.close().await?;
        if export != Section::default() {
            note(
                "the input has no final line with the number of runs; if it was truncated, runs are missing",
            );
            note("exports of older releases have no final line");
        }
        tally.verdict()
    }
}

fn open(file: &Path) -> Result<Box<dyn BufRead>, Failure> {
    if file == Path::new("-") {
        return Ok(Box::new(BufReader::new(std::io::stdin())));
    }
    let opened = check_kind(file).and_then(|()| File::open(file));
    match opened {
        Ok(opened) => Ok(Box::new(BufReader::new(opened))),
        Err(why) => Err(Failure::Usage(format!("cannot read {}: {why}", file.display()))),
    }
}

/// Refuses a pipe or a device with a name, because reading it might never begin or never end. A pipe of a shell
/// (`<(...)`) is open already.
fn check_kind(file: &Path) -> std::io::Result<()> {
    let found = std::fs::metadata(file)?;
    let is_open_pipe =
        platform::is_named_pipe(&found) && ["/dev/", "/proc/"].iter().any(|at| file.starts_with(at));
    if found.is_file() || found.is_dir() || is_open_pipe {
        return Ok(());
    }
    Err(std::io::Error::other("it is not a regular file; to read it, redirect it to - (standard input)"))
}

/// What came since the beginning of the input, or since the last line of an export that was joined to it.
#[derive(Default, PartialEq, Eq)]
struct Section {
    runs: u64,
    events: u64,
}

impl Section {
    fn take(&mut self, block: &Block) {
        let Some(header) = block.header() else { return };
        self.runs += 1;
        self.events += header.events.saturating_sub(header.first_sequence.unwrap_or(0));
    }

    /// Compares with the header and the end of the export. The error is why it does not match.
    fn compare(self, end: Result<End, String>) -> Result<(), ImportOutcome> {
        let refused = |code: &str, detail| ImportOutcome::Refused { code: code.to_owned(), detail };
        let End { runs, events, left_out } = end.map_err(|why| refused("body_malformed", why))?;
        if left_out > 0 {
            note(&format!("{} left out of the export", count(left_out, "damaged run")));
        }
        if (self.runs, self.events) == (runs, events) {
            return Ok(());
        }
        let detail = format!(
            "the export has {} with {}, but the file contains {} with {}",
            count(runs, "run"),
            count(events, "event"),
            count(self.runs, "run"),
            count(self.events, "event")
        );
        Err(refused("export_altered", detail))
    }
}

#[derive(Default)]
struct ImportTally {
    imported: usize,
    here_already: usize,
    refused: usize,
}

impl ImportTally {
    /// `name` is a run's id, or a place in the file.
    fn print_result(
        &mut self,
        out: &mut Output,
        as_json: bool,
        name: &str,
        outcome: &ImportOutcome,
    ) -> Result<(), Failure> {
        match outcome {
            ImportOutcome::Imported { is_new: true, .. } => self.imported += 1,
            ImportOutcome::Imported { is_new: false, .. } => self.here_already += 1,
            ImportOutcome::Refused { .. } => self.refused += 1,
        }
        if as_json {
            let run = name.starts_with("run_").then_some(name);
            return out.value(&match outcome {
                ImportOutcome::Imported { events, head, is_new } => {
                    json!({ "run_id": run, "ok": true, "imported": is_new, "events": events, "head": head })
                }
                ImportOutcome::Refused { code, detail } => {
                    json!({ "run_id": run, "ok": false, "imported": false, "code": code, "detail": detail })
                }
            });
        }
        let line = match outcome {
            ImportOutcome::Imported { events, head, is_new: true } => {
                format!("{name} imported, {}, head {head}", count(*events, "event"))
            }
            ImportOutcome::Imported { events, head, is_new: false } => {
                format!("{name} already present, {}, head {head}", count(*events, "event"))
            }
            ImportOutcome::Refused { code, detail } => format!("{name} refused: {detail} ({code})"),
        };
        out.line(&clean::line(&line))
    }

    fn verdict(self) -> Result<(), Failure> {
        let ImportTally { imported, here_already, refused } = self;
        note(&format!("{imported} imported, {here_already} already present, {refused} refused"));
        if refused == 0 { Ok(()) } else { Err(Failure::No) }
    }
}
