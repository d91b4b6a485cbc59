//! The one writer of a run: a task with a closed inbox.
//!
//! It decides what is waiting against the state in hand, appends the outcome once, and only then answers:
//! nobody, not even who sent a command, learns of an event before the store has confirmed it. When an
//! append fails the state in hand is thrown away and read again from the log; there is no other repair.

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};

use recount_event::family::run::Driver;
use recount_event::{Code, Draft, Event, RunId, Stamp};
use recount_log::{Append, AppendError, RowPut, StreamAppend, StreamKey};
use recount_run::{Command, PromptKind, State};
use recount_world::Shutdown;
use tokio::sync::{mpsc, oneshot};

use crate::catalogue::fold::{Fold, next_deadline};
use crate::catalogue::prompt_rows;
use crate::catalogue::prompt_rows::asked_for;
use crate::ground::append::may_have_happened;
use crate::ground::error::{run_erased, run_not_found};
use crate::ground::{journal, rows};
use crate::write::artifacts::{blobs, uploads};
use crate::write::ingest;
use crate::write::ingest::{Landing, Producers, Standing};
use crate::write::redaction::texts::Texts;
use crate::write::redaction::{Masking, Redaction};
use crate::write::removal::PruneRows;
use crate::write::tools::Tools;
use crate::write::with_rows::CommandWithRows;
use crate::{Error, Receipt, Triple, limits};

/// One message to a writer, and who waits for its answer.
pub(crate) struct Inbox {
    pub(crate) work: Work,
    pub(crate) reply: oneshot::Sender<Answer>,
}

/// Everything that a writer can be asked. Answered with where the events landed, or `None` when there
/// was nothing to write.
pub(crate) enum Work {
    /// A wish.
    Command(Command),
    /// A batch from the producer of an external run.
    Ingest(Triple, Vec<Draft>),
    /// What a worker did; refused when another one has the run by now. The events come out by the side, because a
    /// receipt only says where they are.
    Report { claim: Option<u64>, drafts: Vec<Draft>, out: Reported },
    /// The time has come for which the run was armed.
    Due { at_ms: u64 },
    /// A wish, with what else is to be written in the same append.
    Beside { command: Command, beside: Box<CommandWithRows> },
    /// Takes the events before a place away, at most those before the ending.
    Prune { before: Option<u64>, reason: String, rows: Option<PruneRows> },
    /// Takes all of an ended run away but for a tombstone.
    Erase { by: String },
}

impl Work {
    /// Whether it is no part of an append with others: what takes away, and what may be refused for what it brings.
    fn is_alone(&self) -> bool {
        matches!(self, Work::Beside { .. } | Work::Prune { .. } | Work::Erase { .. })
    }
}

/// Where a worker finds what its report became.
pub(crate) type Reported = Arc<Mutex<Vec<Event>>>;

pub(crate) enum Answer {
    Done(Result<Option<Receipt>, Error>),
    /// The writer had just gone to sleep; wake another with this.
    Asleep(Work),
}

pub(crate) struct Writer {
    pub(super) tools: Arc<Tools>,
    pub(super) run: RunId,
    pub(super) stream: StreamKey,
    pub(super) awake: Option<Box<LoadedRun>>,
}

/// The state in hand.
pub(crate) struct LoadedRun {
    pub(super) state: State,
    pub(super) fold: Fold,
    pub(super) producers: Producers,
    pub(super) texts: Texts,
    /// With the secrets of its session.
    pub(super) redaction: Redaction,
    pub(super) deadline: Option<u64>,
    /// Rows of allowances that the append in hand makes.
    pub(super) allowances: Vec<RowPut>,
}

/// One command that was accepted and waits for the append.
struct Pending {
    reply: oneshot::Sender<Answer>,
    outcome: Outcome,
}

enum Outcome {
    Refused(Error),
    Nothing,
    /// Events with these sequences, in the append in hand.
    Landing(u64, u64),
    /// Events of an earlier append.
    Landed(u64, u64),
}

impl Writer {
    pub(crate) fn new(tools: Arc<Tools>, run: RunId) -> Self {
        Writer { tools, run, stream: journal::stream_of(run), awake: None }
    }

