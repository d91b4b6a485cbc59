//! Digests that bind an approval to a call, and a preview to its content.

/// Binds an approval to the exact call that it is for: `blake3:` and 64 hex digits over the tool's
/// name, a zero byte, and the call's input as stored in the log.
pub fn call_digest(tool_name: &str, input: &str) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(tool_name.as_bytes());
    hasher.update(&[0]);
    hasher.update(input.as_bytes());
    format!("{CALL_DIGEST_PREFIX}{}", hasher.finalize().to_hex())
}

/// The prefix of a digest of [`call_digest`].
pub const CALL_DIGEST_PREFIX: &str = "blake3:";
