//! Restricts changes of file modes, owners, times and attributes under Landlock, which does not cover them. Without
//! this a command could change them wherever its user may.
//!
//! The kernel passes these system calls to the warden (seccomp user notification). The warden performs them itself if
//! the file is writable for the command, and refuses them otherwise. It never lets a call continue, because the command
//! could change the arguments after the check. Start at [`handle`].

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, Timespec, Timestamps};
use rustix::io::Errno;
use seccompiler::sock_filter;

use crate::limits;

/// The system calls that are passed to the warden.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileSyscall {
    Mode,
    Owner,
    Times(Clock),
    Attributes,
}

/// The format in which a call passes times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Clock {
    Nanoseconds,
    #[cfg(target_arch = "x86_64")]
    Microseconds,
    #[cfg(target_arch = "x86_64")]
    Seconds,
}

/// How a call names its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileArgument {
    /// A descriptor.
    Open,
    /// A path.
    Path { follow: bool },
    /// A folder, a path, and the index of the flags argument.
    At { flags: Option<usize> },
}

/// Call number, operation, how it names the file, and the index of its first other argument.
const TABLE: &[(libc::c_long, FileSyscall, FileArgument, usize)] = &[
    (libc::SYS_fchmod, FileSyscall::Mode, FileArgument::Open, 1),
    (libc::SYS_fchmodat, FileSyscall::Mode, FileArgument::At { flags: None }, 2),
    (FCHMODAT2, FileSyscall::Mode, FileArgument::At { flags: Some(3) }, 2),
    (libc::SYS_fchown, FileSyscall::Owner, FileArgument::Open, 1),
    (libc::SYS_fchownat, FileSyscall::Owner, FileArgument::At { flags: Some(4) }, 2),
    (libc::SYS_utimensat, FileSyscall::Times(Clock::Nanoseconds), FileArgument::At { flags: Some(3) }, 2),
    (libc::SYS_setxattr, FileSyscall::Attributes, FileArgument::Path { follow: true }, 1),
    (libc::SYS_lsetxattr, FileSyscall::Attributes, FileArgument::Path { follow: false }, 1),
    (libc::SYS_fsetxattr, FileSyscall::Attributes, FileArgument::Open, 1),
    (libc::SYS_removexattr, FileSyscall::Attributes, FileArgument::Path { follow: true }, 1),
    (libc::SYS_lremovexattr, FileSyscall::Attributes, FileArgument::Path { follow: false }, 1),
    (libc::SYS_fremovexattr, FileSyscall::Attributes, FileArgument::Open, 1),
    (SETXATTRAT, FileSyscall::Attributes, FileArgument::At { flags: Some(2) }, 3),
    (REMOVEXATTRAT, FileSyscall::Attributes, FileArgument::At { flags: Some(2) }, 3),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, FileSyscall::Mode, FileArgument::Path { follow: true }, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chown, FileSyscall::Owner, FileArgument::Path { follow: true }, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_lchown, FileSyscall::Owner, FileArgument::Path { follow: false }, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_utime, FileSyscall::Times(Clock::Seconds), FileArgument::Path { follow: true }, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_utimes, FileSyscall::Times(Clock::Microseconds), FileArgument::Path { follow: true }, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_futimesat, FileSyscall::Times(Clock::Microseconds), FileArgument::At { flags: None }, 2),
];

/// Not named by `libc` yet; the same on every architecture.
const FCHMODAT2: libc::c_long = 452;
const SETXATTRAT: libc::c_long = 463;
const REMOVEXATTRAT: libc::c_long = 466;

