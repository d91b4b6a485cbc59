//! A short conversation for each fault that makes it visible. The output of a correct producer is the same each time:
//! ids and times are normalized, keeping only their relations.
#![allow(clippy::unwrap_used, reason = "it is part of the tests")]

use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::Duration;

use futures_util::StreamExt as _;
use recount_aaep_kit::World;
use recount_aaep_kit::aaep::lex::time::Moment;
use recount_aaep_kit::aaep::wire::Timestamp;
use recount_aaep_kit::limits;
use recount_aaep_kit::scenario::Scenario;
use recount_aaep_kit::scripted::{Behaviour, Fault, Scripted};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use crate::scripted::peer::{Peer, Surface, everything, http};

/// The silence that counts as the end.
const SILENCE: Duration = Duration::from_millis(500);

/// The producer's behaviour in a probe, except for its fault.
pub(crate) fn behaviour(fault: Fault) -> Behaviour {
    let mut behaviour = Behaviour {
        timeout_seconds: 1,
        pause_ms: 0,
        heartbeat_ms: 60,
        grace_ms: 100,
        ..Behaviour::default()
    };
    match fault {
        Fault::EventsUnguarded | Fault::RepliesUnguarded | Fault::SubscriptionIdAdmits => {
            behaviour.token = Some("open-sesame".into());
        }
        Fault::PromptOutlivesReaders
        | Fault::NoSummary
        | Fault::ForgedReplyTaken
        | Fault::StrangersReplyTaken
        | Fault::OpenPromptForgotten => {
            behaviour.timeout_seconds = 30;
        }
        _ => {}
    }
    behaviour
}

/// The output that shows the fault, for a producer with or without it.
pub(crate) async fn observe(fault: Fault, behaviour: Behaviour) -> String {
    let producer = Scripted::start(&World::real(), behaviour).await.unwrap();
    let output = look(fault, producer.base()).await;
    producer.stop().await;
    output
}

