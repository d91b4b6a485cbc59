//! Records the messages between a producer and a subscriber over any number of connections: [`capture`].
//!
//! It sends only a handshake and, if configured, replies to prompts. A [`CaptureSink`] stores the lines; a callback
//! receives the progress.

mod filter;
mod recent_set;

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
use crate::link::{Dial, Link, LinkError, ReceivedMessage, Target};
use crate::recording::{Direction, Stamp, Writer};

use self::recent_set::RecentSet;

pub use self::filter::Filter;

/// What to record, and when to stop.
#[derive(Debug, Clone)]
pub struct CapturePlan {
    pub dial: Dial,
    /// Measured by the wall clock from the start, whether or not messages arrive.
    pub timeout: Option<Duration>,
    /// Stop after this many stored events.
    pub max_events: Option<u64>,
    pub filter: Filter,
    /// Whether to reconnect when a connection ends.
    pub reconnect: bool,
    /// The automatic reply to every confirmation. No person is prompted.
    pub auto: Option<Decision>,
}

/// Stores recorded lines.
pub trait CaptureSink {
    fn put(&mut self, text: &str, direction: Direction, stamp: &Stamp<'_>) -> io::Result<()>;
}

impl CaptureSink for Writer {
    fn put(&mut self, text: &str, direction: Direction, stamp: &Stamp<'_>) -> io::Result<()> {
        Writer::put(self, text, direction, stamp)
    }
}

/// Progress of a capture.
#[derive(Debug)]
pub enum CaptureNotice<'t> {
    /// A connection opened; `connection` counts from 1. If there was a handshake, it was accepted.
    Connected { connection: u64, subscription: Option<&'t str> },
    /// Sent every [`limits::PROGRESS_EVERY`] while messages arrive.
    Progress { summary: &'t CaptureSummary },
    /// A message that is not a JSON object was skipped.
    Broken { text: &'t str },
    /// A confirmation was answered; `status` is the HTTP status.
    Answered { decision: &'t Decision, reply_token: &'t str, status: Option<u16> },
    /// A prompt that an automatic reply cannot answer.
    Unanswered { why: &'t str },
    /// A problem that does not end the capture.
    Remark { why: String },
    /// The connection was lost; the capture reconnects after the wait.
    Lost { why: String, wait_ms: u64 },
}

/// The totals of a capture.
#[derive(Debug, Default)]
pub struct CaptureSummary {
    /// Stored events.
    pub events: u64,
    /// All stored lines: events, handshakes, replies and other messages.
    pub lines: u64,
    /// Events that the filter excluded.
    pub filtered: u64,
    /// Repeated events, which are stored once.
    pub repeated: u64,
    /// Messages that are not JSON objects. They are not stored, so any tool can read the file.
    pub broken: u64,
    /// Prompts that were answered.
    pub answered: u64,
    pub connections: u64,
    pub took: Duration,
    pub ended: EndReason,
}

/// Why a capture ended.
#[derive(Debug, Default)]
pub enum EndReason {
    /// The requested number of events was stored.
    Enough,
    /// The timeout passed.
    TimedOut,
    /// The caller stopped it.
    #[default]
    Stopped,
    /// The producer ended it.
    ByProducer,
    /// The handshake was rejected with this response.
    Rejected(String),
    /// The connection was lost and not reopened.
    Lost(String),
}

/// Why a capture failed.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// No connection was ever opened.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// A line could not be stored.
    #[error("the capture could not be written: {0}")]
    Write(#[from] io::Error),
}

/// Records until the plan is fulfilled, the producer ends, or `stop` resolves. It fails only if it never connected or
/// could not store a line.
pub async fn capture(
    world: &World,
    plan: &CapturePlan,
    sink: &mut dyn CaptureSink,
    notify: &mut dyn FnMut(CaptureNotice<'_>),
    stop: impl Future<Output = ()>,
) -> Result<CaptureSummary, CaptureError> {
    let began = recount_world::moment();
    let mut capture = Capture {
        world,
        plan,
        sink,
        notify,
        began,
        reported_at: began,
        link: None,
        last_id: None,
        seen: RecentSet::new(limits::SEEN_EVENTS_MAX),
        answered: RecentSet::new(limits::ANSWERED_PROMPTS_MAX),
        summary: CaptureSummary::default(),
    };
    let time_is_over = async {
        match plan.timeout.and_then(|timeout| began.checked_add(timeout)) {
            Some(deadline) => tokio::time::sleep_until(deadline).await,
            None => std::future::pending().await,
        }
    };
    let ended = tokio::select! {
        biased;
        () = stop => EndReason::Stopped,
        () = time_is_over => EndReason::TimedOut,
        ended = capture.follow() => ended?,
    };
    capture.end(ended).await
}

struct Capture<'c> {
    world: &'c World,
    plan: &'c CapturePlan,
    sink: &'c mut dyn CaptureSink,
    notify: &'c mut dyn FnMut(CaptureNotice<'_>),
    began: Instant,
    /// When the last progress notice was sent.
    reported_at: Instant,
    /// Kept here so that the capture can close it in order, whatever it awaits.
    link: Option<Link>,
    /// The id of the event after which the next connection resumes.
    last_id: Option<String>,
    seen: RecentSet,
    answered: RecentSet,
    summary: CaptureSummary,
}

/// How a connection ended.
enum ConnectionEnd {
    /// The capture ends.
    Ended(EndReason),
    /// The capture may reconnect.
    Broken { why: String, was_of_use: bool, was_clean: bool },
}

impl Capture<'_> {
    /// Follows all connections. May be dropped at any await.
    async fn follow(&mut self) -> Result<EndReason, CaptureError> {
        let mut in_vain = 0;
        loop {
            let connection_end = match self.connect().await {
                Ok(()) => self.listen().await?,
                Err(CaptureError::Link(why)) if self.summary.connections > 0 => match why.may_pass() {
                    true => {
                        ConnectionEnd::Broken { why: why.to_string(), was_of_use: false, was_clean: false }
                    }
                    false => ConnectionEnd::Ended(EndReason::Lost(why.to_string())),
                },
                Err(why) => return Err(why),
            };
            let (why, was_of_use) = match connection_end {
                ConnectionEnd::Ended(ended) => return Ok(ended),
                ConnectionEnd::Broken { was_clean: true, .. } if !self.plan.reconnect => {
                    return Ok(EndReason::ByProducer);
                }
                ConnectionEnd::Broken { why, .. } if !self.plan.reconnect => return Ok(EndReason::Lost(why)),
                ConnectionEnd::Broken { why, was_of_use, .. } => (why, was_of_use),
            };
            in_vain = if was_of_use { 0 } else { in_vain + 1 };
            if in_vain >= limits::RECONNECTS_IN_VAIN_MAX {
                return Ok(EndReason::Lost(format!(
                    "{why}; {in_vain} connections in a row returned nothing new"
                )));
            }
            let wait_ms = self.wait_ms(in_vain);
            (self.notify)(CaptureNotice::Lost { why, wait_ms });
            tokio::time::sleep(Duration::from_millis(wait_ms)).await;
        }
    }

    /// Jitter of a quarter, so that many captures do not reconnect at once.
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
                shook_hands = link.handshake_response().is_some() && !link.keeps_its_subscription();
                match link.reopen(last).await {
                    // The producer has forgotten the subscription.
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
            (link.handshake_response().map(str::to_owned), link.subscription().map(str::to_owned));
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

    /// Reads one connection.
    async fn listen(&mut self) -> Result<ConnectionEnd, CaptureError> {
        let since = recount_world::moment();
        let mut has_news = false;
        loop {
            let Some(link) = &mut self.link else { return Ok(ConnectionEnd::Ended(EndReason::Stopped)) };
            if link.is_rejected() {
                return Ok(ConnectionEnd::Ended(EndReason::Rejected(
                    link.handshake_response().unwrap_or_default().to_owned(),
                )));
            }
            let mut was_clean = false;
            let why = match link.next().await {
                Ok(Some(message)) => {
                    has_news |= self.handle_message(&message)?;
                    if self.plan.max_events.is_some_and(|max| self.summary.events >= max) {
                        return Ok(ConnectionEnd::Ended(EndReason::Enough));
                    }
                    let glance = Glance::at(&message.text);
                    if glance.as_ref().and_then(Glance::kind) == Some(MessageKind::SubscriptionClose) {
                        return Ok(ConnectionEnd::Ended(EndReason::ByProducer));
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
                Err(why) if !why.may_pass() => {
                    return Ok(ConnectionEnd::Ended(EndReason::Lost(why.to_string())));
                }
                Err(why) => why.to_string(),
                Ok(None) => match (link.closed(), &self.plan.dial.target) {
                    (_, Target::Command { .. }) => return Ok(ConnectionEnd::Ended(EndReason::ByProducer)),
                    // Both codes mean a clean end.
                    (Some((1000 | 4000, _)), _) => return Ok(ConnectionEnd::Ended(EndReason::ByProducer)),
                    (Some((code @ 4001..=4999, reason)), _) => {
                        let why = format!("the producer closed the connection with {code} {reason:?}");
                        return Ok(ConnectionEnd::Ended(EndReason::Lost(why)));
                    }
                    _ => {
                        was_clean = true;
                        "the producer ended the stream".to_owned()
                    }
                },
            };
            // A connection that lasted counts as useful even without messages.
            let lasted = since.elapsed() >= Duration::from_millis(limits::RECONNECT_WAIT_MS_MAX);
            if matches!(self.plan.dial.target, Target::Command { .. }) {
                return Ok(ConnectionEnd::Ended(EndReason::Lost(why)));
            }
            return Ok(ConnectionEnd::Broken { why, was_of_use: has_news || lasted, was_clean });
        }
    }

    /// Stores a message unless it is filtered or repeated. Returns whether it was new.
    fn handle_message(&mut self, message: &ReceivedMessage) -> Result<bool, CaptureError> {
        let Some(glance) = Glance::at(&message.text) else {
            self.summary.broken += 1;
            (self.notify)(CaptureNotice::Broken { text: &message.text });
            return Ok(true);
        };
        if let Some(id) = message.id.as_ref().filter(|id| !id.is_empty()).or(glance.event_id.as_ref()) {
            self.last_id = Some(id.clone());
        }
        // Another event with the same id is not a repetition: it is stored, so that the rules can report it.
        if glance.event_id.is_some() && !self.seen.is_new(&message.text) {
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
            &message.text,
            Direction::In,
            (message.at, message.at_ms),
            glance.event_id.as_deref().or(message.id.as_deref()),
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
        self.sink.put(text, direction, &Stamp { at_ms, after_ms, connection, id })?;
        self.summary.lines += 1;
        Ok(())
    }

    /// Sends the automatic reply to a confirmation, once.
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
        // Without a handshake there is no subscription id; any id is accepted then.
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

    /// Sends a close if a subscription exists and the capture ends it.
    async fn end(mut self, ended: EndReason) -> Result<CaptureSummary, CaptureError> {
        let is_ours = matches!(ended, EndReason::Enough | EndReason::TimedOut | EndReason::Stopped);
        if let Some(mut link) = self.link.take() {
            let subscription = link.subscription().filter(|_| is_ours && link.handshake_response().is_some());
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
