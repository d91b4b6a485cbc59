//! Fills in the reply tokens of projected prompts. Pure; must not depend on keys.
//!
//! A projection does not create tokens: [`Projector::event`](super::Projector::event) calls a function of the caller
//! for each prompt. There are two ways to use it:
//!
//! - the tokens of a prompt are the same for all listeners of the projection: pass the function that mints them;
//! - each listener has its own tokens: pass [`unminted`], store the id from [`prompt_of`] with the projected events,
//!   and call [`mint`] on each listener's copy.
//!
//! Both give the same events. [`informational`](super::informational) removes the token of a prompt that may not be
//! answered.

use recount_aaep::Event as AaepEvent;
use recount_aaep::wire::ReplyToken;
use recount_event::{Event, ForeignId, PromptEvent, PromptKind, PromptStep};

use super::token;

/// A placeholder for a token that is filled in later. No prompt has it, so a reply with it is for an unknown prompt.
const UNMINTED: &str = "rpl_Unminted";

/// Returns the reply token of a prompt. The function owns the key.
pub type Tokens<'t> = &'t dyn Fn(&ForeignId) -> ReplyToken;

/// Returns the placeholder, for projections whose listeners have their own tokens.
pub fn unminted(_prompt: &ForeignId) -> ReplyToken {
    ReplyToken::new(UNMINTED).unwrap_or_else(|why| unreachable!("letters: {why}"))
}

/// Whether a projected event carries a token that was never minted. Such an event must not be sent.
pub fn is_unminted(event: &AaepEvent) -> bool {
    event.body.prompt().is_some_and(|(token, _)| token::parts(token).0 == UNMINTED)
}

/// The prompt that an event of the log opens, or opens again, and that a reply can answer.
pub fn prompt_of(event: &Event) -> Option<&ForeignId> {
    let prompt = PromptEvent::of(event.payload())?;
    (prompt.kind != PromptKind::Handoff && prompt.step != PromptStep::Settled).then_some(prompt.id)
}

/// Fills in the token of a projected prompt. A repeated prompt gets the token of that repetition. Other events are not
/// changed.
pub fn mint(event: &mut AaepEvent, token: ReplyToken) {
    let Some((slot, _)) = event.body.prompt_mut() else { return };
    let (_, times) = token::parts(slot);
    *slot = token::repeated(&token, times);
}
