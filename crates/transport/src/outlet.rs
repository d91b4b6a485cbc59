//! Writes an event stream to a socket, as the chunked body of an HTTP response. See [`write()`].
//!
//! Meanwhile it notices when the peer leaves. Bytes that the peer sends early are kept for the next request of the
//! connection. It must never know the content of the pieces.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::handover::{Piece, Pieces};
use crate::{StallGuard, limits};

/// How a stream ended.
#[derive(Debug)]
pub enum End {
    /// All was written, the last chunk included: the connection may go on.
    Whole,
    /// The peer has left.
    Left,
    /// A write failed. A peer that stalled fails with [`io::ErrorKind::TimedOut`].
    Failed(io::Error),
}

/// What a stream came to.
#[derive(Debug)]
pub struct Outcome {
    pub end: End,
    /// Where the reader goes on when it comes again, as far as whole pieces were written.
    pub cursor: Option<u64>,
}

/// Bytes of the line before a chunk: a length in hexadecimal and a line end.
const SIZE_LINE_BYTES: usize = 2 * size_of::<usize>() + 2;

/// Writes `head`, then the pieces as chunks. What the peer sends meanwhile is read again afterwards, up to a
/// bound.
pub async fn write<IO: AsyncRead + AsyncWrite + Unpin>(
    io: &mut StallGuard<IO>,
    head: Bytes,
    pieces: Pieces,
) -> Outcome {
    let (out, sent) = (Out::plain(head), BytesMut::new());
    let mut outlet = Outlet { pieces, out, next: None, over: false, cursor: None, sent };
    let end = poll_fn(|cx| outlet.poll(io, cx)).await;
    io.give_back(&outlet.sent);
    Outcome { end, cursor: outlet.cursor }
}

struct Outlet {
    pieces: Pieces,
    /// What the peer sent meanwhile.
    sent: BytesMut,
    /// What is being written.
    out: Out,
    /// The cursor when that is written.
    next: Option<u64>,
    over: bool,
    cursor: Option<u64>,
}

impl Outlet {
    fn poll<IO: AsyncRead + AsyncWrite + Unpin>(
        &mut self,
        io: &mut StallGuard<IO>,
        cx: &mut Context<'_>,
    ) -> Poll<End> {
        loop {
            while !self.out.is_empty() {
                match ready!(self.out.poll_write(io, cx)) {
                    Ok(()) => {}
                    Err(error) => return Poll::Ready(End::Failed(error)),
                }
            }
            self.cursor = self.next.take().or(self.cursor);
            if self.over {
                return match ready!(Pin::new(&mut *io).poll_flush(cx)) {
                    Ok(()) => Poll::Ready(End::Whole),
                    Err(error) => Poll::Ready(End::Failed(error)),
                };
            }
            match self.pieces.as_mut().poll_next(cx) {
                Poll::Ready(Some(Piece { bytes, cursor })) => {
                    self.next = cursor;
                    if !bytes.is_empty() {
                        self.out = Out::chunk(bytes);
                    }
                }
                Poll::Ready(None) => {
                    self.over = true;
                    self.out = Out::plain(Bytes::from_static(b"0\r\n\r\n"));
                }
                Poll::Pending => {
                    self.out = Out::plain(Bytes::new());
                    // Encrypted bytes may wait in the connection.
                    if let Poll::Ready(Err(error)) = Pin::new(&mut *io).poll_flush(cx) {
                        return Poll::Ready(End::Failed(error));
                    }
                    return listen(io, &mut self.sent, cx);
                }
            }
        }
    }
}

/// Notices when the peer leaves.
fn listen<IO: AsyncRead + Unpin>(
    io: &mut StallGuard<IO>,
    sent: &mut BytesMut,
    cx: &mut Context<'_>,
) -> Poll<End> {
    while sent.len() < limits::SENT_BEHIND_BYTES_MAX {
        let mut room = [0; 512];
        let mut into = ReadBuf::new(&mut room);
        match ready!(Pin::new(&mut *io).poll_read(cx, &mut into)) {
            Ok(()) if into.filled().is_empty() => return Poll::Ready(End::Left),
            Ok(()) => sent.extend_from_slice(into.filled()),
            Err(error) => return Poll::Ready(End::Failed(error)),
        }
    }
    Poll::Pending
}

/// Bytes on their way out: perhaps the line before a chunk, the bytes, and perhaps the line end after it.
struct Out {
    line: [u8; SIZE_LINE_BYTES],
    line_from: usize,
    bytes: Bytes,
    tail: &'static [u8],
    /// How much of all three is written.
    at: usize,
}

impl Out {
    fn plain(bytes: Bytes) -> Self {
        Out { line: [0; SIZE_LINE_BYTES], line_from: SIZE_LINE_BYTES, bytes, tail: b"", at: 0 }
    }

