//! A JSON text that has been read: nodes in the order of the text, each with the position after its last value.
//! Lookups never fail and never copy, except to decode the escapes of a string. Look at [`Doc`].

use std::borrow::Cow;
use std::ops::Range;

use crate::text::unescape;

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
    pub fn with_article(self) -> &'static str {
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

pub(crate) const ESCAPED: u8 = 1;
pub(crate) const NOT_ASCII: u8 = 2;
/// A number with a fraction or an exponent.
pub(crate) const REAL: u8 = 4;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Cell {
    /// Of strings without the quotes.
    pub(crate) start: u32,
    pub(crate) end: u32,
    /// The cell after this one and all that is in it; 0 while it is open.
    pub(crate) next: u32,
    pub(crate) sort: Sort,
    pub(crate) flags: u8,
}

/// A text with its nodes.
#[derive(Clone, Copy)]
pub struct Doc<'d> {
    pub(crate) text: &'d str,
    pub(crate) cells: &'d [Cell],
    pub(crate) depth: usize,
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
        self.depth
    }

    /// All values and keys, in the order of the text.
    pub fn nodes(&self) -> impl Iterator<Item = Node<'d>> + use<'d> {
        let (text, cells) = (self.text, self.cells);
        (0_u32..).zip(cells).map(move |(at, _)| Node { text, cells, at })
    }

    /// The node with this [`Node::index`].
    pub fn node(&self, index: u32) -> Node<'d> {
        Node { text: self.text, cells: self.cells, at: index }
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

    /// Its number among all nodes of the text.
    pub fn index(self) -> u32 {
        self.at
    }

    pub fn sort(self) -> Sort {
        self.cell().sort
    }

    /// Where it begins; of a string, after the quote.
    pub fn offset(self) -> usize {
        self.cell().start as usize
    }

    /// Where it is written; of a string with its quotes.
    pub fn range(self) -> Range<usize> {
        let cell = self.cell();
        let quote = usize::from(cell.sort == Sort::Text);
        cell.start as usize - quote..cell.end as usize + quote
    }

    /// As it is written; of a string, what is between the quotes.
    pub fn raw(self) -> &'d str {
        let cell = self.cell();
        &self.text[cell.start as usize..cell.end as usize]
    }

    /// As it is written, of a string with its quotes.
    pub fn source(self) -> &'d str {
        &self.text[self.range()]
    }

    /// A string that is written without escapes.
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

    /// Whether it is a number without fraction and exponent.
    pub fn is_integer(self) -> bool {
        self.sort() == Sort::Number && self.cell().flags & REAL == 0
    }

    /// A number without fraction, however it is written. Beyond 64 bits it is the nearest end of them.
    pub fn int(self) -> Option<i64> {
        if self.sort() != Sort::Number {
            return None;
        }
        let raw = self.raw();
        if self.is_integer() {
            let end = if raw.starts_with('-') { i64::MIN } else { i64::MAX };
            return Some(raw.parse().unwrap_or(end));
        }
        #[expect(clippy::cast_possible_truncation, reason = "casts of floats saturate, which is meant")]
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
pub(crate) fn path(text: &str, cells: &[Cell], around: impl Fn(&Cell) -> bool) -> String {
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
