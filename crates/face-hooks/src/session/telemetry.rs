//! The telemetry of an agent's session: events go into the run that its hooks record, or into a run of their own.
//!
//! A run of its own has the events of a prompt without hooks, or those that came after the run of the prompt had ended, which
//! it names in `ext.recount.recorded_as`. Start with [`Session::record_telemetry`].

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use recount_engine::{Error, ListQuery, RunRow};
use recount_event::RunId;
use recount_event::family::run::Agent;
use recount_event::time::parse_ms;
use recount_record::Ending;
use recount_record::claude_telemetry::{self, TelemetryEvent};
use serde_json::json;
use tokio::time::Instant;

use super::{OpenRun, Opening, Session};
use crate::limits;

/// The agent whose telemetry is read.
const REPORTING: &str = "claude";

/// The telemetry of a session.
pub(super) struct Telemetry {
    /// Whether agents of the tenant report tokens.
    reports_usage: Arc<AtomicBool>,
    /// Whether the end of a prompt waits for its tokens.
    pub(super) awaits_usage: bool,
    /// The run that only has telemetry, and its prompt.
    run: Option<(OpenRun, Option<String>)>,
    /// When that run ends, if it has late events only.
    pub(super) due: Option<Instant>,
    /// Events that are recorded; `None` before they are read from the log.
    keys: Option<HashSet<String>>,
}

impl Telemetry {
    pub(super) fn new(reports_usage: Arc<AtomicBool>) -> Self {
        Telemetry { reports_usage, awaits_usage: false, run: None, due: None, keys: None }
    }

    pub(super) fn await_usage(&mut self) {
        self.awaits_usage = true;
    }

    pub(super) fn is_due(&self) -> bool {
        self.due.is_some()
    }

    pub(super) fn forget_run(&mut self) {
        (self.run, self.due) = (None, None);
    }

    /// An append failed and may have happened, so what is recorded is read from the log again.
    pub(super) fn forget_keys(&mut self) {
        self.keys = None;
    }
}

impl Session {
    /// Whether events are expected after the end of a prompt.
    pub(super) fn expects_usage(&self) -> bool {
        self.agent == REPORTING && self.telemetry.reports_usage.load(Ordering::Relaxed)
    }

    /// Whether only the tokens of the prompt are missing.
    pub(super) fn awaits_usage(&self) -> bool {
        let is_settled = self.run.as_ref().is_some_and(|run| run.recording.open_calls().is_empty());
        self.stopping.is_some() && self.telemetry.awaits_usage && is_settled
    }

    /// The agent exits, so its last events come soon or never.
    pub(super) fn hurry_usage(&mut self) {
        let soon = recount_world::moment() + limits::USAGE_WAIT_AT_EXIT;
        if let Some(stop) = &mut self.stopping {
            stop.due = soon.min(stop.due);
        }
    }

    /// Finds out from the newest runs whether agents of the tenant report tokens.
    pub(super) async fn look_for_usage(&mut self) -> Result<(), Error> {
        if self.agent != REPORTING || self.expects_usage() || self.telemetry.keys.is_some() {
            return Ok(());
        }
        let newest = ListQuery { limit: limits::USAGE_RUNS_SEARCHED, ..ListQuery::default() };
        let runs = self.visitor.engine.catalogue().list_runs(&newest).await?.items;
        let reports = runs.iter().any(|run| match run.source.as_deref() {
            Some(claude_telemetry::SOURCE) => true,
            // Its hooks show no tokens.
            Some("claude-code-hooks") => run.input_tokens > 0,
            _ => false,
        });
        self.telemetry.reports_usage.fetch_or(reports, Ordering::Relaxed);
        Ok(())
    }

    /// Continues a run that only has telemetry.
    pub(super) async fn load_usage_run(&mut self, id: RunId, epoch: u64) -> Result<(), Error> {
        let source = claude_telemetry::source(None);
        let run = OpenRun::load(&self.visitor.engine, id, &source, epoch).await?;
        // Its prompt is not known, so the next event ends it.
        self.telemetry.run = Some((run, None));
        Ok(())
    }

    /// Records events of one session and appends. Repeated ones add nothing.
    pub(super) async fn record_telemetry(&mut self, events: &[TelemetryEvent]) -> Result<(), Error> {
        let Some(first) = events.first() else { return Ok(()) };
        if self.id.is_none() {
            self.title = first.session_title();
        }
        self.load_session().await?;
        if self.run.as_ref().is_some_and(|run| run.recording.is_ended()) {
            self.run = None;
        }
        self.load_keys().await?;
        let known = self.telemetry.keys.get_or_insert_default();
        let new: Vec<TelemetryEvent> =
            events.iter().filter(|event| !known.contains(&event.key)).cloned().collect();
        for group in new.chunk_by(|one, other| one.prompt == other.prompt) {
            if self.is_of_open_run(group[0].message_id().as_deref()) {
                self.record_beside(group).await?;
            } else {
                self.record_alone(group).await?;
            }
            let keys = self.telemetry.keys.get_or_insert_default();
            if keys.len() >= limits::TELEMETRY_REMEMBERED_MAX {
                keys.clear();
            }
            keys.extend(group.iter().map(|event| event.key.clone()));
        }
        Ok(())
    }

