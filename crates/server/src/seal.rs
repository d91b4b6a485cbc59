//! Reads or creates the key that seals originals of masked input. It is a file of its own in the data folder, so a copy
//! of the database does not contain it.
//!
//! The first start creates it. If it is lost, sealed originals are lost, and calls that need them are refused.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use recount_engine::SEAL_KEY_BYTES;
use recount_world::World;
use recount_world::platform::{private_file, private_folder, sync_folder};

use crate::StartError;

/// The folder of keys within the data folder, and the file of this one.
const FOLDER: &str = "keys";
const FILE: &str = "seal";

/// Reads the key of a data folder, or creates it.
pub(crate) fn key(data: &Path, world: &World) -> Result<[u8; SEAL_KEY_BYTES], StartError> {
    let path = path(data);
    let failed = |why: String| StartError::failed(format!("cannot use the key {}: {why}", path.display()));
    match std::fs::read_to_string(&path) {
        Ok(text) => read(text.trim()).ok_or_else(|| {
            failed("it is not 64 hexadecimal digits; restore it, or delete it to create a new key".into())
        }),
        Err(why) if why.kind() == ErrorKind::NotFound => {
            let key = random_key(world);
            write(&path, &key).map_err(|why| failed(why.to_string()))?;
            Ok(key)
        }
        Err(why) => Err(failed(why.to_string())),
    }
}

/// Whether a data folder has a key.
pub(crate) fn exists(data: &Path) -> bool {
    path(data).exists()
}

/// The file of the key of a data folder.
pub(crate) fn path(data: &Path) -> PathBuf {
    data.join(FOLDER).join(FILE)
}

/// Identifies a key and does not reveal it.
pub(crate) fn fingerprint(key: &[u8; SEAL_KEY_BYTES]) -> String {
    let digest = blake3::derive_key("recount 2026 fingerprint of the seal key", key);
    digest[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

fn read(text: &str) -> Option<[u8; SEAL_KEY_BYTES]> {
    let digits = text.as_bytes();
    let mut key = [0; SEAL_KEY_BYTES];
    if digits.len() != 2 * SEAL_KEY_BYTES || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    for (byte, pair) in key.iter_mut().zip(digits.chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(key)
}

fn random_key(world: &World) -> [u8; SEAL_KEY_BYTES] {
    let mut key = [0; SEAL_KEY_BYTES];
    for half in key.chunks_mut(16) {
        half.copy_from_slice(&world.entropy.draw().to_le_bytes()[..half.len()]);
    }
    key
}

/// Writes the file completely or not at all, readable only by its owner.
fn write(path: &Path, key: &[u8]) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    match private_folder(&mut DirBuilder::new()).create(folder) {
        Err(why) if why.kind() != ErrorKind::AlreadyExists => return Err(why),
        _ => {}
    }
    let unfinished = path.with_extension("unfinished");
    let mut file =
        private_file(OpenOptions::new().write(true).create(true).truncate(true)).open(&unfinished)?;
    let text: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    writeln!(file, "{text}")?;
    file.sync_all()?;
    std::fs::rename(&unfinished, path)?;
    sync_folder(folder)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_key_is_made_once_and_only_for_us() {
        let data = tempfile::tempdir().unwrap();
        let world = World::real();
        let created = key(data.path(), &world).unwrap();
        assert_eq!(key(data.path(), &world).unwrap(), created);
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let (folder, file) = (data.path().join("keys"), data.path().join("keys/seal"));
        assert_eq!((mode(&folder), mode(&file)), (0o700, 0o600));
        let other = [7; SEAL_KEY_BYTES];
        assert!(exists(data.path()) && fingerprint(&created) == fingerprint(&created));
        assert_ne!(fingerprint(&created), fingerprint(&other));
        std::fs::write(&file, "not a key").unwrap();
        assert!(key(data.path(), &world).is_err());
    }
}
