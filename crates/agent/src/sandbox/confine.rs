//! Restricts a process between fork and exec: resource limits, privileges, system call filters.
//!
//! Each function only removes rights. They run in a process with one thread. Start at [`command`].

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

/// Resource limits that the kernel enforces per process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProcessLimits {
    data_bytes: Option<u64>,
    file_bytes: Option<u64>,
    /// Limit for all processes of the server's user; not set for root.
    processes: Option<u64>,
    /// Whether the command may delete but not write files.
    is_full: bool,
}

impl ProcessLimits {
    pub(crate) fn of(plan: &SandboxPlan, is_full: bool) -> ProcessLimits {
        match plan.layer {
            Layer::Off => {
                ProcessLimits { data_bytes: None, file_bytes: None, processes: None, is_full: false }
            }
            // The warden polls the sum over all processes. This limit stops one process that allocates faster than it
            // polls.
            _ => ProcessLimits {
                data_bytes: Some(plan.memory_bytes.saturating_mul(2)),
                file_bytes: Some(plan.file_bytes),
                // Bubblewrap itself must write files, so its inner stage sets this limit.
                is_full: is_full && plan.layer != Layer::Bwrap,
                // Other processes of the same user count too, so the limit leaves room for them.
                processes: match CommandUser::of_this_warden() {
                    // Only this command runs as that user. The slack lets the warden see that the limit is exceeded.
                    Some(_) if plan.layer == Layer::Bwrap => {
                        Some(limits::COMMAND_PROCESSES_ALONE_SLACK.saturating_add(plan.processes.into()))
                    }
                    _ => threads_of_user().map(|now| {
                        now.saturating_add(limits::COMMAND_PROCESSES_SLACK)
                            .saturating_add(plan.processes.into())
                    }),
                },
            },
        }
    }
}

/// The number of threads of this process's user; `None` for root, which the kernel does not limit.
fn threads_of_user() -> Option<u64> {
    use std::os::unix::fs::MetadataExt as _;
    let own = rustix::process::geteuid().as_raw();
    let processes = std::fs::read_dir("/proc").ok().filter(|_| own != 0)?;
    let ours = processes.flatten().filter(|entry| entry.metadata().is_ok_and(|data| data.uid() == own));
    let threads = ours.filter_map(|entry| std::fs::read_dir(entry.path().join("task")).ok());
    Some(threads.map(|threads| threads.count() as u64).sum())
}

/// Starts a session that ends with the warden, and sets the limits. All descriptors above 2 are closed on exec.
pub(crate) fn command(process_limits: &ProcessLimits) -> io::Result<()> {
    rustix::process::setsid()?;
    die_with_parent()?;
    // If memory runs out, the kernel kills the command before the server.
    std::fs::write("/proc/self/oom_score_adj", "1000").ok();
    // On a busy machine the warden and the server get CPU time first.
    rustix::process::setpriority_process(None, limits::COMMAND_NICENESS).ok();
    // A limit of 0 would still pass core dumps to a collector program of the machine; 1 does not.
    limit(Resource::Core, 1)?;
    // A command with real-time priority could starve everything else.
    limit(Resource::Rtprio, 0)?;
    limit(Resource::Nice, 0)?;
    limit_open_files()?;
    limit(Resource::Memlock, limits::COMMAND_LOCKED_BYTES)?;
    limit(Resource::Sigpending, limits::COMMAND_SIGNALS_PENDING)?;
    limit(Resource::Msgqueue, limits::COMMAND_QUEUE_BYTES)?;
    if let Some(bytes) = process_limits.data_bytes {
        limit(Resource::Data, bytes)?;
    }
    if let Some(processes) = process_limits.processes {
        limit(Resource::Nproc, processes)?;
    }
    if let Some(bytes) = process_limits.file_bytes {
        limit(Resource::Fsize, bytes)?;
    }
    if process_limits.is_full {
        forbid_writes()?;
    }
    close_on_exec()
}

/// Prevents any write to a file by this process. Writes fail with an error instead of a signal.
fn forbid_writes() -> io::Result<()> {
    // SAFETY: it names a signal and no function.
    #[expect(unsafe_code, reason = "there is no wrapper for it")]
    let was = unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    if was == libc::SIG_ERR {
        return Err(io::Error::last_os_error());
    }
    limit(Resource::Fsize, 0)
}

