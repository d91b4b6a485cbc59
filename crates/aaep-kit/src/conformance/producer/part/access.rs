//! Checks of access: who can listen and reply, and whether an idle stream sends heartbeats.

use serde_json::json;

use crate::conformance::producer::specs;
use crate::conformance::producer::stage::{Stage, Trouble, able, request};
use crate::conformance::transcript::Scope;
use crate::limits;
use crate::link::call::Caller;
use crate::link::{Dial, Link, Surface, Target};

pub(super) async fn run(stage: &Stage<'_>) -> Result<(), Trouble> {
    let (local, plain) = match &stage.target {
        Target::Http { base: url, .. } | Target::WebSocket { url } => {
            (is_local(url), url.starts_with("http:") || url.starts_with("ws:"))
        }
        Target::Command { .. } => (true, false),
    };
    match (plain, local) {
        (false, _) => {
            stage.passed(&specs::PLAIN_HTTP, "what goes over it is sealed, or does not leave the machine")
        }
        (true, true) => stage.passed(&specs::PLAIN_HTTP, "it is on this machine"),
        (true, false) => stage.failed(&specs::PLAIN_HTTP, "plain HTTP goes to another machine", []),
    }
    if matches!(stage.target, Target::Command { .. }) {
        stage.inapplicable(&specs::REFUSED, "a command is spoken to by who has started it");
        stage.inapplicable(&specs::CREDENTIALS, "a command is spoken to by who has started it");
        return Ok(());
    }
    let open = listens(stage, None).await;
    match (local, open) {
        (true, _) => stage.inapplicable(&specs::CREDENTIALS, "it is on this machine"),
        (false, true) => {
            stage.failed(&specs::CREDENTIALS, "it is on another machine and wants no credentials", [])
        }
        (false, false) => stage.passed(&specs::CREDENTIALS, ""),
    }
    let Some(token) = &stage.subject.token else {
        let why = if open { "it wants no token, and none was given" } else { "no token was given" };
        stage.not_shown(&specs::REFUSED, format!("{why}; start it with one and say --token-file"));
        return Ok(());
    };
    let mut taken = Vec::new();
    if open {
        taken.push("a stream of events was opened without a token".to_owned());
    }
    let wrong = format!("{token}x");
    if listens(stage, Some(&wrong)).await {
        taken.push("a stream of events was opened with a wrong token".to_owned());
    }
    let mut routes = 0;
    if let (Target::Http { base, surface }, Some(without)) = (&stage.target, &stage.stranger) {
        let false_one = Caller::new(base, Some(&wrong), stage.patience()).map_err(|why| why.to_string())?;
        let root = base.strip_suffix("/aaep/v1").unwrap_or(base);
        let places = match surface {
            Surface::Versioned => {
                vec![format!("{base}/subscriptions"), format!("{base}/replies"), format!("{root}/messages")]
            }
            Surface::Legacy => vec![format!("{base}/messages"), format!("{base}/sessions")],
        };
        // A subscription there is, so that its name could be taken for a credential.
        let known = stage.listen("a name that is no credential", Scope::Part).await?;
        let id = super::reply::subscription(&known);
        let legacy = Target::Http { base: root.to_owned(), surface: Surface::Legacy };
        for (token, what) in [(None, "without a token"), (Some(wrong.clone()), "with a wrong token")] {
            let dial = Dial { token, patience: stage.patience(), ..Dial::to(stage.target.clone()) };
            let named = Dial { subscription: known.id.clone(), ..dial.clone() };
            let aside = Dial { target: legacy.clone(), ..dial };
            for (dial, where_) in [(named, "by the name of a subscription"), (aside, "below the root")] {
                if *surface == Surface::Versioned && opens(stage, &dial).await {
                    taken.push(format!("events were told {where_} {what}"));
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
                    status => taken.push(format!("POST {url} {what} was answered with {status}")),
                }
            }
        }
        stage.finish(known).await;
    }
    match taken.as_slice() {
        [] => stage.passed(&specs::REFUSED, format!("the stream, and {routes} calls")),
        _ => stage.failed(&specs::REFUSED, "the token proves nothing where it is not looked at", taken),
    }
    Ok(())
}

/// Whether a client with this token, or none, gets a stream.
async fn listens(stage: &Stage<'_>, token: Option<&str>) -> bool {
    let strict = stage.is_strict();
    let dial = Dial {
        token: token.map(str::to_owned),
        request: strict.then(|| request(able(json!({})))),
        patience: stage.patience(),
        ..Dial::to(stage.target.clone())
    };
    opens(stage, &dial).await
}

async fn opens(stage: &Stage<'_>, dial: &Dial) -> bool {
    match Link::open(&stage.world, dial).await {
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

pub(super) async fn quiet(stage: &Stage<'_>) -> Result<(), Trouble> {
    if stage.subject.quiet.is_zero() {
        stage.not_shown(&specs::HEARTBEAT, "no time was given to wait for it (--quiet)");
        return Ok(());
    }
    let signs = async |time| -> Result<u64, Trouble> {
        let talk = stage.listen("a stream on which nothing happens", Scope::Part).await?;
        stage.wait(time).await;
        Ok(talk.cut_and_count().await)
    };
    // What is said at the beginning is no heartbeat.
    let first = signs(limits::EFFECT_WAIT * 3).await?;
    let all = signs(stage.subject.quiet).await?;
    let waited = stage.subject.quiet.as_secs_f32();
    match all.saturating_sub(first) {
        0 => stage.failed(
            &specs::HEARTBEAT,
            format!("nothing came in {waited} s; clients give up after 30 s"),
            [],
        ),
        count => stage.passed(&specs::HEARTBEAT, format!("{count} signs of life came in {waited} s")),
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
