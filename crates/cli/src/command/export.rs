//! `recount export`: whole runs as lines, each with its head, for another server or for keeping; or the patches of one run.

mod series;

use std::fmt;
use std::path::{Path, PathBuf};

use clap::Args;
use recount_client::export::{End, ExportSignatures, Header};
use recount_client::reply::SignedHead;
use recount_command_line::partial::Partial;
use recount_server::export::ExportDigest;
use serde_json::json;

use self::series::Series;
use super::ids::{self, IdKind};
use super::invocation::{self, Invocation};
use super::reach::Reached;
use crate::failure::Failure;
use crate::limits;
use crate::output::{Output, note};
use crate::place::{Place, Runs};
use crate::render::{clean, count};

/// Export whole runs to a file
#[derive(Args)]
pub(super) struct Export {
    /// Ids of the runs
    #[arg(value_name = "RUN", required_unless_present = "all", conflicts_with = "all")]
    runs: Vec<String>,
    /// Export all runs, oldest first; damaged or erased runs are skipped and listed
    #[arg(long)]
    all: bool,
    /// File to write; if runs were skipped, FILE.partial instead; - is standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    /// Read this data folder, which no server may be using
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Add the signed heads of the runs, for recount verify --export FILE --public-key KEYS
    #[arg(long, conflicts_with = "patches")]
    signed: bool,
    /// Write the applied patches of one run for git am instead: one file each in DIR, or all to standard output
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = "-")]
    #[arg(conflicts_with_all = ["all", "output", "data"])]
    patches: Option<PathBuf>,
    /// With --patches: keep reverted patches, each with the patch that reverts it
    #[arg(long, requires = "patches")]
    with_reverted: bool,
}

impl Export {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        match &self.patches {
            Some(to) => invocation::block_on_threads(self.series(invocation, to)),
            None => invocation::block_on(self.export(invocation)),
        }
    }

    async fn series(&self, invocation: Invocation, to: &Path) -> Result<(), Failure> {
        let [run] = &*self.runs else {
            return Err(Failure::Usage("--patches exports the patches of one run; name one".to_owned()));
        };
        let to = (to != Path::new("-")).then_some(to);
        // Unfinished runs of the data folder stay as they are.
        let (reached, _) = Reached::new(&invocation, invocation.names_server(), None).await?;
        let done = async {
            let run = ids::full(&reached.client, IdKind::Run, run).await?;
            let series = Series::of(&reached.client, &run, self.with_reverted).await?;
            series.write(&reached.client, to, invocation.json).await
        };
        let done = done.await;
        reached.leave().await;
        done
    }

    async fn export(self, invocation: Invocation) -> Result<(), Failure> {
        let place = match &self.data {
            Some(data) => Place::open(data)?,
            None => Place::server(invocation.client()?),
        };
        let (all, mut named) = (self.all, self.runs);
        if let Place::Server(client, _) = &place {
            for run in &mut named {
                *run = ids::full(client, IdKind::Run, run).await?;
            }
        }
        let Runs { ids, erased, damaged, unread } = match all {
            true => place.runs().await?,
            false => Runs { ids: named, ..Runs::default() },
        };
        let mut sink = match self.output.to_str() {
            Some("-") => ExportSink::Stdout(Output::new()),
            _ => ExportSink::File(Partial::begin(&self.output).map_err(Failure::Usage)?),
        };
        // The runs that are left out, and why.
        let mut left_out: Vec<(String, Why)> =
            damaged.into_iter().map(|run| (run, Why::Damaged(None))).collect();
        let mut exported = Vec::with_capacity(ids.len());
        let mut signatures = SignatureList::default();
        for run in ids {
            match write(&place, &run, &mut sink).await {
                Ok((header, signed)) => {
                    if self.signed {
                        signatures.add(&header, signed);
                    }
                    exported.push(header);
                }
                Err(Failure::Damaged(why)) if all => left_out.push((run, Why::Damaged(Some(why)))),
                Err(Failure::Missing(why)) if all => left_out.push((run, Why::Missing(why))),
                Err(why) => return Err(why),
            }
        }
        let events: u64 =
            exported.iter().map(|header| header.events - header.first_sequence.unwrap_or(0)).sum();
        let end = End { runs: exported.len() as u64, events, left_out: left_out.len() as u64 };
        let keys = if self.signed { place.public_keys().await? } else { None };
        let (unsigned, beyond) = (signatures.unsigned, signatures.beyond);
        let signatures = ExportSignatures { signed: signatures.heads, untrusted_keys: keys };
        sink.line(&end.signed_line(&signatures))?;
        place.close().await?;
        let is_whole = left_out.is_empty() && unread.is_empty();
        let mut partly = None;
        if let ExportSink::File(partial) = sink {
            match is_whole {
                true => partial.finish()?,
                false => partly = Some(partial.finish_incomplete()?),
            }
            let mut out = Output::new();
            for header in &exported {
                print_header(&mut out, invocation.json, header)?;
            }
        }
        let runs = count(exported.len() as u64, "run");
        let erased = match erased {
            0 => String::new(),
            erased => format!("; {} skipped", count(erased, "erased run")),
        };
        note(&format!("{runs} exported, {}{erased}", count(events, "event")));
        for (run, why) in &left_out {
            note(&format!("{run} {why}"));
        }
        unread.iter().for_each(|unread| note(unread));
        if unsigned > 0 {
            note(&format!("{} without a signed head in the export", count(unsigned, "run")));
        }
        if beyond > 0 {
            let heads = count(beyond, "signed head");
            note(&format!("{heads} did not fit in the last line of the export; export fewer runs at once"));
        }
        if let Some(partly) = &partly {
            let (partly, file) = (partly.display(), self.output.display());
            note(&format!("the partial export is in {partly}; {file} was not written"));
        }
        match (is_whole && beyond == 0, note_pruned(&exported)) {
            (false, _) => Err(Failure::No),
            (true, true) => Err(Failure::Pruned),
            (true, false) => Ok(()),
        }
    }
}

