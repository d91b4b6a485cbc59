//! Generates events that a producer or a performer might report: mostly legal, sometimes not.

use recount_event::family::approval::{self, DefaultDecision};
use recount_event::family::assistant::{FinalAnswer, TextComplete, TextDelta, ToolCallProposed};
use recount_event::family::run::{Failed, Finished, Started, WaitKind, Waiting, WaitsFor};
use recount_event::family::shell::{Command, Exited, OutputChunk, Stream};
use recount_event::family::tool::{self, Ended, Executor, Invoked, RefusalCode, Refused, RiskLevel};
use recount_event::family::{clarification, cost, gap, handoff, turn, user};
use recount_event::registry::Opaque;
use recount_event::{Draft, ForeignId, Json, Payload, door};
use recount_run::PromptKind;

use crate::belief::{Belief, Call, Shell, Stage, Turn};
use crate::dice::Dice;

/// Generates the events of a run.
pub struct EventGenerator<'a> {
    pub dice: &'a Dice,
    /// A prefix for names that no other run uses.
    pub tag: &'a str,
    /// The rate per thousand of events that ignore the rules.
    pub wild: u64,
    /// The maximum timeout of a prompt in seconds.
    pub patience: u64,
}

const TOOLS: [&str; 3] = ["shell", "read_file", "search"];

