//! The loop of a narration: events and keys to the narrator, its effects to voice, producer and terminal. See [`Stage`].

use std::future::pending;
use std::pin::{Pin, pin};
use std::time::Duration;

use recount_aaep_client::link::LinkError;
use recount_narrate::listener::{ListenerEnd, ListenerEnds, ListenerReport};
use recount_narrate::{
    Narrator, NarratorEffect, NarratorSignal, Outgoing, PhraseKey, SessionEnd, SpeechPriority,
};
use recount_world::World;
use recount_world::platform::{Signal, SignalKind, signal};

use super::bell::Bell;
use super::keyboard::Keyboard;
use super::voice::{SpeechReport, Voice};
use crate::failure::Failure;
use crate::limits;
use crate::output::aside;

pub(super) struct Stage {
    world: World,
    narrator: Narrator,
    voice: Voice,
    ends: ListenerEnds,
    keyboard: Keyboard,
    bell: Bell,
    /// Whether the session has ended already. Then events wait until there is room, and nothing is discarded.
    is_history: bool,
    /// Whether the narration is over when the session has ended.
    ends_with_session: bool,
    end: Option<SessionEnd>,
    quits: bool,
    interrupts: Signal,
    terminations: Signal,
}

/// The next thing to do.
enum Step {
    Effects(Vec<NarratorEffect>),
    Speech(SpeechReport),
}

/// Completes the work, with the listener beside it: half a command to the dispatcher would lose an utterance's id.
async fn beside<T>(
    mut work: Pin<Box<impl Future<Output = T>>>,
    mut listening: Pin<&mut impl Future<Output = ListenerEnd>>,
    listened: &mut Option<ListenerEnd>,
) -> T {
    loop {
        tokio::select! {
            biased;
            done = work.as_mut() => return done,
            end = listening.as_mut(), if listened.is_none() => *listened = Some(end),
        }
    }
}

impl Stage {
    pub(super) fn new(
        world: World,
        narrator: Narrator,
        voice: Voice,
        ends: ListenerEnds,
        ends_with_session: bool,
    ) -> Result<Stage, Failure> {
        let no_signals = |why| Failure::Own(format!("signals cannot be received: {why}"));
        Ok(Stage {
            world,
            narrator,
            voice,
            ends,
            keyboard: Keyboard::open(),
            bell: Bell::default(),
            is_history: false,
            ends_with_session,
            end: None,
            quits: false,
            interrupts: signal(SignalKind::interrupt()).map_err(no_signals)?,
            terminations: signal(SignalKind::terminate()).map_err(no_signals)?,
        })
    }

    /// The session has ended already.
    pub(super) fn read_history(&mut self) {
        self.is_history = true;
        self.voice.keep_all();
    }

    fn has_room(&self) -> bool {
        !self.is_history || self.voice.has_room()
    }

    /// Until the session has ended and all is spoken, the person quits, or the subscription is over.
    pub(super) async fn run(&mut self, listening: impl Future<Output = ListenerEnd>) -> Result<(), Failure> {
        let mut listening = pin!(listening);
        // Once the listener has ended.
        let mut listened = None;
        loop {
            if self.quits {
                return beside(Box::pin(self.voice.silence()), listening.as_mut(), &mut listened).await;
            }
            if let (Some(end), true) = (self.end, self.voice.is_silent() && self.bell.is_silent()) {
                return outcome(end);
            }
            if self.end.is_none()
                && self.ends.reports.is_empty()
                && let Some(end) = listened.take()
            {
                return self.subscription_ended(end).await;
            }
            let step = tokio::select! {
                biased;
                step = self.step() => step?,
                end = listening.as_mut(), if listened.is_none() => {
                    listened = Some(end);
                    continue;
                }
            };
            beside(Box::pin(self.carry_out_step(step)), listening.as_mut(), &mut listened).await?;
        }
    }

    /// Waits for the next thing to do. Nothing is lost if the future is dropped.
    async fn step(&mut self) -> Result<Step, Failure> {
        let due = self.narrator.next_due_ms().map(|due| due.saturating_sub(self.now_ms()));
        let quiet = async {
            match due {
                Some(wait) => tokio::time::sleep(Duration::from_millis(wait)).await,
                None => pending().await,
            }
        };
        let has_room = self.has_room();
        Ok(Step::Effects(tokio::select! {
            biased;
            _ = self.interrupts.recv() => return Err(Failure::Interrupted),
            _ = self.terminations.recv() => return Err(Failure::Interrupted),
            keys = self.keyboard.next() => {
                let mut effects = Vec::new();
                let now_ms = self.now_ms();
                for key in keys {
                    effects.extend(self.narrator.press(key, now_ms, self.voice.skipped()));
                }
                effects
            }
            () = self.bell.due() => {
                self.bell.ring();
                Vec::new()
            }
            report = self.ends.reports.recv(), if self.end.is_none() && has_room => match report {
                Some(report) => self.take_report(report),
                None => Vec::new(),
            },
            () = quiet => {
                let now_ms = self.now_ms();
                self.narrator.quiet(now_ms)
            }
            report = self.voice.report() => return Ok(Step::Speech(report)),
        }))
    }