async fn look(fault: Fault, base: &str) -> String {
    use Scenario as S;
    let accept = json!({"decision": "accept"});
    let reject = json!({"decision": "reject"});
    let lima = json!({"response": "Lima"});
    let null = Value::Null;
    match fault {
        Fault::TypeUndefined => play(base, everything(), &[S::Progress], &null).await,
        Fault::TerseLeavesOut => {
            play(base, json!({"preferred_verbosity": "terse"}), &[S::Progress], &null).await
        }
        Fault::SessionIdReused => play(base, everything(), &[S::Brief, S::Brief], &null).await,
        Fault::SequenceGaps => {
            play(base, json!({"event_filters": {"exclude": ["aaep:agent.tool.*"]}}), &[S::Tool], &null).await
        }
        Fault::ErrorNotCritical | Fault::ErrorCategoryUnknown => {
            play(base, everything(), &[S::Error], &null).await
        }
        Fault::ToolTimeoutUnreported => play(base, everything(), &[S::ToolTimeout], &null).await,
        Fault::SecretsEchoed => play(base, everything(), &[S::Secrets], &null).await,
        Fault::PositionInBytes => play(base, everything(), &[S::LongStream], &null).await,
        Fault::BoundariesIgnored | Fault::TextLost | Fault::TextDoubled => {
            play(base, json!({"coalesce_boundaries": ["sentence"]}), &[S::LongStream], &null).await
        }
        Fault::PositionFalls
        | Fault::CompleteTwice
        | Fault::OutputLeftOpen
        | Fault::PieceBehindComplete
        | Fault::HintMissing => play(base, everything(), &[S::Stream], &null).await,
        Fault::PromptNotCritical
        | Fault::TokenForm
        | Fault::DefaultAccepts
        | Fault::IrreversibleUnasked
        | Fault::NotDoneAfterAccept => play(base, everything(), &[S::Irreversible], &accept).await,
        Fault::TokenReused => play(base, everything(), &[S::Confirm, S::Confirm], &accept).await,
        Fault::DoneAfterReject | Fault::NoFollowUp => {
            play(base, everything(), &[S::Irreversible], &reject).await
        }
        Fault::NotBlocking | Fault::DoneAfterTimeout => play(base, everything(), &[S::Confirm], &null).await,
        Fault::SecondPrompt => play(base, everything(), &[S::Twice], &accept).await,
        Fault::QuestionNotCritical | Fault::KindsUntrue => {
            play(base, everything(), &[S::Clarify], &lima).await
        }
        Fault::QuestionNeverResolved | Fault::TimeoutNever | Fault::TimeoutLate | Fault::TimeoutEarly => {
            resolution(base, if fault == Fault::QuestionNeverResolved { S::Clarify } else { S::Confirm })
                .await
        }
        Fault::HandoffNotCritical | Fault::HandoffMissing => {
            play(base, everything(), &[S::Handoff], &null).await
        }
        Fault::LargeEventsCut => large(base).await,
        Fault::MuteSubscribersPrompted => {
            play(base, json!({"supports_confirmation_reply": false}), &[S::Confirm], &null).await
        }
        Fault::ResolutionUnreported => resolution_unreported(base).await,
        Fault::PromptOutlivesReaders => outlived_prompt(base).await,
        Fault::AllowedRepliesIgnored => replies(base, S::Confirm, &[json!({"decision": "defer"})]).await,
        Fault::ForgedReplyTaken | Fault::ReplyReveals => {
            replies(base, S::Confirm, &[json!({"decision": "accept", "reply_token": "rpl_forged"})]).await
        }
        Fault::SecondReplyTaken => replies(base, S::Confirm, &[reject, accept]).await,
        Fault::ModifiedActionTaken => {
            replies(base, S::Confirm, &[json!({"decision": "accept", "modified_action": {"room": "red"}})])
                .await
        }
        Fault::WrongKindTaken => replies(base, S::Clarify, &[json!({"response": true}), lima]).await,
        Fault::ForeignChoiceTaken => replies(base, S::Clarify, &[json!({"response": "Paris"}), lima]).await,
        Fault::LateReplyTaken => late(base).await,
        Fault::StrangersReplyTaken => stranger(base).await,
        Fault::HandshakeUnanswered => ask(base, "1.0.0", everything()).await,
        Fault::MalformedUnanswered => {
            subscribe(base, &json!({"type": "subscription.request", "aaep_version": "1.0.0"})).await.1
        }
        Fault::RateRaised
        | Fault::LanguagesWidened
        | Fault::BoundariesWidened
        | Fault::LevelsWidened
        | Fault::ExtensionsWidened
        | Fault::RepliesRaised
        | Fault::FiltersWidened => {
            let narrow = json!({"max_events_per_second": 5, "languages": ["en-US"], "coalesce_boundaries": ["sentence"],
                "supported_conformance_levels": [1], "supported_extensions": [],
                "event_filters": {"exclude": ["aaep:agent.progress.*"]}});
            ask(base, "1.0.0", narrow).await
        }
        Fault::SignedOnlyAccepted => ask(base, "1.0.0", json!({"accept_signed_manifests_only": true})).await,
        Fault::UnknownCapabilityRejected => ask(base, "1.0.0", json!({"zz": {"depth": 3}})).await,
        Fault::UnknownVersionAccepted => ask(base, "99.99.99", json!({})).await,
        Fault::NeverFull => full(base).await,
        Fault::LanguageKeepsSilent => play(base, json!({"languages": ["tlh"]}), &[S::Brief], &null).await,
        Fault::ExcludeIgnored => {
            let filters = json!({"include": ["aaep:agent.tool.*"], "exclude": ["aaep:agent.tool.completed"]});
            play(base, json!({"event_filters": filters}), &[S::Tool], &null).await
        }
        Fault::CriticalFiltered => {
            let filters = json!({"include": ["aaep:agent.session.*"]});
            play(base, json!({"event_filters": filters}), &[S::Handoff], &null).await
        }
        Fault::CriticalDelayed => delay(base).await,
        Fault::RateIgnored | Fault::RateInWindows => rate(base).await,
        Fault::RenegotiateIgnored | Fault::RenegotiateUnanswered => renegotiated(base).await,
        Fault::EventsAfterClose => closed(base).await,
        Fault::SlowReaderStalls => stalled(base).await,
        Fault::ResumeIgnored | Fault::ResumeLoses | Fault::ResumeRenames => resumed(base).await,
        Fault::NoSummary => during_session(base).await,
        Fault::HeartbeatMissing => quiet(base).await,
        Fault::ManifestMissing | Fault::ManifestUntrue => {
            let answer = http().get(format!("{base}/.well-known/aaep-manifest.json")).send().await.unwrap();
            format!("{}\n{}", answer.status(), answer.text().await.unwrap())
        }
        Fault::EventsUnguarded => status(base, "/events", None).await,
        Fault::RepliesUnguarded => status(base, "/aaep/v1/replies", Some("{}")).await,
        Fault::SubscriptionIdAdmits => {
            let peer = Peer::with_token(base, Surface::Versioned, None, Some("open-sesame")).await;
            status(base, &format!("/aaep/v1/events?subscription_id={}", peer.subscription), None).await
        }
        _ => look_at_open_prompt(fault, base).await,
    }
}

