//! `recount hook AGENT [EVENT]`: sends a hook's body from standard input to the server, and prints the response.
//!
//! The agent waits for this program, so it starts fast, times out soon, and never blocks the agent: hooks that the server
//! does not accept are stored on disk ([`spool`]). It must not know what a hook means. Start at [`SendHook`].

pub(super) mod spool;

use std::io::{self, Read};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use recount_client::{Client, ClientError, Clock as _, HookPost, SystemClock, moment};
use recount_json::{Kind, Scanner};
use serde_json::json;
use tokio::time::Instant;

use self::spool::{DROPPED, Hook, Spool};
use super::credential::given_token;
use super::invocation::{self, Invocation};
use super::recorded::{Agent, state_folder};
use crate::failure::Failure;
use crate::limits;
use crate::output::{Output, note};

/// Send a hook of another agent to the server
#[derive(Args)]
pub(super) struct SendHook {
    /// Agent that runs the hook
    agent: Agent,
    /// Name of the event; default: hook_event_name in the body
    event: Option<String>,
    /// Print the header with the token as JSON instead, for otelHeadersHelper of Claude Code
    #[arg(long, conflicts_with_all = ["event", "ask"])]
    headers: bool,
    /// Request a decision in Recount, and print it for the agent
    #[arg(long)]
    ask: bool,
    /// With --ask: seconds to wait for the decision
    #[arg(long, value_name = "SECONDS", default_value_t = limits::HOOK_ASK_SECONDS_DEFAULT,
          value_parser = clap::value_parser!(u64).range(1..=limits::HOOK_ASK_SECONDS_MAX))]
    wait: u64,
    /// File with the token for the server
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

/// The outcome of sending one hook.
enum Sent {
    Answer(Vec<u8>),
    /// The server will never accept this body.
    Refused(String),
    /// The server may accept it later.
    Away(String),
}

/// The outcome of sending the hooks on disk.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Drained {
    All,
    /// The server does not respond, or there are too many to send them now.
    Part,
    /// Another process sends them.
    Busy,
}

impl SendHook {
    /// For a hook, succeeds whatever happens: another exit status could block the agent's call.
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        if self.headers {
            return self.print_headers(&invocation);
        }
        if let Err(why) = self.send(&invocation) {
            note(&format!("recount: {why}"));
        }
        Ok(())
    }

    fn print_headers(&self, invocation: &Invocation) -> Result<(), Failure> {
        let token = given_token(invocation, &invocation.url, self.token_file.as_deref())?;
        let Some(token) = token else {
            return Err(Failure::Usage("no token: set RECOUNT_TOKEN, or use --token-file FILE".to_owned()));
        };
        Output::new().value(&json!({"Authorization": format!("Bearer {token}")}))
    }

    fn send(self, invocation: &Invocation) -> Result<(), Failure> {
        let body = whole_body(io::stdin().lock())
            .map_err(|why| Failure::Own(format!("cannot read the body of the hook: {why}")))?;
        let (hook, fault) = (self.hook(body.text), body.fault);
        let folder = Spool::place(&state_folder()?, &invocation.url);
        let spool = Spool::open(folder.clone())
            .map_err(|why| Failure::Own(format!("cannot use {}: {why}", folder.display())));
        if let Some(fault) = fault {
            let most = limits::HOOK_BODY_BYTES_MAX;
            note(&format!(
                "recount: the hook {} is not sent: {fault} (HOOK_BODY_BYTES_MAX is {most})",
                hook.event
            ));
            return spool?.drop_hook(&hook, fault).map_err(not_kept);
        }
        let client = given_token(invocation, &invocation.url, self.token_file.as_deref())
            .and_then(|token| Ok(Client::new(&invocation.url, token.as_deref())?));
        let client = match client {
            Ok(client) => client,
            Err(why) => {
                note(&format!("recount: {why}; the hook is stored on disk and sent later"));
                return keep(&spool?, &hook);
            }
        };
        let ask_seconds = self.ask.then_some(self.wait);
        let sender = Sender { client, ask_seconds, until: moment() + limits::HOOK_RECORD_WAIT };
        invocation::block_on(sender.send(&spool?, hook))
    }

    fn hook(&self, body: String) -> Hook {
        let name = self.event.clone().or_else(|| member(&body, "hook_event_name"));
        let at_ms = SystemClock.now_ms();
        Hook {
            number: format!("{at_ms:x}-{:x}", std::process::id()),
            agent: self.agent.name().to_owned(),
            event: name.filter(|name| !name.is_empty()).unwrap_or_else(|| "unknown".to_owned()),
            session: member(&body, "session_id"),
            at_ms,
            body,
        }
    }
}

struct Sender {
    client: Client,
    ask_seconds: Option<u64>,
    /// The time after which a hook that is only recorded is stored on disk.
    until: Instant,
}

impl Sender {
    /// Sends the hooks on disk, then this one. Hooks that cannot be sent are stored on disk.
    async fn send(&self, spool: &Spool, hook: Hook) -> Result<(), Failure> {
        if spool.is_away(SystemClock.now_ms()) {
            return keep(spool, &hook);
        }
        let drained = if spool.is_empty() { Drained::All } else { self.drain(spool).await? };
        if drained == Drained::All {
            match self.post(spool, &hook, self.ask_seconds).await {
                Sent::Answer(answer) => return Output::new().bytes(&answer),
                Sent::Refused(why) => {
                    note(&format!("recount: the server rejected the hook {}: {why}", hook.event));
                    return spool.drop_hook(&hook, "refused").map_err(not_kept);
                }
                Sent::Away(why) => {
                    note(&format!("recount: {why}; the hook {} is stored on disk and sent later", hook.event))
                }
            }
        }
        keep(spool, &hook)?;
        if drained == Drained::Busy {
            // The other process sends this hook too, unless it has ended in the meantime.
            self.drain(spool).await?;
        }
        Ok(())
    }

