//! Checks of access: which clients can listen and reply, and whether an idle stream sends heartbeats.

use serde_json::json;

use crate::conformance::producer::harness::{Harness, PartError, able, request};
use crate::conformance::producer::specs;
use crate::conformance::transcript::Scope;
use crate::limits;
use crate::link::call::Caller;
use crate::link::{Dial, Link, Surface, Target};

pub(super) async fn run(harness: &Harness<'_>) -> Result<(), PartError> {
    let (local, plain) = match &harness.target {
        Target::Http { base: url, .. } | Target::WebSocket { url } => {
            (is_local(url), url.starts_with("http:") || url.starts_with("ws:"))
        }
        Target::Command { .. } => (true, false),
    };
    match (plain, local) {
        (false, _) => {
            harness.passed(&specs::PLAIN_HTTP, "the connection is encrypted, or does not leave the machine")
        }
        (true, true) => harness.passed(&specs::PLAIN_HTTP, "it is on this machine"),
        (true, false) => harness.failed(&specs::PLAIN_HTTP, "plain HTTP goes to another machine", []),
    }
    if matches!(harness.target, Target::Command { .. }) {
        harness.inapplicable(&specs::REFUSED, "only the program that started a command talks to it");
        harness.inapplicable(&specs::CREDENTIALS, "only the program that started a command talks to it");
        return Ok(());
    }
    let open = listens(harness, None).await;
    match (local, open) {
        (true, _) => harness.inapplicable(&specs::CREDENTIALS, "it is on this machine"),
        (false, true) => {
            harness.failed(&specs::CREDENTIALS, "it is on another machine and requires no credentials", [])
        }
        (false, false) => harness.passed(&specs::CREDENTIALS, ""),
    }
    let Some(token) = &harness.subject.token else {
        let why = if open { "it requires no token, and none was passed" } else { "no token was passed" };
        harness.not_shown(&specs::REFUSED, format!("{why}; start it with one and pass --token-file"));
        return Ok(());
    };
    let mut taken = Vec::new();
    if open {
        taken.push("a stream of events was opened without a token".to_owned());
    }
    let wrong = format!("{token}x");
    if listens(harness, Some(&wrong)).await {
        taken.push("a stream of events was opened with a wrong token".to_owned());
    }
    let mut routes = 0;
    if let (Target::Http { base, surface }, Some(without)) = (&harness.target, &harness.unauthenticated) {
        let false_one = Caller::new(base, Some(&wrong), harness.patience()).map_err(|why| why.to_string())?;
        let root = base.strip_suffix("/aaep/v1").unwrap_or(base);
        let places = match surface {
            Surface::Versioned => {
                vec![format!("{base}/subscriptions"), format!("{base}/replies"), format!("{root}/messages")]
            }
            Surface::Legacy => vec![format!("{base}/messages"), format!("{base}/sessions")],
        };
        // Open a subscription whose id could be mistaken for a credential.
        let known = harness.listen("a name that is not a credential", Scope::Part).await?;
        let id = super::reply::subscription(&known);
        let legacy = Target::Http { base: root.to_owned(), surface: Surface::Legacy };
        for (token, what) in [(None, "without a token"), (Some(wrong.clone()), "with a wrong token")] {
            let dial = Dial { token, patience: harness.patience(), ..Dial::to(harness.target.clone()) };
            let named = Dial { subscription: known.id.clone(), ..dial.clone() };
            let aside = Dial { target: legacy.clone(), ..dial };
            for (dial, where_) in [(named, "by the name of a subscription"), (aside, "below the root")] {
                if *surface == Surface::Versioned && opens(harness, &dial).await {
                    taken.push(format!("events were sent {where_} {what}"));
                }
            }
        }
        for url in places {
            let body = if url.ends_with("/subscriptions") {
                request(able(json!({})))
            } else {
                json!({"type": "subscription.renegotiate", "subscription_id": id, "capabilities": {}})
                    .to_string()
            };
            for (caller, what) in [(without, "without a token"), (&false_one, "with a wrong token")] {
                let reply = caller.post(&url, body.as_bytes()).await.map_err(|why| why.to_string())?;
                match reply.status {
                    401 | 403 => routes += 1,
                    404 | 405 => {}
                    status => taken.push(format!("POST {url} {what} returned {status}")),
                }
            }
        }
        harness.finish(known).await;
    }
    match taken.as_slice() {
        [] => harness.passed(&specs::REFUSED, format!("the stream, and {routes} calls")),
        _ => harness.failed(&specs::REFUSED, "the token is not checked", taken),
    }
    Ok(())
}

/// Whether a client with this token, or without one, gets a stream.
async fn listens(harness: &Harness<'_>, token: Option<&str>) -> bool {
    let strict = harness.is_strict();
    let dial = Dial {
        token: token.map(str::to_owned),
        request: strict.then(|| request(able(json!({})))),
        patience: harness.patience(),
        ..Dial::to(harness.target.clone())
    };
    opens(harness, &dial).await
}

async fn opens(harness: &Harness<'_>, dial: &Dial) -> bool {
    match Link::open(&harness.world, dial).await {
        Ok(link) => {
            let open = !link.is_rejected();
            link.close().await;
            open
        }
        Err(_) => false,
    }
}

pub(super) fn is_local(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let host = rest.split(['/', '?']).next().unwrap_or_default();
    let host = host.rsplit_once(':').map_or(host, |(host, port)| {
        if port.bytes().all(|byte| byte.is_ascii_digit()) { host } else { rest }
    });
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

pub(super) async fn quiet(harness: &Harness<'_>) -> Result<(), PartError> {
    if harness.subject.quiet.is_zero() {
        harness.not_shown(&specs::HEARTBEAT, "no waiting time was set (--quiet)");
        return Ok(());
    }
    let signs = async |time| -> Result<u64, PartError> {
        let conversation = harness.listen("a stream on which nothing happens", Scope::Part).await?;
        harness.wait(time).await;
        Ok(conversation.cut_and_count().await)
    };
    // Signs at the beginning are not heartbeats.
    let first = signs(limits::EFFECT_WAIT * 3).await?;
    let all = signs(harness.subject.quiet).await?;
    let waited = harness.subject.quiet.as_secs_f32();
    match all.saturating_sub(first) {
        0 => harness.failed(
            &specs::HEARTBEAT,
            format!("nothing came in {waited} s; clients give up after 30 s"),
            [],
        ),
        count => harness.passed(&specs::HEARTBEAT, format!("{count} heartbeats came in {waited} s")),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::is_local;

    #[test]
    fn this_machine_is_known_by_its_addresses() {
        for url in ["http://127.0.0.1:8080/x", "http://localhost", "ws://[::1]:9/ws", "http://127.9.9.9"] {
            assert!(is_local(url), "{url}");
        }
        for url in ["http://10.0.0.1:8080", "https://example.org/127.0.0.1", "http://localhost.example.org"] {
            assert!(!is_local(url), "{url}");
        }
    }
}
