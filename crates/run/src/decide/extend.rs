//! Moves the deadline of a prompt, for people who need more time to decide. Nothing else follows: a run that waits goes
//! on waiting.

use recount_event::family::{approval, clarification, handoff};
use recount_event::{Code, ForeignId, Payload, time};

use super::{Batch, answer};
use crate::limits;
use crate::rejection::Rejection;
use crate::state::PromptKind;

pub(super) fn extend(
    batch: &mut Batch,
    kind: PromptKind,
    id: ForeignId,
    seconds: u64,
    by: String,
) -> Result<(), Rejection> {
    let name = kind.named(&id);
    let prompt = answer::open(batch, kind, &id)?;
    let refused = |why: String| Rejection::new(Code::ExtensionRefused, why);
    let Some(deadline_ms) = prompt.deadline_ms else {
        return Err(refused(format!("{name} has no deadline to extend: answer it at any time")));
    };
    // Its default is about to be applied: the timer only has not come around to it.
    if deadline_ms <= batch.stamp.now_ms {
        let why = format!("{name} expired at {}", time::format_ms(deadline_ms));
        return Err(Rejection::new(kind.not_pending(), why));
    }
    if seconds == 0 {
        return Err(refused(format!("{name} cannot be extended by 0 seconds: send at least 1")));
    }
    if prompt.extensions >= limits::EXTENSIONS_MAX {
        let most = limits::EXTENSIONS_MAX;
        let why = format!("{name} was extended {most} times, the maximum: answer it");
        return Err(Rejection::limit("limit.extensions", why));
    }
    let left = limits::EXTENSION_SECONDS_MAX.saturating_sub(prompt.extended_seconds);
    if seconds > left {
        let why = format!("{name} cannot be extended by {seconds} seconds: send at most {left}");
        return Err(Rejection::limit("limit.extension_seconds", why));
    }
    let later_ms = deadline_ms.saturating_add(seconds.saturating_mul(1_000));
    if later_ms > time::LAST_MS {
        return Err(refused(format!("{name} cannot be extended beyond the year 9999: send fewer seconds")));
    }
    let (tool_call_id, expires_at) = (prompt.tool_call_id().cloned(), time::format_ms(later_ms));
    batch.emit(match kind {
        PromptKind::Approval => {
            let mut extended = approval::Extended::new(id, expires_at, seconds, by);
            extended.tool_call_id = tool_call_id;
            Payload::ApprovalExtended(Box::new(extended))
        }
        PromptKind::Clarification => {
            let mut extended = clarification::Extended::new(id, expires_at, seconds, by);
            extended.tool_call_id = tool_call_id;
            Payload::ClarificationExtended(Box::new(extended))
        }
        PromptKind::Handoff => {
            let mut extended = handoff::Extended::new(id, expires_at, seconds, by);
            extended.tool_call_id = tool_call_id;
            Payload::HandoffExtended(Box::new(extended))
        }
    })
}
