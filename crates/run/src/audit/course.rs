//! Audits the course of a run: how it starts, waits, continues and ends.

use recount_event::family::run::{Driver, WaitKind, WaitsFor};
use recount_event::family::tool::RefusalCode;
use recount_event::{Event, Payload};

use super::Reading;
use crate::rejection::{Broken, broken};

/// The phases that the run has passed through.
#[derive(Default)]
pub(super) struct Course {
    resumed: bool,
    driver: Option<Driver>,
    starts: u64,
    /// A `gap.run_disconnected` follows the last `run.started`.
    abandoned: bool,
    waits: Waits,
    ending: Option<String>,
}

/// Whether the run is suspended.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Waits {
    #[default]
    No,
    Yes,
    /// Continued with a rest that must be waited for again.
    ForTheRest,
}

impl Course {
    pub(super) fn is_own(&self) -> bool {
        self.driver == Some(Driver::Own)
    }

    /// Whether the run has ended without a start: its beginning was pruned.
    pub(super) fn is_headless(&self) -> bool {
        self.driver.is_none() && self.ending.is_some()
    }
}

fn is_ending(payload: &Payload) -> bool {
    matches!(payload, Payload::RunFinished(_) | Payload::RunFailed(_) | Payload::RunCancelled(_))
}

fn is_of_workspace(payload: &Payload) -> bool {
    matches!(
        payload,
        Payload::WorkspaceProvisioned(_) | Payload::WorkspaceFailed(_) | Payload::GapWorkspaceRemoved(_)
    )
}

/// The first word of a type.
fn group(payload: &Payload) -> &str {
    payload.type_name().split_once('.').map_or("", |(group, _)| group)
}

impl Reading {
    /// Whether the event may come at this point of the course.
    pub(super) fn fits_course(&self, event: &Event) -> Result<(), Broken> {
        let (payload, name) = (event.payload(), event.type_name());
        let course = &self.course;
        let begins = matches!(payload, Payload::RunQueued(_) | Payload::RunResumedFromEvent(_));
        if course.driver.is_none() {
            let fits = matches!(payload, Payload::RunQueued(_)) || (begins && !course.resumed);
            return if fits { Ok(()) } else { broken!("queued.first", "{name} occurs before run.queued") };
        }
        if begins {
            return broken!("queued.once", "{name} occurs in the middle of a run");
        }
        if let Some(ending) = &course.ending {
            return self.fits_after_ending(ending, event);
        }
        if matches!(payload, Payload::GapEventsPruned(_)) {
            return broken!("gap.pruned", "{name} occurs before the ending");
        }
        if course.starts == 0 && !self.may_precede_start(payload) {
            return broken!("start.first", "{name} occurs before run.started");
        }
        self.respects_the_wait(payload)?;
        match payload {
            Payload::RunStarted(_) if course.starts > 0 && !course.abandoned => {
                broken!("start.again", "run.started occurs again although the worker was not lost")
            }
            payload if is_of_workspace(payload) && !course.is_own() => {
                broken!("workspace.own", "{name} occurs in an external run")
            }
            Payload::RunWaiting(waiting) => self.may_wait(&waiting.waits_for),
            Payload::RunContinued(_) if !course.is_own() => {
                broken!("wait.own", "run.continued occurs in an external run")
            }
            Payload::RunContinued(_) if course.waits != Waits::Yes => {
                broken!("wait.continued", "run.continued occurs while the run does not wait")
            }
            ending if is_ending(ending) => self.may_end(ending),
            _ => Ok(()),
        }
    }

    /// Updates the course with the event.
    pub(super) fn moves_course(&mut self, event: &Event) {
        match event.payload() {
            Payload::RunResumedFromEvent(_) => self.course.resumed = true,
            Payload::RunQueued(queued) => self.course.driver = Some(queued.driver),
            Payload::RunStarted(_) => {
                self.course.starts += 1;
                self.course.abandoned = false;
            }
            Payload::GapRunDisconnected(_) => self.course.abandoned = true,
            Payload::RunWaiting(_) => self.course.waits = Waits::Yes,
            Payload::RunContinued(_) => self.course.waits = Waits::ForTheRest,
            payload if is_ending(payload) => self.course.ending = Some(event.type_name().to_owned()),
            _ => {}
        }
        if self.course.waits == Waits::ForTheRest && self.with_others().is_empty() {
            self.course.waits = Waits::No;
        }
    }

    /// An event of a run whose beginning was pruned.
    pub(super) fn read_headless(&mut self, event: &Event) -> Result<(), Broken> {
        let (payload, name) = (event.payload(), event.type_name());
        if let Some(ending) = &self.course.ending {
            self.fits_after_ending(ending, event)?;
        } else if matches!(payload, Payload::RunQueued(_) | Payload::RunResumedFromEvent(_))
            // The run that this one continues is unknown. `run.queued` may follow directly.
            && !(event.sequence == 1 && matches!(payload, Payload::RunQueued(_)))
        {
            return broken!("queued.once", "{name} occurs in the middle of a run");
        } else if matches!(payload, Payload::GapEventsPruned(_)) {
            return broken!("gap.pruned", "{name} occurs before the ending");
        }
        match payload {
            Payload::GapEventsPruned(marker)
                if marker.first_pruned_sequence == 0
                    && self.missing == Some(marker.last_pruned_sequence.saturating_add(1)) =>
            {
                self.missing = None;
            }
            payload if is_ending(payload) => self.course.ending = Some(name.to_owned()),
            _ => {}
        }
        Ok(())
    }

