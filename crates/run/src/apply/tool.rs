//! Folds `tool.*`: calls from invoked to settled.

use recount_event::ForeignId;
use recount_event::family::run::ChildStarted;
use recount_event::family::shell::{Command, Exited, OutputChunk, Stream};
use recount_event::family::tool;
use recount_event::family::tool::Executor;

use crate::state::{Call, CallStage, Invoked, NameStatus, Shell, Space, State};

/// The kinds of tools of this server that run a command, and do nothing before `tool.shell.command`.
const COMMAND_KINDS: [&str; 2] = ["shell", "git"];

pub(super) fn invoked(state: &mut State, invoked: &tool::Invoked) {
    let stage = CallStage::Invoked(Invoked {
        executor: invoked.executor.unwrap_or(Executor::Server),
        is_command: invoked.kind.as_deref().is_some_and(|kind| COMMAND_KINDS.contains(&kind)),
        shell: None,
        has_child: false,
    });
    if let Some(call) = state.calls.get_mut(&invoked.tool_call_id) {
        call.stage = stage;
        call.tool_name.get_or_insert_with(|| invoked.tool_name.as_str().into());
        return;
    }
    state.calls_seen += 1;
    let call = Call {
        tool_name: Some(invoked.tool_name.as_str().into()),
        input: None,
        turn_index: None,
        stage,
        since: state.next_sequence,
        verdict: None,
        answer: None,
        is_masked: false,
    };
    state.calls.insert(invoked.tool_call_id.clone(), call);
}

pub(super) fn settled(state: &mut State, tool_call_id: &ForeignId, how: &str) {
    state.calls.remove(tool_call_id);
    state.ledger.set(Space::Call, tool_call_id, NameStatus::Over(how.into()));
}

/// A run was started. A call that is not running does not change: the event may have no call of its own.
pub(super) fn started_child(state: &mut State, started: &ChildStarted) {
    let call = started.tool_call_id.as_ref().and_then(|id| state.calls.get_mut(id));
    if let Some(Call { stage: CallStage::Invoked(invoked), .. }) = call {
        invoked.has_child = true;
    }
}

fn shell<'a>(state: &'a mut State, tool_call_id: &ForeignId) -> &'a mut Option<Shell> {
    let call = state.calls.get_mut(tool_call_id).expect("only open calls have a command");
    match &mut call.stage {
        CallStage::Invoked(invoked) => &mut invoked.shell,
        CallStage::Announced | CallStage::Proposed => panic!("{tool_call_id} has a command before it runs"),
    }
}

pub(super) fn shell_command(state: &mut State, command: &Command) {
    *shell(state, &command.tool_call_id) = Some(Shell::default());
}

pub(super) fn shell_chunk(state: &mut State, chunk: &OutputChunk) {
    let shell = shell(state, &chunk.tool_call_id).as_mut().expect("output follows a command");
    let bytes = chunk.byte_count().expect("broken encodings are refused");
    match chunk.stream {
        Stream::Stdout => shell.stdout += bytes,
        Stream::Stderr => shell.stderr += bytes,
    }
}

pub(super) fn shell_exited(state: &mut State, exited: &Exited) {
    let shell = shell(state, &exited.tool_call_id).as_mut().expect("an exit follows a command");
    shell.exited = true;
}
