//! The list of system calls that a command may make, with the allowed `ioctl`, `fcntl` and `personality` requests.
//!
//! The list covers compilers, interpreters, package managers, version control and their tests. A call that is missing
//! here fails with `ENOSYS`. Arguments are checked in [`super::seccomp`]. Start at [`of`].

use super::plan::Layer;

/// Allowed on every layer.
const EVERYWHERE: &[libc::c_long] = &[
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_bind,
    libc::SYS_brk,
    libc::SYS_capget,
    libc::SYS_capset,
    libc::SYS_chdir,
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_clone,
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_connect,
    libc::SYS_copy_file_range,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2,
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_fadvise64,
    libc::SYS_fallocate,
    libc::SYS_fchdir,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_fcntl,
    libc::SYS_fdatasync,
    libc::SYS_fgetxattr,
    libc::SYS_flistxattr,
    libc::SYS_flock,
    libc::SYS_fremovexattr,
    libc::SYS_fsetxattr,
    libc::SYS_fstat,
    libc::SYS_fstatfs,
    libc::SYS_fsync,
    libc::SYS_ftruncate,
    libc::SYS_futex,
    libc::SYS_futex_waitv,
    libc::SYS_get_mempolicy,
    libc::SYS_get_robust_list,
    libc::SYS_getcpu,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getgroups,
    libc::SYS_getitimer,
    libc::SYS_getpeername,
    libc::SYS_getpgid,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getpriority,
    libc::SYS_getrandom,
    libc::SYS_getresgid,
    libc::SYS_getresuid,
    libc::SYS_getrlimit,
    libc::SYS_getrusage,
    libc::SYS_getsid,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_gettid,
    libc::SYS_gettimeofday,
    libc::SYS_getuid,
    libc::SYS_getxattr,
    libc::SYS_ioctl,
    libc::SYS_ioprio_get,
    libc::SYS_ioprio_set,
    libc::SYS_kill,
    libc::SYS_landlock_add_rule,
    libc::SYS_landlock_create_ruleset,
    libc::SYS_landlock_restrict_self,
    libc::SYS_lgetxattr,
    libc::SYS_linkat,
    libc::SYS_listen,
    libc::SYS_listxattr,
    libc::SYS_llistxattr,
    libc::SYS_lremovexattr,
    libc::SYS_lseek,
    libc::SYS_lsetxattr,
    libc::SYS_madvise,
    libc::SYS_mbind,
    libc::SYS_membarrier,
    libc::SYS_memfd_create,
    libc::SYS_mincore,
    libc::SYS_mkdirat,
    libc::SYS_mknodat,
    libc::SYS_mlock,
    libc::SYS_mlock2,
    libc::SYS_mlockall,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_msync,
    libc::SYS_munlock,
    libc::SYS_munlockall,
    libc::SYS_munmap,
    libc::SYS_nanosleep,
    libc::SYS_newfstatat,
    libc::SYS_openat,
    libc::SYS_personality,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_send_signal,
    libc::SYS_pipe2,
    libc::SYS_pkey_alloc,
    libc::SYS_pkey_free,
    libc::SYS_pkey_mprotect,
    libc::SYS_ppoll,
    libc::SYS_prctl,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_preadv2,
    libc::SYS_prlimit64,
    libc::SYS_pselect6,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_pwritev2,
    libc::SYS_read,
    libc::SYS_readahead,
    libc::SYS_readlinkat,
    libc::SYS_readv,
    libc::SYS_recvfrom,
    libc::SYS_recvmmsg,
    libc::SYS_recvmsg,
    libc::SYS_remap_file_pages,
    libc::SYS_removexattr,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigpending,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigsuspend,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_sched_get_priority_max,
    libc::SYS_sched_get_priority_min,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_getattr,
    libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler,
    libc::SYS_sched_rr_get_interval,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_yield,
    libc::SYS_seccomp,
    libc::SYS_sendfile,
    libc::SYS_sendmmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_set_mempolicy,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_setfsgid,
    libc::SYS_setfsuid,
    libc::SYS_setgid,
    libc::SYS_setgroups,
    libc::SYS_setitimer,
    libc::SYS_setpgid,
    libc::SYS_setpriority,
    libc::SYS_setregid,
    libc::SYS_setresgid,
    libc::SYS_setresuid,
    libc::SYS_setreuid,
    libc::SYS_setrlimit,
    libc::SYS_setsid,
    libc::SYS_setsockopt,
    libc::SYS_setuid,
    libc::SYS_setxattr,
    libc::SYS_shutdown,
    libc::SYS_sigaltstack,
    libc::SYS_signalfd4,
    libc::SYS_socket,
    libc::SYS_socketpair,
    libc::SYS_splice,
    libc::SYS_statfs,
    libc::SYS_statx,
    libc::SYS_symlinkat,
    libc::SYS_sync_file_range,
    libc::SYS_sysinfo,
    libc::SYS_tee,
    libc::SYS_tgkill,
    libc::SYS_timer_create,
    libc::SYS_timer_delete,
    libc::SYS_timer_getoverrun,
    libc::SYS_timer_gettime,
    libc::SYS_timer_settime,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_gettime,
    libc::SYS_timerfd_settime,
    libc::SYS_times,
    libc::SYS_tkill,
    libc::SYS_truncate,
    libc::SYS_umask,
    libc::SYS_uname,
    libc::SYS_unlinkat,
    libc::SYS_unshare,
    libc::SYS_utimensat,
    libc::SYS_vmsplice,
    libc::SYS_wait4,
    libc::SYS_waitid,
    libc::SYS_write,
    libc::SYS_writev,
];