impl EventGenerator<'_> {
    /// Generates up to `most` events that could come next; none if nothing can.
    pub fn batch(&self, belief: &Belief, most: u64) -> Vec<Payload> {
        let mut belief = belief.clone();
        let mut batch = Vec::new();
        for _ in 0..=self.dice.below(most) {
            let wild = self.dice.permille(self.wild);
            let Some(payload) = (if wild { Some(self.wild(&belief)) } else { self.next(&belief) }) else {
                break;
            };
            belief.see(&payload);
            batch.push(payload);
        }
        batch
    }

    fn next(&self, belief: &Belief) -> Option<Payload> {
        if belief.ended {
            return None;
        }
        if !belief.started {
            let mut choices = vec![(20, started()), (2, self.message()), (2, self.note())];
            choices.push((1, self.failed()));
            return self.dice.weighed(choices);
        }
        if belief.waiting {
            return self.dice.weighed(self.results(belief, true));
        }
        if belief.lost {
            return Some(started());
        }
        let mut choices = vec![(1, self.message()), (2, self.note())];
        choices.extend(self.calls(belief));
        choices.extend(self.results(belief, false));
        choices.extend(self.questions(belief));
        match &belief.turn {
            Some(turn) => choices.extend(self.in_turn(belief, turn)),
            None => choices.extend(self.between_turns(belief)),
        }
        self.dice.weighed(choices)
    }

    fn in_turn(&self, belief: &Belief, turn: &Turn) -> Vec<(u64, Payload)> {
        let mut choices = Vec::new();
        // Thinking is experimental, so producers may not report it.
        let thinking = belief.own && self.dice.permille(300);
        let (index, thinking) = match turn.blocks.first_key_value() {
            Some((index, (thinking, _))) if self.dice.permille(800) => (*index, *thinking),
            _ => (belief.blocks_used, thinking),
        };
        let delta = Box::new(TextDelta::new(turn.index, index, self.words()));
        choices.push((
            8,
            if thinking {
                Payload::AssistantThinkingDelta(delta)
            } else {
                Payload::AssistantTextDelta(delta)
            },
        ));
        for (index, (thinking, text)) in &turn.blocks {
            let whole = Box::new(TextComplete::new(turn.index, *index, text.clone()));
            choices.push((
                5,
                if *thinking {
                    Payload::AssistantThinkingComplete(whole)
                } else {
                    Payload::AssistantTextComplete(whole)
                },
            ));
        }
        if !belief.answered_finally {
            let id = self.name(belief, "c");
            let input = Json::of(&self.words()).expect("a string is JSON");
            let proposed = ToolCallProposed::new(turn.index, id, self.tool(), input);
            choices.push((5, Payload::AssistantToolCallProposed(Box::new(proposed))));
            let answer = FinalAnswer::new(turn.index, self.words());
            choices.push((1, Payload::AssistantFinalAnswer(Box::new(answer))));
        }
        if turn.blocks.is_empty() {
            let mut completed = turn::Completed::new(
                turn.index,
                if turn.proposed > 0 { turn::StopReason::ToolUse } else { turn::StopReason::EndTurn },
            );
            completed.tool_calls = Some(turn.proposed);
            completed.input_tokens = Some(self.dice.below(1000));
            choices.push((6, Payload::TurnCompleted(Box::new(completed))));
            let may_fail = belief.calls.iter().all(|(id, call)| {
                call.turn != Some(turn.index) || call.stage != Stage::Proposed || belief.has_open_prompt(id)
            });
            if may_fail {
                let again = self.dice.permille(600);
                let failed = turn::Failed::new(turn.index, "overloaded".into(), self.words(), again);
                choices.push((1, Payload::TurnFailed(Box::new(failed))));
            }
        }
        choices
    }

    fn between_turns(&self, belief: &Belief) -> Vec<(u64, Payload)> {
        let mut choices = Vec::new();
        if !belief.halted {
            let index = match belief.turn_again {
                Some(again) if self.dice.permille(800) => again,
                _ => belief.turn_next + self.dice.below(2) * self.dice.below(3),
            };
            choices.push((8, Payload::TurnStarted(Box::new(turn::Started::new(index)))));
            let exceeded = cost::BudgetExceeded::new(1000, 1000, "halted".into());
            if self.dice.permille(50) {
                choices.push((1, Payload::CostBudgetExceeded(Box::new(exceeded))));
            }
        }
        if !belief.own {
            let tick = cost::Tick::new(belief.tokens + self.dice.below(50), 0, 0);
            choices.push((1, Payload::CostTick(Box::new(tick))));
        }
        if belief.own && !belief.waits_for().is_empty() {
            let all_wait =
                belief.calls.iter().all(|(id, call)| call.is_with_client() || belief.has_open_prompt(id));
            if all_wait {
                let waits_for = belief.waits_for();
                let waits_for = waits_for.into_iter().map(|(kind, id)| WaitsFor { kind, id }).collect();
                choices.push((10, Payload::RunWaiting(Box::new(Waiting::new(waits_for)))));
            }
        }
        let settled = belief.calls.values().all(|call| call.stage == Stage::Announced);
        if settled && belief.prompts.is_empty() {
            let mut finished = Finished::new("completed".into());
            finished.turns = belief.own.then_some(belief.turns_completed);
            choices.push((1, Payload::RunFinished(Box::new(finished))));
            if self.dice.permille(200) {
                choices.push((1, self.failed()));
            }
        }
        choices
    }

    /// Events of calls before they are invoked.
    fn calls(&self, belief: &Belief) -> Vec<(u64, Payload)> {
        let mut choices = Vec::new();
        if !belief.halted && self.dice.permille(100) {
            choices.push((2, self.invoked(belief, &self.name(belief, "c"), None)));
        }
        if self.dice.permille(100) {
            choices.push((1, self.approval_request(belief, self.name(belief, "c"))));
        }
        for (id, call) in &belief.calls {
            if call.stage == Stage::Announced || belief.has_open_prompt(id) {
                continue;
            }
            let denied = call.granted == Some(false);
            if call.stage == Stage::Proposed {
                let code = if denied { RefusalCode::Denied } else { RefusalCode::Blocked };
                let refused = Refused::new(id.clone(), tool_name(call), code, self.words());
                choices.push((
                    if denied || belief.halted { 8 } else { 1 },
                    Payload::ToolRefused(Box::new(refused)),
                ));
                if !denied && !belief.halted {
                    choices.push((6, self.invoked(belief, id, Some(call))));
                }
                if !denied && call.granted.is_none() {
                    choices.push((4, self.approval_request(belief, id.clone())));
                }
            }
        }
        choices
    }

    /// Events of running calls, and their ends.
    fn results(&self, belief: &Belief, waiting: bool) -> Vec<(u64, Payload)> {
        let mut choices = Vec::new();
        for (id, call) in &belief.calls {
            let Stage::Invoked { client, shell } = call.stage else { continue };
            if waiting && !client {
                continue;
            }
            let mut ended = Ended::new(id.clone(), tool_name(call));
            ended.output = Json::of(&self.words()).ok();
            let ended = Box::new(ended);
            if shell.is_none_or(|shell| shell.exited) {
                choices.push((5, Payload::ToolCompleted(ended.clone())));
            }
            choices.push((1, Payload::ToolFailed(ended.clone())));
            if self.dice.permille(200) {
                choices.push((1, Payload::ToolCancelled(ended.clone())));
                choices.push((1, Payload::ToolTimedOut(ended)));
            }
            if waiting {
                continue;
            }
            match shell {
                None => {
                    let started = tool::Started::new(id.clone(), tool_name(call));
                    choices.push((1, Payload::ToolStarted(Box::new(started))));
                    let command = Command::new(id.clone(), vec!["ls".into()], "/".into());
                    choices.push((2, Payload::ToolShellCommand(Box::new(command))));
                }
                Some(shell) if !shell.exited => choices.extend(self.shell(id, shell)),
                Some(_) => {}
            }
        }
        choices
    }

    fn shell(&self, id: &ForeignId, shell: Shell) -> Vec<(u64, Payload)> {
        let (stream, offset) =
            if self.dice.permille(700) { (Stream::Stdout, shell.out) } else { (Stream::Stderr, shell.err) };
        let chunk = OutputChunk::new(id.clone(), stream, self.words(), offset);
        let exited = Exited::new(id.clone(), Some(0), None, shell.out, shell.err, false);
        vec![
            (4, Payload::ToolShellOutputChunk(Box::new(chunk))),
            (4, Payload::ToolShellExited(Box::new(exited))),
        ]
    }

    fn questions(&self, belief: &Belief) -> Vec<(u64, Payload)> {
        if !self.dice.permille(200) {
            return Vec::new();
        }
        let calls: Vec<&ForeignId> = belief.calls.keys().filter(|id| !belief.has_open_prompt(id)).collect();
        let about = self.dice.pick(&calls).filter(|_| self.dice.permille(500)).map(|id| (*id).clone());
        let mut question = clarification::Requested::new(self.name(belief, "q"), self.words());
        question.timeout_seconds = self.timeout();
        question.tool_call_id = about.clone();
        question.default_response = self.dice.permille(500).then(|| Json::of(&7).expect("a number is JSON"));
        let mut help =
            handoff::Requested::new(self.name(belief, "h"), "stuck".into(), handoff::TargetKind::Human);
        help.timeout_seconds = self.timeout();
        help.tool_call_id = about;
        vec![
            (4, Payload::ClarificationRequested(Box::new(question))),
            (1, Payload::HandoffRequested(Box::new(help))),
        ]
    }

    fn approval_request(&self, belief: &Belief, call: ForeignId) -> Payload {
        // Sometimes a name that other runs use too.
        let id = if self.dice.permille(20) { id("shared") } else { self.name(belief, "a") };
        let mut requested = approval::Requested::new(id, call, "tool".into(), self.words());
        requested.timeout_seconds = self.timeout();
        if self.dice.permille(300) {
            requested.default_decision = Some(DefaultDecision::Approve);
        } else if self.dice.permille(300) {
            requested.irreversible = Some(true);
        }
        Payload::ApprovalRequested(Box::new(requested))
    }

    fn invoked(&self, belief: &Belief, id: &ForeignId, call: Option<&Call>) -> Payload {
        let mut invoked = Invoked::new(id.clone(), call.map_or_else(|| self.tool(), tool_name));
        invoked.turn_index = call.and_then(|call| call.turn);
        if belief.own && self.dice.permille(300) {
            invoked.executor = Some(Executor::Client);
        }
        if call.is_some_and(|call| call.granted == Some(true)) && self.dice.permille(500) {
            invoked.risk_level = Some(RiskLevel::High);
        }
        Payload::ToolInvoked(Box::new(invoked))
    }

    /// Any event.
    fn wild(&self, belief: &Belief) -> Payload {
        let some_call = self.dice.pick(&belief.calls.keys().collect::<Vec<_>>()).map(|id| (*id).clone());
        let call = some_call.unwrap_or_else(|| id("nobody"));
        let turn = self.dice.below(belief.turn_next + 2);
        match self.dice.below(18) {
            0 => started(),
            1 => Payload::TurnStarted(Box::new(turn::Started::new(turn))),
            2 => Payload::TurnCompleted(Box::new(turn::Completed::new(turn, turn::StopReason::EndTurn))),
            3 => Payload::AssistantTextComplete(Box::new(TextComplete::new(
                turn,
                self.dice.below(belief.blocks_used + 1),
                self.words(),
            ))),
            4 => Payload::AssistantToolCallProposed(Box::new(ToolCallProposed::new(
                turn,
                call,
                self.tool(),
                Json::default(),
            ))),
            5 => self.invoked(belief, &call, None),
            6 => Payload::ToolCompleted(Box::new(Ended::new(call, self.tool()))),
            7 => Payload::ToolRefused(Box::new(Refused::new(
                call,
                self.tool(),
                RefusalCode::Blocked,
                self.words(),
            ))),
            8 => self.approval_request(belief, call),
            9 => Payload::RunFinished(Box::new(Finished::new("completed".into()))),
            10 => self.failed(),
            11 => Payload::CostTick(Box::new(cost::Tick::new(self.dice.below(500), 0, 0))),
            12 => Payload::ToolShellOutputChunk(Box::new(OutputChunk::new(
                call,
                Stream::Stdout,
                self.words(),
                self.dice.below(20),
            ))),
            13 => Payload::RunWaiting(Box::new(Waiting::new(vec![WaitsFor {
                kind: WaitKind::ClientTool,
                id: call,
            }]))),
            14 => Payload::Opaque(Opaque { type_name: "made.up".into(), data: "{}".into() }),
            15 => Payload::GapRunDisconnected(Box::new(gap::RunDisconnected::new(
                0,
                "2026-05-03T10:23:45.123Z".into(),
                "away".into(),
            ))),
            16 => {
                let id = belief.open(PromptKind::Approval).pop().unwrap_or_else(|| id("nothing"));
                let decision = approval::Decision::Approved;
                Payload::ApprovalResolved(Box::new(approval::Resolved::new(id, decision, "itself".into())))
            }
            _ => Payload::AssistantTextDelta(Box::new(TextDelta::new(
                turn,
                self.dice.below(belief.blocks_used + 1),
                self.words(),
            ))),
        }
    }

    fn name(&self, belief: &Belief, what: &str) -> ForeignId {
        id(&format!("{}-{what}{}", self.tag, belief.names_used))
    }

    fn tool(&self) -> String {
        TOOLS[self.dice.index(TOOLS.len())].to_owned()
    }

    fn words(&self) -> String {
        let words = ["so", "then", "é", "\"", "\n", "nothing", "🙂", "\\"];
        (0..=self.dice.below(4)).map(|_| words[self.dice.index(words.len())]).collect()
    }

    fn timeout(&self) -> Option<u64> {
        self.dice.permille(700).then(|| 1 + self.dice.below(self.patience))
    }

    fn message(&self) -> Payload {
        Payload::UserMessage(Box::new(user::Message::new(self.words())))
    }

    fn note(&self) -> Payload {
        Payload::Opaque(Opaque { type_name: "ext.sim.note".into(), data: "{\"n\":1.0}".into() })
    }

    fn failed(&self) -> Payload {
        let failed = Failed::new("broken".into(), self.words(), self.dice.permille(500));
        Payload::RunFailed(Box::new(failed))
    }
}

fn started() -> Payload {
    Payload::RunStarted(Box::new(Started::new()))
}

fn tool_name(call: &Call) -> String {
    call.tool_name.clone().unwrap_or_else(|| TOOLS[0].to_owned())
}

/// An id that is always valid.
pub fn id(text: &str) -> ForeignId {
    ForeignId::parse(text).expect("names are made of letters, digits and dashes")
}

/// Encodes and checks a payload like external input. `None` if the check refuses it.
pub fn draft(payload: &Payload) -> Option<Draft> {
    door::draft(payload.type_name(), &payload.write()).ok()
}
