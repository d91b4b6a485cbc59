//! Checks reported events and texts of commands against [`crate::limits`].

use recount_event::family::assistant::{TextComplete, TextDelta};
use recount_event::{Json, Payload};

use crate::command::{CallAnswer, CallResolution, Command};
use crate::limits;
use crate::rejection::Rejection;
use crate::state::{Space, State};

/// Lengths of the fields of a command.
pub(super) fn command(command: &Command) -> Result<(), Rejection> {
    let words: &[&str] = match command {
        Command::Queue { .. } | Command::Tick => &[],
        Command::Append { drafts } | Command::Progress { drafts } => {
            return at_most("limit.batch", "a batch", drafts.len(), limits::BATCH_DRAFTS_MAX, "events");
        }
        Command::Cancel { reason, .. } | Command::Prune { reason, .. } => &[reason],
        Command::Fail { code, message, .. } => &[code, message],
        Command::ResolveApproval { by, comment, .. } | Command::AcknowledgeHandoff { by, comment, .. } => {
            &[by, comment.as_deref().unwrap_or("")]
        }
        Command::AnswerCalls { answers, by, via, config, .. } => {
            at_most("limit.batch", "the answer", answers.len(), limits::CALLS_OPEN_MAX, "calls")?;
            changed(config.as_ref())?;
            answers.iter().try_for_each(answer)?;
            &[by, via]
        }
        Command::AnswerClarification { response, blocks, by, config, .. } => {
            changed(config.as_ref())?;
            let blocks: usize = blocks.iter().flatten().map(|block| block.text().len()).sum();
            for size in [response.text().len(), blocks] {
                at_most("limit.response", "the response", size, limits::RESPONSE_BYTES_MAX, "bytes")?;
            }
            &[by]
        }
        Command::ExtendPrompt { by, .. } => &[by],
        Command::RejectHandoff { by, reason, .. } => &[by, reason.as_deref().unwrap_or("")],
        Command::TakeOver { worker_id, reason, .. } => &[worker_id, reason],
    };
    words.iter().try_for_each(|text| {
        at_most("limit.words", "a name, comment or reason", text.len(), limits::WORDS_BYTES_MAX, "bytes")
    })
}

fn changed(config: Option<&Json>) -> Result<(), Rejection> {
    let bytes = config.map_or(0, |config| config.text().len());
    at_most("limit.config", "the changed configuration", bytes, limits::CONFIG_BYTES_MAX, "bytes")
}

/// The answer of an application to one call.
fn answer(answer: &CallAnswer) -> Result<(), Rejection> {
    match &answer.resolution {
        CallResolution::Granted => Ok(()),
        CallResolution::Denied { reason } => {
            let size = reason.as_deref().unwrap_or("").len();
            at_most("limit.words", "a reason", size, limits::WORDS_BYTES_MAX, "bytes")
        }
        CallResolution::Output { output, text } => {
            // As they will be written down: a text of unusual characters is longer there.
            let quoted = Json::of(text).map_or(usize::MAX, |quoted| quoted.text().len());
            let size = output.text().len().max(quoted);
            at_most("limit.output", "the result of a call", size, limits::OUTPUT_BYTES_MAX, "bytes")
        }
    }
}

fn at_most(rule: &'static str, what: &str, size: usize, max: usize, unit: &str) -> Result<(), Rejection> {
    if size > max {
        return Err(Rejection::limit(rule, format!("{what} has {size} {unit}: send at most {max}")));
    }
    Ok(())
}

/// Checks the limits for what an event adds to a run.
pub(super) fn event(state: &State, payload: &Payload) -> Result<(), Rejection> {
    match payload {
        Payload::TurnStarted(_) if state.turns.started >= limits::TURNS_MAX => Err(Rejection::limit(
            "limit.turns",
            format!("the run has {} turns, the maximum: continue in a new run", limits::TURNS_MAX),
        )),
        Payload::AssistantTextDelta(delta) | Payload::AssistantThinkingDelta(delta) => piece(state, delta),
        Payload::AssistantTextComplete(whole) | Payload::AssistantThinkingComplete(whole) => {
            text(state, whole)
        }
        Payload::AssistantToolCallProposed(proposed) => one_more_call(state, &proposed.tool_call_id),
        Payload::ToolInvoked(invoked) => one_more_call(state, &invoked.tool_call_id),
        Payload::ApprovalRequested(request) => {
            one_more_call(state, &request.tool_call_id)?;
            one_more_prompt(state)
        }
        Payload::ClarificationRequested(_) | Payload::HandoffRequested(_) => one_more_prompt(state),
        Payload::CostBudgetWarning(_) if state.cost.warned.len() >= limits::WARNINGS_MAX => {
            Err(Rejection::limit(
                "limit.warnings",
                format!(
                    "the run has budget warnings at {} thresholds, the maximum: send no more warnings",
                    limits::WARNINGS_MAX
                ),
            ))
        }
        _ => Ok(()),
    }
}