    fn fits_after_ending(&self, ending: &str, event: &Event) -> Result<(), Broken> {
        let name = event.type_name();
        if is_ending(event.payload()) {
            return broken!("ending.once", "{name} occurs after {ending}");
        }
        if group(event.payload()) != "gap" {
            return broken!("ending.last", "{name} occurs after {ending}");
        }
        // The driver of a run whose beginning was pruned is unknown.
        let external = self.course.driver.is_some() && !self.course.is_own();
        if external && is_of_workspace(event.payload()) {
            return broken!("workspace.own", "{name} occurs after the ending of an external run");
        }
        if let Payload::GapEventsPruned(pruned) = event.payload() {
            let (first, last) = (pruned.first_pruned_sequence, pruned.last_pruned_sequence);
            if !(first <= last && last < event.sequence) {
                return broken!(
                    "gap.pruned",
                    "{first} to {last} is not a range of events before {}",
                    event.sequence
                );
            }
        }
        Ok(())
    }

    fn may_precede_start(&self, payload: &Payload) -> bool {
        matches!(
            payload,
            Payload::Opaque(_)
                | Payload::RunStarted(_)
                | Payload::RunThrottled(_)
                | Payload::RunFailed(_)
                | Payload::RunCancelled(_)
        ) || matches!(group(payload), "user" | "artifact" | "gap")
    }

    fn respects_the_wait(&self, payload: &Payload) -> Result<(), Broken> {
        let name = payload.type_name();
        let quiet = self.is_quiet(payload);
        match self.course.waits {
            Waits::Yes if !quiet && !matches!(payload, Payload::RunContinued(_)) => {
                broken!("wait.quiet", "{name} occurs while the run waits")
            }
            Waits::ForTheRest if !quiet && !matches!(payload, Payload::RunWaiting(_)) => {
                broken!(
                    "wait.regroup",
                    "{name} occurs where run.waiting with the remaining prompts and calls is expected"
                )
            }
            _ => Ok(()),
        }
    }

    /// Whether an event leaves a waiting run in peace.
    fn is_quiet(&self, payload: &Payload) -> bool {
        match payload {
            Payload::Opaque(_) => true,
            Payload::ToolRefused(refused) => refused.code == RefusalCode::Cancelled,
            Payload::ToolCancelled(_) => true,
            Payload::ToolCompleted(ended) | Payload::ToolFailed(ended) | Payload::ToolTimedOut(ended) => {
                !self.calls.is_open(&ended.tool_call_id) || self.calls.is_with_client(&ended.tool_call_id)
            }
            payload if is_ending(payload) => true,
            payload => match payload.type_name().split_once('.') {
                Some(("approval" | "clarification" | "handoff", what)) => what != "requested",
                Some((group, _)) => group == "gap",
                None => false,
            },
        }
    }

    /// The prompts and calls that people and applications still have to answer.
    fn with_others(&self) -> Vec<WaitsFor> {
        let mut all = self.people.pending();
        all.extend(
            self.calls
                .open()
                .filter(|id| self.calls.is_with_client(id))
                .map(|id| WaitsFor { kind: WaitKind::ClientTool, id: id.clone() }),
        );
        all.sort_by(|a, b| (a.kind, &a.id).cmp(&(b.kind, &b.id)));
        all
    }

    fn may_wait(&self, named: &[WaitsFor]) -> Result<(), Broken> {
        if !self.course.is_own() {
            return broken!("wait.own", "run.waiting occurs in an external run");
        }
        if let Some(turn) = self.turns.open_index() {
            return broken!("wait.turn", "run.waiting occurs in the middle of turn {turn}");
        }
        for id in self.calls.open() {
            let outside = self.calls.is_with_client(id) || self.people.waits_on(id);
            if !outside && !self.calls.holds_answer(id) && !self.calls.is_yet_to_ask(id) {
                return broken!(
                    "wait.calls",
                    "run.waiting occurs while call {id} is neither settled nor waiting for an answer"
                );
            }
        }
        let open = self.with_others();
        if open.is_empty() {
            return broken!("wait.nothing", "run.waiting occurs while nothing is open");
        }
        let mut named = named.to_vec();
        named.sort_by(|a, b| (a.kind, &a.id).cmp(&(b.kind, &b.id)));
        if named != open {
            return broken!(
                "wait.names",
                "run.waiting does not name exactly what is open: it names {}, open are {}",
                named.len(),
                open.len()
            );
        }
        Ok(())
    }

    fn may_end(&self, ending: &Payload) -> Result<(), Broken> {
        let name = ending.type_name();
        if let Some((turn, block)) = self.turns.open_block() {
            return broken!("ending.text_open", "{name} occurs while block {block} of turn {turn} is open");
        }
        if let Some(turn) = self.turns.open_index() {
            return broken!("ending.turn_open", "{name} occurs in the middle of turn {turn}");
        }
        if let Some(id) = self.calls.open().find(|id| self.calls.is_proposed_or_invoked(id)) {
            return broken!("ending.call_open", "{name} occurs while call {id} is not settled");
        }
        if let Some(first) = self.people.pending().first() {
            return broken!(
                "ending.prompt_open",
                "{name} occurs while {} {} is pending",
                first.kind,
                first.id
            );
        }
        match ending {
            Payload::RunFinished(finished) if self.course.is_own() => match finished.turns {
                Some(given) if given != self.turns.completed() => {
                    broken!(
                        "ending.turns",
                        "run.finished has turns {given}, but the run completed {}",
                        self.turns.completed()
                    )
                }
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }
}
