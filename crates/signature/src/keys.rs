//! Keys: [`SigningKey`] signs, [`PublicKeys`] check. Public keys are JSON Web Keys (RFC 8037), their ids are thumbprints
//! (RFC 7638).

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use serde::{Deserialize, Serialize};

use crate::{Distrust, SignedHead, Statement, cose};

/// Random bytes that a key is made of.
pub const SEED_BYTES: usize = 32;

/// A public key, as published.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Jwk {
    pub kty: String,
    pub crv: String,
    /// The public key, as base64 of the URL alphabet without padding.
    pub x: String,
    #[serde(default)]
    pub kid: String,
}

/// The key of a tenant. Never printed.
pub struct SigningKey {
    pair: Ed25519KeyPair,
    public: Jwk,
}

impl SigningKey {
    pub fn from_seed(seed: &[u8; SEED_BYTES]) -> Self {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed).expect("every 32 bytes are a seed");
        let public = Jwk::of(pair.public_key().as_ref());
        SigningKey { pair, public }
    }

    pub fn id(&self) -> &str {
        &self.public.kid
    }

    pub fn public(&self) -> &Jwk {
        &self.public
    }

    pub fn sign(&self, statement: &Statement) -> SignedHead {
        let text = serde_json::to_string(statement).expect("texts and numbers can be written as JSON");
        let signed = cose::to_be_signed(&cose::protected(statement), text.as_bytes());
        SignedHead { statement: text, signature: encoded(self.pair.sign(&signed).as_ref()) }
    }
}

impl Jwk {
    fn of(public: &[u8]) -> Self {
        let x = encoded(public);
        let kid = sha256(format!(r#"{{"crv":"Ed25519","kty":"OKP","x":"{x}"}}"#).as_bytes());
        Jwk { kty: "OKP".to_owned(), crv: "Ed25519".to_owned(), x, kid }
    }
}

/// Keys that are trusted, by id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PublicKeys(BTreeMap<String, Vec<u8>>);

impl PublicKeys {
    /// Reads a set of JSON Web Keys, or one. An error is a sentence. The ids are computed, never believed.
    pub fn parse(text: &str) -> Result<Self, String> {
        // Keys of other kinds lack `crv` or `x`.
        #[derive(Deserialize)]
        struct Given {
            kty: String,
            #[serde(default)]
            crv: String,
            #[serde(default)]
            x: String,
            #[serde(default)]
            kid: String,
        }
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Keys {
            Set { keys: Vec<Given> },
            One(Given),
        }
        let parsed = serde_json::from_str(text);
        let keys = match parsed.map_err(|why: serde_json::Error| match why.is_data() {
            // The parser names our types.
            true => "no JSON Web Keys".to_owned(),
            false => format!("no JSON: {why}"),
        })? {
            Keys::Set { keys } => keys,
            Keys::One(key) => vec![key],
        };
        let mut found = BTreeMap::new();
        for key in keys {
            if key.kty != "OKP" || key.crv != "Ed25519" {
                return Err(format!("the key {:?} is not an Ed25519 key", key.kid));
            }
            let public = decoded(&key.x).filter(|public| public.len() == SEED_BYTES);
            let public = public.ok_or_else(|| format!("the key {:?} is unreadable", key.kid))?;
            found.insert(Jwk::of(&public).kid, public);
        }
        if found.is_empty() {
            return Err("there is no key".to_owned());
        }
        Ok(PublicKeys(found))
    }

    /// The statement of a signed head, if one of these keys has signed it.
    pub fn check(&self, signed: &SignedHead) -> Result<Statement, Distrust> {
        let statement = signed.unchecked()?;
        let Some(public) = self.0.get(&statement.key_id) else {
            return Err(Distrust::UnknownKey(statement.key_id));
        };
        let signature = decoded(&signed.signature).ok_or(Distrust::Wrong)?;
        let message = cose::to_be_signed(&cose::protected(&statement), signed.statement.as_bytes());
        let checked = UnparsedPublicKey::new(&ED25519, public).verify(&message, &signature);
        checked.map(|()| statement).map_err(|_| Distrust::Wrong)
    }
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    encoded(digest(&SHA256, bytes).as_ref())
}

pub(crate) fn encoded(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

pub(crate) fn decoded(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}
