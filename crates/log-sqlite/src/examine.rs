//! Checks the whole store: whether everything exists and is consistent, and what can still be read.
//!
//! It also works on a damaged database: it skips what SQLite cannot read, and changes nothing.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use recount_log::chain::ChainValue;
use recount_log::limits::PROBLEMS_MAX;
use recount_log::{Fault, Integrity, StreamKey};
use rusqlite::{Connection, Row};

use crate::blobs::Blobs;
use crate::changes;
use crate::fault::{FaultContext as _, closed};
use crate::layout::{self, FeedRow, StreamTail};
use crate::packing::NO_STREAM;
use crate::rows;

/// The number of SQLite steps between checks of the stop flag.
const STEPS_BETWEEN_LOOKS: i32 = 10_000;

/// The first line of SQLite's reports, which names the database of a connection.
const DATABASE_LINE: &str = "*** in database main ***";

/// Checks everything, and blobs if given, on a connection that is not used afterwards. Returns the fault `closed` when
/// `stop` is set.
pub(crate) fn examine(
    mut connection: Connection,
    blobs: Option<&Blobs>,
    stop: &Arc<AtomicBool>,
) -> Result<Integrity, Fault> {
    let stopped = stop.clone();
    let watch = move || stopped.load(Ordering::Relaxed);
    connection.progress_handler(STEPS_BETWEEN_LOOKS, Some(watch)).context("checking the whole store")?;
    let stop = || stop.load(Ordering::Relaxed);
    let mut problems = Problems::default();
    // One snapshot for all checks. On a damaged database this may fail; the checks then read without it.
    if let Err(error) = connection.execute_batch("BEGIN") {
        problems.add(format!("cannot open a snapshot of the database for the check: {error}"));
    }
    let schema = connection.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0));
    if let Ok(schema) = schema
        && schema < crate::schema::VERSION
    {
        problems.add(format!(
            "the database has the old schema {schema}; open the store to migrate it, then check its records"
        ));
    }
    let mut look = StoreCheck { connection: &connection, stop: &stop, problems: &mut problems };
    look.pages();
    let streams = look.streams();
    let (readable_streams, readable_records) = look.records(&streams);
    look.rows();
    drop(connection);
    if let Some(blobs) = blobs {
        blobs.examine(|problem| problems.add(problem), &stop);
    }
    if stop() {
        return Err(closed());
    }
    Ok(Integrity {
        problems: problems.into_sentences(),
        notes: Vec::new(),
        readable_streams,
        readable_records,
    })
}

/// Problems as sentences, up to a bound.
#[derive(Default)]
struct Problems {
    sentences: Vec<String>,
    more: usize,
}

impl Problems {
    fn add(&mut self, sentence: String) {
        if self.sentences.len() < PROBLEMS_MAX - 1 {
            self.sentences.push(sentence);
        } else {
            self.more += 1;
        }
    }

    /// The current number of problems.
    fn all(&self) -> usize {
        self.sentences.len() + self.more
    }

    fn into_sentences(mut self) -> Vec<String> {
        if self.more > 0 {
            self.sentences.push(format!("and {} more problems of this kind", self.more));
        }
        self.sentences
    }
}

struct StoreCheck<'a> {
    connection: &'a Connection,
    stop: &'a dyn Fn() -> bool,
    problems: &'a mut Problems,
}

/// The records found of one stream.
#[derive(Default)]
struct FoundStream {
    chunks: Vec<Chunk>,
    hot: Option<HotSequence>,
    /// The first and last sequence of each damaged range of the hot part.
    damaged: Vec<(u64, u64)>,
    records: u64,
}

/// The bounds and chain values of one chunk.
struct Chunk {
    first_sequence: u64,
    end: u64,
    start: ChainValue,
    /// `None` where the chunk is damaged.
    head: Option<ChainValue>,
    last_position: u64,
    /// Why it is damaged.
    why: Option<String>,
}

/// A sum over which stream is at which position, independent of the order of reading.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct PositionSum {
    count: u64,
    sum: u64,
}

