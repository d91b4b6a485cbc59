//! A program at a terminal: what it writes is read as it comes, and keys are pressed.
//!
//! The terminal is made by `script`, which every Debian has.

use std::io::{Read as _, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};

use crate::server::{PATIENCE, recount};

pub(crate) struct Terminal {
    child: Child,
    keys: Option<ChildStdin>,
    pieces: Receiver<Vec<u8>>,
    /// All that was written so far.
    seen: String,
    /// The beginning of a letter whose rest has not come.
    cut: Vec<u8>,
    /// How much of it was looked at.
    looked: usize,
}

impl Terminal {
    /// The program with these arguments, in a folder.
    pub(crate) fn start(folder: &std::path::Path, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let quoted = |word: &str| format!("'{}'", word.replace('\'', r"'\''"));
        let words: Vec<String> = std::iter::once(env!("CARGO_BIN_EXE_recount"))
            .chain(arguments.iter().copied())
            .map(quoted)
            .collect();
        // Of the environment what `recount` gives to every test.
        let clean = recount();
        let mut command = Command::new("script");
        for (name, value) in clean.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        // `script` creates a terminal that does not report its width. Most tests look for whole lines.
        command
            .env("SHELL", "/bin/sh")
            .env("NO_COLOR", "1")
            .env("COLUMNS", "400")
            .envs(variables.iter().copied());
        command
            .args(["-q", "-e", "-c", &format!("exec {}", words.join(" ")), "/dev/null"])
            .current_dir(folder);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("script is there; on Debian it is in bsdutils");
        let mut out = child.stdout.take().expect("it is piped");
        let keys = child.stdin.take();
        let (send, pieces) = channel();
        recount_world::thread("terminal", move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = out.read(&mut buffer) {
                if send.send(buffer[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Terminal { child, keys, pieces, seen: String::new(), cut: Vec::new(), looked: 0 }
    }

    /// Waits until this stands behind what was waited for before; answers what came up to and with it.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, text: &str) -> String {
        loop {
            if let Some(at) = self.seen[self.looked..].find(text) {
                let end = self.looked + at + text.len();
                let passed = self.seen[self.looked..end].to_owned();
                self.looked = end;
                return passed;
            }
            match self.pieces.recv_timeout(PATIENCE) {
                Ok(piece) => self.take(&piece),
                Err(RecvTimeoutError::Disconnected | RecvTimeoutError::Timeout) => {
                    panic!("{text:?} does not come; there is:\n{}", self.seen)
                }
            }
        }
    }

    fn take(&mut self, piece: &[u8]) {
        self.cut.extend_from_slice(piece);
        // A letter may come in two pieces.
        let end = match std::str::from_utf8(&self.cut) {
            Err(why) if why.error_len().is_none() => why.valid_up_to(),
            _ => self.cut.len(),
        };
        let whole: Vec<u8> = self.cut.drain(..end).collect();
        self.seen.push_str(&String::from_utf8_lossy(&whole).replace('\r', ""));
    }

    pub(crate) fn press(&mut self, keys: &str) {
        let pipe = self.keys.as_mut().expect("it has not ended");
        pipe.write_all(keys.as_bytes()).and_then(|()| pipe.flush()).expect("the terminal takes keys");
    }

    /// As a person who presses Ctrl-C.
    pub(crate) fn interrupt(&mut self) {
        self.press("\u{3}");
    }

    /// The same, where it may have ended by now.
    pub(crate) fn interrupt_again(&mut self) {
        let pipe = self.keys.as_mut().expect("it is open until the end");
        match pipe.write_all("\u{3}".as_bytes()).and_then(|()| pipe.flush()) {
            Err(why) if why.kind() != std::io::ErrorKind::BrokenPipe => panic!("it takes no keys: {why}"),
            Ok(()) | Err(_) => {}
        }
    }

    /// Waits until it ends; all it wrote, and the status.
    pub(crate) fn end(mut self) -> (String, i32) {
        loop {
            match self.pieces.recv_timeout(PATIENCE) {
                Ok(piece) => self.take(&piece),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("it does not end; there is:\n{}", self.seen),
            }
        }
        let status = self.child.wait().expect("it can be waited for");
        (std::mem::take(&mut self.seen), status.code().unwrap_or(-1))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        drop(self.keys.take());
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
