//! Checks of an irreversible action: it waits for its prompt, invalid replies have no effect, and an acceptance runs
//! it once.

use std::time::Duration;

use recount_aaep::Kind;
use serde_json::{Value, json};

use super::reply::{PromptRef, shown, with, without};
use crate::conformance::conversation::Conversation;
use crate::conformance::judge::{self, Answer, PromptStatus};
use crate::conformance::producer::harness::{Harness, PartError};
use crate::conformance::producer::specs;
use crate::conformance::report::Outcome;
use crate::conformance::transcript::LineOrigin;
use crate::limits;
use crate::link::Target;
use crate::scenario::Scenario;

pub(super) async fn action(harness: &Harness<'_>, conversations: &[Conversation]) -> Result<(), PartError> {
    let (conversation, other_subscription) = (&conversations[0], conversations.get(1));
    let prompt = match harness.prompt(conversation, Scenario::Irreversible, Kind::AwaitingConfirmation).await
    {
        Ok(prompt) => prompt,
        Err(error) => {
            let call = conversation.read(|lines| lines.iter().position(|line| line.is(Kind::ToolInvoked)));
            if let Some(call) = call {
                let evidence = conversation.read(|lines| shown(lines, [call]));
                harness.failed(&specs::CONFIRMED, "a tool was called without a prompt", evidence);
            }
            return Err(error);
        }
    };
    let early = conversation.read(|lines| {
        let before = 0..prompt;
        let call = before.rev().find(|number| judge::is_call_of(&lines[prompt], &lines[*number]));
        call.map(|call| shown(lines, [call, prompt]))
    });
    match early {
        Some(evidence) => harness.failed(
            &specs::CONFIRMED,
            "the tool was called before its confirmation was requested",
            evidence,
        ),
        None => harness.passed(&specs::CONFIRMED, "a confirmation came first"),
    }
    harness.wait(harness.silence()).await;
    check_still_waiting(harness, conversation, prompt);
    let prompt_ref = PromptRef::of(conversation, prompt);
    send_from_others(harness, conversation, other_subscription, prompt, &prompt_ref).await?;
    if conversation.read(|lines| judge::settled(lines, prompt)).is_none() {
        send_invalid_replies(harness, conversation, prompt, &prompt_ref).await?;
    }
    if conversation.read(|lines| judge::settled(lines, prompt)).is_none() {
        accept(harness, conversation, prompt, &prompt_ref).await?;
    } else {
        for spec in [&specs::DONE, &specs::REPLY_PATH, &specs::FIRST_WINS] {
            harness.not_shown(spec, "the prompt was settled before it was accepted");
        }
    }
    let Some(end) = harness.end_of_line(conversation, prompt).await else {
        harness.not_shown(&specs::LATE_REPLY, "the session did not end in time");
        return Ok(());
    };
    late(harness, conversation, prompt, end, &prompt_ref).await
}

/// Checks that nothing is done and no output implies that it is done.
fn check_still_waiting(harness: &Harness<'_>, conversation: &Conversation, prompt: usize) {
    conversation.read(|lines| {
        let went_on = judge::prompt_status(lines, prompt).line().map(|number| shown(lines, [prompt, number]));
        let waited = format!("nothing was done in {} ms", harness.silence().as_millis());
        harness.check(&specs::BLOCKED, went_on, "the producer continued before any answer", waited);
        let done =
            judge::sounds_done(lines, prompt, lines.len()).map(|line| [lines[prompt].shown(), line.shown()]);
        harness.check(&specs::SILENT, done, "this sounds done before any answer", "");
    });
}

struct InvalidReply {
    what: &'static str,
    text: String,
    /// Malformed, so an error response reveals nothing about the prompt.
    malformed: bool,
}

