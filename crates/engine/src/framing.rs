//! How stored bytes become a frame on the wire, as somebody else decides.

use bytes::BytesMut;

/// Writes one envelope as a frame of a stream. Called once an event, at commit (or once a page, for
/// history); every reader of the stream then shares the result.
pub trait Framing: Send + Sync + 'static {
    fn frame(&self, cursor: u64, envelope: &[u8], out: &mut BytesMut);
}
