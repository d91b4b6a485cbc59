//! Revisions of files, as `sha256sum` prints them. Pure.

use sha2::{Digest as _, Sha256};

/// The revision of some content: `sha256:` and the digest in hex.
pub fn revision(bytes: &[u8]) -> String {
    revision_of_digest(Sha256::digest(bytes).as_slice())
}

pub(super) fn revision_of_digest(digest: &[u8]) -> String {
    let mut name = String::from("sha256:");
    for byte in digest {
        name.push_str(&format!("{byte:02x}"));
    }
    name
}
