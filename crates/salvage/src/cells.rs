//! Reads the rows on one page of a SQLite database, of any table.
//!
//! Pages are read one by one and not by the trees that lead to them, so a damaged or missing tree costs only
//! its own pages. Values have their types; `classify.rs` decides what a row means.
//! The format: <https://www.sqlite.org/fileformat2.html>. Entry point: [`rows_of`].

use super::image::{Image, PAGE_BYTES};

const TABLE_LEAF: u8 = 0x0d;
const TABLE_INTERIOR: u8 = 0x05;
const INDEX_LEAF: u8 = 0x0a;
const INDEX_INTERIOR: u8 = 0x02;

/// Bytes of the file's own header, before the header of the first page.
const FILE_HEADER_BYTES: usize = 100;

/// No row is larger than this; a larger length is damage.
const ROW_BYTES_MAX: usize = 1 << 30;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    Null,
    Number(i64),
    Text(Vec<u8>),
    Bytes(Vec<u8>),
}

/// The page and cell of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CellPlace {
    pub(super) page: u32,
    cell: u16,
}

pub(super) struct StoredRow {
    pub(super) place: CellPlace,
    /// `None` in a table without row numbers, and in an index.
    pub(super) number: Option<i64>,
    pub(super) values: Vec<Value>,
}

/// The rows and children of one page.
#[derive(Default)]
pub(super) struct PageRows {
    pub(super) rows: Vec<StoredRow>,
    /// Unreadable rows, by number if that is readable.
    pub(super) broken: Vec<Option<i64>>,
    /// Child pages in the same tree.
    pub(super) children: Vec<u32>,
    /// The child with the last rows of a table.
    pub(super) last_child: Option<u32>,
    /// Whether the page is part of a tree.
    pub(super) in_tree: bool,
}

/// All rows of a page.
pub(super) fn rows_of(image: &mut Image, number: u32) -> PageRows {
    let mut found = PageRows::default();
    let mut bytes = [0; PAGE_BYTES];
    if !image.read(number, &mut bytes) {
        return found;
    }
    let Some(page) = BtreePage::parse(number, &bytes) else { return found };
    found.in_tree = true;
    found.children.extend(page.last_child());
    found.last_child = page.last_child().filter(|_| page.kind == TABLE_INTERIOR);
    for cell in 0..page.cells {
        match page.cell(image, cell) {
            Some((child, row)) => {
                found.children.extend(child);
                found.rows.extend(row);
            }
            None => found.broken.push(page.row_number(cell)),
        }
    }
    found
}

/// Reads one row again; `None` if it is no longer readable.
pub(super) fn row_at(image: &mut Image, place: CellPlace) -> Option<StoredRow> {
    let mut bytes = [0; PAGE_BYTES];
    image.read(place.page, &mut bytes).then_some(())?;
    BtreePage::parse(place.page, &bytes)?.cell(image, place.cell)?.1
}

struct BtreePage<'b> {
    number: u32,
    kind: u8,
    bytes: &'b [u8; PAGE_BYTES],
    header: usize,
    cells: u16,
}

impl<'b> BtreePage<'b> {
    fn parse(number: u32, bytes: &'b [u8; PAGE_BYTES]) -> Option<Self> {
        let header = if number == 1 { FILE_HEADER_BYTES } else { 0 };
        let kind = bytes[header];
        if !matches!(kind, TABLE_LEAF | TABLE_INTERIOR | INDEX_LEAF | INDEX_INTERIOR) {
            return None;
        }
        let cells = u16::from_be_bytes([bytes[header + 3], bytes[header + 4]]);
        let page = BtreePage { number, kind, bytes, header, cells };
        (page.pointers() + 2 * usize::from(cells) <= PAGE_BYTES).then_some(page)
    }

    fn is_interior(&self) -> bool {
        matches!(self.kind, TABLE_INTERIOR | INDEX_INTERIOR)
    }

    /// The offset of the cell pointers.
    fn pointers(&self) -> usize {
        self.header + if self.is_interior() { 12 } else { 8 }
    }

    fn last_child(&self) -> Option<u32> {
        self.is_interior().then(|| number_at(self.bytes, self.header + 8))?
    }