fn invalid_replies(
    harness: &Harness<'_>,
    conversation: &Conversation,
    prompt: usize,
    prompt_ref: &PromptRef,
) -> Vec<InvalidReply> {
    let accept = prompt_ref.decide(harness, "accept");
    let of = |what, value: Value, malformed| InvalidReply { what, text: value.to_string(), malformed };
    let draw = harness.world.entropy.draw();
    let mut all = vec![
        of(
            "with an unknown token",
            with(accept.clone(), json!({"reply_token": format!("rpl_{draw:032x}")})),
            false,
        ),
        of(
            "with the token and one more digit",
            with(accept.clone(), json!({"reply_token": format!("{}0", prompt_ref.token)})),
            false,
        ),
        of("with a clarification for a confirmation", prompt_ref.answer(harness, json!("accept")), false),
        of("with an unknown decision", with(accept.clone(), json!({"decision": "yes"})), true),
        of("with an unknown field", with(accept.clone(), json!({"surprise": true})), true),
        of("without a decision", without(accept.clone(), &["decision"]), true),
    ];
    let allowed = conversation.read(|lines| lines[prompt].json.get("allowed_replies").cloned());
    if let Some(Value::Array(allowed)) = allowed {
        let refused = ["accept", "reject"].into_iter().find(|word| !allowed.iter().any(|one| one == word));
        if let Some(word) = refused {
            all.push(of("with a decision that is not allowed", prompt_ref.decide(harness, word), false));
        }
    }
    all
}

async fn send_invalid_replies(
    harness: &Harness<'_>,
    conversation: &Conversation,
    prompt: usize,
    prompt_ref: &PromptRef,
) -> Result<(), PartError> {
    for invalid in invalid_replies(harness, conversation, prompt, prompt_ref) {
        let answer = conversation.send_ineffective(&invalid.text).await?;
        if !invalid.malformed {
            store_response(harness, format!("a reply {}", invalid.what), answer.clone());
        }
        if let Some(evidence) = effect(conversation, prompt).await {
            harness.failed(
                &specs::BAD_REPLIES,
                format!("a reply {} settled the prompt", invalid.what),
                evidence,
            );
            return Ok(());
        }
    }
    // The action may take a while to become visible.
    if conversation.until(harness.silence(), |lines| judge::settled(lines, prompt)).await.is_some() {
        let evidence = conversation.read(|lines| {
            let is_ineffective = |number: &usize| lines[*number].origin == LineOrigin::SentIneffective;
            let settled = judge::settled(lines, prompt);
            shown(
                lines,
                [prompt].into_iter().chain((prompt..lines.len()).filter(is_ineffective)).chain(settled),
            )
        });
        harness.failed(&specs::BAD_REPLIES, "one of them settled the prompt", evidence);
        return Ok(());
    }
    harness.passed(&specs::BAD_REPLIES, "none of them had an effect");
    if harness.is_strict() {
        let bare =
            without(prompt_ref.decide(harness, "accept"), &["subscription_id", "timestamp"]).to_string();
        conversation.send_ineffective(&bare).await?;
        harness.check(&specs::BARE_REPLY, effect(conversation, prompt).await, "it settled the prompt", "");
    }
    Ok(())
}

/// Whether the prompt is settled a moment later.
async fn effect(conversation: &Conversation, prompt: usize) -> Option<Vec<String>> {
    let settled = conversation.until(limits::EFFECT_WAIT, |lines| judge::settled(lines, prompt)).await?;
    Some(conversation.read(|lines| {
        let reply = lines[..settled].iter().rposition(|line| line.origin == LineOrigin::SentIneffective);
        shown(lines, [prompt].into_iter().chain(reply).chain([settled]))
    }))
}

