//! Where a server listens: an address, a Unix socket, or both. See [`Bind`].

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::accepts::address;
use crate::limits::SOCKET_PATH_BYTES_MAX;

/// At least one of both, unless it is the default value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bind {
    pub address: Option<SocketAddr>,
    /// The file of the Unix socket.
    pub socket: Option<PathBuf>,
}

impl Bind {
    /// Reads an address, `unix:` with a path, or one of each with a comma between them.
    pub(super) fn parse(text: &str) -> Result<Bind, String> {
        let mut bind = Bind::default();
        for part in text.split(',').map(str::trim) {
            let is_second = match part.strip_prefix("unix:") {
                Some(path) => bind.socket.replace(socket_path(path)?).is_some(),
                None => {
                    let address = address(part).map_err(|accepted| {
                        format!("{accepted}, a socket such as unix:/run/recount/recount.sock, or both with a comma between them")
                    })?;
                    bind.address.replace(address).is_some()
                }
            };
            if is_second {
                return Err("one address and one socket at most".to_owned());
            }
        }
        Ok(bind)
    }

    /// What is passed by the service manager replaces what is configured, each for its kind.
    pub(crate) fn replaced_by(&self, passed: &Bind) -> Bind {
        Bind {
            address: passed.address.or(self.address),
            socket: passed.socket.clone().or_else(|| self.socket.clone()),
        }
    }

    /// Whether only programs of this machine can connect.
    pub(crate) fn is_local(&self) -> bool {
        self.address.is_none_or(|address| address.ip().to_canonical().is_loopback())
    }
}

fn socket_path(text: &str) -> Result<PathBuf, String> {
    let path = Path::new(text);
    if !cfg!(unix) {
        return Err("an address with a port; this operating system has no Unix sockets".to_owned());
    }
    if !path.is_absolute() || path.file_name().is_none() || text.contains(':') {
        return Err("unix: with the absolute path of a file, without a colon, such as \
                    unix:/run/recount/recount.sock"
            .to_owned());
    }
    if text.len() > SOCKET_PATH_BYTES_MAX {
        return Err(format!("a path of at most {SOCKET_PATH_BYTES_MAX} bytes after unix:"));
    }
    Ok(path.to_owned())
}
