//! Checks a command: its start, its output byte for byte, its exit.

use recount_event::ForeignId;
use recount_event::family::shell::{Command, Exited, OutputChunk, Stream};

use super::tool;
use crate::rejection::{Broken, broken};
use crate::state::{Shell, State};

pub(super) fn command(state: &State, command: &Command) -> Result<(), Broken> {
    let id = &command.tool_call_id;
    tool::reports_on(state, id, command.tool_name.as_deref())?;
    if tool::running(state, id)?.1.shell.is_some() {
        return broken!("shell.once", "call {id} already has a command: use one call per command");
    }
    Ok(())
}

fn live(state: &State, id: &ForeignId, what: &str) -> Result<Shell, Broken> {
    match tool::running(state, id)?.1.shell {
        Some(shell) if !shell.exited => Ok(shell),
        Some(_) => broken!("shell.order", "{what} of call {id} is not allowed after its command's exit"),
        None => broken!("shell.order", "{what} of call {id} is not allowed before tool.shell.command"),
    }
}

pub(super) fn chunk(state: &State, chunk: &OutputChunk) -> Result<(), Broken> {
    let id = &chunk.tool_call_id;
    let shell = live(state, id, "output")?;
    if chunk.byte_count().is_none() {
        return broken!(
            "shell.encoding",
            "output of call {id} is declared as base64 but is not valid base64"
        );
    }
    let sent = match chunk.stream {
        Stream::Stdout => shell.stdout,
        Stream::Stderr => shell.stderr,
    };
    if chunk.byte_offset != sent {
        return broken!(
            "shell.offset",
            "{} of call {id} continues at byte {}, but {sent} bytes were sent: send byte_offset {sent}",
            chunk.stream,
            chunk.byte_offset
        );
    }
    Ok(())
}

pub(super) fn exited(state: &State, exited: &Exited) -> Result<(), Broken> {
    let id = &exited.tool_call_id;
    let shell = live(state, id, "the exit")?;
    let streams = [
        (Stream::Stdout, exited.stdout_bytes, shell.stdout),
        (Stream::Stderr, exited.stderr_bytes, shell.stderr),
    ];
    for (stream, counted, sent) in streams {
        let fits = if exited.truncated { counted >= sent } else { counted == sent };
        if !fits {
            return broken!(
                "shell.sums",
                "the exit of call {id} counts {counted} bytes of {stream}, but {sent} were sent"
            );
        }
    }
    Ok(())
}
