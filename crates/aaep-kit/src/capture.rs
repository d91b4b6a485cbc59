//! Records what a producer sends and receives, over any number of connections: [`capture`].
//!
//! It only sends a handshake, and answers prompts on request. A [`Keep`] stores the lines; the caller receives the
//! progress.

mod filter;
mod seen;

use std::future::Future;
use std::io;
use std::time::Duration;

use recount_aaep::MessageKind;
use recount_aaep::kind::Kind;
use recount_aaep::wire::{
    ConfirmationReply, Decision, ReplyToken, SubscriptionClose, SubscriptionId, Timestamp,
};
use recount_world::World;
use tokio::time::Instant;

use crate::glance::Glance;
use crate::limits;
use crate::link::{Dial, Heard, Link, LinkError, Target};
use crate::recording::{Direction, Stamp, Writer};

use self::seen::Seen;

pub use self::filter::Filter;

/// What is to be recorded, and until when.
#[derive(Debug, Clone)]
pub struct Plan {
    pub dial: Dial,
    /// By the wall clock, from the beginning, whether anything comes or not.
    pub timeout: Option<Duration>,
    /// Events that are kept; then it is enough.
    pub max_events: Option<u64>,
    pub filter: Filter,
    /// Whether a connection that ends is made again.
    pub reconnect: bool,
    /// What every confirmation that is asked for is answered with. Nobody is asked.
    pub auto: Option<Decision>,
}

