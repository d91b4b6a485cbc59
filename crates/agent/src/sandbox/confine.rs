//! What a process does to itself between fork and exec: bounds, privileges, filters.
//!
//! Each function narrows and none widens. They run in a process that has one thread. Look at [`command`].

use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, FromRawFd as _, RawFd};
use std::path::Path;

use rustix::process::{Resource, Rlimit, Signal};
use rustix::thread::{CapabilitiesSecureBits, CapabilitySet, CapabilitySets};

use ::landlock::RulesetCreated;

use super::plan::{Layer, SandboxPlan};
use super::user::{CommandUser, become_user};
use crate::sandbox::limits;

/// Bounds that the kernel keeps for each process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    data_bytes: Option<u64>,
    file_bytes: Option<u64>,
    /// Of all processes of the user that runs the server; root has none.
    processes: Option<u64>,
    /// Whether the command may remove and not write.
    is_full: bool,
}

impl Bounds {
    pub(crate) fn of(plan: &SandboxPlan, is_full: bool) -> Bounds {
        match plan.layer {
            Layer::Off => Bounds { data_bytes: None, file_bytes: None, processes: None, is_full: false },
            // The sum over all processes is watched; this stops one that takes faster than the watch looks.
            _ => Bounds {
                data_bytes: Some(plan.memory_bytes.saturating_mul(2)),
                file_bytes: Some(plan.file_bytes),
                // Bubblewrap itself has to write something; its inner stage does this.
                is_full: is_full && plan.layer != Layer::Bwrap,
                // Others of the same person count, too: so much that they do not get in its way.
                processes: match CommandUser::of_this_warden() {
                    // Nobody else is that user. Some more, so that a command at the bound is seen to be beyond.
                    Some(_) if plan.layer == Layer::Bwrap => {
                        Some(limits::COMMAND_PROCESSES_ALONE_SLACK.saturating_add(plan.processes.into()))
                    }
                    _ => threads_of_ours().map(|now| {
                        now.saturating_add(limits::COMMAND_PROCESSES_SLACK)
                            .saturating_add(plan.processes.into())
                    }),
                },
            },
        }
    }
}

/// How many threads the user of this process has. Nobody bounds those of root.
fn threads_of_ours() -> Option<u64> {
    use std::os::unix::fs::MetadataExt as _;
    let own = rustix::process::geteuid().as_raw();
    let processes = std::fs::read_dir("/proc").ok().filter(|_| own != 0)?;
    let ours = processes.flatten().filter(|entry| entry.metadata().is_ok_and(|data| data.uid() == own));
    let threads = ours.filter_map(|entry| std::fs::read_dir(entry.path().join("task")).ok());
    Some(threads.map(|threads| threads.count() as u64).sum())
}

/// A session of its own, which dies with the warden, and its bounds. Descriptors but the first three go.
pub(crate) fn command(bounds: &Bounds) -> io::Result<()> {
    rustix::process::setsid()?;
    die_with_parent()?;
    // When memory runs out, the command goes before the server does.
    std::fs::write("/proc/self/oom_score_adj", "1000").ok();
    // When everybody wants to run, the warden and the server come first.
    rustix::process::setpriority_process(None, limits::COMMAND_NICENESS).ok();
    // Not even into a program of the machine that collects them, which 0 would let happen.
    limit(Resource::Core, 1)?;
    // A command that comes before everything else would be one that nothing can stop.
    limit(Resource::Rtprio, 0)?;
    limit(Resource::Nice, 0)?;
    limit_open_files()?;
    limit(Resource::Memlock, limits::COMMAND_LOCKED_BYTES)?;
    limit(Resource::Sigpending, limits::COMMAND_SIGNALS_WAITING)?;
    limit(Resource::Msgqueue, limits::COMMAND_QUEUE_BYTES)?;
    if let Some(bytes) = bounds.data_bytes {
        limit(Resource::Data, bytes)?;
    }
    if let Some(processes) = bounds.processes {
        limit(Resource::Nproc, processes)?;
    }
    if let Some(bytes) = bounds.file_bytes {
        limit(Resource::Fsize, bytes)?;
    }
    if bounds.is_full {
        write_nothing()?;
    }
    close_on_exec()
}

/// No file takes a byte more from this process. Writing is refused, rather than ended with a signal.
fn write_nothing() -> io::Result<()> {
    // SAFETY: it names a signal and no function.
    #[expect(unsafe_code, reason = "there is no wrapper for it")]
    let was = unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    if was == libc::SIG_ERR {
        return Err(io::Error::last_os_error());
    }
    limit(Resource::Fsize, 0)
}

