//! One attempt: what it is called, and a function that says whether it got out.
//!
//! Look at [`Attempt`]. Each runs in a process of its own, so that one that the kernel kills is counted as held.

use std::ffi::CString;
use std::io::Read as _;
use std::os::fd::FromRawFd as _;
use std::path::PathBuf;

/// What attempts are made on.
pub(crate) struct About {
    /// A folder outside of the workspace, with a file `secret`, a folder `open`, a socket and a pipe in it.
    pub(crate) outside: PathBuf,
    /// A process outside, which belongs to the test.
    pub(crate) pid: i32,
    /// A port on the loopback on which the test listens.
    pub(crate) port: u16,
}

impl About {
    pub(crate) fn path(&self, name: &str) -> CString {
        text(&self.outside.join(name).display().to_string())
    }
}

/// What came of it: how it was held, or how it got out.
pub(crate) enum Came {
    Held(String),
    Open(String),
}

/// Something that must not work.
pub(crate) struct Attempt {
    pub(crate) name: &'static str,
    pub(crate) run: fn(&About) -> Came,
}

/// What a refusal looks like. Everything else is what a kernel answers a process that it has let in.
const REFUSALS: &[i32] =
    &[libc::EPERM, libc::EACCES, libc::ENOSYS, libc::ENOENT, libc::EROFS, libc::ESRCH, libc::EXDEV];

/// By the answer of a system call: success and any error but a refusal is out.
pub(crate) fn call(answer: i64) -> Came {
    if answer >= 0 {
        return Came::Open("done".to_owned());
    }
    let error = std::io::Error::last_os_error();
    let number = error.raw_os_error().unwrap_or(0);
    if REFUSALS.contains(&number) { Came::Held(name(number)) } else { Came::Open(name(number)) }
}

/// The same where an error that is no refusal of rights is one here.
pub(crate) fn call_or(answer: i64, also: &[i32]) -> Came {
    let number = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
    match call(answer) {
        Came::Open(_) if answer < 0 && also.contains(&number) => Came::Held(name(number)),
        came => came,
    }
}

/// All of them must be held.
pub(crate) fn all(attempts: impl IntoIterator<Item = Came>) -> Came {
    let mut how = String::from("nothing to try");
    for came in attempts {
        match came {
            Came::Held(why) => how = why,
            open @ Came::Open(_) => return open,
        }
    }
    Came::Held(how)
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
        let answer: i64 = unsafe { libc::syscall($number $(, $argument)*) };
        answer
    }};
}
pub(crate) use sys;

pub(crate) fn text(words: &str) -> CString {
    CString::new(words).unwrap_or_default()
}

/// Opens a path and closes it again: a process that can open for writing can write.
pub(crate) fn open(path: &str, flags: i32) -> Came {
    let path = text(path);
    let number = sys!(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), flags | libc::O_CLOEXEC, 0o600);
    // A pipe without a reader and a device without hardware were found and let us in.
    call(number)
}

/// Runs an attempt in a process of its own, and prints a line.
pub(crate) fn report(kind: &str, attempt: &Attempt, about: &About) {
    let came = in_a_child(attempt, about).unwrap_or_else(|error| Came::Held(format!("not run: {error}")));
    let (word, why) = match &came {
        Came::Held(why) => ("held", why),
        Came::Open(why) => ("open", why),
    };
    #[allow(clippy::print_stdout, reason = "what this program is for")]
    {
        println!("{kind}\t{}\t{word}\t{why}", attempt.name);
    }
}

fn in_a_child(attempt: &Attempt, about: &About) -> std::io::Result<Came> {
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
            // What waits forever is out of nothing.
            libc::alarm(10);
            let (mark, why) = match (attempt.run)(about) {
                Came::Held(why) => ('h', why),
                Came::Open(why) => ('o', why),
            };
            let said = format!("{mark}{why}");
            libc::write(ends[1], said.as_ptr().cast(), said.len());
            libc::_exit(0);
        }
        libc::close(ends[1]);
        (child, std::fs::File::from_raw_fd(ends[0]))
    };
    let mut said = String::new();
    pipe.read_to_string(&mut said)?;
    let mut status = 0;
    // SAFETY: it waits for a child of ours and writes one number.
    #[allow(unsafe_code, reason = "the number came from the call above")]
    unsafe {
        libc::waitpid(child, &raw mut status, 0);
    }
    Ok(match said.split_at_checked(1) {
        Some(("h", why)) => Came::Held(why.to_owned()),
        Some(("o", why)) => Came::Open(why.to_owned()),
        _ if libc::WIFSIGNALED(status) => Came::Held("killed".into()),
        _ => Came::Open("it ended without a word".into()),
    })
}
