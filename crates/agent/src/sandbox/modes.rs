//! Modes, owners, times and attributes of files where Landlock holds: it knows nothing of them, so a command could
//! change them wherever its user may.
//!
//! The kernel hands such calls over to the warden, which does them itself where they concern what the command may
//! write, and refuses them elsewhere. Look at [`answer`]. Nothing is ever let through: what was looked at could
//! have changed by then.

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

/// The calls that are handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileSyscall {
    Mode,
    Owner,
    Times(Clock),
    Attributes,
}

/// How a call writes times down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Clock {
    Nanoseconds,
    #[cfg(target_arch = "x86_64")]
    Microseconds,
    #[cfg(target_arch = "x86_64")]
    Seconds,
}

/// Where a call says which file it is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileArgument {
    /// A descriptor.
    Open,
    /// A path.
    Path { follow: bool },
    /// A folder, a path, and flags in the place given.
    At { flags: Option<usize> },
}

/// Number, what it does, where it names the file, and the place of its first argument about what to do.
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

/// The same on every architecture, and newer than the table of names.
const FCHMODAT2: libc::c_long = 452;
const SETXATTRAT: libc::c_long = 463;
const REMOVEXATTRAT: libc::c_long = 466;

/// Hands the calls of this process, and of all that come from it, over to the process at the other end. The
/// filters of [`super::seccomp`] stand beside this one and see to other tables of calls.
pub(crate) fn hand_over(to: &UnixStream) -> io::Result<()> {
    let program = filter();
    let length = u16::try_from(program.len()).map_err(io::Error::other)?;
    // The same layout, in the type that the kernel's call takes.
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
    const LOAD_WORD: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS; the number stands first
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

/// The listener that [`hand_over`] sent.
pub(crate) fn receive(from: &UnixStream) -> io::Result<OwnedFd> {
    let missing = || io::Error::other("the command did not hand over its calls");
    receive_byte(from)?.and_then(|(_, fd)| fd).ok_or_else(missing)
}

/// The next byte, and the descriptor that was sent with it; `None` when the other side is gone.
pub(crate) fn receive_byte(from: &UnixStream) -> io::Result<Option<(u8, Option<OwnedFd>)>> {
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = rustix::net::RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut room = [io::IoSliceMut::new(&mut byte)];
    let flags = rustix::net::RecvFlags::CMSG_CLOEXEC;
    let received = rustix::io::retry_on_intr(|| rustix::net::recvmsg(from, &mut room, &mut control, flags))?;
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

/// Does what one waiting call asks for, or refuses it. `false` when nobody will call any more.
pub(crate) fn answer(listener: &OwnedFd, writable: &[PathBuf]) -> bool {
    // SAFETY: all of it are numbers, which may be zero.
    #[expect(unsafe_code, reason = "the kernel wants it zeroed")]
    let mut asked: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes a value of this type.
    #[expect(unsafe_code, reason = "there is no wrapper for it")]
    let got = unsafe {
        libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, std::ptr::from_mut(&mut asked))
    };
    if got != 0 {
        // The caller was killed, or all are gone.
        return io::Error::last_os_error().raw_os_error() != Some(libc::EBADF);
    }
    let error = match carry_out(listener, &asked, writable) {
        Ok(()) => 0,
        Err(errno) => -errno.raw_os_error(),
    };
    let mut reply = libc::seccomp_notif_resp { id: asked.id, val: 0, error, flags: 0 };
    // SAFETY: the kernel reads a value of this type.
    #[expect(unsafe_code, reason = "there is no wrapper for it")]
    unsafe {
        // A caller that is gone needs no answer.
        libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, std::ptr::from_mut(&mut reply));
    }
    true
}

