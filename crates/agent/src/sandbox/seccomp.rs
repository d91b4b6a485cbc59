//! Builds the seccomp filters of a command, for every layer: which system calls and arguments are allowed.
//!
//! A call that is not in [`calls`] fails with `ENOSYS`, so new calls of later kernels are refused too. Known calls that
//! are forbidden fail with `EPERM`. Filters see numbers but not what pointers refer to; what depends on a path is
//! enforced by the layer. Start at [`filters`].

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Len, SeccompCmpOp as Op, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};

use super::calls;
use super::plan::{Layer, SandboxPlan};

/// `SYS_kexec_file_load`, which `libc` does not name for musl on arm64.
#[cfg(target_arch = "aarch64")]
const KEXEC_FILE_LOAD: libc::c_long = 294;
#[cfg(not(target_arch = "aarch64"))]
const KEXEC_FILE_LOAD: libc::c_long = libc::SYS_kexec_file_load;

/// Known and never needed. They fail with `EPERM`, which programs expect.
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
    KEXEC_FILE_LOAD,
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

/// Fail with `ENOSYS`, so that callers use an older call. `clone3` and `openat2` pass by pointer what the filters must
/// check.
const ABSENT: &[libc::c_long] = &[
    libc::SYS_clone3,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_openat2,
];

/// Index of the mode argument in each call. The mode must not set the setuid or setgid bit, because any process outside
/// could start the file. With the index of flags that decide whether the mode counts.
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

/// Not named by `libc` yet; the same on every architecture.
const FCHMODAT2: libc::c_long = 452;

/// Flags that create namespaces.
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

/// Calls that create devices, with the index of the mode.
const DEVICE_MAKERS: &[(libc::c_long, u8)] = &[
    (libc::SYS_mknodat, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, 1),
];

/// Calls whose argument at this index names a process. Only 0, the caller itself, is allowed.
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

/// Mask for the socket type, without the flags in the same argument.
const SOCKET_KIND: u64 = 0xf;

/// Why a filter could not be built.
pub(crate) type Broken = seccompiler::BackendError;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// The filters of a layer, in the order of installation. If several refuse a call, the last one decides the error.
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
        // Setting the limit of core dumps reports success without effect: core dumps are off.
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

/// Calls with many sub-requests.
fn commands(rules: &mut Rules) -> Result<(), Broken> {
    // The lists exclude file flags, input of other terminals, leases, signal owners and devices.
    rules.insert(libc::SYS_ioctl, vec![none_of(1, calls::IOCTLS)?]);
    rules.insert(libc::SYS_fcntl, vec![none_of(1, calls::FCNTLS)?]);
    rules.insert(libc::SYS_personality, vec![none_of(0, calls::PERSONALITIES)?]);
    // With its own listener the command could answer calls instead of the warden.
    let listener = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
    rules.insert(libc::SYS_seccomp, vec![when(&[(1, Op::MaskedEq(listener), listener)])?]);
    // "All processes of a user" would include those of the server.
    let user = libc::PRIO_USER as u64; // of another type with each C library
    rules.insert(libc::SYS_setpriority, vec![when(&[(0, Op::Eq, user)])?]);
    rules.insert(libc::SYS_ioprio_set, vec![when(&[(0, Op::Eq, IOPRIO_WHO_USER)])?]);
    Ok(())
}

/// Device files, and files with the setuid or setgid bit.
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
            // An unnamed file (`O_TMPFILE`) has a mode too.
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
    // Landlock does not cover Unix sockets, and an abstract socket crosses a shared network namespace. Readable folders
    // can contain sockets.
    if plan.layer == Layer::Bwrap && !plan.network && !plan.strict {
        families.push(number(libc::AF_UNIX));
    }
    if plan.network {
        families.extend([libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK].map(number));
        let netlink = number(libc::AF_NETLINK);
        let of_socket = rules.entry(libc::SYS_socket).or_default();
        // Only the netlink family for addresses and routes.
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
    // A socket pair reaches no other process, but a datagram socket could be sent to any address.
    let pairs = rules.entry(libc::SYS_socketpair).or_default();
    pairs.push(when(&[(0, Op::Ne, number(libc::AF_UNIX))])?);
    for kind in [libc::SOCK_DGRAM, libc::SOCK_RAW].map(number) {
        pairs.push(when(&[(1, Op::MaskedEq(SOCKET_KIND), kind)])?);
    }
    Ok(())
}

