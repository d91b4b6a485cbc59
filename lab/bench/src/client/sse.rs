//! Reads one event stream and counts messages, gaps in the ids, and the delay of each message.
//!
//! It is cheap: it searches line ends and stores only a line that is split by a read.

use crate::histogram::Histogram;
use crate::scene;

/// How the body is delimited, and where in it the reader is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Transfer {
    Head,
    Plain,
    ChunkSize(u64),
    ChunkData(u64),
    ChunkEnd,
    Over,
}

/// The lines of a body, however it is delimited and cut.
pub(crate) struct Lines {
    transfer: Transfer,
    /// The incomplete head, later the incomplete line.
    partial: Vec<u8>,
    pub(crate) status: u16,
}

impl Default for Lines {
    fn default() -> Self {
        Lines { transfer: Transfer::Head, partial: Vec::new(), status: 0 }
    }
}

/// One reader.
pub(crate) struct Reader {
    lines: Lines,
    id: Option<u64>,
    due_ns: Option<u64>,
    /// Whether the delay of messages is measured.
    sampled: bool,
    pub(crate) caught_up: bool,
    pub(crate) messages: u64,
    pub(crate) last: Option<u64>,
    /// Ids that were missing or repeated.
    pub(crate) missing: u64,
    pub(crate) repeated: u64,
}

impl Lines {
    pub(crate) fn is_over(&self) -> bool {
        self.transfer == Transfer::Over
    }

    /// Processes the bytes of one read, and calls `each` with each complete line.
    pub(crate) fn take(&mut self, mut bytes: &[u8], mut each: impl FnMut(&[u8])) {
        while !bytes.is_empty() {
            bytes = match self.transfer {
                Transfer::Head => self.head(bytes),
                Transfer::Plain => {
                    self.payload(bytes, &mut each);
                    &[]
                }
                Transfer::ChunkSize(size) => self.chunk_size(bytes, size),
                Transfer::ChunkData(left) => {
                    let here = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
                    let (data, rest) = bytes.split_at(here);
                    self.payload(data, &mut each);
                    let left = left - here as u64;
                    self.transfer = if left == 0 { Transfer::ChunkEnd } else { Transfer::ChunkData(left) };
                    rest
                }
                Transfer::ChunkEnd => match memchr::memchr(b'\n', bytes) {
                    Some(at) => {
                        self.transfer = Transfer::ChunkSize(0);
                        &bytes[at + 1..]
                    }
                    None => &[],
                },
                Transfer::Over => &[],
            };
        }
    }

    fn head<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let before = self.partial.len();
        self.partial.extend_from_slice(bytes);
        let Some(end) = memchr::memmem::find(&self.partial, b"\r\n\r\n") else { return &[] };
        let head = String::from_utf8_lossy(&self.partial[..end]).to_ascii_lowercase();
        self.status = head.get(9..12).and_then(|text| text.parse().ok()).unwrap_or(0);
        let chunked = head.contains("transfer-encoding: chunked");
        self.transfer = if chunked { Transfer::ChunkSize(0) } else { Transfer::Plain };
        self.partial.clear();
        &bytes[end + 4 - before..]
    }

    fn chunk_size<'a>(&mut self, bytes: &'a [u8], mut size: u64) -> &'a [u8] {
        for (at, byte) in bytes.iter().enumerate() {
            match byte {
                b'0'..=b'9' => size = size * 16 + u64::from(byte - b'0'),
                b'a'..=b'f' => size = size * 16 + u64::from(byte - b'a' + 10),
                b'A'..=b'F' => size = size * 16 + u64::from(byte - b'A' + 10),
                b'\n' => {
                    self.transfer = if size == 0 { Transfer::Over } else { Transfer::ChunkData(size) };
                    return &bytes[at + 1..];
                }
                _ => {}
            }
        }
        self.transfer = Transfer::ChunkSize(size);
        &[]
    }

    fn payload(&mut self, mut bytes: &[u8], each: &mut impl FnMut(&[u8])) {
        if !self.partial.is_empty() {
            let Some(end) = memchr::memchr(b'\n', bytes) else {
                self.partial.extend_from_slice(bytes);
                return;
            };
            self.partial.extend_from_slice(&bytes[..end]);
            each(&self.partial);
            self.partial.clear();
            bytes = &bytes[end + 1..];
        }
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            each(&bytes[..end]);
            bytes = &bytes[end + 1..];
        }
        self.partial.extend_from_slice(bytes);
    }
}

