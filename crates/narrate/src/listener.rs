//! A subscriber that stays connected: [`EventListener`] reports events as they arrive, sends messages, and reconnects
//! after a loss, from the last event.
//!
//! Must not depend on the meaning of events. It talks to its caller over two bounded channels.

use std::time::Duration;

use recount_aaep::wire::{SubscriptionClose, SubscriptionId};
use recount_aaep::{Event, Message};
use recount_aaep_client::limits::{RECONNECT_WAIT_MS, RECONNECT_WAIT_MS_MAX};
use recount_aaep_client::link::{Dial, Link, LinkError, ReceivedMessage};
use recount_world::World;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::limits;
use crate::outgoing::Outgoing;

/// A report of a listener.
#[derive(Debug)]
pub enum ListenerReport {
    /// Connected. Replies name this subscription.
    Connected {
        subscription: Option<SubscriptionId>,
        again: bool,
    },
    Event(Box<Event>),
    /// The connection was lost; the listener reconnects after the wait.
    Lost {
        why: String,
        wait: Duration,
    },
    /// A message could not be sent, or was refused.
    NotSent {
        outgoing: Outgoing,
        why: String,
    },
}

/// Why a listener ends.
#[derive(Debug)]
pub enum ListenerEnd {
    /// The caller stopped taking reports, or dropped its sender of messages.
    Stopped,
    /// The producer closed the subscription.
    Closed { why: String },
    /// The producer rejected the subscription, with this code and message.
    Rejected { code: String, why: String },
    /// The first connection failed, or reconnecting was given up.
    Lost(LinkError),
}

/// Keeps one subscription connected.
pub struct EventListener {
    world: World,
    dial: Dial,
    reports: Sender<ListenerReport>,
    messages: Receiver<Outgoing>,
    link: Option<Link>,
    last_event_id: Option<String>,
    connections: u64,
    in_vain: u32,
}

/// The caller's ends of a listener.
pub struct ListenerEnds {
    pub reports: Receiver<ListenerReport>,
    pub messages: Sender<Outgoing>,
}

/// Why a connection ended.
enum ConnectionEnd {
    End(ListenerEnd),
    Lost(String),
}

impl EventListener {
    pub fn new(world: &World, dial: Dial) -> (EventListener, ListenerEnds) {
        let (reports, to_caller) = channel(limits::LISTENER_REPORTS_MAX);
        let (from_caller, messages) = channel(limits::LISTENER_MESSAGES_MAX);
        let listener = EventListener {
            world: world.clone(),
            last_event_id: dial.last_event_id.clone(),
            dial,
            reports,
            messages,
            link: None,
            connections: 0,
            in_vain: 0,
        };
        (listener, ListenerEnds { reports: to_caller, messages: from_caller })
    }

    /// Runs until the listener ends. Cancel-safe; [`EventListener::close`] then ends the subscription.
    pub async fn run(&mut self) -> ListenerEnd {
        loop {
            let over = match self.connect().await {
                Ok(()) => self.listen().await,
                Err(why) if self.connections > 0 && why.may_pass() => ConnectionEnd::Lost(why.to_string()),
                Err(why) => ConnectionEnd::End(ListenerEnd::Lost(why)),
            };
            let why = match over {
                ConnectionEnd::End(end) => return end,
                ConnectionEnd::Lost(why) => why,
            };
            self.in_vain += 1;
            if self.in_vain > limits::LISTENER_RECONNECTS_MAX {
                let reason = format!("{why}; {} attempts in a row failed", self.in_vain - 1);
                return ListenerEnd::Lost(LinkError::Broken { reason });
            }
            let wait = self.wait();
            if self.reports.send(ListenerReport::Lost { why, wait }).await.is_err() {
                return ListenerEnd::Stopped;
            }
            if !self.pause(wait).await {
                return ListenerEnd::Stopped;
            }
        }
    }

    /// Closes the subscription and the connection.
    pub async fn close(&mut self) {
        let Some(mut link) = self.link.take() else { return };
        if let Some(id) = subscription_of(&link) {
            let mut close = SubscriptionClose::new(id);
            close.reason_code = Some("subscriber_shutdown".to_owned());
            // Errors are ignored: a closed connection ends the subscription as well.
            link.send(&Message::from(close).to_json()).await.ok();
        }
        link.close().await;
    }

    fn wait(&self) -> Duration {
        let requested = self.link.as_ref().and_then(Link::retry_ms).unwrap_or(RECONNECT_WAIT_MS);
        let doubled = requested.saturating_mul(1 << (self.in_vain - 1).min(16));
        Duration::from_millis(doubled.min(RECONNECT_WAIT_MS_MAX))
    }

