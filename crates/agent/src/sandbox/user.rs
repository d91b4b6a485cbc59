//! The user that a command runs as where the server is root: one without rights, new for each command.
//!
//! Root of the machine owns what the kernel lets its settings be changed by, whatever capabilities are gone. So
//! bubblewrap works in a user namespace with two ids that nobody else on the machine has: its own, and the one of
//! the command. Look at [`CommandUser`]. It must never know paths or mounts.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};

use rustix::pipe::PipeFlags;

/// The first id outside; each warden has the two that follow from its number. Login, service and container
/// managers give out smaller ones.
const FIRST: u32 = 0x7000_0000;

/// The command's user and group as it sees them.
pub(crate) const INSIDE: u32 = 1000;

/// Names for the command's user and group, where the machine has none: programs look them up.
pub(crate) const LINES: [(&str, &str); 2] = [
    ("/etc/passwd", "recount:x:1000:1000:command of recount:/tmp/home:/bin/sh"),
    ("/etc/group", "recount:x:1000:"),
];

/// The text of such a list with a line more; `None` where the list is missing or names the id.
pub(crate) fn with_line(path: &str, line: &str) -> Option<String> {
    let about = std::fs::symlink_metadata(path).ok()?;
    let mut text = std::fs::read_to_string(path).ok().filter(|_| about.is_file())?;
    let id = INSIDE.to_string();
    if text.lines().any(|line| line.split(':').nth(2) == Some(&id)) {
        return None;
    }
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(line);
    text.push('\n');
    Some(text)
}

/// Two ids outside of the namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CommandUser {
    /// Of bubblewrap and the inner stage, as which they see themselves as root.
    layer: u32,
    /// Of the command.
    command: u32,
}

impl CommandUser {
    /// `None` where the warden is no root: then the command has the rights of that user and needs no other.
    pub(crate) fn of_this_warden() -> Option<CommandUser> {
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        // Root of a container of an ordinary user is that user outside.
        let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
        if !map.is_empty() && !maps_root_to_root(&map) {
            return None;
        }
        let own = rustix::process::getpid().as_raw_nonzero().get().unsigned_abs();
        let layer = FIRST + 2 * own;
        Some(CommandUser { layer, command: layer + 1 })
    }

    /// The namespace that bubblewrap works in.
    pub(crate) fn namespace(self) -> io::Result<OwnedFd> {
        make_namespace(&format!("0 {} 1\n{INSIDE} {} 1\n", self.layer, self.command))
    }

    /// A namespace for mounts on which what root owns belongs to the command.
    pub(crate) fn mapping(self) -> io::Result<OwnedFd> {
        make_namespace(&format!("0 {} 1\n", self.command))
    }

    /// Lets the command open its own output by name, as `/dev/stderr`: a pipe belongs to the user that made it.
    pub(crate) fn own_outputs(self) -> io::Result<()> {
        let (user, group) =
            (rustix::fs::Uid::from_raw(self.command), rustix::fs::Gid::from_raw(self.command));
        for output in [io::stdout().as_fd(), io::stderr().as_fd()] {
            let kind = rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(output)?.st_mode);
            if kind == rustix::fs::FileType::Fifo {
                rustix::fs::fchown(output, Some(user), Some(group))?;
            }
        }
        Ok(())
    }
}

/// Makes this process root of a namespace and nobody outside. It must have one thread.
pub(crate) fn enter(namespace: &OwnedFd) -> io::Result<()> {
    rustix::thread::move_into_link_name_space(
        namespace.as_fd(),
        Some(rustix::thread::LinkNameSpaceType::User),
    )?;
    become_user(0)
}

/// Changes the user and the group, and leaves every other group.
pub(crate) fn become_user(id: u32) -> io::Result<()> {
    // SAFETY: these calls take numbers only; this process has one thread, so all of it changes.
    #[expect(unsafe_code, reason = "the wrappers change one thread")]
    unsafe {
        for done in
            [libc::setgroups(0, std::ptr::null()), libc::setresgid(id, id, id), libc::setresuid(id, id, id)]
        {
            if done != 0 {
                return Err(io::Error::last_os_error());
            }
        }
    }
    Ok(())
}

fn maps_root_to_root(map: &str) -> bool {
    map.lines().any(|line| {
        let mut words = line.split_ascii_whitespace();
        words.next() == Some("0") && words.next() == Some("0")
    })
}

/// A user namespace with these ids, for users and groups alike. A process is needed to have one; it ends at once.
fn make_namespace(map: &str) -> io::Result<OwnedFd> {
    let (made, say_made) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    let (wait, hold) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    // SAFETY: this process has one thread, and the child calls the kernel only.
    #[expect(unsafe_code, reason = "there is no wrapper for a bare fork")]
    let child = unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::close(hold.as_raw_fd());
            let errno = if libc::unshare(libc::CLONE_NEWUSER) == 0 {
                0
            } else {
                io::Error::last_os_error().raw_os_error().unwrap_or(libc::EPERM)
            };
            let mut word = errno.to_ne_bytes();
            libc::write(say_made.as_raw_fd(), word.as_ptr().cast(), word.len());
            // Until the parent lets go.
            libc::read(wait.as_raw_fd(), word.as_mut_ptr().cast(), word.len());
            libc::_exit(0);
        }
        child
    };
    if child < 0 {
        return Err(io::Error::last_os_error());
    }
    drop((wait, say_made));
    let namespace = map_and_open(child, &made, map);
    drop(hold);
    // SAFETY: it waits for a child of ours and writes nowhere.
    #[expect(unsafe_code, reason = "the number came from the call above")]
    unsafe {
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
    namespace
        .map_err(|error| io::Error::new(error.kind(), format!("no user namespace for a command: {error}")))
}

fn map_and_open(child: libc::pid_t, made: &OwnedFd, map: &str) -> io::Result<OwnedFd> {
    let mut word = [0; 4];
    let count = rustix::io::read(made, &mut word)?;
    match i32::from_ne_bytes(word) {
        0 if count == word.len() => {}
        errno => return Err(io::Error::from_raw_os_error(if errno == 0 { libc::EPERM } else { errno })),
    }
    std::fs::write(format!("/proc/{child}/uid_map"), map)?;
    std::fs::write(format!("/proc/{child}/gid_map"), map)?;
    Ok(std::fs::File::open(format!("/proc/{child}/ns/user"))?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_of_a_container_of_an_ordinary_user_is_no_root() {
        assert!(maps_root_to_root("         0          0 4294967295\n"));
        assert!(!maps_root_to_root("         0       1000          1\n         1     100000      65536\n"));
    }
}