    /// Works until there has been nothing to do for a while, or shutdown. `retire` is asked before going
    /// to sleep, and says whether nobody has come in the meantime.
    pub(crate) async fn work(
        mut self,
        mut inbox: mpsc::Receiver<Inbox>,
        mut shutdown: Shutdown,
        retire: impl Fn(&mut mpsc::Receiver<Inbox>) -> bool,
    ) {
        {
            // Made once and not at every turn: a wait that is begun and given up again for each command
            // costs more than the command does.
            let mut over = pin!(shutdown.requested());
            let mut idle = pin!(tokio::time::sleep(limits::WRITER_IDLE));
            let mut waiting = Vec::new();
            let mut busy_until = recount_world::moment();
            loop {
                tokio::select! {
                    biased;
                    () = &mut over => break,
                    count = inbox.recv_many(&mut waiting, limits::APPEND_COMMANDS_MAX) => {
                        if count == 0 {
                            return;
                        }
                        self.serve(&mut waiting).await;
                        busy_until = recount_world::moment();
                        if self.has_ended() {
                            idle.as_mut().reset(busy_until + limits::WRITER_IDLE_ENDED);
                        }
                    }
                    () = &mut idle => {
                        let now = recount_world::moment();
                        let patience =
                            if self.has_ended() { limits::WRITER_IDLE_ENDED } else { limits::WRITER_IDLE };
                        let idle_since = busy_until + patience;
                        if idle_since <= now && retire(&mut inbox) {
                            break;
                        }
                        idle.as_mut().reset(if idle_since > now { idle_since } else { now + patience });
                    }
                }
            }
        }
        // What slipped in before the inbox closed is sent to another writer, or told that we close.
        inbox.close();
        while let Some(Inbox { work, reply }) = inbox.recv().await {
            let answer = if shutdown.is_requested() {
                Answer::Done(Err(Error::shutting_down()))
            } else {
                Answer::Asleep(work)
            };
            send(reply, answer);
        }
    }

    /// Whether little can still come.
    fn has_ended(&self) -> bool {
        self.awake.as_ref().is_some_and(|awake| awake.state.is_ended())
    }

    async fn serve(&mut self, messages: &mut Vec<Inbox>) {
        let mut left = messages.drain(..);
        while let Some(first) = left.as_slice().first() {
            if first.work.is_alone() {
                if let Some(Inbox { work, reply }) = left.next() {
                    send(reply, Answer::Done(self.serve_alone(work).await));
                }
            } else {
                self.serve_some(&mut left).await;
            }
        }
    }

