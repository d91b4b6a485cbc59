//! Validates requests: converts wire types to commands. All input is checked here, once. Pure.
//!
//! Must not depend on the engine's state: whether a run or task exists is checked by the handlers in `serve`.

mod artifacts;
mod encoding;
mod order;
mod template;

use std::str::FromStr;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderValue;
use recount_api::body_faults::{JsonSchema, body_faults};
use recount_api::export::{self, End, Header};
use recount_api::query;
use recount_api::request::{
    self, AgentName, AppendEvents, CreateRun, CreateTask, Object, Prune, SendMessage,
};
use recount_api::scope::Scope as Named;
use recount_api::spelling;
use recount_api::terms::Route;
use recount_engine::{
    BatchId, Conflicts, EventFilter, Import, NewRun, Policy, RunFilter, Scope, StartFiles, TypePattern,
};
use recount_event::family::approval::AllowanceScope;
use recount_event::family::run::{Agent, Queued, RunKind};
use recount_event::limits::INTEGER_MAX;
use recount_event::{Code, Draft, ForeignId, IdError, Json, RunId, SessionId, TaskId, door};
use recount_run::PromptKind;
use serde::de::DeserializeOwned;

pub(crate) use self::artifacts::{Range, artifact_id, at_most, no_artifact, range, short, word};
pub(crate) use self::encoding::prefers_gzip;
use self::order::refuse_run_config;
pub(crate) use self::order::{RunOptions, attachments, bounded, number as amount, order};
pub(crate) use self::template::template;
use self::template::{Picked, picked};
use crate::error::Refusal;
use crate::limits;

type Accepted<T> = Result<T, Refusal>;

/// A scope as the engine has it.
pub(crate) fn scope(named: Named) -> Scope {
    match named {
        Named::Read => Scope::Read,
        Named::Run => Scope::Run,
        Named::Approve => Scope::Approve,
        Named::Ingest => Scope::Ingest,
        Named::Admin => Scope::Admin,
    }
}

/// An exclusive cursor. `None` is from the start.
///
/// A browser that reconnects sends the header and repeats the query it began with, so the header wins. Both must
/// be readable.
pub(crate) fn cursor(header: Option<&str>, query: Option<&str>) -> Accepted<Option<u64>> {
    let (reconnect, first) = (read_cursor(header)?, read_cursor(query)?);
    if header.is_some_and(|text| !text.is_empty()) { Ok(reconnect) } else { Ok(first) }
}

fn read_cursor(text: Option<&str>) -> Accepted<Option<u64>> {
    match text {
        None | Some("" | "-1") => Ok(None),
        Some(text) => match text.parse::<u64>() {
            // The parser also reads `+5` and `007`, which are not cursors.
            Ok(number) if number.to_string() == text && number < INTEGER_MAX => Ok(Some(number)),
            _ => Err(Refusal::new(
                Code::CursorMalformed,
                format!("the cursor is {:?}; send a whole number, at least -1", shortened(text)),
            )),
        },
    }
}

/// Refuses a query with an unknown or repeated parameter: a misspelt filter would silently widen the result.
pub(crate) fn check_query<Name>(route: &Route<Name>, raw: Option<&str>) -> Accepted<()> {
    let mut seen: Vec<String> = Vec::new();
    for (name, _) in form_urlencoded::parse(raw.unwrap_or_default().as_bytes()) {
        let detail = match () {
            () if !route.knows(&name) => unknown(route, &name),
            () if seen.iter().any(|seen| *seen == name) => {
                format!("{:?} is repeated; send it once", shortened(&name))
            }
            () => {
                seen.push(name.into_owned());
                continue;
            }
        };
        return Err(Refusal::new(Code::ParameterInvalid, detail));
    }
    Ok(())
}

/// The message about an unknown parameter, with the nearest known one, or all known ones.
fn unknown<Name>(route: &Route<Name>, name: &str) -> String {
    let known: Vec<&str> = route.query.iter().map(|parameter| parameter.name).collect();
    let advice = match (spelling::nearest(name, known.iter().copied()), known.as_slice()) {
        (Some(nearest), _) => format!("did you mean {nearest}?"),
        (None, []) => "it takes no parameters".to_owned(),
        (None, known) => format!("known parameters: {}", known.join(", ")),
    };
    format!("unknown parameter {:?}; {advice}", shortened(name))
}

