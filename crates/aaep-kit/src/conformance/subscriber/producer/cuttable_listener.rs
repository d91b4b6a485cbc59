//! A listener whose connections can all be cut at once, as when a process is killed. It does not depend on the
//! protocol.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::limits;

/// A TCP listener. Whenever `cuts` changes, every open connection fails.
pub(super) struct CuttableListener {
    listener: TcpListener,
    cuts: watch::Receiver<u64>,
}

impl CuttableListener {
    pub(super) async fn open(
        address: SocketAddr,
        cuts: watch::Receiver<u64>,
    ) -> io::Result<CuttableListener> {
        Ok(CuttableListener { listener: TcpListener::bind(address).await?, cuts })
    }

    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl axum::serve::Listener for CuttableListener {
    type Io = CuttableStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (CuttableStream, SocketAddr) {
        loop {
            match self.listener.accept().await {
                Ok((stream, from)) => {
                    // Without it small events wait for acknowledgements of larger ones; the test works either way.
                    stream.set_nodelay(true).ok();
                    let mut cuts = self.cuts.clone();
                    cuts.borrow_and_update();
                    let cut = Box::pin(async move {
                        cuts.changed().await.ok();
                    });
                    return (CuttableStream { stream, cut, is_cut: false }, from);
                }
                // tidy: what keeps a connection from being accepted goes by
                Err(_) => tokio::time::sleep(limits::SYNTHETIC_ACCEPT_PAUSE).await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection that can be cut.
pub(super) struct CuttableStream {
    stream: TcpStream,
    cut: Pin<Box<dyn Future<Output = ()> + Send>>,
    is_cut: bool,
}

impl CuttableStream {
    fn whole(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        self.is_cut = self.is_cut || self.cut.as_mut().poll(context).is_ready();
        if self.is_cut { Err(io::ErrorKind::ConnectionReset.into()) } else { Ok(()) }
    }
}

impl AsyncRead for CuttableStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.whole(context)?;
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for CuttableStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.whole(context)?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
