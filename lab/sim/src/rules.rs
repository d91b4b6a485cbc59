//! Tier A: plays many runs through the four pure functions, in a plain loop.
//!
//! A model of a log (a list of encoded events per run), a clock that also steps back, producers, performers, people,
//! timers and crashes, one step at a time. After each step the state in memory is compared with the fold of the log.
//! Start at [`Play::step`].

use anyhow::{Context, bail, ensure};
use recount_event::family::run::{Queued, RunKind};
use recount_event::{Draft, Event, EventId, Json, Minter, RunId, Stamp, codec};
use recount_run::{
    CancelledBy, Command, PromptKind, RULES, Reach, Rejection, State, apply, audit, decide, outstanding,
};

use crate::belief::Belief;
use crate::dice::Dice;
use crate::event_generator::{EventGenerator, id};

/// The coverage of one play.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    pub runs: u64,
    pub events: u64,
    pub commands: u64,
    pub refusals: u64,
    pub crashes: u64,
    pub endings: u64,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.runs += other.runs;
        self.events += other.events;
        self.commands += other.commands;
        self.refusals += other.refusals;
        self.crashes += other.crashes;
        self.endings += other.endings;
    }
}

/// A deliberate corruption of a play, to prove the checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Corruption {
    /// The log loses an event that was acknowledged.
    Lose,
    /// The log contains an event twice.
    Repeat,
    /// A second ending is written.
    EndTwice,
    /// An event is written with an earlier time than the one before.
    StepBack,
    /// A text is stored with a change.
    Alter,
}

const RUNS: usize = 6;
const STEPS: u64 = 160;
const START_MS: u64 = 1_777_803_825_000;

/// Plays one seed to its end. The error is the first failed check.
pub fn play(seed: u64, spoil: Option<Corruption>) -> anyhow::Result<Tally> {
    played(seed, spoil).map(|play| play.tally)
}

/// The events of the complete runs of one seed, for checks of projections.
pub fn runs(seed: u64) -> anyhow::Result<Vec<Vec<Event>>> {
    let runs = played(seed, None)?.runs.into_iter().map(|run| run.events);
    Ok(runs.filter(|events| !events.is_empty()).collect())
}

fn played(seed: u64, spoil: Option<Corruption>) -> anyhow::Result<Play> {
    let mut play = Play::new(seed, spoil);
    for step in 0..STEPS {
        play.step().with_context(|| format!("seed {seed}, step {step}"))?;
    }
    play.end().with_context(|| format!("seed {seed}, at the end"))?;
    Ok(play)
}

struct Play {
    dice: Dice,
    now_ms: u64,
    runs: Vec<Run>,
    spoil: Option<Corruption>,
    tally: Tally,
}

/// A run: its log, and the derived state.
struct Run {
    tag: String,
    log: Vec<Vec<u8>>,
    events: Vec<Event>,
    state: State,
    belief: Belief,
}

impl Play {
    fn new(seed: u64, spoil: Option<Corruption>) -> Self {
        let dice = Dice::new(seed);
        let mut minter = Minter::default();
        let runs = (0..RUNS).map(|n| {
            let run = RunId::new(minter.mint(Stamp { now_ms: START_MS, entropy: dice.draw() }));
            Run {
                tag: format!("r{n}"),
                log: Vec::new(),
                events: Vec::new(),
                state: State::blank(run, None, None),
                belief: Belief::default(),
            }
        });
        let runs = runs.collect();
        Play { dice, now_ms: START_MS, runs, spoil, tally: Tally { runs: RUNS as u64, ..Tally::default() } }
    }

    fn step(&mut self) -> anyhow::Result<()> {
        match self.dice.below(20) {
            0 => self.now_ms = self.now_ms.saturating_sub(self.dice.below(60_000)),
            1..=6 => self.now_ms += self.dice.below(12_000),
            _ => {}
        }
        let place = self.dice.index(self.runs.len());
        if self.dice.permille(40) {
            self.tally.crashes += 1;
            return self.runs[place].crash();
        }
        let Some(command) = self.command(place) else { return Ok(()) };
        self.submit(place, command)
    }

