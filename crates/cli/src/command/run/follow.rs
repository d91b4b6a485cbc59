//! Follows a run: prints its events, shows its prompts, and cancels it on Ctrl-C. See [`Following`].
//!
//! It must not depend on how a run is executed: it reads events and sends answers.

use std::collections::VecDeque;
use std::pin::Pin;
use std::time::Duration;

use recount_client::reply::{Clarification, Gap};
use recount_client::request::{
    AcknowledgeHandoff, AnswerClarification, Cancel, RejectHandoff, ResolveApproval, Verdict,
};
use recount_client::{Client, ClientError, Source, TailItem, Until, moment};
use recount_command_line::output::Screen;
use recount_world::platform::{Signal, SignalKind, signal};
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::answers::Reply;
use super::stdin::AnswerInput;
use crate::command::reach::Reached;
use crate::command::{answer, approve};
use crate::failure::Failure;
use crate::limits;
use crate::output::{Output, note};
use crate::render::clean;
use crate::render::gap::gap_words;
use crate::render::live::{Ending, Kind, Live, Paint, Prompt};
use crate::render::pulse::{Beat, Pulse, Style};

/// Answers prompts automatically when no person answers in time: for the demo, which announces it.
pub(crate) struct Unattended {
    pub(crate) wait: Duration,
}

/// How the account of a run is written.
#[derive(Clone, Copy)]
pub(crate) struct View {
    /// As JSON, for programs.
    pub(crate) json: bool,
    /// In words alone: no colours, no signs, nothing drawn anew.
    pub(crate) plain: bool,
}

impl View {
    pub(crate) fn paint(self, out: &Output) -> Paint {
        Paint(!self.json && !self.plain && out.may_be_coloured())
    }

    pub(crate) fn pulse(self, out: &Output) -> Pulse {
        Pulse::new(match (self.json, self.plain) {
            (true, _) => Style::None,
            (false, false) if out.may_be_redrawn() => Style::Line,
            (false, _) => Style::Notes,
        })
    }
}

/// What is under way beside the reading of events.
type Sending = Pin<Box<dyn Future<Output = Result<(), ClientError>>>>;

pub(crate) struct Following {
    client: Client,
    run: String,
    address: String,
    json: bool,
    /// Whether this program executes the run.
    is_inside: bool,
    live: Live,
    out: Output,
    typed: AnswerInput,
    /// The open prompts; the first one is shown here.
    prompts: VecDeque<Prompt>,
    unattended: Option<Unattended>,
    /// An answer on its way.
    sending: Option<Sending>,
    /// A cancellation on its way, once Ctrl-C was pressed.
    cancelling: Option<Sending>,
    was_interrupted: bool,
    is_away: bool,
    pulse: Pulse,
    /// When the word that waits for its end is written without it.
    release_due: Option<Instant>,
}

/// What happens next.
enum FollowStep {
    Interrupt,
    Sent(Result<(), ClientError>),
    Cancelled(Result<(), ClientError>),
    Pulse,
    /// A word that waited for its end is written without it.
    Release,
    Line(Option<String>),
    TimeIsUp,
    Item(Option<Result<TailItem, ClientError>>),
}

impl Following {
    pub(crate) fn new(
        reached: &Reached,
        run: &str,
        view: View,
        even_from_a_pipe: bool,
        unattended: Option<Unattended>,
    ) -> Self {
        let mut out = Output::new();
        // Its exit status is how the run ends, and a server within this program ends with it.
        out.go_on_unread();
        Following {
            client: reached.client.clone(),
            run: run.to_owned(),
            address: reached.address.clone(),
            json: view.json,
            is_inside: reached.is_inside(),
            live: Live::new(view.paint(&out)).plain(view.plain),
            pulse: view.pulse(&out),
            out,
            typed: AnswerInput::open(even_from_a_pipe),
            prompts: VecDeque::new(),
            unattended,
            sending: None,
            cancelling: None,
            was_interrupted: false,
            is_away: false,
            release_due: None,
        }
    }