impl PositionSum {
    fn add(&mut self, position: u64, stream: i64, sequence: u64) {
        let mut mixed = position;
        for part in [stream.unsigned_abs(), sequence] {
            mixed = (mixed ^ (mixed >> 31)).wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(part);
        }
        self.count += 1;
        self.sum = self.sum.wrapping_add((mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9));
    }
}

/// The next expected hot sequence of one stream.
#[derive(Clone, Copy)]
struct HotSequence {
    next_sequence: u64,
    whole: bool,
}

type Streams = BTreeMap<i64, (StreamKey, StreamTail)>;

impl StoreCheck<'_> {
    /// SQLite's own check of its pages.
    fn pages(&mut self) {
        let sql = format!("PRAGMA integrity_check({PROBLEMS_MAX})");
        let found = self.connection.prepare(&sql).and_then(|mut statement| {
            let sentences = statement.query_map([], |row| row.get::<_, String>(0))?;
            sentences.collect::<rusqlite::Result<Vec<_>>>()
        });
        match found {
            Ok(sentences) => {
                let lines = sentences.iter().flat_map(|sentence| sentence.lines());
                let wrong = lines.filter(|line| !["ok", DATABASE_LINE].contains(line));
                wrong.for_each(|line| self.problems.add(format!("SQLite reports: {line}")));
            }
            Err(error) => self.problems.add(format!("SQLite cannot check its pages: {error}")),
        }
    }

    fn streams(&mut self) -> Streams {
        let mut streams = BTreeMap::new();
        self.scan("streams", layout::STREAMS_BY_ID, &mut |row| {
            streams.insert(row.get(0)?, layout::stored_tail(row)?);
            Ok(())
        });
        streams
    }

    /// Reads every record and compares the result with the rows of the streams.
    /// Returns how many streams are whole and how many records can be read.
    fn records(&mut self, streams: &Streams) -> (u64, u64) {
        let mut counted: HashMap<i64, FoundStream> = HashMap::new();
        let in_chunks = self.chunks(streams, &mut counted);
        let mut next_position = 1;
        let mut in_feed = self.feed(streams, &mut next_position);
        // Records in a chunk may still be in their group.
        self.groups(streams, &mut counted, next_position, &mut in_feed);
        // A damaged chunk is missing here and reported separately.
        let all_read = counted.values().flat_map(|stream| &stream.chunks).all(|chunk| chunk.why.is_none());
        if in_chunks != in_feed && all_read {
            let (chunks, feed) = (in_chunks.count, in_feed.count);
            self.problems.add(format!(
                "the sealed records ({chunks} readable) do not match their positions in the feed ({feed})"
            ));
        }

        let readable = counted.values().map(|stream| stream.records).sum();
        let mut whole_streams = 0;
        for (id, (key, tail_row)) in streams {
            let counted = counted.remove(id).unwrap_or_default();
            let before = self.problems.all();
            self.stream(key, tail_row, &counted);
            let hot_is_whole = counted.hot.is_none_or(|hot| hot.whole);
            if hot_is_whole && self.problems.all() == before {
                whole_streams += 1;
            }
        }
        for (id, counted) in counted {
            let records = counted.records;
            self.problems.add(format!("stream number {id} has {records} records, but no name"));
        }
        (whole_streams, readable)
    }

    fn chunks(&mut self, streams: &Streams, counted: &mut HashMap<i64, FoundStream>) -> PositionSum {
        let mut places = PositionSum::default();
        let mut wrong = Vec::new();
        self.scan("chunks", layout::CHUNKS_BY_ID, &mut |row| {
            let chunk = match layout::stored_chunk(row) {
                Ok(chunk) => chunk,
                Err(fault) => {
                    // The stream of a damaged chunk can be named if these columns are valid.
                    let (stream, first_sequence, records) = layout::claimed_chunk(row)?;
                    let end = first_sequence.saturating_add(records);
                    match streams.get(&stream).filter(|(_, tail)| records > 0 && end <= tail.next_sequence) {
                        Some((_, tail)) => {
                            let damage = Chunk {
                                first_sequence,
                                end,
                                start: tail.start,
                                head: None,
                                last_position: 0,
                                why: Some(fault.message),
                            };
                            counted.entry(stream).or_default().chunks.push(damage);
                        }
                        None => wrong.push(fault.message),
                    }
                    return Ok(());
                }
            };
            let stream = counted.entry(chunk.stream).or_default();
            let mut found = Chunk {
                why: None,
                first_sequence: chunk.first_sequence,
                end: chunk.end(),
                start: chunk.start,
                head: Some(chunk.start),
                last_position: 0,
            };
            for (sequence, position, bytes) in chunk.records() {
                if position <= found.last_position {
                    wrong.push(format!(
                        "stream {} has sequence {sequence} at position {position}, which is not after the \
                         previous one",
                        name(streams, chunk.stream)
                    ));
                }
                places.add(position, chunk.stream, sequence);
                stream.records += 1;
                found.head = found.head.map(|head| head.then(bytes));
                found.last_position = position;
            }
            stream.chunks.push(found);
            Ok(())
        });
        wrong.into_iter().for_each(|sentence| self.problems.add(sentence));
        places
    }

    fn feed(&mut self, streams: &Streams, next_position: &mut u64) -> PositionSum {
        let mut places = PositionSum::default();
        let mut wrong = Vec::new();
        self.scan("feed", layout::FEED_BY_POSITION, &mut |row| {
            let FeedRow { first, last, spans } = match layout::stored_feed(row) {
                Ok(found) => found,
                Err(fault) => {
                    wrong.push(fault.message);
                    return Ok(());
                }
            };
            wrong.extend(gap(*next_position, first));
            *next_position = last + 1;
            let mut position = first;
            for span in spans {
                // Records that were cut since are skipped.
                let kept = streams.get(&span.stream).map_or(0, |(_, tail)| tail.first_sequence);
                for sequence in span.first_sequence..span.first_sequence + span.count {
                    if span.stream != NO_STREAM && sequence >= kept {
                        places.add(position, span.stream, sequence);
                    }
                    position += 1;
                }
            }
            Ok(())
        });
        wrong.into_iter().for_each(|sentence| self.problems.add(sentence));
        places
    }

    fn groups(
        &mut self,
        streams: &Streams,
        counted: &mut HashMap<i64, FoundStream>,
        mut next_position: u64,
        in_both: &mut PositionSum,
    ) {
        let mut wrong = Vec::new();
        let sql = r#"SELECT first_position, records, "index", events FROM groups
            WHERE first_position >= ?1 ORDER BY first_position LIMIT ?2"#;
        self.scan("groups", sql, &mut |row| {
            let group = match layout::stored_group(row) {
                Ok(group) => group,
                Err(fault) => {
                    wrong.push(fault.message);
                    return Ok(());
                }
            };
            wrong.extend(gap(next_position, group.first_position));
            next_position = group.last_position() + 1;
            let sound = group.check();
            for (position, slot, _) in group.records() {
                let stream = counted.entry(slot.stream).or_default();
                let sealed = streams.get(&slot.stream).map_or(0, |(_, tail)| tail.next_sequence);
                if slot.sequence < sealed {
                    in_both.add(position, slot.stream, slot.sequence);
                    continue;
                }
                let hot = stream.hot.get_or_insert(HotSequence { next_sequence: sealed, whole: true });
                if slot.sequence != hot.next_sequence {
                    hot.whole = false;
                    wrong.push(format!(
                        "stream {} has sequence {} at position {position}, expected sequence {}",
                        name(streams, slot.stream),
                        slot.sequence,
                        hot.next_sequence
                    ));
                }
                hot.next_sequence = slot.sequence.saturating_add(1);
                if sound.is_ok() {
                    stream.records += 1;
                    continue;
                }
                hot.whole = false;
                match stream.damaged.last_mut() {
                    Some((_, last)) if *last + 1 == slot.sequence => *last = slot.sequence,
                    _ => stream.damaged.push((slot.sequence, slot.sequence)),
                }
            }
            Ok(())
        });
        wrong.into_iter().for_each(|sentence| self.problems.add(sentence));
    }

    /// Whether the chunks of one stream follow each other and lead to the end in its row.
    fn stream(&mut self, key: &StreamKey, tail_row: &StreamTail, counted: &FoundStream) {
        let mut chunks: Vec<&Chunk> = counted.chunks.iter().collect();
        chunks.sort_by_key(|chunk| chunk.first_sequence);
        let (mut next, mut head) = (tail_row.first_sequence, Some(tail_row.start));
        let mut last_position = None;
        for chunk in chunks {
            if chunk.first_sequence != next {
                self.problems.add(format!(
                    "stream {key} has the sealed sequence {}, expected sequence {next}",
                    chunk.first_sequence
                ));
            } else if let Some(why) = &chunk.why {
                let last = chunk.end - 1;
                self.problems.add(format!("stream {key} is damaged from sequence {next} to {last}: {why}"));
            } else if let Some(head) = head.filter(|head| *head != chunk.start) {
                self.problems.add(format!(
                    "stream {key} was changed: its records before sequence {next} have the chain value \
                     {head}, but the next chunk starts with {}",
                    chunk.start
                ));
            }
            (next, head) = (chunk.end, chunk.head);
            last_position = chunk.why.is_none().then_some(chunk.last_position);
        }
        if next != tail_row.next_sequence {
            let tail = tail_row.next_sequence;
            self.problems.add(format!("stream {key} is sealed up to {next}, but its row has {tail}"));
        } else if let Some(head) = head.filter(|head| *head != tail_row.head) {
            self.problems.add(format!(
                "stream {key} was changed: its sealed records have the chain value {head}, but its head is {}",
                tail_row.head
            ));
        } else if last_position.is_some_and(|found| found != tail_row.last_position) {
            let last = tail_row.last_position;
            self.problems
                .add(format!("stream {key} does not have its last sealed record at position {last}"));
        }
        for (first, last) in &counted.damaged {
            self.problems.add(format!(
                "stream {key} is damaged from sequence {first} to {last}: its newest records do not match \
                 their checksum"
            ));
        }
        if tail_row.next_sequence == 0 && counted.records == 0 && counted.damaged.is_empty() {
            self.problems.add(format!("stream {key} has no readable record"));
        }
        if tail_row.erased && counted.records > 0 {
            let records = counted.records;
            self.problems.add(format!("stream {key} was erased but still has {records} records"));
        }
    }

    fn rows(&mut self) {
        let mut wrong = Vec::new();
        let read = rows::all(self.connection, &mut |row| wrong.extend(row.err()));
        for error in wrong {
            self.problems.add(error.to_string());
        }
        if let Err(error) = read {
            self.problems.add(format!("some rows cannot be read: {error}"));
        }
        if let Err(fault) = changes::load(self.connection) {
            self.problems.add(fault.message);
        }
    }

    /// Reads a table in the order of its number column, from the first to the last readable row.
    /// `sql` selects rows with at least the number `?1`, at most `?2` of them, number first.
    fn scan(&mut self, table: &str, sql: &str, each: &mut dyn FnMut(&Row<'_>) -> rusqlite::Result<()>) {
        let mut from = 0_i64;
        while !(self.stop)() {
            let mut next = from;
            let mut part = || -> rusqlite::Result<()> {
                let mut statement = self.connection.prepare_cached(sql)?;
                let mut rows = statement.query([from, i64::MAX])?;
                while let Some(row) = rows.next()? {
                    let this: i64 = row.get(0)?;
                    // A damaged index may lead anywhere, so never go back.
                    if this < next {
                        return Err(rusqlite::Error::IntegralValueOutOfRange(0, this));
                    }
                    each(row)?;
                    next = this.saturating_add(1);
                }
                Ok(())
            };
            let Err(error) = part() else { return };
            if (self.stop)() {
                return;
            }
            let Some(resume) = self.beyond_damage(sql, next) else {
                self.problems.add(format!("{table}: nothing can be read from number {next} on ({error})"));
                return;
            };
            self.problems.add(format!("{table}: numbers {next} to {} cannot be read ({error})", resume - 1));
            from = resume;
        }
    }

    /// The first number from which reading works again: by strides that double, then by halving.
    fn beyond_damage(&self, sql: &str, damaged: i64) -> Option<i64> {
        let mut bad = damaged;
        let mut stride = 1_i64;
        let mut good = loop {
            let probe = damaged.checked_add(stride)?;
            if (self.stop)() {
                return None;
            }
            match self.first_from(sql, probe) {
                Ok(Some(_)) => break probe,
                // Past the end.
                Ok(None) => return None,
                Err(_) => bad = probe,
            }
            stride = stride.checked_mul(2)?;
        };
        while good - bad > 1 {
            let middle = bad + (good - bad) / 2;
            match self.first_from(sql, middle) {
                Ok(Some(_)) => good = middle,
                Ok(None) | Err(_) => bad = middle,
            }
        }
        Some(good)
    }

    fn first_from(&self, sql: &str, from: i64) -> rusqlite::Result<Option<i64>> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut rows = statement.query([from, 1])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        // Reads every column, because a value may continue on a damaged page.
        for column in 1..row.as_ref().column_count() {
            row.get_ref(column)?;
        }
        row.get(0).map(Some)
    }
}

