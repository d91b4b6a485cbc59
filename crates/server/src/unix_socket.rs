//! The Unix socket that a server listens on: creates its file, identifies the users that connect, and removes the file.
//!
//! No client can connect before the file has its mode, because the socket listens only then. A lock file beside it belongs
//! to one server at a time, so a socket without a listener is left over from a dead one and is replaced. This module
//! must not know requests. Start at [`BoundSocket::bind`].

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use recount_transport::Share;
use recount_world::{Kind, Shutdown, World};
use tokio::net::{UnixListener, UnixSocket, UnixStream};

use crate::connection::{self, Ends, ServerContext};
use crate::listen::{self, Listener};
use crate::peer::{LocalUser, OVERFLOW_UID, Peer, PeerId};
use crate::refusing::refuse_connection;
use crate::{StartError, limits};

/// The owner and its group may connect.
const MODE: u32 = 0o660;

/// A socket that listens.
pub(crate) struct BoundSocket {
    listener: UnixListener,
    /// `None` for a socket of the service manager, which owns the file.
    _file: Option<SocketFile>,
}

/// The file of a socket that this process created; removed when this is dropped.
struct SocketFile {
    path: PathBuf,
    /// Device and inode.
    id: (u64, u64),
    _lock: File,
}

impl BoundSocket {
    pub(crate) async fn bind(path: &Path) -> Result<Self, StartError> {
        let in_use = "another server listens on it; stop that server, or choose another path";
        BoundSocket::try_bind(path).await?.ok_or_else(|| failed(path, in_use))
    }

    /// `None`: another server listens on it.
    pub(crate) async fn try_bind(path: &Path) -> Result<Option<Self>, StartError> {
        let failed = |why: String| failed(path, &why);
        let Some(lock) = lock(path).map_err(failed)? else { return Ok(None) };
        remove_stale(path).await.map_err(failed)?;
        let (listener, file) = create(path, lock).map_err(|why| failed(why.to_string()))?;
        Ok(Some(BoundSocket { listener, _file: Some(file) }))
    }

    /// Waits until the other server that listens on it has ended.
    async fn bind_when_free(path: &Path) -> Self {
        let mut is_reported = false;
        loop {
            match BoundSocket::try_bind(path).await {
                Ok(Some(socket)) => return socket,
                Ok(None) => {}
                Err(error) if is_reported => tracing::debug!(%error, "still no socket"),
                Err(error) => {
                    tracing::warn!(%error, "this server does not listen on its socket yet and tries again");
                    is_reported = true;
                }
            }
            tokio::time::sleep(limits::SOCKET_RETRY).await;
        }
    }

    /// A socket that the service manager opened.
    pub(crate) fn passed(listener: std::os::unix::net::UnixListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(BoundSocket { listener: UnixListener::from_std(listener)?, _file: None })
    }
}

/// Serves clients of a socket from when the other server that listens on it has ended.
pub(crate) fn start_when_free(path: PathBuf, context: ServerContext, full: Router, world: &World) {
    let of_listener = world.clone();
    world.tasks.spawn_until_shutdown(Kind::Service, async move {
        let socket = BoundSocket::bind_when_free(&path).await;
        tracing::info!(path = %path.display(), "the other server has ended; listening on the socket now");
        listen::start(socket, context, full, &of_listener);
    });
}

fn failed(path: &Path, why: &str) -> StartError {
    StartError::failed(format!("cannot listen on the socket {}: {why}", path.display()))
}

/// Ensures that no other server uses this path. `None`: another one does.
fn lock(path: &Path) -> Result<Option<File>, String> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let name = PathBuf::from(name);
    let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&name);
    let file = file.map_err(|why| match (why.kind(), path.parent()) {
        (ErrorKind::NotFound, Some(folder)) => {
            format!("the folder {} is missing; create it", folder.display())
        }
        _ => format!("cannot create {}: {why}", name.display()),
    })?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(why)) => Err(format!("cannot lock {}: {why}", name.display())),
    }
}

/// Removes the socket that a dead server left there.
async fn remove_stale(path: &Path) -> Result<(), String> {
    let found = match std::fs::symlink_metadata(path) {
        Err(why) if why.kind() == ErrorKind::NotFound => return Ok(()),
        found => found.map_err(|why| why.to_string())?,
    };
    if !found.file_type().is_socket() {
        return Err("a file or folder that is not a socket has this path; choose another path".to_owned());
    }
    match UnixStream::connect(path).await {
        Ok(_) => Err("another program listens on it; stop that program, or choose another path".to_owned()),
        Err(why) if why.kind() == ErrorKind::ConnectionRefused => {
            tracing::info!(path = %path.display(), "replacing the socket of a server that no longer runs");
            std::fs::remove_file(path).map_err(|why| format!("cannot remove the old socket: {why}"))
        }
        Err(why) => {
            Err(format!("it may be in use, because connecting failed with: {why}; choose another path"))
        }
    }
}

fn create(path: &Path, lock: File) -> io::Result<(UnixListener, SocketFile)> {
    let socket = UnixSocket::new_stream()?;
    socket.bind(path)?;
    let metadata = std::fs::symlink_metadata(path)?;
    let file = SocketFile { path: path.to_owned(), id: (metadata.dev(), metadata.ino()), _lock: lock };
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(MODE))?;
    Ok((socket.listen(limits::SOCKET_BACKLOG)?, file))
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let is_own = std::fs::symlink_metadata(&self.path)
            .is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == self.id);
        if !is_own {
            return;
        }
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "cannot remove the socket of this server");
        }
    }
}

