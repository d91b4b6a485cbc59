//! Reading the whole store once: is everything there, does it add up, and what can still be read?
//!
//! It works on a damaged database too, stepping over what SQLite cannot read, and changes nothing.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use recount_log::chain::ChainValue;
use recount_log::limits::PROBLEMS_MAX;
use recount_log::{Fault, Integrity};
use rusqlite::{Connection, Row};

use crate::blobs::Blobs;
use crate::fault::{Doing as _, closed};
use crate::layout::{bytes, number};

/// How often SQLite asks whether to go on, in its own small steps.
const STEPS_BETWEEN_LOOKS: i32 = 10_000;

/// Looks at everything, at blobs too if they are given, over a connection that nobody needs afterwards.
/// Refused as closed when `stop` is set meanwhile.
pub(crate) fn examine(
    mut connection: Connection,
    blobs: Option<&Blobs>,
    stop: &Arc<AtomicBool>,
) -> Result<Integrity, Fault> {
    let told = stop.clone();
    let watch = move || told.load(Ordering::Relaxed);
    connection.progress_handler(STEPS_BETWEEN_LOOKS, Some(watch)).doing("looking at the whole store")?;
    let stop = || stop.load(Ordering::Relaxed);
    let mut problems = Problems::default();
    // One state for all that follows. On a damaged database this may fail; what follows then sees what it can.
    if let Err(error) = connection.execute_batch("BEGIN") {
        problems.add(format!("the database does not hold still to be looked at: {error}"));
    }
    let mut look = Look { connection: &connection, stop: &stop, problems: &mut problems };
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
    Ok(Integrity { problems: problems.told(), readable_streams, readable_records })
}

/// Sentences, up to a bound.
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

    fn told(mut self) -> Vec<String> {
        if self.more > 0 {
            self.sentences.push(format!("and {} more of such", self.more));
        }
        self.sentences
    }
}

struct Look<'a> {
    connection: &'a Connection,
    stop: &'a dyn Fn() -> bool,
    problems: &'a mut Problems,
}

/// A stream as its row tells it.
struct Told {
    key: String,
    next_sequence: u64,
    last_position: u64,
    head: ChainValue,
}

/// A stream as its records add up.
struct Counted {
    next_sequence: u64,
    last_position: u64,
    head: ChainValue,
    whole: bool,
}

