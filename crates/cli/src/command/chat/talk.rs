//! The chat loop: sends messages and answers, receives turns. See [`Talk`].
//!
//! Calls that the last turn left open wait for an answer. If a turn was not received to its end, the history is
//! read; also when a session is continued.

mod answers;
mod past;
mod turn;

use recount_client::Client;
use recount_client::aap::wire::{
    AgentInfo, Block, Content, HistoryMessage, NewTurn, Overrides, SessionInfo, TurnMessage,
};
use recount_client::aap::{AapClient, AapError, OpenCall, Stop, StopReason};

pub(super) use self::answers::Consent;
use self::turn::TurnOutcome;
use super::image;
use super::prompt_line::{HELP, PromptLine};
use super::typed::{Input, Typed, ask};
use crate::command::run::View;
use crate::failure::Failure;
use crate::limits;
use crate::output::{Output, aside, note};
use crate::render::chat::{self as words, TurnPrinter};
use crate::render::pulse::Pulse;

pub(super) struct Talk {
    client: AapClient,
    /// The native protocol of a Recount server, which shows approvals in full.
    native: Option<Client>,
    agent: AgentInfo,
    session: SessionInfo,
    typed: Typed,
    consent: Consent,
    json: bool,
    out: Output,
    printer: TurnPrinter,
    pulse: Pulse,
    /// The address that leads back to the session, where it will still lead there.
    back: Option<String>,
    /// To be sent with the next turn.
    overrides: Option<Overrides>,
    /// To be sent with the next message.
    images: Vec<Block>,
    open: Vec<OpenCall>,
    /// Whether something happened at the server that was not received here.
    is_unsure: bool,
    /// Whether a person can be prompted.
    asks: bool,
}

/// How one exchange ended: a message, and answers until nothing is open.
enum Exchange {
    Done(Stop),
    /// It was not received to its end.
    Left,
    Failed(AapError),
    Quit,
}

impl Talk {
    pub(super) fn new(
        client: AapClient,
        agent: AgentInfo,
        session: SessionInfo,
        typed: Typed,
        consent: Consent,
        view: View,
    ) -> Self {
        let out = Output::new();
        Talk {
            client,
            native: None,
            agent,
            session,
            asks: typed.is_terminal(),
            typed,
            consent,
            json: view.json,
            printer: TurnPrinter::new(view.paint(&out)).plain(view.plain),
            pulse: view.pulse(&out),
            out,
            back: None,
            overrides: None,
            images: Vec::new(),
            open: Vec::new(),
            is_unsure: false,
        }
    }

    /// With a Recount server: approvals are shown and decided as `recount run` does.
    pub(super) fn at_recount(self, native: Option<Client>) -> Self {
        Talk { native, ..self }
    }

    /// What it begins with: changed settings, pictures for the first message, the history.
    pub(super) fn with(
        mut self,
        overrides: Option<Overrides>,
        images: Vec<Block>,
        past: Vec<HistoryMessage>,
        back: Option<String>,
    ) -> Result<Self, Failure> {
        self.back = back;
        self.overrides = overrides;
        self.images = images;
        if self.json {
            let session = serde_json::json!({"sessionId": self.session.session_id});
            self.out.value(&serde_json::json!({"event": "session", "data": session}))?;
        }
        note(&format!("session {} with {}", self.session.session_id, self.agent.name));
        words::history(&past, limits::HISTORY_SHOWN_MAX).iter().for_each(|line| note(line));
        self.opened(&past);
        Ok(self)
    }

    pub(super) async fn run(mut self, message: Option<String>) -> Result<(), Failure> {
        match message {
            Some(message) => {
                self.asks = false;
                self.typed.close();
                let exchange = self.exchange_past_open(message).await?;
                self.verdict(exchange).await
            }
            None if self.asks => self.at_a_terminal().await,
            None => self.lines_of_a_pipe().await,
        }
    }