    /// Takes messages until an append is full, appends, and answers.
    async fn serve_some(&mut self, left: &mut std::vec::Drain<'_, Inbox>) {
        let mut awake = match self.awake.take() {
            Some(awake) => awake,
            None => match self.wake().await {
                Ok(awake) => awake,
                Err(error) => {
                    for Inbox { reply, .. } in left {
                        send(reply, Answer::Done(Err(error.clone())));
                    }
                    return;
                }
            },
        };
        let first = awake.state.next_sequence();
        let had_ended = awake.state.is_ended();
        let mut pending = Vec::new();
        let mut records = Vec::new();
        let mut bytes = 0;
        let mut rows: Vec<RowPut> = Vec::new();
        // Whether the timers wait to hear what is due next.
        let mut looked = false;
        let mut driver = awake.state.driver();
        while bytes < limits::APPEND_BYTES_MAX {
            if left.as_slice().first().is_none_or(|next| next.work.is_alone()) {
                break;
            }
            let Some(Inbox { work, reply }) = left.next() else { break };
            looked |= matches!(work, Work::Due { .. });
            let decided = match work {
                Work::Command(command) => self.command(&mut awake, command, self.stamp()).await,
                Work::Due { at_ms } => {
                    // The timer says that it is time, whatever the clock says by now.
                    let stamp = self.stamp();
                    let stamp = Stamp { now_ms: stamp.now_ms.max(at_ms), ..stamp };
                    self.command(&mut awake, Command::Tick, stamp).await
                }
                Work::Report { claim, drafts, out } => self.report(&mut awake, claim, drafts, &out).await,
                Work::Ingest(triple, drafts) => self.ingest(&mut awake, triple, drafts, &mut rows).await,
                Work::Beside { .. } | Work::Prune { .. } | Work::Erase { .. } => {
                    Err(Error::bug("what is served alone came with others"))
                }
            };
            let outcome = match decided {
                Ok(Decided::Events(events)) if events.is_empty() => Outcome::Nothing,
                Ok(Decided::Events(events)) => {
                    driver = awake.state.driver();
                    rows.extend(self.used(driver, &events).await);
                    let next = first + records.len() as u64;
                    let encoded = journal::encode(&events, next);
                    bytes += encoded.iter().map(bytes::Bytes::len).sum::<usize>();
                    records.extend(encoded);
                    Outcome::Landing(next, next + events.len() as u64 - 1)
                }
                Ok(Decided::Landed(landing)) => Outcome::Landed(landing.first, landing.last),
                Err(error) => Outcome::Refused(error),
            };
            pending.push(Pending { reply, outcome });
        }
        rows.extend(awake.fold.rows(&awake.state));
        rows.append(&mut awake.allowances);
        let named = blobs::named(&rows);
        match self.append(first, records, rows).await {
            Ok(first_position) => {
                self.tools.blobs.named(Some(self.run), named);
                self.landed(awake, had_ended, looked);
                for pending in pending {
                    let answer = self.answer(pending.outcome, first, first_position).await;
                    send(pending.reply, Answer::Done(answer));
                }
            }
            Err(error) => {
                tracing::warn!(run = %self.run, %error, "append failed; the run is read again from the log");
                if may_have_happened(&error) {
                    self.tools.timers.look_again(self.run, &self.tools.world);
                }
                if driver != Driver::Own {
                    // They were held for this append alone; a run of our own tries again with what it keeps.
                    self.tools.blobs.named(Some(self.run), named);
                }
                let error: Error = match error {
                    AppendError::GuardFailed { space, key, .. } => guard_error(&space, &key),
                    other => other.into(),
                };
                // A guard can only fail here when two runs took the same id in the same moment, and a size
                // only be too large when somebody sent that much. When several commands shared the append
                // it is not known which was at fault; none has happened, so each may be tried again by who
                // sent it.
                let shared = pending.len() > 1;
                let blames_one = error.code() == Code::LimitReached || matches!(error, Error::Rejected(_));
                for pending in pending {
                    let answer = match pending.outcome {
                        Outcome::Refused(refused) if !shared => Err(refused),
                        _ if shared && blames_one => Err(Error::Failed(crate::Failure {
                            code: Code::StoreBusy,
                            message: "another command of the same moment was refused; try again".into(),
                            retry_after: Some(std::time::Duration::ZERO),
                            damage: None,
                        })),
                        _ => Err(error.clone()),
                    };
                    send(pending.reply, Answer::Done(answer));
                }
            }
        }
    }

    /// An append has happened: what follows from it outside of the run.
    pub(super) fn landed(&mut self, mut awake: Box<LoadedRun>, had_ended: bool, looked: bool) {
        awake.producers.settled();
        if awake.state.is_ended() && !had_ended {
            self.tools.publisher.mark_ended(&self.stream, awake.state.next_sequence());
        }
        let deadline = next_deadline(&awake.state);
        if looked || deadline != awake.deadline {
            awake.deadline = deadline;
            self.tools.timers.set(self.run, deadline, &self.tools.world);
        }
        self.tell_dispatch(&awake.state);
        self.awake = Some(awake);
    }

    async fn serve_alone(&mut self, work: Work) -> Result<Option<Receipt>, Error> {
        let awake = match self.awake.take() {
            Some(awake) => awake,
            None => self.wake().await?,
        };
        match work {
            Work::Beside { command, beside } => self.beside(awake, command, *beside).await,
            work => self.remove(awake, work).await,
        }
    }

