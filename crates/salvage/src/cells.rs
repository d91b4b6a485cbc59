//! Reads the rows on one page of a SQLite database, of any table.
//!
//! Pages are read one by one and not by the trees that lead to them, so a damaged or missing tree costs only
//! its own pages. Values have their types; `classify.rs` decides what a row means.
//! The format: <https://www.sqlite.org/fileformat2.html>. Entry point: [`rows_of`].

use recount_log_sqlite::stored::{Column, columns, local_bytes, varint};

use super::image::{Image, PAGE_BYTES};

const TABLE_LEAF: u8 = 0x0d;
const TABLE_INTERIOR: u8 = 0x05;
const INDEX_LEAF: u8 = 0x0a;
const INDEX_INTERIOR: u8 = 0x02;

/// Bytes of the file's own header, before the header of the first page.
const FILE_HEADER_BYTES: usize = 100;

/// No row is larger than this; a larger length is damage.
const ROW_BYTES_MAX: usize = 1 << 30;

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
    payload: Vec<u8>,
}

impl StoredRow {
    /// `None` when they make no sense. No table of a store has a column of another kind.
    pub(super) fn columns(&self) -> Option<Vec<Column<'_>>> {
        columns(&self.payload, true).filter(|columns| !columns.contains(&Column::Real))
    }
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
        varint(&mut rest)?;
        varint(&mut rest)
    }

    /// The page that a cell leads to, and its row where it has one. `None` when it makes no sense.
    fn cell(&self, image: &mut Image, cell: u16) -> Option<(Option<u32>, Option<StoredRow>)> {
        let mut rest = self.cell_bytes(cell)?;
        let child = if self.is_interior() { Some(take_u32(&mut rest)?) } else { None };
        if self.kind == TABLE_INTERIOR {
            return Some((child, None));
        }
        let length = usize::try_from(varint(&mut rest)?).ok().filter(|length| *length <= ROW_BYTES_MAX)?;
        let number = if self.kind == TABLE_LEAF { Some(varint(&mut rest)?) } else { None };
        let payload = payload(image, rest, length, self.kind == TABLE_LEAF)?;
        let row = StoredRow { place: CellPlace { page: self.number, cell }, number, payload };
        row.columns()?;
        Some((child, Some(row)))
    }
}

/// The bytes of a row: those on its page, then those on its chain of overflow pages.
fn payload(image: &mut Image, rest: &[u8], length: usize, in_table: bool) -> Option<Vec<u8>> {
    let here = local_bytes(length, PAGE_BYTES, in_table);
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

fn number_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn take_u32(bytes: &mut &[u8]) -> Option<u32> {
    let number = number_at(bytes, 0)?;
    *bytes = &bytes[4..];
    Some(number)
}
