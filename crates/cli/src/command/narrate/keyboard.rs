//! Single keys from a terminal: [`Keyboard`]. The terminal is as before when it is dropped.

use std::io::IsTerminal as _;

use recount_narrate::NarratorKey;
use recount_world::platform::TerminalMode;
use tokio::io::{AsyncReadExt as _, Stdin};

use crate::limits;

/// Keys, if standard input is a terminal.
pub(super) struct Keyboard {
    stdin: Option<Stdin>,
    decoder: KeyDecoder,
    /// Until the keyboard is dropped.
    _mode: Option<TerminalMode>,
}

impl Keyboard {
    pub(super) fn open() -> Keyboard {
        let stdin = std::io::stdin();
        let mode = if stdin.is_terminal() { TerminalMode::keys() } else { None };
        let stdin = mode.is_some().then(tokio::io::stdin);
        Keyboard { stdin, decoder: KeyDecoder::default(), _mode: mode }
    }

    pub(super) fn is_open(&self) -> bool {
        self.stdin.is_some()
    }

    /// The next keys. Waits for ever where there is no keyboard.
    pub(super) async fn next(&mut self) -> Vec<NarratorKey> {
        let Some(stdin) = &mut self.stdin else { return std::future::pending().await };
        let mut bytes = [0; limits::KEY_BYTES];
        match stdin.read(&mut bytes).await {
            Ok(count @ 1..) => self.decoder.feed(&bytes[..count]),
            // The terminal is closed, and the narration continues without it.
            Ok(0) | Err(_) => {
                self.stdin = None;
                Vec::new()
            }
        }
    }
}

/// Keys from bytes as a terminal sends them. Keys that send sequences, such as arrows, are ignored.
#[derive(Debug, Default)]
struct KeyDecoder {
    /// The beginning of a character whose rest has not come.
    cut: Vec<u8>,
}

impl KeyDecoder {
    fn feed(&mut self, bytes: &[u8]) -> Vec<NarratorKey> {
        self.cut.extend_from_slice(bytes);
        let end = match std::str::from_utf8(&self.cut) {
            Err(why) if why.error_len().is_none() => why.valid_up_to(),
            _ => self.cut.len(),
        };
        let whole: Vec<u8> = self.cut.drain(..end).collect();
        let text = String::from_utf8_lossy(&whole);
        let mut characters = text.chars().peekable();
        let mut keys = Vec::new();
        while let Some(character) = characters.next() {
            match character {
                '\u{1b}' => match characters.next_if(|next| matches!(next, '[' | 'O')) {
                    Some('[') => while characters.next().is_some_and(|next| !matches!(next, '@'..='~')) {},
                    Some(_) => drop(characters.next()),
                    None => keys.push(NarratorKey::Escape),
                },
                '\r' | '\n' => keys.push(NarratorKey::Enter),
                '\u{7f}' | '\u{8}' => keys.push(NarratorKey::Backspace),
                character if character.is_control() => {}
                character => keys.push(NarratorKey::Char(character)),
            }
        }
        keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_become_keys() {
        use NarratorKey::{Backspace, Char, Enter, Escape};
        let cases: [(&[&[u8]], &[NarratorKey]); 7] = [
            (&[b"y"], &[Char('y')]),
            (&[b"3r\r"], &[Char('3'), Char('r'), Enter]),
            (&["é".as_bytes()], &[Char('é')]),
            (&[b"\xc3", b"\xa9"], &[Char('é')]),
            (&[b"\x1b[A\x1b[3~\x1bOPx"], &[Char('x')]),
            (&[b"\x1b"], &[Escape]),
            (&[b"a\x7f\x08\x00\x04"], &[Char('a'), Backspace, Backspace]),
        ];
        for (pieces, expected) in cases {
            let mut decoder = KeyDecoder::default();
            let keys: Vec<NarratorKey> = pieces.iter().flat_map(|piece| decoder.feed(piece)).collect();
            assert_eq!(keys, expected, "{pieces:?}");
        }
    }
}