async fn look_at_open_prompt(fault: Fault, base: &str) -> String {
    match fault {
        Fault::OpenPromptForgotten => prompt_of_a_new_subscription(base).await,
        Fault::PromptBeforeState => course_of_a_prompt(base, everything()).await,
        Fault::OutcomeMerged | Fault::PromptOvertakesState => {
            let mut capabilities = everything();
            capabilities["max_events_per_second"] = json!(5);
            course_of_a_prompt(base, capabilities).await
        }
        _ => play(base, everything(), &[Scenario::Tool], &Value::Null).await,
    }
}

/// Plays scenarios and returns everything.
async fn play(base: &str, capabilities: Value, scenarios: &[Scenario], answer: &Value) -> String {
    let mut peer = Peer::open(base, Surface::Versioned, Some(capabilities)).await;
    for scenario in scenarios {
        peer.input(scenario.text()).await;
        to_the_end(&mut peer, answer).await;
    }
    normal(&peer.lines)
}

/// Reads until a session has ended and no more messages arrive.
async fn to_the_end(peer: &mut Peer, answer: &Value) {
    let mut ended = false;
    let mut patience = Duration::from_secs(3);
    while let Some(event) = peer.next_within(if ended { SILENCE / 5 } else { patience }).await {
        patience = SILENCE * 3;
        let kind = event["type"].as_str().unwrap_or_default();
        ended |= kind.ends_with("session.completed") || kind.ends_with("session.errored");
        if kind.contains("awaiting") && !answer.is_null() {
            let reply = peer.reply(&event, answer);
            peer.send(&reply).await;
        }
    }
}

async fn prompt(peer: &mut Peer) -> Value {
    loop {
        let event = peer.next().await.unwrap();
        if event["type"].as_str().unwrap_or_default().contains("awaiting") {
            return event;
        }
    }
}

/// When a prompt without a reply is settled, relative to its timeout.
async fn resolution(base: &str, scenario: Scenario) -> String {
    let mut peer = Peer::open(base, Surface::Versioned, Some(everything())).await;
    peer.input(scenario.text()).await;
    let prompted_at = moment(&prompt(&mut peer).await);
    match peer.next_within(Duration::from_secs(4)).await.map(|event| moment(&event) - prompted_at) {
        None => "never".into(),
        Some(after_ms) if after_ms < 1_000 => "early".into(),
        Some(after_ms) if after_ms < 2_400 => "in time".into(),
        Some(_) => "late".into(),
    }
}

/// The timestamp of an event, in milliseconds.
fn moment(event: &Value) -> i64 {
    Timestamp::new(event["timestamp"].as_str().unwrap()).unwrap().millis()
}

async fn large(base: &str) -> String {
    let mut peer = Peer::open(base, Surface::Versioned, Some(everything())).await;
    peer.input(Scenario::Handoff.text()).await;
    to_the_end(&mut peer, &Value::Null).await;
    let whole = peer.lines.iter().map(|line| serde_json::from_str::<Value>(line).is_ok());
    format!("{:?}", whole.collect::<Vec<_>>())
}

async fn resolution_unreported(base: &str) -> String {
    let mut second = Peer::open(base, Surface::Versioned, Some(everything())).await;
    let mut first = Peer::open(base, Surface::Versioned, Some(everything())).await;
    first.input(Scenario::Confirm.text()).await;
    to_the_end(&mut first, &json!({"decision": "accept"})).await;
    to_the_end(&mut second, &Value::Null).await;
    normal(&second.lines)
}

async fn outlived_prompt(base: &str) -> String {
    let deaf = json!({"supports_confirmation_reply": false});
    let mut listens = Peer::open(base, Surface::Versioned, Some(deaf)).await;
    let mut peer = Peer::open(base, Surface::Versioned, Some(everything())).await;
    peer.input(Scenario::Confirm.text()).await;
    prompt(&mut peer).await;
    peer.cut().await;
    to_the_end(&mut listens, &Value::Null).await;
    normal(&listens.lines)
}