/// The number of items per page.
pub(crate) fn limit(query: Option<&str>, default: usize, max: usize) -> Accepted<usize> {
    match query {
        None => Ok(default),
        Some(text) => match text.parse() {
            Ok(limit) if (1..=max).contains(&limit) => Ok(limit),
            _ => Err(Refusal::new(
                Code::ParameterInvalid,
                format!("limit is {:?}; send a whole number from 1 to {max}", shortened(text)),
            )),
        },
    }
}

/// The cursor of a list: the id of the last thing seen.
pub(crate) fn list_cursor(query: Option<&str>, prefix: Option<&str>) -> Accepted<Option<String>> {
    let Some(text) = query.filter(|text| !text.is_empty()) else { return Ok(None) };
    if ForeignId::parse(text).is_err() {
        return Err(Refusal::new(
            Code::CursorMalformed,
            format!("after is {:?}; send the `next` value of the previous page", shortened(text)),
        ));
    }
    match prefix {
        Some(prefix) if !text.starts_with(prefix) => Err(Refusal::new(
            Code::CursorForeign,
            format!(
                "after is {:?}, which is not a cursor of this list; send the `next` value of its previous \
                 page",
                shortened(text)
            ),
        )),
        _ => Ok(Some(text.to_owned())),
    }
}

/// The idempotency key of a request.
pub(crate) fn idempotency_key(value: &HeaderValue) -> Accepted<&str> {
    let plain = |text: &&str| {
        (1..=limits::IDEMPOTENCY_KEY_MAX).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_graphic())
    };
    let text = value.to_str().ok().filter(plain);
    text.ok_or_else(|| {
        let most = limits::IDEMPOTENCY_KEY_MAX;
        Refusal::new(
            Code::HeaderInvalid,
            format!("Idempotency-Key must have 1 to {most} printable ASCII characters without spaces"),
        )
    })
}

/// The request id that the client sent, if it is safe to repeat in logs and headers.
pub(crate) fn request_id(value: Option<&HeaderValue>) -> Option<&str> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b':');
    let text = value?.to_str().ok()?;
    ((1..=limits::REQUEST_ID_MAX).contains(&text.len()) && text.bytes().all(plain)).then_some(text)
}

/// The trace context of a request. An invalid header is ignored, as the standard demands.
pub(crate) fn traceparent(value: Option<&HeaderValue>) -> Option<String> {
    recount_transport::traceparent(value?.to_str().ok()?)
}

/// Parses the filter of the feed. `get` returns a query parameter.
pub(crate) fn sieve<'a>(get: impl Fn(&str) -> Option<&'a str>) -> Accepted<EventFilter> {
    let words = |name: &'static str| words(name, get(name));
    let mut sieve = EventFilter::default();
    for word in words(query::TYPE)? {
        sieve.types.push(type_pattern(word)?);
    }
    for word in words(query::RUN_ID)? {
        sieve.runs.insert(id_of(query::RUN_ID, word)?);
    }
    for word in words(query::TASK_ID)? {
        sieve.tasks.insert(id_of(query::TASK_ID, word)?);
    }
    for word in words(query::SESSION_ID)? {
        sieve.sessions.insert(id_of(query::SESSION_ID, word)?);
    }
    for word in words(query::KIND)? {
        let kinds = RunKind::ALL.iter().map(|kind| kind.as_str()).collect::<Vec<_>>();
        sieve.kinds.insert(one_of(query::KIND, word, &kinds)?.to_owned());
    }
    for word in words(query::STATUS)? {
        sieve.statuses.insert(one_of(query::STATUS, word, &query::RUN_STATUSES)?.to_owned());
    }
    Ok(sieve)
}

/// The comma-separated values of a parameter.
fn words<'a>(name: &str, text: Option<&'a str>) -> Accepted<Vec<&'a str>> {
    let Some(text) = text else { return Ok(Vec::new()) };
    let words: Vec<&str> = text.split(',').map(str::trim).collect();
    if words.len() > query::WORDS_MAX || words.iter().any(|word| word.is_empty()) {
        let most = query::WORDS_MAX;
        return Err(Refusal::new(
            Code::ParameterInvalid,
            format!("{name} is {:?}; send 1 to {most} values separated by commas", shortened(text)),
        ));
    }
    Ok(words)
}

fn id_of<T: FromStr<Err = IdError>>(name: &str, word: &str) -> Accepted<T> {
    word.parse().map_err(|why: IdError| {
        Refusal::new(
            Code::ParameterInvalid,
            format!("{name} is {:?}, which is not {}", shortened(word), why.expected),
        )
    })
}