impl Reader {
    pub(crate) fn new(sampled: bool) -> Self {
        Reader {
            lines: Lines::default(),
            id: None,
            due_ns: None,
            sampled,
            caught_up: false,
            messages: 0,
            last: None,
            missing: 0,
            repeated: 0,
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.lines.is_over()
    }

    pub(crate) fn status(&self) -> u16 {
        self.lines.status
    }

    /// Processes the bytes of one read at `now_ns`.
    pub(crate) fn take(&mut self, bytes: &[u8], now_ns: u64, late: &mut Histogram) {
        let mut lines = std::mem::take(&mut self.lines);
        lines.take(bytes, |line| self.line(line, now_ns, late));
        self.lines = lines;
    }

    fn line(&mut self, line: &[u8], now_ns: u64, late: &mut Histogram) {
        if line.is_empty() {
            self.message(now_ns, late);
        } else if let Some(digits) = line.strip_prefix(b"id: ") {
            self.id = Some(number(digits));
        } else if self.sampled && line.starts_with(b"data: ") {
            self.due_ns = memchr::memmem::find(line, scene::MARK).and_then(|at| {
                let digits = line.get(at + scene::MARK.len()..)?.get(..scene::MARK_DIGITS)?;
                Some(number(digits))
            });
        } else if line == b"event: caught_up" {
            self.caught_up = true;
        }
    }

    fn message(&mut self, now_ns: u64, late: &mut Histogram) {
        let due_ns = self.due_ns.take();
        let Some(id) = self.id.take() else { return };
        self.messages += 1;
        if let Some(last) = self.last {
            if id <= last {
                self.repeated += 1;
            } else {
                self.missing += id - last - 1;
            }
        }
        self.last = Some(id);
        if let Some(due_ns) = due_ns {
            late.add(now_ns.saturating_sub(due_ns));
        }
    }
}

fn number(digits: &[u8]) -> u64 {
    digits
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .fold(0u64, |number, byte| number.wrapping_mul(10).wrapping_add(u64::from(byte - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";

    fn chunk(text: &str) -> String {
        format!("{:x}\r\n{text}\r\n", text.len())
    }

    fn read(wire: &str, step: usize) -> (Reader, Histogram) {
        let mut reader = Reader::new(true);
        let mut late = Histogram::default();
        for piece in wire.as_bytes().chunks(step) {
            reader.take(piece, 500, &mut late);
        }
        (reader, late)
    }

    #[test]
    fn messages_are_counted_for_any_chunking() {
        let frame = |id: u64| format!("id: {id}\ndata: {{\"m\":\"due={:019} \"}}\n\n", 400);
        let caught_up = "event: caught_up\ndata: {}\n\n";
        let wire = [
            HEAD.to_owned(),
            chunk("retry: 1000\n\n"),
            chunk(&(frame(0) + &frame(1))),
            chunk(caught_up),
            chunk(&frame(2)[..20]),
            chunk(&frame(2)[20..]),
            chunk(&frame(5)),
            chunk(&frame(5)),
            "0\r\n\r\n".to_owned(),
        ]
        .concat();
        for step in [1, 2, 3, 7, 50, wire.len()] {
            let (reader, late) = read(&wire, step);
            assert_eq!((reader.status(), reader.caught_up, reader.messages), (200, true, 5), "step {step}");
            assert_eq!((reader.missing, reader.repeated, reader.last), (2, 1, Some(5)), "step {step}");
            assert!(reader.is_over(), "step {step}");
            assert_eq!((late.total(), late.share_ns(0.5).round()), (5, 101.0), "step {step}");
        }
    }

    #[test]
    fn a_body_without_chunks_is_read_too() {
        let (reader, _) = read("HTTP/1.1 200 OK\r\n\r\nid: 7\ndata: x\n\nid: 8\ndata: y\n\n", 5);
        assert_eq!((reader.messages, reader.missing, reader.last), (2, 0, Some(8)));
    }
}