    /// Until the run has ended; how it ended is the answer.
    pub(crate) async fn follow(mut self) -> Result<(), Failure> {
        let failed = |why| Failure::Own(format!("cannot receive signals: {why}"));
        let mut interrupts = signal(SignalKind::interrupt()).map_err(failed)?;
        let mut tail = self.client.tail(Source::Run(self.run.clone()), None, Until::Ended);
        let mut timer: Option<Pin<Box<tokio::time::Sleep>>> = None;
        // What the timer is for: each prompt has all of its time.
        let mut timed = None;
        loop {
            let current =
                self.prompts.front().filter(|_| self.sending.is_none()).map(|prompt| prompt.id.clone());
            if timed != current {
                let wait = self.unattended.as_ref().filter(|_| current.is_some()).map(|answers| answers.wait);
                timer = wait.map(|wait| Box::pin(tokio::time::sleep(wait)));
                timed = current;
            }
            let next = self.next(&mut interrupts, &mut timer, &mut tail).await;
            match next {
                FollowStep::Interrupt => self.interrupted()?,
                FollowStep::Sent(sent) => {
                    self.sending = None;
                    self.sent(sent)?;
                }
                FollowStep::Cancelled(done) => {
                    self.cancelling = None;
                    self.cancelled(done);
                }
                FollowStep::Pulse => self.pulse()?,
                FollowStep::Release => {
                    self.release_due = None;
                    let text = self.live.release();
                    self.text(&text)?;
                }
                FollowStep::Line(line) => {
                    // A person is there after all.
                    (timer, timed) = (None, None);
                    self.line(line)?;
                }
                FollowStep::TimeIsUp => {
                    timer = None;
                    self.answer_unattended()?;
                }
                FollowStep::Item(None) => break,
                FollowStep::Item(Some(item)) => self.take_item(item?).await?,
            }
        }
        match self.live.ending() {
            Some(Ending::Finished) => Ok(()),
            Some(Ending::Failed) => Err(Failure::No),
            Some(Ending::Signal(number)) => Err(Failure::Signal(number)),
            Some(Ending::Cancelled) if self.was_interrupted => {
                self.note("cancelled; to continue from where it stopped:");
                let command = self.go_on();
                self.note(&command);
                Err(Failure::Interrupted)
            }
            Some(Ending::Cancelled) => Err(Failure::Cancelled),
            None => Err(Failure::Protocol(format!("{} has no further events and no ending", self.run))),
        }
    }

    async fn next(
        &mut self,
        interrupts: &mut Signal,
        timer: &mut Option<Pin<Box<tokio::time::Sleep>>>,
        tail: &mut recount_client::Tail,
    ) -> FollowStep {
        let listens = self.sending.is_none() && self.typed.listens(!self.prompts.is_empty());
        tokio::select! {
            biased;
            _ = interrupts.recv() => FollowStep::Interrupt,
            sent = pending(&mut self.sending) => FollowStep::Sent(sent),
            done = pending(&mut self.cancelling) => FollowStep::Cancelled(done),
            line = self.typed.line(), if listens => FollowStep::Line(line),
            () = elapsed(timer) => FollowStep::TimeIsUp,
            item = tail.next() => FollowStep::Item(item),
            () = until(self.release_due) => FollowStep::Release,
            () = until(self.pulse.due()) => FollowStep::Pulse,
        }
    }

    /// Whether prompts are answered here.
    fn asks_here(&self) -> bool {
        self.typed.is_attended()
    }

    async fn take_item(&mut self, item: TailItem) -> Result<(), Failure> {
        match item {
            TailItem::Event { envelope, .. } => self.event(&envelope).await?,
            TailItem::Gap(Gap::Pruned { first_pruned_sequence: first, last_pruned_sequence: last }) => {
                self.note(&format!("events {first} to {last} were pruned"));
            }
            TailItem::Gap(gap) => self.note(&gap_words(&gap)),
            TailItem::CaughtUp { .. } => {
                if std::mem::take(&mut self.is_away) {
                    self.note("reconnected");
                }
            }
            TailItem::Disconnected { reason, .. } => {
                if !std::mem::replace(&mut self.is_away, true) {
                    self.note(&format!("connection lost ({reason}); the run continues; reconnecting"));
                }
            }
        }
        Ok(())
    }

