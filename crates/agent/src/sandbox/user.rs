//! Chooses an unprivileged user for each command when the server is root, and creates its user namespace.
//!
//! Root may change kernel settings even without capabilities, because it owns their files. So bubblewrap runs in a user
//! namespace with two ids that no other process has: its own, and that of the command. Start at [`CommandUser`]. The
//! module must not depend on paths or mounts.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};

use rustix::pipe::PipeFlags;

/// The first id outside the namespace. Each warden uses two ids, computed from its process id. Login, service and
/// container managers assign smaller ones.
const FIRST_ID: u32 = 0x7000_0000;

/// The command's user and group id inside the namespace.
pub(crate) const ID_INSIDE: u32 = 1000;

/// Lines that name the command's user and group, because programs look them up.
pub(crate) const NAME_LINES: [(&str, &str); 2] = [
    ("/etc/passwd", "recount:x:1000:1000:command of recount:/tmp/home:/bin/sh"),
    ("/etc/group", "recount:x:1000:"),
];

/// The text of such a file with a line added; `None` if the file is missing or already names the id.
pub(crate) fn with_line(path: &str, line: &str) -> Option<String> {
    let about = std::fs::symlink_metadata(path).ok()?;
    let mut text = std::fs::read_to_string(path).ok().filter(|_| about.is_file())?;
    let id = ID_INSIDE.to_string();
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

/// The two ids outside the namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CommandUser {
    /// Of bubblewrap and the inner stage; they are root inside the namespace.
    layer: u32,
    /// Of the command.
    command: u32,
}

impl CommandUser {
    /// `None` if the warden is not root. Then the command runs as the warden's user.
    pub(crate) fn of_this_warden() -> Option<CommandUser> {
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        // In a rootless container, root is an ordinary user outside.
        let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
        if !map.is_empty() && !maps_root_to_root(&map) {
            return None;
        }
        let own = rustix::process::getpid().as_raw_nonzero().get().unsigned_abs();
        let layer = FIRST_ID + 2 * own;
        Some(CommandUser { layer, command: layer + 1 })
    }

    /// Creates the namespace for bubblewrap.
    pub(crate) fn namespace(self) -> io::Result<OwnedFd> {
        create_namespace(&format!("0 {} 1\n{ID_INSIDE} {} 1\n", self.layer, self.command))
    }

    /// Creates a namespace for mounts in which files of root belong to the command.
    pub(crate) fn mapping(self) -> io::Result<OwnedFd> {
        create_namespace(&format!("0 {} 1\n", self.command))
    }

    /// Lets the command open its output by name, such as `/dev/stderr`: a pipe belongs to the user that created it.
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

/// Makes this process root inside a namespace. Outside it has no rights. The process must have one thread.
pub(crate) fn enter(namespace: &OwnedFd) -> io::Result<()> {
    rustix::thread::move_into_link_name_space(
        namespace.as_fd(),
        Some(rustix::thread::LinkNameSpaceType::User),
    )?;
    become_user(0)
}

/// Changes the user and the group, and drops all supplementary groups.
pub(crate) fn become_user(id: u32) -> io::Result<()> {
    // SAFETY: these calls take numbers only; this process has one thread, so all of it changes.
    #[expect(unsafe_code, reason = "the wrappers change one thread")]
    unsafe {
        for status in
            [libc::setgroups(0, std::ptr::null()), libc::setresgid(id, id, id), libc::setresuid(id, id, id)]
        {
            if status != 0 {
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

/// Creates a user namespace that maps these ids for users and groups. The child process that creates it ends at once.
fn create_namespace(map: &str) -> io::Result<OwnedFd> {
    let (result_read, result_write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
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
            let mut bytes = errno.to_ne_bytes();
            libc::write(result_write.as_raw_fd(), bytes.as_ptr().cast(), bytes.len());
            // Wait until the parent closes the pipe.
            libc::read(wait.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len());
            libc::_exit(0);
        }
        child
    };
    if child < 0 {
        return Err(io::Error::last_os_error());
    }
    drop((wait, result_write));
    let namespace = map_and_open(child, &result_read, map);
    drop(hold);
    // SAFETY: it waits for a child of ours and writes nowhere.
    #[expect(unsafe_code, reason = "the number came from the call above")]
    unsafe {
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
    namespace.map_err(|error| {
        io::Error::new(error.kind(), format!("cannot create a user namespace for the command: {error}"))
    })
}

fn map_and_open(child: libc::pid_t, result_read: &OwnedFd, map: &str) -> io::Result<OwnedFd> {
    let mut bytes = [0; 4];
    let count = rustix::io::read(result_read, &mut bytes)?;
    match i32::from_ne_bytes(bytes) {
        0 if count == bytes.len() => {}
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
