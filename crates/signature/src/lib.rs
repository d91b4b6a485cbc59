//! Signed heads: statements about the chain of a run, signed with Ed25519, which anyone can check with a public key.
//!
//! A signature covers the `Sig_structure` of COSE (RFC 9052), so one signature is valid in JSON and as a `COSE_Sign1`. It must
//! not know stores or servers, and does no I/O. Start at [`SigningKey::sign`] and [`PublicKeys::check`].

mod cose;
mod keys;

use serde::{Deserialize, Serialize};

pub use keys::{Jwk, PublicKeys, SEED_BYTES, SigningKey};

/// How heads of chains are computed.
pub const ALGORITHM: &str = "recount.run.v1";

/// What a signed head states: at that time, the first events of the run had this head.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statement {
    pub tenant: String,
    pub run_id: String,
    /// How many events the head covers.
    pub events: u64,
    pub algorithm: String,
    pub head: String,
    pub signed_at: String,
    pub key_id: String,
    /// The place among the statements that the tenant's server keeps; none for one that was only requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    /// The SHA-256 of the statement with the previous number, so that a missing one is noticed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<String>,
}

/// A statement with its signature.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignedHead {
    /// The exact text of the [`Statement`] that was signed.
    pub statement: String,
    /// Ed25519, as base64 of the URL alphabet without padding.
    pub signature: String,
}

/// Why a signed head is not trusted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Distrust {
    #[error("its statement cannot be read: {0}")]
    Unreadable(String),
    #[error("it is signed with the key {0}, which is not among the given keys")]
    UnknownKey(String),
    #[error("its signature is wrong")]
    Wrong,
}

impl SignedHead {
    /// The statement, whether or not the signature is right.
    pub fn unchecked(&self) -> Result<Statement, Distrust> {
        serde_json::from_str(&self.statement).map_err(|why| Distrust::Unreadable(why.to_string()))
    }

    /// The SHA-256 of the statement, which the next one names.
    pub fn digest(&self) -> String {
        keys::sha256(self.statement.as_bytes())
    }

    /// The same as a `COSE_Sign1` with the claims that SCITT asks for, as base64 of the URL alphabet without padding.
    /// `None` if the statement or the signature is unreadable.
    pub fn cose(&self) -> Option<String> {
        let statement = self.unchecked().ok()?;
        let protected = cose::protected(&statement);
        let signed = cose::sign1(&protected, self.statement.as_bytes(), &keys::decoded(&self.signature)?);
        Some(keys::encoded(&signed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statement(key: &SigningKey) -> Statement {
        Statement {
            tenant: "default".into(),
            run_id: "run_1".into(),
            events: 3,
            algorithm: ALGORITHM.into(),
            head: "ab".repeat(32),
            signed_at: "2026-11-29T12:00:00.000Z".into(),
            key_id: key.id().to_owned(),
            number: Some(1),
            previous: None,
        }
    }

    #[test]
    fn a_signed_head_is_checked_with_the_public_key_alone() {
        let key = SigningKey::from_seed(&[7; SEED_BYTES]);
        let signed = key.sign(&statement(&key));
        let keys = PublicKeys::parse(&serde_json::json!({ "keys": [key.public()] }).to_string()).unwrap();
        assert_eq!(keys.check(&signed), Ok(statement(&key)));

        let changed = SignedHead {
            statement: signed.statement.replace("\"events\":3", "\"events\":2"),
            ..signed.clone()
        };
        assert_eq!(keys.check(&changed), Err(Distrust::Wrong));
        let unsigned = SignedHead { signature: "AAAA".into(), ..signed.clone() };
        assert_eq!(keys.check(&unsigned), Err(Distrust::Wrong));
        let other = SigningKey::from_seed(&[8; SEED_BYTES]);
        let foreign = other.sign(&statement(&other));
        assert_eq!(keys.check(&foreign), Err(Distrust::UnknownKey(other.id().to_owned())));
        // A statement that names a known key and is signed with another one.
        assert_eq!(keys.check(&other.sign(&statement(&key))), Err(Distrust::Wrong));
        let garbage = SignedHead { statement: "{}".into(), ..signed };
        assert!(matches!(keys.check(&garbage), Err(Distrust::Unreadable(_))));
    }

    /// The id of a key and the bytes that are signed are noted elsewhere, so they may never change.
    #[test]
    fn ids_and_signatures_are_frozen() {
        let key = SigningKey::from_seed(&[7; SEED_BYTES]);
        let signed = key.sign(&statement(&key));
        assert_eq!(
            (key.id(), &*signed.signature),
            (FROZEN_ID, FROZEN_SIGNATURE),
            "{}",
            serde_json::to_string(&key.public()).unwrap()
        );
    }

    const FROZEN_ID: &str = "--6IM5l0OosLj9yWskISYhUA3n_3CURQkmrYMSha_ck";
    const FROZEN_SIGNATURE: &str =
        "EjCXLVMskFbQwCw5U092uZBYLuaSvd8SbSxOKcQ3Oz_r-SoW6s_p0_mHQIFdYxZ77XUVzKyL42E3lN1rNAH-Cg";

    #[test]
    fn the_cose_form_has_the_same_signature() {
        let key = SigningKey::from_seed(&[7; SEED_BYTES]);
        let signed = key.sign(&statement(&key));
        let cose = keys::decoded(&signed.cose().unwrap()).unwrap();
        // Tag 18, a list of four.
        assert_eq!(&cose[..2], &[0xd2, 0x84]);
        let ends_with_signature = cose.ends_with(&keys::decoded(&signed.signature).unwrap());
        assert!(ends_with_signature);
    }

    #[test]
    fn a_file_without_keys_is_named_without_types_of_the_program() {
        let why = |text: &str| PublicKeys::parse(text).unwrap_err();
        assert_eq!(why("{}"), "no JSON Web Keys");
        assert_eq!(why(r#"{"keys":[]}"#), "there is no key");
        assert!(why("rct_x").starts_with("no JSON: "), "{}", why("rct_x"));
        let rsa = r#"{"keys":[{"kty":"RSA","kid":"of a provider","n":"AQAB","e":"AQAB"}]}"#;
        assert_eq!(why(rsa), r#"the key "of a provider" is not an Ed25519 key"#);
        let incomplete = r#"{"kty":"OKP","crv":"Ed25519","kid":"one"}"#;
        assert_eq!(why(incomplete), r#"the key "one" is unreadable"#);
    }

    proptest::proptest! {
        #[test]
        fn no_text_is_taken_for_keys_or_a_signature_without_an_error(text in ".{0,200}") {
            let key = SigningKey::from_seed(&[7; SEED_BYTES]);
            let keys = PublicKeys::parse(&serde_json::to_string(&key.public()).unwrap()).unwrap();
            let signed = SignedHead { statement: text.clone(), signature: text.clone() };
            proptest::prop_assert!(keys.check(&signed).is_err());
            proptest::prop_assert!(signed.cose().is_none());
            drop(PublicKeys::parse(&text));
        }
    }
}
