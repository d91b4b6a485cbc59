//! Packs records into one value and unpacks them: the bytes joined, and an index of their streams.
//!
//! Records that are all JSON objects are joined into a JSON array, so that any SQLite tool can take it
//! apart; anything else is concatenated. Only the index has the bounds of each record, so reading never depends on the
//! content of a record. This file must not know tables.

use std::ops::Range;

use recount_log::Sum;

/// Several records as one value.
#[derive(Debug, Default)]
pub(crate) struct PackedRecords {
    pub(crate) bytes: Vec<u8>,
    /// Whether the bytes are the text of a JSON array, as far as their edges show.
    pub(crate) text: bool,
}

/// Replaces a removed record in the array; the others keep their indexes.
const REMOVED: &[u8] = b"null";

/// The stream number of a removed record. Real numbers begin at 1.
pub const NO_STREAM: i64 = 0;

/// Where one record of a group is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// The stream, or [`NO_STREAM`] for a removed record.
    pub stream: i64,
    pub sequence: u64,
    pub range: Range<usize>,
}

impl Slot {
    pub fn is_removed(&self) -> bool {
        self.stream == NO_STREAM
    }
}

/// Bytes of the sum at the beginning of a value of changes; and of both sums of a group's index together.
const SUM_BYTES: usize = 16;

/// Bytes of one of the two sums of a group's index.
const PART_BYTES: usize = SUM_BYTES / 2;

/// Whether a record may become an element of a JSON array.
fn is_text(record: &[u8]) -> bool {
    record.first() == Some(&b'{') && record.last() == Some(&b'}') && str::from_utf8(record).is_ok()
}

/// Joins records; `None` is a removed one.
pub(crate) fn join<'r>(records: impl Iterator<Item = Option<&'r [u8]>> + Clone) -> PackedRecords {
    let text = records.clone().flatten().all(is_text);
    let capacity = records.clone().map(|record| record.map_or(REMOVED.len(), <[u8]>::len) + 1).sum::<usize>();
    let mut bytes = Vec::with_capacity(capacity + 1);
    if !text {
        records.flatten().for_each(|record| bytes.extend_from_slice(record));
        return PackedRecords { bytes, text };
    }
    bytes.push(b'[');
    for (place, record) in records.enumerate() {
        if place > 0 {
            bytes.push(b',');
        }
        bytes.extend_from_slice(record.unwrap_or(REMOVED));
    }
    bytes.push(b']');
    PackedRecords { bytes, text }
}

/// Where the records are in the joined bytes, by their lengths in order; `None` when they do not add up.
fn ranges(lengths: &[usize], text: bool, joined: &[u8]) -> Option<Vec<Range<usize>>> {
    let seam = usize::from(text);
    let mut ranges = Vec::with_capacity(lengths.len());
    let mut begin = seam;
    for length in lengths {
        let end = begin.checked_add(*length)?;
        ranges.push(begin..end);
        begin = end.checked_add(seam)?;
    }
    // The last seam is the closing bracket.
    let end = if lengths.is_empty() && text { 2 } else { begin };
    (end == joined.len()).then_some(ranges)
}

// ---- groups: records of many streams in the order they were committed ----

/// The index of a group: a sum over its bytes, one over the index itself, then span by span the stream, the first
/// sequence, how many, and the length of each. With two sums the index still names the streams of damaged records.
/// `damaged`: the bytes were damaged before, so the first sum is made wrong to keep the damage detectable.
pub(crate) fn group_index<'s>(
    first_position: u64,
    joined: &PackedRecords,
    damaged: bool,
    mut slots: impl Iterator<Item = (i64, u64, usize)> + Clone + 's,
) -> Vec<u8> {
    let mut index = vec![0; SUM_BYTES];
    let content = content_sum(&joined.bytes).to_bytes();
    index[..PART_BYTES].copy_from_slice(&content.map(|byte| if damaged { !byte } else { byte }));
    while let Some((stream, first, length)) = slots.next() {
        let follows = |(place, (other, sequence, _)): &(u64, (i64, u64, usize))| {
            *other == stream && (stream == NO_STREAM || *sequence == first.wrapping_add(1 + place))
        };
        let more = (0..).zip(slots.clone()).take_while(follows).count();
        put(&mut index, stream.unsigned_abs());
        if stream != NO_STREAM {
            put(&mut index, first);
        }
        put(&mut index, 1 + more as u64);
        if stream != NO_STREAM {
            put(&mut index, length as u64);
        }
        for (_, _, length) in slots.by_ref().take(more) {
            if stream != NO_STREAM {
                put(&mut index, length as u64);
            }
        }
    }
    let own = index_sum(first_position, joined.text, &index);
    index[PART_BYTES..SUM_BYTES].copy_from_slice(&own.to_bytes());
    index
}

