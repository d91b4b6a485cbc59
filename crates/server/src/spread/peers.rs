//! Requests of the main server to the servers that have tenants: about tenants, keys, checks, metrics and the audit trail.

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use axum::body::Body;
use http::{Method, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use recount_api::admin::{Check, Checkup, SigningKey, SigningKeys};
use recount_event::Code;
use recount_face_aep::Refusal;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::forward::{exchange, own_request};
use crate::audit::{Audit, RelayRequest, RelayedEvents};
use crate::forwarding::ForwardTarget;
use crate::limits;
use crate::tenants::Tenants;

/// Paths of these requests.
pub(crate) const TENANTS: &str = "/tenants/";
pub(crate) const LOOK: &str = "/look";
pub(crate) const AUDIT: &str = "/audit";
pub(crate) const KEYS: &str = "/keys";
pub(crate) const CHECKS: &str = "/checks";
pub(crate) const METRICS: &str = "/metrics";

/// Tenants are handed over to the same version only: a newer one could migrate their stores.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What a server reports to the main server, once a second.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SeenServer {
    pub(crate) version: String,
    /// Those that it serves for this main server.
    pub(crate) tenants: BTreeSet<String>,
    /// Whether it stops.
    pub(crate) is_stopping: bool,
}

impl SeenServer {
    /// Whether it takes tenants. `Err`: why not.
    pub(super) fn check(&self) -> io::Result<()> {
        if self.is_stopping {
            return Err(io::Error::other("it stops"));
        }
        if self.version != VERSION {
            let why = format!("it is of version {}, and this server of {VERSION}", self.version);
            return Err(io::Error::other(why));
        }
        Ok(())
    }
}

/// What a server reports.
pub(super) async fn look(tenants: &Tenants, target: &ForwardTarget) -> io::Result<SeenServer> {
    let body = get(tenants, target, LOOK, limits::FORWARD_WAIT).await?;
    parsed(&body)
}

/// Hands a tenant over, whose store has no owner.
pub(super) async fn hand_over(tenants: &Tenants, target: &ForwardTarget, tenant: &str) -> io::Result<()> {
    let path = format!("{TENANTS}{tenant}");
    request(tenants, target, Method::PUT, &path, Body::empty(), limits::SPREAD_WAIT).await.map(drop)
}

/// Takes a tenant back, unless one of its runs is unfinished.
pub(super) async fn give_back(tenants: &Tenants, target: &ForwardTarget, tenant: &str) -> io::Result<bool> {
    let path = format!("{TENANTS}{tenant}");
    let body = request(tenants, target, Method::DELETE, &path, Body::empty(), limits::SPREAD_WAIT).await?;
    parsed(&body)
}

/// Moves events of another server into the audit trail, until the connection to it fails.
pub(super) async fn relay_audit(tenants: &Tenants, target: &ForwardTarget, audit: &Audit) -> io::Result<()> {
    let mut more = RelayRequest::default();
    loop {
        let body = serde_json::to_vec(&more).map_err(io::Error::other)?;
        let patience = limits::RELAY_POLL + limits::FORWARD_WAIT;
        let body = request(tenants, target, Method::POST, AUDIT, Body::from(body), patience).await?;
        let RelayedEvents { relay, next, events } = parsed(&body)?;
        let mut recorded = next - events.len() as u64;
        for event in events {
            let mut facts = event.facts;
            facts["server"] = target.address.clone().into();
            if !audit.record_relayed(&event.event_type, facts).await {
                // The trail takes no events now. This one is requested again.
                tokio::time::sleep(limits::STANDBY_RETRY).await;
                break;
            }
            recorded += 1;
        }
        more = RelayRequest { relay: Some(relay), recorded };
    }
}

/// Adds the public keys of tenants at other servers.
pub(crate) async fn add_keys(keys: &mut Vec<SigningKey>, tenants: &Tenants) -> Result<(), Refusal> {
    for target in tenants.other_servers() {
        let found = get(tenants, &target, KEYS, limits::PEER_WAIT)
            .await
            .and_then(|body| parsed::<SigningKeys>(&body));
        let found = found.map_err(|error| {
            let detail = format!("the server at {} has keys and does not respond: {error}", target.address);
            Refusal::new(Code::StoreUnavailable, detail)
        })?;
        keys.extend(found.keys);
    }
    Ok(())
}

/// Adds the checks of tenants at other servers.
pub(crate) async fn add_checks(checks: &mut Vec<Check>, tenants: &Tenants, full: bool) {
    for target in tenants.other_servers() {
        let path = format!("{CHECKS}?full={full}");
        let found =
            get(tenants, &target, &path, limits::SPREAD_WAIT).await.and_then(|body| parsed::<Checkup>(&body));
        let name = format!("server {}", target.address);
        match found {
            Ok(Checkup { checks: found }) => {
                checks.push(Check::fine(&name, "responds, and serves tenants"));
                checks.extend(found);
            }
            Err(error) => {
                let advice = "see its log; if it has failed, its tenants are served here after its lease";
                checks.push(Check::problem(&name, format!("does not respond: {error}"), advice));
            }
        }
    }
}