    /// Whether events of a prompt belong to the run that hooks record.
    fn is_of_open_run(&self, prompt: Option<&str>) -> bool {
        let Some(run) = &self.run else { return false };
        match prompt.and_then(|prompt| self.run_of(prompt)) {
            Some(of_prompt) => of_prompt == run.id,
            None => true,
        }
    }

    async fn record_beside(&mut self, events: &[TelemetryEvent]) -> Result<(), Error> {
        let Some(run) = &mut self.run else { return Ok(()) };
        for event in events {
            event.record_beside(&mut run.recording);
        }
        // All events before the stop are sent together.
        if events.iter().any(TelemetryEvent::is_usage) {
            self.telemetry.awaits_usage = false;
        }
        self.stop_if_settled(false);
        self.append().await
    }

    async fn record_alone(&mut self, events: &[TelemetryEvent]) -> Result<(), Error> {
        let prompt = events[0].message_id();
        let fits = |of_run: &Option<String>| prompt.is_none() || *of_run == prompt;
        if self.telemetry.run.as_ref().is_some_and(|(_, of_run)| !fits(of_run)) {
            self.end_usage_run().await;
        }
        if self.telemetry.run.is_none() {
            let run = self.open_usage_run(&events[0]).await?;
            self.telemetry.run = Some((run, prompt.clone()));
        }
        let is_late = prompt.is_some_and(|prompt| self.run_of(&prompt).is_some());
        self.telemetry.due = is_late.then(|| recount_world::moment() + limits::LATE_USAGE_WAIT);
        let Some((run, _)) = &mut self.telemetry.run else { return Ok(()) };
        claude_telemetry::record_alone(&mut run.recording, events);
        run.append().await
    }

    async fn open_usage_run(&mut self, event: &TelemetryEvent) -> Result<OpenRun, Error> {
        let session = self.load_session().await?;
        let epoch = self.next_epoch();
        let recorded_as = event.message_id().and_then(|prompt| self.run_of(&prompt));
        let recorded = match recorded_as {
            Some(recorded_as) => self.visitor.engine.catalogue().run(recorded_as).await?,
            None => None,
        };
        let opening = Opening {
            // Under the same title, both are known as one prompt.
            title: recorded.and_then(|run| run.title).unwrap_or_else(|| event.title()),
            agent: Agent { name: event.agent_name().to_owned(), version: event.version.clone() },
            source: claude_telemetry::source(event.version.clone()),
            facts: json!({ "session_id": event.session, "prompt_id": event.prompt }),
            by: self.visitor.caller.name.clone(),
            key: None,
        };
        let mut run = OpenRun::create(&self.visitor.engine, session, opening, epoch).await?;
        if let Some(recorded_as) = recorded_as {
            run.recording.note("recorded_as", &json!({ "run_id": recorded_as }));
        }
        Ok(run)
    }

    /// Ends the run that only has telemetry.
    pub(super) async fn end_usage_run(&mut self) {
        let is_late = self.telemetry.due.take().is_some();
        let Some((mut run, _)) = self.telemetry.run.take() else { return };
        let status = if is_late { "completed" } else { "end_not_seen" };
        for _ in 0..limits::TRIES_MAX {
            run.recording.end(Ending::Finished { status: status.to_owned() });
            let Err(error) = run.append().await else { return };
            tracing::warn!(run = %run.id, %error, "the run of telemetry is not ended yet");
            let (engine, source, epoch) =
                (self.visitor.engine.clone(), claude_telemetry::source(None), self.next_epoch());
            match OpenRun::load(&engine, run.id, &source, epoch).await {
                Ok(again) => run = again,
                Err(error) => tracing::warn!(run = %run.id, %error, "the run of telemetry cannot be read"),
            }
        }
    }

    /// Reads the keys of events that are recorded in the newest runs of the session.
    async fn load_keys(&mut self) -> Result<(), Error> {
        if self.telemetry.keys.is_some() {
            return Ok(());
        }
        let (engine, session) = (self.visitor.engine.clone(), self.load_session().await?);
        let mut keys = HashSet::new();
        let repeated_ms = limits::TELEMETRY_REPEATED_WAIT.as_millis() as u64;
        let since_ms = engine.world().clock.now_ms().saturating_sub(repeated_ms);
        let is_old =
            |run: &RunRow| run.ended_at.as_deref().and_then(parse_ms).is_some_and(|ms| ms < since_ms);
        for run in OpenRun::newest(&engine, session, limits::NEWEST_RUNS).await? {
            // The session's hooks wait meanwhile, so only what may be repeated is read.
            if is_old(&run) {
                continue;
            }
            OpenRun::each_event(&engine, run.id, |_, kind, data| {
                if kind.starts_with("ext.claude.otel_") {
                    keys.extend(data["key"].as_str().map(str::to_owned));
                }
            })
            .await?;
        }
        self.telemetry.keys = Some(keys);
        Ok(())
    }
}