/// The slots of a group's records, in order of position; `None` when the index is invalid or lists another number of
/// records.
pub fn group_slots(index: &[u8], text: bool, joined: &[u8], records: u64) -> Option<Vec<Slot>> {
    let mut rest = index.get(SUM_BYTES..)?;
    let mut owners = Vec::new();
    let mut lengths = Vec::new();
    while !rest.is_empty() {
        let stream = i64::try_from(take(&mut rest)?).ok()?;
        let first = if stream == NO_STREAM { 0 } else { take(&mut rest)? };
        let count = take(&mut rest)?;
        for more in 0..count {
            let removed = if text { REMOVED.len() } else { 0 };
            if owners.len() as u64 >= records {
                return None;
            }
            let length =
                if stream == NO_STREAM { removed } else { usize::try_from(take(&mut rest)?).ok()? };
            owners.push((stream, if stream == NO_STREAM { 0 } else { first.checked_add(more)? }));
            lengths.push(length);
        }
    }
    let ranges = ranges(&lengths, text, joined).filter(|ranges| ranges.len() as u64 == records)?;
    let slots = owners.into_iter().zip(ranges);
    Some(slots.map(|((stream, sequence), range)| Slot { stream, sequence, range }).collect())
}

/// Whether a group's index belongs to the group at this position. A group from before schema 5 has one sum, over its
/// bytes alone; if that fits, both count as sound.
pub fn index_is_sound(first_position: u64, text: bool, index: &[u8], joined: &[u8]) -> bool {
    let own = index_sum(first_position, text, index).to_bytes();
    index.get(PART_BYTES..SUM_BYTES) == Some(&own[..]) || has_old_sum(index, joined)
}

/// The streams named by the beginning of a group's index, each once; a truncated one is omitted.
pub(crate) fn group_streams(index: &[u8]) -> Vec<i64> {
    let mut rest = index.get(SUM_BYTES..).unwrap_or_default();
    let mut streams = Vec::new();
    while let Some(stream) = take(&mut rest).and_then(|stream| i64::try_from(stream).ok()) {
        if stream != NO_STREAM {
            streams.push(stream);
            let Some(count) = take(&mut rest).and_then(|_| take(&mut rest)) else { break };
            if (0..count).any(|_| take(&mut rest).is_none()) {
                break;
            }
        } else if take(&mut rest).is_none() {
            break;
        }
    }
    streams.sort_unstable();
    streams.dedup();
    streams
}

/// Whether a group's bytes fit its index.
pub fn group_is_sound(index: &[u8], joined: &[u8]) -> bool {
    index.get(..PART_BYTES) == Some(&content_sum(joined).to_bytes()[..]) || has_old_sum(index, joined)
}

fn content_sum(joined: &[u8]) -> Sum {
    Sum::of("groups").bytes(joined)
}

/// The sum over the sum of the bytes and everything after both sums.
fn index_sum(first_position: u64, text: bool, index: &[u8]) -> Sum {
    let (content, spans) =
        (&index[..PART_BYTES.min(index.len())], index.get(SUM_BYTES..).unwrap_or_default());
    Sum::of("groups").number(first_position).number(text.into()).bytes(content).bytes(spans)
}

fn has_old_sum(index: &[u8], joined: &[u8]) -> bool {
    index.get(..SUM_BYTES) == Some(&sum(joined)[..])
}

fn sum(bytes: &[u8]) -> [u8; SUM_BYTES] {
    let mut sum = [0; SUM_BYTES];
    sum.copy_from_slice(&blake3::hash(bytes).as_bytes()[..SUM_BYTES]);
    sum
}

// ---- chunks: records of one stream, one after the other ----

/// The index of a chunk: the length of each record.
pub(crate) fn chunk_index(lengths: impl Iterator<Item = usize>) -> Vec<u8> {
    let mut index = Vec::new();
    lengths.for_each(|length| put(&mut index, length as u64));
    index
}

/// Where the records of a chunk are in its joined bytes; `None` when the index does not fit them.
pub fn chunk_ranges(index: &[u8], text: bool, joined: &[u8]) -> Option<Vec<Range<usize>>> {
    let mut rest = index;
    let mut lengths = Vec::new();
    while !rest.is_empty() {
        lengths.push(usize::try_from(take(&mut rest)?).ok()?);
    }
    ranges(&lengths, text, joined)
}