    fn cell_bytes(&self, cell: u16) -> Option<&'b [u8]> {
        let pointer = self.pointers() + 2 * usize::from(cell);
        let begin = usize::from(u16::from_be_bytes(*self.bytes.get(pointer..)?.first_chunk()?));
        self.bytes.get(begin..).filter(|_| begin >= self.pointers())
    }

    /// The number of a row of a table, also when the row itself cannot be read.
    fn row_number(&self, cell: u16) -> Option<i64> {
        let mut rest = self.cell_bytes(cell).filter(|_| self.kind == TABLE_LEAF)?;
        take_number(&mut rest)?;
        take_number(&mut rest)
    }

    /// The page that a cell leads to, and its row where it has one. `None` when it makes no sense.
    fn cell(&self, image: &mut Image, cell: u16) -> Option<(Option<u32>, Option<StoredRow>)> {
        let mut rest = self.cell_bytes(cell)?;
        let child = if self.is_interior() { Some(take_u32(&mut rest)?) } else { None };
        if self.kind == TABLE_INTERIOR {
            return Some((child, None));
        }
        let length =
            usize::try_from(take_number(&mut rest)?).ok().filter(|length| *length <= ROW_BYTES_MAX)?;
        let number = if self.kind == TABLE_LEAF { Some(take_number(&mut rest)?) } else { None };
        let payload = payload(image, rest, length, self.kind == TABLE_LEAF)?;
        let place = CellPlace { page: self.number, cell };
        Some((child, Some(StoredRow { place, number, values: values(&payload)? })))
    }
}

/// The bytes of a row: those on its page, then those on its chain of overflow pages.
fn payload(image: &mut Image, rest: &[u8], length: usize, in_table: bool) -> Option<Vec<u8>> {
    let least = (PAGE_BYTES - 12) * 32 / 255 - 23;
    let most = if in_table { PAGE_BYTES - 35 } else { (PAGE_BYTES - 12) * 64 / 255 - 23 };
    let here = match least + length.saturating_sub(least) % (PAGE_BYTES - 4) {
        _ if length <= most => length,
        here if here <= most => here,
        _ => least,
    };
    let mut bytes = rest.get(..here)?.to_vec();
    let mut next = if here < length { number_at(rest, here)? } else { 0 };
    let mut page = [0; PAGE_BYTES];
    while bytes.len() < length {
        if next == 0 || next > image.pages() || !image.read(next, &mut page) {
            return None;
        }
        let more = (length - bytes.len()).min(PAGE_BYTES - 4);
        bytes.extend_from_slice(&page[4..4 + more]);
        next = number_at(&page, 0)?;
    }
    Some(bytes)
}

fn values(payload: &[u8]) -> Option<Vec<Value>> {
    let mut rest = payload;
    let header = usize::try_from(take_number(&mut rest)?).ok()?;
    let mut types = payload.get(payload.len() - rest.len()..header)?;
    let mut body = payload.get(header..)?;
    let mut values = Vec::new();
    while !types.is_empty() {
        let kind = take_number(&mut types)?;
        values.push(match kind {
            0 => Value::Null,
            1..=4 => Value::Number(take_signed(&mut body, usize::try_from(kind).ok()?)?),
            5 => Value::Number(take_signed(&mut body, 6)?),
            6 => Value::Number(take_signed(&mut body, 8)?),
            8 => Value::Number(0),
            9 => Value::Number(1),
            _ => {
                let length = usize::try_from(kind.checked_sub(12).filter(|length| *length >= 0)? / 2).ok()?;
                let (value, rest) = body.split_at_checked(length)?;
                body = rest;
                if kind % 2 == 0 { Value::Bytes(value.to_vec()) } else { Value::Text(value.to_vec()) }
            }
        });
    }
    body.is_empty().then_some(values)
}

fn number_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn take_u32(bytes: &mut &[u8]) -> Option<u32> {
    let number = number_at(bytes, 0)?;
    *bytes = &bytes[4..];
    Some(number)
}

/// Seven bits a byte, most significant first, at most nine bytes; the ninth has eight.
fn take_number(bytes: &mut &[u8]) -> Option<i64> {
    let mut number = 0_u64;
    for place in 1..=9 {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        if place == 9 {
            return Some((number << 8 | u64::from(*byte)).cast_signed());
        }
        number = number << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            break;
        }
    }
    Some(number.cast_signed())
}

fn take_signed(bytes: &mut &[u8], length: usize) -> Option<i64> {
    let (number, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    let negative = number.first().is_some_and(|byte| byte & 0x80 != 0);
    let begin = if negative { -1 } else { 0 };
    Some(number.iter().fold(begin, |sum, byte| sum << 8 | i64::from(*byte)))
}
