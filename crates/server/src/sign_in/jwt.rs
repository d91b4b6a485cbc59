//! Verifies the signature of a JSON Web Token with the keys of its issuer. Pure.
//!
//! Start at [`Jwks::verify`]. Only asymmetric algorithms are accepted, and each key only with its own. It must not know what
//! the claims mean.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{self, RsaPublicKeyComponents, UnparsedPublicKey};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::limits::{SIGN_IN_ID_TOKEN_BYTES_MAX, SIGN_IN_KEYS_MAX};

/// Why a token is not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum JwtFault {
    Malformed(&'static str),
    /// Not one of the accepted algorithms, such as `none`.
    Algorithm,
    /// None of the keys has the id that the token names, or fits.
    UnknownKey,
    Signature,
}

impl std::fmt::Display for JwtFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            JwtFault::Malformed(why) => why,
            JwtFault::Algorithm => "its algorithm is not accepted",
            JwtFault::UnknownKey => "it is signed with a key that the provider does not list",
            JwtFault::Signature => "its signature is wrong",
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Algorithm {
    Rs256,
    Ps256,
    Es256,
    EdDsa,
}

impl Algorithm {
    fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "RS256" => Algorithm::Rs256,
            "PS256" => Algorithm::Ps256,
            "ES256" => Algorithm::Es256,
            "EdDSA" | "Ed25519" => Algorithm::EdDsa,
            _ => return None,
        })
    }
}

/// The public keys of an issuer.
#[derive(Debug, Default)]
pub(super) struct Jwks(Vec<Jwk>);

#[derive(Debug)]
struct Jwk {
    id: Option<String>,
    /// The one algorithm that it is for, if it names one.
    algorithm: Option<String>,
    key: Key,
}

#[derive(Debug)]
enum Key {
    Rsa { modulus: Vec<u8>, exponent: Vec<u8> },
    P256(Vec<u8>),
    Ed25519(Vec<u8>),
}

#[derive(Deserialize)]
struct KeyFields {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    typ: Option<String>,
    crit: Option<Value>,
}

impl Jwks {
    /// Reads a key set. Keys of unknown kinds are ignored, as the standard requires.
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct Set {
            keys: Vec<Value>,
        }
        let set: Set = serde_json::from_slice(text).ok()?;
        let keys = set.keys.into_iter().take(SIGN_IN_KEYS_MAX);
        Some(Jwks(keys.filter_map(|key| Jwk::of(serde_json::from_value(key).ok()?)).collect()))
    }

    /// The claims of a token that one of the keys signed.
    pub(super) fn verify(&self, token: &str) -> Result<Map<String, Value>, JwtFault> {
        if token.len() > SIGN_IN_ID_TOKEN_BYTES_MAX {
            return Err(JwtFault::Malformed("it is too long"));
        }
        let parts: Vec<&str> = token.split('.').collect();
        let [header, claims, signature] = parts[..] else {
            return Err(JwtFault::Malformed("it is not a signed token"));
        };
        let decode =
            |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| JwtFault::Malformed("it is not base64"));
        let unread = |_| JwtFault::Malformed("it is not JSON");
        let decoded: Header = serde_json::from_slice(&decode(header)?).map_err(unread)?;
        let algorithm = Algorithm::parse(&decoded.alg).ok_or(JwtFault::Algorithm)?;
        if decoded.crit.is_some() {
            return Err(JwtFault::Malformed("it has extensions that must be understood"));
        }
        // Such as `at+jwt`: a token for another use, signed with the same keys.
        if decoded.typ.is_some_and(|typ| typ.to_ascii_lowercase().ends_with("+jwt")) {
            return Err(JwtFault::Malformed("it is not an ID token"));
        }
        let signature = decode(signature)?;
        let signed = &token.as_bytes()[..header.len() + 1 + claims.len()];
        let fits = |key: &&Jwk| {
            (decoded.kid.is_none() || key.id == decoded.kid) && key.verifies_with(algorithm, &decoded.alg)
        };
        let mut fitting = self.0.iter().filter(fits).peekable();
        if fitting.peek().is_none() {
            return Err(JwtFault::UnknownKey);
        }
        if !fitting.any(|key| key.verify(algorithm, signed, &signature)) {
            return Err(JwtFault::Signature);
        }
        serde_json::from_slice(&decode(claims)?).map_err(unread)
    }
}

impl Jwk {
    fn of(fields: KeyFields) -> Option<Self> {
        if fields.purpose.is_some_and(|purpose| purpose != "sig") {
            return None;
        }
        let bytes = |text: Option<String>| URL_SAFE_NO_PAD.decode(text?).ok();
        let number = |text| {
            let bytes = bytes(text)?;
            let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
            Some(bytes[zeros..].to_vec())
        };
        let key = match (fields.kty.as_str(), fields.crv.as_deref()) {
            ("RSA", _) => Key::Rsa { modulus: number(fields.n)?, exponent: number(fields.e)? },
            ("EC", Some("P-256")) => {
                let (x, y) = (bytes(fields.x)?, bytes(fields.y)?);
                // An uncompressed point.
                Key::P256([&[4], x.as_slice(), y.as_slice()].concat())
            }
            ("OKP", Some("Ed25519")) => Key::Ed25519(bytes(fields.x)?),
            _ => return None,
        };
        Some(Jwk { id: fields.kid, algorithm: fields.alg, key })
    }

    /// Whether the key may be used with an algorithm.
    fn verifies_with(&self, algorithm: Algorithm, name: &str) -> bool {
        let is_kind = matches!(
            (&self.key, algorithm),
            (Key::Rsa { .. }, Algorithm::Rs256 | Algorithm::Ps256)
                | (Key::P256(_), Algorithm::Es256)
                | (Key::Ed25519(_), Algorithm::EdDsa)
        );
        is_kind && self.algorithm.as_deref().is_none_or(|own| own == name)
    }

    fn verify(&self, algorithm: Algorithm, signed: &[u8], signature: &[u8]) -> bool {
        let verified = match &self.key {
            Key::Rsa { modulus, exponent } => {
                let parameters = match algorithm {
                    Algorithm::Ps256 => &signature::RSA_PSS_2048_8192_SHA256,
                    _ => &signature::RSA_PKCS1_2048_8192_SHA256,
                };
                RsaPublicKeyComponents { n: modulus, e: exponent }.verify(parameters, signed, signature)
            }
            Key::P256(point) => {
                UnparsedPublicKey::new(&signature::ECDSA_P256_SHA256_FIXED, point).verify(signed, signature)
            }
            Key::Ed25519(key) => UnparsedPublicKey::new(&signature::ED25519, key).verify(signed, signature),
        };
        verified.is_ok()
    }
}
