//! A minimal HTTP/1.1 client for load: one connection, one request at a time, blocking.
//!
//! It uses few resources, so that the client costs almost nothing compared with the server under test.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

/// How long a response may take before the measurement fails.
const PATIENCE: Duration = Duration::from_secs(120);

/// Maximum bytes of the head of a response.
const HEAD_BYTES_MAX: usize = 16 << 10;

pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
    request: Vec<u8>,
    address: SocketAddr,
}

/// The status and the body of a response.
pub(crate) struct HttpResponse {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

impl Connection {
    pub(crate) fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).with_context(|| format!("cannot reach {address}"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Connection { stream, buffer: Vec::new(), request: Vec::new(), address })
    }

    pub(crate) fn get(&mut self, path: &str) -> Result<HttpResponse> {
        write!(self.stream, "GET {path} HTTP/1.1\r\nhost: {}\r\n\r\n", self.address)?;
        self.read_response()
    }

    pub(crate) fn post(&mut self, path: &str, body: &[u8]) -> Result<HttpResponse> {
        self.request.clear();
        write!(
            self.request,
            "POST {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            self.address,
            body.len()
        )?;
        self.request.extend_from_slice(body);
        self.stream.write_all(&self.request)?;
        self.read_response()
    }

    fn read_response(&mut self) -> Result<HttpResponse> {
        let head_end = loop {
            if let Some(at) = memchr::memmem::find(&self.buffer, b"\r\n\r\n") {
                break at + 4;
            }
            ensure!(self.buffer.len() < HEAD_BYTES_MAX, "the head of an answer does not end");
            self.fill()?;
        };
        let head = std::str::from_utf8(&self.buffer[..head_end])?.to_ascii_lowercase();
        let status = head.get(9..12).context("an answer without a status")?.parse()?;
        let length: usize = match head.lines().find_map(|line| line.strip_prefix("content-length:")) {
            Some(length) => length.trim().parse()?,
            None => bail!("an answer without a length: {head}"),
        };
        while self.buffer.len() < head_end + length {
            self.fill()?;
        }
        let body = self.buffer[head_end..head_end + length].to_vec();
        self.buffer.drain(..head_end + length);
        Ok(HttpResponse { status, body })
    }

    fn fill(&mut self) -> Result<()> {
        let mut piece = [0; 16 << 10];
        let got = self.stream.read(&mut piece).context("waiting for an answer")?;
        ensure!(got > 0, "the server closed the connection");
        self.buffer.extend_from_slice(&piece[..got]);
        Ok(())
    }
}

/// The text of a page.
pub(crate) fn get(address: SocketAddr, path: &str) -> Result<String> {
    let read_response = Connection::open(address)?.get(path)?;
    ensure!(read_response.status == 200, "{path} was refused with {}", read_response.status);
    Ok(String::from_utf8(read_response.body)?)
}

/// Creates an external run and starts it. Returns its id.
pub(crate) fn create_run(connection: &mut Connection) -> Result<String> {
    let read_response = connection.post("/v1/runs", br#"{"kind":"external"}"#)?;
    let body = String::from_utf8_lossy(&read_response.body).into_owned();
    ensure!(read_response.status == 201, "a run was refused with {}: {body}", read_response.status);
    let at = body.find("run_").context("the answer names no run")?;
    let run = body.get(at..at + 30).context("the run's id is short")?.to_owned();
    append(connection, &run, &crate::scene::first_batch())?;
    Ok(run)
}

/// Appends a batch and checks that it was accepted.
pub(crate) fn append(connection: &mut Connection, run: &str, body: &[u8]) -> Result<()> {
    let read_response = connection.post(&format!("/v1/runs/{run}/events"), body)?;
    ensure!(
        (200..300).contains(&read_response.status),
        "a batch was refused with {}: {}",
        read_response.status,
        String::from_utf8_lossy(&read_response.body)
    );
    Ok(())
}