/// Positions as distances from the first, four bytes each, most significant first: SQL can read them.
pub(crate) fn positions(first: u64, positions: impl Iterator<Item = u64>) -> Vec<u8> {
    let distance =
        |position: u64| u32::try_from(position - first).expect("a chunk ends before it is this long");
    positions.flat_map(|position| distance(position).to_be_bytes()).collect()
}

/// The position of the record with this number in its chunk.
pub fn position(first: u64, packed: &[u8], place: usize) -> Option<u64> {
    let bytes = packed.get(place.checked_mul(4)?..)?.first_chunk::<4>()?;
    first.checked_add(u32::from_be_bytes(*bytes).into())
}

// ---- the feed: which record is at which position ----

/// Records of one stream at positions without a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeedSpan {
    /// The stream, or [`NO_STREAM`] for a removed record.
    pub stream: i64,
    pub first_sequence: u64,
    pub count: u64,
}

pub(crate) fn feed_spans(spans: &[FeedSpan]) -> Vec<u8> {
    let mut packed = Vec::new();
    for span in spans {
        put(&mut packed, span.stream.unsigned_abs());
        put(&mut packed, span.first_sequence);
        put(&mut packed, span.count);
    }
    packed
}

/// Unpacks one row of the feed.
pub fn spans_of_feed(mut packed: &[u8]) -> Option<Vec<FeedSpan>> {
    let mut spans = Vec::new();
    while !packed.is_empty() {
        let stream = i64::try_from(take(&mut packed)?).ok()?;
        spans.push(FeedSpan { stream, first_sequence: take(&mut packed)?, count: take(&mut packed)? });
    }
    Some(spans)
}

// ---- changes of rows ----

/// The state of a row from one commit on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change<'c> {
    pub space: &'c str,
    pub key: &'c str,
    /// `None` for a deleted row.
    pub row: Option<(u64, &'c [u8])>,
}

/// Packs the changes of a commit: a sum, the number of the commit, the first one still needed, then for each change the
/// space, the key, the version (0 for a deleted row) and the value.
pub(crate) fn changes<'c>(number: u64, first_needed: u64, all: impl Iterator<Item = Change<'c>>) -> Vec<u8> {
    let mut packed = vec![0; SUM_BYTES];
    put(&mut packed, number);
    put(&mut packed, first_needed);
    for change in all {
        put_bytes(&mut packed, change.space.as_bytes());
        put_bytes(&mut packed, change.key.as_bytes());
        put(&mut packed, change.row.map_or(0, |(version, _)| version));
        if let Some((_, value)) = change.row {
            put_bytes(&mut packed, value);
        }
    }
    let sum = sum(&packed[SUM_BYTES..]);
    packed[..SUM_BYTES].copy_from_slice(&sum);
    packed
}

/// Unpacks changes; `None` when they are altered or of another commit.
pub fn changes_of(number: u64, first_needed: u64, packed: &[u8]) -> Option<Vec<Change<'_>>> {
    let mut rest = packed.get(SUM_BYTES..)?;
    let is_sound = packed.get(..SUM_BYTES) == Some(&sum(rest)[..]);
    if !is_sound || take(&mut rest)? != number || take(&mut rest)? != first_needed {
        return None;
    }
    let mut changes = Vec::new();
    while !rest.is_empty() {
        let space = str::from_utf8(take_bytes(&mut rest)?).ok()?;
        let key = str::from_utf8(take_bytes(&mut rest)?).ok()?;
        let version = take(&mut rest)?;
        let row = if version == 0 { None } else { Some((version, take_bytes(&mut rest)?)) };
        changes.push(Change { space, key, row });
    }
    Some(changes)
}

fn put_bytes(packed: &mut Vec<u8>, bytes: &[u8]) {
    put(packed, bytes.len() as u64);
    packed.extend_from_slice(bytes);
}

fn take_bytes<'p>(packed: &mut &'p [u8]) -> Option<&'p [u8]> {
    let length = usize::try_from(take(packed)?).ok()?;
    let (bytes, rest) = packed.split_at_checked(length)?;
    *packed = rest;
    Some(bytes)
}

// ---- numbers: seven bits per byte, least significant first; the eighth bit means that more follow ----

fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let part = u64::from(byte & 0x7f);
        if shift == 63 && part > 1 {
            return None;
        }
        number |= part << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for number in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut bytes = Vec::new();
            put(&mut bytes, number);
            let mut rest = &bytes[..];
            assert_eq!((take(&mut rest), rest), (Some(number), &b""[..]));
            assert_eq!(take(&mut &bytes[..bytes.len() - 1]), None);
        }
        assert_eq!(take(&mut &[0xff; 10][..]), None);
    }

    type Owned<'r> = Option<(i64, u64, &'r [u8])>;

    fn packed(records: &[Owned<'_>]) -> (PackedRecords, Vec<u8>) {
        let joined = join(records.iter().map(|record| record.map(|(_, _, bytes)| bytes)));
        let slots =
            records.iter().map(|record| record.map_or((NO_STREAM, 0, 0), |(s, n, b)| (s, n, b.len())));
        let index = group_index(1, &joined, false, slots);
        (joined, index)
    }

    #[test]
    fn groups_come_back_as_text_or_as_bytes() {
        let shapes: [(&[Owned<'_>], &[u8]); 6] = [
            (&[], b"[]"),
            (&[Some((1, 5, b"{}"))], b"[{}]"),
            (&[Some((1, 5, b"{\"a\":1}")), None, None, Some((1, 6, b"{}"))], b"[{\"a\":1},null,null,{}]"),
            (&[Some((1, 5, b"{}")), Some((9, 0, b"\xff")), None, Some((1, 7, b""))], b"{}\xff"),
            (&[None], b"[null]"),
            (&[Some((1, 0, b""))], b""),
        ];
        for (records, expected) in shapes {
            let (joined, index) = packed(records);
            assert_eq!(joined.bytes, expected);
            assert_eq!(joined.text, expected.first() == Some(&b'['));
            let count = records.len() as u64;
            let slots = group_slots(&index, joined.text, &joined.bytes, count).unwrap();
            let back: Vec<_> = slots
                .iter()
                .map(|s| (!s.is_removed()).then(|| (s.stream, s.sequence, &joined.bytes[s.range.clone()])))
                .collect();
            assert_eq!(back, records);
            assert!(group_is_sound(&index, &joined.bytes));
            for cut in 0..index.len() {
                assert_eq!(group_slots(&index[..cut], joined.text, &joined.bytes, count), None);
            }
            assert_eq!(group_slots(&index, joined.text, &joined.bytes, count + 1), None);
        }
    }

    #[test]
    fn an_index_with_wrong_lengths_is_refused() {
        let (joined, mut index) = packed(&[Some((1, 5, b"{}")), Some((1, 6, b"{}"))]);
        *index.last_mut().unwrap() += 1;
        assert_eq!(group_slots(&index, true, &joined.bytes, 2), None);
        assert_eq!(chunk_ranges(&[2, 3], true, b"[{},{}]"), None);
        assert_eq!(chunk_ranges(&[2, 2], true, b"[{},{}]"), Some(vec![1..3, 4..6]));
        assert_eq!(chunk_ranges(&[2, 0, 1], false, b"abc"), Some(vec![0..2, 2..2, 2..3]));
    }

    #[test]
    fn changes_come_back_and_others_are_refused() {
        let all = [
            Change { space: "s", key: "\u{e9}", row: Some((300, b"\0\xff")) },
            Change { space: "s", key: "", row: None },
            Change { space: "", key: "k", row: Some((1, b"")) },
        ];
        let packed = changes(7, 5, all.into_iter());
        assert_eq!(changes_of(7, 5, &packed).as_deref(), Some(&all[..]));
        assert_eq!(changes_of(1, 1, &changes(1, 1, [].into_iter())), Some(Vec::new()));
        assert_eq!((changes_of(8, 5, &packed), changes_of(7, 6, &packed)), (None, None));
        for cut in 0..packed.len() {
            assert_eq!(changes_of(7, 5, &packed[..cut]), None);
        }
        for place in 0..packed.len() {
            let mut other = packed.clone();
            other[place] ^= 4;
            assert_eq!(changes_of(7, 5, &other), None);
        }
        // Wrong lengths under a right sum.
        for wrong in [&[7, 5, 5, b's'][..], &[7, 5, 0, 0], &[7, 5, 0, 0, 1, 9], &[7, 5, 1, 0xff, 0, 0], &[7]]
        {
            let packed = [&sum(wrong)[..], wrong].concat();
            assert_eq!(changes_of(7, 5, &packed), None, "{wrong:?}");
        }
    }

    #[test]
    fn positions_and_spans_come_back() {
        let packed = positions(7, [7, 9, 7 + u64::from(u32::MAX)].into_iter());
        let back: Vec<_> = (0..4).map(|place| position(7, &packed, place)).collect();
        assert_eq!(back, [Some(7), Some(9), Some(7 + u64::from(u32::MAX)), None]);
        let spans = [
            FeedSpan { stream: 3, first_sequence: 1000, count: 1 },
            FeedSpan { stream: NO_STREAM, first_sequence: 0, count: 200 },
        ];
        assert_eq!(spans_of_feed(&feed_spans(&spans)).as_deref(), Some(&spans[..]));
        assert_eq!(spans_of_feed(&[1, 1]), None);
    }
}
