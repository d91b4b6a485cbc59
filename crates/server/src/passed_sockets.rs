//! Sockets that the service manager opened and passed to this process, as systemd does: `LISTEN_FDS` and `LISTEN_PID`.
//!
//! They outlive the server, so clients that connect during a restart wait instead of being refused. This module must
//! not know what is served. Start at [`PassedSockets::take`].

use std::net::TcpListener;
use std::os::fd::{BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{AddressFamily, SocketType, getsockname, sockopt};

use crate::{StartError, limits};

/// The first descriptor that is passed.
const FIRST: RawFd = 3;

/// The sockets, one of each kind at most. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct PassedSockets {
    tcp: Option<Arc<TcpListener>>,
    unix: Option<Arc<UnixListener>>,
}

impl PassedSockets {
    /// Takes the sockets of this process. The second call in a process finds none.
    pub(crate) fn take() -> Result<Self, StartError> {
        static TAKEN: AtomicBool = AtomicBool::new(false);
        let number = |name: &str| std::env::var(name).ok()?.parse::<u32>().ok();
        let is_own = number("LISTEN_PID") == Some(std::process::id());
        let count = number("LISTEN_FDS").filter(|_| is_own).unwrap_or(0);
        let mut passed = PassedSockets::default();
        if count == 0 || TAKEN.swap(true, Ordering::Relaxed) {
            return Ok(passed);
        }
        if count > limits::PASSED_SOCKETS_MAX {
            let most = limits::PASSED_SOCKETS_MAX;
            return Err(StartError::usage(format!(
                "the service manager passed {count} sockets; the limit is {most}"
            )));
        }
        for descriptor in (FIRST..).take(count as usize) {
            passed.add(descriptor).map_err(|why| {
                StartError::usage(format!("descriptor {descriptor} of the service manager: {why}"))
            })?;
        }
        Ok(passed)
    }

    #[expect(unsafe_code, reason = "a descriptor that another program passed has no owner yet")]
    fn add(&mut self, descriptor: RawFd) -> Result<(), String> {
        // SAFETY: it is used in this call only, and the call fails if it is not open.
        let borrowed = unsafe { BorrowedFd::borrow_raw(descriptor) };
        // Commands of runs must not inherit it.
        fcntl_setfd(borrowed, FdFlags::CLOEXEC).map_err(|why| format!("it cannot be used: {why}"))?;
        // SAFETY: it is open, the service manager passed it to this process, and only this code, once, takes it.
        let owned = unsafe { OwnedFd::from_raw_fd(descriptor) };
        self.add_owned(owned)
    }

    fn add_owned(&mut self, socket: OwnedFd) -> Result<(), String> {
        let address = getsockname(&socket).map_err(|why| format!("it is not a socket: {why}"))?;
        let is_stream = sockopt::socket_type(&socket) == Ok(SocketType::STREAM);
        if !is_stream || sockopt::socket_acceptconn(&socket) != Ok(true) {
            return Err("it accepts no connections; use ListenStream= and Accept=no".to_owned());
        }
        let more = |kind| Err(format!("it is a second {kind}; pass one address and one socket file at most"));
        match address.address_family() {
            AddressFamily::INET | AddressFamily::INET6 if self.tcp.is_some() => more("address"),
            AddressFamily::INET | AddressFamily::INET6 => {
                self.tcp = Some(Arc::new(socket.into()));
                Ok(())
            }
            AddressFamily::UNIX if self.unix.is_some() => more("socket file"),
            AddressFamily::UNIX => {
                self.unix = Some(Arc::new(socket.into()));
                Ok(())
            }
            _ => Err("it is neither a TCP nor a Unix socket".to_owned()),
        }
    }

    pub(crate) fn tcp(&self) -> Option<&TcpListener> {
        self.tcp.as_deref()
    }

    pub(crate) fn unix(&self) -> Option<&UnixListener> {
        self.unix.as_deref()
    }

    /// The path of the passed Unix socket.
    pub(crate) fn path(&self) -> Option<PathBuf> {
        let address = self.unix()?.local_addr().ok()?;
        Some(address.as_pathname().map_or_else(|| PathBuf::from("(unnamed)"), PathBuf::from))
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn one_listener_of_each_kind_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let mut passed = PassedSockets::default();
        let tcp = || OwnedFd::from(TcpListener::bind("127.0.0.1:0").unwrap());
        passed.add_owned(UnixListener::bind(&path).unwrap().into()).unwrap();
        passed.add_owned(tcp()).unwrap();
        assert_eq!(passed.path(), Some(path));
        assert!(passed.tcp().unwrap().local_addr().unwrap().ip().is_loopback());
        assert!(passed.add_owned(tcp()).unwrap_err().contains("a second address"));
        let other = UnixListener::bind(folder.path().join("t")).unwrap();
        assert!(passed.add_owned(other.into()).unwrap_err().contains("a second socket file"));
    }

    #[test]
    fn what_accepts_no_connections_is_refused() {
        let mut passed = PassedSockets::default();
        let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(passed.add_owned(datagrams.into()).unwrap_err().contains("ListenStream="));
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(passed.add_owned(one.into()).unwrap_err().contains("Accept=no"));
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(passed.add_owned(file.into()).unwrap_err().contains("not a socket"));
    }
}
