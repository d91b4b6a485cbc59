//! The system calls that a command may make, on every layer: those in a list, and of some of them only a part.
//!
//! What is not in [`calls`] is answered as a kernel answers that does not know it, so a call of next year's kernel
//! is refused, too. What programs know and may not do is refused as not permitted. Look at [`filters`]. Filters see
//! numbers and not what pointers point to: what depends on a path is the layer's to hold.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Len, SeccompCmpOp as Op, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};

use super::calls;
use super::plan::{Layer, SandboxPlan};

/// Known and never needed: refused as not permitted, which programs expect of them.
const REFUSED: &[libc::c_long] = &[
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_adjtimex,
    libc::SYS_bpf,
    libc::SYS_chroot,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_fanotify_init,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_init_module,
    libc::SYS_kcmp,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_lookup_dcookie,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pivot_root,
    libc::SYS_process_madvise,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_umount2,
    libc::SYS_userfaultfd,
    libc::SYS_vhangup,
];

#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[libc::c_long] = &[libc::SYS_ioperm, libc::SYS_iopl, libc::SYS_modify_ldt];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: &[libc::c_long] = &[];

/// Reported as not implemented: the caller has another way. `clone3` and `openat2` keep behind a pointer what
/// must be seen.
const ABSENT: &[libc::c_long] = &[
    libc::SYS_clone3,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_openat2,
];

/// Where calls have the mode of a file: it may not make a program that runs as its owner, which anybody
/// outside could start. With the place of flags that say whether the mode counts.
const MODES: &[(libc::c_long, u8, Option<u8>)] = &[
    (libc::SYS_fchmod, 1, None),
    (libc::SYS_fchmodat, 2, None),
    (FCHMODAT2, 2, None),
    (libc::SYS_mknodat, 2, None),
    (libc::SYS_openat, 3, Some(2)),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, 1, None),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, 1, None),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, 1, None),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 2, Some(1)),
];

/// The same on every architecture, and newer than the table of names.
const FCHMODAT2: libc::c_long = 452;

/// Flags that make namespaces.
const NAMESPACES: &[libc::c_int] = &[
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWUTS,
];

/// `CLONE_NEWTIME`, which shares its bit with the signal that `clone` sends.
const NEWTIME: u64 = 0x80;

/// Calls that make devices, with the place of the mode.
const DEVICE_MAKERS: &[(libc::c_long, u8)] = &[
    (libc::SYS_mknodat, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, 1),
];

/// Whose arguments name another process in the place given; they may name themselves, as 0, only.
const OTHERS: &[(libc::c_long, u8)] = &[
    (libc::SYS_prlimit64, 0),
    (libc::SYS_sched_setaffinity, 0),
    (libc::SYS_sched_setattr, 0),
    (libc::SYS_sched_setparam, 0),
    (libc::SYS_sched_setscheduler, 0),
    (libc::SYS_setpriority, 1),
    (libc::SYS_ioprio_set, 1),
];

/// `IOPRIO_WHO_USER`: all processes of a user, whatever started them.
const IOPRIO_WHO_USER: u64 = 3;

/// What kind a socket is of, without the flags that stand in the same argument.
const SOCKET_KIND: u64 = 0xf;

/// Why a filter could not be made.
pub(crate) type Broken = seccompiler::BackendError;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// The filters of a layer, in the order in which they are put on. Where several refuse, the last one says how.
pub(crate) fn filters(plan: &SandboxPlan) -> Result<Vec<BpfProgram>, Broken> {
    let (layer, network) = (plan.layer, plan.network);
    let known = calls::of(layer, network).into_iter().map(|number| (number, Vec::new())).collect();
    let mut rules = Rules::new();
    for number in REFUSED.iter().chain(REFUSED_HERE) {
        rules.insert(*number, Vec::new());
    }
    namespaces(&mut rules)?;
    commands(&mut rules)?;
    modes(&mut rules)?;
    sockets(&mut rules, plan)?;
    if layer != Layer::Bwrap {
        for (number, place) in OTHERS {
            rules.entry(*number).or_default().push(when(&[(*place, Op::Ne, 0)])?);
        }
    }
    let absent = ABSENT.iter().map(|number| (*number, Vec::new())).collect();
    Ok(vec![
        only(known, libc::ENOSYS)?,
        without(rules, libc::EPERM)?,
        without(absent, libc::ENOSYS)?,
        // Programs that want no core dump are told that they have none, which is so.
        without(core_dumps()?, 0)?,
        without(reservations()?, libc::EOPNOTSUPP)?,
    ])
}

