//! Reply tokens: keyed hashes. Only a subscription that was shown a prompt knows a token for it, and no other
//! subscription can use that token. Pure.
//!
//! A prompt has a first token, the same on every node and after every restart ([`ReplyTokens::of`]). It never leaves
//! the server: each subscription gets its own token, derived from the first ([`ReplyTokens::bound`]).

use recount_aaep::wire::{ReplyToken, SubscriptionId};
use recount_event::{ForeignId, RunId};

/// The key that reply tokens are derived from. Nodes that share a store share it.
#[derive(Clone)]
pub struct TokenKey([u8; blake3::KEY_LEN]);

impl TokenKey {
    /// Derives the key from a secret of the server that has other uses too.
    pub fn derive(secret: &[u8]) -> Self {
        TokenKey(blake3::derive_key("recount 2026 reply tokens of aaep", secret))
    }
}

/// The surface that a token is valid on. A token of one surface is unknown on the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Surface {
    /// `/aaep/v1`.
    Versioned,
}

/// The reply tokens of one surface.
#[derive(Clone)]
pub(crate) struct ReplyTokens {
    key: TokenKey,
    surface: Surface,
}

impl ReplyTokens {
    pub(crate) fn new(key: TokenKey, surface: Surface) -> Self {
        ReplyTokens { key, surface }
    }

    /// The first token of a prompt. Must not be sent.
    pub(crate) fn of(&self, run: RunId, prompt: &ForeignId) -> ReplyToken {
        self.hash(b"prompt", &[&run.ulid().to_bytes(), prompt.as_str().as_bytes()])
    }

    /// The token of a prompt for one subscription.
    pub(crate) fn bound(&self, subscription: &SubscriptionId, first: &ReplyToken) -> ReplyToken {
        self.hash(b"subscription", &[subscription.as_str().as_bytes(), first.as_str().as_bytes()])
    }

    /// A number for an event of a subscription. It is as unpredictable as a token.
    pub(crate) fn number(&self, subscription: &SubscriptionId, count: u64) -> u64 {
        let parts = [subscription.as_str().as_bytes(), &count.to_le_bytes()];
        let hash = self.digest(b"number", &parts);
        hash.as_bytes().first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }

    /// 128 bits of a keyed hash.
    fn hash(&self, purpose: &[u8], parts: &[&[u8]]) -> ReplyToken {
        let text = format!("rpl_{}", &self.digest(purpose, parts).to_hex()[..32]);
        ReplyToken::new(text).unwrap_or_else(|why| unreachable!("letters and digits: {why}"))
    }

    /// A keyed hash. The length precedes each part, so that two lists of parts never collide.
    fn digest(&self, purpose: &[u8], parts: &[&[u8]]) -> blake3::Hash {
        let surface: &[u8] = match self.surface {
            Surface::Versioned => b"v1",
        };
        let mut hash = blake3::Hasher::new_keyed(&self.key.0);
        for part in [surface, purpose].iter().chain(parts) {
            hash.update(&(part.len() as u64).to_le_bytes()).update(part);
        }
        hash.finalize()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_deterministic_and_differs_by_key_run_and_prompt() {
        let run: RunId = "run_01HZX3Q0M0000000000000000A".parse().unwrap();
        let other: RunId = "run_01HZX3Q0M0000000000000000B".parse().unwrap();
        let prompt = |text: &str| ForeignId::parse(text).unwrap();
        let tokens = |secret: &[u8]| ReplyTokens::new(TokenKey::derive(secret), Surface::Versioned);
        let token = tokens(b"a").of(run, &prompt("appr_1"));
        assert_eq!(tokens(b"a").of(run, &prompt("appr_1")), token);
        assert_eq!(token.as_str().len(), 36);
        for another in [
            tokens(b"b").of(run, &prompt("appr_1")),
            tokens(b"a").of(other, &prompt("appr_1")),
            tokens(b"a").of(run, &prompt("appr_2")),
        ] {
            assert_ne!(another, token);
        }
    }

    #[test]
    fn each_subscription_has_tokens_of_its_own() {
        let tokens = ReplyTokens::new(TokenKey::derive(b"a"), Surface::Versioned);
        let first = tokens
            .of("run_01HZX3Q0M0000000000000000A".parse().unwrap(), &ForeignId::parse("appr_1").unwrap());
        let bound = |id: &str| tokens.bound(&SubscriptionId::new(id).unwrap(), &first);
        assert_eq!(bound("sub_1"), bound("sub_1"));
        assert_ne!(bound("sub_1"), bound("sub_2"));
        assert_ne!(bound("sub_1"), first);
    }
}
