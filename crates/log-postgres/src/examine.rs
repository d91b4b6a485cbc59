//! A look at the whole store: every record, row and blob is read once.

use std::sync::Arc;

use recount_log::chain::ChainValue;
use recount_log::limits::PROBLEMS_MAX;
use recount_log::{Fault, Integrity, MaybeDamage as _, ReadBound, StreamKey};

use crate::core::Core;
use crate::{blobs, limits, rows, streams};

/// Problems, of which only some are listed.
#[derive(Default)]
struct Problems {
    listed: Vec<String>,
    more: usize,
}

impl Problems {
    fn add(&mut self, problem: String) {
        if self.listed.len() < PROBLEMS_MAX { self.listed.push(problem) } else { self.more += 1 }
    }

    fn finish(mut self) -> Vec<String> {
        if self.more > 0 {
            self.listed.push(format!("and {} more problems", self.more));
        }
        self.listed
    }
}

/// Reads everything. Appends go on meanwhile.
pub(crate) async fn examine(core: &Arc<Core>) -> Result<Integrity, Fault> {
    let (mut found, mut problems) = (Integrity::default(), Problems::default());
    let before = last_position(core).await?;
    let (mut after, mut records, mut is_counted): (Option<StreamKey>, u64, bool) = (None, 0, true);
    loop {
        let names = streams::list(core.readers(), &core.sql, after.as_deref(), limits::SCAN_PAGE).await?;
        for name in &names {
            match examine_stream(core, name).await {
                Ok(stream) => {
                    found.readable_records += stream.readable;
                    records += stream.ever;
                    match stream.problem {
                        None => found.readable_streams += 1,
                        Some(problem) => problems.add(problem),
                    }
                }
                Err(fault) if fault.is_damage() => {
                    is_counted = false;
                    problems.add(fault.message);
                }
                Err(fault) => return Err(fault),
            }
        }
        let Some(last) = names.last() else { break };
        after = Some(last.clone());
    }
    // Each position belongs to one record of one stream. Missing records at the end of a stream are found only here.
    if is_counted && records < before {
        problems.add(format!("{} records are missing at the ends of streams", before - records));
    }
    for row in rows::damaged_rows(core.readers(), &core.sql).await? {
        problems.add(format!("row {row} does not match its checksum"));
    }
    examine_blobs(core, &mut problems).await?;
    found.problems = problems.finish();
    Ok(found)
}

async fn last_position(core: &Core) -> Result<u64, Fault> {
    let rows = core.readers().query("reading the counters", &core.sql.counters, &[&core.name()]).await?;
    Ok(rows.first().map_or(0, |row| row.get::<_, i64>(2).cast_unsigned()))
}

struct Examined {
    readable: u64,
    /// Records that the stream ever had.
    ever: u64,
    problem: Option<String>,
}

async fn examine_stream(core: &Arc<Core>, name: &StreamKey) -> Result<Examined, Fault> {
    let Some(state) = streams::find(core.readers(), &core.sql, name).await? else {
        return Ok(Examined { readable: 0, ever: 0, problem: None });
    };
    let bound = ReadBound { count: limits::SCAN_PAGE, bytes: limits::SCAN_PAGE_BYTES };
    let (mut next, mut readable, mut problem) = (state.first_sequence, 0, None);
    let mut head: ChainValue = state.start_of(name);
    let mut last_position = 0;
    while next < state.next_sequence {
        match core.reading().stream(name, next, bound).await {
            Ok(records) => {
                let Some(last) = records.last() else { break };
                for record in &records {
                    if record.position <= last_position {
                        problem = Some(format!(
                            "stream {name}: positions do not grow at sequence {}",
                            record.sequence
                        ));
                    }
                    last_position = record.position;
                    head = head.then(&record.bytes);
                }
                readable += records.len() as u64;
                next = last.sequence + 1;
            }
            Err(fault) => {
                let Some(range) = fault.damage.as_ref().and_then(|damage| damage.sequences.clone()) else {
                    return Err(fault);
                };
                next = range.end().saturating_add(1);
                problem = Some(fault.message);
            }
        }
    }
    // The chain over damaged records cannot be computed.
    let tail = if problem.is_none() { core.reading().tail(name).await? } else { None };
    if let Some(tail) = tail
        && tail.next_sequence == next
        && tail.head != head
    {
        problem = Some(format!(
            "stream {name}: its records have the chain value {head}, but its head is {}",
            tail.head
        ));
    }
    Ok(Examined { readable, ever: state.next_sequence, problem })
}

async fn examine_blobs(core: &Arc<Core>, problems: &mut Problems) -> Result<(), Fault> {
    let mut after: Option<String> = None;
    loop {
        let names = blobs::list(core.readers(), &core.sql, after.as_deref(), limits::SCAN_PAGE).await?;
        for name in &names {
            match blobs::get(core.readers(), &core.sql, name).await {
                Err(fault) if fault.is_damage() => problems.add(fault.message),
                Err(fault) => return Err(fault),
                Ok(_) => {}
            }
        }
        let Some(last) = names.last() else { break };
        after = Some(last.clone());
    }
    Ok(())
}
