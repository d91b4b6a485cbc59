//! System calls that no command needs, refused by the kernel on every layer.
//!
//! They reach other processes, other namespaces, the kernel itself, or the network without a socket that could be
//! refused. Look at [`filters`]. Filters see numbers and not what pointers point to: what depends on a path is
//! the layer's to hold.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Len, SeccompCmpOp as Op, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};

use super::plan::Layer;

/// Never needed, always refused.
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

/// Reach other processes of the same user, or outlive the command, where there are no namespaces to hold them.
const REFUSED_WITHOUT_NAMESPACES: &[libc::c_long] = &[
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    libc::SYS_msgget,
    libc::SYS_semget,
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
];

/// Said not to be there at all: whoever asks has another way. `clone3` and `openat2` keep behind a pointer what
/// must be seen.
const ABSENT: &[libc::c_long] = &[
    libc::SYS_clone3,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_openat2,
];

/// Where calls have the mode of a file: it may not make a program that runs as whoever owns it, which anybody
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

/// Terminal commands that write into the input of whoever uses the terminal.
const TERMINAL: &[u64] = &[libc::TIOCSTI, libc::TIOCLINUX];

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

/// Why a filter could not be made.
pub(crate) type Broken = seccompiler::BackendError;

/// The filters of a layer, in the order in which they are put on.
pub(crate) fn filters(layer: Layer, network: bool) -> Result<Vec<BpfProgram>, Broken> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    for number in REFUSED.iter().chain(REFUSED_HERE) {
        rules.insert(*number, Vec::new());
    }
    for flag in NAMESPACES {
        let flag = u64::from(flag.unsigned_abs());
        for call in [libc::SYS_unshare, libc::SYS_clone] {
            rules.entry(call).or_default().push(when(&[(0, Op::MaskedEq(flag), flag)])?);
        }
    }
    rules.entry(libc::SYS_unshare).or_default().push(when(&[(0, Op::MaskedEq(NEWTIME), NEWTIME)])?);
    for request in TERMINAL {
        rules.entry(libc::SYS_ioctl).or_default().push(when(&[(1, Op::Eq, *request)])?);
    }
    let owner_runs = (Op::MaskedEq(u64::from(libc::S_ISUID)), u64::from(libc::S_ISUID));
    for (number, place, flags) in MODES {
        let rules = rules.entry(*number).or_default();
        let Some(flags) = flags else {
            rules.push(when(&[(*place, owner_runs.0.clone(), owner_runs.1)])?);
            continue;
        };
        // A file without a name needs a mode, too.
        for makes in [libc::O_CREAT, libc::O_TMPFILE & !libc::O_DIRECTORY] {
            let makes = u64::from(makes.unsigned_abs());
            let both = [(*place, owner_runs.0.clone(), owner_runs.1), (*flags, Op::MaskedEq(makes), makes)];
            rules.push(when(&both)?);
        }
    }
    // A socket of a file is not held by Landlock, and one without a file crosses a shared network.
    let unix = layer == Layer::Bwrap && !network;
    let mut families: Vec<libc::c_int> = Vec::new();
    if unix {
        families.push(libc::AF_UNIX);
    }
    if network {
        families.extend([libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK]);
        let netlink = u64::from(libc::AF_NETLINK.unsigned_abs());
        // Only the family that tells addresses and routes.
        rules
            .entry(libc::SYS_socket)
            .or_default()
            .push(when(&[(0, Op::Eq, netlink), (2, Op::Ne, u64::from(libc::NETLINK_ROUTE.unsigned_abs()))])?);
    }
    let others: Vec<_> =
        families.iter().map(|family| (0, Op::Ne, u64::from(family.unsigned_abs()))).collect();
    if others.is_empty() {
        rules.insert(libc::SYS_socket, Vec::new());
    } else {
        rules.entry(libc::SYS_socket).or_default().push(when(&others)?);
    }
    // A pair of sockets reaches nobody.
    let pair = u64::from(libc::AF_UNIX.unsigned_abs());
    rules.entry(libc::SYS_socketpair).or_default().push(when(&[(0, Op::Ne, pair)])?);
    if layer != Layer::Bwrap {
        for number in REFUSED_WITHOUT_NAMESPACES {
            rules.insert(*number, Vec::new());
        }
        for (number, place) in OTHERS {
            rules.entry(*number).or_default().push(when(&[(*place, Op::Ne, 0)])?);
        }
    }
    let absent = ABSENT.iter().map(|number| (*number, Vec::new())).collect();
    Ok(vec![filter(rules, libc::EPERM)?, filter(absent, libc::ENOSYS)?])
}

/// All of the conditions at once: place of the argument, comparison, value. The kernel looks at 32 bits of these.
fn when(conditions: &[(u8, Op, u64)]) -> Result<SeccompRule, Broken> {
    let conditions = conditions
        .iter()
        .map(|(place, op, value)| SeccompCondition::new(*place, Len::Dword, op.clone(), *value))
        .collect::<Result<_, _>>()?;
    SeccompRule::new(conditions)
}

fn filter(rules: BTreeMap<i64, Vec<SeccompRule>>, errno: libc::c_int) -> Result<BpfProgram, Broken> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let refusal = SeccompAction::Errno(errno.unsigned_abs());
    let program: BpfProgram = SeccompFilter::new(rules, SeccompAction::Allow, refusal, arch)?.try_into()?;
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