fn one_of<'a>(name: &str, word: &'a str, known: &[&str]) -> Accepted<&'a str> {
    if known.contains(&word) {
        return Ok(word);
    }
    Err(Refusal::new(
        Code::ParameterInvalid,
        format!("{name} is {:?}; send one of {}", shortened(word), known.join(", ")),
    ))
}

/// An event type, or a family of types such as `tool.*`.
pub fn type_pattern(word: &str) -> Accepted<TypePattern> {
    let plain = |text: &str| {
        text.bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'_'))
    };
    let pattern = match word.strip_suffix('*') {
        Some(prefix) if plain(prefix) && (prefix.is_empty() || prefix.ends_with('.')) => {
            Some(TypePattern::Below(prefix.to_owned()))
        }
        None if plain(word) => Some(TypePattern::Exactly(word.to_owned())),
        _ => None,
    };
    pattern.ok_or_else(|| {
        Refusal::new(
            Code::ParameterInvalid,
            format!(
                "type is {:?}; send event types such as tool.completed, or tool.* for a whole family",
                shortened(word)
            ),
        )
    })
}

/// Parses the filter of a list of runs, or of tasks by their latest run. `get` returns a query parameter.
pub(crate) fn run_filter<'a>(
    get: impl Fn(&str) -> Option<&'a str>,
    statuses: &[&str],
) -> Accepted<RunFilter> {
    let kinds: Vec<&str> = RunKind::ALL.iter().map(|kind| kind.as_str()).collect();
    Ok(RunFilter {
        status: status(get(query::STATUS), statuses)?,
        kind: word(query::KIND, get(query::KIND), &kinds)?.map(str::to_owned),
        needs_attention: yes_or_no(query::NEEDS_ATTENTION, get(query::NEEDS_ATTENTION))?,
        text: part_of_text(query::TEXT, get(query::TEXT))?,
        agent: part_of_text(query::AGENT, get(query::AGENT))?,
        source: part_of_text(query::SOURCE, get(query::SOURCE))?,
    })
}

pub(crate) fn yes_or_no(name: &str, value: Option<&str>) -> Accepted<Option<bool>> {
    match value {
        None => Ok(None),
        Some("true") => Ok(Some(true)),
        Some("false") => Ok(Some(false)),
        Some(other) => Err(Refusal::new(
            Code::ParameterInvalid,
            format!("{name} is {:?}; send true or false", shortened(other)),
        )),
    }
}

/// The name of an MCP server or of its tool, in a path.
pub(crate) fn mcp_name(name: &str, value: String) -> Accepted<String> {
    let most = query::MCP_NAME_MAX;
    let chars = value.chars().count();
    if !(1..=most).contains(&chars) {
        let detail = format!("{name} has {chars} characters; send 1 to {most}");
        return Err(Refusal::new(Code::ParameterInvalid, detail));
    }
    Ok(value)
}

/// A text to filter by; an empty text does not filter.
fn part_of_text(name: &str, text: Option<&str>) -> Accepted<Option<String>> {
    short(name, text.filter(|text| !text.is_empty()))
}

/// A status to filter by.
pub(crate) fn status(text: Option<&str>, known: &[&str]) -> Accepted<Option<String>> {
    if text.is_some() && known.is_empty() {
        let detail = "this list cannot be filtered by status; leave status out";
        return Err(Refusal::new(Code::ParameterInvalid, detail));
    }
    Ok(word(query::STATUS, text, known)?.map(str::to_owned))
}

/// The scope of an allowance.
pub(crate) fn allowance_scope(word: Option<&str>) -> Accepted<Option<AllowanceScope>> {
    let Some(text) = word else { return Ok(None) };
    let word = one_of(query::SCOPE, text, &query::ALLOWANCE_SCOPES)?;
    Ok(AllowanceScope::ALL.iter().copied().find(|scope| scope.as_str() == word))
}

/// The files that a run after an ended one starts with.
pub(crate) fn start_files(text: Option<&str>) -> Accepted<StartFiles> {
    Ok(match word("files", text, &["restore", "current"])? {
        Some("current") => StartFiles::Current,
        _ => StartFiles::Restore,
    })
}

/// What an apply does with conflicts.
pub(crate) fn conflicts(text: Option<&str>) -> Accepted<Conflicts> {
    Ok(match word("conflicts", text, &["refuse", "skip", "mark"])? {
        Some("skip") => Conflicts::Skip,
        Some("mark") => Conflicts::Mark,
        _ => Conflicts::Refuse,
    })
}

/// `None` if no allowance can have this id.
pub(crate) fn allowance_id(text: &str) -> Option<ForeignId> {
    ForeignId::parse(text).ok()
}

