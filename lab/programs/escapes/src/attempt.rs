//! Defines one escape attempt, and runs it in its own process.
//!
//! Start at [`Attempt`]. An attempt whose process is killed by the kernel counts as prevented.

use std::ffi::CString;
use std::io::Read as _;
use std::os::fd::FromRawFd as _;
use std::path::PathBuf;

/// The targets of the attempts.
pub(crate) struct Targets {
    /// A folder outside the workspace, with a file `secret`, a folder `open`, a socket and a pipe in it.
    pub(crate) outside: PathBuf,
    /// A process outside the sandbox that belongs to the test.
    pub(crate) pid: i32,
    /// A loopback port on which the test listens.
    pub(crate) port: u16,
}

impl Targets {
    pub(crate) fn path(&self, name: &str) -> CString {
        text(&self.outside.join(name).display().to_string())
    }
}

/// The result: how it was prevented, or how it succeeded.
pub(crate) enum AttemptResult {
    Held(String),
    Open(String),
}

/// Something that must not work.
pub(crate) struct Attempt {
    pub(crate) name: &'static str,
    pub(crate) run: fn(&Targets) -> AttemptResult,
}

/// Errors that mean a refusal. Any other error shows that the kernel let the process in.
const REFUSALS: &[i32] =
    &[libc::EPERM, libc::EACCES, libc::ENOSYS, libc::ENOENT, libc::EROFS, libc::ESRCH, libc::EXDEV];

/// Judges the result of a system call: success, and any error except a refusal, means that it succeeded.
pub(crate) fn call(status: i64) -> AttemptResult {
    if status >= 0 {
        return AttemptResult::Open("done".to_owned());
    }
    let error = std::io::Error::last_os_error();
    let number = error.raw_os_error().unwrap_or(0);
    if REFUSALS.contains(&number) {
        AttemptResult::Held(name(number))
    } else {
        AttemptResult::Open(name(number))
    }
}

/// The same, where further errors count as refusals.
pub(crate) fn call_or(status: i64, also: &[i32]) -> AttemptResult {
    let number = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
    match call(status) {
        AttemptResult::Open(_) if status < 0 && also.contains(&number) => AttemptResult::Held(name(number)),
        came => came,
    }
}

/// All of them must be prevented.
pub(crate) fn all(attempts: impl IntoIterator<Item = AttemptResult>) -> AttemptResult {
    let mut how = String::from("nothing to try");
    for came in attempts {
        match came {
            AttemptResult::Held(why) => how = why,
            open @ AttemptResult::Open(_) => return open,
        }
    }
    AttemptResult::Held(how)
}

fn name(number: i32) -> String {
    match number {
        libc::EPERM => "EPERM".into(),
        libc::EACCES => "EACCES".into(),
        libc::ENOSYS => "ENOSYS".into(),
        libc::ENOENT => "ENOENT".into(),
        libc::EROFS => "EROFS".into(),
        libc::ESRCH => "ESRCH".into(),
        libc::EXDEV => "EXDEV".into(),
        other => format!("errno {other}"),
    }
}

/// A system call by its number.
macro_rules! sys {
    ($number:expr $(, $argument:expr)* $(,)?) => {{
        #[allow(unsafe_code, reason = "attempts are bare system calls; every pointer is to a value that lives on")]
        // SAFETY: every pointer that is passed is null or to a value of the caller's that outlives the call.
        let status: i64 = unsafe { libc::syscall($number $(, $argument)*) };
        status
    }};
}
pub(crate) use sys;

pub(crate) fn text(words: &str) -> CString {
    CString::new(words).unwrap_or_default()
}

/// Opens a path and closes it again: a process that can open a file for writing can write it.
pub(crate) fn open(path: &str, flags: i32) -> AttemptResult {
    let path = text(path);
    let number = sys!(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), flags | libc::O_CLOEXEC, 0o600);
    // A pipe without a reader and a device without hardware were opened.
    call(number)
}

/// Runs an attempt in its own process, and prints a line.
pub(crate) fn report(kind: &str, attempt: &Attempt, targets: &Targets) {
    let came =
        in_a_child(attempt, targets).unwrap_or_else(|error| AttemptResult::Held(format!("not run: {error}")));
    let (word, why) = match &came {
        AttemptResult::Held(why) => ("held", why),
        AttemptResult::Open(why) => ("open", why),
    };
    #[allow(clippy::print_stdout, reason = "what this program is for")]
    {
        println!("{kind}\t{}\t{word}\t{why}", attempt.name);
    }
}

fn in_a_child(attempt: &Attempt, targets: &Targets) -> std::io::Result<AttemptResult> {
    let mut ends = [0; 2];
    // SAFETY: this program has one thread; the child runs the attempt and ends.
    #[allow(unsafe_code, reason = "an attempt may end its process")]
    let (child, mut pipe) = unsafe {
        if libc::pipe(ends.as_mut_ptr()) != 0 {
            return Err(std::io::Error::last_os_error());
        }
        let child = libc::fork();
        if child < 0 {
            return Err(std::io::Error::last_os_error());
        }
        if child == 0 {
            libc::close(ends[0]);
            // An attempt that blocks forever did not succeed.
            libc::alarm(10);
            let (mark, why) = match (attempt.run)(targets) {
                AttemptResult::Held(why) => ('h', why),
                AttemptResult::Open(why) => ('o', why),
            };
            let line = format!("{mark}{why}");
            libc::write(ends[1], line.as_ptr().cast(), line.len());
            libc::_exit(0);
        }
        libc::close(ends[1]);
        (child, std::fs::File::from_raw_fd(ends[0]))
    };
    let mut line = String::new();
    pipe.read_to_string(&mut line)?;
    let mut status = 0;
    // SAFETY: it waits for a child of ours and writes one number.
    #[allow(unsafe_code, reason = "the number came from the call above")]
    unsafe {
        libc::waitpid(child, &raw mut status, 0);
    }
    Ok(match line.split_at_checked(1) {
        Some(("h", why)) => AttemptResult::Held(why.to_owned()),
        Some(("o", why)) => AttemptResult::Open(why.to_owned()),
        _ if libc::WIFSIGNALED(status) => AttemptResult::Held("killed".into()),
        _ => AttemptResult::Open("it ended without a word".into()),
    })
}
