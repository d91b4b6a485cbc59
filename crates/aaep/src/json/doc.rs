//! A JSON text that has been read: nodes in the order of the text, each knowing where its values end.
//! Looks things up; never fails and never copies, except to take escapes out of a string.

use std::borrow::Cow;

use recount_json::unescape;

/// What a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sort {
    Null,
    Bool,
    Number,
    Text,
    Array,
    Object,
}

impl Sort {
    /// With its article, for sentences.
    pub fn says(self) -> &'static str {
        match self {
            Sort::Null => "null",
            Sort::Bool => "a boolean",
            Sort::Number => "a number",
            Sort::Text => "a string",
            Sort::Array => "an array",
            Sort::Object => "an object",
        }
    }
}

pub(super) const ESCAPED: u8 = 1;
pub(super) const NOT_ASCII: u8 = 2;
/// A number with a fraction or an exponent.
pub(super) const REAL: u8 = 4;

#[derive(Debug, Clone, Copy)]
pub(super) struct Cell {
    /// Of strings without the quotes.
    pub(super) start: u32,
    pub(super) end: u32,
    /// The cell behind this one and all that is in it; 0 while it is open.
    pub(super) next: u32,
    pub(super) sort: Sort,
    pub(super) flags: u8,
}

/// A text with its nodes.
#[derive(Clone, Copy)]
pub struct Doc<'d> {
    pub(super) text: &'d str,
    pub(super) cells: &'d [Cell],
    pub(super) facts: Facts,
}

/// Noticed on the way, so that nobody has to walk again.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Facts {
    pub(super) deepest: usize,
    /// Cell of the first integer beyond 2^53, and of the first string beyond the soft limit.
    pub(super) big_integer: Option<u32>,
    pub(super) long_string: Option<u32>,
}

impl<'d> Doc<'d> {
    pub fn text(&self) -> &'d str {
        self.text
    }

    pub fn root(&self) -> Node<'d> {
        Node { text: self.text, cells: self.cells, at: 0 }
    }

    /// Levels of nesting; a plain value has none.
    pub fn depth(&self) -> usize {
        self.facts.deepest
    }

    /// The first integer whose size is beyond 2^53.
    pub fn big_integer(&self) -> Option<Node<'d>> {
        self.facts.big_integer.map(|at| self.node(at))
    }

    /// The first string beyond [`crate::limits::STRING_BYTES_SOFT`].
    pub fn long_string(&self) -> Option<Node<'d>> {
        self.facts.long_string.map(|at| self.node(at))
    }

    pub(crate) fn node(&self, at: u32) -> Node<'d> {
        Node { text: self.text, cells: self.cells, at }
    }

    /// The path to the innermost value around a byte offset, as `producer.agent_id`.
    pub fn path_at(&self, offset: usize) -> String {
        path(self.text, self.cells, |cell| cell.start as usize <= offset && offset <= cell.end as usize)
    }
}

/// One value in a [`Doc`].
#[derive(Clone, Copy)]
pub struct Node<'d> {
    text: &'d str,
    cells: &'d [Cell],
    at: u32,
}

impl<'d> Node<'d> {
    fn cell(self) -> Cell {
        self.cells[self.at as usize]
    }

    pub(crate) fn index(self) -> u32 {
        self.at
    }

    pub fn sort(self) -> Sort {
        self.cell().sort
    }

    /// Where it begins; of a string, behind the quote.
    pub fn offset(self) -> usize {
        self.cell().start as usize
    }

