//! Checks the manifest against the producer's behaviour.

use std::collections::BTreeSet;

use recount_aaep::rule::{Profile, Severity};
use recount_aaep::session::{Checker, Options};
use serde_json::Value;

use crate::conformance::producer::harness::{Harness, PartError};
use crate::conformance::producer::specs;
use crate::conformance::transcript::Scope;
use crate::link::Target;
use crate::link::call::Caller;
use crate::scenario::Scenario;

/// The path of manifests.
const MANIFEST_PATH: &str = "/.well-known/aaep-manifest.json";

/// Fetches the manifest.
pub(super) async fn fetch(harness: &Harness<'_>) -> Result<Value, PartError> {
    let address = match &harness.target {
        Target::Http { base, .. } => base.clone(),
        Target::WebSocket { url } => url.replacen("ws", "http", 1),
        Target::Command { .. } => return Err("a command has no manifest of its own".to_owned()),
    };
    let (scheme, rest) = address.split_once("://").unwrap_or(("http", &address));
    let origin = format!("{scheme}://{}", rest.split(['/', '?']).next().unwrap_or_default());
    let caller = Caller::new(&origin, harness.subject.token.as_deref(), harness.patience())
        .map_err(|why| why.to_string())?;
    // If several producers share a server, it may also be beside the protocol's paths.
    let beside = address.split("/aaep/v1").next().unwrap_or(&address).trim_end_matches('/').to_owned();
    let mut last = String::new();
    for base in BTreeSet::from([beside, origin]) {
        let url = format!("{base}{MANIFEST_PATH}");
        match caller.get(&url).await {
            Ok(reply) if reply.is_success() => {
                let manifest = serde_json::from_slice(&reply.body);
                return manifest.map_err(|why| format!("{url} is not JSON: {why}"));
            }
            Ok(reply) => last = format!("{url} returned {}", reply.status),
            Err(why) => last = why.to_string(),
        }
    }
    Err(last)
}

pub(super) async fn run(harness: &Harness<'_>) -> Result<(), PartError> {
    let manifest = match fetch(harness).await {
        Ok(manifest) => manifest,
        Err(_) if matches!(harness.target, Target::Command { .. }) => {
            harness.inapplicable(&specs::MANIFEST, "a command has no manifest of its own");
            return several(harness, &Value::Null).await;
        }
        Err(why) => {
            harness.failed(&specs::MANIFEST, why, []);
            return several(harness, &Value::Null).await;
        }
    };
    let mut amiss = wrong_form(&manifest.to_string());
    let list = |name: &str| manifest.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
    let level = u64::from(harness.level);
    if !list("conformance_levels_supported").iter().any(|one| one.as_u64() == Some(level)) {
        amiss.push(format!("`conformance_levels_supported` does not name level {level}, which is tested"));
    }
    if !list("aaep_versions_supported")
        .iter()
        .any(|one| one.as_str().is_some_and(|one| one.starts_with("1.")))
    {
        amiss.push("`aaep_versions_supported` names no version 1".to_owned());
    }
    let transport = if matches!(harness.target, Target::WebSocket { .. }) { "websocket" } else { "sse" };
    if !list("transports_supported").iter().any(|one| one == transport) {
        amiss.push(format!("`transports_supported` does not name `{transport}`, which is in use"));
    }
    let conversation = harness.listen("the behaviour declared by the manifest", Scope::Whole).await?;
    let session = harness.begin(&conversation, Scenario::Brief).await;
    if let Ok(session) = &session {
        harness.end_of(&conversation, session).await;
    }
    let own = manifest.get("agent_id").and_then(Value::as_str).unwrap_or_default();
    let emitted = list("event_types_emitted");
    conversation.read(|lines| {
        for line in lines.iter().filter(|line| line.is_event()) {
            let agent = line.json.get("producer").and_then(|producer| producer.get("agent_id"));
            if agent.and_then(Value::as_str) != Some(own) {
                amiss.push(format!(
                    "`agent_id` is `{own}` and events come from {}",
                    agent.unwrap_or(&Value::Null)
                ));
                break;
            }
            let patterns = recount_aaep::wire::EventFilters {
                include: Some(emitted.iter().filter_map(Value::as_str).map(str::to_owned).collect()),
                exclude: None,
            };
            let name = match line.kind() {
                Some(kind) => kind.compact(),
                None => line.type_name(),
            };
            if !emitted.is_empty() && !patterns.pass(name) {
                amiss.push(format!("`event_types_emitted` does not name `{name}`"));
                break;
            }
        }
    });
    harness.finish(conversation).await;
    match amiss.as_slice() {
        [] => harness
            .passed(&specs::MANIFEST, format!("`{own}`, levels {:?}", list("conformance_levels_supported"))),
        _ => harness.failed(&specs::MANIFEST, "it does not agree", amiss),
    }
    several(harness, &manifest).await?;
    session.map(|_| ())
}

/// The rules' findings on the manifest.
fn wrong_form(text: &str) -> Vec<String> {
    let mut checker = Checker::new(Options { profile: Profile::Strict, ..Options::default() });
    checker.text(1, text);
    let errors = checker.take().into_iter().filter(|finding| finding.severity == Severity::Error);
    errors.map(|finding| finding.to_string()).collect()
}

/// Checks whether a producer with several agents per session declares how it handles them.
async fn several(harness: &Harness<'_>, manifest: &Value) -> Result<(), PartError> {
    let agents = harness.agents_per_session();
    match (agents, manifest.get("multi_agent_pattern").is_some()) {
        (0 | 1, _) => harness.inapplicable(&specs::SEVERAL_AGENTS, "every session had one agent"),
        (_, true) => harness.passed(&specs::SEVERAL_AGENTS, ""),
        (count, false) => harness.failed(
            &specs::SEVERAL_AGENTS,
            format!("a session had {count} agents, but the manifest has no `multi_agent_pattern`"),
            [],
        ),
    }
    Ok(())
}