    async fn event(&mut self, envelope: &str) -> Result<(), Failure> {
        self.live.set_width(self.out.width().filter(|_| !self.json));
        let output = self.live.event(envelope);
        let holds = self.live.is_mid_line() && !self.json;
        self.release_due = holds.then(|| moment() + limits::HELD_WORD_WAIT);
        self.pulse.received(self.live.waits_for().as_deref(), moment());
        if self.json {
            self.write(|out| out.json(envelope))?;
        } else {
            self.text(&output.text)?;
            for patch in &output.patches {
                self.patch(patch).await?;
            }
        }
        if let Some(mut prompt) = output.prompt {
            approve::complete(&self.client, &mut prompt).await;
            // What is typed while another prompt is open is for that one.
            if self.prompts.is_empty() {
                self.typed.discard().await;
            }
            self.add_prompt(prompt)?;
        }
        if let Some(id) = output.settled {
            let was_first = self.prompts.front().is_some_and(|prompt| prompt.id == id);
            self.prompts.retain(|prompt| prompt.id != id);
            if was_first && self.asks_here() {
                self.ask()?;
            }
        }
        Ok(())
    }

    /// Shows a change of a file; what cannot be had is named by the event already.
    async fn patch(&mut self, id: &str) -> Result<(), Failure> {
        let Ok(kept) = self.client.get_artifact(id).await else { return Ok(()) };
        let text = match (kept.diff, kept.size_bytes) {
            (Some(diff), _) => self.live.patch(id, diff.as_bytes()),
            (None, Some(size)) if size <= limits::PATCH_BYTES_MAX => {
                let Ok(bytes) = self.client.read_artifact(id).await else { return Ok(()) };
                self.live.patch(id, &bytes)
            }
            _ => self.live.lines(&[format!(
                "    the change is too large to show; to show it: recount artifact get {}",
                clean::line(id)
            )]),
        };
        self.text(&text)
    }

    /// Adds a prompt; the first is shown at once.
    fn add_prompt(&mut self, prompt: Prompt) -> Result<(), Failure> {
        if !self.asks_here() || self.prompts.len() >= limits::PROMPTS_MAX {
            let text =
                self.live.whole_prompt(&prompt) + &self.live.unbroken(&[prompt.elsewhere(&self.address)]);
            self.beside(&text)?;
            if self.unattended.is_some() {
                self.prompts.push_back(prompt);
                return self.announce();
            }
            return Ok(());
        }
        self.prompts.push_back(prompt);
        if self.prompts.len() == 1 { self.ask() } else { Ok(()) }
    }

    /// Asks what is first.
    fn ask(&mut self) -> Result<(), Failure> {
        let Some(prompt) = self.prompts.front_mut() else { return Ok(()) };
        let text = self.live.prompt(prompt, Screen::find()) + &self.live.lines(&[prompt.how().to_owned()]);
        self.beside(&text)?;
        self.announce()
    }

    /// Announces that an automatic answer will follow.
    fn announce(&mut self) -> Result<(), Failure> {
        let Some(unattended) = &self.unattended else { return Ok(()) };
        let words = format!(
            "(Without an answer within {} seconds, the demo answers for you.)",
            unattended.wait.as_secs()
        );
        let text = self.live.lines(&[words]);
        self.beside(&text)
    }