/// Passes the listed calls of this process and its children to the process at the other end. The filters of
/// [`super::seccomp`] are separate and cover other call tables.
pub(crate) fn hand_over(to: &UnixStream) -> io::Result<()> {
    let program = filter();
    let length = u16::try_from(program.len()).map_err(io::Error::other)?;
    // The same layout in the type that the system call takes.
    let whole = libc::sock_fprog { len: length, filter: program.as_ptr().cast_mut().cast() };
    // SAFETY: the program lives beyond the call, which copies it.
    #[expect(unsafe_code, reason = "there is no wrapper that answers the listener")]
    let listener = unsafe {
        let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
        let number = libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            flags,
            std::ptr::from_ref(&whole),
        );
        let number = i32::try_from(number).map_err(io::Error::other)?;
        if number < 0 {
            return Err(io::Error::last_os_error());
        }
        OwnedFd::from_raw_fd(number)
    };
    send(to, &listener)
}

fn filter() -> Vec<sock_filter> {
    const LOAD_WORD: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS; the number comes first
    const JUMP_IF_EQUAL: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
    const RETURN: u16 = 0x06; // BPF_RET | BPF_K
    let mut program = vec![sock_filter { code: LOAD_WORD, jt: 0, jf: 0, k: 0 }];
    for (number, ..) in TABLE {
        let number = u32::try_from(*number).expect("numbers of calls are small");
        program.push(sock_filter { code: JUMP_IF_EQUAL, jt: 0, jf: 1, k: number });
        program.push(sock_filter { code: RETURN, jt: 0, jf: 0, k: libc::SECCOMP_RET_USER_NOTIF });
    }
    program.push(sock_filter { code: RETURN, jt: 0, jf: 0, k: libc::SECCOMP_RET_ALLOW });
    program
}

fn send(to: &UnixStream, fd: &OwnedFd) -> io::Result<()> {
    use std::os::fd::AsFd as _;
    let fds = [fd.as_fd()];
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = rustix::net::SendAncillaryBuffer::new(&mut space);
    control.push(rustix::net::SendAncillaryMessage::ScmRights(&fds));
    let byte = [io::IoSlice::new(b"x")];
    rustix::net::sendmsg(to, &byte, &mut control, rustix::net::SendFlags::empty())?;
    Ok(())
}

/// Receives the listener that [`hand_over`] sent.
pub(crate) fn receive(from: &UnixStream) -> io::Result<OwnedFd> {
    let missing = || io::Error::other("the command did not hand over its calls");
    receive_byte(from)?.and_then(|(_, fd)| fd).ok_or_else(missing)
}

/// Receives one byte, and a descriptor if one was sent with it. Returns `None` when the other side has closed.
pub(crate) fn receive_byte(from: &UnixStream) -> io::Result<Option<(u8, Option<OwnedFd>)>> {
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = rustix::net::RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut buffer = [io::IoSliceMut::new(&mut byte)];
    let flags = rustix::net::RecvFlags::CMSG_CLOEXEC;
    let received =
        rustix::io::retry_on_intr(|| rustix::net::recvmsg(from, &mut buffer, &mut control, flags))?;
    if received.bytes == 0 {
        return Ok(None);
    }
    for message in control.drain() {
        if let rustix::net::RecvAncillaryMessage::ScmRights(mut fds) = message
            && let Some(fd) = fds.next()
        {
            return Ok(Some((byte[0], Some(fd))));
        }
    }
    Ok(Some((byte[0], None)))
}

/// Performs or refuses one pending call. Returns `false` when no more calls can come.
pub(crate) fn handle(listener: &OwnedFd, writable: &[PathBuf]) -> bool {
    // SAFETY: all of it are numbers, which may be zero.
    #[expect(unsafe_code, reason = "the kernel wants it zeroed")]
    let mut notification: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes a value of this type.
    #[expect(unsafe_code, reason = "there is no wrapper for it")]
    let status = unsafe {
        libc::ioctl(
            listener.as_raw_fd(),
            libc::SECCOMP_IOCTL_NOTIF_RECV,
            std::ptr::from_mut(&mut notification),
        )
    };
    if status != 0 {
        // The caller was killed, or all processes of the command ended.
        return io::Error::last_os_error().raw_os_error() != Some(libc::EBADF);
    }
    let error = match perform(listener, &notification, writable) {
        Ok(()) => 0,
        Err(errno) => -errno.raw_os_error(),
    };
    let mut reply = libc::seccomp_notif_resp { id: notification.id, val: 0, error, flags: 0 };
    // SAFETY: the kernel reads a value of this type.
    #[expect(unsafe_code, reason = "there is no wrapper for it")]
    unsafe {
        // This fails if the caller ended, which does not matter.
        libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, std::ptr::from_mut(&mut reply));
    }
    true
}

