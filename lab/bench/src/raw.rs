//! Limits of the machine, measured in the same minute: memory, sockets, disk.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use anyhow::{Result, anyhow};

use crate::clock::{now_ns, seconds_since};
use crate::yardstick::segment::zero_filled;

/// Copies a buffer larger than the caches; bytes per second.
pub(crate) fn memcpy(seconds: f64) -> f64 {
    let from = vec![1u8; 64 << 20];
    let mut to = vec![0u8; 64 << 20];
    let (start, mut bytes) = (now_ns(), 0u64);
    while seconds_since(start) < seconds {
        to.copy_from_slice(std::hint::black_box(&from));
        std::hint::black_box(&mut to);
        bytes += from.len() as u64;
    }
    bytes as f64 / seconds_since(start)
}

/// One connection over loopback, writes of `piece` bytes: bytes a second, and writes a second.
pub(crate) fn loopback(piece: usize, seconds: f64) -> Result<(f64, f64)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    std::thread::scope(|scope| {
        let reader = scope.spawn(move || -> Result<u64> {
            let (mut stream, _) = listener.accept()?;
            let mut buffer = vec![0; 256 << 10];
            let mut bytes = 0;
            loop {
                match stream.read(&mut buffer)? {
                    0 => return Ok(bytes),
                    got => bytes += got as u64,
                }
            }
        });
        let mut stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let buffer = vec![1; piece];
        let (start, mut writes) = (now_ns(), 0u64);
        while seconds_since(start) < seconds {
            stream.write_all(&buffer)?;
            writes += 1;
        }
        drop(stream);
        let bytes = reader.join().map_err(|_| anyhow!("the reader died"))??;
        let took = seconds_since(start);
        Ok((bytes as f64 / took, writes as f64 / took))
    })
}

/// Writes of `piece` bytes with one sync each into allocated blocks, per second.
pub(crate) fn synced_writes(folder: &Path, piece: usize, seconds: f64) -> Result<f64> {
    const FILE_BYTES: u64 = 64 << 20;
    let file = zero_filled(&folder.join("raw"), FILE_BYTES)?;
    let buffer = vec![1; piece];
    let (start, mut writes, mut at) = (now_ns(), 0u64, 0);
    while seconds_since(start) < seconds {
        if at + piece as u64 > FILE_BYTES {
            at = 0;
        }
        file.write_all_at(&buffer, at)?;
        file.sync_data()?;
        at += piece as u64;
        writes += 1;
    }
    Ok(writes as f64 / seconds_since(start))
}