    /// As it is written; of a string, what is between the quotes.
    pub fn raw(self) -> &'d str {
        let cell = self.cell();
        &self.text[cell.start as usize..cell.end as usize]
    }

    /// As it is written, of a string with its quotes.
    pub fn source(self) -> &'d str {
        let cell = self.cell();
        match cell.sort {
            Sort::Text => &self.text[cell.start as usize - 1..cell.end as usize + 1],
            _ => self.raw(),
        }
    }

    /// A string whose text stands there as it is, without escapes.
    pub fn plain(self) -> Option<&'d str> {
        let cell = self.cell();
        (cell.sort == Sort::Text && cell.flags & ESCAPED == 0).then(|| self.raw())
    }

    /// The text of a string.
    pub fn str(self) -> Option<Cow<'d, str>> {
        let cell = self.cell();
        if cell.sort != Sort::Text {
            return None;
        }
        Some(if cell.flags & ESCAPED == 0 { Cow::Borrowed(self.raw()) } else { unescape(self.raw()) })
    }

    /// Whether a string is exactly this.
    pub fn is(self, what: &str) -> bool {
        self.plain().map_or_else(|| self.str().is_some_and(|text| text == what), |text| text == what)
    }

    pub fn is_ascii(self) -> bool {
        self.cell().flags & (NOT_ASCII | ESCAPED) == 0
    }

    /// Characters of a string: (Unicode code points, UTF-16 units).
    pub fn lengths(self) -> (usize, usize) {
        if self.is_ascii() {
            let length = self.raw().len();
            return (length, length);
        }
        let text = self.str().unwrap_or_default();
        text.chars().fold((0, 0), |(points, units), c| (points + 1, units + c.len_utf16()))
    }

    pub fn bool(self) -> Option<bool> {
        (self.sort() == Sort::Bool).then(|| self.raw() == "true")
    }

    /// A number without fraction, however it is written. Beyond 64 bits it is the nearest end of them.
    pub fn int(self) -> Option<i64> {
        if self.sort() != Sort::Number {
            return None;
        }
        let raw = self.raw();
        if self.cell().flags & REAL == 0 {
            let end = if raw.starts_with('-') { i64::MIN } else { i64::MAX };
            return Some(raw.parse().unwrap_or(end));
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "casts of floats stop at the ends, which is meant"
        )]
        self.number().filter(|number| number.fract() == 0.0).map(|number| number as i64)
    }

    pub fn number(self) -> Option<f64> {
        if self.sort() == Sort::Number { self.raw().parse().ok() } else { None }
    }

    /// The keys and values of an object; nothing of anything else.
    pub fn members(self) -> Members<'d> {
        let inside = self.sort() == Sort::Object;
        Members(self.inside(inside))
    }

    /// The values of an array; nothing of anything else.
    pub fn items(self) -> Items<'d> {
        let inside = self.sort() == Sort::Array;
        self.inside(inside)
    }

    fn inside(self, really: bool) -> Items<'d> {
        let end = if really { self.cell().next } else { 0 };
        Items { text: self.text, cells: self.cells, at: self.at + 1, end }
    }

    pub fn get(self, key: &str) -> Option<Node<'d>> {
        self.members().find(|(name, _)| name.is(key)).map(|(_, value)| value)
    }
}

impl std::fmt::Debug for Node<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.source())
    }
}

/// The values of an array, in order.
#[derive(Clone)]
pub struct Items<'d> {
    text: &'d str,
    cells: &'d [Cell],
    at: u32,
    end: u32,
}

impl<'d> Iterator for Items<'d> {
    type Item = Node<'d>;

    fn next(&mut self) -> Option<Node<'d>> {
        if self.at >= self.end {
            return None;
        }
        let node = Node { text: self.text, cells: self.cells, at: self.at };
        self.at = self.cells[self.at as usize].next;
        Some(node)
    }
}

/// The keys and values of an object, in order.
#[derive(Clone)]
pub struct Members<'d>(Items<'d>);

impl<'d> Iterator for Members<'d> {
    type Item = (Node<'d>, Node<'d>);

    fn next(&mut self) -> Option<Self::Item> {
        Some((self.0.next()?, self.0.next()?))
    }
}

/// The path through all values for which `around` holds, the outermost first.
pub(super) fn path(text: &str, cells: &[Cell], around: impl Fn(&Cell) -> bool) -> String {
    let mut path = String::new();
    let mut container = 0;
    while let Some(cell) = cells.get(container).filter(|cell| matches!(cell.sort, Sort::Array | Sort::Object))
    {
        let end = if cell.next == 0 { cells.len() } else { cell.next as usize };
        let object = cell.sort == Sort::Object;
        let mut at = container + 1;
        let mut index = 0;
        let mut inner = None;
        while at < end {
            let value = at + usize::from(object);
            let Some(found) = cells.get(value) else {
                // A key whose value has not been read yet.
                inner = around(&cells[at]).then_some((at, value, index));
                break;
            };
            if around(found) || (object && around(&cells[at])) {
                inner = Some((at, value, index));
                break;
            }
            if found.next == 0 {
                break;
            }
            at = found.next as usize;
            index += 1;
        }
        let Some((key, value, index)) = inner else { break };
        if object {
            if !path.is_empty() {
                path.push('.');
            }
            path.push_str(&text[cells[key].start as usize..cells[key].end as usize]);
        } else {
            path.push_str(&format!("[{index}]"));
        }
        container = value;
    }
    path
}