pub(crate) fn run_id(text: &str) -> Accepted<RunId> {
    text.parse().map_err(|_| Refusal::new(Code::RunNotFound, format!("run {:?} not found", shortened(text))))
}

pub(crate) fn task_id(text: &str) -> Accepted<TaskId> {
    text.parse()
        .map_err(|_| Refusal::new(Code::TaskNotFound, format!("task {:?} not found", shortened(text))))
}

pub(crate) fn session_id(text: &str) -> Accepted<SessionId> {
    text.parse()
        .map_err(|_| Refusal::new(Code::SessionNotFound, format!("session {:?} not found", shortened(text))))
}

/// The id of a prompt. An id that no producer could have chosen does not exist.
pub(crate) fn prompt_id(kind: PromptKind, text: &str) -> Accepted<ForeignId> {
    ForeignId::parse(text).map_err(|_| no_prompt(kind, shortened(text)))
}

/// No prompt with this id.
pub(crate) fn no_prompt(kind: PromptKind, id: &str) -> Refusal {
    Refusal::new(kind.not_found(), format!("{} {id:?} not found", kind.as_str()))
}

/// The answer to a question. It is stored in the log, so it must be JSON that all readers parse alike.
pub(crate) fn response(text: &str) -> Accepted<Json> {
    let refused =
        |why: String| Refusal::new(Code::BodyMalformed, format!("response is not valid JSON: {why}"));
    let compact = door::compact(text).map_err(|why| refused(why.to_string()))?;
    Json::parse(&compact).map_err(|why| refused(why.to_string()))
}

/// Parses a JSON body. The refusal lists all faults of its fields.
pub(crate) fn body<T: DeserializeOwned + JsonSchema>(bytes: &[u8]) -> Accepted<T> {
    let text = std::str::from_utf8(bytes).map_err(|why| {
        Refusal::new(
            Code::BodyMalformed,
            format!("the body is not valid UTF-8 at byte {}; send UTF-8", why.valid_up_to()),
        )
    })?;
    serde_json::from_str(text).map(|Object(thing)| thing).map_err(|why| {
        let faults = body_faults::<T>(text).unwrap_or_else(|| why.to_string());
        Refusal::new(Code::BodyMalformed, format!("the body is not valid: {faults}"))
    })
}

/// The same, with an empty object for an empty body.
pub(crate) fn body_or_default<T: DeserializeOwned + Default + JsonSchema>(bytes: &[u8]) -> Accepted<T> {
    if bytes.is_empty() { Ok(T::default()) } else { body(bytes) }
}

/// A text that a person wrote, within bounds.
pub(crate) fn text(name: &str, text: Option<String>) -> Accepted<Option<String>> {
    match text {
        Some(text) if text.len() > limits::TEXT_BYTES_MAX => Err(Refusal::new(
            Code::LimitReached,
            format!("{name} has {} bytes; send at most {}", text.len(), limits::TEXT_BYTES_MAX),
        )),
        text => Ok(text),
    }
}

/// The kind of the requested run.
pub(crate) fn kind(text: &str) -> Accepted<RunKind> {
    let known: Vec<&str> = RunKind::ALL.iter().map(|kind| kind.as_str()).collect();
    RunKind::ALL.iter().copied().find(|kind| kind.as_str() == text).ok_or_else(|| {
        let detail = format!("kind is {:?}; send one of {}", shortened(text), known.join(", "));
        Refusal::new(Code::BodyMalformed, detail)
    })
}

/// The ended run that a requested run continues from.
#[derive(Debug)]
pub(crate) struct ResumedRun {
    pub(crate) run: RunId,
    pub(crate) from_sequence: Option<u64>,
    pub(crate) files: StartFiles,
}

/// A requested run, its configuration, and the run it continues.
pub(crate) struct RunRequest {
    pub(crate) new: NewRun,
    pub(crate) options: RunOptions,
    pub(crate) resume: Option<ResumedRun>,
}

