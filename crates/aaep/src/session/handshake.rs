//! Checks handshakes: whether the honored capabilities are within the request, and whether events respect them. Events
//! do not name their subscription, so they are checked only if there is a single subscription.

use crate::field::Field;
use crate::hash::hash_text;
use crate::kind::TypeClass;
use crate::limits;
use crate::negotiate::{exceeded_capabilities, merge};
use crate::reading::Reading;
use crate::rule::{self, Findings, quote};
use crate::table::MessageKind;
use crate::wire::Capabilities;

/// The terms of one subscription.
struct AgreedTerms {
    id: u64,
    requested: Option<Capabilities>,
    honored: Capabilities,
    closed: bool,
}

/// All recorded handshakes.
#[derive(Default)]
pub(super) struct Handshakes {
    /// Capabilities of the newest request without a response.
    requested: Option<Capabilities>,
    terms: Vec<AgreedTerms>,
}

fn capabilities(message: &Reading<'_>, name: &str) -> Capabilities {
    message.node().get(name).and_then(|node| serde_json::from_str(node.source()).ok()).unwrap_or_default()
}

impl Handshakes {
    pub(super) fn observe(
        &mut self,
        kind: MessageKind,
        message: &Reading<'_>,
        seed: u64,
        findings: &mut Findings,
    ) {
        let text = message.doc().text();
        let id_node = message.node().get("subscription_id");
        let id = id_node.and_then(crate::json::Node::str).map_or(0, |id| hash_text(seed, id.as_bytes()));
        let known = self.terms.iter().position(|terms| terms.id == id);
        let mut unknown = |some: bool| {
            if some {
                let message = || "unknown subscription".to_owned();
                findings.add(&rule::TERMS_UNKNOWN, text, id_node, || "subscription_id".into(), message);
            }
        };
        match kind {
            MessageKind::SubscriptionRequest => self.requested = Some(capabilities(message, "capabilities")),
            MessageKind::SubscriptionRejected => self.requested = None,
            MessageKind::SubscriptionAccepted => {
                let honored = capabilities(message, "honored_capabilities");
                let requested = match known {
                    Some(at) if self.requested.is_none() => self.terms[at].requested.clone(),
                    _ => self.requested.take(),
                };
                if let Some(requested) = &requested {
                    for axis in exceeded_capabilities(requested, &honored) {
                        let node = message.node().get("honored_capabilities");
                        let path = || format!("honored_capabilities.{axis}");
                        let message = || format!("`{axis}` exceeds the request");
                        findings.add(&rule::TERMS_WIDER, text, node, path, message);
                    }
                }
                match known {
                    Some(at) => (self.terms[at].honored, self.terms[at].requested) = (honored, requested),
                    None => {
                        if self.terms.len() >= limits::SUBSCRIPTIONS_MAX {
                            self.terms.remove(0);
                        }
                        self.terms.push(AgreedTerms { id, requested, honored, closed: false });
                    }
                }
            }
            MessageKind::SubscriptionRenegotiate => match known {
                Some(at) => {
                    let wish = capabilities(message, "capabilities");
                    let requested = self.terms[at].requested.get_or_insert_default();
                    merge(requested, wish);
                }
                None => unknown(!self.terms.is_empty()),
            },
            MessageKind::SubscriptionClose => match known {
                Some(at) => self.terms[at].closed = true,
                None => unknown(!self.terms.is_empty()),
            },
            _ => {}
        }
    }

    /// Whether no recorded subscription can reply: it declared so, or the producer did not honor more.
    pub(super) fn none_can_reply(&self) -> bool {
        !self.terms.is_empty() && self.terms.iter().all(AgreedTerms::cannot_reply)
    }

    /// Checks an event against the terms.
    #[inline]
    pub(super) fn check_event(&self, event: &Reading<'_>, findings: &mut Findings) {
        if let [terms] = self.terms.as_slice() {
            terms.check_event(event, findings);
        }
    }
}

impl AgreedTerms {
    /// Whether the subscriber cannot reply. The recorded request counts, because a producer must not gain by not
    /// honoring it.
    fn cannot_reply(&self) -> bool {
        let terms = self.requested.as_ref().unwrap_or(&self.honored);
        let lowest = |levels: &Vec<u8>| levels.iter().all(|level| *level < 2);
        terms.supports_confirmation_reply != Some(true)
            || terms.supported_conformance_levels.as_ref().is_some_and(lowest)
    }

    fn check_event(&self, event: &Reading<'_>, findings: &mut Findings) {
        let text = event.doc().text();
        let node = Some(event.node());
        if self.closed {
            let message = || "the only subscription was closed".to_owned();
            return findings.add(&rule::TERMS_CLOSED, text, node, String::new, message);
        }
        let honored = &self.honored;
        if let Some(filters) = &honored.event_filters
            && !event.is(Field::Urgency, "critical")
        {
            let written = event.text(Field::Type).unwrap_or_default();
            let name = match event.type_class() {
                TypeClass::Core(kind) => kind.compact(),
                _ => &written,
            };
            if !filters.pass(name) {
                let message = || format!("`{}` is excluded by the filters", quote(name));
                findings.add(&rule::TERMS_FILTER, text, node, String::new, message);
            }
        }
        if let (Some(boundaries), Some(hint)) =
            (&honored.coalesce_boundaries, event.text(Field::CoalesceHint))
            && !boundaries.iter().any(|boundary| boundary.as_str() == hint)
            && hint != "none"
        {
            let message = || format!("`{}` was not agreed", quote(&hint));
            let path = || "coalesce_hint".to_owned();
            findings.add(&rule::TERMS_BOUNDARY, text, event.get(Field::CoalesceHint), path, message);
        }
        let replies = match event.kind() {
            Some(crate::Kind::AwaitingConfirmation) => honored.supports_confirmation_reply,
            Some(crate::Kind::AwaitingClarification) => honored.supports_clarification_reply,
            _ => Some(true),
        };
        if replies != Some(true) {
            let message = || "the subscriber declared that it cannot reply".to_owned();
            findings.add(&rule::TERMS_REPLY, text, node, String::new, message);
        }
    }
}