    /// Waits. Messages in the meantime are not sent. Returns whether the caller still exists.
    async fn pause(&mut self, wait: Duration) -> bool {
        let until = recount_world::moment() + wait;
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(until) => return true,
                message = self.messages.recv() => {
                    let Some(message) = message else { return false };
                    let why = "no connection".to_owned();
                    let report = ListenerReport::NotSent { outgoing: message, why };
                    if self.reports.send(report).await.is_err() {
                        return false;
                    }
                }
            }
        }
    }

    async fn connect(&mut self) -> Result<(), LinkError> {
        let last = self.last_event_id.clone();
        let dial = Dial { last_event_id: last.clone(), ..self.dial.clone() };
        match &mut self.link {
            Some(link) => match link.reopen(last.as_deref()).await {
                // The producer does not know the subscription any more.
                Err(why) if why.is_final_refusal() && link.keeps_its_subscription() => {
                    *link = Link::open(&self.world, &dial).await?;
                }
                opened => opened?,
            },
            None => self.link = Some(Link::open(&self.world, &dial).await?),
        }
        self.connections += 1;
        Ok(())
    }

    async fn listen(&mut self) -> ConnectionEnd {
        let stopped = || ConnectionEnd::End(ListenerEnd::Stopped);
        let Some(link) = &mut self.link else { return stopped() };
        if link.is_rejected() {
            return ConnectionEnd::End(rejection(link.handshake_response().unwrap_or_default()));
        }
        let subscription = subscription_of(link);
        let connected = ListenerReport::Connected { subscription, again: self.connections > 1 };
        if self.reports.send(connected).await.is_err() {
            return stopped();
        }
        loop {
            tokio::select! {
                heard = link.next() => {
                    let heard = match heard {
                        Ok(Some(heard)) => heard,
                        Ok(None) => return ConnectionEnd::Lost("the producer ended the stream".to_owned()),
                        Err(why) if why.may_pass() => return ConnectionEnd::Lost(why.to_string()),
                        Err(why) => return ConnectionEnd::End(ListenerEnd::Lost(why)),
                    };
                    self.in_vain = 0;
                    match report(&heard) {
                        Ok(Some(event)) => {
                            // A frame without an id is not a position to resume from.
                            if let Some(id) = heard.id.filter(|id| !id.is_empty()) {
                                self.last_event_id = Some(id);
                            }
                            if self.reports.send(ListenerReport::Event(event)).await.is_err() {
                                return stopped();
                            }
                        }
                        Ok(None) => {}
                        Err(end) => return ConnectionEnd::End(end),
                    }
                }
                message = self.messages.recv() => {
                    let Some(message) = message else { return stopped() };
                    let why = match link.send(&message.to_json()).await {
                        Ok(sent) if sent.status.is_none_or(|status| (200..300).contains(&status)) => continue,
                        Ok(sent) => {
                            format!("the producer returned status {}", sent.status.unwrap_or_default())
                        }
                        Err(why) => why.to_string(),
                    };
                    let report = ListenerReport::NotSent { outgoing: message, why };
                    if self.reports.send(report).await.is_err() {
                        return stopped();
                    }
                }
            }
        }
    }
}

/// The event in a message, if it has one. Unreadable messages are skipped, because they must not end a subscription.
fn report(heard: &ReceivedMessage) -> Result<Option<Box<Event>>, ListenerEnd> {
    match Message::parse(&heard.text) {
        Ok(Message::Event(event)) => Ok(Some(event)),
        Ok(Message::SubscriptionClose(close)) => {
            let why =
                close.reason_message.or(close.reason_code).unwrap_or_else(|| "no reason given".to_owned());
            Err(ListenerEnd::Closed { why })
        }
        Ok(Message::SubscriptionRejected(_)) => Err(rejection(&heard.text)),
        Ok(_) | Err(_) => Ok(None),
    }
}

fn rejection(answer: &str) -> ListenerEnd {
    match Message::parse(answer) {
        Ok(Message::SubscriptionRejected(no)) => {
            ListenerEnd::Rejected { code: no.reason_code, why: no.reason_message }
        }
        _ => ListenerEnd::Rejected { code: "unknown".to_owned(), why: answer.to_owned() },
    }
}

fn subscription_of(link: &Link) -> Option<SubscriptionId> {
    link.subscription().and_then(|id| SubscriptionId::new(id).ok())
}