async fn send_from_others(
    harness: &Harness<'_>,
    conversation: &Conversation,
    other_subscription: Option<&Conversation>,
    prompt: usize,
    prompt_ref: &PromptRef,
) -> Result<(), PartError> {
    unauthenticated(harness, conversation, prompt, prompt_ref).await;
    let mut settled = None;
    if harness.is_strict() && settled.is_none() {
        let unknown = format!("sub_{:032x}", harness.world.entropy.draw());
        let text =
            PromptRef { subscription: unknown, ..prompt_ref.clone() }.decide(harness, "accept").to_string();
        let answer = conversation.send_ineffective(&text).await?;
        store_response(harness, "a reply for an unknown subscription".into(), answer);
        settled = effect(conversation, prompt).await;
    }
    if let (Some(other_subscription), None) = (other_subscription, &settled) {
        let own =
            PromptRef { subscription: super::reply::subscription(other_subscription), ..prompt_ref.clone() };
        let text = own.decide(harness, "accept").to_string();
        conversation.note(LineOrigin::SentIneffective, &text);
        let answer = other_subscription.send_ineffective(&text).await?;
        store_response(harness, "a reply from a subscription that cannot reply".into(), answer);
        settled = effect(conversation, prompt).await;
    }
    match settled {
        Some(evidence) => harness.failed(&specs::STRANGER, "it settled the prompt", evidence),
        None if other_subscription.is_none() => {
            harness.inapplicable(&specs::STRANGER, "subscriptions have no individual terms here");
        }
        None => harness.passed(&specs::STRANGER, ""),
    }
    Ok(())
}

async fn unauthenticated(
    harness: &Harness<'_>,
    conversation: &Conversation,
    prompt: usize,
    prompt_ref: &PromptRef,
) {
    let spec = &specs::UNAUTHENTICATED_REPLY;
    let (caller, url) = match (&harness.unauthenticated, &harness.subject.token, harness.replies_url()) {
        (Some(caller), Some(_), Some(url)) => (caller, url),
        _ if !harness.is_shared() => {
            return harness.inapplicable(spec, "only the program that started a command can reply to it");
        }
        (_, None, _) => {
            let why = "no token was passed, so a reply without one cannot be tried; start it with one and pass \
                 --token-file";
            return harness.not_shown(spec, why);
        }
        _ => return harness.inapplicable(spec, "the connection itself is authenticated here"),
    };
    let text = prompt_ref.decide(harness, "accept").to_string();
    conversation.note(LineOrigin::SentIneffective, &text);
    let status = caller.post(&url, text.as_bytes()).await.map_or(0, |reply| reply.status);
    match effect(conversation, prompt).await {
        Some(evidence) => {
            harness.failed(spec, format!("it got {status} and settled the prompt"), evidence);
        }
        None if (200..300).contains(&status) => {
            harness.failed(spec, format!("it had no effect, and got {status}"), []);
        }
        None => harness.passed(spec, format!("it was rejected with {status}")),
    }
}