/// Calls that `libc` does not name yet. The numbers are the same on every architecture.
const NEWER: &[libc::c_long] = &[
    452, // fchmodat2
    453, // map_shadow_stack
    454, // futex_wake
    455, // futex_wait
    456, // futex_requeue
    462, // mseal
    463, // setxattrat
    464, // getxattrat
    465, // listxattrat
    466, // removexattrat
];

/// Older calls that only this architecture has.
#[cfg(target_arch = "x86_64")]
const HERE: &[libc::c_long] = &[
    libc::SYS_access,
    libc::SYS_alarm,
    libc::SYS_arch_prctl,
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_creat,
    libc::SYS_dup2,
    libc::SYS_epoll_create,
    libc::SYS_epoll_wait,
    libc::SYS_eventfd,
    libc::SYS_fork,
    libc::SYS_futimesat,
    libc::SYS_getdents,
    libc::SYS_getpgrp,
    libc::SYS_lchown,
    libc::SYS_link,
    libc::SYS_lstat,
    libc::SYS_mkdir,
    libc::SYS_mknod,
    libc::SYS_open,
    libc::SYS_pause,
    libc::SYS_pipe,
    libc::SYS_poll,
    libc::SYS_readlink,
    libc::SYS_rename,
    libc::SYS_rmdir,
    libc::SYS_select,
    libc::SYS_signalfd,
    libc::SYS_stat,
    libc::SYS_symlink,
    libc::SYS_time,
    libc::SYS_unlink,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_vfork,
];
#[cfg(not(target_arch = "x86_64"))]
const HERE: &[libc::c_long] = &[];

/// Message queues, semaphores, shared memory and file watches. All processes of a user share them, so they are allowed
/// only where namespaces separate processes and files of others are hidden.
const WITH_NAMESPACES: &[libc::c_long] = &[
    libc::SYS_inotify_add_watch,
    libc::SYS_inotify_init1,
    libc::SYS_inotify_rm_watch,
    libc::SYS_mq_getsetattr,
    libc::SYS_mq_notify,
    libc::SYS_mq_open,
    libc::SYS_mq_timedreceive,
    libc::SYS_mq_timedsend,
    libc::SYS_mq_unlink,
    libc::SYS_msgctl,
    libc::SYS_msgget,
    libc::SYS_msgrcv,
    libc::SYS_msgsnd,
    libc::SYS_semctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_shmdt,
    libc::SYS_shmget,
];
#[cfg(target_arch = "x86_64")]
const WITH_NAMESPACES_HERE: &[libc::c_long] = &[libc::SYS_inotify_init];
#[cfg(not(target_arch = "x86_64"))]
const WITH_NAMESPACES_HERE: &[libc::c_long] = &[];