    async fn carry_out_step(&mut self, step: Step) -> Result<(), Failure> {
        match step {
            Step::Effects(effects) => self.carry_out(effects).await,
            Step::Speech(report) => self.voice.go_on(report).await,
        }
    }

    fn now_ms(&self) -> u64 {
        self.world.clock.now_ms()
    }

    fn take_report(&mut self, report: ListenerReport) -> Vec<NarratorEffect> {
        match report {
            ListenerReport::Event(event) => {
                let now_ms = self.now_ms();
                self.narrator.hear(&event, now_ms)
            }
            ListenerReport::Connected { subscription, again } => {
                self.narrator.subscribed(subscription);
                let what = match (again, self.keyboard.is_open()) {
                    (true, _) if self.is_history => return Vec::new(),
                    (true, _) => PhraseKey::ConnectedAgain,
                    (false, true) => PhraseKey::Connected,
                    (false, false) => return Vec::new(),
                };
                self.narrator.announce(SpeechPriority::Message, what)
            }
            ListenerReport::Lost { .. } => {
                let was_connected = self.narrator.is_subscribed();
                self.narrator.subscribed(None);
                // Once, not with every attempt.
                if was_connected && !self.is_history {
                    return self.narrator.announce(SpeechPriority::Important, PhraseKey::ConnectionLost);
                }
                Vec::new()
            }
            ListenerReport::NotSent { outgoing, why } => self.narrator.not_sent(&outgoing, &why),
        }
    }

    async fn carry_out(&mut self, effects: Vec<NarratorEffect>) -> Result<(), Failure> {
        for effect in effects {
            match effect {
                NarratorEffect::Speak(utterance) => self.voice.speak(utterance).await?,
                NarratorEffect::Silence => self.voice.silence().await?,
                NarratorEffect::Cut => self.voice.cut().await?,
                NarratorEffect::Echo(text) => aside(&text),
                NarratorEffect::Send(message) => self.send(message).await?,
                NarratorEffect::Ended { end, .. } if self.ends_with_session => self.end = Some(end),
                NarratorEffect::Ended { .. } => {}
                NarratorEffect::Signal(signal) => self.bell.start(match signal {
                    NarratorSignal::NeedsYou => limits::BELLS_NEEDS_YOU,
                    NarratorSignal::Finished => limits::BELLS_FINISHED,
                    NarratorSignal::Failed => limits::BELLS_FAILED,
                }),
                NarratorEffect::Quit => self.quits = true,
            }
        }
        Ok(())
    }

    async fn send(&mut self, message: Outgoing) -> Result<(), Failure> {
        if let Err(refused) = self.ends.messages.try_send(message) {
            let effects = self.narrator.too_much_waits(&refused.into_inner());
            return self.speak_all(effects).await;
        }
        Ok(())
    }

    async fn speak_all(&mut self, effects: Vec<NarratorEffect>) -> Result<(), Failure> {
        for effect in effects {
            if let NarratorEffect::Speak(utterance) = effect {
                self.voice.speak(utterance).await?;
            }
        }
        Ok(())
    }

    /// The subscription is over before its session has ended; all that it reported was taken.
    async fn subscription_ended(&mut self, end: ListenerEnd) -> Result<(), Failure> {
        let effects = self.narrator.announce(SpeechPriority::Important, PhraseKey::NarrationEnded);
        self.speak_all(effects).await?;
        self.finish_speaking().await?;
        Err(failure(end))
    }

    async fn finish_speaking(&mut self) -> Result<(), Failure> {
        let spoken = async {
            while !self.voice.is_silent() {
                let report = self.voice.report().await;
                self.voice.go_on(report).await?;
            }
            Ok(())
        };
        tokio::select! {
            spoken = spoken => spoken,
            () = tokio::time::sleep(limits::SPEECH_FINISH_WAIT) => Ok(()),
            _ = self.interrupts.recv() => Err(Failure::Interrupted),
        }
    }
}

fn outcome(end: SessionEnd) -> Result<(), Failure> {
    match end {
        SessionEnd::Completed => Ok(()),
        SessionEnd::Errored => Err(Failure::No),
        SessionEnd::Cancelled => Err(Failure::Cancelled),
    }
}

fn failure(end: ListenerEnd) -> Failure {
    match end {
        ListenerEnd::Stopped => Failure::Interrupted,
        ListenerEnd::Closed { why } => Failure::Refused(format!("the server closed the subscription: {why}")),
        ListenerEnd::Rejected { code, why } => {
            Failure::Refused(format!("the server rejected the subscription with {code}: {why}"))
        }
        ListenerEnd::Lost(why) => link_failure(why),
    }
}

fn link_failure(why: LinkError) -> Failure {
    let words = why.to_string();
    match why {
        LinkError::Unusable(_) => Failure::Usage(words),
        LinkError::Unreachable { .. } => {
            Failure::Unreachable(format!("{words}; is a server running there? (recount serve starts one)"))
        }
        LinkError::Refused { status: 401, .. } => Failure::Refused(format!(
            "{words}; the server requires a token: pass --token or set RECOUNT_TOKEN"
        )),
        LinkError::Refused { status: 404, .. } => {
            Failure::Refused(format!("{words}; does this server offer AAEP at /aaep/v1?"))
        }
        _ => Failure::Refused(words),
    }
}