fn one_more_call(state: &State, tool_call_id: &str) -> Result<(), Rejection> {
    if state.calls.contains_key(tool_call_id) || state.ledger.get(Space::Call, tool_call_id).is_some() {
        return Ok(());
    }
    if state.calls.len() >= limits::CALLS_OPEN_MAX {
        return Err(Rejection::limit(
            "limit.calls_open",
            format!(
                "{} calls are open, the maximum: settle one before call {tool_call_id}",
                limits::CALLS_OPEN_MAX
            ),
        ));
    }
    if state.calls_seen >= limits::CALLS_MAX {
        return Err(Rejection::limit(
            "limit.calls",
            format!("the run has {} calls, the maximum: continue in a new run", limits::CALLS_MAX),
        ));
    }
    Ok(())
}

fn one_more_prompt(state: &State) -> Result<(), Rejection> {
    if state.prompts.len() >= limits::PROMPTS_OPEN_MAX {
        return Err(Rejection::limit(
            "limit.prompts_open",
            format!(
                "{} approvals, questions and handoffs are pending, the maximum: wait until one has an outcome",
                limits::PROMPTS_OPEN_MAX
            ),
        ));
    }
    if state.prompts_seen >= limits::PROMPTS_MAX {
        return Err(Rejection::limit(
            "limit.prompts",
            format!(
                "the run has {} approvals, questions and handoffs, the maximum: continue in a new run",
                limits::PROMPTS_MAX
            ),
        ));
    }
    Ok(())
}

fn piece(state: &State, delta: &TextDelta) -> Result<(), Rejection> {
    let Some(turn) = &state.turns.open else { return Ok(()) };
    let before = match turn.blocks.get(&delta.block_index) {
        Some(block) => block.text.bytes(),
        None => {
            if turn.blocks.len() >= limits::BLOCKS_OPEN_MAX {
                return Err(Rejection::limit(
                    "limit.blocks_open",
                    format!(
                        "{} blocks are open, the maximum: complete one before block {}",
                        limits::BLOCKS_OPEN_MAX,
                        delta.block_index
                    ),
                ));
            }
            one_more_block(state)?;
            0
        }
    };
    text_bytes(delta.block_index, before.saturating_add(delta.delta.len()))
}

fn text(state: &State, whole: &TextComplete) -> Result<(), Rejection> {
    let Some(turn) = &state.turns.open else { return Ok(()) };
    if turn.blocks.contains_key(&whole.block_index) {
        return Ok(());
    }
    one_more_block(state)?;
    text_bytes(whole.block_index, whole.text.len())
}

fn one_more_block(state: &State) -> Result<(), Rejection> {
    let open = state.turns.open.as_ref().map_or(0, |turn| turn.blocks.len());
    if state.turns.closed_blocks.len() + open >= limits::BLOCKS_PER_TURN_MAX {
        return Err(Rejection::limit(
            "limit.blocks_per_turn",
            format!(
                "the turn has {} blocks, the maximum: continue in a new turn",
                limits::BLOCKS_PER_TURN_MAX
            ),
        ));
    }
    Ok(())
}

fn text_bytes(block_index: u64, bytes: usize) -> Result<(), Rejection> {
    if bytes > limits::TEXT_BLOCK_BYTES_MAX {
        return Err(Rejection::limit(
            "limit.text_block",
            format!(
                "block {block_index} would have {bytes} bytes: complete it at {} bytes and continue in a new \
                 block",
                limits::TEXT_BLOCK_BYTES_MAX
            ),
        ));
    }
    Ok(())
}
