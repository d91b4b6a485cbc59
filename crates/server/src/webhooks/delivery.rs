//! Sends one message and judges the response. Redirects are not followed, and no error names the URL: it may be a secret.
//!
//! Start at [`Sender::send`] and [`judge`]. It must not know events.

use std::time::Duration;

use recount_world::{Kind, World};
use reqwest::header::{CONTENT_TYPE, RETRY_AFTER};

use super::mail::compose;
use super::message::{Rendered, SUBJECT};
use super::signature::sign;
use super::smtp::{MailFailure, SmtpClient};
use crate::config::Webhook;
use crate::limits;
use crate::outgoing::{self, reason};

/// The result of one delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Sent {
    Status {
        code: u16,
        retry_after: Option<Duration>,
    },
    /// The mail server accepted the mail.
    Accepted,
    /// The mail server refused this mail for good.
    Refused(String),
    Failed(String),
}

/// What follows from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    Delivered,
    /// The receiver wants no more events.
    Disable,
    GiveUp(String),
    Retry(String),
}

/// The client of one webhook.
pub(super) enum Sender {
    Web { client: reqwest::Client, url: reqwest::Url },
    Mail(SmtpClient),
}

impl Sender {
    pub(super) async fn new(webhook: &Webhook, world: &World) -> Result<Self, String> {
        // Building a client reads the certificates of the system.
        if let Some(mail) = &webhook.mail {
            let server = mail.server.clone();
            let built = world.tasks.block(Kind::Service, move || SmtpClient::new(&server)).await;
            return Ok(Sender::Mail(built.map_err(|_| "the client cannot be built".to_owned())??));
        }
        let url: reqwest::Url =
            webhook.url.reveal().parse().map_err(|_| "the URL is not valid".to_owned())?;
        let is_secure = url.scheme() == "https";
        let built = world.tasks.block(Kind::Service, move || client(is_secure)).await;
        let client = built.map_err(|_| "the client cannot be built".to_owned())??;
        Ok(Sender::Web { client, url })
    }

    pub(super) async fn send(&self, webhook: &Webhook, id: &str, now_ms: u64, message: Rendered) -> Sent {
        match (self, &webhook.mail) {
            (Sender::Web { client, url }, _) => post(client, url, webhook, id, now_ms, message).await,
            (Sender::Mail(client), Some(mail)) => {
                let subject = message.headers.iter().find(|(name, _)| *name == SUBJECT);
                let subject = subject.map_or("", |(_, subject)| subject);
                let text = String::from_utf8_lossy(&message.body);
                let composed = compose(mail, &webhook.name, id, now_ms, subject, &text);
                match client.send(mail, &composed).await {
                    Ok(()) => Sent::Accepted,
                    Err(MailFailure::Refused(reason)) => Sent::Refused(reason),
                    Err(MailFailure::Failed(reason)) => Sent::Failed(reason),
                }
            }
            (Sender::Mail(_), None) => Sent::Failed("the webhook has no mail server".to_owned()),
        }
    }
}

async fn post(
    client: &reqwest::Client,
    url: &reqwest::Url,
    webhook: &Webhook,
    id: &str,
    now_ms: u64,
    message: Rendered,
) -> Sent {
    let timestamp = now_ms / 1_000;
    let mut request = client
        .post(url.clone())
        .header(CONTENT_TYPE, message.content_type)
        .header("webhook-id", id)
        .header("webhook-timestamp", timestamp);
    if let Some(secret) = &webhook.secret {
        request = request.header("webhook-signature", sign(&secret.key, id, timestamp, &message.body));
    }
    for (name, value) in message.headers {
        request = request.header(name, value);
    }
    match request.body(message.body).send().await {
        Ok(response) => {
            let seconds =
                response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
            Sent::Status { code: response.status().as_u16(), retry_after: seconds.map(Duration::from_secs) }
        }
        Err(why) => Sent::Failed(reason(why, limits::WEBHOOK_TIMEOUT)),
    }
}

fn client(is_secure: bool) -> Result<reqwest::Client, String> {
    outgoing::client(is_secure, limits::WEBHOOK_TIMEOUT, |client| {
        client.connect_timeout(limits::WEBHOOK_CONNECT).pool_max_idle_per_host(1)
    })
}