/// The signed heads of an export, until they are written.
#[derive(Default)]
struct SignatureList {
    heads: Vec<SignedHead>,
    bytes: usize,
    /// Runs without a signed head.
    unsigned: u64,
    /// Heads beyond [`limits::EXPORT_SIGNED_BYTES_MAX`].
    beyond: u64,
}

impl SignatureList {
    fn add(&mut self, header: &Header, signed: Option<SignedHead>) {
        let Some(head) = signed else {
            self.unsigned += 1;
            return;
        };
        // Quotation marks of the statement are escaped.
        let bytes = 2 * head.statement.len() + head.signature.len() + header.run_id.len();
        if self.bytes + bytes > limits::EXPORT_SIGNED_BYTES_MAX {
            self.beyond += 1;
            return;
        }
        self.bytes += bytes;
        self.heads.push(head);
    }
}

/// Names the runs whose first events are not in the export. Returns whether there are any.
fn note_pruned(exported: &[Header]) -> bool {
    let pruned = exported.iter().filter_map(|header| Some((header, header.first_sequence?)));
    let mut is_pruned = false;
    for (header, first) in pruned.filter(|(_, first)| *first > 0) {
        is_pruned = true;
        note(&format!(
            "{}: {} pruned before the export and not in it; it cannot be imported",
            header.run_id,
            if first == 1 { "event 0 was".to_owned() } else { format!("events 0 to {} were", first - 1) }
        ));
    }
    is_pruned
}

/// Why a run is not in an export of all.
enum Why {
    Damaged(Option<String>),
    /// Since the runs were listed.
    Missing(String),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (is, why, advice) = match self {
            Why::Damaged(why) => {
                ("is damaged", why.as_deref(), "; recount salvage recovers the readable events")
            }
            Why::Missing(why) => ("was erased during the export", Some(&**why), ""),
        };
        let why = why.map(|why| format!(" ({why})")).unwrap_or_default();
        write!(f, "{is} and was skipped{why}{advice}")
    }
}

enum ExportSink {
    Stdout(Output),
    File(Partial),
}

