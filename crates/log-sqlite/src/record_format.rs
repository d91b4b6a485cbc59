//! Decodes the rows of SQLite's file format without SQLite: numbers of variable length, columns, and how much of a row
//! is on its page.
//!
//! It must not know tables. The format: <https://www.sqlite.org/fileformat2.html>. Entry point: [`columns`].

/// A column of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Column<'r> {
    Null,
    Number(i64),
    Real,
    Bytes(&'r [u8]),
    Text(&'r [u8]),
}

/// The columns of a row. Of a row that continues elsewhere, `local` is its beginning, and so may be the last columns.
/// `None` when it makes no sense, or is not `whole` although it must be.
pub fn columns(local: &[u8], must_be_whole: bool) -> Option<Vec<Column<'_>>> {
    let mut header = local;
    let length = usize::try_from(varint(&mut header)?).ok()?;
    let mut body = local.get(length..)?;
    let mut types = local.get(local.len() - header.len()..length)?;
    let mut columns = Vec::new();
    while !types.is_empty() {
        let kind = varint(&mut types)?;
        let bytes = match kind {
            0 | 8 | 9 => 0,
            1..=4 => usize::try_from(kind).ok()?,
            5 => 6,
            6 | 7 => 8,
            _ => usize::try_from(kind.checked_sub(12).filter(|length| *length >= 0)? / 2).ok()?,
        };
        if must_be_whole && bytes > body.len() {
            return None;
        }
        let (value, after) = body.split_at(bytes.min(body.len()));
        body = after;
        columns.push(match kind {
            0 => Column::Null,
            7 => Column::Real,
            8 => Column::Number(0),
            9 => Column::Number(1),
            1..=6 => Column::Number(signed(value)),
            _ if kind % 2 == 0 => Column::Bytes(value),
            _ => Column::Text(value),
        });
    }
    (!must_be_whole || body.is_empty()).then_some(columns)
}

/// How many bytes of a row are on its page. Rows of a table and of an index differ.
pub fn local_bytes(payload: usize, page: usize, in_table: bool) -> usize {
    let usable = page.saturating_sub(12);
    let most = if in_table { page.saturating_sub(35) } else { usable * 64 / 255 - 23 };
    if payload <= most {
        return payload;
    }
    let least = usable * 32 / 255 - 23;
    let local = least + (payload - least) % (page - 4);
    if local <= most { local } else { least }
}

/// SQLite's number of variable length: seven bits a byte, most significant first; the ninth byte has eight.
pub fn varint(rest: &mut &[u8]) -> Option<i64> {
    let mut number = 0_u64;
    for place in 1..=9 {
        let (byte, after) = rest.split_first()?;
        *rest = after;
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

fn signed(bytes: &[u8]) -> i64 {
    let begin = if bytes.first().is_some_and(|first| first & 0x80 != 0) { -1 } else { 0 };
    bytes.iter().fold(begin, |number, byte| number << 8 | i64::from(*byte))
}
