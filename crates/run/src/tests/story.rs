//! Runs in a short notation, for tests.

use recount_event::{Draft, Event, EventId, ForeignId, Json, Payload, RunId, Stamp};

use crate::{Command, Rejection, State, apply, decide};

pub(super) const RUN: &str = "run_01HZX3Q0M0000000000000000A";
pub(super) const T0: u64 = 1_777_803_825_000;

pub(super) fn run_id() -> RunId {
    RUN.parse().unwrap()
}

pub(super) fn fid(text: &str) -> ForeignId {
    ForeignId::parse(text).unwrap()
}

pub(super) fn json(text: &str) -> Json {
    Json::parse(&text.replace('\'', "\"")).unwrap()
}

/// The n-th of a row of event ids.
pub(super) fn event_id(n: u64) -> EventId {
    format!("evt_01HZX3Q0M0{n:016}").parse().unwrap()
}

/// A type and its data, with single quotes for double ones.
pub(super) fn payload(type_name: &str, data: &str) -> Payload {
    Payload::read(type_name, &data.replace('\'', "\"")).unwrap_or_else(|why| panic!("{type_name}: {why}"))
}

/// A payload in its place, one millisecond after the one before.
pub(super) fn placed(sequence: u64, payload: Payload) -> Event {
    Event {
        event_id: event_id(sequence),
        run_id: run_id(),
        task_id: None,
        session_id: None,
        sequence,
        occurred_ms: T0 + sequence,
        body: payload.into(),
        extra: Vec::new(),
    }
}

pub(super) fn placed_all(payloads: impl IntoIterator<Item = Payload>) -> Vec<Event> {
    (0..).zip(payloads).map(|(sequence, payload)| placed(sequence, payload)).collect()
}

/// One event a line: a type and its data, or one of the short forms below.
pub(super) fn script(text: &str) -> Vec<Payload> {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).flat_map(line).collect()
}

fn line(line: &str) -> Vec<Payload> {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    let rest: Vec<&str> = if word.starts_with('@') { rest.split(' ').collect() } else { vec![rest] };
    let one = |type_name: &str, data: String| vec![payload(type_name, &data)];
    match (word, rest.as_slice()) {
        ("@own", _) => {
            script("run.queued {'kind':'agent_loop','prior_run_id':null}\nrun.started {'worker_id':'w1'}")
        }
        ("@ext", _) => {
            script("run.queued {'kind':'external','driver':'external','prior_run_id':null}\nrun.started {}")
        }
        ("@turn", [n]) => one("turn.started", format!("{{'turn_index':{n}}}")),
        ("@turned", [n]) => one("turn.completed", format!("{{'turn_index':{n},'stop_reason':'tool_use'}}")),
        ("@propose", [id]) => one(
            "assistant.tool_call_proposed",
            format!("{{'turn_index':0,'tool_call_id':'{id}','tool_name':'tool','input':{{'x':1}}}}"),
        ),
        ("@invoke", [id]) => one("tool.invoked", format!("{{'tool_call_id':'{id}','tool_name':'tool'}}")),
        ("@client", [id]) => {
            one("tool.invoked", format!("{{'tool_call_id':'{id}','tool_name':'tool','executor':'client'}}"))
        }
        ("@complete", [id]) => one("tool.completed", format!("{{'tool_call_id':'{id}','tool_name':'tool'}}")),
        ("@refuse", [id]) => one(
            "tool.refused",
            format!("{{'tool_call_id':'{id}','tool_name':'tool','code':'denied','message':'no'}}"),
        ),
        ("@ask", [id, call]) => one(
            "approval.requested",
            format!("{{'approval_id':'{id}','tool_call_id':'{call}','kind':'tool','summary':'may I'}}"),
        ),
        ("@say", [id, decision]) => {
            one("approval.resolved", format!("{{'approval_id':'{id}','decision':'{decision}','by':'ann'}}"))
        }
        ("@question", [id, call]) => one(
            "clarification.requested",
            format!("{{'clarification_id':'{id}','question':'which?','tool_call_id':'{call}'}}"),
        ),
        ("@handoff", [id, call]) => one(
            "handoff.requested",
            format!("{{'handoff_id':'{id}','reason':'stuck','target_kind':'human','tool_call_id':'{call}'}}"),
        ),
        ("@wait", pairs) => {
            let items: Vec<String> =
                pairs.chunks(2).map(|pair| format!("{{'kind':'{}','id':'{}'}}", pair[0], pair[1])).collect();
            one("run.waiting", format!("{{'for':[{}]}}", items.join(",")))
        }
        ("@command", [id]) => {
            one("tool.shell.command", format!("{{'tool_call_id':'{id}','argv':['ls'],'cwd':'/'}}"))
        }
        ("@out", [id, at, data]) => one(
            "tool.shell.output_chunk",
            format!("{{'tool_call_id':'{id}','stream':'stdout','data':'{data}','byte_offset':{at}}}"),
        ),
        ("@exit", [id, bytes, truncated]) => one(
            "tool.shell.exited",
            format!(
                "{{'tool_call_id':'{id}','exit_code':0,'signal':null,'stdout_bytes':{bytes},\
                 'stderr_bytes':0,'truncated':{truncated}}}"
            ),
        ),
        ("@tick", [input, output, cost]) => one(
            "cost.tick",
            format!(
                "{{'cumulative_input_tokens':{input},'cumulative_output_tokens':{output},\
                 'cumulative_cost_micros_usd':{cost}}}"
            ),
        ),
        ("@exceeded", _) => script(
            "cost.budget_exceeded {'cumulative_cost_micros_usd':1,'task_budget_micros_usd':1,'action':'halted'}",
        ),
        ("@finished", _) => one("run.finished", "{'final_status':'completed'}".into()),
        (type_name, [data]) if !type_name.starts_with('@') => one(type_name, (*data).to_owned()),
        _ => panic!("{line:?} is no line of a script"),
    }
}