fn namespaces(rules: &mut Rules) -> Result<(), Broken> {
    for flag in NAMESPACES {
        let flag = u64::from(flag.unsigned_abs());
        for call in [libc::SYS_unshare, libc::SYS_clone] {
            rules.entry(call).or_default().push(when(&[(0, Op::MaskedEq(flag), flag)])?);
        }
    }
    rules.entry(libc::SYS_unshare).or_default().push(when(&[(0, Op::MaskedEq(NEWTIME), NEWTIME)])?);
    Ok(())
}

/// Calls that are many in one.
fn commands(rules: &mut Rules) -> Result<(), Broken> {
    // Not in the lists: what changes flags of files and other terminals' input, leases, owners of signals, devices.
    rules.insert(libc::SYS_ioctl, vec![none_of(1, calls::IOCTLS)?]);
    rules.insert(libc::SYS_fcntl, vec![none_of(1, calls::FCNTLS)?]);
    rules.insert(libc::SYS_personality, vec![none_of(0, calls::PERSONALITIES)?]);
    // A listener of its own could answer calls in the warden's place.
    let listener = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
    rules.insert(libc::SYS_seccomp, vec![when(&[(1, Op::MaskedEq(listener), listener)])?]);
    // All processes of a user are those of the server, too.
    let user = u64::from(libc::PRIO_USER);
    rules.insert(libc::SYS_setpriority, vec![when(&[(0, Op::Eq, user)])?]);
    rules.insert(libc::SYS_ioprio_set, vec![when(&[(0, Op::Eq, IOPRIO_WHO_USER)])?]);
    Ok(())
}

/// Files that are more than files: devices, and programs that run as their owner or their group.
fn modes(rules: &mut Rules) -> Result<(), Broken> {
    for (number, place) in DEVICE_MAKERS {
        for kind in [libc::S_IFCHR, libc::S_IFBLK] {
            let kind = (*place, Op::MaskedEq(u64::from(libc::S_IFMT)), u64::from(kind));
            rules.entry(*number).or_default().push(when(&[kind])?);
        }
    }
    for (number, place, flags) in MODES {
        let rules = rules.entry(*number).or_default();
        for bit in [libc::S_ISUID, libc::S_ISGID].map(u64::from) {
            let runs_as_owner = (*place, Op::MaskedEq(bit), bit);
            let Some(flags) = flags else {
                rules.push(when(&[runs_as_owner])?);
                continue;
            };
            // A file without a name needs a mode, too.
            for makes in [libc::O_CREAT, libc::O_TMPFILE & !libc::O_DIRECTORY] {
                let makes = u64::from(makes.unsigned_abs());
                rules.push(when(&[runs_as_owner.clone(), (*flags, Op::MaskedEq(makes), makes)])?);
            }
        }
    }
    Ok(())
}

fn sockets(rules: &mut Rules, plan: &SandboxPlan) -> Result<(), Broken> {
    let number = |name: libc::c_int| u64::from(name.unsigned_abs());
    let mut families: Vec<u64> = Vec::new();
    // A socket of a file is not held by Landlock, and one without a file crosses a shared network. What may be read
    // can have sockets in it.
    if plan.layer == Layer::Bwrap && !plan.network && !plan.strict {
        families.push(number(libc::AF_UNIX));
    }
    if plan.network {
        families.extend([libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK].map(number));
        let netlink = number(libc::AF_NETLINK);
        let of_socket = rules.entry(libc::SYS_socket).or_default();
        // Only the family that tells addresses and routes.
        of_socket.push(when(&[(0, Op::Eq, netlink), (2, Op::Ne, number(libc::NETLINK_ROUTE))])?);
        for kind in [libc::SOCK_RAW, libc::SOCK_RDM, libc::SOCK_SEQPACKET, SOCK_DCCP].map(number) {
            let kind = (1, Op::MaskedEq(SOCKET_KIND), kind);
            of_socket.push(when(&[(0, Op::Ne, netlink), kind])?);
        }
    }
    if families.is_empty() {
        rules.insert(libc::SYS_socket, Vec::new());
    } else {
        rules.entry(libc::SYS_socket).or_default().push(none_of(0, &families)?);
    }
    // A pair of sockets reaches nobody, but one for datagrams can be turned to anybody.
    let pairs = rules.entry(libc::SYS_socketpair).or_default();
    pairs.push(when(&[(0, Op::Ne, number(libc::AF_UNIX))])?);
    for kind in [libc::SOCK_DGRAM, libc::SOCK_RAW].map(number) {
        pairs.push(when(&[(1, Op::MaskedEq(SOCKET_KIND), kind)])?);
    }
    Ok(())
}