/// The message about positions without a record.
fn gap(expected: u64, found: u64) -> Option<String> {
    (found > expected).then(|| format!("positions {expected} to {} have no readable record", found - 1))
}

fn name(streams: &Streams, id: i64) -> String {
    streams.get(&id).map_or_else(|| format!("number {id} (name lost)"), |(key, _)| key.to_string())
}

/// SQLite's quick check of all pages.
pub(crate) fn check_pages(connection: &Connection) -> Result<(), Fault> {
    let context = "checking the pages of the database";
    let first =
        connection.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0)).context(context)?;
    let report = first.trim_start_matches(DATABASE_LINE).trim_start().replace('\n', "; ");
    if report == "ok" { Ok(()) } else { Err(crate::fault::corrupt(format!("{context}: {report}"))) }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek as _, SeekFrom, Write as _};

    use super::*;

    #[test]
    fn a_damaged_page_is_reported_in_one_line() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("cut.db");
        let connection = Connection::open(&file).unwrap();
        connection.execute_batch("CREATE TABLE a (b); INSERT INTO a VALUES (zeroblob(100000));").unwrap();
        check_pages(&connection).unwrap();
        drop(connection);
        std::fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(8192).unwrap();
        let why = check_pages(&Connection::open(&file).unwrap()).unwrap_err();
        let message = why.message;
        assert!(
            message.starts_with("checking the pages of the database: ") && !message.contains('\n'),
            "{message}"
        );
        assert!(message.contains("page") && !message.contains("***"), "{message}");
    }

    #[test]
    fn the_problems_of_damaged_pages_do_not_name_the_database_of_the_connection() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("damaged.db");
        let connection = Connection::open(&path).unwrap();
        connection.execute_batch("CREATE TABLE a (b); INSERT INTO a VALUES (zeroblob(100000));").unwrap();
        drop(connection);
        // The fifth page has a part of the value; its first bytes are the number of the next page.
        let mut file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.seek(SeekFrom::Start(4 * 4096)).unwrap();
        file.write_all(&[0xff; 4]).unwrap();
        let (connection, mut problems) = (Connection::open(&path).unwrap(), Problems::default());
        StoreCheck { connection: &connection, stop: &|| false, problems: &mut problems }.pages();
        let found = problems.into_sentences();
        assert!(found.iter().any(|problem| problem.starts_with("SQLite reports: Tree ")), "{found:?}");
        assert!(found.iter().all(|problem| !problem.contains("***")), "{found:?}");
        let why = check_pages(&connection).unwrap_err().message;
        assert!(why.starts_with("checking the pages of the database: Tree "), "{why}");
    }
}