/// `SOCK_DCCP`.
const SOCK_DCCP: libc::c_int = 6;

/// A core limit of 1 byte disables core dumps, but with 0 the machine's collector still receives them. So the limit
/// must not change.
fn core_dumps() -> Result<Rules, Broken> {
    let core = libc::RLIMIT_CORE as u64; // of another type with each C library
    let changes = SeccompRule::new(vec![
        SeccompCondition::new(1, Len::Dword, Op::Eq, core)?,
        // A pointer: all 64 bits are compared.
        SeccompCondition::new(2, Len::Qword, Op::Ne, 0)?,
    ])?;
    Ok(BTreeMap::from([
        (libc::SYS_setrlimit, vec![when(&[(0, Op::Eq, core)])?]),
        (libc::SYS_prlimit64, vec![changes]),
    ]))
}

/// Reserving disk space would be too fast for polling. It fails as on file systems that do not support it, for which
/// programs have a fallback. Freeing space is allowed.
fn reservations() -> Result<Rules, Broken> {
    const PUNCH_HOLE_AND_KEEP_SIZE: u64 = 0x3;
    const COLLAPSE_RANGE: u64 = 0x8;
    let takes = none_of(1, &[PUNCH_HOLE_AND_KEEP_SIZE, COLLAPSE_RANGE])?;
    Ok(BTreeMap::from([(libc::SYS_fallocate, vec![takes])]))
}

/// Matches if an argument has none of these values.
fn none_of(place: u8, values: &[u64]) -> Result<SeccompRule, Broken> {
    let conditions: Vec<_> = values.iter().map(|value| (place, Op::Ne, *value)).collect();
    when(&conditions)
}

/// Matches if all conditions hold: argument index, comparison, value. The low 32 bits are compared.
fn when(conditions: &[(u8, Op, u64)]) -> Result<SeccompRule, Broken> {
    let conditions = conditions
        .iter()
        .map(|(place, op, value)| SeccompCondition::new(*place, Len::Dword, op.clone(), *value))
        .collect::<Result<_, _>>()?;
    SeccompRule::new(conditions)
}

/// Refuses calls that match the rules.
fn without(rules: Rules, errno: libc::c_int) -> Result<BpfProgram, Broken> {
    filter(rules, SeccompAction::Allow, SeccompAction::Errno(errno.unsigned_abs()))
}

/// Refuses calls that do not match the rules.
fn only(rules: Rules, errno: libc::c_int) -> Result<BpfProgram, Broken> {
    filter(rules, SeccompAction::Errno(errno.unsigned_abs()), SeccompAction::Allow)
}

fn filter(rules: Rules, others: SeccompAction, these: SeccompAction) -> Result<BpfProgram, Broken> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let program: BpfProgram = SeccompFilter::new(rules, others, these, arch)?.try_into()?;
    Ok(without_second_table(program))
}

/// On x86-64 every call has a second number in the x32 table. Those are refused entirely; otherwise the rules would
/// cover only one of the two.
fn without_second_table(program: BpfProgram) -> BpfProgram {
    if !cfg!(target_arch = "x86_64") {
        return program;
    }
    const SECOND_TABLE: u32 = 0x4000_0000;
    const LOAD_WORD: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS; the number comes first
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

/// Encodes a filter in the format that bubblewrap reads.
pub(crate) fn bytes(program: &BpfProgram) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(program.len() * 8);
    for step in program {
        bytes.extend(step.code.to_ne_bytes());
        bytes.extend([step.jt, step.jf]);
        bytes.extend(step.k.to_ne_bytes());
    }
    bytes
}
