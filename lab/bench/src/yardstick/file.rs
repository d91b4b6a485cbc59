//! Replay at its simplest: a file with the frames of a run, read and written in large pieces.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;

use anyhow::Result;

/// Bytes read and written at a time.
const PIECE_BYTES: usize = 220 << 10;

pub(crate) fn serve(path: &str) -> Result<()> {
    let file = File::open(path)?;
    let listener = super::listen()?;
    let mut piece = vec![0; PIECE_BYTES];
    for stream in listener.incoming() {
        let mut stream = stream?;
        stream.set_nodelay(true)?;
        super::request(&stream)?;
        let sent = (|| {
            stream.write_all(super::HEAD)?;
            let mut at = 0;
            loop {
                let got = file.read_at(&mut piece, at)?;
                if got == 0 {
                    return Ok(());
                }
                stream.write_all(&piece[..got])?;
                at += got as u64;
            }
        })();
        if let Err::<(), std::io::Error>(error) = sent {
            // A reader disconnects when it has read enough.
            if !matches!(error.kind(), std::io::ErrorKind::BrokenPipe | std::io::ErrorKind::ConnectionReset) {
                return Err(error.into());
            }
        }
    }
    Ok(())
}