    fn command(&self, place: usize) -> Option<Command> {
        let (run, dice) = (&self.runs[place], &self.dice);
        if run.log.is_empty() {
            let kind =
                *dice.pick(&[RunKind::External, RunKind::External, RunKind::AgentLoop, RunKind::Shell])?;
            return Some(Command::Queue { queued: Box::new(Queued::new(kind)), resumed_from: None });
        }
        let by = || format!("person {}", dice.below(3));
        let prompt = |kind| dice.pick(&run.belief.open(kind)).cloned().unwrap_or_else(|| id("unknown"));
        match dice.below(100) {
            0..65 => {
                let event_generator = EventGenerator { dice, tag: &run.tag, wild: 40, patience: 30 };
                let batch = event_generator.batch(&run.belief, 5);
                let drafts: Vec<Draft> = batch.into_iter().map(Draft::from).collect();
                match (drafts.is_empty(), run.belief.own) {
                    (true, _) => None,
                    (false, true) => Some(Command::Progress { drafts }),
                    (false, false) => Some(Command::Append { drafts }),
                }
            }
            65..76 => Some(Command::Tick),
            76..78 => {
                let kind = *dice.pick(&PromptKind::ALL)?;
                Some(Command::ExtendPrompt { kind, id: prompt(kind), seconds: dice.below(600), by: by() })
            }
            78..86 => Some(Command::ResolveApproval {
                approval_id: prompt(PromptKind::Approval),
                approve: dice.permille(600),
                by: by(),
                comment: dice.permille(300).then(|| "as you like".into()),
                remember: None,
            }),
            86..91 => Some(Command::AnswerClarification {
                clarification_id: prompt(PromptKind::Clarification),
                response: Json::of(&dice.below(9)).ok()?,
                by: by(),
                blocks: None,
                config: None,
            }),
            91..93 => Some(Command::AcknowledgeHandoff {
                handoff_id: prompt(PromptKind::Handoff),
                by: by(),
                comment: None,
            }),
            93..95 => Some(Command::RejectHandoff {
                handoff_id: prompt(PromptKind::Handoff),
                by: by(),
                reason: None,
            }),
            95..98 => {
                Some(Command::TakeOver { worker_id: "w".into(), lease_until_ms: None, reason: "lost".into() })
            }
            _ => Some(Command::Cancel { by: *dice.pick(CancelledBy::ALL)?, reason: "enough".into() }),
        }
    }

    fn submit(&mut self, place: usize, command: Command) -> anyhow::Result<()> {
        self.tally.commands += 1;
        let stamp = Stamp { now_ms: self.now_ms, entropy: self.dice.draw() };
        let run = &mut self.runs[place];
        let ticked = command == Command::Tick;
        let drafts = match &command {
            Command::Append { drafts } | Command::Progress { drafts } => drafts.clone(),
            _ => Vec::new(),
        };
        match decide(&run.state, command.clone(), stamp) {
            Ok(events) => {
                self.tally.events += events.len() as u64;
                let had_ended = run.state.is_ended();
                run.land(events)?;
                self.tally.endings += u64::from(run.state.is_ended() && !had_ended);
                if ticked {
                    let due = outstanding(&run.state).timers.into_iter().find(|t| t.at_ms <= self.now_ms);
                    ensure!(due.is_none(), "a tick at {} left {due:?}", self.now_ms);
                }
                self.spoil(place)?;
            }
            Err(rejection) => {
                self.tally.refusals += 1;
                run.agrees(&rejection, &command, drafts, stamp)?;
            }
        }
        let run = &self.runs[place];
        run.check()?;
        // Reading a prefix is part of reading the whole, so occasional checks are sufficient.
        if self.dice.permille(100) { run.audited() } else { Ok(()) }
    }

