//! `recount export`: whole runs as lines, each with its head, for another server or for keeping.

use std::path::PathBuf;

use clap::Args;
use recount_client::export::Header;
use recount_server::export::Sum;
use serde_json::json;

use super::Common;
use super::partial::Partial;
use crate::exit::Failure;
use crate::output::{Output, note};
use crate::place::Place;
use crate::render::clean;

#[derive(Args)]
pub(super) struct Export {
    /// The runs' ids
    #[arg(value_name = "RUN", required_unless_present = "all", conflicts_with = "all")]
    runs: Vec<String>,
    /// All runs, oldest first
    #[arg(long)]
    all: bool,
    /// Where to write; it is there only when all went well. - is standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    /// Read this data folder, while no server uses it
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

impl Export {
    pub(super) async fn run(self, common: Common) -> Result<(), Failure> {
        let place = match &self.data {
            Some(data) => Place::open(data)?,
            None => Place::server(common.client()?),
        };
        let (runs, erased) = if self.all { place.runs().await? } else { (self.runs, 0) };
        let mut sink = match self.output.to_str() {
            Some("-") => Sink::Stdout(Output::new()),
            _ => Sink::File(Partial::begin(&self.output)?),
        };
        let mut told = Vec::with_capacity(runs.len());
        for run in runs {
            let header = write(&place, &run, &mut sink).await?;
            told.push(header);
        }
        let damaged = if self.all { place.damaged().to_vec() } else { Vec::new() };
        place.close().await?;
        if let Sink::File(partial) = sink {
            partial.finish()?;
            let mut out = Output::new();
            for header in &told {
                tell(&mut out, common.json, header)?;
            }
        }
        let events: u64 = told.iter().map(|header| header.events - header.first_sequence.unwrap_or(0)).sum();
        let runs = if told.len() == 1 { "1 run".to_owned() } else { format!("{} runs", told.len()) };
        let erased = match erased {
            0 => String::new(),
            1 => "; 1 erased run left out".to_owned(),
            erased => format!("; {erased} erased runs left out"),
        };
        note(&format!("{runs} exported, {events} events{erased}"));
        for run in &damaged {
            note(&format!("{run} is damaged and was left out; recount salvage saves what is left of it"));
        }
        if damaged.is_empty() { Ok(()) } else { Err(Failure::No) }
    }
}

enum Sink {
    Stdout(Output),
    File(Partial),
}

impl Sink {
    fn line(&mut self, line: &str) -> Result<(), Failure> {
        match self {
            Sink::Stdout(out) => out.json(line),
            Sink::File(file) => file.line(line),
        }
    }
}

/// Writes a run up to what its digest covers, and adds it up on the way.
async fn write(place: &Place, run: &str, sink: &mut Sink) -> Result<Header, Failure> {
    let header = place.header(run).await?;
    let (events, first) = (header.events, header.first_sequence.unwrap_or(0));
    sink.line(&header.line())?;
    let begun = header.start.as_deref().and_then(|start| Sum::beginning_at(run, first, start));
    let mut sum = begun.unwrap_or_else(|| Sum::new(run));
    let mut written = first;
    while written < events {
        let page = place.events(run, written, |envelope| {
            if written == events {
                return Ok(());
            }
            written += 1;
            sum.event(envelope).map_err(Failure::Refused)?;
            let text = std::str::from_utf8(envelope);
            sink.line(text.map_err(|why| Failure::Refused(format!("{run} holds no text: {why}")))?)
        });
        if page.await? == 0 {
            break;
        }
    }
    sum.finish(events, &header.head).map_err(Failure::Refused)?;
    Ok(header)
}

fn tell(out: &mut Output, as_json: bool, header: &Header) -> Result<(), Failure> {
    if as_json {
        return out.value(&json!({
            "run_id": header.run_id, "events": header.events, "head": header.head,
        }));
    }
    let line = format!("{} exported, {} events, head {}", header.run_id, header.events, header.head);
    out.line(&clean::line(&line))
}