fn perform(
    listener: &OwnedFd,
    notification: &libc::seccomp_notif,
    writable: &[PathBuf],
) -> Result<(), Errno> {
    let number = libc::c_long::from(notification.data.nr);
    let known = TABLE.iter().find(|(known, ..)| *known == number);
    let (_, call, argument, first) = known.ok_or(Errno::NOSYS)?;
    let arguments = &notification.data.args;
    let file = open_named_file(notification, *argument)?;
    let times = match call {
        FileSyscall::Times(clock) => Some(times(notification, *clock, arguments[*first])?),
        _ => None,
    };
    // Before this check the process id could have belonged to another process, if the caller had ended.
    // SAFETY: the kernel reads one number.
    #[expect(unsafe_code, reason = "there is no wrapper for it")]
    let valid = unsafe {
        libc::ioctl(
            listener.as_raw_fd(),
            libc::SECCOMP_IOCTL_NOTIF_ID_VALID,
            std::ptr::from_ref(&notification.id),
        )
    };
    if valid != 0 {
        return Err(Errno::SRCH);
    }
    let own = format!("/proc/self/fd/{}", file.as_raw_fd());
    let path = std::fs::read_link(&own).map_err(errno)?;
    if !writable.iter().any(|folder| path.starts_with(folder)) {
        return Err(Errno::PERM);
    }
    let about = file.metadata().map_err(errno)?;
    // The warden may have more rights than the command.
    if about.uid() != rustix::process::geteuid().as_raw() {
        return Err(Errno::PERM);
    }
    match call {
        FileSyscall::Mode if about.file_type().is_symlink() => Err(Errno::OPNOTSUPP),
        FileSyscall::Mode => {
            let mode = u32::try_from(arguments[*first] & 0o7777).unwrap_or(0);
            std::fs::set_permissions(&own, std::fs::Permissions::from_mode(mode)).map_err(errno)
        }
        FileSyscall::Owner => {
            // Only the current owner: the kernel reads the low 32 bits, and all ones mean "unchanged".
            let same = |requested: u64, current: u32| {
                let requested = u32::try_from(requested & u64::from(u32::MAX)).unwrap_or(u32::MAX);
                requested == u32::MAX || requested == current
            };
            let stays = same(arguments[*first], about.uid()) && same(arguments[*first + 1], about.gid());
            if stays { Ok(()) } else { Err(Errno::PERM) }
        }
        FileSyscall::Times(_) => {
            let times = times.expect("a call about times has read them");
            rustix::fs::utimensat(&file, "", &times, AtFlags::EMPTY_PATH)
        }
        FileSyscall::Attributes => Err(Errno::OPNOTSUPP),
    }
}

/// Opens the file that a call names with `O_PATH`, so that it cannot be replaced and nothing else can be done with it.
fn open_named_file(notification: &libc::seccomp_notif, argument: FileArgument) -> Result<File, Errno> {
    let arguments = &notification.data.args;
    let (folder, pointer, follow, empty) = match argument {
        FileArgument::Open => return open_of_caller(notification, arguments[0]),
        FileArgument::Path { follow } => (CALLERS_FOLDER, arguments[0], follow, false),
        FileArgument::At { flags } => {
            let flags = flags.map_or(0, |index| arguments[index]);
            let has = |flag: libc::c_int| flags & u64::from(flag.unsigned_abs()) != 0;
            let (follow, empty) = (!has(libc::AT_SYMLINK_NOFOLLOW), has(libc::AT_EMPTY_PATH));
            (arguments[0], arguments[1], follow, empty)
        }
    };
    if pointer == 0 {
        return open_of_caller(notification, folder);
    }
    let path = text(notification, pointer)?;
    if path.is_empty() {
        return if empty { open_of_caller(notification, folder) } else { Err(Errno::NOENT) };
    }
    let mut flags = OFlags::PATH | OFlags::CLOEXEC;
    if !follow {
        flags |= OFlags::NOFOLLOW;
    }
    let path = PathBuf::from(<std::ffi::OsString as std::os::unix::ffi::OsStringExt>::from_vec(path));
    // `/proc/self` in a path means the caller.
    let path = match path.strip_prefix("/proc/self") {
        Ok(rest) => Path::new("/proc").join(notification.pid.to_string()).join(rest),
        Err(_) => path,
    };
    let fd = if path.is_absolute() {
        rustix::fs::open(&path, flags, Mode::empty())?
    } else {
        rustix::fs::openat(open_of_caller(notification, folder)?, &path, flags, Mode::empty())?
    };
    Ok(File::from(fd))
}

