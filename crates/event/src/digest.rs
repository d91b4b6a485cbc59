//! Digests that bind an approval to a call, and a preview to its content; and the digest of several texts.

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

/// The digest of several texts. Different lists have different digests.
pub fn digest_of(texts: &[&str]) -> String {
    let mut hasher = blake3::Hasher::new();
    for text in texts {
        hasher.update(&(text.len() as u64).to_le_bytes());
        hasher.update(text.as_bytes());
    }
    hasher.finalize().to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn different_lists_of_texts_have_different_digests() {
        let lists: [&[&str]; 5] = [&["a", "b"], &["ab", ""], &["", "ab"], &["a", "b", ""], &["b", "a"]];
        let digests: HashSet<String> = lists.iter().map(|list| digest_of(list)).collect();
        assert_eq!(digests.len(), lists.len());
    }
}
