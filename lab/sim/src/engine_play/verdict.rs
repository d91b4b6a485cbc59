//! The final checks of the stored events, and of the engine's view of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use recount_event::{Event, RunId};
use recount_faulty_store::answer_now;
use recount_log::chain::ChainValue;
use recount_run::{Auditor, State, apply, outstanding};
use recount_world::Clock;

use super::client_record::Target;
use super::producer::decoded;
use super::stored::{at, begins, is_ending};
use super::{EnginePlay, keeper};
use crate::trace::Check;

/// Allowed delay of a timeout in milliseconds.
const TIMEOUT_SLACK_MS: u64 = 5_000;

pub(super) async fn judge(engine_play: &Arc<EnginePlay>) {
    timeouts(engine_play, &histories(engine_play, &all_runs(engine_play)));
    let engine = engine_play.reopen_calmly().await;
    engine_play.check_deletions_end().await;
    let runs = all_runs(engine_play);
    let histories = histories(engine_play, &runs);
    engine_play.check_gaps(&runs);
    engine_play.check_deletions(&engine, &runs).await;
    catalogue(engine_play, &engine).await;
    for run in runs.iter().filter(|run| !engine_play.is_erased(**run)) {
        chain(engine_play, &engine, *run).await;
    }
    readers(engine_play);
    newcomer(engine_play, &engine).await;
    batches(engine_play, &histories);
    answers(engine_play, &histories);
    let events: usize = histories.values().map(Vec::len).sum();
    engine_play.trace.count(|counts| counts.events += events as u64);
    engine_play.trace.log("judged");
}

fn all_runs(engine_play: &EnginePlay) -> Vec<RunId> {
    let streams = answer_now(engine_play.disk.store().streams(None, usize::MAX)).unwrap_or_default();
    streams.iter().filter_map(|stream| stream.parse().ok()).collect()
}

/// The events of all runs that are not erased.
fn histories(engine_play: &EnginePlay, runs: &[RunId]) -> BTreeMap<RunId, Vec<Event>> {
    let there = runs.iter().filter(|run| !engine_play.is_erased(**run));
    there.filter_map(|run| Some((*run, history(engine_play, *run)?))).collect()
}

/// The events of a run, checked to be legal and to end at most once.
fn history(engine_play: &EnginePlay, run: RunId) -> Option<Vec<Event>> {
    let stored = engine_play.stored(run);
    let endings = stored.iter().filter(|(_, _, bytes)| is_ending(bytes)).count();
    if endings > 1 {
        engine_play.trace.wrong(Check::Endings, format_args!("{run} ends {endings} times"));
    }
    let events = match decoded(&stored) {
        Ok(events) => events,
        Err(why) => {
            engine_play.trace.wrong(Check::Grammar, format_args!("{run} cannot be read: {why}"));
            return None;
        }
    };
    let mut auditor = Auditor::beginning_at(begins(&stored));
    let illegal = events.iter().find_map(|event| auditor.read(event).err());
    if let Some(illegal) = illegal.or_else(|| auditor.finish().err()) {
        engine_play.trace.wrong(Check::Grammar, format_args!("{run}: {illegal}"));
        return None;
    }
    Some(events)
}

/// Checks that no prompt is open after its timeout, by the slowest clock of all engines.
fn timeouts(engine_play: &EnginePlay, histories: &BTreeMap<RunId, Vec<Event>>) {
    let now_ms = engine_play.clock.now_ms() - keeper::SKEW_MAX_MS;
    for (run, events) in histories {
        // A run without its beginning has ended, so nothing is pending.
        let Some(first) = events.first().filter(|first| first.sequence == 0) else { continue };
        let mut state = State::blank(*run, first.task_id, first.session_id);
        events.iter().for_each(|event| apply(&mut state, event));
        for timer in outstanding(&state).timers {
            if timer.at_ms + TIMEOUT_SLACK_MS < now_ms {
                let late = now_ms - timer.at_ms;
                engine_play
                    .trace
                    .wrong(Check::Timeouts, format_args!("{} of {run} is due since {late} ms", timer.what));
            }
        }
    }
}

async fn catalogue(engine_play: &EnginePlay, engine: &recount_engine::Engine) {
    let folded = match engine.admin().fold_again().await {
        Ok(folded) => folded,
        Err(error) => {
            engine_play.trace.wrong(Check::Catalogue, format_args!("cannot be folded: {error}"));
            return;
        }
    };
    let stored = engine_play.disk.catalogue().await;
    let keys: std::collections::BTreeSet<_> = folded.keys().chain(stored.keys()).collect();
    for key in keys {
        if folded.get(key) != stored.get(key) {
            let wrong = format!("{key:?} is {:?} and should be {:?}", stored.get(key), folded.get(key));
            engine_play.trace.wrong(Check::Catalogue, wrong);
        }
    }
}

async fn chain(engine_play: &EnginePlay, engine: &recount_engine::Engine, run: RunId) {
    let stored = engine_play.stored(run);
    let Some(tail) = engine_play.tail_of(run) else { return };
    let start = if tail.first_sequence == 0 { ChainValue::start(&run.to_string()) } else { tail.start };
    let head = stored.iter().fold(start, |head, (.., bytes)| head.then(bytes));
    match engine.read().digest(run).await {
        Ok(digest) if digest.events == tail.next_sequence && digest.head == head.to_string() => {
            engine_play.trace.log(format_args!("{run} is {} events, {}", digest.events, digest.head));
        }
        Ok(digest) => engine_play.trace.wrong(Check::Chain, format_args!("{run}: {digest:?}, not {head}")),
        Err(error) => engine_play.trace.wrong(Check::Chain, format_args!("{run}: {error}")),
    }
}

