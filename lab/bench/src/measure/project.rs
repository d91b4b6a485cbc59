//! Measures the projection of runs to AAEP sessions, on one core: log events in, protocol events out, in each language.
//!
//! Times are the processor time of the one working thread, so that other load does not count.

use anyhow::{Context as _, Result, ensure};
use recount_aaep::wire::ReplyToken;
use recount_event::codec::decode;
use recount_event::{Event, ForeignId};
use recount_face_aaep::project::Projector;
use recount_face_aaep::speech::Speech;

use super::Bench;
use crate::clock::thread_seconds;
use crate::sheet::{Bar, Sheet, SheetRow};

pub(super) const LINES: &[SheetRow] = &[
    SheetRow {
        key: "project.en-US",
        what: "AAEP, events of the log projected to sessions in English, one core",
        unit: "events/s",
        bar: Bar::AtLeast(300_000.0),
    },
    SheetRow {
        key: "project.ar",
        what: "AAEP, the same in Arabic",
        unit: "events/s",
        bar: Bar::AtLeast(300_000.0),
    },
    SheetRow {
        key: "project.emitted",
        what: "AAEP, events of the protocol that come of it, in English",
        unit: "events/s",
        bar: Bar::None,
    },
];

/// Runs of all sorts: prompts, questions, several tools at once, a takeover, long texts, an external producer.
const RUNS: [&str; 9] = [
    include_str!("../../../../testdata/runs/approval-granted.jsonl"),
    include_str!("../../../../testdata/runs/clarification.jsonl"),
    include_str!("../../../../testdata/runs/crash-and-takeover.jsonl"),
    include_str!("../../../../testdata/runs/external-producer.jsonl"),
    include_str!("../../../../testdata/runs/long-run.jsonl"),
    include_str!("../../../../testdata/runs/mixed-answers.jsonl"),
    include_str!("../../../../testdata/runs/parallel-tools.jsonl"),
    include_str!("../../../../testdata/runs/refusals.jsonl"),
    include_str!("../../../../testdata/runs/todo-and-search.jsonl"),
];

pub(super) fn pair(bench: &Bench, _pair: usize, sheet: &mut Sheet) -> Result<()> {
    let runs = RUNS.map(|text| text.lines().map(|line| decode(line.as_bytes())).collect());
    let runs: Result<Vec<Vec<Event>>, _> = runs.into_iter().collect();
    let runs = runs.context("a recorded run cannot be read")?;
    let (speed, emitted) = projected(bench, &runs, "en-US")?;
    sheet.one("project.en-US", speed);
    sheet.one("project.emitted", emitted);
    sheet.one("project.ar", projected(bench, &runs, "ar")?.0);
    Ok(())
}

/// Events per second, in and out, of the best pass: slower passes are caused by other programs.
fn projected(bench: &Bench, runs: &[Vec<Event>], language: &str) -> Result<(f64, f64)> {
    let speech = Speech::of(language);
    ensure!(speech.tag() == language, "there is no catalogue of {language}");
    let token = ReplyToken::new("rpl_00112233445566778899aabbccddeeff").context("a reply token")?;
    let repeats = bench.pick(10, 2_000);
    let (mut best, mut taken) = ((0.0_f64, 0.0_f64), 0.0);
    let mut passes = 0;
    while taken < bench.short_seconds() || passes < 2 {
        let (mut read, mut emitted) = (0, 0);
        let started = thread_seconds();
        for run in runs.iter().cycle().take(repeats * runs.len()) {
            let first = run.first().context("a recorded run is empty")?;
            let mut projector = Projector::new(first.run_id, speech);
            for event in run {
                let of_one = projector.event(event, &|_: &ForeignId| token.clone());
                emitted += std::hint::black_box(of_one).len();
            }
            read += run.len();
            ensure!(projector.is_over(), "the session of {} has not ended", first.run_id);
        }
        let seconds = thread_seconds() - started;
        taken += seconds;
        passes += 1;
        best = (best.0.max(read as f64 / seconds), best.1.max(emitted as f64 / seconds));
    }
    Ok(best)
}
