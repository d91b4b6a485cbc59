//! Bounds what one call may receive, over any transport. Start at [`ReadQuota`].

use super::fault::{Fault, code};
use crate::mcp::limits;

/// The bytes and messages that one call may still receive.
#[derive(Debug)]
pub(crate) struct ReadQuota {
    pub(crate) bytes: usize,
    pub(crate) messages: usize,
}

impl ReadQuota {
    pub(crate) fn new() -> Self {
        ReadQuota { bytes: limits::MCP_CALL_BYTES_MAX, messages: limits::MCP_CALL_MESSAGES_MAX }
    }

    /// Subtracts received bytes.
    pub(crate) fn take(&mut self, bytes: usize) -> Result<(), Fault> {
        match self.bytes.checked_sub(bytes) {
            Some(left) => self.bytes = left,
            None => {
                let most = limits::MCP_CALL_BYTES_MAX;
                return Err(Fault::new(
                    code::FLOODED,
                    format!(
                        "the server sent more than {most} bytes for one request; the connection was closed"
                    ),
                ));
            }
        }
        Ok(())
    }

    pub(crate) fn take_message(&mut self) -> Result<(), Fault> {
        match self.messages.checked_sub(1) {
            Some(left) => self.messages = left,
            None => {
                let most = limits::MCP_CALL_MESSAGES_MAX;
                return Err(Fault::new(
                    code::FLOODED,
                    format!(
                        "the server sent more than {most} messages for one request; the connection was closed"
                    ),
                ));
            }
        }
        Ok(())
    }
}