async fn accept(
    harness: &Harness<'_>,
    conversation: &Conversation,
    prompt: usize,
    prompt_ref: &PromptRef,
) -> Result<(), PartError> {
    let accept = prompt_ref.decide(harness, "accept");
    let mut done = false;
    if !harness.is_strict() {
        // Without a handshake there is no subscription id. Check whether the producer requires one anyway.
        conversation
            .send_text(&without(accept.clone(), &["subscription_id", "timestamp"]).to_string())
            .await?;
        done = conversation.until(harness.silence(), |lines| judge::settled(lines, prompt)).await.is_some();
        if done {
            let detail =
                "it settled the prompt; servers for older subscribers may accept it, others must not";
            harness.note(&specs::BARE_REPLY, Outcome::Warned, detail, []);
        } else {
            harness.passed(&specs::BARE_REPLY, "");
        }
    }
    if !done {
        let answer = conversation.send_text(&accept.to_string()).await?;
        store_response(harness, "a valid reply".into(), answer);
    }
    let called = |lines: &[crate::conformance::transcript::Line]| match judge::prompt_status(lines, prompt) {
        PromptStatus::Done(call) => Some(call),
        _ => None,
    };
    let call = conversation.until(harness.patience(), called).await;
    let settled = conversation.read(|lines| judge::settled(lines, prompt));
    match settled {
        Some(_) => harness.passed(&specs::REPLY_PATH, "the prompt was settled by it"),
        None => harness.failed(
            &specs::REPLY_PATH,
            "an acceptance had no effect",
            conversation.read(|lines| shown(lines, [prompt])),
        ),
    }
    match call {
        Some(_) => harness.passed(&specs::DONE, "its tool was called"),
        None => {
            let evidence = conversation.read(|lines| shown(lines, [prompt].into_iter().chain(settled)));
            harness.failed(&specs::DONE, "it was accepted, and its tool was not called", evidence);
            harness.not_shown(&specs::FIRST_WINS, "nothing showed that the first reply had been carried out");
            return Ok(());
        }
    }
    for (what, decision) in [("the same reply again", "accept"), ("the other decision afterwards", "reject")]
    {
        let answer = conversation.send_ineffective(&prompt_ref.decide(harness, decision).to_string()).await?;
        store_response(harness, what.into(), answer);
    }
    harness.end_of_line(conversation, prompt).await;
    conversation.read(|lines| {
        let calls = judge::calls_of(lines, prompt);
        let departures = judge::departures(lines, prompt);
        let cancelled = lines[prompt..]
            .iter()
            .position(|line| line.is(Kind::SessionCancelled) && line.session() == lines[prompt].session());
        if calls.len() > 1 || departures.len() > 1 {
            let evidence = shown(lines, calls.into_iter().chain(departures));
            harness.failed(&specs::FIRST_WINS, "more than one reply took effect", evidence);
        } else if let Some(at) = cancelled {
            let evidence = shown(lines, [prompt + at]);
            harness.failed(&specs::FIRST_WINS, "the second reply ended what the first had allowed", evidence);
        } else {
            harness.passed(&specs::FIRST_WINS, "the tool was called once");
        }
    });
    Ok(())
}

async fn late(
    harness: &Harness<'_>,
    conversation: &Conversation,
    prompt: usize,
    end: usize,
    prompt_ref: &PromptRef,
) -> Result<(), PartError> {
    for decision in ["accept", "reject"] {
        let answer = conversation.send_ineffective(&prompt_ref.decide(harness, decision).to_string()).await?;
        store_response(harness, "a reply after the end of its session".into(), answer);
    }
    harness.wait(harness.silence().min(Duration::from_millis(200))).await;
    conversation.read(|lines| {
        let session = lines[prompt].session();
        let more = (end + 1..lines.len())
            .find(|number| lines[*number].is_event() && lines[*number].session() == session);
        let more = more.map(|number| shown(lines, [end, number]));
        harness.check(&specs::LATE_REPLY, more, "the session went on", "");
    });
    harness
        .ended_tokens
        .lock()
        .expect("no code panics while holding this lock")
        .push(prompt_ref.token.clone());
    Ok(())
}

/// Stores the response to a reply that must have no effect.
pub(super) fn store_response(harness: &Harness<'_>, what: String, answer: Option<Answer>) {
    if let Some(answer) = answer {
        harness
            .bad_reply_responses
            .lock()
            .expect("no code panics while holding this lock")
            .push((what, answer));
    }
}

/// At the end of a run: checks that all invalid replies got the same response.
pub(in crate::conformance::producer) fn check_equal_responses(harness: &Harness<'_>) {
    let answers = harness.bad_reply_responses.lock().expect("no code panics while holding this lock").clone();
    if answers.len() < 2 && !matches!(harness.target, Target::Http { .. }) {
        return harness.inapplicable(&specs::ALIKE, "on this transport a reply has no response");
    }
    if answers.len() < 2 {
        return harness.not_shown(
            &specs::ALIKE,
            "fewer than two invalid replies got a response; only HTTP responds to replies",
        );
    }
    match judge::unlike(&answers) {
        None => harness.passed(
            &specs::ALIKE,
            format!("{} of them, as is one that counts: {}", answers.len() - 1, answers[0].1.shown()),
        ),
        Some([one, other]) => harness.failed(
            &specs::ALIKE,
            "the response reveals whether a reply had an effect, or why not",
            [one, other].map(|(what, answer)| format!("{what}: {}", answer.shown())),
        ),
    }
}
