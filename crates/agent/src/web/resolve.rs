//! Names of hosts and the addresses behind them: resolved once for each request, and a connection goes nowhere else.
//!
//! Look at [`NameResolver`] and [`PinnedAddresses`]. It must not know which addresses may be reached.

use std::io;
use std::net::SocketAddr;

use futures_util::future::BoxFuture;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// Resolves names.
pub(crate) trait NameResolver: Send + Sync + 'static {
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>>;
}

/// The operating system's.
pub(crate) struct SystemResolver;

impl NameResolver for SystemResolver {
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>> {
        Box::pin(async move { Ok(tokio::net::lookup_host((host, port)).await?.collect()) })
    }
}

/// Answers every name with the addresses that were checked, so that none is resolved a second time.
pub(crate) struct PinnedAddresses(pub(crate) Vec<SocketAddr>);

impl Resolve for PinnedAddresses {
    fn resolve(&self, _name: Name) -> Resolving {
        let addresses: Addrs = Box::new(self.0.clone().into_iter());
        Box::pin(std::future::ready(Ok(addresses)))
    }
}
