//! What binds a sign-in to the browser that began it: a random value in a cookie, from which state, nonce and PKCE verifier are
//! derived with a key of this server. So nothing is stored until the provider has signed a person in.
//!
//! Start at [`BrowserKey`]. It must not know the provider.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, HeaderValue, header};
use recount_engine::SEAL_KEY_BYTES;
use recount_world::World;

use crate::limits::SIGN_IN_BROWSER_LIFE;

pub(super) struct BrowserKey {
    key: [u8; blake3::KEY_LEN],
    /// Browsers send such a cookie only encrypted, and no other host can set it.
    is_secure: bool,
}

/// One sign-in of one browser.
pub(super) struct Attempt {
    /// The value of the cookie.
    pub(super) cookie: String,
    pub(super) state: String,
    pub(super) nonce: String,
    pub(super) verifier: String,
    started_ms: u64,
}

impl Attempt {
    pub(super) fn is_expired(&self, now_ms: u64) -> bool {
        let life = u64::try_from(SIGN_IN_BROWSER_LIFE.as_millis()).unwrap_or(u64::MAX);
        now_ms.saturating_sub(self.started_ms) >= life
    }

    /// The PKCE challenge of the verifier, by S256.
    pub(super) fn challenge(&self) -> String {
        let digest = ring::digest::digest(&ring::digest::SHA256, self.verifier.as_bytes());
        URL_SAFE_NO_PAD.encode(digest)
    }
}

impl BrowserKey {
    pub(super) fn new(seal_key: &[u8; SEAL_KEY_BYTES], is_secure: bool) -> Self {
        BrowserKey { key: blake3::derive_key("recount 2026 sign-in of browsers", seal_key), is_secure }
    }

    pub(super) fn begin(&self, world: &World) -> Attempt {
        let now = world.clock.now_ms();
        let random = format!("{:032x}{:032x}", world.entropy.draw(), world.entropy.draw());
        self.of_cookie(format!("{now}-{random}"), now)
    }

    /// The attempt that the cookie of a request belongs to.
    pub(super) fn read(&self, headers: &HeaderMap) -> Option<Attempt> {
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut found = cookies.flat_map(|text| text.split(';')).filter_map(|pair| {
            let (name, value) = pair.trim().split_once('=')?;
            (name == self.name()).then_some(value)
        });
        // Two of one name: one of them is from elsewhere.
        let (Some(value), None) = (found.next(), found.next()) else { return None };
        let (started, random) = value.split_once('-')?;
        let is_whole = random.len() == 64 && random.bytes().all(|byte| byte.is_ascii_hexdigit());
        let started = started.parse().ok().filter(|_| is_whole)?;
        Some(self.of_cookie(value.to_owned(), started))
    }

    fn of_cookie(&self, cookie: String, started_ms: u64) -> Attempt {
        let derived = |purpose: &str| {
            let text = format!("{purpose} {cookie}");
            blake3::keyed_hash(&self.key, text.as_bytes()).to_hex().to_string()
        };
        let (state, nonce, verifier) = (derived("state"), derived("nonce"), derived("verifier"));
        Attempt { cookie, state, nonce, verifier, started_ms }
    }

    fn name(&self) -> &'static str {
        if self.is_secure { "__Host-recount-sign-in" } else { "recount-sign-in" }
    }

    /// Sends the cookie, or removes it.
    pub(super) fn set_cookie(&self, attempt: Option<&Attempt>) -> HeaderValue {
        let value = attempt.map_or("", |attempt| &attempt.cookie);
        let age = attempt.map_or(0, |_| SIGN_IN_BROWSER_LIFE.as_secs());
        let secure = if self.is_secure { "; Secure" } else { "" };
        let name = self.name();
        // Lax: the browser comes back from the provider by a link.
        let text = format!("{name}={value}; Path=/; Max-Age={age}; HttpOnly; SameSite=Lax{secure}");
        HeaderValue::try_from(text).expect("the cookie is plain text")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(text: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::COOKIE, text.parse().unwrap());
        headers
    }

    #[test]
    fn an_attempt_is_found_again_by_its_cookie_only() {
        let world = World::real();
        let key = BrowserKey::new(&[7; SEAL_KEY_BYTES], true);
        let attempt = key.begin(&world);
        let cookie = key.set_cookie(Some(&attempt)).to_str().unwrap().to_owned();
        assert!(cookie.ends_with("; HttpOnly; SameSite=Lax; Secure"), "{cookie}");
        let pair = cookie.split(';').next().unwrap();
        let read = |text: &str| {
            key.read(&headers(text)).map(|attempt| (attempt.state, attempt.nonce, attempt.verifier))
        };
        let whole = Some((attempt.state.clone(), attempt.nonce.clone(), attempt.verifier.clone()));
        assert_eq!(read(&format!("a=b; {pair}")), whole);
        assert_eq!(read(&format!("{pair}; {pair}")), None, "twice");
        assert_eq!(read(&pair.replace("__Host-", "")), None, "another name");
        assert_eq!(read(&pair[..pair.len() - 1]), None, "cut");
        let later = pair.replacen("-in=", "-in=9", 1);
        assert!(read(&later).is_some_and(|(state, ..)| state != attempt.state), "another time");
        let foreign = BrowserKey::new(&[8; SEAL_KEY_BYTES], true).read(&headers(pair)).unwrap();
        assert_ne!(foreign.state, attempt.state);
        assert_eq!((attempt.verifier.len(), attempt.challenge().len()), (64, 43));
        let life = u64::try_from(SIGN_IN_BROWSER_LIFE.as_millis()).unwrap();
        assert!(
            attempt.is_expired(attempt.started_ms + life)
                && !attempt.is_expired(attempt.started_ms + life - 1)
        );
    }
}
