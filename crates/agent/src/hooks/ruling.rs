//! What a hook rules on a call, and how its exit status says so.
//!
//! Look at [`by_status`]. Pure.

use super::process::{HookFault, HookReply};
use crate::hooks::limits;
use crate::tools::cut_bytes;

/// The answer of a hook before a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ruling {
    Pass,
    /// With the reason, which may be empty.
    Veto(String),
    /// Only a person may allow it.
    Ask(String),
}

/// The exit status by which a hook vetoes; its reason is on standard error.
pub(super) const VETO_STATUS: i32 = 2;

/// What an exit status alone says: 0 to go on, 2 for a veto. Any other is a failure.
pub(super) fn by_status(reply: &HookReply) -> Result<Ruling, HookFault> {
    match reply.status {
        0 => Ok(Ruling::Pass),
        VETO_STATUS => Ok(Ruling::Veto(reason(&reply.stderr))),
        status => Err(HookFault::Status { status, stderr: reason(&reply.stderr) }),
    }
}

/// What a hook wrote for people, in short.
pub(super) fn reason(bytes: &[u8]) -> String {
    // A few more, so that it shows where something was cut.
    let shown = &bytes[..bytes.len().min(limits::HOOK_REASON_BYTES_MAX + 8)];
    in_short(String::from_utf8_lossy(shown).trim())
}

/// The beginning of a reason.
pub(super) fn in_short(text: &str) -> String {
    cut_bytes(text.to_owned(), limits::HOOK_REASON_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(status: i32, stderr: &str) -> HookReply {
        HookReply { status, stdout: Vec::new(), stderr: stderr.as_bytes().to_vec(), left_open: false }
    }

    #[test]
    fn two_statuses_are_answers_and_the_others_failures() {
        assert_eq!(by_status(&reply(0, "a note")), Ok(Ruling::Pass));
        assert_eq!(by_status(&reply(2, " not here\n")), Ok(Ruling::Veto("not here".into())));
        for status in [1, 3, 126, 127, 255] {
            let fault = HookFault::Status { status, stderr: "oh".into() };
            assert_eq!(by_status(&reply(status, "oh\n")), Err(fault.clone()));
            assert_eq!(fault.to_string(), format!("it ended with exit status {status}: oh"));
        }
    }

    #[test]
    fn a_long_reason_is_cut_where_a_character_ends() {
        let long = "ä".repeat(limits::HOOK_REASON_BYTES_MAX);
        let Ok(Ruling::Veto(cut)) = by_status(&reply(2, &long)) else { panic!("no veto") };
        assert!(
            cut.ends_with("ä…") && cut.len() <= limits::HOOK_REASON_BYTES_MAX + "…".len(),
            "{}",
            cut.len()
        );
    }
}