    async fn wake(&self) -> Result<Box<LoadedRun>, Error> {
        if let Some(awake) = self.tools.fresh.take_awake(self.run) {
            // Nobody has written to it yet, and what is due of it was never told.
            self.tools.timers.set(self.run, awake.deadline, &self.tools.world);
            return Ok(awake);
        }
        let mut fold: Option<Fold> = None;
        let mut texts = Texts::default();
        let redaction = self.tools.redaction_of(self.run).await?;
        let redactor = &redaction.redactor;
        let state = journal::replay(&*self.tools.store, &self.stream, |event| {
            texts.event(event, !redactor.is_off(), redactor);
            fold.get_or_insert_with(|| Fold::new(event.run_id, event.task_id, event.session_id)).event(event);
        })
        .await?;
        let (Some(state), Some(mut fold)) = (state, fold) else {
            let tail = self.tools.store.end(&self.stream).await?;
            let erased = tail.is_some_and(|tail| tail.erased);
            return Err(if erased { run_erased(self.run) } else { run_not_found(self.run) });
        };
        // These rows are in the store already.
        drop(fold.rows(&state));
        // The last append may have happened without anybody hearing of it: make up for what follows from
        // one that is known to have happened.
        if let Some(tail) = self.tools.store.end(&self.stream).await? {
            self.tools.publisher.mark_stored(&self.stream, tail);
        }
        if state.is_ended() {
            self.tools.publisher.mark_ended(&self.stream, state.next_sequence());
        }
        let deadline = next_deadline(&state);
        self.tools.timers.set(self.run, deadline, &self.tools.world);
        let producers = Producers::default();
        let allowances = Vec::new();
        Ok(Box::new(LoadedRun { state, fold, producers, texts, redaction, deadline, allowances }))
    }

    /// Says whether one of our own runs is owed anything as it stands.
    fn tell_dispatch(&self, state: &State) {
        if state.driver() == Driver::Own && self.tools.admission.get().is_some() {
            let owes = !recount_run::outstanding(state).work.is_empty();
            self.tools.dispatch.owed(self.run, state.next_sequence(), owes);
        }
    }

    async fn report(
        &self,
        awake: &mut LoadedRun,
        claim: Option<u64>,
        drafts: Vec<Draft>,
        out: &Reported,
    ) -> Result<Decided, Error> {
        if claim != awake.state.claim() {
            let message = format!("another worker has {} by now; leave it", self.run);
            return Err(Error::rejected(Code::EventRefused, message));
        }
        let decided = self.command(awake, Command::Progress { drafts }, self.stamp()).await?;
        if let Decided::Events(events) = &decided {
            out.lock().unwrap_or_else(PoisonError::into_inner).clone_from(events);
        }
        Ok(decided)
    }

    /// What was sent in and is an artifact of this run now: see [`artifact::used`]. Where that cannot be seen it is
    /// forgotten in its time, or is not known to have been here.
    async fn used(&self, driver: Driver, events: &[Event]) -> Vec<RowPut> {
        let mut changes = Vec::new();
        for event in events {
            match uploads::used(&*self.tools.store, &self.tools.blobs, driver, event).await {
                Ok(rows) => changes.extend(rows),
                Err(error) => {
                    tracing::warn!(run = %self.run, %error, "what was sent in still counts as waiting")
                }
            }
        }
        changes
    }

    pub(super) fn stamp(&self) -> Stamp {
        Stamp { now_ms: self.tools.world.clock.now_ms(), entropy: self.tools.world.entropy.draw() }
    }

    /// Judges a command and applies what was decided to the state in hand.
    pub(super) async fn command(
        &self,
        awake: &mut LoadedRun,
        mut command: Command,
        stamp: Stamp,
    ) -> Result<Decided, Error> {
        let masking = awake.redaction.command(&awake.texts, &awake.state, &mut command)?;
        let mut events = recount_run::decide(&awake.state, command, stamp)?;
        self.check_ids(&events).await?;
        self.tools.allowances_made(&awake.state, &events, &mut awake.allowances).await?;
        masking.name_places(&mut events);
        awake.apply(&events, masking);
        Ok(Decided::Events(events))
    }

    /// Prompts are answered by their id alone, so an id names one of its kind in the whole store. Of approvals
    /// the row's guard holds this too; looking first lets the answer name the event that is at fault.
    async fn check_ids(&self, events: &[Event]) -> Result<(), Error> {
        for event in events {
            let Some((kind, id)) = asked_for(event.payload()) else { continue };
            if prompt_rows::is_taken(&*self.tools.store, kind, id).await? {
                return Err(prompt_rows::taken(kind, id));
            }
        }
        Ok(())
    }

