//! Forwards messages between the editor and the agent, byte for byte, in order, at once. See [`Relay`].
//!
//! Each direction has a thread of its own. It must never wait for the recorder, and never for the server.

use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex, MutexGuard};

use super::super::message_head::{Head, HeadScanner};
use super::gate::{Gate, Held, Verdict};
use super::line::{LinePiece, LineReader};
use super::queue::{AcpItem, AcpQueue, AcpSide};
use crate::limits;
use crate::output::note;

/// An output that is written to in whole messages.
pub(super) struct Outlet {
    out: Mutex<Option<Box<dyn Write + Send>>>,
}

impl Outlet {
    pub(super) fn new(out: impl Write + Send + 'static) -> Arc<Self> {
        Arc::new(Outlet { out: Mutex::new(Some(Box::new(out))) })
    }

    fn lock(&self) -> MutexGuard<'_, Option<Box<dyn Write + Send>>> {
        self.out.lock().expect("no code panics while it holds this lock")
    }

    /// Writes a complete message with its line break; between those of the other writers, never inside one.
    pub(super) fn write(&self, message: &[u8]) -> io::Result<()> {
        write_to(&mut self.lock(), message)
    }

    /// Nothing is written after this.
    pub(super) fn close(&self) {
        *self.lock() = None;
    }
}

fn write_to(out: &mut Option<Box<dyn Write + Send>>, bytes: &[u8]) -> io::Result<()> {
    let Some(open) = out else { return Err(io::ErrorKind::BrokenPipe.into()) };
    let written = open.write_all(bytes).and_then(|()| open.flush());
    if written.is_err() {
        *out = None;
    }
    written
}

/// One direction.
pub(super) struct Relay {
    pub(super) from: AcpSide,
    pub(super) to: Arc<Outlet>,
    pub(super) gate: Arc<Gate>,
    pub(super) queue: AcpQueue,
}

impl Relay {
    /// Forwards until the input or the output ends.
    pub(super) fn run(self, input: impl Read) {
        let mut reader =
            LineReader::new(input, limits::ACP_LINE_HELD_BYTES_MAX, limits::ACP_READ_BUFFER_BYTES);
        loop {
            let is_open = match reader.next() {
                LinePiece::Line(line) => self.line(line),
                LinePiece::Part { bytes, is_last } => self.long_line(bytes, is_last, &mut reader),
                LinePiece::End(rest) => {
                    self.end(rest);
                    false
                }
            };
            if !is_open {
                return;
            }
        }
    }

    /// Whether the output is still open.
    fn line(&self, line: Vec<u8>) -> bool {
        let head = Head::of(&line);
        let verdict = self.verdict(&head, Some(&line));
        let line: Arc<[u8]> = line.into();
        let held = match verdict {
            Verdict::Forward => None,
            Verdict::Hold(held) => Some(held),
        };
        // Before it is forwarded, so that the answer to it comes after it in the queue.
        let is_in = self.queue.push(AcpItem::Message { from: self.from, line: Arc::clone(&line), held });
        match held {
            None => self.to.write(&line).is_ok(),
            Some(_) if is_in => true,
            Some(held) => self.held_in_vain(held, &head, &line),
        }
    }

    /// The recorder is too busy to answer what was held for it.
    fn held_in_vain(&self, held: Held, head: &Head, line: &[u8]) -> bool {
        let id = head.id.as_deref().unwrap_or("");
        match held {
            Held::PermissionRequest if self.gate.pass_to_editor(id) => self.to.write(line).is_ok(),
            Held::Load | Held::Prompt | Held::PermissionTakenBack => self.to.write(line).is_ok(),
            Held::PermissionRequest | Held::LateAnswer | Held::EditorError | Held::OwnAnswer => true,
        }
    }

    fn verdict(&self, head: &Head, message: Option<&[u8]>) -> Verdict {
        match self.from {
            AcpSide::Editor => self.gate.of_editor(head, message),
            AcpSide::Agent => self.gate.of_agent(head, message),
        }
    }

    /// A line beyond the bound is forwarded as it is read; nothing is written in between.
    fn long_line<R: Read>(&self, first: Vec<u8>, is_last: bool, reader: &mut LineReader<R>) -> bool {
        let beginning = first[..first.len().min(limits::ACP_LONG_KEPT_BYTES)].to_vec();
        let mut scanner = HeadScanner::default();
        let mut bytes = 0_u64;
        let mut out = self.to.lock();
        let mut piece = (first, is_last);
        let is_open = loop {
            scanner.feed(&piece.0);
            bytes += piece.0.len() as u64;
            if write_to(&mut out, &piece.0).is_err() {
                break false;
            }
            if piece.1 {
                break true;
            }
            piece = match reader.next() {
                LinePiece::Part { bytes, is_last } => (bytes, is_last),
                // The rest never came. What follows must not be taken for it.
                LinePiece::End(mut rest) | LinePiece::Line(mut rest) => {
                    rest.push(b'\n');
                    note(&format!("the output of {} ended in the middle of a message", self.name()));
                    (rest, true)
                }
            };
        };
        drop(out);
        let head = scanner.finish();
        self.verdict(&head, None);
        self.queue.push(AcpItem::Long { from: self.from, head, beginning, bytes });
        is_open
    }

    fn end(&self, rest: Vec<u8>) {
        if rest.iter().all(u8::is_ascii_whitespace) {
            return;
        }
        if Head::of(&rest).is_object {
            // Complete but for its line break.
            self.line([rest, b"\n".to_vec()].concat());
            return;
        }
        note(&format!(
            "the output of {} ended in the middle of a message; its {} bytes are not forwarded",
            self.name(),
            rest.len()
        ));
        self.queue.push(AcpItem::Unfinished { from: self.from, bytes: rest });
    }

    fn name(&self) -> &'static str {
        match self.from {
            AcpSide::Editor => "the editor",
            AcpSide::Agent => "the agent",
        }
    }
}