pub(crate) fn new_run(
    mut request: CreateRun,
    task_of_path: Option<TaskId>,
    by: &str,
) -> Accepted<RunRequest> {
    let kind = kind(&request.kind)?;
    let config = request::RunConfig {
        resume: request.resume.take(),
        from_sequence: request.from_sequence,
        ..request.take_run_config()
    };
    let mut queued = Queued::new(kind);
    let of_command = || config.command.as_deref().and_then(order::title_of);
    queued.title = text("title", request.title)?.or_else(of_command);
    queued.request_text = text("request_text", request.request_text)?;
    queued.requested_by = Some(by.to_owned());
    let picked = agent(kind, &mut queued, request.agent)?;
    let task_of_body = request.task_id.as_deref().map(task_id).transpose()?;
    let task = match (task_of_path, task_of_body) {
        (Some(path), Some(body)) if path != body => {
            return Err(Refusal::new(
                Code::BodyMalformed,
                format!("task_id is {body}, but the path names {path}; leave task_id out"),
            ));
        }
        (path, body) => path.or(body),
    };
    let session = request.session_id.as_deref().map(session_id).transpose()?;
    let files = start_files(request.files.as_deref())?;
    let run = config.resume.as_deref().map(run_id).transpose()?;
    let resume = run.map(|run| ResumedRun { run, from_sequence: config.from_sequence, files });
    let options = RunOptions { agent: picked, ..order(kind, &queued, config)? };
    Ok(RunRequest { new: NewRun { queued, task, session, resumed_from: None }, options, resume })
}

/// The agent of a run: an external program, recorded as named, or a configured agent, whose choices are
/// still to be checked against its configuration.
fn agent(kind: RunKind, queued: &mut Queued, named: Option<AgentName>) -> Accepted<Option<Picked>> {
    let Some(named) = named else { return Ok(None) };
    match kind {
        RunKind::AgentLoop => picked(named).map(Some),
        RunKind::External if named.tools.is_none() && named.options.is_none() => {
            let name = text("agent.name", Some(named.name))?.unwrap_or_default();
            queued.agent = Some(Agent { name, version: text("agent.version", named.version)? });
            Ok(None)
        }
        RunKind::External => {
            let detail =
                "agent.tools and agent.options are allowed only for runs of kind agent_loop; leave them out";
            Err(Refusal::new(Code::OrderRefused, detail))
        }
        kind => {
            let kind = kind.as_str();
            let detail = format!(
                "agent is allowed only for runs of kind agent_loop and external, and this run is of kind \
                 {kind}; leave it out"
            );
            Err(Refusal::new(Code::OrderRefused, detail))
        }
    }
}

/// The first run of a task that is created, if the request has one.
pub(crate) fn first_run(mut request: CreateTask, by: &str) -> Accepted<Option<RunRequest>> {
    let config = request.take_run_config();
    let Some(word) = request.kind.as_deref() else {
        refuse_run_config(&config)?;
        if request.agent.is_some() {
            let detail = "agent requires kind; send the kind of the first run";
            return Err(Refusal::new(Code::OrderRefused, detail));
        }
        return match request.request_text {
            Some(_) => Err(Refusal::new(
                Code::OrderRefused,
                "request_text requires kind; send the kind of the first run",
            )),
            None => Ok(None),
        };
    };
    let kind = kind(word)?;
    let mut queued = Queued::new(kind);
    queued.title = text("title", request.title)?;
    queued.request_text = text("request_text", request.request_text)?;
    queued.requested_by = Some(by.to_owned());
    let picked = agent(kind, &mut queued, request.agent)?;
    let options = RunOptions { agent: picked, ..order(kind, &queued, config)? };
    let new = NewRun { queued, task: None, session: None, resumed_from: None };
    Ok(Some(RunRequest { new, options, resume: None }))
}

/// The run that answers a message in a session.
pub(crate) fn message(mut request: SendMessage, session: SessionId, by: &str) -> Accepted<RunRequest> {
    let mut queued = Queued::new(RunKind::AgentLoop);
    queued.request_text = text("text", Some(std::mem::take(&mut request.text)))?;
    if queued.request_text.as_ref().is_none_or(|text| text.trim().is_empty()) {
        return Err(Refusal::new(Code::OrderRefused, "text is empty; send at least one character"));
    }
    queued.requested_by = Some(by.to_owned());
    let options = order(RunKind::AgentLoop, &queued, request.into_run_config())?;
    let new = NewRun { queued, task: None, session: Some(session), resumed_from: None };
    Ok(RunRequest { new, options, resume: None })
}

/// A cursor in a conversation: a run and an event of it.
pub(crate) fn message_cursor(query: Option<&str>) -> Accepted<Option<(RunId, u64)>> {
    let Some(text) = list_cursor(query, Some(RunId::PREFIX))? else { return Ok(None) };
    let cursor = text.split_once(':').and_then(|(run, sequence)| {
        // No cursor ever had another form of the number.
        let plain = |number: &u64| sequence.len() <= 15 && number.to_string() == sequence;
        let number = sequence.parse::<u64>().ok().filter(plain)?;
        Some((run.parse::<RunId>().ok()?, number))
    });
    cursor.map(Some).ok_or_else(|| {
        let detail = format!("after is {:?}; send the `next` value of the previous page", shortened(&text));
        Refusal::new(Code::CursorMalformed, detail)
    })
}