/// Whether a subscription that is made during an open prompt gets it.
async fn prompt_of_a_new_subscription(base: &str) -> String {
    let mut first = Peer::open(base, Surface::Versioned, Some(everything())).await;
    first.input(Scenario::Confirm.text()).await;
    prompt(&mut first).await;
    let mut second = Peer::open(base, Surface::Versioned, Some(everything())).await;
    let mut is_prompted = false;
    while let Some(event) = second.next_within(SILENCE).await {
        is_prompted |= event["type"].as_str().unwrap_or_default().contains("awaiting");
    }
    format!("prompted: {is_prompted}")
}

/// The prompt, and the states that open and end it, in order.
async fn course_of_a_prompt(base: &str, capabilities: Value) -> String {
    let mut peer = Peer::open(base, Surface::Versioned, Some(capabilities)).await;
    peer.input(Scenario::Confirm.text()).await;
    to_the_end(&mut peer, &json!({"decision": "accept"})).await;
    let course = peer.lines.iter().filter_map(|line| {
        let event: Value = serde_json::from_str(line).ok()?;
        match (event["type"].as_str()?, event["from_state"].as_str(), event["to_state"].as_str()) {
            (kind, ..) if kind.contains(".awaiting.") => Some("prompt"),
            (_, _, Some("awaiting_input")) => Some("opens"),
            (_, Some("awaiting_input"), _) => Some("ends"),
            _ => None,
        }
    });
    course.collect::<Vec<_>>().join(" ")
}

/// The effect of replies to one prompt, each with its response.
async fn replies(base: &str, scenario: Scenario, replies: &[Value]) -> String {
    let mut peer = Peer::open(base, Surface::Versioned, Some(everything())).await;
    peer.input(scenario.text()).await;
    let prompt = prompt(&mut peer).await;
    let mut output = String::new();
    for reply in replies {
        let reply = peer.reply(&prompt, reply);
        let (status, body) = peer.send(&reply).await;
        let received = peer.next_within(SILENCE / 2).await;
        let received = received.map(|event| event["summary_normal"].clone());
        writeln!(output, "{status} {body} {received:?}").unwrap();
    }
    if !output.contains("None") {
        to_the_end(&mut peer, &Value::Null).await;
        output.push_str(&normal(&peer.lines));
    }
    output
}

async fn late(base: &str) -> String {
    let mut peer = Peer::open(base, Surface::Versioned, Some(everything())).await;
    peer.input(Scenario::Confirm.text()).await;
    let prompt = prompt(&mut peer).await;
    peer.next().await.unwrap();
    let reply = peer.reply(&prompt, &json!({"decision": "accept"}));
    peer.send(&reply).await;
    to_the_end(&mut peer, &Value::Null).await;
    format!("{}", peer.lines.iter().any(|line| line.contains("tool.invoked")))
}

async fn stranger(base: &str) -> String {
    let deaf = json!({"supports_confirmation_reply": false});
    let stranger = Peer::open(base, Surface::Versioned, Some(deaf)).await;
    let mut peer = Peer::open(base, Surface::Versioned, Some(everything())).await;
    peer.input(Scenario::Confirm.text()).await;
    let prompt = prompt(&mut peer).await;
    let reply = stranger.reply(&prompt, &json!({"decision": "accept"}));
    let (status, body) = stranger.post("/aaep/v1/replies", &reply).await;
    let received = peer.next_within(SILENCE / 2).await.map(|event| event["summary_normal"].clone());
    format!("{status} {body} {received:?}")
}

async fn subscribe(base: &str, request: &Value) -> (u16, String) {
    let answer =
        http().post(format!("{base}/aaep/v1/subscriptions")).body(request.to_string()).send().await.unwrap();
    let status = answer.status().as_u16();
    let text = answer.text().await.unwrap();
    (status, format!("{status}\n{}", normal(&[text])))
}

async fn ask(base: &str, version: &str, capabilities: Value) -> String {
    let request = json!({"type": "subscription.request", "aaep_version": version, "subscriber_id": "test",
        "capabilities": capabilities});
    subscribe(base, &request).await.1.replace(base, "")
}

