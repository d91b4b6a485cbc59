//! Checks of an irreversible action: it waits for its prompt, invalid replies have no effect, and an acceptance runs it
//! once.

use std::time::Duration;

use recount_aaep::Kind;
use serde_json::{Value, json};

use super::reply::{PromptRef, shown, with, without};
use crate::conformance::judge::{self, Answer, PromptStatus};
use crate::conformance::producer::harness::{Harness, Trouble};
use crate::conformance::producer::specs;
use crate::conformance::report::Outcome;
use crate::conformance::talk::Talk;
use crate::conformance::transcript::LineOrigin;
use crate::limits;
use crate::link::Target;
use crate::scenario::Scenario;

pub(super) async fn action(harness: &Harness<'_>, talks: &[Talk]) -> Result<(), Trouble> {
    let (talk, stranger) = (&talks[0], talks.get(1));
    let prompt = match harness.prompt(talk, Scenario::Irreversible, Kind::AwaitingConfirmation).await {
        Ok(prompt) => prompt,
        Err(trouble) => {
            let call = talk.read(|lines| lines.iter().position(|line| line.is(Kind::ToolInvoked)));
            if let Some(call) = call {
                let evidence = talk.read(|lines| shown(lines, [call]));
                harness.failed(&specs::CONFIRMED, "a tool was called without a prompt", evidence);
            }
            return Err(trouble);
        }
    };
    let early = talk.read(|lines| {
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
    still_waiting(harness, talk, prompt);
    let prompt_ref = PromptRef::of(talk, prompt);
    from_strangers(harness, talk, stranger, prompt, &prompt_ref).await?;
    if talk.read(|lines| judge::settled(lines, prompt)).is_none() {
        bad_replies(harness, talk, prompt, &prompt_ref).await?;
    }
    if talk.read(|lines| judge::settled(lines, prompt)).is_none() {
        accept(harness, talk, prompt, &prompt_ref).await?;
    } else {
        for spec in [&specs::DONE, &specs::REPLY_PATH, &specs::FIRST_WINS] {
            harness.not_shown(spec, "the prompt was settled before it was accepted");
        }
    }
    let Some(end) = harness.end_of_line(talk, prompt).await else {
        harness.not_shown(&specs::LATE_REPLY, "the session did not end in time");
        return Ok(());
    };
    late(harness, talk, prompt, end, &prompt_ref).await
}

/// Nothing is done and nothing sounds done.
fn still_waiting(harness: &Harness<'_>, talk: &Talk, prompt: usize) {
    talk.read(|lines| {
        let went_on = judge::prompt_status(lines, prompt).line().map(|number| shown(lines, [prompt, number]));
        let waited = format!("nothing was done in {} ms", harness.silence().as_millis());
        harness.hold(&specs::BLOCKED, went_on, "the producer continued before any answer", waited);
        let done =
            judge::sounds_done(lines, prompt, lines.len()).map(|line| [lines[prompt].shown(), line.shown()]);
        harness.hold(&specs::SILENT, done, "this sounds done before any answer", "");
    });
}

struct Bad {
    what: &'static str,
    text: String,
    /// Not even of the right form, so that saying so tells nothing of the prompt.
    malformed: bool,
}

fn bad(harness: &Harness<'_>, talk: &Talk, prompt: usize, prompt_ref: &PromptRef) -> Vec<Bad> {
    let accept = prompt_ref.decide(harness, "accept");
    let of = |what, value: Value, malformed| Bad { what, text: value.to_string(), malformed };
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
    let allowed = talk.read(|lines| lines[prompt].json.get("allowed_replies").cloned());
    if let Some(Value::Array(allowed)) = allowed {
        let refused = ["accept", "reject"].into_iter().find(|word| !allowed.iter().any(|one| one == word));
        if let Some(word) = refused {
            all.push(of("with a decision that is not allowed", prompt_ref.decide(harness, word), false));
        }
    }
    all
}

async fn bad_replies(
    harness: &Harness<'_>,
    talk: &Talk,
    prompt: usize,
    prompt_ref: &PromptRef,
) -> Result<(), Trouble> {
    for bad in bad(harness, talk, prompt, prompt_ref) {
        let answer = talk.send_ineffective(&bad.text).await?;
        if !bad.malformed {
            remember(harness, format!("a reply {}", bad.what), answer.clone());
        }
        if let Some(evidence) = effect(talk, prompt).await {
            harness.failed(&specs::BAD_REPLIES, format!("a reply {} settled the prompt", bad.what), evidence);
            return Ok(());
        }
    }
    // An action may take its time before it shows.
    if talk.until(harness.silence(), |lines| judge::settled(lines, prompt)).await.is_some() {
        let evidence = talk.read(|lines| {
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
        talk.send_ineffective(&bare).await?;
        harness.hold(&specs::BARE_REPLY, effect(talk, prompt).await, "it settled the prompt", "");
    }
    Ok(())
}

/// Whether the prompt is settled a moment later.
async fn effect(talk: &Talk, prompt: usize) -> Option<Vec<String>> {
    let settled = talk.until(limits::EFFECT_WAIT, |lines| judge::settled(lines, prompt)).await?;
    Some(talk.read(|lines| {
        let reply = lines[..settled].iter().rposition(|line| line.origin == LineOrigin::SentIneffective);
        shown(lines, [prompt].into_iter().chain(reply).chain([settled]))
    }))
}

async fn from_strangers(
    harness: &Harness<'_>,
    talk: &Talk,
    stranger: Option<&Talk>,
    prompt: usize,
    prompt_ref: &PromptRef,
) -> Result<(), Trouble> {
    unauthenticated(harness, talk, prompt, prompt_ref).await;
    let mut settled = None;
    if harness.is_strict() && settled.is_none() {
        let unknown = format!("sub_{:032x}", harness.world.entropy.draw());
        let text =
            PromptRef { subscription: unknown, ..prompt_ref.clone() }.decide(harness, "accept").to_string();
        let answer = talk.send_ineffective(&text).await?;
        remember(harness, "a reply for an unknown subscription".into(), answer);
        settled = effect(talk, prompt).await;
    }
    if let (Some(stranger), None) = (stranger, &settled) {
        let own = PromptRef { subscription: super::reply::subscription(stranger), ..prompt_ref.clone() };
        let text = own.decide(harness, "accept").to_string();
        talk.note(LineOrigin::SentIneffective, &text);
        let answer = stranger.send_ineffective(&text).await?;
        remember(harness, "a reply from a subscription that cannot reply".into(), answer);
        settled = effect(talk, prompt).await;
    }
    match settled {
        Some(evidence) => harness.failed(&specs::STRANGER, "it settled the prompt", evidence),
        None if stranger.is_none() => {
            harness.inapplicable(&specs::STRANGER, "subscriptions have no individual terms here");
        }
        None => harness.passed(&specs::STRANGER, ""),
    }
    Ok(())
}

async fn unauthenticated(harness: &Harness<'_>, talk: &Talk, prompt: usize, prompt_ref: &PromptRef) {
    let spec = &specs::UNAUTHENTICATED_REPLY;
    let (caller, url) = match (&harness.stranger, &harness.subject.token, harness.replies_url()) {
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
    talk.note(LineOrigin::SentIneffective, &text);
    let status = caller.post(&url, text.as_bytes()).await.map_or(0, |reply| reply.status);
    match effect(talk, prompt).await {
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
    talk: &Talk,
    prompt: usize,
    prompt_ref: &PromptRef,
) -> Result<(), Trouble> {
    let accept = prompt_ref.decide(harness, "accept");
    let mut done = false;
    if !harness.is_strict() {
        // Who came without a handshake has no name; whether one is wanted nevertheless is worth knowing.
        talk.send_text(&without(accept.clone(), &["subscription_id", "timestamp"]).to_string()).await?;
        done = talk.until(harness.silence(), |lines| judge::settled(lines, prompt)).await.is_some();
        if done {
            let detail =
                "it settled the prompt; servers for older subscribers may accept it, others must not";
            harness.note(&specs::BARE_REPLY, Outcome::Warned, detail, []);
        } else {
            harness.passed(&specs::BARE_REPLY, "");
        }
    }
    if !done {
        let answer = talk.send_text(&accept.to_string()).await?;
        remember(harness, "a valid reply".into(), answer);
    }
    let called = |lines: &[crate::conformance::transcript::Line]| match judge::prompt_status(lines, prompt) {
        PromptStatus::Done(call) => Some(call),
        _ => None,
    };
    let call = talk.until(harness.patience(), called).await;
    let settled = talk.read(|lines| judge::settled(lines, prompt));
    match settled {
        Some(_) => harness.passed(&specs::REPLY_PATH, "the prompt was settled by it"),
        None => harness.failed(
            &specs::REPLY_PATH,
            "an acceptance had no effect",
            talk.read(|lines| shown(lines, [prompt])),
        ),
    }
    match call {
        Some(_) => harness.passed(&specs::DONE, "its tool was called"),
        None => {
            let evidence = talk.read(|lines| shown(lines, [prompt].into_iter().chain(settled)));
            harness.failed(&specs::DONE, "it was accepted, and its tool was not called", evidence);
            harness.not_shown(&specs::FIRST_WINS, "nothing showed that the first reply had been carried out");
            return Ok(());
        }
    }
    for (what, decision) in [("the same reply again", "accept"), ("the other decision afterwards", "reject")]
    {
        let answer = talk.send_ineffective(&prompt_ref.decide(harness, decision).to_string()).await?;
        remember(harness, what.into(), answer);
    }
    harness.end_of_line(talk, prompt).await;
    talk.read(|lines| {
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
    talk: &Talk,
    prompt: usize,
    end: usize,
    prompt_ref: &PromptRef,
) -> Result<(), Trouble> {
    for decision in ["accept", "reject"] {
        let answer = talk.send_ineffective(&prompt_ref.decide(harness, decision).to_string()).await?;
        remember(harness, "a reply after the end of its session".into(), answer);
    }
    harness.wait(harness.silence().min(Duration::from_millis(200))).await;
    talk.read(|lines| {
        let session = lines[prompt].session();
        let more = (end + 1..lines.len())
            .find(|number| lines[*number].is_event() && lines[*number].session() == session);
        let more = more.map(|number| shown(lines, [end, number]));
        harness.hold(&specs::LATE_REPLY, more, "the session went on", "");
    });
    harness.old_tokens.lock().expect("nothing panics while it notes").push(prompt_ref.token.clone());
    Ok(())
}

/// Keeps how a reply was answered that must have had no effect.
pub(super) fn remember(harness: &Harness<'_>, what: String, answer: Option<Answer>) {
    if let Some(answer) = answer {
        harness.bad_answers.lock().expect("nothing panics while it notes").push((what, answer));
    }
}

/// At the end of a run: whether all bad replies were answered alike.
pub(in crate::conformance::producer) fn alike(harness: &Harness<'_>) {
    let answers = harness.bad_answers.lock().expect("nothing panics while it notes").clone();
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