/// A run under way.
pub(super) struct Story {
    pub(super) state: State,
    pub(super) events: Vec<Event>,
    pub(super) now_ms: u64,
}

impl Story {
    /// A run in which the script has happened.
    pub(super) fn of(text: &str) -> Self {
        let events = placed_all(script(text));
        if let Some(illegal) = crate::audit(&events) {
            panic!("the script itself: {illegal}");
        }
        let mut state = State::blank(run_id(), None, None);
        events.iter().for_each(|event| apply(&mut state, event));
        let now_ms = T0 + events.len() as u64;
        Story { state, events, now_ms }
    }

    pub(super) fn decide(&self, command: Command) -> Result<Vec<Event>, Rejection> {
        decide(&self.state, command, Stamp { now_ms: self.now_ms, entropy: 7 })
    }

    /// Carries the command out and answers in lines of type and data what happened.
    pub(super) fn does(&mut self, command: Command) -> Vec<String> {
        let events = self.decide(command).unwrap_or_else(|no| panic!("{no:?}"));
        let lines = events.iter().map(|event| event.type_name().to_owned()).collect();
        for event in events {
            apply(&mut self.state, &event);
            self.events.push(event);
        }
        if let Some(illegal) = crate::audit(&self.events) {
            panic!("{illegal}");
        }
        lines
    }

    pub(super) fn refuses(&self, command: Command) -> Rejection {
        match self.decide(command) {
            Err(no) => no,
            Ok(events) => panic!("taken: {events:?}"),
        }
    }

    /// The last event of a type, as JSON text.
    pub(super) fn last(&self, type_name: &str) -> String {
        let event = self.events.iter().rev().find(|event| event.type_name() == type_name);
        event.unwrap_or_else(|| panic!("no {type_name}")).payload().write()
    }
}

pub(super) fn progress(text: &str) -> Command {
    Command::Progress { drafts: drafts(text) }
}

pub(super) fn append(text: &str) -> Command {
    Command::Append { drafts: drafts(text) }
}

pub(super) fn drafts(text: &str) -> Vec<Draft> {
    script(text).into_iter().map(Draft::from).collect()
}
