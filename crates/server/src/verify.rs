//! Checking an account: bytes against the chain, events against the grammar.

use std::path::Path;

use recount_event::{Event, codec};
use recount_log::chain::ChainValue;
use recount_log::{ReadBound, Store, StreamKey};

use crate::config::{Config, Options};
use crate::start::open_store;
use crate::{StartError, limits};

/// What a check of one run found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub run_id: String,
    pub events: u64,
    /// The chain over the bytes that were read.
    pub head: String,
    /// Sentences; empty when all is well.
    pub problems: Vec<String>,
}

/// Takes the events of one run, in order, as stored bytes.
pub struct Checker {
    run_id: String,
    head: ChainValue,
    events: Vec<Event>,
    count: u64,
    problems: Vec<String>,
}

impl Checker {
    pub fn new(run_id: &str) -> Self {
        Checker {
            run_id: run_id.to_owned(),
            head: ChainValue::start(run_id),
            events: Vec::new(),
            count: 0,
            problems: Vec::new(),
        }
    }

    /// Takes one event. An error names what is wrong with it alone; the check goes on.
    pub fn event(&mut self, bytes: &[u8]) -> Result<(), String> {
        let place = self.count;
        self.count += 1;
        self.head = self.head.then(bytes);
        let outcome = match codec::decode(bytes) {
            Ok(event) if event.run_id.to_string() != self.run_id => {
                Err(format!("event {place} belongs to {}", event.run_id))
            }
            Ok(event) => {
                self.events.push(event);
                Ok(())
            }
            Err(why) => Err(format!("event {place} cannot be read: {why}")),
        };
        if let Err(problem) = &outcome {
            self.problems.push(problem.clone());
        }
        outcome
    }

    /// Compares with the count and head that somebody noted, and reads the whole by the grammar.
    pub fn finish(mut self, expected: Option<(u64, &str)>) -> Report {
        if self.problems.is_empty()
            && let Some(illegal) = recount_run::audit(&self.events)
        {
            self.problems.push(format!(
                "event {} breaks the rule {}: {}",
                illegal.sequence, illegal.rule, illegal.message
            ));
        }
        let head = self.head.to_string();
        if let Some((events, noted)) = expected {
            if events != self.count {
                self.problems.push(format!("there are {} events, but {events} were noted", self.count));
            } else if noted != head {
                self.problems
                    .push(format!("the bytes add up to {head}, but {noted} was noted: they were changed"));
            }
        }
        Report { run_id: self.run_id, events: self.count, head, problems: self.problems }
    }
}

/// Checks every run of a store that no server holds.
pub fn offline(data: &Path) -> Result<Vec<Report>, StartError> {
    if !data.join("recount.db").is_file() {
        return Err(StartError::usage(format!("{} holds no store; name the folder of one", data.display())));
    }
    let options = Options { data: Some(data.to_owned()), ..Options::default() };
    let store = open_store(&Config::settle(options, |_| None)?)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|why| StartError::failed(format!("the runtime cannot start: {why}")))?;
    let failed = |why: recount_log::Fault| StartError::failed(why.to_string());
    runtime.block_on(async {
        let integrity = store.integrity().await.map_err(failed)?;
        let mut reports = Vec::new();
        if !integrity.problems.is_empty() {
            reports.push(Report {
                run_id: "store".to_owned(),
                events: integrity.readable_records,
                head: String::new(),
                problems: integrity.problems,
            });
        }
        let mut after = None;
        loop {
            let streams = store.streams(after.take(), limits::VERIFY_PAGE_EVENTS).await.map_err(failed)?;
            let Some(last) = streams.last() else { return Ok(reports) };
            after = Some(last.clone());
            for stream in &streams {
                reports.push(one(&store, stream).await);
            }
        }
    })
}

async fn one(store: &dyn Store, stream: &StreamKey) -> Report {
    let mut checker = Checker::new(stream);
    let bound = ReadBound { count: limits::VERIFY_PAGE_EVENTS, bytes: limits::VERIFY_PAGE_BYTES };
    let unreadable = loop {
        match store.read(stream, checker.count, bound).await {
            Ok(page) if page.is_empty() => break None,
            Ok(page) => {
                for record in page {
                    // What is wrong is kept in the report.
                    drop(checker.event(&record.bytes));
                }
            }
            Err(fault) => {
                break Some(format!("nothing can be read from event {} on: {fault}", checker.count));
            }
        }
    };
    let (expected, tail_unreadable) = match store.tail(stream).await {
        Ok(tail) => (tail.map(|tail| (tail.next_sequence, tail.head.to_string())), None),
        Err(fault) => (None, Some(format!("where it ends cannot be read: {fault}"))),
    };
    let mut report = checker.finish(expected.as_ref().map(|(events, head)| (*events, head.as_str())));
    report.problems.extend(unreadable);
    report.problems.extend(tail_unreadable);
    report
}