/// A batch of events from a producer.
pub(crate) fn batch(request: AppendEvents) -> Accepted<(BatchId, Vec<Draft>)> {
    let producer = ForeignId::parse(&request.producer.id)
        .map_err(|why| Refusal::new(Code::BodyMalformed, format!("producer.id: {why}")))?;
    for (name, number) in [("epoch", request.producer.epoch), ("seq", request.producer.seq)] {
        if number >= INTEGER_MAX {
            return Err(Refusal::new(
                Code::BodyMalformed,
                format!("producer.{name} is {number}; send a number below 2^53"),
            ));
        }
    }
    if request.events.is_empty() {
        return Err(Refusal::new(Code::BodyMalformed, "events is empty; send at least one event"));
    }
    let triple = BatchId { producer, epoch: request.producer.epoch, seq: request.producer.seq };
    let drafts = request.events.iter().enumerate().map(|(index, event)| {
        door::draft(&event.event_type, event.data.get()).map_err(|why| Refusal {
            index: Some(index),
            event_type: Some(shortened(&event.event_type).to_owned()),
            rule: Some("event.well_formed".to_owned()),
            ..Refusal::new(Code::EventRefused, why.to_string())
        })
    });
    Ok((triple, drafts.collect::<Accepted<_>>()?))
}

/// The lines of one exported run. The content of its events is not checked here.
pub fn export(bytes: &[u8]) -> Accepted<Import> {
    let malformed = |why: String| Refusal::new(Code::BodyMalformed, why);
    let (bytes, end) = without_end(bytes);
    let mut lines = export::lines(bytes);
    let header = Header::parse(lines.next().unwrap_or_default())
        .map_err(|why| malformed(format!("line 1: {why}; send the exported lines of one run unchanged")))?;
    let run = header.run_id.parse().map_err(|why| malformed(format!("line 1: run_id: {why}")))?;
    if let Some(first) = header.first_sequence {
        return Err(Refusal::new(
            Code::RunPruned,
            format!(
                "the export of {run} begins with event {first}, because earlier events were pruned; only \
                 complete runs can be imported"
            ),
        ));
    }
    if let Some(end) = end {
        let end = End::parse(end).map_err(malformed)?;
        if (end.runs, end.events) != (1, header.events) {
            let End { runs, events, .. } = end;
            return Err(Refusal::new(
                Code::ExportAltered,
                format!(
                    "the last line counts {runs} runs and {events} events, but the header announces one run \
                     with {}; send the lines of one run",
                    header.events
                ),
            ));
        }
    }
    // Copied, so that no event keeps the whole body in memory.
    let records = lines.map(Bytes::copy_from_slice).collect();
    Ok(Import { run, events: header.events, head: header.head, records })
}

/// Takes the last line off the lines of an export, if there is one.
fn without_end(bytes: &[u8]) -> (&[u8], Option<&[u8]>) {
    let whole = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    match whole.iter().rposition(|byte| *byte == b'\n') {
        Some(at) if End::is_meant_by(&whole[at + 1..]) => (&whole[..at], Some(&whole[at + 1..])),
        _ => (bytes, None),
    }
}

/// A number that every reader counts alike.
pub(crate) fn number(number: Option<u64>) -> Accepted<Option<u64>> {
    match number {
        Some(number) if number >= INTEGER_MAX => {
            Err(Refusal::new(Code::BodyMalformed, format!("{number} is too large; send a number below 2^53")))
        }
        number => Ok(number),
    }
}

/// How much is to be kept.
pub(crate) fn policy(request: &Prune) -> Accepted<Policy> {
    let policy = Policy {
        max_age: request.max_age_seconds.map(Duration::from_secs),
        max_events: request.max_events,
        max_bytes: request.max_bytes,
    };
    for amount in [request.max_age_seconds, request.max_events, request.max_bytes] {
        number(amount)?;
    }
    if policy.is_off() {
        let missing = "no limit was sent; send max_age_seconds, max_events or max_bytes";
        return Err(Refusal::new(Code::BodyMalformed, missing));
    }
    Ok(policy)
}

/// The beginning of a text from outside, for messages.
pub(crate) fn shortened(text: &str) -> &str {
    text.char_indices().nth(80).map_or(text, |(end, _)| &text[..end])
}

#[cfg(test)]
mod tests {
    use recount_api::routes::ROUTES;