/// Where lines go.
pub trait Keep {
    fn put(&mut self, text: &str, direction: Direction, stamp: &Stamp<'_>) -> io::Result<()>;
}

impl Keep for Writer {
    fn put(&mut self, text: &str, direction: Direction, stamp: &Stamp<'_>) -> io::Result<()> {
        Writer::put(self, text, direction, stamp)
    }
}

/// What is told on the way.
#[derive(Debug)]
pub enum CaptureNotice<'t> {
    /// A connection was made, the how many-th; its handshake was accepted, where there was one.
    Connected { connection: u64, subscription: Option<&'t str> },
    /// So many events are kept by now.
    Progress { summary: &'t Summary },
    /// A message that is no JSON object was left out.
    Broken { text: &'t str },
    /// A confirmation was answered; the status is of HTTP.
    Answered { decision: &'t Decision, reply_token: &'t str, status: Option<u16> },
    /// A prompt came that is not answered, though confirmations are.
    Unanswered { why: &'t str },
    /// Something went wrong, and the capture goes on.
    Remark { why: String },
    /// The connection is gone, and is made again after the wait.
    Lost { why: String, wait_ms: u64 },
}

/// What a capture came to.
#[derive(Debug, Default)]
pub struct Summary {
    /// Events that are kept.
    pub events: u64,
    /// All lines that are kept: these, handshakes, replies, and what else was said.
    pub lines: u64,
    /// Events that the filter left out.
    pub filtered: u64,
    /// Events that were told again, as they may be, and are kept once.
    pub repeated: u64,
    /// Messages that are no JSON objects; they are not kept, so that any tool can read the file.
    pub broken: u64,
    /// Prompts that were answered.
    pub answered: u64,
    pub connections: u64,
    pub took: Duration,
    pub ended: Ended,
}

/// Why a capture ended.
#[derive(Debug, Default)]
pub enum Ended {
    /// As many events came as were wanted.
    Enough,
    /// Its time was over.
    TimedOut,
    /// The caller stopped it.
    #[default]
    Stopped,
    /// The producer ended it.
    ByProducer,
    /// The handshake was rejected with this answer.
    Rejected(String),
    /// The connection was lost, and was not made again.
    Lost(String),
}

/// Why there is no capture.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// There never was a connection.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// What was heard could not be kept.
    #[error("the capture could not be written: {0}")]
    Keep(#[from] io::Error),
}

/// Records until its plan says, the producer ends it, or `stop` is done. Only what never began, or could not be kept, is
/// an error.
pub async fn capture(
    world: &World,
    plan: &Plan,
    keep: &mut dyn Keep,
    notify: &mut dyn FnMut(CaptureNotice<'_>),
    stop: impl Future<Output = ()>,
) -> Result<Summary, CaptureError> {
    let began = recount_world::moment();
    let mut capture = Capture {
        world,
        plan,
        keep,
        notify,
        began,
        reported_at: began,
        link: None,
        last_id: None,
        seen: Seen::new(limits::SEEN_EVENTS_MAX),
        answered: Seen::new(limits::ANSWERED_PROMPTS_MAX),
        summary: Summary::default(),
    };
    let time_is_over = async {
        match plan.timeout.and_then(|timeout| began.checked_add(timeout)) {
            Some(deadline) => tokio::time::sleep_until(deadline).await,
            None => std::future::pending().await,
        }
    };
    let ended = tokio::select! {
        biased;
        () = stop => Ended::Stopped,
        () = time_is_over => Ended::TimedOut,
        ended = capture.follow() => ended?,
    };
    capture.end(ended).await
}

struct Capture<'c> {
    world: &'c World,
    plan: &'c Plan,
    keep: &'c mut dyn Keep,
    notify: &'c mut dyn FnMut(CaptureNotice<'_>),
    began: Instant,
    /// When it was last told how far things are.
    reported_at: Instant,
    /// Stands here, so that it can be ended in good order whatever is waited for.
    link: Option<Link>,
    /// Behind which the next connection goes on.
    last_id: Option<String>,
    seen: Seen,
    answered: Seen,
    summary: Summary,
}

/// What became of a connection.
enum ConnectionEnd {
    /// For good.
    Ended(Ended),
    /// It may be made again.
    Broken { why: String, was_of_use: bool, was_clean: bool },
}

impl Capture<'_> {
    /// Over all connections. May be dropped at any await.
    async fn follow(&mut self) -> Result<Ended, CaptureError> {
        let mut in_vain = 0;
        loop {
            let connection_end = match self.connect().await {
                Ok(()) => self.listen().await?,
                Err(CaptureError::Link(why)) if self.summary.connections > 0 => match why.may_pass() {
                    true => {
                        ConnectionEnd::Broken { why: why.to_string(), was_of_use: false, was_clean: false }
                    }
                    false => ConnectionEnd::Ended(Ended::Lost(why.to_string())),
                },
                Err(why) => return Err(why),
            };
            let (why, was_of_use) = match connection_end {
                ConnectionEnd::Ended(ended) => return Ok(ended),
                ConnectionEnd::Broken { was_clean: true, .. } if !self.plan.reconnect => {
                    return Ok(Ended::ByProducer);
                }
                ConnectionEnd::Broken { why, .. } if !self.plan.reconnect => return Ok(Ended::Lost(why)),
                ConnectionEnd::Broken { why, was_of_use, .. } => (why, was_of_use),
            };
            in_vain = if was_of_use { 0 } else { in_vain + 1 };
            if in_vain >= limits::RECONNECTS_IN_VAIN_MAX {
                return Ok(Ended::Lost(format!(
                    "{why}; {in_vain} connections in a row returned nothing new"
                )));
            }
            let wait_ms = self.wait_ms(in_vain);
            (self.notify)(CaptureNotice::Lost { why, wait_ms });
            tokio::time::sleep(Duration::from_millis(wait_ms)).await;
        }
    }

    /// Scattered by a quarter, so that many captures do not come back in step.
    fn wait_ms(&self, in_vain: u32) -> u64 {
        let requested_ms = self.link.as_ref().and_then(Link::retry_ms).unwrap_or(limits::RECONNECT_WAIT_MS);
        let wait = requested_ms.saturating_mul(1 << in_vain.min(16)).min(limits::RECONNECT_WAIT_MS_MAX);
        let scatter = u64::try_from(self.world.entropy.draw() % 256).unwrap_or(0);
        wait + wait * scatter / 1_024
    }

    async fn connect(&mut self) -> Result<(), CaptureError> {
        let began_ms = self.world.clock.now_ms();
        let began = recount_world::moment();
        let last = self.last_id.as_deref();
        let dial = self.dial_behind();
        let mut shook_hands = true;
        match &mut self.link {
            Some(link) => {
                shook_hands = link.answer().is_some() && !link.keeps_its_subscription();
                match link.reopen(last).await {
                    // The subscription is forgotten there.
                    Err(why)
                        if why.is_final_refusal()
                            && link.keeps_its_subscription()
                            && self.plan.dial.request.is_some() =>
                    {
                        shook_hands = true;
                        *link = Link::open(self.world, &dial).await?;
                    }
                    opened => opened?,
                }
            }
            None => self.link = Some(Link::open(self.world, &dial).await?),
        }
        self.summary.connections += 1;
        let Some(link) = &self.link else { return Ok(()) };
        let (answer, subscription) =
            (link.answer().map(str::to_owned), link.subscription().map(str::to_owned));
        if let (Some(request), Some(answer), true) = (&self.plan.dial.request, &answer, shook_hands) {
            self.put(request, Direction::Out, (began, began_ms), None)?;
            let now = (recount_world::moment(), self.world.clock.now_ms());
            self.put(answer, Direction::In, now, None)?;
        }
        let connection = self.summary.connections;
        (self.notify)(CaptureNotice::Connected { connection, subscription: subscription.as_deref() });
        Ok(())
    }

    fn dial_behind(&self) -> Dial {
        let last_event_id = self.last_id.clone().or_else(|| self.plan.dial.last_event_id.clone());
        Dial { last_event_id, ..self.plan.dial.clone() }
    }

    /// Over one connection.
    async fn listen(&mut self) -> Result<ConnectionEnd, CaptureError> {
        let since = recount_world::moment();
        let mut brought = false;
        loop {
            let Some(link) = &mut self.link else { return Ok(ConnectionEnd::Ended(Ended::Stopped)) };
            if link.is_rejected() {
                return Ok(ConnectionEnd::Ended(Ended::Rejected(
                    link.answer().unwrap_or_default().to_owned(),
                )));
            }
            let mut was_clean = false;
            let why = match link.next().await {
                Ok(Some(heard)) => {
                    brought |= self.take(&heard)?;
                    if self.plan.max_events.is_some_and(|most| self.summary.events >= most) {
                        return Ok(ConnectionEnd::Ended(Ended::Enough));
                    }
                    let glance = Glance::at(&heard.text);
                    if glance.as_ref().and_then(Glance::kind) == Some(MessageKind::SubscriptionClose) {
                        return Ok(ConnectionEnd::Ended(Ended::ByProducer));
                    }
                    if let (Some(decision), Some(glance)) = (&self.plan.auto, glance) {
                        self.answer(decision, &glance).await?;
                    }
                    continue;
                }
                Err(why @ LinkError::Rpc { .. }) => {
                    (self.notify)(CaptureNotice::Remark { why: why.to_string() });
                    continue;
                }
                Err(why) if !why.may_pass() => return Ok(ConnectionEnd::Ended(Ended::Lost(why.to_string()))),
                Err(why) => why.to_string(),
                Ok(None) => match (link.closed(), &self.plan.dial.target) {
                    (_, Target::Command { .. }) => return Ok(ConnectionEnd::Ended(Ended::ByProducer)),
                    // What both sides call a clean end, and what the protocol ends a subscription with.
                    (Some((1000 | 4000, _)), _) => return Ok(ConnectionEnd::Ended(Ended::ByProducer)),
                    (Some((code @ 4001..=4999, reason)), _) => {
                        let why = format!("the producer closed the connection with {code} {reason:?}");
                        return Ok(ConnectionEnd::Ended(Ended::Lost(why)));
                    }
                    _ => {
                        was_clean = true;
                        "the producer ended the stream".to_owned()
                    }
                },
            };
            // One that lasted was of use, also when nothing was said.
            let lasted = since.elapsed() >= Duration::from_millis(limits::RECONNECT_WAIT_MS_MAX);
            if matches!(self.plan.dial.target, Target::Command { .. }) {
                return Ok(ConnectionEnd::Ended(Ended::Lost(why)));
            }
            return Ok(ConnectionEnd::Broken { why, was_of_use: brought || lasted, was_clean });
        }
    }

    /// Keeps a message, or not. Answers whether it brought anything new.
    fn take(&mut self, heard: &Heard) -> Result<bool, CaptureError> {
        let Some(glance) = Glance::at(&heard.text) else {
            self.summary.broken += 1;
            (self.notify)(CaptureNotice::Broken { text: &heard.text });
            return Ok(true);
        };
        if let Some(id) = heard.id.as_ref().filter(|id| !id.is_empty()).or(glance.event_id.as_ref()) {
            self.last_id = Some(id.clone());
        }
        // Another event under the same id is no repetition: it is kept, for the rules to find.
        if glance.event_id.is_some() && !self.seen.is_new(&heard.text) {
            self.summary.repeated += 1;
            return Ok(false);
        }
        let is_event = glance.is_event();
        if is_event && !self.plan.filter.passes(&glance) {
            self.summary.filtered += 1;
            return Ok(true);
        }
        self.summary.events += u64::from(is_event);
        self.put(
            &heard.text,
            Direction::In,
            (heard.at, heard.at_ms),
            glance.event_id.as_deref().or(heard.id.as_deref()),
        )?;
        if self.reported_at.elapsed() >= limits::PROGRESS_EVERY {
            self.reported_at = recount_world::moment();
            (self.notify)(CaptureNotice::Progress { summary: &self.summary });
        }
        Ok(true)
    }

    fn put(
        &mut self,
        text: &str,
        direction: Direction,
        (at, at_ms): (Instant, u64),
        id: Option<&str>,
    ) -> io::Result<()> {
        let after = at.saturating_duration_since(self.began).as_millis();
        let after_ms = u64::try_from(after).unwrap_or(u64::MAX);
        let connection = self.summary.connections;
        self.keep.put(text, direction, &Stamp { at_ms, after_ms, connection, id })?;
        self.summary.lines += 1;
        Ok(())
    }

    /// Answers a confirmation that is asked for, once, without asking anybody.
    async fn answer(&mut self, decision: &Decision, glance: &Glance) -> Result<(), CaptureError> {
        let asks = glance.event_kind();
        if asks == Some(Kind::AwaitingClarification) {
            (self.notify)(CaptureNotice::Unanswered {
                why: "a clarification was requested; only confirmations are answered automatically",
            });
        }
        if asks != Some(Kind::AwaitingConfirmation) || !self.plan.filter.is_about(glance) {
            return Ok(());
        }
        let Some(token) = glance.reply_token.as_deref().and_then(|token| ReplyToken::new(token).ok()) else {
            (self.notify)(CaptureNotice::Unanswered { why: "a confirmation request has no reply token" });
            return Ok(());
        };
        if !self.answered.is_new(token.as_str()) {
            return Ok(());
        }
        let Some(link) = &mut self.link else { return Ok(()) };
        // Who makes no handshakes gives no id; any will do there.
        let subscription = link
            .subscription()
            .and_then(|id| SubscriptionId::new(id).ok())
            .or_else(|| SubscriptionId::new(format!("sub_{:032x}", self.world.entropy.draw())).ok());
        let Some(subscription) = subscription else { return Ok(()) };
        let at_ms = self.world.clock.now_ms();
        let at = recount_world::moment();
        let now = Timestamp::of_millis(i64::try_from(at_ms).unwrap_or(i64::MAX));
        let mut reply = ConfirmationReply::new(token.clone(), decision.clone(), subscription, now);
        reply.decision_rationale = Some("answered automatically by a rule".to_owned());
        let Ok(text) = serde_json::to_string(&reply) else { return Ok(()) };
        match link.send(&text).await {
            Ok(sent) => {
                self.put(&text, Direction::Out, (at, at_ms), None)?;
                self.summary.answered += 1;
                (self.notify)(CaptureNotice::Answered {
                    decision,
                    reply_token: token.as_str(),
                    status: sent.status,
                });
            }
            Err(why) => (self.notify)(CaptureNotice::Remark {
                why: format!("a confirmation could not be answered: {why}"),
            }),
        }
        Ok(())
    }

    /// Takes leave, where a subscription was made and the leave is ours.
    async fn end(mut self, ended: Ended) -> Result<Summary, CaptureError> {
        let is_ours = matches!(ended, Ended::Enough | Ended::TimedOut | Ended::Stopped);
        if let Some(mut link) = self.link.take() {
            let subscription = link.subscription().filter(|_| is_ours && link.answer().is_some());
            if let Some(subscription) = subscription.and_then(|id| SubscriptionId::new(id).ok()) {
                let mut close = SubscriptionClose::new(subscription);
                close.reason_code = Some("subscriber_shutdown".to_owned());
                close.reason_message = Some("the capture has ended".to_owned());
                let text = serde_json::to_string(&close).unwrap_or_default();
                let (at, at_ms) = (recount_world::moment(), self.world.clock.now_ms());
                if let Ok(Ok(_)) = tokio::time::timeout(limits::CLOSE_WAIT, link.send(&text)).await {
                    self.put(&text, Direction::Out, (at, at_ms), None)?;
                }
            }
            link.close().await;
        }
        self.summary.took = self.began.elapsed();
        self.summary.ended = ended;
        Ok(self.summary)
    }
}
