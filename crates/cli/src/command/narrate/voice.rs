//! Where utterances go: speech, one at a time, or lines on standard output. See [`Voice`].

use std::time::Duration;

use recount_client::moment;
use recount_command_line::flow;
use recount_narrate::ssip::{SpeechEvent, SsipClient, SsipError};
use recount_narrate::{SpeechQueue, Utterance};
use serde_json::json;
use tokio::time::Instant;

use crate::failure::Failure;
use crate::limits;
use crate::output::{Output, note};
use crate::render::clean;

pub(super) enum Voice {
    Text { out: Output, as_json: bool },
    Speech(Box<Speech>),
}

/// What is known about the utterance that is spoken, or why speech failed.
pub(super) struct SpeechReport(Result<UtteranceProgress, SsipError>);

enum UtteranceProgress {
    Speaking,
    Ended,
    /// It should have ended long ago.
    Late,
}

pub(super) struct Speech {
    client: SsipClient,
    queue: SpeechQueue,
    /// The utterance that is being spoken, and until when its end is awaited.
    current: Option<(String, Instant)>,
}

impl Voice {
    pub(super) fn text(as_json: bool) -> Voice {
        Voice::Text { out: Output::new(), as_json }
    }

    pub(super) fn speech(client: SsipClient) -> Voice {
        Voice::Speech(Box::new(Speech { client, queue: SpeechQueue::default(), current: None }))
    }

    pub(super) async fn speak(&mut self, utterance: Utterance) -> Result<(), Failure> {
        match self {
            Voice::Text { out, as_json: true } => out.value(&json!({
                "priority": utterance.priority.ssip().to_ascii_lowercase(),
                "subject": utterance.subject.label(),
                "language": utterance.language,
                "session": utterance.session,
                "text": utterance.text,
            })),
            Voice::Text { out, as_json: false } => print(out, &utterance),
            Voice::Speech(speech) => {
                let outcome = speech.push(utterance).await;
                self.checked(outcome)
            }
        }
    }

    /// Cancels what is spoken.
    pub(super) async fn cut(&mut self) -> Result<(), Failure> {
        let Voice::Speech(speech) = self else { return Ok(()) };
        let outcome = if speech.queue.is_speaking() { speech.cancel().await } else { Ok(()) };
        self.checked(outcome)
    }

    /// Cancels what is spoken, and discards text that waits.
    pub(super) async fn silence(&mut self) -> Result<(), Failure> {
        let Voice::Speech(speech) = self else { return Ok(()) };
        let outcome = if speech.queue.silence() { speech.cancel().await } else { Ok(()) };
        self.checked(outcome)
    }

    /// Waits for what speech reports. Never ends for text. Nothing is lost if the future is dropped; what it reports goes to
    /// [`Voice::go_on`].
    pub(super) async fn report(&mut self) -> SpeechReport {
        match self {
            Voice::Text { .. } => std::future::pending().await,
            Voice::Speech(speech) => SpeechReport(speech.progress().await),
        }
    }

    /// Speaks what comes next, if the last utterance has ended. It must not be dropped before its end: the dispatcher would
    /// have been given half a command.
    pub(super) async fn go_on(&mut self, report: SpeechReport) -> Result<(), Failure> {
        let Voice::Speech(speech) = self else { return Ok(()) };
        let outcome = match report.0 {
            Ok(progress) => speech.go_on(progress).await,
            Err(why) => Err(why),
        };
        self.checked(outcome)
    }

    pub(super) fn is_silent(&self) -> bool {
        match self {
            Voice::Text { .. } => true,
            Voice::Speech(speech) => speech.queue.is_empty(),
        }
    }

    /// From here on nothing is discarded: the caller waits until there is room.
    pub(super) fn keep_all(&mut self) {
        if let Voice::Speech(speech) = self {
            speech.queue.keep_all();
        }
    }

    /// Whether there is room for the utterances of another event.
    pub(super) fn has_room(&self) -> bool {
        match self {
            Voice::Text { .. } => true,
            Voice::Speech(speech) => speech.queue.has_room(),
        }
    }

    pub(super) fn skipped(&self) -> u64 {
        match self {
            Voice::Text { .. } => 0,
            Voice::Speech(speech) => speech.queue.skipped(),
        }
    }

    /// Where speech fails, what waits is printed, and all that follows.
    fn checked(&mut self, outcome: Result<(), SsipError>) -> Result<(), Failure> {
        let (Err(why), Voice::Speech(speech)) = (outcome, &mut *self) else { return Ok(()) };
        note(&format!("{why}. Lines are printed instead."));
        let mut out = Output::new();
        speech.queue.ended();
        while let Some(utterance) = speech.queue.take_next() {
            print(&mut out, &utterance)?;
            speech.queue.ended();
        }
        *self = Voice::text(false);
        Ok(())
    }
}

/// Prints an utterance. Each line begins with its subject, and is broken between words on a terminal.
fn print(out: &mut Output, utterance: &Utterance) -> Result<(), Failure> {
    for line in utterance.text.split('\n') {
        let line = format!("{}: {}", utterance.subject.label(), clean::line(line));
        out.line(&flow::broken(&line, out.width()))?;
    }
    Ok(())
}

impl Speech {
    async fn push(&mut self, utterance: Utterance) -> Result<(), SsipError> {
        if self.queue.push(utterance) {
            self.cancel().await?;
        }
        self.speak_next().await
    }

    async fn cancel(&mut self) -> Result<(), SsipError> {
        self.client.cancel().await?;
        // Some modules finish a word first, and a few report nothing.
        self.wait_at_most(limits::SPEECH_CANCEL_WAIT);
        Ok(())
    }

    fn wait_at_most(&mut self, wait: Duration) {
        if let Some((_, until)) = &mut self.current {
            *until = (*until).min(moment() + wait);
        }
    }

    async fn speak_next(&mut self) -> Result<(), SsipError> {
        if let Some(utterance) = self.queue.take_next() {
            let id = self.client.speak(&utterance).await?;
            let characters = u32::try_from(utterance.text.chars().count()).unwrap_or(u32::MAX);
            let wait = limits::SPEECH_CHARACTER_WAIT.saturating_mul(characters);
            self.current = Some((id, moment() + limits::SPEECH_UTTERANCE_WAIT + wait));
        }
        Ok(())
    }

    /// Waits for an event of speech, or until the utterance is given up.
    async fn progress(&mut self) -> Result<UtteranceProgress, SsipError> {
        let until = self.current.as_ref().map(|(_, until)| *until);
        let late = async {
            match until {
                Some(until) => tokio::time::sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            event = self.client.next() => Ok(match event? {
                SpeechEvent::Ended(id) | SpeechEvent::Cancelled(id)
                    if self.current.as_ref().is_some_and(|(current, _)| *current == id) =>
                {
                    UtteranceProgress::Ended
                }
                _ => UtteranceProgress::Speaking,
            }),
            () = late => Ok(UtteranceProgress::Late),
        }
    }

    async fn go_on(&mut self, progress: UtteranceProgress) -> Result<(), SsipError> {
        match progress {
            UtteranceProgress::Speaking => return self.speak_next().await,
            UtteranceProgress::Ended => {}
            // The dispatcher speaks nothing else before the end of this one, and a module may never report it.
            UtteranceProgress::Late => match self.client.cancel().await {
                Ok(()) | Err(SsipError::Refused { .. }) => {}
                Err(why) => return Err(why),
            },
        }
        self.current = None;
        self.queue.ended();
        self.speak_next().await
    }
}
