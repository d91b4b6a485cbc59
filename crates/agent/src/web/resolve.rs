//! Resolves host names once per request, and pins connections to the checked addresses.
//!
//! Start at [`NameResolver`] and [`PinnedAddresses`]. The module must not depend on which addresses may be reached.

use std::io;
use std::net::SocketAddr;

use futures_util::future::BoxFuture;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// Resolves host names.
pub(crate) trait NameResolver: Send + Sync + 'static {
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>>;
}

/// The resolver of the operating system.
pub(crate) struct SystemResolver;

impl NameResolver for SystemResolver {
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>> {
        Box::pin(async move { Ok(tokio::net::lookup_host((host, port)).await?.collect()) })
    }
}

/// Resolves every name to the checked addresses, so that none is resolved a second time.
pub(crate) struct PinnedAddresses(pub(crate) Vec<SocketAddr>);

impl Resolve for PinnedAddresses {
    fn resolve(&self, _name: Name) -> Resolving {
        let addresses: Addrs = Box::new(self.0.clone().into_iter());
        Box::pin(std::future::ready(Ok(addresses)))
    }
}
