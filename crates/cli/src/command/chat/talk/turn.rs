//! Receives one turn: prints it as it comes, and on Ctrl-C cancels it where the server can, else leaves it.

use std::pin::Pin;

use recount_client::aap::wire::{Block, Content, TurnMessage};
use recount_client::aap::{AapError, Fold, Frame, Stop, StopReason, Turn, TurnEvent, TurnItem, open_calls};
use recount_client::moment;
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::Talk;
use crate::command::chat::prompt_line::PromptLine;
use crate::command::chat::typed::Input;
use crate::failure::Failure;
use crate::limits;
use crate::output::note;
use crate::render::pulse::Beat;
use crate::render::{chat as words, clean};

/// What is waited for while a turn is under way and no call is known of.
const AGENT: &str = "the agent";

/// How hearing a turn ended.
pub(super) enum TurnOutcome {
    Stopped(Stop),
    /// It is no longer received; it may continue at the server.
    Left,
    Quit,
    Failed(AapError),
}

/// What came first.
enum TurnStep<T> {
    Came(T),
    Typed(Result<Input, Failure>),
    Cancelled(Result<bool, AapError>),
    Pulse,
    /// A word that waited for its end is written without it.
    Release,
}

type Cancelling = Pin<Box<dyn Future<Output = Result<bool, AapError>>>>;

impl Talk {
    pub(super) async fn turn(&mut self, messages: Vec<TurnMessage>) -> Result<TurnOutcome, Failure> {
        let new = self.new_turn(messages);
        let (client, session) = (self.client.clone(), self.session.session_id.clone());
        let mut beginning = Box::pin(client.turn(&session, &new));
        self.pulse.received(Some(AGENT), moment());
        let started = loop {
            let next = tokio::select! {
                biased;
                typed = self.typed.meanwhile() => TurnStep::Typed(typed),
                started = &mut beginning => TurnStep::Came(started),
                () = until(self.pulse.due()) => TurnStep::Pulse,
            };
            self.quiet();
            match next {
                TurnStep::Came(started) => break started,
                TurnStep::Pulse => self.beat()?,
                TurnStep::Typed(input) => match meant(input?) {
                    Meant::Cancel => {
                        note("stopped waiting for an answer; the turn may continue on the server");
                        return Ok(TurnOutcome::Left);
                    }
                    Meant::Quit => return Ok(TurnOutcome::Quit),
                    Meant::Nothing => {}
                },
                TurnStep::Cancelled(_) | TurnStep::Release => {}
            }
        };
        drop(beginning);
        match started {
            Ok(turn) => {
                self.accepted();
                self.hear(turn).await
            }
            Err(why) => {
                self.take_back(new.messages);
                Ok(TurnOutcome::Failed(why))
            }
        }
    }

    /// The server has taken what was chosen anew.
    fn accepted(&mut self) {
        self.open.clear();
        if let Some(tools) = self.overrides.take().and_then(|overrides| overrides.tools) {
            self.session.agent.tools = Some(tools);
        }
    }

    /// Pictures that were not taken go along with the next message.
    fn take_back(&mut self, messages: Vec<TurnMessage>) {
        for message in messages {
            if let TurnMessage::User { content: Content::Blocks(blocks) } = message {
                self.images.extend(blocks.into_iter().filter(|block| matches!(block, Block::Image { .. })));
            }
        }
    }

    async fn hear(&mut self, mut turn: Turn) -> Result<TurnOutcome, Failure> {
        let mut fold = Fold::new();
        let mut cancelling: Option<Cancelling> = None;
        let mut was_cancelled = false;
        let mut is_away = false;
        let mut release_due = None;
        loop {
            let next = tokio::select! {
                biased;
                typed = self.typed.meanwhile() => TurnStep::Typed(typed),
                done = pending(&mut cancelling) => TurnStep::Cancelled(done),
                item = turn.next() => TurnStep::Came(item),
                () = until(release_due) => TurnStep::Release,
                () = until(self.pulse.due()) => TurnStep::Pulse,
            };
            self.quiet();
            match next {
                TurnStep::Pulse => self.beat()?,
                TurnStep::Release => {
                    release_due = None;
                    let text = self.printer.release();
                    self.out.text(&text)?;
                }
                TurnStep::Came(Ok(Some(TurnItem::Event { event, frame }))) => {
                    if std::mem::take(&mut is_away) {
                        self.beside("reconnected");
                    }
                    fold.event(&event);
                    self.print_event(&event, &frame)?;
                    let holds = self.printer.is_mid_line() && !self.json;
                    release_due = holds.then(|| moment() + limits::HELD_WORD_WAIT);
                }
                TurnStep::Came(Ok(Some(TurnItem::Interrupted { reason }))) => {
                    if !std::mem::replace(&mut is_away, true) {
                        self.beside(&format!("connection lost ({reason}); the turn continues; reconnecting"));
                    }
                }
                TurnStep::Came(Ok(None)) => return Ok(self.ended(&fold, was_cancelled)),
                TurnStep::Came(Err(why)) => {
                    self.end_line()?;
                    return Ok(TurnOutcome::Failed(why));
                }
                TurnStep::Cancelled(done) => {
                    cancelling = None;
                    match done {
                        Ok(true) => {}
                        Ok(false) => return Ok(self.cannot_cancel()),
                        Err(why) => {
                            self.beside(&format!("cannot cancel the turn: {why}; press Ctrl-C again to quit"))
                        }
                    }
                }
                TurnStep::Typed(input) => {
                    let input = input?;
                    let is_key = input == Input::Interrupt;
                    match meant(input) {
                        Meant::Nothing => continue,
                        Meant::Quit => return Ok(TurnOutcome::Quit),
                        Meant::Cancel if was_cancelled && is_key => {
                            self.end_line()?;
                            self.leave()?;
                            return Err(Failure::Interrupted);
                        }
                        Meant::Cancel if was_cancelled => {}
                        Meant::Cancel => {
                            was_cancelled = true;
                            let Some(id) = turn.id().map(str::to_owned) else {
                                return Ok(self.cannot_cancel());
                            };
                            self.beside("cancelling the turn; press Ctrl-C again to quit");
                            let (client, session) = (self.client.clone(), self.session.session_id.clone());
                            cancelling =
                                Some(Box::pin(async move { client.cancel_turn(&session, &id).await }));
                        }
                    }
                }
            }
        }
    }

