//! Starts speech-dispatcher if it is not running, as its own clients do: [`start`].

use std::path::Path;
use std::process::Stdio;

use crate::limits;

/// Starts the service of this user at a socket, in the background. Returns whether it reported success.
pub(super) async fn start(socket: &Path) -> bool {
    let mut command = tokio::process::Command::new("speech-dispatcher");
    command
        .args(["--spawn", "--communication-method", "unix_socket", "--socket-path"])
        .arg(socket)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    let Ok(mut child) = command.spawn() else { return false };
    match tokio::time::timeout(limits::SSIP_START_WAIT, child.wait()).await {
        Ok(Ok(status)) => status.success(),
        Ok(Err(_)) | Err(_) => false,
    }
}