async fn full(base: &str) -> String {
    let manifest = http().get(format!("{base}/.well-known/aaep-manifest.json")).send().await.unwrap();
    let manifest: Value = serde_json::from_str(&manifest.text().await.unwrap()).unwrap();
    let request = json!({"type": "subscription.request", "aaep_version": "1.0.0", "subscriber_id": "test",
        "capabilities": {}});
    let mut last = 0;
    for _ in 0..=manifest["max_concurrent_subscriptions"].as_u64().unwrap() {
        last = subscribe(base, &request).await.0;
    }
    format!("the last one: {last}")
}

/// How often a rate or delay that looks wrong is measured again: a busy machine delays messages, but a fault shows
/// each time.
const TRIES: usize = 6;

async fn delay(base: &str) -> String {
    let mut peer = Peer::open(base, Surface::Versioned, Some(everything())).await;
    let mut is_late = true;
    for _ in 0..TRIES {
        peer.input(Scenario::Confirm.text()).await;
        let event = prompt(&mut peer).await;
        let made_ms = millis(&event);
        let late_ms = i64::try_from(World::real().clock.now_ms()).unwrap() - made_ms;
        peer.through(&Value::Null, &Value::Null).await;
        if late_ms < i64::try_from(limits::SCRIPTED_CRITICAL_DELAY_MS).unwrap() {
            is_late = false;
            break;
        }
    }
    format!("late: {is_late}")
}

/// When the producer built an event.
fn millis(event: &Value) -> i64 {
    Moment::parse(event["timestamp"].as_str().unwrap()).unwrap().millis()
}

async fn rate(base: &str) -> String {
    let mut peer = Peer::open(base, Surface::Versioned, Some(json!({"max_events_per_second": 8}))).await;
    let mut is_too_fast = true;
    for _ in 0..TRIES {
        peer.input(Scenario::Progress.text()).await;
        let mut times = Vec::new();
        while peer.next_within(SILENCE * 3).await.is_some() {
            times.push(recount_world::moment());
        }
        let within = |from: &tokio::time::Instant| {
            times.iter().filter(|time| **time >= *from && **time < *from + Duration::from_millis(950)).count()
        };
        if times.iter().map(within).max().unwrap() <= 8 {
            is_too_fast = false;
            break;
        }
    }
    format!("a second is too full: {is_too_fast}")
}

async fn renegotiated(base: &str) -> String {
    let mut peer = Peer::open(base, Surface::Versioned, Some(everything())).await;
    let wish = json!({"type": "subscription.renegotiate", "subscription_id": peer.subscription,
        "capabilities": {"event_filters": {"exclude": ["aaep:agent.tool.*"]}}});
    let (status, body) = peer.send(&wish).await;
    peer.lines.push(body);
    peer.input(Scenario::Tool.text()).await;
    to_the_end(&mut peer, &Value::Null).await;
    format!("{status}\n{}", normal(&peer.lines).replace(base, ""))
}

async fn closed(base: &str) -> String {
    let mut peer = Peer::open(base, Surface::Versioned, Some(everything())).await;
    let close = json!({"type": "subscription.close", "subscription_id": peer.subscription,
        "reason_code": "subscriber_shutdown", "reason_message": "The test is over."});
    peer.send(&close).await;
    peer.input(Scenario::Brief.text()).await;
    to_the_end(&mut peer, &Value::Null).await;
    normal(&peer.lines).replace(base, "")
}

