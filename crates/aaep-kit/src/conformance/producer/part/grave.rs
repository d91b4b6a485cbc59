//! Checks of an irreversible action: it waits for its prompt, invalid replies have no effect, and an acceptance runs it
//! once.

use std::time::Duration;

use recount_aaep::Kind;
use serde_json::{Value, json};

use super::reply::{Asked, shown, with, without};
use crate::conformance::judge::{self, Answer, Fate};
use crate::conformance::producer::specs;
use crate::conformance::producer::stage::{Stage, Trouble};
use crate::conformance::report::Outcome;
use crate::conformance::talk::Talk;
use crate::conformance::transcript::Way;
use crate::limits;
use crate::link::Target;
use crate::scenario::Scenario;

pub(super) async fn action(stage: &Stage<'_>, talks: &[Talk]) -> Result<(), Trouble> {
    let (talk, stranger) = (&talks[0], talks.get(1));
    let prompt = match stage.prompt(talk, Scenario::Irreversible, Kind::AwaitingConfirmation).await {
        Ok(prompt) => prompt,
        Err(trouble) => {
            let call = talk.read(|lines| lines.iter().position(|line| line.is(Kind::ToolInvoked)));
            if let Some(call) = call {
                let evidence = talk.read(|lines| shown(lines, [call]));
                stage.failed(&specs::ASKED, "a tool was called and nobody was asked", evidence);
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
        Some(evidence) => {
            stage.failed(&specs::ASKED, "the tool was called before its confirmation was asked for", evidence)
        }
        None => stage.passed(&specs::ASKED, "a confirmation came first"),
    }
    stage.wait(stage.silence()).await;
    still_waiting(stage, talk, prompt);
    let asked = Asked::of(talk, prompt);
    from_strangers(stage, talk, stranger, prompt, &asked).await?;
    if talk.read(|lines| judge::settled(lines, prompt)).is_none() {
        bad_replies(stage, talk, prompt, &asked).await?;
    }
    if talk.read(|lines| judge::settled(lines, prompt)).is_none() {
        accept(stage, talk, prompt, &asked).await?;
    } else {
        for spec in [&specs::DONE, &specs::REPLY_PATH, &specs::FIRST_WINS] {
            stage.not_shown(spec, "the prompt was settled before it was accepted");
        }
    }
    let Some(end) = stage.end_of_line(talk, prompt).await else {
        stage.not_shown(&specs::LATE_REPLY, "the session did not end in time");
        return Ok(());
    };
    late(stage, talk, prompt, end, &asked).await
}

/// Nothing is done and nothing sounds done.
fn still_waiting(stage: &Stage<'_>, talk: &Talk, prompt: usize) {
    talk.read(|lines| {
        let went_on = judge::fate(lines, prompt).line().map(|number| shown(lines, [prompt, number]));
        let waited = format!("nothing was done in {} ms", stage.silence().as_millis());
        stage.hold(&specs::BLOCKED, went_on, "the producer went on before anybody had answered", waited);
        let done =
            judge::sounds_done(lines, prompt, lines.len()).map(|line| [lines[prompt].shown(), line.shown()]);
        stage.hold(&specs::SILENT, done, "this sounds as if it were done, before anybody had answered", "");
    });
}

struct Bad {
    what: &'static str,
    text: String,
    /// Not even of the right form, so that saying so tells nothing of the prompt.
    malformed: bool,
}

fn bad(stage: &Stage<'_>, talk: &Talk, prompt: usize, asked: &Asked) -> Vec<Bad> {
    let accept = asked.decide(stage, "accept");
    let of = |what, value: Value, malformed| Bad { what, text: value.to_string(), malformed };
    let draw = stage.world.entropy.draw();
    let mut all = vec![
        of(
            "with a token of nobody",
            with(accept.clone(), json!({"reply_token": format!("rpl_{draw:032x}")})),
            false,
        ),
        of(
            "with the token and one digit more",
            with(accept.clone(), json!({"reply_token": format!("{}0", asked.token)})),
            false,
        ),
        of("with a clarification to a confirmation", asked.answer(stage, json!("accept")), false),
        of("with a decision that there is not", with(accept.clone(), json!({"decision": "yes"})), true),
        of("with a field that there is not", with(accept.clone(), json!({"surprise": true})), true),
        of("without a decision", without(accept.clone(), &["decision"]), true),
    ];
    let allowed = talk.read(|lines| lines[prompt].json.get("allowed_replies").cloned());
    if let Some(Value::Array(allowed)) = allowed {
        let refused = ["accept", "reject"].into_iter().find(|word| !allowed.iter().any(|one| one == word));
        if let Some(word) = refused {
            all.push(of("with a decision that is not allowed", asked.decide(stage, word), false));
        }
    }
    all
}

async fn bad_replies(stage: &Stage<'_>, talk: &Talk, prompt: usize, asked: &Asked) -> Result<(), Trouble> {
    for bad in bad(stage, talk, prompt, asked) {
        let answer = talk.say_in_vain(&bad.text).await?;
        if !bad.malformed {
            remember(stage, format!("a reply {}", bad.what), answer.clone());
        }
        if let Some(evidence) = effect(talk, prompt).await {
            stage.failed(&specs::BAD_REPLIES, format!("a reply {} settled the prompt", bad.what), evidence);
            return Ok(());
        }
    }
    // An action may take its time before it shows.
    if talk.until(stage.silence(), |lines| judge::settled(lines, prompt)).await.is_some() {
        let evidence = talk.read(|lines| {
            let said = |number: &usize| lines[*number].way == Way::Vain;
            let settled = judge::settled(lines, prompt);
            shown(lines, [prompt].into_iter().chain((prompt..lines.len()).filter(said)).chain(settled))
        });
        stage.failed(&specs::BAD_REPLIES, "one of them settled the prompt", evidence);
        return Ok(());
    }
    stage.passed(&specs::BAD_REPLIES, "none of them had an effect");
    if stage.is_strict() {
        let bare = without(asked.decide(stage, "accept"), &["subscription_id", "timestamp"]).to_string();
        talk.say_in_vain(&bare).await?;
        stage.hold(&specs::BARE_REPLY, effect(talk, prompt).await, "it settled the prompt", "");
    }
    Ok(())
}

/// Whether the prompt is settled a moment later.
async fn effect(talk: &Talk, prompt: usize) -> Option<Vec<String>> {
    let settled = talk.until(limits::EFFECT_WAIT, |lines| judge::settled(lines, prompt)).await?;
    Some(talk.read(|lines| {
        let reply = lines[..settled].iter().rposition(|line| line.way == Way::Vain);
        shown(lines, [prompt].into_iter().chain(reply).chain([settled]))
    }))
}

async fn from_strangers(
    stage: &Stage<'_>,
    talk: &Talk,
    stranger: Option<&Talk>,
    prompt: usize,
    asked: &Asked,
) -> Result<(), Trouble> {
    unauthenticated(stage, talk, prompt, asked).await;
    let mut settled = None;
    if stage.is_strict() && settled.is_none() {
        let nobody = format!("sub_{:032x}", stage.world.entropy.draw());
        let text = Asked { subscription: nobody, ..asked.clone() }.decide(stage, "accept").to_string();
        let answer = talk.say_in_vain(&text).await?;
        remember(stage, "a reply for a subscription that there is not".into(), answer);
        settled = effect(talk, prompt).await;
    }
    if let (Some(stranger), None) = (stranger, &settled) {
        let own = Asked { subscription: super::reply::subscription(stranger), ..asked.clone() };
        let text = own.decide(stage, "accept").to_string();
        talk.note(Way::Vain, &text);
        let answer = stranger.say_in_vain(&text).await?;
        remember(stage, "a reply from a subscription that cannot reply".into(), answer);
        settled = effect(talk, prompt).await;
    }
    match settled {
        Some(evidence) => stage.failed(&specs::STRANGER, "it settled the prompt", evidence),
        None if stranger.is_none() => {
            stage.inapplicable(&specs::STRANGER, "subscriptions have no terms of their own here");
        }
        None => stage.passed(&specs::STRANGER, ""),
    }
    Ok(())
}

async fn unauthenticated(stage: &Stage<'_>, talk: &Talk, prompt: usize, asked: &Asked) {
    let spec = &specs::UNAUTHENTICATED_REPLY;
    let (caller, url) = match (&stage.stranger, &stage.subject.token, stage.replies_url()) {
        (Some(caller), Some(_), Some(url)) => (caller, url),
        _ if !stage.is_shared() => {
            return stage.inapplicable(spec, "only the program that started a command can reply to it");
        }
        (_, None, _) => {
            let why = "no token was given, so no reply is without; start it with one and say --token-file";
            return stage.not_shown(spec, why);
        }
        _ => return stage.inapplicable(spec, "the connection itself is authenticated here"),
    };
    let text = asked.decide(stage, "accept").to_string();
    talk.note(Way::Vain, &text);
    let status = caller.post(&url, text.as_bytes()).await.map_or(0, |reply| reply.status);
    match effect(talk, prompt).await {
        Some(evidence) => {
            stage.failed(spec, format!("it was answered with {status} and settled the prompt"), evidence);
        }
        None if (200..300).contains(&status) => {
            stage.failed(spec, format!("it had no effect, and was taken with {status}"), []);
        }
        None => stage.passed(spec, format!("it was refused with {status}")),
    }
}

async fn accept(stage: &Stage<'_>, talk: &Talk, prompt: usize, asked: &Asked) -> Result<(), Trouble> {
    let accept = asked.decide(stage, "accept");
    let mut done = false;
    if !stage.is_strict() {
        // Who came without a handshake has no name; whether one is wanted nevertheless is worth knowing.
        talk.say(&without(accept.clone(), &["subscription_id", "timestamp"]).to_string()).await?;
        done = talk.until(stage.silence(), |lines| judge::settled(lines, prompt)).await.is_some();
        if done {
            let said = "it settled the prompt; servers for older subscribers may take it, others must not";
            stage.note(&specs::BARE_REPLY, Outcome::Warned, said, []);
        } else {
            stage.passed(&specs::BARE_REPLY, "");
        }
    }
    if !done {
        let answer = talk.say(&accept.to_string()).await?;
        remember(stage, "a reply that counts".into(), answer);
    }
    let called = |lines: &[crate::conformance::transcript::Line]| match judge::fate(lines, prompt) {
        Fate::Done(call) => Some(call),
        _ => None,
    };
    let call = talk.until(stage.patience(), called).await;
    let settled = talk.read(|lines| judge::settled(lines, prompt));
    match settled {
        Some(_) => stage.passed(&specs::REPLY_PATH, "the prompt was settled by it"),
        None => stage.failed(
            &specs::REPLY_PATH,
            "an acceptance had no effect",
            talk.read(|lines| shown(lines, [prompt])),
        ),
    }
    match call {
        Some(_) => stage.passed(&specs::DONE, "its tool was called"),
        None => {
            let evidence = talk.read(|lines| shown(lines, [prompt].into_iter().chain(settled)));
            stage.failed(&specs::DONE, "it was accepted, and its tool was not called", evidence);
            stage.not_shown(&specs::FIRST_WINS, "nothing showed that the first reply had been carried out");
            return Ok(());
        }
    }
    for (what, decision) in [("the same reply again", "accept"), ("the other decision afterwards", "reject")]
    {
        let answer = talk.say_in_vain(&asked.decide(stage, decision).to_string()).await?;
        remember(stage, what.into(), answer);
    }
    stage.end_of_line(talk, prompt).await;
    talk.read(|lines| {
        let calls = judge::calls_of(lines, prompt);
        let departures = judge::departures(lines, prompt);
        let cancelled = lines[prompt..]
            .iter()
            .position(|line| line.is(Kind::SessionCancelled) && line.session() == lines[prompt].session());
        if calls.len() > 1 || departures.len() > 1 {
            let evidence = shown(lines, calls.into_iter().chain(departures));
            stage.failed(&specs::FIRST_WINS, "more than one reply took effect", evidence);
        } else if let Some(at) = cancelled {
            let evidence = shown(lines, [prompt + at]);
            stage.failed(&specs::FIRST_WINS, "the second reply ended what the first had allowed", evidence);
        } else {
            stage.passed(&specs::FIRST_WINS, "the tool was called once");
        }
    });
    Ok(())
}

async fn late(
    stage: &Stage<'_>,
    talk: &Talk,
    prompt: usize,
    end: usize,
    asked: &Asked,
) -> Result<(), Trouble> {
    for decision in ["accept", "reject"] {
        let answer = talk.say_in_vain(&asked.decide(stage, decision).to_string()).await?;
        remember(stage, "a reply behind the end of its session".into(), answer);
    }
    stage.wait(stage.silence().min(Duration::from_millis(200))).await;
    talk.read(|lines| {
        let session = lines[prompt].session();
        let more = (end + 1..lines.len())
            .find(|number| lines[*number].is_event() && lines[*number].session() == session);
        let more = more.map(|number| shown(lines, [end, number]));
        stage.hold(&specs::LATE_REPLY, more, "the session went on", "");
    });
    stage.old_tokens.lock().expect("nothing panics while it notes").push(asked.token.clone());
    Ok(())
}

/// Keeps how a reply was answered that must have had no effect.
pub(super) fn remember(stage: &Stage<'_>, what: String, answer: Option<Answer>) {
    if let Some(answer) = answer {
        stage.bad_answers.lock().expect("nothing panics while it notes").push((what, answer));
    }
}

/// At the end of a run: whether all bad replies were answered alike.
pub(in crate::conformance::producer) fn alike(stage: &Stage<'_>) {
    let answers = stage.bad_answers.lock().expect("nothing panics while it notes").clone();
    if answers.len() < 2 && !matches!(stage.target, Target::Http { .. }) {
        return stage.inapplicable(&specs::ALIKE, "on this transport a reply has no answer of its own");
    }
    if answers.len() < 2 {
        return stage
            .not_shown(&specs::ALIKE, "fewer than two bad replies were answered; only HTTP answers replies");
    }
    match judge::unlike(&answers) {
        None => stage.passed(
            &specs::ALIKE,
            format!("{} of them, as is one that counts: {}", answers.len() - 1, answers[0].1.shown()),
        ),
        Some([one, other]) => stage.failed(
            &specs::ALIKE,
            "the answer tells whether a reply had an effect, or why not",
            [one, other].map(|(what, answer)| format!("{what}: {}", answer.shown())),
        ),
    }
}
