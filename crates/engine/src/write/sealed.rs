//! What was masked before it was appended, as it came: encrypted, and only for who carries it out.
//!
//! A call runs with the input that the model gave, secrets and all, while the log holds the masked one. The original
//! lies here from before the call is proposed until it is settled: the append that settles it deletes it
//! ([`settled`]). The key lies outside of the store, so that a copy of the database tells nothing; whoever has the
//! whole data folder has both. Without the original a call is refused, never run with stars in it.

use std::sync::OnceLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chacha20poly1305::aead::{Aead, KeyInit, Payload as Sealing};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use recount_event::digest::CALL_DIGEST_PREFIX;
use recount_event::{Code, ForeignId, RunId};
use recount_log::{Append, Guard, RowPut};
use recount_world::World;
use serde::{Deserialize, Serialize};

use crate::catalogue::sealed_rows::key_of;
use crate::catalogue::table::read_row;
use crate::ground::rows;
use crate::write::tools::Tools;
use crate::{Engine, Error, Failure, limits};

/// The bytes of a key.
pub const SEAL_KEY_BYTES: usize = 32;

const NONCE_BYTES: usize = 24;

/// Encrypts and decrypts originals. Never printed.
pub(crate) struct Seal(OnceLock<Keys>);

/// One key for what can be read again, and one made of it for what is only compared.
struct Keys {
    cipher: XChaCha20Poly1305,
    digest: [u8; blake3::KEY_LEN],
}

impl Seal {
    /// With a key that somebody keeps, or with one that lasts as long as the process.
    pub(crate) fn new(key: Option<[u8; SEAL_KEY_BYTES]>) -> Self {
        Seal(key.map(with_key).map_or_else(OnceLock::new, OnceLock::from))
    }

    fn keys(&self, world: &World) -> &Keys {
        self.0.get_or_init(|| with_key(drawn(world)))
    }

    fn cipher(&self, world: &World) -> &XChaCha20Poly1305 {
        &self.keys(world).cipher
    }

    /// A digest of these texts, in this order, that nobody can make or check without the key.
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

/// Bytes nobody can guess.
fn drawn<const N: usize>(world: &World) -> [u8; N] {
    let mut bytes = [0; N];
    for chunk in bytes.chunks_mut(16) {
        let drawn = world.entropy.draw().to_le_bytes();
        chunk.copy_from_slice(&drawn[..chunk.len()]);
    }
    bytes
}

/// As it is stored, in base64.
#[derive(Serialize, Deserialize)]
struct SealedRow {
    nonce: String,
    sealed: String,
}

impl Engine {
    /// Keeps what a call, or a patch, was before it was masked. Durable when answered, and to be asked for before
    /// the event is reported.
    pub async fn seal(&self, run: RunId, id: &ForeignId, original: &[u8]) -> Result<(), Error> {
        if original.len() > limits::SEALED_BYTES_MAX {
            let (found, most) = (original.len(), limits::SEALED_BYTES_MAX);
            let message =
                format!("the original of {id} has {found} bytes; {most} (SEALED_BYTES_MAX) are kept");
            return Err(Error::rejected(Code::LimitReached, message));
        }
        let row = self.sealed_row(&key_of(run, id), original)?;
        self.store().append(Append { rows: vec![row], ..Append::default() }).await?;
        Ok(())
    }

    /// What a call, or a patch, was before it was masked; `None` when nothing was sealed, or it is settled.
    pub async fn unseal(&self, run: RunId, id: &ForeignId) -> Result<Option<Vec<u8>>, Error> {
        self.unseal_at(&key_of(run, id)).await
    }

    /// The row that keeps something sealed. Only under the same key can it be read.
    pub(crate) fn sealed_row(&self, key: &str, original: &[u8]) -> Result<RowPut, Error> {
        let nonce = drawn::<NONCE_BYTES>(self.world());
        let sealing = Sealing { msg: original, aad: key.as_bytes() };
        let sealed = self.tools.seal.cipher(self.world()).encrypt(&XNonce::from(nonce), sealing);
        let sealed =
            sealed.map_err(|_| Error::bug(format!("the original of {key} could not be encrypted")))?;
        let row = SealedRow { nonce: STANDARD.encode(nonce), sealed: STANDARD.encode(sealed) };
        Ok(rows::put(rows::SEALED, key, Guard::Any, &row))
    }

    pub(crate) async fn unseal_at(&self, key: &str) -> Result<Option<Vec<u8>>, Error> {
        self.tools.unseal_at(key).await
    }

    /// Forgets an original that is not needed any more. That of a call goes by itself when the call is settled.
    pub async fn forget_sealed(&self, run: RunId, id: &ForeignId) -> Result<(), Error> {
        let rows = vec![rows::delete(rows::SEALED, key_of(run, id))];
        self.store().append(Append { rows, ..Append::default() }).await?;
        Ok(())
    }
}

impl Tools {
    pub(crate) async fn unseal_at(&self, key: &str) -> Result<Option<Vec<u8>>, Error> {
        let Some(row) = self.store.row(rows::SEALED, key).await? else { return Ok(None) };
        let row: SealedRow = read_row(rows::SEALED, &row.key, &row.value)?;
        let corrupt = |why: &str| {
            Error::Failed(Failure {
                code: Code::StoreCorrupt,
                message: format!("the original of {key} cannot be read: {why}"),
                retry_after: None,
                damage: None,
            })
        };
        let decoded = |text: &str| STANDARD.decode(text).map_err(|_| corrupt("it is not as it was written"));
        let (nonce, sealed) = (decoded(&row.nonce)?, decoded(&row.sealed)?);
        let nonce: [u8; NONCE_BYTES] =
            nonce.try_into().map_err(|_| corrupt("its nonce has another length"))?;
        let sealed = Sealing { msg: &sealed, aad: key.as_bytes() };
        let original = self.seal.cipher(&self.world).decrypt(&XNonce::from(nonce), sealed);
        original.map(Some).map_err(|_| corrupt("it was changed, or sealed with another key"))
    }
}