/// Judges a delivery after this many attempts, for an event of this age.
pub(super) fn judge(sent: &Sent, attempts: u32, age: Duration) -> Verdict {
    let reason = match sent {
        Sent::Accepted | Sent::Status { code: 200..=299, .. } => return Verdict::Delivered,
        Sent::Status { code: 410, .. } => return Verdict::Disable,
        Sent::Status { code: code @ 300..=399, .. } => {
            format!("the receiver returned {code}; redirects are not followed")
        }
        Sent::Status { code, .. } => format!("the receiver returned {code}"),
        Sent::Refused(reason) | Sent::Failed(reason) => reason.clone(),
    };
    let is_invalid = matches!(sent, Sent::Refused(_) | Sent::Status { code: 400 | 413 | 415 | 422, .. });
    let is_refused = is_invalid && attempts >= limits::WEBHOOK_INVALID_ATTEMPTS;
    match is_refused || age > limits::WEBHOOK_AGE_MAX {
        true => Verdict::GiveUp(reason),
        false => Verdict::Retry(reason),
    }
}

/// The pause after this many failed deliveries in a row.
pub(super) fn pause(failures: u32, sent: &Sent) -> Duration {
    let doubled = limits::WEBHOOK_RETRY_FIRST * 2_u32.pow(failures.saturating_sub(1).min(16));
    let requested = match sent {
        Sent::Status { retry_after, .. } => retry_after.unwrap_or_default(),
        Sent::Accepted | Sent::Refused(_) | Sent::Failed(_) => Duration::ZERO,
    };
    doubled.max(requested).min(limits::WEBHOOK_RETRY_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(code: u16) -> Sent {
        Sent::Status { code, retry_after: None }
    }

    #[test]
    fn an_event_is_delivered_retried_or_given_up() {
        let (young, old) = (Duration::from_secs(60), limits::WEBHOOK_AGE_MAX + Duration::from_secs(1));
        let returned = |code: u16| format!("the receiver returned {code}");
        let down = || Sent::Failed("connection refused".to_owned());
        let refused = || Sent::Refused("no such mailbox".to_owned());
        for (sent, attempts, age, verdict) in [
            (status(200), 1, young, Verdict::Delivered),
            (status(204), 9, old, Verdict::Delivered),
            (status(410), 1, young, Verdict::Disable),
            (status(500), 40, young, Verdict::Retry(returned(500))),
            (status(404), 40, young, Verdict::Retry(returned(404))),
            (status(429), 40, young, Verdict::Retry(returned(429))),
            (status(503), 1, old, Verdict::GiveUp(returned(503))),
            (status(400), 2, young, Verdict::Retry(returned(400))),
            (status(400), 3, young, Verdict::GiveUp(returned(400))),
            (status(302), 1, young, Verdict::Retry(returned(302) + "; redirects are not followed")),
            (Sent::Accepted, 9, old, Verdict::Delivered),
            (refused(), 2, young, Verdict::Retry("no such mailbox".to_owned())),
            (refused(), 3, young, Verdict::GiveUp("no such mailbox".to_owned())),
            (down(), 40, young, Verdict::Retry("connection refused".to_owned())),
            (down(), 1, old, Verdict::GiveUp("connection refused".to_owned())),
        ] {
            assert_eq!(judge(&sent, attempts, age), verdict, "{sent:?} {attempts}");
        }
    }

    #[test]
    fn pauses_grow_and_are_bounded() {
        let pauses: Vec<u64> = (1..=12).map(|failures| pause(failures, &status(500)).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600]);
        let requested = |seconds| Sent::Status { code: 429, retry_after: Some(Duration::from_secs(seconds)) };
        assert_eq!(pause(1, &requested(30)).as_secs(), 30);
        assert_eq!(pause(1, &requested(u64::MAX)), limits::WEBHOOK_RETRY_MAX);
        assert_eq!(pause(u32::MAX, &Sent::Failed(String::new())), limits::WEBHOOK_RETRY_MAX);
    }
}
