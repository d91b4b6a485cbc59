//! The faults in the store of a play: random ones from its [`Dice`], each with a line in its [`Trace`], and deliberate
//! errors that prove the checks ([`Mutant`]).
//!
//! The store itself is [`recount_faulty_store::FaultyStore`]. Start at [`StoreCourse`].

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use recount_faulty_store::{CATALOGUE_SPACES, Disk, QueueCourse, answer_now};
use recount_log::chain::ChainValue;
use recount_log::{
    Append, FeedRecord, Guard, MemoryStore, ReadBound, RowPut, RowRange, Store as _, StreamAppend, Tail,
};

use crate::dice::Dice;
use crate::trace::Trace;

/// A deliberate error of the store that a check must find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutant {
    /// One append is acknowledged and not written.
    DropAppend,
    /// One append with the resolution of an approval is acknowledged and not written.
    DropAnswer,
    /// One record is written twice.
    RepeatRecord,
    /// An ending is written twice.
    RepeatEnding,
    /// Two commits are observed in swapped order.
    SwapFeed,
    /// Commits are observed before they are written.
    ObserveEarly,
    /// Rows that list runs are sometimes not written.
    ForgetRuns,
    /// Records of producers are sometimes not written.
    ForgetProducers,
    /// Deadlines are not written.
    ForgetDeadlines,
    /// One append never returns.
    NeverAnswer,
    /// One record is stored with a byte changed after it was observed.
    AlterByte,
    /// The heads of streams are invented.
    WrongHead,
    /// Reads ignore their limits.
    IgnoreBound,
    /// A power cut loses the last acknowledged records.
    LoseLast,
    /// One cut is acknowledged and not done.
    ForgetCut,
    /// One cut takes a record more.
    CutTooMuch,
    /// One stream is reported as erased and left as it is.
    ForgetErasing,
}

impl Mutant {
    pub const ALL: [Mutant; 17] = [
        Mutant::DropAppend,
        Mutant::DropAnswer,
        Mutant::RepeatRecord,
        Mutant::RepeatEnding,
        Mutant::SwapFeed,
        Mutant::ObserveEarly,
        Mutant::ForgetRuns,
        Mutant::ForgetProducers,
        Mutant::ForgetDeadlines,
        Mutant::NeverAnswer,
        Mutant::AlterByte,
        Mutant::WrongHead,
        Mutant::IgnoreBound,
        Mutant::LoseLast,
        Mutant::ForgetCut,
        Mutant::CutTooMuch,
        Mutant::ForgetErasing,
    ];

    /// Whether it needs clients that prune or delete.
    pub fn is_about_taking(self) -> bool {
        matches!(self, Mutant::ForgetCut | Mutant::CutTooMuch | Mutant::ForgetErasing)
    }
}

/// The mutant of a play, across all its engines.
pub struct MutantState {
    mutant: Option<Mutant>,
    /// How many chances the mutant has had.
    chances: AtomicU64,
}

impl MutantState {
    pub fn new(mutant: Option<Mutant>) -> Arc<Self> {
        Arc::new(MutantState { mutant, chances: AtomicU64::new(0) })
    }
}

/// The faults in the store of one engine.
pub struct StoreCourse {
    pub dice: Dice,
    pub trace: Trace,
    pub disk: Arc<Disk>,
    pub mutant_state: Arc<MutantState>,
}

impl StoreCourse {
    /// Whether the mutant acts now, at its `nth` opportunity.
    fn strikes(&self, mutant: Mutant, nth: u64) -> bool {
        self.mutant_state.mutant == Some(mutant)
            && self.mutant_state.chances.fetch_add(1, Ordering::SeqCst) + 1 == nth
    }

    fn forget(&self, space: &str, mut append: Append, permille: u64) -> Option<Option<Append>> {
        let count = append.rows.len();
        append.rows.retain(|row| &*row.space != space || row.value.is_none());
        (append.rows.len() < count && self.dice.permille(permille)).then_some(Some(append))
    }

    /// Replaces what is stored by a copy without the last `count` records.
    fn lose_last(&self, count: usize) {
        let (old, new) = (self.disk.store(), MemoryStore::new());
        let everything = ReadBound { count: usize::MAX, bytes: usize::MAX };
        let feed = answer_now(old.read_feed(1, everything)).expect("the memory is never closed");
        for found in &feed[..feed.len().saturating_sub(count)] {
            let part = StreamAppend {
                stream: found.stream.clone(),
                expected_tail: found.record.sequence,
                records: vec![found.record.bytes.clone()],
            };
            answer_now(new.append(Append { streams: vec![part], ..Append::default() }))
                .expect("it was there before");
        }
        let records = ["tasks", "task_active", "sessions", "producers", "folds"];
        let folds = CATALOGUE_SPACES.iter().map(|name| format!("catalogue.{name}"));
        for space in folds.chain(records.iter().map(|name| format!("record.{name}"))) {
            let space: Arc<str> = space.into();
            let range = RowRange::first(&space, "", usize::MAX);
            let rows = answer_now(old.rows(range)).expect("the memory is never closed").into_iter();
            let puts = rows.map(|row| RowPut {
                space: space.clone(),
                key: row.key,
                guard: Guard::Any,
                value: Some(row.value),
            });
            let append = Append { rows: puts.collect(), ..Append::default() };
            answer_now(new.append(append)).expect("rows can be copied");
        }
        self.disk.replace(Arc::new(new));
    }
}