    async fn drain(&self, spool: &Spool) -> Result<Drained, Failure> {
        // A permission request needs a response, so it waits for the other process.
        let (draining, wait) = match self.ask_seconds {
            None => (spool.drain(), limits::HOOK_DRAIN_WAIT),
            Some(_) => (spool.wait_to_drain().map(Some), limits::HOOK_ASK_MARGIN),
        };
        let Some(mut draining) = draining.map_err(not_kept)? else { return Ok(Drained::Busy) };
        let until = moment() + wait;
        loop {
            let Some(hook) = draining.next().map_err(not_kept)? else {
                if draining.finish().map_err(not_kept)? {
                    return Ok(Drained::All);
                }
                continue;
            };
            match self.post(spool, &hook, None).await {
                Sent::Answer(_) => draining.done(),
                Sent::Refused(why) => {
                    note(&format!("recount: the server rejected the hook {}: {why}", hook.event));
                    draining.done();
                    // Rejected reports of dropped hooks are not counted again.
                    if hook.event != DROPPED {
                        spool.drop_hook(&hook, "refused").map_err(not_kept)?;
                    }
                }
                Sent::Away(_) => {
                    draining.stop().map_err(not_kept)?;
                    return Ok(Drained::Part);
                }
            }
            if moment() >= until {
                draining.stop().map_err(not_kept)?;
                return Ok(Drained::Part);
            }
        }
    }

    async fn post(&self, spool: &Spool, hook: &Hook, ask_seconds: Option<u64>) -> Sent {
        let before = moment();
        // Hooks on disk before a permission request have the time limit of recorded hooks.
        let left = || self.until.saturating_duration_since(before).max(limits::HOOK_POST_WAIT_MIN);
        let patience =
            ask_seconds.map_or_else(left, |seconds| Duration::from_secs(seconds) + limits::HOOK_ASK_MARGIN);
        let key = hook.idempotency_key();
        let answer = self.client.post_hook(HookPost {
            agent: &hook.agent,
            event: &hook.event,
            body: hook.body.clone().into(),
            idempotency_key: &key,
            ask_seconds,
            patience,
        });
        match answer.await {
            Ok(answer) => Sent::Answer(answer.to_vec()),
            Err(ClientError::Problem(problem)) if matches!(problem.status, 400 | 409 | 413 | 415 | 422) => {
                Sent::Refused(format!("{} ({})", problem.detail, problem.code))
            }
            Err(ClientError::Unusable(why)) => Sent::Refused(why),
            Err(why) => {
                // An immediate refusal costs the agent no time, so it is not remembered.
                if before.elapsed() >= patience
                    && let Err(why) = spool.set_away(SystemClock.now_ms())
                {
                    note(&format!("recount: {}", not_kept(why)));
                }
                Sent::Away(why.to_string())
            }
        }
    }
}

fn keep(spool: &Spool, hook: &Hook) -> Result<(), Failure> {
    if !spool.keep(hook).map_err(not_kept)? {
        note(&format!(
            "recount: {} bytes of hooks wait for the server (HOOK_SPOOL_BYTES_MAX); the hook {} is dropped",
            limits::HOOK_SPOOL_BYTES_MAX,
            hook.event
        ));
    }
    Ok(())
}

fn not_kept(why: io::Error) -> Failure {
    Failure::Own(format!("cannot store the hook on disk: {why}"))
}

/// The body of a hook, as far as it could be read.
struct Body {
    text: String,
    /// Why it cannot be sent.
    fault: Option<&'static str>,
}

/// Reads to the end, so that the agent can write all of it, and keeps at most the limit.
fn whole_body(mut input: impl Read) -> io::Result<Body> {
    let mut bytes = Vec::new();
    input.by_ref().take(limits::HOOK_BODY_BYTES_MAX as u64).read_to_end(&mut bytes)?;
    let is_cut = io::copy(&mut input, &mut io::sink())? > 0;
    let (text, is_text) = match String::from_utf8(bytes) {
        Ok(text) => (text, true),
        Err(why) => (String::from_utf8_lossy(why.as_bytes()).into_owned(), false),
    };
    let fault = match (is_cut, is_text) {
        (true, _) => Some("body_too_large"),
        (false, false) => Some("body_not_utf8"),
        (false, true) => None,
    };
    Ok(Body { text, fault })
}

/// A text member of the outermost object, even if the JSON is incomplete.
fn member(json: &str, name: &str) -> Option<String> {
    let mut scanner = Scanner::trusting(json);
    while let Ok(Some(token)) = scanner.token() {
        let is_wanted = token.kind == Kind::Key
            && scanner.depth() == 1
            && recount_json::unescape(&json[token.inside()]) == name;
        if is_wanted {
            let value = scanner.token().ok()??;
            return (value.kind == Kind::Text)
                .then(|| recount_json::unescape(&json[value.inside()]).into_owned());
        }
    }
    None
}

/// Whether the command line calls this verb.
pub(super) fn is_called() -> bool {
    std::env::args_os().nth(1).is_some_and(|verb| verb == "hook")
}

/// Reports a command line that cannot be read. The usual status of that, 2, would block the agent's call.
pub(super) fn not_understood(why: &clap::Error) -> ExitCode {
    // If standard error is closed, the message is lost, which does not affect the agent.
    drop(why.print());
    if why.use_stderr() { ExitCode::from(1) } else { ExitCode::SUCCESS }
}