    fn line(&mut self, line: Option<String>) -> Result<(), Failure> {
        let Some(line) = line else {
            // The input is closed: answers come from elsewhere.
            for prompt in std::mem::take(&mut self.prompts) {
                let text = self.live.unbroken(&[prompt.elsewhere(&self.address)]);
                self.beside(&text)?;
                if self.unattended.is_some() {
                    self.prompts.push_back(prompt);
                }
            }
            return Ok(());
        };
        let Some(prompt) = self.prompts.front().cloned() else {
            if !line.trim().is_empty() {
                self.note("no prompt is open; the input is ignored");
            }
            return Ok(());
        };
        match Reply::read(&prompt, &line) {
            Reply::Details => {
                let mut lines = prompt.details().to_vec();
                lines.push(prompt.how().to_owned());
                let text = self.live.lines(&lines);
                self.beside(&text)
            }
            Reply::More => {
                let Some(prompt) = self.prompts.front_mut() else { return Ok(()) };
                let mut lines = prompt.next_page(Screen::find());
                lines.push(prompt.how().to_owned());
                let text = self.live.lines(&lines);
                self.beside(&text)
            }
            Reply::Unclear(why) => {
                let text = self.live.lines(&[why]);
                self.beside(&text)
            }
            reply => {
                self.sending =
                    Some(Box::pin(send(self.client.clone(), prompt.id, prompt.shown_digest, reply)));
                Ok(())
            }
        }
    }

    /// The automatic answer of the demo.
    fn answer_unattended(&mut self) -> Result<(), Failure> {
        let Some(prompt) = self.prompts.front().cloned() else { return Ok(()) };
        let comment = Some("no answer in time, so the demo answered".to_owned());
        let reply = match prompt.kind {
            Kind::Approval { .. } => Reply::Approve(comment),
            Kind::Question { choices } if !choices.is_empty() => Reply::Choice(0),
            Kind::Question { .. } => Reply::Text("as you think best".to_owned()),
            Kind::Handoff => Reply::Take(comment),
        };
        let text = self.live.lines(&["(No answer in time; the demo answers.)".to_owned()]);
        self.beside(&text)?;
        self.sending = Some(Box::pin(send(self.client.clone(), prompt.id, prompt.shown_digest, reply)));
        Ok(())
    }

    /// An answer arrived, or did not; its effect comes as an event.
    fn sent(&mut self, sent: Result<(), ClientError>) -> Result<(), Failure> {
        let Err(why) = sent else { return Ok(()) };
        let is_late = why.code().is_some_and(|code| code.ends_with("_not_pending") || code == "run_ended");
        if is_late {
            self.note("it was already answered or is no longer open");
            return Ok(());
        }
        self.note(&format!("the answer was rejected: {why}"));
        let Some(prompt) = self.prompts.front().filter(|_| self.typed.is_attended()) else { return Ok(()) };
        let how = prompt.how().to_owned();
        let text = self.live.lines(&[how]);
        self.beside(&text)
    }

    fn interrupted(&mut self) -> Result<(), Failure> {
        if std::mem::replace(&mut self.was_interrupted, true) {
            if self.is_inside {
                self.note("quit at once; the work of the run was killed with this program; to continue it:");
                self.note("    recount run --unfinished resume");
            } else {
                self.note("quit at once; the run may continue; to follow it:");
                self.note(&format!("    recount tail -f {}{}", self.run, self.address));
            }
            return Err(Failure::Interrupted);
        }
        self.note("cancelling the run; press Ctrl-C again to quit at once");
        let (client, run) = (self.client.clone(), self.run.clone());
        self.cancelling = Some(Box::pin(async move {
            let reason = Some("interrupted from the keyboard".to_owned());
            client.cancel_run(&run, &Cancel { reason }).await.map(drop)
        }));
        Ok(())
    }

    /// A command line that goes on with the run, at the server that has it.
    fn go_on(&self) -> String {
        // The server within this program ends with it; the next one reads the same data.
        let address = if self.is_inside { "" } else { self.address.as_str() };
        format!("    recount run --resume {}{address}", self.run)
    }