impl QueueCourse for StoreCourse {
    fn below(&self, end: u64) -> u64 {
        self.dice.below(end)
    }

    fn log(&self, line: fmt::Arguments<'_>) {
        self.trace.log(line);
    }

    fn count_fault(&self) {
        self.trace.count(|counts| counts.faults += 1);
    }

    fn instead(&self, append: &Append) -> Option<Option<Append>> {
        let contains = |what: &str| {
            let mut records = append.streams.iter().flat_map(|part| &part.records);
            records.any(|record| String::from_utf8_lossy(record).contains(what))
        };
        let later = append.streams.iter().any(|part| part.expected_tail > 3);
        let mut other = append.clone();
        match self.mutant_state.mutant? {
            Mutant::DropAppend => (later && self.strikes(Mutant::DropAppend, 8)).then_some(None),
            Mutant::DropAnswer => {
                let answers =
                    contains(r#""type":"approval.resolved""#) && !contains(r#""type":"run.cancelled""#);
                (answers && self.strikes(Mutant::DropAnswer, 1)).then_some(None)
            }
            Mutant::RepeatRecord => (later && self.strikes(Mutant::RepeatRecord, 8)).then(|| {
                let records = &mut other.streams[0].records;
                records.extend(records.last().cloned());
                Some(other)
            }),
            Mutant::RepeatEnding => {
                let ends = contains(r#""type":"run.cancelled""#) || contains(r#""type":"run.finished""#);
                (ends && self.strikes(Mutant::RepeatEnding, 1)).then(|| {
                    let records = &mut other.streams[0].records;
                    records.extend(records.last().cloned());
                    Some(other)
                })
            }
            Mutant::AlterByte => (later && self.strikes(Mutant::AlterByte, 8)).then(|| {
                let records = &mut other.streams[0].records;
                let last = records.pop().expect("an append has records");
                records.push([&last[..last.len() - 1], b" }"].concat().into());
                Some(other)
            }),
            Mutant::ForgetCut => (!append.cuts.is_empty() && self.strikes(Mutant::ForgetCut, 1)).then(|| {
                other.cuts.clear();
                Some(other)
            }),
            Mutant::CutTooMuch => {
                (!append.cuts.is_empty() && self.strikes(Mutant::CutTooMuch, 1)).then(|| {
                    other.cuts[0].keep_from += 1;
                    Some(other)
                })
            }
            Mutant::ForgetErasing => {
                let erases = !append.erased.is_empty() && self.strikes(Mutant::ForgetErasing, 1);
                erases.then(|| {
                    other.erased.clear();
                    Some(other)
                })
            }
            Mutant::ForgetRuns => self.forget("catalogue.runs", other, 100),
            Mutant::ForgetProducers => self.forget("record.producers", other, 100),
            Mutant::ForgetDeadlines => self.forget("catalogue.deadlines", other, 1000),
            _ => None,
        }
    }

    fn observes_early(&self) -> bool {
        self.mutant_state.mutant == Some(Mutant::ObserveEarly)
    }

    fn reorder(&self, records: &mut [FeedRecord]) -> bool {
        let different = records.windows(2).position(|pair| pair[0].stream != pair[1].stream);
        let Some(first) = different.filter(|_| self.strikes(Mutant::SwapFeed, 3)) else { return false };
        let positions = [records[first].record.position, records[first + 1].record.position];
        records.swap(first, first + 1);
        records[first].record.position = positions[0];
        records[first + 1].record.position = positions[1];
        true
    }

    fn withholds_answer(&self) -> bool {
        self.strikes(Mutant::NeverAnswer, 20)
    }

    fn bound(&self, bound: ReadBound) -> ReadBound {
        match self.mutant_state.mutant {
            Some(Mutant::IgnoreBound) => ReadBound { count: usize::MAX, bytes: usize::MAX },
            _ => bound,
        }
    }

    fn tail(&self, tail: Tail) -> Tail {
        match self.mutant_state.mutant {
            Some(Mutant::WrongHead) => Tail { head: ChainValue([7; 32]), ..tail },
            _ => tail,
        }
    }

    fn after_cut(&self) {
        let many = answer_now(self.disk.store().last_position()).unwrap_or(0) > 60;
        if many && self.strikes(Mutant::LoseLast, 1) {
            self.trace.log("store lied");
            self.lose_last(10);
        }
    }
}