/// Calls that connect a socket to another process, or wait for a connection. They are useless without other sockets.
const FOR_SOCKETS: &[libc::c_long] =
    &[libc::SYS_accept, libc::SYS_accept4, libc::SYS_bind, libc::SYS_connect, libc::SYS_listen];

/// The calls that a layer allows.
pub(crate) fn of(layer: Layer, network: bool) -> Vec<libc::c_long> {
    let namespaces = layer == Layer::Bwrap;
    let mut known: Vec<libc::c_long> = [EVERYWHERE, NEWER, HERE].concat();
    if namespaces {
        known.extend([WITH_NAMESPACES, WITH_NAMESPACES_HERE].concat());
    }
    known.retain(|number| namespaces || network || !FOR_SOCKETS.contains(number));
    known
}

/// Allowed `ioctl` requests: own terminals, waiting bytes, descriptor flags, file copies and layout, network addresses.
/// The numbers are the same on all architectures that have a sandbox.
pub(crate) const IOCTLS: &[u64] = &[
    0x5401,
    0x5402,
    0x5403,
    0x5404, // TCGETS, TCSETS, TCSETSW, TCSETSF
    0x5405,
    0x5406,
    0x5407,
    0x5408, // TCGETA, TCSETA, TCSETAW, TCSETAF
    0x5409,
    0x540a,
    0x540b, // TCSBRK, TCXONC, TCFLSH
    0x540e,
    0x540f,
    0x5410,
    0x5411, // TIOCSCTTY, TIOCGPGRP, TIOCSPGRP, TIOCOUTQ
    0x5413,
    0x5414, // TIOCGWINSZ, TIOCSWINSZ
    0x541b,
    0x5421,
    0x5422,
    0x5429, // FIONREAD, FIONBIO, TIOCNOTTY, TIOCGSID
    0x802c_542a,
    0x402c_542b,
    0x402c_542c,
    0x402c_542d, // TCGETS2, TCSETS2, TCSETSW2, TCSETSF2
    0x8004_5430,
    0x4004_5431,
    0x5441, // TIOCGPTN, TIOCSPTLCK, TIOCGPTPEER
    0x5450,
    0x5451,
    0x5460, // FIONCLEX, FIOCLEX, FIOQSIZE
    0x4004_9409,
    0x4020_940d, // FICLONE, FICLONERANGE
    0x8008_6601,
    0xc020_660b, // FS_IOC_GETFLAGS, FS_IOC_FIEMAP
    0x8905,
    0x8910,
    0x8912,
    0x8913,
    0x8915, // SIOCATMARK, SIOCGIF: NAME, CONF, FLAGS, ADDR
    0x8919,
    0x891b,
    0x8921,
    0x8927,
    0x8933, // SIOCGIF: BRDADDR, NETMASK, MTU, HWADDR, INDEX
];

/// Allowed `fcntl` requests: no leases, no folder notifications, no signal owners.
pub(crate) const FCNTLS: &[u64] = &[
    0, 1, 2, 3, 4, 1030, // F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC
    5, 6, 7, 36, 37, 38, // locks: F_GETLK, F_SETLK, F_SETLKW, and those of open files
    9, 16, 11, // F_GETOWN, F_GETOWN_EX, F_GETSIG
    1028, 1031, 1032, // F_CREATED_QUERY, F_SETPIPE_SZ, F_GETPIPE_SZ
    1033, 1034, // F_ADD_SEALS, F_GET_SEALS
];

/// Allowed personalities: the default, the default without address randomization, and the query.
pub(crate) const PERSONALITIES: &[u64] = &[0, 0x0004_0000, 0xffff_ffff];
