//! The framing of events for the readers of a play: a length prefix, and padding after.

use bytes::{Bytes, BytesMut};
use recount_engine::Framing;

pub(super) struct Padded {
    pub(super) padding: usize,
}

impl Framing for Padded {
    fn frame(&self, cursor: u64, envelope: &[u8], out: &mut BytesMut) {
        for number in [cursor, envelope.len() as u64, self.padding as u64] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(envelope);
        out.resize(out.len() + self.padding, 0);
    }
}

/// The cursors and envelopes of one delivery.
pub(super) fn open(mut bytes: Bytes) -> Vec<(u64, Bytes)> {
    let number = |bytes: &mut Bytes| {
        let number = bytes.split_to(8);
        u64::from_le_bytes(number.as_ref().try_into().expect("eight bytes were taken"))
    };
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let cursor = number(&mut bytes);
        let (length, padding) = (number(&mut bytes) as usize, number(&mut bytes) as usize);
        found.push((cursor, bytes.split_to(length)));
        drop(bytes.split_to(padding));
    }
    found
}