    /// The stream of the turn is over.
    fn ended(&mut self, fold: &Fold, was_cancelled: bool) -> TurnOutcome {
        let Some(stop) = fold.stop().cloned() else {
            return TurnOutcome::Failed(AapError::BrokenOff { reason: "it has no end".to_owned() });
        };
        if stop.reason == StopReason::ToolUse {
            self.open = open_calls(fold.messages());
        }
        match was_cancelled && !self.asks {
            true => TurnOutcome::Left,
            false => TurnOutcome::Stopped(stop),
        }
    }

    fn cannot_cancel(&mut self) -> TurnOutcome {
        self.beside("the server does not support cancelling; stopped waiting; the turn may continue there");
        TurnOutcome::Left
    }

    /// A sign of life, unless a line is open.
    fn beat(&mut self) -> Result<(), Failure> {
        let width = self.out.width().unwrap_or(limits::COLUMNS_DEFAULT);
        let is_free = !self.printer.is_mid_line();
        match self.pulse.beat(width, is_free, moment()) {
            Some(Beat::Draw(line)) => self.out.text(&line),
            Some(Beat::Note(line)) => {
                if self.out.is_terminal() {
                    self.end_line()?;
                }
                note(&line);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Erases the sign of life, before anything else is written.
    fn quiet(&mut self) {
        let erase = self.pulse.erase();
        // If the output is closed, the next write reports it.
        self.out.text(erase).ok();
    }

    fn print_event(&mut self, event: &TurnEvent, frame: &Frame) -> Result<(), Failure> {
        let waits = match event {
            TurnEvent::Stop(_) => None,
            TurnEvent::ToolCall(call) => Some(clean::line(&call.name)),
            _ => Some(AGENT.to_owned()),
        };
        self.pulse.received(waits.as_deref(), moment());
        self.printer.set_width(self.out.width());
        if self.json {
            if let Some(line) = as_line(frame) {
                self.out.json(&line)?;
            }
        } else {
            let text = self.printer.event(event);
            if !text.is_empty() {
                self.out.text(&text)?;
            }
        }
        if let TurnEvent::Stop(stop) = event {
            stop.usage.as_ref().and_then(words::usage).iter().for_each(|line| note(line));
            words::stopped(stop).iter().for_each(|line| note(line));
        }
        Ok(())
    }

    /// Words between those of the turn.
    fn beside(&mut self, line: &str) {
        // If the output is closed, the next write reports it.
        drop(self.end_line());
        note(line);
    }

    fn end_line(&mut self) -> Result<(), Failure> {
        let end = self.printer.end_line();
        if end.is_empty() || self.json { Ok(()) } else { self.out.text(&end) }
    }
}

/// What something typed means while a turn is under way.
enum Meant {
    Cancel,
    Quit,
    Nothing,
}

fn meant(input: Input) -> Meant {
    match input {
        Input::Interrupt => Meant::Cancel,
        Input::End => Meant::Nothing,
        Input::Line(line) => match PromptLine::read(&line) {
            PromptLine::Cancel => Meant::Cancel,
            PromptLine::Quit => Meant::Quit,
            PromptLine::Nothing => Meant::Nothing,
            _ => {
                note("the agent is still working; not sent (/cancel cancels the turn)");
                Meant::Nothing
            }
        },
    }
}

/// An event as one line of JSON, with its data as it came.
fn as_line(frame: &Frame) -> Option<String> {
    #[derive(serde::Serialize)]
    struct EventLine<'a> {
        event: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<&'a str>,
        data: &'a RawValue,
    }
    // Line ends in JSON stand between its parts only.
    let data = frame.data.replace(['\r', '\n'], " ");
    let data = RawValue::from_string(data).ok()?;
    let line = EventLine {
        event: frame.event.as_deref().unwrap_or("message"),
        id: frame.id.as_deref(),
        data: &data,
    };
    serde_json::to_string(&line).ok()
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

async fn pending(cancelling: &mut Option<Cancelling>) -> Result<bool, AapError> {
    match cancelling {
        Some(cancelling) => cancelling.await,
        None => std::future::pending().await,
    }
}