/// `SOCK_DCCP`.
const SOCK_DCCP: libc::c_int = 6;

/// A core dump of 1 byte is none, and one of 0 is given to the program of the machine that collects them: so it is
/// not changed.
fn core_dumps() -> Result<Rules, Broken> {
    let core = u64::from(libc::RLIMIT_CORE);
    let changes = SeccompRule::new(vec![
        SeccompCondition::new(1, Len::Dword, Op::Eq, core)?,
        // A pointer, of which all bits count.
        SeccompCondition::new(2, Len::Qword, Op::Ne, 0)?,
    ])?;
    Ok(BTreeMap::from([
        (libc::SYS_setrlimit, vec![when(&[(0, Op::Eq, core)])?]),
        (libc::SYS_prlimit64, vec![changes]),
    ]))
}

/// Room on a disk cannot be taken without writing into it, which is too fast to be watched: as on file systems that do
/// not know it, for which programs have another way. Giving room back is something else.
fn reservations() -> Result<Rules, Broken> {
    const PUNCH_HOLE_AND_KEEP_SIZE: u64 = 0x3;
    const COLLAPSE_RANGE: u64 = 0x8;
    let takes = none_of(1, &[PUNCH_HOLE_AND_KEEP_SIZE, COLLAPSE_RANGE])?;
    Ok(BTreeMap::from([(libc::SYS_fallocate, vec![takes])]))
}

/// When an argument is none of these.
fn none_of(place: u8, values: &[u64]) -> Result<SeccompRule, Broken> {
    let conditions: Vec<_> = values.iter().map(|value| (place, Op::Ne, *value)).collect();
    when(&conditions)
}

/// All of the conditions at once: place of the argument, comparison, value. The kernel looks at 32 bits of these.
fn when(conditions: &[(u8, Op, u64)]) -> Result<SeccompRule, Broken> {
    let conditions = conditions
        .iter()
        .map(|(place, op, value)| SeccompCondition::new(*place, Len::Dword, op.clone(), *value))
        .collect::<Result<_, _>>()?;
    SeccompRule::new(conditions)
}

/// Refuses what the rules are about.
fn without(rules: Rules, errno: libc::c_int) -> Result<BpfProgram, Broken> {
    filter(rules, SeccompAction::Allow, SeccompAction::Errno(errno.unsigned_abs()))
}

/// Refuses what the rules are not about.
fn only(rules: Rules, errno: libc::c_int) -> Result<BpfProgram, Broken> {
    filter(rules, SeccompAction::Errno(errno.unsigned_abs()), SeccompAction::Allow)
}

fn filter(rules: Rules, others: SeccompAction, these: SeccompAction) -> Result<BpfProgram, Broken> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let program: BpfProgram = SeccompFilter::new(rules, others, these, arch)?.try_into()?;
    Ok(without_second_table(program))
}

/// On x86-64 every call has a second number, for programs with short pointers. They are refused as a whole:
/// else the rules above would hold for one of the two only.
fn without_second_table(program: BpfProgram) -> BpfProgram {
    if !cfg!(target_arch = "x86_64") {
        return program;
    }
    const SECOND_TABLE: u32 = 0x4000_0000;
    const LOAD_WORD: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS; the number stands first
    const JUMP_IF_AT_LEAST: u16 = 0x35; // BPF_JMP | BPF_JGE | BPF_K
    const RETURN: u16 = 0x06; // BPF_RET | BPF_K
    let refusal = u32::from(SeccompAction::Errno(libc::ENOSYS.unsigned_abs()));
    let mut whole = vec![
        sock_filter { code: LOAD_WORD, jt: 0, jf: 0, k: 0 },
        sock_filter { code: JUMP_IF_AT_LEAST, jt: 0, jf: 1, k: SECOND_TABLE },
        sock_filter { code: RETURN, jt: 0, jf: 0, k: refusal },
    ];
    whole.extend(program);
    whole
}

/// A filter as bubblewrap reads it from a file.
pub(crate) fn bytes(program: &BpfProgram) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(program.len() * 8);
    for step in program {
        bytes.extend(step.code.to_ne_bytes());
        bytes.extend([step.jt, step.jf]);
        bytes.extend(step.k.to_ne_bytes());
    }
    bytes
}