    async fn ingest(
        &self,
        awake: &mut LoadedRun,
        triple: Triple,
        mut drafts: Vec<Draft>,
        rows: &mut Vec<RowPut>,
    ) -> Result<Decided, Error> {
        let said = ingest::Said::by(&drafts);
        let standing = awake.producers.judge(&*self.tools.store, self.run, &triple, &said).await?;
        if let Standing::Repeated(landing) = standing {
            return Ok(Decided::Landed(landing));
        }
        let masking = awake.redaction.drafts(&awake.texts, &awake.state, &mut drafts)?;
        let events = recount_run::decide(&awake.state, Command::Append { drafts }, self.stamp())?;
        let (Some(first), Some(last)) = (events.first(), events.last()) else {
            return Err(Error::bug("an accepted batch has no events"));
        };
        self.check_ids(&events).await?;
        let digest = said.digest(masking.masked);
        let landing = Landing { first: first.sequence, last: last.sequence, digest };
        rows.push(awake.producers.note(self.run, &triple, landing));
        awake.apply(&events, masking);
        Ok(Decided::Events(events))
    }

    /// Appends, and answers the position of the first record.
    async fn append(
        &self,
        first: u64,
        records: Vec<bytes::Bytes>,
        rows: Vec<RowPut>,
    ) -> Result<u64, AppendError> {
        if records.is_empty() && rows.is_empty() {
            return Ok(0);
        }
        let mut append = Append { rows, ..Append::default() };
        if !records.is_empty() {
            append.streams.push(StreamAppend { stream: self.stream.clone(), expected_tail: first, records });
        }
        let committed = self.tools.store.append(append).await?;
        Ok(committed.streams.first().map_or(0, |landed| {
            assert_eq!(landed.first_sequence, first, "the store lands records where they were meant to be");
            landed.first_position
        }))
    }

    async fn answer(
        &self,
        outcome: Outcome,
        append_first: u64,
        first_position: u64,
    ) -> Result<Option<Receipt>, Error> {
        match outcome {
            Outcome::Refused(error) => Err(error),
            Outcome::Nothing => Ok(None),
            Outcome::Landing(first, last) => Ok(Some(Receipt {
                first_sequence: first,
                last_sequence: last,
                position: first_position + (last - append_first),
            })),
            Outcome::Landed(first, last) => {
                let position = self.position_of(last).await?;
                Ok(Some(Receipt { first_sequence: first, last_sequence: last, position }))
            }
        }
    }

    async fn position_of(&self, sequence: u64) -> Result<u64, Error> {
        let bound = recount_log::ReadBound { count: 1, bytes: 1 };
        let found = self.tools.store.read(&self.stream, sequence, bound).await?;
        match found.first() {
            Some(record) if record.sequence == sequence => Ok(record.position),
            // It was pruned: a read gives what is left behind it.
            Some(record) => Ok(record.position - 1),
            None => Err(Error::bug(format!("{} has no event {sequence} although it was appended", self.run))),
        }
    }
}

pub(crate) enum Decided {
    Events(Vec<Event>),
    Landed(Landing),
}

impl LoadedRun {
    /// A run that has just been made.
    pub(crate) fn begun(state: State, fold: Fold, texts: Texts, redaction: Redaction) -> Self {
        let deadline = next_deadline(&state);
        let (producers, allowances) = (Producers::default(), Vec::new());
        LoadedRun { state, fold, producers, texts, redaction, deadline, allowances }
    }

    pub(super) fn apply(&mut self, events: &[Event], masking: Masking) {
        for event in events {
            recount_run::apply(&mut self.state, event);
            self.fold.event(event);
            // What they add to texts is in what masking came to.
            self.texts.event(event, false, &self.redaction.redactor);
        }
        self.texts.settle(masking.into_texts());
    }
}

fn guard_error(space: &str, key: &str) -> Error {
    let id = key.rsplit('/').next().unwrap_or(key);
    match space {
        rows::APPROVALS => prompt_rows::taken(PromptKind::Approval, id),
        rows::ALLOWANCES_HELD => Error::too_many_at_once("the allowance for this call"),
        _ => Error::bug(format!("the row {space}/{key} is not as this writer left it")),
    }
}

fn send(reply: oneshot::Sender<Answer>, answer: Answer) {
    if reply.send(answer).is_err() {
        tracing::debug!("the sender of a command did not wait for its answer");
    }
}