    use super::*;

    fn check_cursor(header: Option<&str>, query: Option<&str>, expected: Result<Option<u64>, Code>) {
        assert_eq!(cursor(header, query).map_err(|refusal| refusal.code), expected, "{header:?} {query:?}");
    }

    #[test]
    fn valid_headers_are_accepted_and_others_are_not() {
        let value = |text: &'static str| HeaderValue::from_static(text);
        let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        assert_eq!(traceparent(Some(&value(good))).as_deref(), Some(good));
        for bad in [
            "",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x",
        ] {
            assert_eq!(traceparent(Some(&value(bad))), None, "{bad}");
        }
        assert_eq!(request_id(Some(&value("abc-1.2:3_4"))), Some("abc-1.2:3_4"));
        let long = HeaderValue::from_str(&"x".repeat(limits::REQUEST_ID_MAX + 1)).unwrap();
        for bad in [value(""), value("a b"), value("a\"b"), value("<a>"), long] {
            assert_eq!(request_id(Some(&bad)), None, "{bad:?}");
        }
        assert_eq!(idempotency_key(&value("k")).unwrap(), "k");
        let long = HeaderValue::from_str(&"x".repeat(limits::IDEMPOTENCY_KEY_MAX + 1)).unwrap();
        for bad in [value(""), value("a b"), long, HeaderValue::from_bytes(b"\xff").unwrap()] {
            assert_eq!(idempotency_key(&bad).unwrap_err().code, Code::HeaderInvalid, "{bad:?}");
        }
    }

    #[test]
    fn feed_filters_are_parsed() {
        let sieve_of =
            |name: &'static str, text: &'static str| sieve(|parameter| (parameter == name).then_some(text));
        let all = sieve_of("type", "tool.*, run.finished,*").unwrap();
        assert_eq!(
            all.types,
            [
                TypePattern::Below("tool.".into()),
                TypePattern::Exactly("run.finished".into()),
                TypePattern::Below(String::new())
            ]
        );
        assert!(sieve(|_| None).unwrap().is_open());
        assert_eq!(sieve_of("status", "running,waiting").unwrap().statuses.len(), 2);
        assert_eq!(sieve_of("kind", "external").unwrap().kinds.len(), 1);
        let fifty_one = Box::leak(vec!["a"; 51].join(",").into_boxed_str());
        for (name, text) in [
            ("type", ""),
            ("type", "a,,b"),
            ("type", "tool*"),
            ("type", "*.x"),
            ("type", "Tool"),
            ("type", fifty_one),
            ("run_id", "x"),
            ("task_id", "run_01JZZZZZZZZZZZZZZZZZZZZZZZ"),
            ("session_id", "x"),
            ("kind", "agent"),
            ("status", "done"),
        ] {
            assert_eq!(sieve_of(name, text).unwrap_err().code, Code::ParameterInvalid, "{name}={text}");
        }
    }

    #[test]
    fn cursors() {
        check_cursor(None, None, Ok(None));
        check_cursor(None, Some("-1"), Ok(None));
        check_cursor(None, Some(""), Ok(None));
        check_cursor(None, Some("0"), Ok(Some(0)));
        check_cursor(Some("7"), Some("3"), Ok(Some(7)));
        check_cursor(Some(""), Some("3"), Ok(Some(3)));
        check_cursor(Some("-1"), Some("3"), Ok(None));
        check_cursor(Some("7"), Some("x"), Err(Code::CursorMalformed));
        for bad in
            ["-2", "+5", "007", "1.0", " 1", "1e3", "abc", "18446744073709551616", "9007199254740992", "１"]
        {
            check_cursor(Some(bad), None, Err(Code::CursorMalformed));
            check_cursor(None, Some(bad), Err(Code::CursorMalformed));
        }
    }

    #[test]
    fn unknown_and_repeated_query_parameters_are_refused() {
        let detail = |path: &str, query: &str| {
            let route = ROUTES.iter().find(|route| route.path == path && route.method == "GET");
            match check_query(route.expect("the route is in the table"), Some(query)) {
                Ok(()) => String::new(),
                Err(refusal) => {
                    assert_eq!(refusal.code, Code::ParameterInvalid);
                    refusal.detail
                }
            }
        };
        for (path, query) in [
            ("/runs", ""),
            ("/runs", "&"),
            ("/runs", "status=x&limit=1&after=&task_id=t"),
            ("/runs", "st%61tus=x"),
            ("/events", "after_position=3&ticket=x"),
        ] {
            assert_eq!(detail(path, query), "", "{path}?{query}");
        }
        for (path, query, part) in [
            ("/runs", "statsu=running", "did you mean status?"),
            ("/runs", "Status=running", "did you mean status?"),
            ("/runs", "colour=red", "known parameters: after, limit, status, kind"),
            ("/runs", "=x", "unknown parameter"),
            ("/runs", "ticket=x", "unknown parameter"),
            ("/runs", "status=running&status=failed", "\"status\" is repeated"),
            ("/runs/{run}", "limit=1", "it takes no parameters"),
            ("/events", "after_sequence=1", "after_position"),
        ] {
            let detail = detail(path, query);
            assert!(detail.contains(part), "{path}?{query}: {detail}");
        }
    }