/// The metrics of the servers that have tenants, by their addresses. A server that does not respond is missing.
pub(crate) async fn add_metrics(page: String, tenants: &Tenants) -> String {
    let mut page = page;
    for target in tenants.other_servers() {
        match get(tenants, &target, METRICS, limits::PEER_WAIT).await {
            Ok(body) => page = merged(&page, &String::from_utf8_lossy(&body), &target.address),
            Err(error) => {
                tracing::warn!(server = target.address, %error, "cannot read the metrics of a server")
            }
        }
    }
    page
}

/// A page with the samples of another one, which get the label `server`.
fn merged(page: &str, other: &str, server: &str) -> String {
    let mut families: Vec<(&str, Vec<String>)> = Vec::new();
    let mut rest = other.lines();
    for line in rest.by_ref() {
        match line.strip_prefix("# TYPE ").and_then(|about| about.split(' ').next()) {
            Some(name) => families.push((name, vec![line.to_owned()])),
            None if line == "# EOF" => {}
            None => {
                let labelled = labelled(line, server);
                families.iter_mut().last().into_iter().for_each(|(_, lines)| lines.push(labelled.clone()));
            }
        }
    }
    let mut out = String::with_capacity(page.len() + other.len());
    let mut family = None;
    let mut finish = |out: &mut String, family: Option<&str>| {
        let Some(at) = families.iter().position(|(name, _)| Some(*name) == family) else { return };
        let (_, lines) = families.remove(at);
        lines.iter().filter(|line| !line.starts_with('#')).for_each(|line| {
            out.push_str(line);
            out.push('\n');
        });
    };
    for line in page.lines() {
        let begins = line.strip_prefix("# TYPE ").and_then(|about| about.split(' ').next());
        if begins.is_some() || line == "# EOF" {
            finish(&mut out, family);
            family = begins;
        }
        if line != "# EOF" {
            out.push_str(line);
            out.push('\n');
        }
    }
    for line in families.iter().flat_map(|(_, lines)| lines) {
        out.push_str(line);
        out.push('\n');
    }
    out + "# EOF\n"
}

/// A sample with one more label.
fn labelled(line: &str, server: &str) -> String {
    if line.starts_with('#') {
        return line.to_owned();
    }
    let end = line.find(['{', ' ']).unwrap_or(line.len());
    let (name, rest) = line.split_at(end);
    match rest.strip_prefix('{') {
        Some(labels) => format!("{name}{{server=\"{server}\",{labels}"),
        None => format!("{name}{{server=\"{server}\"}}{rest}"),
    }
}

async fn get(
    tenants: &Tenants,
    target: &ForwardTarget,
    path: &str,
    patience: Duration,
) -> io::Result<Vec<u8>> {
    request(tenants, target, Method::GET, path, Body::empty(), patience).await
}

async fn request(
    tenants: &Tenants,
    target: &ForwardTarget,
    method: Method,
    path: &str,
    body: Body,
    patience: Duration,
) -> io::Result<Vec<u8>> {
    let exchanged = async {
        let response = exchange(own_request(method, path, body), target, None, tenants).await?;
        let status = response.status();
        let body = Limited::new(response.into_body(), limits::PEER_RESPONSE_BYTES_MAX).collect().await;
        let body = body.map_err(io::Error::other)?.to_bytes().to_vec();
        match status {
            StatusCode::OK => Ok(body),
            _ => Err(io::Error::other(format!("{status}: {}", String::from_utf8_lossy(&body)))),
        }
    };
    tokio::time::timeout(patience, exchanged).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

fn parsed<T: DeserializeOwned>(body: &[u8]) -> io::Result<T> {
    serde_json::from_slice(body).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_merged_by_family() {
        let page = "# TYPE a counter\n# HELP a A.\na_total 1\n# TYPE b gauge\nb{x=\"1\"} 2\n# EOF\n";
        let other = "# TYPE b gauge\nb{x=\"1\"} 3\n# TYPE c gauge\n# HELP c C.\nc 4\n# TYPE a counter\na_total 5\n# EOF\n";
        let expected = "# TYPE a counter\n# HELP a A.\na_total 1\na_total{server=\"h:1\"} 5\n# TYPE b gauge\n\
                        b{x=\"1\"} 2\nb{server=\"h:1\",x=\"1\"} 3\n# TYPE c gauge\n# HELP c C.\nc{server=\"h:1\"} 4\n# EOF\n";
        assert_eq!(merged(page, other, "h:1"), expected);
        assert_eq!(merged(page, "# EOF\n", "h:1"), page);
    }
}