    fn cancelled(&mut self, done: Result<(), ClientError>) {
        match done {
            Err(why) if why.code() != Some("run_ended") => {
                self.note(&format!("cannot cancel the run: {why}; press Ctrl-C again to quit at once"));
            }
            _ => {}
        }
    }

    /// Text of the run's account.
    fn text(&mut self, text: &str) -> Result<(), Failure> {
        if text.is_empty() {
            return Ok(());
        }
        let text = format!("{}{text}", self.pulse.erase());
        self.write(|out| out.text(&text))
    }

    /// Text for people, which stands beside the data where that is JSON.
    fn beside(&mut self, text: &str) -> Result<(), Failure> {
        if self.json {
            text.lines().for_each(|line| self.note(line));
            return Ok(());
        }
        self.text(text)
    }

    /// A sign of life, unless a prompt or a line is open.
    fn pulse(&mut self) -> Result<(), Failure> {
        let width = self.out.width().unwrap_or(limits::COLUMNS_DEFAULT);
        let is_free = self.prompts.is_empty() && !self.live.is_mid_line();
        match self.pulse.beat(width, is_free, moment()) {
            Some(Beat::Draw(line)) => self.write(|out| out.text(&line)),
            Some(Beat::Note(line)) if self.out.is_terminal() => {
                let text = self.live.lines(&[line]);
                self.text(&text)
            }
            Some(Beat::Note(line)) => {
                note(&line);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Words beside the run's account, in place of a sign of life.
    fn note(&mut self, words: &str) {
        let erase = self.pulse.erase();
        // If the output is closed, the next write reports it.
        self.out.text(erase).ok();
        note(words);
    }

    fn write(&mut self, write: impl FnOnce(&mut Output) -> Result<(), Failure>) -> Result<(), Failure> {
        write(&mut self.out)
    }
}

async fn pending(sending: &mut Option<Sending>) -> Result<(), ClientError> {
    match sending {
        Some(sending) => sending.await,
        None => std::future::pending().await,
    }
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

async fn elapsed(timer: &mut Option<Pin<Box<tokio::time::Sleep>>>) {
    match timer {
        Some(timer) => timer.as_mut().await,
        None => std::future::pending().await,
    }
}

async fn send(client: Client, id: String, shown: Option<String>, reply: Reply) -> Result<(), ClientError> {
    let decide = async |decision, comment, remember| {
        let shown_digest = shown.clone();
        let answer = ResolveApproval { decision, comment, remember, shown_digest };
        client.answer_prompt(&id, &answer).await.map(drop)
    };
    match reply {
        Reply::Approve(comment) => decide(Verdict::Approve, comment, None).await,
        Reply::Always(scope) => decide(Verdict::Approve, None, Some(scope)).await,
        Reply::Reject(comment) => decide(Verdict::Reject, comment, None).await,
        Reply::Choice(place) => {
            // As the server has it: what was shown may have lost digits of a number.
            let question: Clarification = client.get_prompt(&id).await?;
            let choice = question.choices.as_ref().and_then(|choices| choices.get(place));
            let chosen = choice.map_or_else(|| "null".to_owned(), |choice| answer::meant(choice.text()));
            respond(&client, &id, chosen).await
        }
        Reply::Text(text) => respond(&client, &id, serde_json::Value::from(text).to_string()).await,
        Reply::Take(comment) => {
            let answer = AcknowledgeHandoff { comment, shown_digest: None };
            client.answer_prompt(&id, &answer).await.map(drop)
        }
        Reply::Decline(reason) => {
            let answer = RejectHandoff { reason, shown_digest: None };
            client.answer_prompt(&id, &answer).await.map(drop)
        }
        Reply::Details | Reply::More | Reply::Unclear(_) => Ok(()),
    }
}

async fn respond(client: &Client, id: &str, json: String) -> Result<(), ClientError> {
    let response = RawValue::from_string(json)
        .map_err(|why| ClientError::Unusable(format!("the answer is not JSON: {why}")))?;
    client.answer_prompt(id, &AnswerClarification { response, shown_digest: None }).await.map(drop)
}