impl ExportSink {
    fn line(&mut self, line: &str) -> Result<(), Failure> {
        match self {
            ExportSink::Stdout(out) => out.json(line),
            ExportSink::File(file) => Ok(file.line(line)?),
        }
    }

    /// How much of a file was written so far; what is on standard output cannot be taken back.
    fn length(&mut self) -> Result<Option<u64>, Failure> {
        match self {
            ExportSink::Stdout(_) => Ok(None),
            ExportSink::File(file) => Ok(Some(file.length()?)),
        }
    }
}

/// Writes a run up to what its digest covers. Nothing of it is written before all of it was read and added up, so that
/// a run that cannot be read leaves no part of itself. A run longer than [`limits::EXPORT_HELD_BYTES_MAX`] is read twice.
async fn write(
    place: &Place,
    run: &str,
    sink: &mut ExportSink,
) -> Result<(Header, Option<SignedHead>), Failure> {
    let (header, signed, held) = hold(place, run).await?;
    let started_at = sink.length()?;
    sink.line(&header.line())?;
    if let Some(lines) = held {
        lines.lines().try_for_each(|line| sink.line(line))?;
        return Ok((header, signed));
    }
    let Err(why) = read(place, &header, |line| sink.line(line)).await else {
        return Ok((header, signed));
    };
    match (sink, started_at, why) {
        (ExportSink::File(file), Some(started_at), why) => {
            file.cut(started_at)?;
            Err(why)
        }
        // Its beginning is written already, so it cannot be left out any more.
        (_, _, Failure::Damaged(why) | Failure::Missing(why)) => Err(Failure::Refused(why)),
        (_, _, why) => Err(why),
    }
}

/// The header of a run, its signed head and, where they are not too long, its lines. One that is pruned meanwhile is read again from what
/// is left.
async fn hold(place: &Place, run: &str) -> Result<(Header, Option<SignedHead>, Option<String>), Failure> {
    let (mut header, mut signed) = place.header(run).await?;
    for _ in 0..limits::EXPORT_PRUNED_MAX {
        let mut held = Some(String::new());
        let found = read(place, &header, |line| {
            if let Some(lines) = &mut held {
                if lines.len() + line.len() < limits::EXPORT_HELD_BYTES_MAX {
                    lines.push_str(line);
                    lines.push('\n');
                } else {
                    held = None;
                }
            }
            Ok(())
        })
        .await;
        let Err(why) = found else { return Ok((header, signed, held)) };
        let (now, signed_now) = place.header(run).await?;
        if now.first_sequence == header.first_sequence {
            return Err(why);
        }
        (header, signed) = (now, signed_now);
    }
    Err(Failure::Damaged(format!("{run} was pruned several times while it was read; export it again")))
}

/// Reads the events of a run that its header covers, adds them up, and compares with the header.
async fn read(
    place: &Place,
    header: &Header,
    mut each: impl FnMut(&str) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let run = &*header.run_id;
    let (events, first) = (header.events, header.first_sequence.unwrap_or(0));
    let resumed = header.start.as_deref().and_then(|start| ExportDigest::beginning_at(run, first, start));
    let mut sum = resumed.unwrap_or_else(|| ExportDigest::new(run));
    let mut read = first;
    while read < events {
        let page =
            place.events(run, read, |envelope| {
                if read == events {
                    return Ok(());
                }
                read += 1;
                sum.event(envelope).map_err(Failure::Damaged)?;
                let text = std::str::from_utf8(envelope);
                each(text.map_err(|why| {
                    Failure::Damaged(format!("{run} contains bytes that are not UTF-8: {why}"))
                })?)
            });
        if page.await? == 0 {
            break;
        }
    }
    sum.finish(events, &header.head).map_err(Failure::Damaged)
}

fn print_header(out: &mut Output, as_json: bool, header: &Header) -> Result<(), Failure> {
    if as_json {
        return out.value(&json!({
            "run_id": header.run_id, "events": header.events, "head": header.head,
        }));
    }
    let events = count(header.events, "event");
    let line = format!("{} exported, {events}, head {}", header.run_id, header.head);
    out.line(&clean::line(&line))
}