impl Look<'_> {
    /// What SQLite itself says of its pages.
    fn pages(&mut self) {
        let sql = format!("PRAGMA integrity_check({PROBLEMS_MAX})");
        let found = self.connection.prepare(&sql).and_then(|mut statement| {
            let sentences = statement.query_map([], |row| row.get::<_, String>(0))?;
            sentences.collect::<rusqlite::Result<Vec<_>>>()
        });
        match found {
            Ok(sentences) => {
                let wrong =
                    sentences.iter().flat_map(|sentence| sentence.lines()).filter(|line| *line != "ok");
                wrong.for_each(|line| self.problems.add(format!("SQLite says: {line}")));
            }
            Err(error) => self.problems.add(format!("SQLite cannot check its pages: {error}")),
        }
    }

    fn streams(&mut self) -> BTreeMap<i64, Told> {
        let mut streams = BTreeMap::new();
        let sql = "SELECT id, key, next_sequence, last_position, head FROM streams WHERE id >= ?1 ORDER BY id LIMIT ?2";
        self.scan("streams", sql, &mut |row| {
            let told = Told {
                key: row.get(1)?,
                next_sequence: number(row, 2)?,
                last_position: number(row, 3)?,
                head: ChainValue(row.get(4)?),
            };
            streams.insert(row.get(0)?, told);
            Ok(())
        });
        streams
    }

    /// Reads every record and compares what they add up to with what the streams say of themselves.
    /// Answers how many streams are whole and how many records can be read.
    fn records(&mut self, streams: &BTreeMap<i64, Told>) -> (u64, u64) {
        let mut counted: HashMap<i64, Counted> = HashMap::new();
        let mut records = 0;
        let mut next_position = 1;
        let mut wrong = Vec::new();
        let sql = "SELECT position, stream, sequence, bytes FROM events WHERE position >= ?1 ORDER BY position LIMIT ?2";
        self.scan("events", sql, &mut |row| {
            let (position, id, sequence) = (number(row, 0)?, row.get::<_, i64>(1)?, number(row, 2)?);
            let bytes = bytes(row, 3)?;
            if position > next_position {
                wrong.push(format!("positions {next_position} to {} have no readable record", position - 1));
            }
            next_position = position + 1;
            records += 1;
            let name = || {
                streams
                    .get(&id)
                    .map_or_else(|| format!("number {id} (its name is lost)"), |told| told.key.clone())
            };
            let stream = counted.entry(id).or_insert_with(|| Counted {
                next_sequence: 0,
                last_position: 0,
                head: ChainValue::start(streams.get(&id).map_or("", |told| &told.key)),
                whole: streams.contains_key(&id),
            });
            if sequence != stream.next_sequence {
                stream.whole = false;
                wrong.push(format!(
                    "stream {} has sequence {sequence} at position {position}, where {} belongs",
                    name(),
                    stream.next_sequence
                ));
            }
            stream.next_sequence = sequence.saturating_add(1);
            stream.last_position = position;
            stream.head = stream.head.then(&bytes);
            Ok(())
        });
        wrong.into_iter().for_each(|sentence| self.problems.add(sentence));

        let mut whole_streams = 0;
        for (id, told) in streams {
            let Some(counted) = counted.remove(id) else {
                self.problems
                    .add(format!("stream {} has no readable record of {}", told.key, told.next_sequence));
                continue;
            };
            let key = &told.key;
            let before = self.problems.sentences.len() + self.problems.more;
            if counted.next_sequence != told.next_sequence {
                let (found, tail) = (counted.next_sequence, told.next_sequence);
                self.problems.add(format!("stream {key} ends at {found}, its tail says {tail}"));
            }
            if counted.last_position != told.last_position {
                let (found, tail) = (counted.last_position, told.last_position);
                self.problems.add(format!(
                    "stream {key} has its last record at position {found}, its tail says {tail}"
                ));
            }
            if counted.whole && counted.head != told.head {
                let (found, head) = (counted.head, told.head);
                self.problems.add(format!(
                    "stream {key} was changed: its records add up to {found}, its head is {head}"
                ));
            }
            if counted.whole && self.problems.sentences.len() + self.problems.more == before {
                whole_streams += 1;
            }
        }
        for (id, counted) in counted {
            let last = counted.last_position;
            self.problems
                .add(format!("stream number {id} has records, the last at position {last}, but no name"));
        }
        (whole_streams, records)
    }

    fn rows(&mut self) {
        let read = self.connection.prepare(r#"SELECT space, key, version, value FROM "rows""#).and_then(
            |mut statement| {
                let mut rows = statement.query([])?;
                while let Some(row) = rows.next()? {
                    row.get::<_, String>(0)?;
                    row.get::<_, String>(1)?;
                    number(row, 2)?;
                    bytes(row, 3)?;
                }
                Ok(())
            },
        );
        if let Err(error) = read {
            self.problems.add(format!("not every row can be read: {error}"));
        }
    }

    /// Reads a table in the order of its number column, from the first to the last that can be read.
    /// `sql` asks for rows with at least the number `?1`, at most `?2` of them, number first.
    fn scan(&mut self, table: &str, sql: &str, each: &mut dyn FnMut(&Row<'_>) -> rusqlite::Result<()>) {
        let mut from = 0_i64;
        while !(self.stop)() {
            let mut next = from;
            let mut part = || -> rusqlite::Result<()> {
                let mut statement = self.connection.prepare_cached(sql)?;
                let mut rows = statement.query([from, i64::MAX])?;
                while let Some(row) = rows.next()? {
                    let this: i64 = row.get(0)?;
                    // A damaged index may lead anywhere; never go back.
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
        // Every column is looked at, since a value may continue on a damaged page.
        for column in 1..row.as_ref().column_count() {
            row.get_ref(column)?;
        }
        row.get(0).map(Some)
    }
}

/// A quick look at the end of the store, where a crash would have left its marks: the last record and its
/// stream must agree.
pub(crate) fn check_end(connection: &Connection) -> Result<(), Fault> {
    let sql = "SELECT events.position, events.sequence, streams.next_sequence, streams.last_position
        FROM events LEFT JOIN streams ON streams.id = events.stream ORDER BY events.position DESC LIMIT 1";
    let doing = "looking at the end of the store";
    let mut statement = connection.prepare(sql).doing(doing)?;
    let mut rows = statement.query([]).doing(doing)?;
    let Some(row) = rows.next().doing(doing)? else { return Ok(()) };
    let column = |column| number(row, column).doing(doing);
    let (position, sequence, next, last) = (column(0)?, column(1)?, column(2)?, column(3)?);
    if (next, last) == (sequence + 1, position) {
        return Ok(());
    }
    Err(crate::fault::corrupt(format!(
        "the last record (position {position}, sequence {sequence}) and its stream (tail {next}, last position {last}) do not agree"
    )))
}

/// SQLite's quick check of all pages.
pub(crate) fn check_pages(connection: &Connection) -> Result<(), Fault> {
    let doing = "checking the pages of the database";
    let first =
        connection.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0)).doing(doing)?;
    if first == "ok" { Ok(()) } else { Err(crate::fault::corrupt(format!("{doing}: {first}"))) }
}