    /// Each line is a message; one turn that does not end well does not keep the others from being sent, unless
    /// the server could not be spoken to.
    async fn lines_of_a_pipe(&mut self) -> Result<(), Failure> {
        let mut worst = Ok(());
        loop {
            let line = match self.typed.next().await? {
                Input::Line(line) => line.trim_end_matches(['\r', '\n']).to_owned(),
                Input::End => return worst,
                Input::Interrupt => return Err(Failure::Interrupted),
            };
            if line.trim().is_empty() {
                continue;
            }
            let exchange = self.exchange_past_open(line).await?;
            match self.verdict(exchange).await {
                Err(Failure::No) => worst = Err(Failure::No),
                verdict => verdict?,
            }
        }
    }

    async fn at_a_terminal(&mut self) -> Result<(), Failure> {
        if self.open.is_empty() {
            note("Type a message, or /help.");
        }
        loop {
            if std::mem::take(&mut self.is_unsure) {
                self.reload().await?;
            }
            let exchange = if self.open.is_empty() {
                if self.typed.is_over() {
                    return self.leave();
                }
                ask("you:");
                match self.typed.next().await? {
                    Input::Line(line) => match PromptLine::read(&line) {
                        PromptLine::Message(text) => {
                            let message = self.message(text);
                            self.exchange(vec![message]).await?
                        }
                        PromptLine::Quit => return self.leave(),
                        line => {
                            self.command(line).await?;
                            continue;
                        }
                    },
                    Input::End => {
                        aside("\n");
                        return self.leave();
                    }
                    Input::Interrupt => {
                        aside("\n");
                        self.leave()?;
                        return Err(Failure::Interrupted);
                    }
                }
            } else {
                match self.answers().await? {
                    Some(answers) => self.exchange(answers).await?,
                    None => Exchange::Quit,
                }
            };
            match exchange {
                Exchange::Done(_) => {}
                Exchange::Left => self.is_unsure = true,
                Exchange::Quit => return self.leave(),
                Exchange::Failed(why) => {
                    if self.is_missing(&why) || matches!(why.status(), Some(401 | 403)) {
                        return Err(self.failed(why));
                    }
                    self.is_unsure = true;
                    note(&describe_error(&why));
                }
            }
        }
    }

    /// Prints how to continue the session.
    fn leave(&self) -> Result<(), Failure> {
        let id = quoted(&self.session.session_id);
        let base = self.back.as_deref().map_or(String::new(), |base| format!(" {}", quoted(base)));
        note("the session is saved; to continue it:");
        note(&format!("    recount chat --session={id}{base}"));
        Ok(())
    }

    async fn command(&mut self, line: PromptLine) -> Result<(), Failure> {
        match line {
            PromptLine::Image(_) if self.agent.capabilities.image.data.is_none() => {
                note(&image::not_taken(&self.agent.name));
            }
            PromptLine::Image(path) => match image::block(&path) {
                Ok(block) => {
                    self.images.push(block);
                    note("the image will be sent with the next message");
                }
                Err(why) => note(&why.to_string()),
            },
            PromptLine::Tools => self.print_tools(),
            PromptLine::Session => {
                let (id, base) = (&self.session.session_id, self.client.base_url());
                note(&format!("session {id} with {} at {base}", self.agent.name));
            }
            PromptLine::History => match self.history().await {
                Ok(Some(past)) => words::history(&past, usize::MAX).iter().for_each(|line| note(line)),
                Ok(None) => note("the agent offers no history"),
                Err(why) => note(&describe_error(&why)),
            },
            PromptLine::Cancel => note("no turn is in progress"),
            PromptLine::Help => note(HELP),
            PromptLine::Unclear(why) => note(&why),
            PromptLine::Nothing | PromptLine::Message(_) | PromptLine::Quit => {}
        }
        Ok(())
    }

    fn print_tools(&self) {
        let enabled = self.session.agent.tools.as_deref().unwrap_or_default();
        if self.agent.tools.is_empty() {
            note("the agent lists no tools");
        }
        for tool in &self.agent.tools {
            let state = match enabled.iter().find(|enabled| enabled.name == tool.name) {
                Some(enabled) if enabled.trust && self.native.is_some() => "asks if the policy requires it",
                Some(enabled) if enabled.trust => "needs no approval",
                Some(_) => "asks",
                None => "not enabled",
            };
            let about = tool.description.lines().next().unwrap_or_default();
            note(&format!("{} ({state}): {about}", tool.name));
        }
    }

