//! Trimmed results: how a result of a call reads once a model sees it only in part.
//!
//! Pure text; it must not know events or models. The model's context and the compacted history of a session both use
//! [`trimmed`], so that they show the same. Entry point: [`trimmed`].

/// A text cut to at most `kept_bytes`, half from its beginning and half from its end, with a note between
/// them with the number of bytes left out. A shorter text stays as it is.
pub fn trimmed(text: &str, kept_bytes: u64) -> String {
    let kept = usize::try_from(kept_bytes).unwrap_or(usize::MAX);
    if text.len() <= kept {
        return text.to_owned();
    }
    let mut head = kept / 2;
    while !text.is_char_boundary(head) {
        head -= 1;
    }
    let mut tail = text.len() - kept / 2;
    while !text.is_char_boundary(tail) {
        tail += 1;
    }
    let left_out = tail - head;
    let note = format!("[{left_out} bytes of this result were omitted; call the tool again to see them]");
    let parts = [&text[..head], note.as_str(), &text[tail..]];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_stay_and_the_note_counts_the_rest() {
        assert_eq!(trimmed("short", 5), "short");
        let note = |bytes: usize| {
            format!("[{bytes} bytes of this result were omitted; call the tool again to see them]")
        };
        assert_eq!(trimmed("0123456789", 0), note(10));
        assert_eq!(trimmed("0123456789", 4), format!("01\n{}\n89", note(6)));
        // No letter is cut in two.
        assert_eq!(trimmed("ääää", 6), format!("ä\n{}\nä", note(4)));
        assert_eq!(trimmed("aäääb", 4), format!("a\n{}\nb", note(6)));
    }
}