impl Listener for BoundSocket {
    type Stream = UnixStream;
    type Origin = Arc<LocalUser>;

    async fn next(&self) -> io::Result<(UnixStream, Arc<LocalUser>)> {
        let (stream, _) = self.listener.accept().await?;
        let user = LocalUser::of(stream.peer_cred()?.uid());
        Ok((stream, Arc::new(user)))
    }

    async fn serve(
        stream: UnixStream,
        peer: Arc<LocalUser>,
        place: Share<PeerId>,
        context: Arc<ServerContext>,
        _full: Router,
        shutdown: Shutdown,
    ) {
        let ends = Ends { peer: Peer::User(peer), arrived_at: None, is_encrypted: false };
        connection::serve(stream, ends, context, shutdown).await;
        drop(place);
    }

    async fn refuse(
        stream: UnixStream,
        peer: Arc<LocalUser>,
        _context: Arc<ServerContext>,
        full: Router,
        _shutdown: Shutdown,
    ) {
        refuse_connection(stream, Peer::User(peer), full).await;
    }
}

impl LocalUser {
    fn of(uid: u32) -> Self {
        // Only local accounts: the released program is static, so it has no other source of names.
        let accounts = std::fs::read("/etc/passwd").unwrap_or_default();
        LocalUser {
            uid,
            name: name_of(&String::from_utf8_lossy(&accounts), uid),
            is_operator: uid != OVERFLOW_UID && (uid == 0 || uid == rustix::process::geteuid().as_raw()),
        }
    }
}

/// The name of a user in the text of `/etc/passwd`, if it is plain enough for logs and settings.
fn name_of(accounts: &str, uid: u32) -> Option<String> {
    if uid == OVERFLOW_UID {
        return None;
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '@' | '$');
    accounts.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, _password, number) = (fields.next()?, fields.next()?, fields.next()?);
        let is_found = number.parse() == Ok(uid) && !name.is_empty() && name.chars().all(is_plain);
        (is_found && name.len() <= limits::TOKEN_NAME_MAX).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Why a socket cannot be created at this path.
    async fn refusal(path: &Path) -> String {
        BoundSocket::bind(path).await.err().expect("the socket is refused").to_string()
    }

    #[tokio::test]
    async fn the_file_is_for_the_owner_and_its_group_and_is_removed_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let bound = BoundSocket::bind(&path).await.unwrap();
        let metadata = std::fs::symlink_metadata(&path).unwrap();
        assert!(metadata.file_type().is_socket());
        assert_eq!(metadata.permissions().mode() & 0o777, 0o660);
        let connecting = UnixStream::connect(&path);
        let (client, accepted) = tokio::join!(connecting, bound.next());
        client.unwrap();
        assert!(accepted.unwrap().1.is_operator, "this process is of the same user");
        drop(bound);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn the_socket_of_a_dead_server_is_replaced_and_that_of_a_living_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "as after a kill");
        let bound = BoundSocket::bind(&path).await.unwrap();
        let why = refusal(&path).await;
        assert!(why.contains("another server listens") && why.contains(path.to_str().unwrap()), "{why}");
        assert!(path.exists());
        drop(bound);
        let other = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let why = refusal(&path).await;
        assert!(why.contains("another program listens"), "{why}");
        drop(other);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_waits_for_the_socket_gets_it_after_the_other_one_ended() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let bound = BoundSocket::bind(&path).await.unwrap();
        assert!(BoundSocket::try_bind(&path).await.unwrap().is_none());
        let waiting = BoundSocket::bind_when_free(&path);
        let ending = async {
            tokio::time::sleep(3 * limits::SOCKET_RETRY).await; // tidy: paused time, while the other one looks several times
            assert!(path.exists(), "of the first server");
            drop(bound);
        };
        let (second, ()) = tokio::join!(waiting, ending);
        let connecting = UnixStream::connect(&path);
        let (client, accepted) = tokio::join!(connecting, second.next());
        assert!(client.is_ok() && accepted.is_ok());
    }

    #[tokio::test]
    async fn only_the_own_file_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let bound = BoundSocket::bind(&path).await.unwrap();
        std::fs::rename(&path, folder.path().join("moved")).unwrap();
        std::fs::write(&path, "of another program").unwrap();
        drop(bound);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "of another program");
        let why = refusal(&path).await;
        assert!(why.contains("not a socket"), "{why}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "of another program");
        let why = refusal(&folder.path().join("missing/s")).await;
        assert!(why.contains("missing is missing; create it"), "{why}");
    }

    #[test]
    fn names_come_from_the_list_of_accounts() {
        let accounts = "root:x:0:0:root:/root:/bin/sh\nada:x:1000:1000:Ada,,,:/home/ada:/bin/sh\nbroken\n\
                        a b:x:1001:1001::/:/bin/sh\n:x:1002::\nnobody:x:65534:65534::/:/bin/false\n";
        assert_eq!(name_of(accounts, 1000).as_deref(), Some("ada"));
        assert_eq!(name_of(accounts, 0).as_deref(), Some("root"));
        for unknown in [1001, 1002, 1003, 65_534] {
            assert_eq!(name_of(accounts, unknown), None, "{unknown}");
        }
    }

    #[test]
    fn only_root_and_the_user_of_the_server_are_the_operator() {
        let own = rustix::process::geteuid().as_raw();
        assert!(LocalUser::of(0).is_operator);
        assert_eq!(LocalUser::of(own).is_operator, own != OVERFLOW_UID);
        for other in [OVERFLOW_UID, own.wrapping_add(4_242)] {
            assert!(!LocalUser::of(other).is_operator, "{other}");
        }
    }
}
