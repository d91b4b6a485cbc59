//! The text of a token: its id, by which it is looked up, and a secret of which only the hash is stored.

use std::fmt;

use recount_event::TokenId;
use recount_world::World;

/// The prefix of every token, by which it is recognised anywhere.
const PREFIX: &str = "rct_";

/// Half of the hexadecimal digits of a secret.
const SECRET_BYTES: usize = 32;

/// A token as a client sends it. Its debug form has no secret.
pub(crate) struct Secret {
    pub(super) id: TokenId,
    text: String,
}

impl Secret {
    /// Parses what a client sends; `None` when it is not a token.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (ulid, secret) = text.strip_prefix(PREFIX)?.split_once('_')?;
        let id = format!("{}{ulid}", TokenId::PREFIX).parse().ok()?;
        let whole = secret.len() == 2 * SECRET_BYTES && secret.bytes().all(|byte| byte.is_ascii_hexdigit());
        whole.then(|| Secret { id, text: text.to_owned() })
    }

    /// The hash that is stored. A secret of 256 random bits needs no slow hash.
    pub(crate) fn hash(&self) -> blake3::Hash {
        blake3::hash(self.text.as_bytes())
    }

    /// The whole text, to show once to the client that gets the token.
    pub(crate) fn reveal(&self) -> &str {
        &self.text
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({})", self.id)
    }
}

/// Creates a new random token.
pub(super) fn minted(world: &World) -> Secret {
    let ulid = ulid::Ulid::from_parts(world.clock.now_ms(), world.entropy.draw());
    let text = format!("{PREFIX}{ulid}_{}", random(world));
    Secret { id: TokenId::new(ulid), text }
}

/// 256 random bits, in hex.
pub(super) fn random(world: &World) -> String {
    format!("{:032x}{:032x}", world.entropy.draw(), world.entropy.draw())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minted_tokens_parse_and_are_unique() {
        let world = World::real();
        let (one, other) = (minted(&world), minted(&world));
        assert_ne!(one.reveal(), other.reveal());
        let read = Secret::parse(one.reveal()).unwrap();
        assert_eq!((read.id, read.hash()), (one.id, one.hash()));
        assert!(!format!("{one:?}").contains(&one.reveal()[31..]), "not printed by accident");
    }

    #[test]
    fn malformed_tokens_do_not_parse() {
        let good = minted(&World::real()).reveal().to_owned();
        let (short, other) = (&good[..good.len() - 1], good.replace("rct_", "tok_"));
        for bad in ["", "rct_", "rct__", short, &other, &format!("{good}0"), &good.to_lowercase(), "Ä"] {
            assert!(Secret::parse(bad).is_none(), "{bad}");
        }
    }
}