fn carry_out(listener: &OwnedFd, asked: &libc::seccomp_notif, writable: &[PathBuf]) -> Result<(), Errno> {
    let number = libc::c_long::from(asked.data.nr);
    let known = TABLE.iter().find(|(known, ..)| *known == number);
    let (_, call, names, first) = known.ok_or(Errno::NOSYS)?;
    let arguments = &asked.data.args;
    let file = named(asked, *names)?;
    let times = match call {
        FileSyscall::Times(clock) => Some(times(asked, *clock, arguments[*first])?),
        _ => None,
    };
    // Until here it could have been another process that was looked at, with the number of one that is gone.
    // SAFETY: the kernel reads one number.
    #[expect(unsafe_code, reason = "there is no wrapper for it")]
    let valid = unsafe {
        libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ID_VALID, std::ptr::from_ref(&asked.id))
    };
    if valid != 0 {
        return Err(Errno::SRCH);
    }
    let own = format!("/proc/self/fd/{}", file.as_raw_fd());
    let place = std::fs::read_link(&own).map_err(errno)?;
    if !writable.iter().any(|folder| place.starts_with(folder)) {
        return Err(Errno::PERM);
    }
    let about = file.metadata().map_err(errno)?;
    // Our own rights may be wider than the command's.
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
            // Only what it is already: the low half, as the kernel reads it; all ones leave it.
            let same = |wanted: u64, is: u32| {
                let wanted = u32::try_from(wanted & u64::from(u32::MAX)).unwrap_or(u32::MAX);
                wanted == u32::MAX || wanted == is
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

/// The file that a call names, opened so that it stays the same and nothing else can be done with it.
fn named(asked: &libc::seccomp_notif, names: FileArgument) -> Result<File, Errno> {
    let arguments = &asked.data.args;
    let (folder, pointer, follow, empty) = match names {
        FileArgument::Open => return of_caller(asked, arguments[0]),
        FileArgument::Path { follow } => (CALLERS_FOLDER, arguments[0], follow, false),
        FileArgument::At { flags } => {
            let flags = flags.map_or(0, |place| arguments[place]);
            let has = |flag: libc::c_int| flags & u64::from(flag.unsigned_abs()) != 0;
            let (follow, empty) = (!has(libc::AT_SYMLINK_NOFOLLOW), has(libc::AT_EMPTY_PATH));
            (arguments[0], arguments[1], follow, empty)
        }
    };
    if pointer == 0 {
        return of_caller(asked, folder);
    }
    let path = text(asked, pointer)?;
    if path.is_empty() {
        return if empty { of_caller(asked, folder) } else { Err(Errno::NOENT) };
    }
    let mut flags = OFlags::PATH | OFlags::CLOEXEC;
    if !follow {
        flags |= OFlags::NOFOLLOW;
    }
    let path = PathBuf::from(<std::ffi::OsString as std::os::unix::ffi::OsStringExt>::from_vec(path));
    // Where a path leads through `/proc/self`, that is the caller.
    let path = match path.strip_prefix("/proc/self") {
        Ok(rest) => Path::new("/proc").join(asked.pid.to_string()).join(rest),
        Err(_) => path,
    };
    let fd = if path.is_absolute() {
        rustix::fs::open(&path, flags, Mode::empty())?
    } else {
        rustix::fs::openat(of_caller(asked, folder)?, &path, flags, Mode::empty())?
    };
    Ok(File::from(fd))
}

/// `AT_FDCWD`, as the kernel reads it.
const CALLERS_FOLDER: u64 = 0xffff_ff9c;

/// What a descriptor of the caller stands for.
fn of_caller(asked: &libc::seccomp_notif, number: u64) -> Result<File, Errno> {
    let number = number & u64::from(u32::MAX);
    let what = if number == CALLERS_FOLDER { "cwd".to_owned() } else { format!("fd/{number}") };
    let path = format!("/proc/{}/{what}", asked.pid);
    let fd = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    Ok(File::from(fd.map_err(|error| if error == Errno::NOENT { Errno::BADF } else { error })?))
}

fn text(asked: &libc::seccomp_notif, mut pointer: u64) -> Result<Vec<u8>, Errno> {
    let memory = memory(asked)?;
    let mut text = Vec::new();
    while text.len() <= limits::PATH_BYTES_MAX {
        // Never beyond a page: what follows may not be there.
        let mut piece = [0; 256];
        let room = usize::try_from(256 - pointer % 256).unwrap_or(256);
        let count = memory.read_at(&mut piece[..room], pointer).map_err(|_| Errno::FAULT)?;
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

fn times(asked: &libc::seccomp_notif, clock: Clock, pointer: u64) -> Result<Timestamps, Errno> {
    let now = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
    if pointer == 0 {
        return Ok(Timestamps { last_access: now, last_modification: now });
    }
    let memory = memory(asked)?;
    let word = |place: u64| -> Result<i64, Errno> {
        let mut bytes = [0; 8];
        memory.read_exact_at(&mut bytes, pointer + 8 * place).map_err(|_| Errno::FAULT)?;
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

fn memory(asked: &libc::seccomp_notif) -> Result<File, Errno> {
    File::open(format!("/proc/{}/mem", asked.pid)).map_err(errno)
}

fn errno(error: io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::PERM, Errno::from_raw_os_error)
}
