//! Encrypts and decrypts originals, and computes keyed digests. It must not know what is sealed.

use std::sync::OnceLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chacha20poly1305::aead::{Aead, KeyInit, Payload as Sealing};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use recount_event::Code;
use recount_event::digest::CALL_DIGEST_PREFIX;
use recount_log::{Guard, Row, RowPut};
use recount_world::World;
use serde::{Deserialize, Serialize};

use crate::catalogue::table::read_row;
use crate::ground::rows;
use crate::{Error, Failure};

/// The length of a key in bytes.
pub const SEAL_KEY_BYTES: usize = 32;

const NONCE_BYTES: usize = 24;

/// Encrypts and decrypts originals. Never printed.
pub(crate) struct Seal(OnceLock<Keys>);

/// An encryption key, and a digest key derived from it.
struct Keys {
    cipher: XChaCha20Poly1305,
    digest: [u8; blake3::KEY_LEN],
}

impl Seal {
    /// Uses the operator's key, or a random one for the lifetime of the process.
    pub(crate) fn new(key: Option<[u8; SEAL_KEY_BYTES]>) -> Self {
        Seal(key.map(with_key).map_or_else(OnceLock::new, OnceLock::from))
    }

    fn keys(&self, world: &World) -> &Keys {
        self.0.get_or_init(|| with_key(drawn(world)))
    }

    fn cipher(&self, world: &World) -> &XChaCha20Poly1305 {
        &self.keys(world).cipher
    }

    /// A keyed digest of these texts, in this order.
    pub(crate) fn digest(&self, world: &World, parts: &[&str]) -> String {
        let mut hasher = blake3::Hasher::new_keyed(&self.keys(world).digest);
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        format!("{CALL_DIGEST_PREFIX}{}", hasher.finalize().to_hex())
    }
}

fn with_key(key: [u8; SEAL_KEY_BYTES]) -> Keys {
    let digest = blake3::derive_key("recount 2026 digests of calls that are allowed", &key);
    Keys { cipher: XChaCha20Poly1305::new(&Key::from(key)), digest }
}

/// Random bytes.
fn drawn<const N: usize>(world: &World) -> [u8; N] {
    let mut bytes = [0; N];
    for chunk in bytes.chunks_mut(16) {
        let drawn = world.entropy.draw().to_le_bytes();
        chunk.copy_from_slice(&drawn[..chunk.len()]);
    }
    bytes
}

/// The stored form, in base64.
#[derive(Serialize, Deserialize)]
struct SealedRow {
    nonce: String,
    sealed: String,
}

impl Seal {
    /// The row of an encrypted original. It can be read only with the same key.
    pub(crate) fn row(&self, world: &World, key: &str, original: &[u8]) -> Result<RowPut, Error> {
        let nonce = drawn::<NONCE_BYTES>(world);
        let sealing = Sealing { msg: original, aad: key.as_bytes() };
        let sealed = self.cipher(world).encrypt(&XNonce::from(nonce), sealing);
        let sealed =
            sealed.map_err(|_| Error::bug(format!("the original of {key} could not be encrypted")))?;
        let row = SealedRow { nonce: STANDARD.encode(nonce), sealed: STANDARD.encode(sealed) };
        Ok(rows::put(rows::SEALED, key, Guard::Any, &row))
    }

    /// The original in a row.
    pub(crate) fn original(&self, world: &World, row: &Row) -> Result<Vec<u8>, Error> {
        let key = &*row.key;
        let row: SealedRow = read_row(rows::SEALED, key, &row.value)?;
        let corrupt = |why: &str| {
            let message = format!("the original of {key} cannot be read: {why}");
            Error::from(Failure::new(Code::StoreCorrupt, message))
        };
        let decoded = |text: &str| STANDARD.decode(text).map_err(|_| corrupt("it is not valid base64"));
        let (nonce, sealed) = (decoded(&row.nonce)?, decoded(&row.sealed)?);
        let nonce: [u8; NONCE_BYTES] =
            nonce.try_into().map_err(|_| corrupt("its nonce has the wrong length"))?;
        let sealed = Sealing { msg: &sealed, aad: key.as_bytes() };
        let original = self.cipher(world).decrypt(&XNonce::from(nonce), sealed);
        original.map_err(|_| corrupt("it was changed, or encrypted with another key"))
    }
}