/// Checks that everything a reader received is stored at that position, or was removed from there.
fn readers(engine_play: &EnginePlay) {
    let feed: BTreeMap<u64, Bytes> = engine_play.stored_feed().into_iter().collect();
    let seen = engine_play.client_record().seen.clone();
    let places = engine_play.client_record().feed_places.clone();
    let mut runs: BTreeMap<RunId, Vec<(u64, u64, Bytes)>> = BTreeMap::new();
    for ((target, cursor), hash) in &seen {
        let found = match target {
            Target::Feed => match (feed.get(cursor), places.get(cursor)) {
                (None, Some((run, sequence))) if engine_play.may_be_removed(*run, *sequence) => continue,
                (found, _) => found.map(|bytes| blake3::hash(bytes)),
            },
            Target::Run(run) => {
                let stored = runs.entry(*run).or_insert_with(|| engine_play.stored(*run));
                let found = at(stored, *cursor);
                if found.is_none() && engine_play.may_be_removed(*run, *cursor) {
                    continue;
                }
                found.map(|(.., bytes)| blake3::hash(bytes))
            }
        };
        if found != Some(*hash) {
            engine_play
                .trace
                .wrong(Check::Readers, format_args!("{cursor} of {target:?} was read otherwise"));
        }
    }
}

/// Checks that a new reader from 0 receives everything in pieces within the limits.
async fn newcomer(engine_play: &EnginePlay, engine: &recount_engine::Engine) {
    let all = engine_play.stored_feed();
    let mut after = None;
    let mut got = 0;
    loop {
        let bound = recount_engine::limits::PAGE_EVENTS;
        match engine.read().read_feed(after, bound).await {
            Ok((page, more)) => {
                if page.len() > bound {
                    engine_play.trace.wrong(Check::Bounds, format_args!("a page has {} events", page.len()));
                }
                for (position, bytes) in page {
                    if all.get(got) != Some(&(position, bytes)) {
                        engine_play
                            .trace
                            .wrong(Check::Readers, format_args!("the feed at {position} is not as stored"));
                        return;
                    }
                    got += 1;
                    after = Some(position);
                }
                if !more {
                    break;
                }
            }
            Err(error) => {
                engine_play.trace.wrong(Check::Readers, format_args!("the feed cannot be read: {error}"));
                return;
            }
        }
    }
    if got != all.len() {
        engine_play.trace.wrong(Check::Readers, format_args!("the feed has {got} events of {}", all.len()));
    }
}

/// Checks that each acknowledged batch is stored once, and no other batch twice.
fn batches(engine_play: &EnginePlay, histories: &BTreeMap<RunId, Vec<Event>>) {
    let mut landed: BTreeMap<(RunId, String), u64> = BTreeMap::new();
    for (run, events) in histories {
        for event in events.iter().filter(|event| event.type_name() == "ext.sim.batch") {
            let mark = event.body.verbatim.as_deref().unwrap_or_default().to_owned();
            *landed.entry((*run, mark)).or_default() += 1;
        }
        let strays = events.iter().filter(|event| event.type_name() == "ext.sim.stray").count();
        if strays > 0 {
            engine_play.trace.wrong(Check::Once, format_args!("{run} has {strays} events that were refused"));
        }
    }
    for ((run, producer, epoch, seq), receipt) in &engine_play.client_record().batches {
        let mark = format!(r#"{{"p":"{producer}","e":{epoch},"s":{seq}}}"#);
        let times = landed.remove(&(*run, mark)).unwrap_or(0);
        // A batch without a response may have been stored before the cut.
        let begins = histories.get(run).and_then(|events| events.first()).map_or(0, |first| first.sequence);
        let is_due = receipt.is_some_and(|receipt| receipt.first_sequence >= begins);
        if times > 1 || (times == 0 && is_due && histories.contains_key(run)) {
            let wrong = format!("batch {epoch}/{seq} of {producer} landed {times} times in {run}");
            engine_play.trace.wrong(Check::Once, wrong);
        }
    }
    for (run, mark) in landed.keys() {
        engine_play.trace.wrong(Check::Once, format_args!("{run} has a batch that no producer sent: {mark}"));
    }
}

/// Checks that every accepted resolution is the one in the log.
fn answers(engine_play: &EnginePlay, histories: &BTreeMap<RunId, Vec<Event>>) {
    let answers = engine_play.client_record().answers.clone();
    for (approval, answers) in &answers {
        for (run, sequence, by) in answers {
            let Some(events) = histories.get(run) else { continue };
            let found = events.iter().find(|event| event.sequence == *sequence);
            if found.is_none() && engine_play.may_be_removed(*run, *sequence) {
                continue;
            }
            let theirs = found.is_some_and(|event| match event.payload() {
                recount_event::Payload::ApprovalResolved(resolved) => {
                    *resolved.approval_id == **approval && resolved.by == *by
                }
                _ => false,
            });
            if !theirs {
                engine_play.trace.wrong(
                    Check::Answers,
                    format_args!("{by}'s answer to {approval} is not at {sequence} of {run}"),
                );
            }
        }
    }
}