    #[test]
    fn numbers_that_not_every_reader_counts_alike_are_refused() {
        let code = |refusal: Refusal| refusal.code;
        assert_eq!(number(None).map_err(code), Ok(None));
        assert_eq!(number(Some(INTEGER_MAX - 1)).map_err(code), Ok(Some(INTEGER_MAX - 1)));
        assert_eq!(number(Some(INTEGER_MAX)).map_err(code), Err(Code::BodyMalformed));
        let all = Prune { max_events: Some(u64::MAX), ..Prune::default() };
        assert_eq!(policy(&all).map(drop).map_err(code), Err(Code::BodyMalformed));
    }

    #[test]
    fn limits_of_pages() {
        assert_eq!(limit(None, 500, 1000).ok(), Some(500));
        assert_eq!(limit(Some("1"), 500, 1000).ok(), Some(1));
        for bad in ["0", "1001", "-1", "many", "", "99999999999999999999"] {
            assert_eq!(
                limit(Some(bad), 500, 1000).map_err(|refusal| refusal.code),
                Err(Code::ParameterInvalid)
            );
        }
    }

    #[test]
    fn refusals_of_bodies_name_the_fault() {
        let code =
            |bytes: &[u8]| body::<CreateRun>(bytes).map_err(|refusal| (refusal.code, refusal.detail)).err();
        for (bytes, part) in [
            (&b"{\"kind\":\"external\",\"titel\":1}"[..], "titel"),
            (b"{}", "kind"),
            (b"{\"kind\":7}", "string"),
            (b"{\"kind\":\"\xff\"}", "byte 9"),
            (b"", "EOF"),
            (b"{\"kind\":\"external\"} x", "trailing"),
            (b"{\"kind\":7,\"titel\":1}", "field `kind` is number, expected string; unknown field `titel`"),
            (b"[\"external\",null]", "an object"),
            (b"{\"kind\":\"external\",\"agent\":[\"a\"]}", "an object"),
        ] {
            let (code, detail) = code(bytes).expect("refused");
            assert_eq!(code, Code::BodyMalformed);
            assert!(detail.contains(part), "{detail} names {part}");
        }
    }

    #[test]
    fn an_export_is_a_header_and_lines() {
        let header = Header::new("run_01JXMZ00000000000000000000", 2, "ab").line();
        let read = |text: &str| export(text.as_bytes()).map_err(|refusal| (refusal.code, refusal.detail));
        let import = read(&format!("{header}\n{{}}\nx\n")).expect("well formed");
        assert_eq!((import.run.to_string().as_str(), import.events), ("run_01JXMZ00000000000000000000", 2));
        assert_eq!(import.records, ["{}", "x"]);
        let empty = read(&format!("{header}\n")).expect("well formed");
        assert!(empty.records.is_empty());
        for (bad, part) in [
            (String::new(), "line 1"),
            ("{}\n".into(), "line 1"),
            (format!("\n{header}\n"), "line 1"),
            (header.replace("run_01", "run_0"), "run_id"),
        ] {
            let (code, detail) = read(&bad).expect_err("malformed");
            assert_eq!(code, Code::BodyMalformed);
            assert!(detail.contains(part), "{detail} names {part}");
        }
    }

    #[test]
    fn a_body_must_not_name_another_task_than_the_path() {
        let request = |task: &str| CreateRun {
            kind: "external".into(),
            task_id: Some(task.into()),
            ..CreateRun::default()
        };
        let (one, two) = ("task_01JXMZ00000000000000000000", "task_01JXMZ00000000000000000001");
        let path = one.parse().ok();
        assert_eq!(new_run(request(one), path, "me").map(|request| request.new.task).ok(), Some(path));
        assert_eq!(
            new_run(request(two), path, "me").map_err(|refusal| refusal.code).err(),
            Some(Code::BodyMalformed)
        );
    }
}
