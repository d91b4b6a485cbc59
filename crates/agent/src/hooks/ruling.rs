//! The decision of a hook on a call, and its encoding as an exit status.
//!
//! Start at [`ruling_of_status`]. Pure.

use super::process::{HookFault, HookReply};
use crate::hooks::limits;
use crate::tools::cut_bytes;

/// The decision of a hook before a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ruling {
    Pass,
    /// With the reason, which may be empty.
    Veto(String),
    /// A person must approve the call.
    Ask(String),
}

/// The exit status for a veto; the reason is on standard error.
pub(super) const VETO_STATUS: i32 = 2;

/// The decision of an exit status: 0 passes, 2 vetoes, any other is a failure.
pub(super) fn ruling_of_status(reply: &HookReply) -> Result<Ruling, HookFault> {
    match reply.status {
        0 => Ok(Ruling::Pass),
        VETO_STATUS => Ok(Ruling::Veto(reason(&reply.stderr))),
        status => Err(HookFault::Status { status, stderr: reason(&reply.stderr) }),
    }
}

/// The reason that a hook wrote, shortened.
pub(super) fn reason(bytes: &[u8]) -> String {
    // A few more bytes, so that the cut is visible.
    let shown = &bytes[..bytes.len().min(limits::HOOK_REASON_BYTES_MAX + 8)];
    shorten(String::from_utf8_lossy(shown).trim())
}

/// Shortens a reason.
pub(super) fn shorten(text: &str) -> String {
    cut_bytes(text.to_owned(), limits::HOOK_REASON_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(status: i32, stderr: &str) -> HookReply {
        HookReply { status, stdout: Vec::new(), stderr: stderr.as_bytes().to_vec(), left_open: false }
    }

    #[test]
    fn two_statuses_are_decisions_and_others_are_failures() {
        assert_eq!(ruling_of_status(&reply(0, "a note")), Ok(Ruling::Pass));
        assert_eq!(ruling_of_status(&reply(2, " not here\n")), Ok(Ruling::Veto("not here".into())));
        for status in [1, 3, 126, 127, 255] {
            let fault = HookFault::Status { status, stderr: "oh".into() };
            assert_eq!(ruling_of_status(&reply(status, "oh\n")), Err(fault.clone()));
            assert_eq!(fault.to_string(), format!("it ended with exit status {status}: oh"));
        }
    }

    #[test]
    fn a_long_reason_is_cut_where_a_character_ends() {
        let long = "ä".repeat(limits::HOOK_REASON_BYTES_MAX);
        let Ok(Ruling::Veto(cut)) = ruling_of_status(&reply(2, &long)) else { panic!("no veto") };
        assert!(
            cut.ends_with("ä…") && cut.len() <= limits::HOOK_REASON_BYTES_MAX + "…".len(),
            "{}",
            cut.len()
        );
    }
}
