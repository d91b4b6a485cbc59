//! `tool.shell.*`: a subprocess from command to exit.

use crate::ForeignId;
use crate::family::{payload, words};

words! {
    /// Which of a process's outputs.
    Stream { Stdout = "stdout", Stderr = "stderr" }

    /// The encoding of bytes that are not text.
    Encoding { Base64 = "base64" }
}

payload! {
    /// A command is about to run. It has the names of environment variables, never their values.
    Command { tool_call_id: ForeignId, argv: Vec<String>, cwd: String } {
        env_keys: Vec<String>,
        sandbox_layer: String,
        tool_name: String,
        kind: String,
    }

    /// A piece of output. `byte_offset` counts the bytes before it in the same stream.
    OutputChunk { tool_call_id: ForeignId, stream: Stream,
        /// The output: text, or bytes in the encoding that `encoding` names.
        data: String,
        byte_offset: u64 } {
        /// Present if `data` is not plain text.
        encoding: Encoding,
    }

    /// The process exited.
    Exited {
        tool_call_id: ForeignId,
        exit_code: Option<i64>,
        signal: Option<String>,
        stdout_bytes: u64,
        stderr_bytes: u64,
        /// Whether output is missing, because it exceeded a limit or a stream was not read to its end.
        truncated: bool,
    } {
        /// Streams that were not read to their end, because another process held them open.
        left_open: Vec<Stream>,
        /// The number of the signal on the server's system.
        signal_number: u64,
    }
}

impl OutputChunk {
    /// How many bytes of output this stands for; `None` when the encoding does not hold.
    pub fn byte_count(&self) -> Option<u64> {
        let bytes = match self.encoding {
            None => self.data.len(),
            Some(_) => self.bytes()?.len(),
        };
        Some(bytes as u64)
    }

    /// The bytes of output that this stands for; `None` when the encoding does not hold.
    pub fn bytes(&self) -> Option<Vec<u8>> {
        use base64::Engine as _;
        match self.encoding {
            None => Some(self.data.clone().into_bytes()),
            Some(Encoding::Base64) => base64::engine::general_purpose::STANDARD.decode(&self.data).ok(),
        }
    }
}
