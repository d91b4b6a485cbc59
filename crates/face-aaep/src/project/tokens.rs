//! The seam between projected prompts and their reply tokens. Pure; it must never know keys.
//!
//! A projection does not make tokens: [`Projector::event`](super::Projector::event) asks a function of the caller for each
//! prompt. There are two ways to use it:
//!
//! - the tokens of a prompt are the same for all listeners of the projection: pass the function that mints them;
//! - each listener has tokens of its own: pass [`unminted`], keep what [`prompt_of`] names beside the projected events, and
//!   let [`mint`] fill in the token on each listener's copy.
//!
//! Both give the same events. [`informational`](super::informational) leaves no token in a prompt that may not be answered.

use recount_aaep::wire::ReplyToken;
use recount_aaep::{Body, Event as AaepEvent};
use recount_event::{Event, ForeignId, Payload};

use super::token;

/// In the place of a token that is filled in later. No prompt has it, so a reply with it is one to an unknown prompt.
const UNMINTED: &str = "rpl_Unminted";

/// Gives the reply token of a prompt. It holds the key, which is not seen here.
pub type Tokens<'t> = &'t dyn Fn(&ForeignId) -> ReplyToken;

/// For projections whose listeners have tokens of their own.
pub fn unminted(_prompt: &ForeignId) -> ReplyToken {
    ReplyToken::new(UNMINTED).unwrap_or_else(|why| unreachable!("letters: {why}"))
}

/// Whether a projected event carries a token that was never minted. Such an event must not be sent.
pub fn is_unminted(event: &AaepEvent) -> bool {
    let token = match &event.body {
        Body::AwaitingConfirmation(ask) => &ask.reply_token,
        Body::AwaitingClarification(ask) => &ask.reply_token,
        _ => return false,
    };
    token::parts(token).0 == UNMINTED
}

/// The prompt that an event of the log opens, or opens again, and that a reply can answer.
pub fn prompt_of(event: &Event) -> Option<&ForeignId> {
    match event.payload() {
        Payload::ApprovalRequested(asked) => Some(&asked.approval_id),
        Payload::ApprovalExtended(more) => Some(&more.approval_id),
        Payload::ClarificationRequested(asked) => Some(&asked.clarification_id),
        Payload::ClarificationExtended(more) => Some(&more.clarification_id),
        _ => None,
    }
}

/// Fills in the token of a projected prompt; another event stays as it is. One that is asked again gets the token of that
/// time.
pub fn mint(event: &mut AaepEvent, token: ReplyToken) {
    let place = match &mut event.body {
        Body::AwaitingConfirmation(ask) => &mut ask.reply_token,
        Body::AwaitingClarification(ask) => &mut ask.reply_token,
        _ => return,
    };
    let (_, times) = token::parts(place);
    *place = token::asked_again(&token, times);
}