async fn stalled(base: &str) -> String {
    let mut deaf = tokio::net::TcpStream::connect(base.trim_start_matches("http://")).await.unwrap();
    deaf.write_all(b"GET /events HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut peer = Peer::open(base, Surface::Versioned, Some(everything())).await;
    // Wait until the unread stream is open.
    loop {
        let health = http().get(format!("{base}/healthz")).send().await.unwrap().text().await.unwrap();
        if health.contains("\"subscriptions\":2") {
            break;
        }
    }
    // Uses the producer's timestamps. A producer that waits for a reader waits at each later event; a busy machine
    // delays only some.
    let stall_ms = i64::try_from(limits::SCRIPTED_STALL.as_millis()).unwrap();
    let mut is_stalled = false;
    for _ in 0..60 {
        peer.input(Scenario::Handoff.text()).await;
        let made_ms: Vec<i64> = peer.through(&Value::Null, &Value::Null).await.iter().map(millis).collect();
        is_stalled = made_ms.len() > 2 && made_ms.windows(2).all(|pair| pair[1] - pair[0] >= stall_ms - 1);
        if is_stalled {
            break;
        }
    }
    drop(deaf);
    format!("stalled: {is_stalled}")
}

async fn resumed(base: &str) -> String {
    let mut other = Peer::open(base, Surface::Versioned, Some(everything())).await;
    let mut peer = Peer::open(base, Surface::Versioned, Some(everything())).await;
    peer.input(Scenario::LongStream.text()).await;
    for _ in 0..10 {
        peer.next().await.unwrap();
    }
    peer.cut().await;
    // There is certainly something to miss.
    other.through(&Value::Null, &Value::Null).await;
    let last = peer.ids.last().unwrap().clone();
    peer.resume(&last).await;
    to_the_end(&mut peer, &Value::Null).await;
    normal(&peer.lines).replace(base, "")
}

async fn during_session(base: &str) -> String {
    let mut first = Peer::open(base, Surface::Versioned, Some(everything())).await;
    first.input(Scenario::Confirm.text()).await;
    prompt(&mut first).await;
    let mut late = Peer::open(base, Surface::Versioned, Some(everything())).await;
    let mut kinds = Vec::new();
    while let Some(event) = late.next_within(SILENCE / 2).await {
        kinds.push(event["type"].to_string());
    }
    format!("{kinds:?}")
}

async fn quiet(base: &str) -> String {
    let stream = http().get(format!("{base}/events")).send().await.unwrap();
    let mut bytes = stream.bytes_stream();
    let mut received = String::new();
    let listen = async {
        while let Some(Ok(chunk)) = bytes.next().await {
            received.push_str(&String::from_utf8_lossy(&chunk));
            if received.matches(":\n\n").count() >= 3 {
                break;
            }
        }
    };
    let lives = tokio::time::timeout(SILENCE * 4, listen).await.is_ok();
    format!("it lives: {lives}")
}

async fn status(base: &str, path: &str, body: Option<&'static str>) -> String {
    let http = http();
    let request = match body {
        Some(body) => http.post(format!("{base}{path}")).body(body),
        None => http.get(format!("{base}{path}")),
    };
    request.send().await.unwrap().status().to_string()
}

/// Lines without values that differ between runs.
fn normal(lines: &[String]) -> String {
    let mut ids: HashMap<String, String> = HashMap::new();
    let mut last_ms = HashMap::new();
    let mut output = String::new();
    for line in lines {
        let Ok(mut value) = serde_json::from_str::<Value>(line) else {
            writeln!(output, "{} bytes that are no JSON", line.len()).unwrap();
            continue;
        };
        // Handshakes contain addresses, and replies the time of the test.
        if value["type"].as_str().is_some_and(|kind| kind.ends_with(".reply")) {
            continue;
        }
        if let Some(Ok(moment)) = value["timestamp"].as_str().map(Timestamp::new) {
            let last = last_ms.insert(value["session_id"].to_string(), moment.millis());
            let falls = last.is_some_and(|last| moment.millis() < last);
            value["timestamp"] = if falls { "earlier".into() } else { "later".into() };
        } else if let Some(moment) = value["timestamp"].as_str() {
            value["timestamp"] = moment.replace(|c: char| c.is_ascii_digit(), "0").into();
        }
        for name in ["duration_ms", "eta_ms", "manifest_uri"] {
            if let Some(object) = value.as_object_mut() {
                object.remove(name);
            }
        }
        name_ids(&mut value, &mut ids);
        writeln!(output, "{value}").unwrap();
    }
    output
}

/// Replaces identifiers by names in order of occurrence; an identifier outside its grammar stays unchanged.
fn name_ids(value: &mut Value, ids: &mut HashMap<String, String>) {
    match value {
        Value::String(text) => {
            let drawn =
                text.len() >= 32 && text.as_bytes()[text.len() - 32..].iter().all(u8::is_ascii_hexdigit);
            if drawn {
                let (prefix, _) = text.split_at(text.len() - 32);
                let next = format!("{prefix}{}", ids.len());
                *text = ids.entry(text.clone()).or_insert(next).clone();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| name_ids(item, ids)),
        Value::Object(fields) => fields.values_mut().for_each(|field| name_ids(field, ids)),
        _ => {}
    }
}