    /// A message with the pictures that are to go along.
    fn message(&mut self, text: String) -> TurnMessage {
        if self.images.is_empty() {
            return TurnMessage::User { content: Content::Text(text) };
        }
        let mut blocks = vec![Block::text(text)];
        blocks.append(&mut self.images);
        TurnMessage::User { content: Content::Blocks(blocks) }
    }

    /// One exchange without a person to prompt, after the calls that a continued session has left open.
    async fn exchange_past_open(&mut self, text: String) -> Result<Exchange, Failure> {
        if !self.open.is_empty() {
            match self.answers().await? {
                Some(answers) => match self.exchange(answers).await? {
                    Exchange::Done(_) => {}
                    other => return Ok(other),
                },
                None => return Ok(Exchange::Quit),
            }
        }
        let message = self.message(text);
        self.exchange(vec![message]).await
    }

    /// A turn, and turns with answers, until nothing is open.
    async fn exchange(&mut self, first: Vec<TurnMessage>) -> Result<Exchange, Failure> {
        let mut messages = first;
        let mut ruled = 0;
        loop {
            let stop = match self.turn(messages).await? {
                TurnOutcome::Stopped(stop) => stop,
                TurnOutcome::Left => return Ok(Exchange::Left),
                TurnOutcome::Quit => return Ok(Exchange::Quit),
                TurnOutcome::Failed(why) => return Ok(Exchange::Failed(why)),
            };
            if stop.reason != StopReason::ToolUse {
                return Ok(Exchange::Done(stop));
            }
            if self.open.is_empty() {
                // Something is open, and it was not received here.
                self.reload_open().await;
            }
            if self.open.is_empty() {
                note("the agent waits for a call without an id");
                return Ok(Exchange::Done(stop));
            }
            let is_automatic = !self.asks || self.open.iter().all(|call| self.is_ruled(call));
            ruled = if is_automatic { ruled + 1 } else { 0 };
            if ruled > limits::RULED_TURNS_MAX {
                let most = limits::RULED_TURNS_MAX;
                return Err(Failure::Refused(format!(
                    "stopped after {most} turns that were answered by --allow, --yes or default \
                     (RULED_TURNS_MAX)"
                )));
            }
            match self.answers().await? {
                Some(answers) => messages = answers,
                None => return Ok(Exchange::Quit),
            }
        }
    }

    /// How the program ends after an exchange without anybody there.
    async fn verdict(&mut self, exchange: Exchange) -> Result<(), Failure> {
        match exchange {
            Exchange::Done(stop) if stop.reason == StopReason::EndTurn => Ok(()),
            Exchange::Done(stop) => match stop.error {
                Some(error) if error.code == "cancelled" => Err(Failure::Cancelled),
                _ => Err(Failure::No),
            },
            Exchange::Left | Exchange::Quit => Err(Failure::Interrupted),
            Exchange::Failed(why) => {
                if matches!(why, AapError::BrokenOff { .. }) {
                    note(&why.to_string());
                    self.reload().await?;
                    return Err(Failure::No);
                }
                Err(self.failed(why))
            }
        }
    }

    fn is_missing(&self, why: &AapError) -> bool {
        matches!(why.status(), Some(404 | 410))
    }

    fn failed(&self, why: AapError) -> Failure {
        if self.is_missing(&why) {
            let id = &self.session.session_id;
            return Failure::Refused(format!("session {id} no longer exists: {why}"));
        }
        why.into()
    }

    fn new_turn(&self, messages: Vec<TurnMessage>) -> NewTurn {
        NewTurn { messages, stream: self.agent.capabilities.way(), agent: self.overrides.clone() }
    }
}

/// A word as a shell takes it for one: what a server calls a session may be anything.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._~:/@".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// A refusal in words, with when to try again.
fn describe_error(why: &AapError) -> String {
    match why {
        AapError::Refused { retry_after_seconds: Some(seconds), .. } => {
            format!("{why}; retry in {seconds} seconds")
        }
        why => why.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn what_a_server_calls_a_session_is_one_word_for_a_shell() {
        assert_eq!(quoted("chat_01K-x.y~z"), "chat_01K-x.y~z");
        assert_eq!(quoted("http://127.0.0.1:8765/aap"), "http://127.0.0.1:8765/aap");
        assert_eq!(quoted("x; rm -r $HOME"), "'x; rm -r $HOME'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
