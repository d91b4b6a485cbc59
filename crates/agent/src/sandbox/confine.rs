//! What a process does to itself between fork and exec: bounds, privileges, filters.
//!
//! Each function narrows and none widens. They run in a process that has one thread. Look at [`command`].

use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, FromRawFd as _, RawFd};

use rustix::process::{Resource, Rlimit, Signal};
use rustix::thread::{CapabilitiesSecureBits, CapabilitySet, CapabilitySets};

use super::plan::{Layer, Plan};
use crate::limits;

/// Bounds that the kernel keeps for each process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    data_bytes: Option<u64>,
    file_bytes: Option<u64>,
    /// Of all processes of whoever runs the server; root has none.
    processes: Option<u64>,
}

impl Bounds {
    pub(crate) fn of(plan: &Plan) -> Bounds {
        match plan.layer {
            Layer::Off => Bounds { data_bytes: None, file_bytes: None, processes: None },
            // The sum over all processes is watched; this stops one that takes faster than the watch looks.
            _ => Bounds {
                data_bytes: Some(plan.memory_bytes.saturating_mul(2)),
                file_bytes: Some(plan.file_bytes),
                // Others of the same person count, too: so much that they do not get in its way.
                processes: threads_of_ours().map(|now| {
                    now.saturating_add(limits::COMMAND_PROCESSES_SLACK).saturating_add(plan.processes.into())
                }),
            },
        }
    }
}

/// How many threads there are of whoever this process belongs to. Nobody bounds those of root.
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
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // When memory runs out, the command goes before the server does.
    std::fs::write("/proc/self/oom_score_adj", "1000").ok();
    // When everybody wants to run, the warden and the server come first.
    rustix::process::setpriority_process(None, limits::COMMAND_NICENESS).ok();
    limit(Resource::Core, 0)?;
    if let Some(bytes) = bounds.data_bytes {
        limit(Resource::Data, bytes)?;
    }
    if let Some(processes) = bounds.processes {
        limit(Resource::Nproc, processes)?;
    }
    if let Some(bytes) = bounds.file_bytes {
        limit(Resource::Fsize, bytes)?;
    }
    close_on_exec()
}

/// The same for the command inside of bubblewrap, which inherits the rest.
pub(crate) fn inner_command() -> io::Result<()> {
    rustix::process::setsid()?;
    close_on_exec()
}

/// No capabilities, and none to be had from any program.
pub(crate) fn drop_privileges() -> io::Result<()> {
    rustix::thread::set_no_new_privs(true)?;
    rustix::thread::clear_ambient_capability_set()?;
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
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    rustix::thread::set_capabilities(None, sets)?;
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

/// A descriptor that whoever started us left open goes no further.
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