    /// Applies the requested corruption, if possible.
    fn spoil(&mut self, place: usize) -> anyhow::Result<()> {
        let Some(spoil) = self.spoil else { return Ok(()) };
        let run = &mut self.runs[place];
        let Some(last) = run.log.last().cloned() else { return Ok(()) };
        let text = String::from_utf8(last.clone()).context("events are text")?;
        match spoil {
            Corruption::Lose if run.log.len() > 3 => drop(run.log.pop()),
            Corruption::Repeat if run.log.len() > 3 => run.log.push(last),
            Corruption::EndTwice if run.state.is_ended() => {
                let mut event = codec::decode(&last)?;
                event.sequence += 1;
                event.event_id = EventId::new(ulid::Ulid(event.event_id.ulid().0 + 1));
                run.log.push(codec::encode(&event));
            }
            Corruption::StepBack if run.log.len() > 3 => {
                let mut event = codec::decode(&last)?;
                event.occurred_ms -= 3_600_000;
                run.log.pop();
                run.log.push(codec::encode(&event));
            }
            Corruption::Alter if text.contains(r#""delta":""#) => {
                run.log.pop();
                run.log.push(text.replace(r#""delta":""#, r#""delta":"not "#).into_bytes());
            }
            _ => return Ok(()),
        }
        self.spoil = None;
        Ok(())
    }

    /// Closes everything that is open; afterwards nothing may be outstanding.
    fn end(&mut self) -> anyhow::Result<()> {
        for place in 0..self.runs.len() {
            if !self.runs[place].state.is_blank() && !self.runs[place].state.is_ended() {
                let cancel = Command::Cancel { by: CancelledBy::System, reason: "the end".into() };
                self.submit(place, cancel)?;
            }
            let run = &mut self.runs[place];
            ensure!(run.state.is_ended() || run.state.is_blank(), "a cancel left the run open");
            ensure!(outstanding(&run.state) == Default::default(), "a run that ended is owed something");
            run.crash()?;
            run.audited()?;
        }
        Ok(())
    }
}

impl Run {
    fn land(&mut self, events: Vec<Event>) -> anyhow::Result<()> {
        for event in events {
            let bytes = codec::encode(&event);
            let read = codec::decode(&bytes).context("what was written cannot be read")?;
            ensure!(codec::encode(&read) == bytes, "bytes change when they are read and written again");
            apply(&mut self.state, &event);
            self.belief.see(event.payload());
            self.log.push(bytes);
            self.events.push(event);
        }
        Ok(())
    }

    /// Checks the invariants after each step.
    fn check(&self) -> anyhow::Result<()> {
        ensure!(
            self.state.next_sequence() == self.log.len() as u64,
            "the state is at {} and the log at {}",
            self.state.next_sequence(),
            self.log.len()
        );
        if let [.., before, last] = &*self.events {
            ensure!(last.sequence == before.sequence + 1, "{} follows {}", last.sequence, before.sequence);
            ensure!(last.occurred_ms >= before.occurred_ms, "time falls at {}", last.sequence);
        }
        let endings = self.events.iter().filter(|event| is_ending(event)).count();
        ensure!(endings == usize::from(self.state.is_ended()), "{endings} endings");
        Ok(())
    }

    fn decoded(&self) -> anyhow::Result<Vec<Event>> {
        self.log.iter().map(|bytes| Ok(codec::decode(bytes)?)).collect()
    }

    fn audited(&self) -> anyhow::Result<()> {
        match audit(&self.decoded()?) {
            Some(illegal) => bail!("{illegal}"),
            None => Ok(()),
        }
    }

    /// Drops the state and rebuilds it from the bytes.
    fn crash(&mut self) -> anyhow::Result<()> {
        let mut state = State::blank(self.state.run_id(), self.state.task_id(), self.state.session_id());
        let events = self.decoded()?;
        for event in &events {
            ensure!(
                event.sequence == state.next_sequence(),
                "{} in the place of {}",
                event.sequence,
                state.next_sequence()
            );
            apply(&mut state, event);
        }
        ensure!(state == self.state, "the state made again from the log is another one");
        self.belief = Belief::of(events.iter().map(Event::payload));
        self.state = state;
        Ok(())
    }

    /// Checks that an audit of a refused event names the same rule, or at least finds a breach.
    fn agrees(
        &self,
        rejection: &Rejection,
        command: &Command,
        drafts: Vec<Draft>,
        stamp: Stamp,
    ) -> anyhow::Result<()> {
        ensure!(
            rejection.code != recount_event::Code::Internal,
            "{command:?} broke a rule of ours: {rejection}"
        );
        let Some(rule) = rejection.rule else { return Ok(()) };
        let known = RULES.iter().find(|known| known.id == rule).context("a rule without a sentence")?;
        let Some(index) = rejection.index else { return Ok(()) };
        if known.reach != Reach::Log {
            return Ok(());
        }
        let before = drafts[..index].to_vec();
        let before = match command {
            Command::Append { .. } => Command::Append { drafts: before },
            _ => Command::Progress { drafts: before },
        };
        // Effects of a batch may depend on its end, so a part of it may be illegal alone.
        let Ok(mut events) = decide(&self.state, before, stamp) else { return Ok(()) };
        if events.len() != index {
            return Ok(());
        }
        let last = events.last().or(self.events.last()).context("a run begins with an event")?;
        events.push(Event {
            event_id: EventId::new(ulid::Ulid(last.event_id.ulid().0 + 1)),
            sequence: last.sequence + 1,
            body: drafts[index].clone(),
            ..last.clone()
        });
        let all = self.events.iter().chain(&events);
        let illegal =
            audit(all).with_context(|| format!("audit sees nothing wrong where {rule} was named"))?;
        let wanted = self.events.len() + index;
        ensure!(
            illegal.index == wanted,
            "audit stumbles at {} and not at {wanted}: {illegal}",
            illegal.index
        );
        Ok(())
    }
}

fn is_ending(event: &Event) -> bool {
    matches!(event.type_name(), "run.finished" | "run.failed" | "run.cancelled")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_seeds_hold() {
        let mut tally = Tally::default();
        for seed in 0..60 {
            tally += play(seed, None).unwrap();
        }
        assert!(tally.endings > 100 && tally.refusals > 100 && tally.crashes > 100, "{tally:?}");
    }

    #[test]
    fn the_same_seed_plays_the_same_way() {
        for seed in 0..5 {
            assert_eq!(play(seed, None).unwrap(), play(seed, None).unwrap());
        }
        assert_ne!(play(1, None).unwrap(), play(2, None).unwrap());
    }

    #[test]
    fn every_corruption_is_detected() {
        for spoil in [
            Corruption::Lose,
            Corruption::Repeat,
            Corruption::EndTwice,
            Corruption::StepBack,
            Corruption::Alter,
        ] {
            for seed in 0..10 {
                assert!(play(seed, Some(spoil)).is_err(), "{spoil:?} with seed {seed}");
            }
        }
    }
}