/// The kernel clears this setting whenever the process changes its user.
pub(crate) fn die_with_parent() -> io::Result<()> {
    Ok(rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?)
}

/// Restricts the command inside bubblewrap, which inherits the other limits. If the server is root, the command becomes
/// an unprivileged user that may enter the workspace.
pub(crate) fn inner_command(
    user: Option<u32>,
    is_full: bool,
    workspace: &Path,
    rules: Option<RulesetCreated>,
) -> io::Result<()> {
    rustix::process::setsid()?;
    if let Some(user) = user {
        clear_bounding_set()?;
        become_user(user)?;
    }
    drop_privileges()?;
    std::env::set_current_dir(workspace)?;
    if let Some(rules) = rules {
        super::landlock::enforce_best_effort(rules)?;
    }
    if is_full {
        forbid_writes()?;
    }
    close_on_exec()
}

/// Drops all capabilities, so that no program can gain one.
pub(crate) fn drop_privileges() -> io::Result<()> {
    rustix::thread::set_no_new_privs(true)?;
    rustix::thread::clear_ambient_capability_set()?;
    clear_bounding_set()?;
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    rustix::thread::set_capabilities(None, sets)?;
    Ok(())
}

/// Empties the bounding set, so that no program gains a capability. This needs CAP_SETPCAP; without it there are no
/// capabilities to gain.
fn clear_bounding_set() -> io::Result<()> {
    let held = rustix::thread::capabilities(None)?;
    if held.effective.contains(CapabilitySet::SETPCAP) {
        let bits = CapabilitiesSecureBits::NO_ROOT
            | CapabilitiesSecureBits::NO_ROOT_LOCKED
            | CapabilitiesSecureBits::NO_SETUID_FIXUP
            | CapabilitiesSecureBits::NO_SETUID_FIXUP_LOCKED;
        rustix::thread::set_capabilities_secure_bits(bits)?;
        for number in 0..u64::BITS {
            let capability = CapabilitySet::from_bits_retain(1 << number);
            match rustix::thread::capability_is_in_bounding_set(capability) {
                Ok(true) => rustix::thread::remove_capability_from_bounding_set(capability)?,
                Ok(false) => {}
                // The kernel has no further capabilities.
                Err(_) => break,
            }
        }
    }
    Ok(())
}

pub(crate) fn filter(filters: &[seccompiler::BpfProgram]) -> io::Result<()> {
    filters.iter().try_for_each(|filter| seccompiler::apply_filter(filter).map_err(io::Error::other))
}

fn limit(resource: Resource, value: u64) -> io::Result<()> {
    let current = rustix::process::getrlimit(resource).maximum;
    let value = Some(current.map_or(value, |current| current.min(value)));
    Ok(rustix::process::setrlimit(resource, Rlimit { current: value, maximum: value })?)
}

/// Keeps the usual limit for commands, not the higher one that the server sets for its connections.
fn limit_open_files() -> io::Result<()> {
    let held = rustix::process::getrlimit(Resource::Nofile);
    let lower = |held: Option<u64>| {
        Some(held.map_or(limits::COMMAND_OPEN_FILES, |held| held.min(limits::COMMAND_OPEN_FILES)))
    };
    let lowered = Rlimit { current: lower(held.current), maximum: lower(held.maximum) };
    Ok(rustix::process::setrlimit(Resource::Nofile, lowered)?)
}

/// Closes inherited descriptors on exec.
fn close_on_exec() -> io::Result<()> {
    // SAFETY: it changes a flag of descriptors and touches no memory.
    #[expect(unsafe_code, reason = "there is no wrapper for it")]
    let done =
        unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Lets the child inherit a descriptor.
pub(crate) fn inherit(number: RawFd) -> io::Result<()> {
    // SAFETY: the number is of a descriptor that the caller holds.
    #[expect(unsafe_code, reason = "the child knows numbers only")]
    let fd = unsafe { BorrowedFd::borrow_raw(number) };
    Ok(rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::empty())?)
}

/// Takes ownership of an inherited descriptor and closes it on exec.
pub(crate) fn adopt(number: RawFd) -> io::Result<File> {
    // SAFETY: the caller was given the number as its own, and takes it once.
    #[expect(unsafe_code, reason = "a started process knows numbers only")]
    let file = unsafe { File::from_raw_fd(number) };
    rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::CLOEXEC)?;
    Ok(file)
}