/// `AT_FDCWD`, as the kernel reads it.
const CALLERS_FOLDER: u64 = 0xffff_ff9c;

/// Opens what a descriptor of the caller refers to.
fn open_of_caller(notification: &libc::seccomp_notif, number: u64) -> Result<File, Errno> {
    let number = number & u64::from(u32::MAX);
    let what = if number == CALLERS_FOLDER { "cwd".to_owned() } else { format!("fd/{number}") };
    let path = format!("/proc/{}/{what}", notification.pid);
    let fd = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    Ok(File::from(fd.map_err(|error| if error == Errno::NOENT { Errno::BADF } else { error })?))
}

fn text(notification: &libc::seccomp_notif, mut pointer: u64) -> Result<Vec<u8>, Errno> {
    let memory = memory(notification)?;
    let mut text = Vec::new();
    while text.len() <= limits::PATH_BYTES_MAX {
        // Never reads past a page, because the next one may not be mapped.
        let mut piece = [0; 256];
        let length = usize::try_from(256 - pointer % 256).unwrap_or(256);
        let count = memory.read_at(&mut piece[..length], pointer).map_err(|_| Errno::FAULT)?;
        if count == 0 {
            return Err(Errno::FAULT);
        }
        if let Some(end) = piece[..count].iter().position(|byte| *byte == 0) {
            text.extend_from_slice(&piece[..end]);
            return Ok(text);
        }
        text.extend_from_slice(&piece[..count]);
        pointer += count as u64;
    }
    Err(Errno::NAMETOOLONG)
}

fn times(notification: &libc::seccomp_notif, clock: Clock, pointer: u64) -> Result<Timestamps, Errno> {
    let now = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
    if pointer == 0 {
        return Ok(Timestamps { last_access: now, last_modification: now });
    }
    let memory = memory(notification)?;
    let word = |index: u64| -> Result<i64, Errno> {
        let mut bytes = [0; 8];
        memory.read_exact_at(&mut bytes, pointer + 8 * index).map_err(|_| Errno::FAULT)?;
        Ok(i64::from_ne_bytes(bytes))
    };
    let at = |which: u64| -> Result<Timespec, Errno> {
        Ok(match clock {
            Clock::Nanoseconds => Timespec { tv_sec: word(2 * which)?, tv_nsec: word(2 * which + 1)? },
            #[cfg(target_arch = "x86_64")]
            Clock::Microseconds => Timespec {
                tv_sec: word(2 * which)?,
                tv_nsec: word(2 * which + 1)?.checked_mul(1000).ok_or(Errno::INVAL)?,
            },
            #[cfg(target_arch = "x86_64")]
            Clock::Seconds => Timespec { tv_sec: word(which)?, tv_nsec: 0 },
        })
    };
    Ok(Timestamps { last_access: at(0)?, last_modification: at(1)? })
}

fn memory(notification: &libc::seccomp_notif) -> Result<File, Errno> {
    File::open(format!("/proc/{}/mem", notification.pid)).map_err(errno)
}

fn errno(error: io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::PERM, Errno::from_raw_os_error)
}