/// Forgotten whenever this process becomes another user.
pub(crate) fn die_with_parent() -> io::Result<()> {
    Ok(rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?)
}

/// The same for the command inside of bubblewrap, which inherits the rest. Where the server is root the command
/// becomes a user that the inner stage is not, and who may enter the workspace.
pub(crate) fn inner_command(
    user: Option<u32>,
    is_full: bool,
    workspace: &Path,
    rules: Option<RulesetCreated>,
) -> io::Result<()> {
    rustix::process::setsid()?;
    if let Some(user) = user {
        leave_bounding_set()?;
        become_user(user)?;
    }
    drop_privileges()?;
    std::env::set_current_dir(workspace)?;
    if let Some(rules) = rules {
        super::landlock::enforce_what_there_is(rules)?;
    }
    if is_full {
        write_nothing()?;
    }
    close_on_exec()
}

/// No capabilities, and none to be had from any program.
pub(crate) fn drop_privileges() -> io::Result<()> {
    rustix::thread::set_no_new_privs(true)?;
    rustix::thread::clear_ambient_capability_set()?;
    leave_bounding_set()?;
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    rustix::thread::set_capabilities(None, sets)?;
    Ok(())
}

/// No program gives a capability any more. It takes one to do so; without it there is nothing to be had anyway.
fn leave_bounding_set() -> io::Result<()> {
    let held = rustix::thread::capabilities(None)?;
    if held.effective.contains(CapabilitySet::SETPCAP) {
        let bits = CapabilitiesSecureBits::NO_ROOT
            | CapabilitiesSecureBits::NO_ROOT_LOCKED
            | CapabilitiesSecureBits::NO_SETUID_FIXUP
            | CapabilitiesSecureBits::NO_SETUID_FIXUP_LOCKED;
        rustix::thread::set_capabilities_secure_bits(bits)?;
        for number in 0..u64::BITS {
            let one = CapabilitySet::from_bits_retain(1 << number);
            match rustix::thread::capability_is_in_bounding_set(one) {
                Ok(true) => rustix::thread::remove_capability_from_bounding_set(one)?,
                Ok(false) => {}
                // The kernel knows no more.
                Err(_) => break,
            }
        }
    }
    Ok(())
}

pub(crate) fn filter(filters: &[seccompiler::BpfProgram]) -> io::Result<()> {
    filters.iter().try_for_each(|filter| seccompiler::apply_filter(filter).map_err(io::Error::other))
}

fn limit(resource: Resource, most: u64) -> io::Result<()> {
    let held = rustix::process::getrlimit(resource).maximum;
    let most = Some(held.map_or(most, |held| held.min(most)));
    Ok(rustix::process::setrlimit(resource, Rlimit { current: most, maximum: most })?)
}

/// What is usual stays as it is; what the server has raised for its connections is not for commands.
fn limit_open_files() -> io::Result<()> {
    let held = rustix::process::getrlimit(Resource::Nofile);
    let most = |held: Option<u64>| {
        Some(held.map_or(limits::COMMAND_OPEN_FILES, |held| held.min(limits::COMMAND_OPEN_FILES)))
    };
    let bound = Rlimit { current: most(held.current), maximum: most(held.maximum) };
    Ok(rustix::process::setrlimit(Resource::Nofile, bound)?)
}

/// A descriptor that our parent process left open goes no further.
fn close_on_exec() -> io::Result<()> {
    // SAFETY: it changes a flag of descriptors and touches no memory.
    #[expect(unsafe_code, reason = "there is no wrapper for it")]
    let done =
        unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Lets a descriptor of ours be the child's, too.
pub(crate) fn inherit(number: RawFd) -> io::Result<()> {
    // SAFETY: the number is of a descriptor that the caller holds.
    #[expect(unsafe_code, reason = "the child knows numbers only")]
    let fd = unsafe { BorrowedFd::borrow_raw(number) };
    Ok(rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::empty())?)
}

/// Takes over a descriptor that was left open for us, and leaves it to nobody else.
pub(crate) fn adopt(number: RawFd) -> io::Result<File> {
    // SAFETY: the caller was given the number as its own, and takes it once.
    #[expect(unsafe_code, reason = "a started process knows numbers only")]
    let file = unsafe { File::from_raw_fd(number) };
    rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::CLOEXEC)?;
    Ok(file)
}