    fn chunk(bytes: Bytes) -> Self {
        let mut out = Out { tail: b"\r\n", ..Out::plain(bytes) };
        out.put(b'\n');
        out.put(b'\r');
        let mut left = out.bytes.len();
        loop {
            out.put(b"0123456789abcdef"[left % 16]);
            left /= 16;
            if left == 0 {
                return out;
            }
        }
    }

    /// The line is made from its end.
    fn put(&mut self, byte: u8) {
        self.line_from -= 1;
        self.line[self.line_from] = byte;
    }

    fn len(&self) -> usize {
        SIZE_LINE_BYTES - self.line_from + self.bytes.len() + self.tail.len()
    }

    fn is_empty(&self) -> bool {
        self.at == self.len()
    }

    fn poll_write<IO: AsyncWrite + Unpin>(
        &mut self,
        io: &mut IO,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let mut skip = self.at;
        let pieces = [&self.line[self.line_from..], &self.bytes[..], self.tail].map(|piece| {
            let (_, left) = piece.split_at(skip.min(piece.len()));
            skip -= piece.len() - left.len();
            IoSlice::new(left)
        });
        let first = pieces.iter().take_while(|piece| piece.is_empty()).count();
        match ready!(Pin::new(io).poll_write_vectored(cx, &pieces[first..])) {
            Ok(0) => Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            Ok(written) => {
                self.at += written;
                Poll::Ready(Ok(()))
            }
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::{StreamExt as _, stream};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    fn piece(bytes: impl Into<Bytes>, cursor: Option<u64>) -> Piece {
        Piece { bytes: bytes.into(), cursor }
    }

    #[tokio::test]
    async fn pieces_are_chunks_however_little_the_socket_takes() {
        for room in [1, 2, 3, 7, 64, 4096] {
            let (near, mut far) = tokio::io::duplex(room);
            let mut near = StallGuard::new(near, LIMIT);
            let long = "x".repeat(300);
            let pieces =
                [piece("one", Some(1)), piece("", None), piece(long.clone(), Some(2)), piece("!", None)];
            let head = Bytes::from_static(b"HTTP/1.1 200 OK\r\n\r\n");
            let reading = async {
                let mut got = vec![0; 19 + 3 + 5 + 300 + 7 + 1 + 5 + 5];
                far.read_exact(&mut got).await.expect("all of it comes");
                got
            };
            // They come with pauses in between.
            let pieces = stream::iter(pieces).then(|piece| async {
                tokio::task::yield_now().await;
                piece
            });
            let writing = write(&mut near, head, Box::pin(pieces));
            let (outcome, got) = tokio::join!(writing, reading);
            let expected = format!("HTTP/1.1 200 OK\r\n\r\n3\r\none\r\n12c\r\n{long}\r\n1\r\n!\r\n0\r\n\r\n");
            assert_eq!(String::from_utf8_lossy(&got), expected, "{room}");
            assert!(matches!(outcome, Outcome { end: End::Whole, cursor: Some(2) }), "{outcome:?}");
        }
    }

    #[tokio::test]
    async fn a_peer_that_leaves_is_noticed_and_what_it_said_is_kept() {
        let (near, mut far) = tokio::io::duplex(64);
        let mut near = StallGuard::new(near, LIMIT);
        far.write_all(b"GET /next").await.expect("there is room");
        far.shutdown().await.expect("it is open");
        let outcome = write(&mut near, Bytes::new(), Box::pin(stream::pending())).await;
        assert!(matches!(outcome, Outcome { end: End::Left, cursor: None }), "{outcome:?}");
        let mut said = [0; 9];
        near.read_exact(&mut said).await.expect("it was kept");
        assert_eq!(&said, b"GET /next");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_sent_behind_is_bounded() {
        let (near, mut far) = tokio::io::duplex(4096);
        let mut near = StallGuard::new(near, LIMIT);
        let mut taken = 0;
        let flood = async {
            loop {
                taken += far.write(&[b'x'; 512]).await.expect("it is open");
            }
        };
        // With time paused this passes when neither side can go on.
        // tidy: time is paused and what is tested.
        let rest = tokio::time::sleep(Duration::from_secs(1));
        tokio::select! {
            outcome = write(&mut near, Bytes::new(), Box::pin(stream::pending())) => {
                panic!("{outcome:?}")
            }
            () = flood => {}
            () = rest => {}
        }
        assert_eq!(taken, limits::SENT_BEHIND_BYTES_MAX + 4096, "the rest stays in the pipe");
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_stalls_is_cut_and_its_cursor_is_known() {
        let (near, far) = tokio::io::duplex(16);
        let mut near = StallGuard::new(near, LIMIT);
        let pieces = [piece("one", Some(1)), piece("x".repeat(99), Some(2))];
        let outcome = write(&mut near, Bytes::new(), Box::pin(stream::iter(pieces))).await;
        let Outcome { end: End::Failed(error), cursor: Some(1) } = outcome else { panic!("{outcome:?}") };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(far);
    }
}
