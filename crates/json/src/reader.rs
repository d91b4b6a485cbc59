//! Reads a strict JSON text into a [`Doc`], in one pass. Look at [`Reader::read`].

use crate::fault::{Fault, Reason};
use crate::scan::{Kind, Scanner, Token};
use crate::tree::{Cell, Doc, ESCAPED, NOT_ASCII, REAL, Sort, path};

/// Bytes of one text; a longer one is refused with [`Reason::TooLong`], because positions are kept in 32 bits.
const TEXT_BYTES_MAX: usize = u32::MAX as usize - 1;

/// A text that was not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadFault {
    pub fault: Fault,
    /// The value that was being read, as `producer.agent_id` or `choices[2].label`; empty at the top.
    pub path: String,
}

/// Reads texts one after another, with the same memory.
#[derive(Debug, Default)]
pub struct Reader {
    cells: Vec<Cell>,
    /// Objects and arrays whose end has not been read yet.
    open: Vec<usize>,
    depth: usize,
}

impl Reader {
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads one JSON value, with optional white space around it. Refuses what [`Scanner::strict`] refuses.
    pub fn read<'d>(&'d mut self, text: &'d str, depth_max: usize) -> Result<Doc<'d>, ReadFault> {
        self.cells.clear();
        self.open.clear();
        self.depth = 0;
        match self.fill(text, depth_max) {
            Ok(()) => Ok(Doc { text, cells: &self.cells, depth: self.depth }),
            Err(fault) => Err(ReadFault { fault, path: path(text, &self.cells, |cell| cell.next == 0) }),
        }
    }

    fn fill(&mut self, text: &str, depth_max: usize) -> Result<(), Fault> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(Fault { reason: Reason::TooLong(TEXT_BYTES_MAX), at: 0, start: 0 });
        }
        let mut scanner = Scanner::strict(text, depth_max);
        // A key stays open until its value is read, so that a fault in between has its path.
        let mut key = None;
        loop {
            match scanner.token() {
                Ok(Some(token)) => key = self.take(token),
                Ok(None) => return Ok(()),
                Err(fault) => {
                    if let Reason::DuplicateKey { end } = fault.reason {
                        key = Some(self.push(Sort::Text, fault.start + 1, end - 1, 0));
                    }
                    if let Some(key) = key {
                        self.cells[key].next = 0;
                    }
                    return Err(fault);
                }
            }
        }
    }

    /// Returns the cell of a key.
    #[inline]
    fn take(&mut self, token: Token) -> Option<usize> {
        let (start, end) = (token.start, token.end);
        match token.kind {
            Kind::ObjectStart => self.begin(Sort::Object, start),
            Kind::ArrayStart => self.begin(Sort::Array, start),
            Kind::ObjectEnd | Kind::ArrayEnd => self.close(end),
            Kind::Key => return Some(self.string(token)),
            Kind::Text => drop(self.string(token)),
            Kind::Integer => drop(self.push(Sort::Number, start, end, 0)),
            Kind::Real => drop(self.push(Sort::Number, start, end, REAL)),
            Kind::Bool => drop(self.push(Sort::Bool, start, end, 0)),
            Kind::Null => drop(self.push(Sort::Null, start, end, 0)),
        }
        None
    }

    #[expect(clippy::cast_possible_truncation, reason = "longer texts are rejected")]
    fn push(&mut self, sort: Sort, start: usize, end: usize, flags: u8) -> usize {
        let at = self.cells.len();
        self.cells.push(Cell { start: start as u32, end: end as u32, next: at as u32 + 1, sort, flags });
        at
    }

    fn begin(&mut self, sort: Sort, start: usize) {
        let cell = self.push(sort, start, start, 0);
        self.cells[cell].next = 0;
        self.open.push(cell);
        self.depth = self.depth.max(self.open.len());
    }

    #[expect(clippy::cast_possible_truncation, reason = "longer texts are rejected")]
    fn close(&mut self, end: usize) {
        let Some(cell) = self.open.pop() else { return };
        let next = self.cells.len() as u32;
        self.cells[cell].end = end as u32;
        self.cells[cell].next = next;
    }

    fn string(&mut self, token: Token) -> usize {
        let inside = token.inside();
        let escaped = if token.is_escaped { ESCAPED } else { 0 };
        let not_ascii = if token.is_ascii { 0 } else { NOT_ASCII };
        self.push(Sort::Text, inside.start, inside.end, escaped | not_ascii)
    }
}
