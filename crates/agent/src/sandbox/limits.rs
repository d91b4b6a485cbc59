//! Limits of commands: what they may use, and how the sandbox enforces it. Each constant says what happens at it.
//!
//! Limits that several modules of the crate use are in `crate::limits`.

use std::time::Duration;

/// Memory of all processes of a command, where the settings do not say; one that takes more is killed and fails
/// with `memory_limit`.
pub const COMMAND_MEMORY_BYTES: u64 = 4 << 30;

/// Memory of the warden, which is counted with the command's where the kernel bounds it.
pub const COMMAND_MEMORY_SLACK_BYTES: u64 = 32 << 20;

/// Processes and threads of a command, where the settings do not say; one that starts more is killed and fails
/// with `process_limit`.
pub const COMMAND_PROCESSES: u32 = 512;

/// Processes and threads that an ordinary user may have beyond those at the start of a command and those that the
/// command is allowed; then the command can start no more.
pub const COMMAND_PROCESSES_SLACK: u64 = 2_048;

/// The same where the command has a user of its own, as where the server is root; then the command can start no more.
pub const COMMAND_PROCESSES_ALONE_SLACK: u64 = 8;

/// Names that are tried for the control group of a command, where others are left of processes with the same number; then the
/// command has none, and is not started where the log says that it has.
pub const COMMAND_GROUP_NAMES: usize = 16;

/// Files that one process of a command may have open; then it can open no more.
pub const COMMAND_OPEN_FILES: u64 = 65_536;

/// Memory that the processes of a command may keep from being put on a disk; more is refused.
pub const COMMAND_LOCKED_BYTES: u64 = 64 << 20;

/// Signals that may wait for the processes of a user, its timers among them, when one of a command queues another; then that
/// is refused.
pub const COMMAND_SIGNALS_WAITING: u64 = 32_768;

/// Bytes of queues of messages that a user may have when a command makes another; then that is refused.
pub const COMMAND_QUEUE_BYTES: u64 = 800 << 10;

/// The longest file that a command may write, where the settings do not say; writing on fails.
pub const COMMAND_FILE_BYTES: u64 = 8 << 30;

/// What a command's own `/tmp` holds, where it is memory and the settings do not say; writing on fails.
pub const COMMAND_TMP_BYTES: u64 = 1 << 30;

/// What a workspace may hold on the disk, where the settings do not say: a copy in all, a folder that is worked in itself
/// beside what was there. A command that writes more is killed and fails with `workspace_limit`; the next one may remove and
/// not write.
pub const COMMAND_WORKSPACE_BYTES: u64 = 10 << 30;

/// Files and folders that a workspace may hold, counted in the same way; more fail with `workspace_limit`, too.
pub const COMMAND_WORKSPACE_ENTRIES: u64 = 2_000_000;

/// Bytes of the workspace's disk that commands leave to others, and never more than a fiftieth of it; a command with which
/// it comes to less is killed and fails with `workspace_limit`, and one that begins then may remove and not write.
pub const COMMAND_DISK_RESERVE_BYTES: u64 = 256 << 20;

/// Files and folders for which the workspace's disk has places that commands leave to others, and never more than a fiftieth
/// of all it has; the same happens then. A disk that does not count them bounds none.
pub const COMMAND_DISK_RESERVE_ENTRIES: u64 = 16_384;

/// Bytes that a full workspace may grow by while a command removes something from it; then that is killed, too.
pub const WORKSPACE_REMOVING_BYTES: u64 = 16 << 20;

/// Files and folders by which it may grow meanwhile; then that is killed, too.
pub const WORKSPACE_REMOVING_ENTRIES: u64 = 1_000;

/// Files and folders that are measured between two looks at a command; the rest waits for the next look.
pub const WORKSPACE_ENTRIES_AT_ONCE: usize = 2_000;

/// Files with several names that a measurement remembers; beyond that each name counts as a file.
pub const WORKSPACE_LINKS_MAX: usize = 400_000;

/// How long a workspace is measured before a command begins or after it ended. Then a command begins, bounded by how much
/// fuller the disk gets while the measurement goes on beside it; and after one there is an estimate.
pub const WORKSPACE_MEASURE_WAIT: Duration = Duration::from_secs(2);

/// How long it is measured before a command where it is full by such an estimate; then the command may remove and not write.
pub const WORKSPACE_MEASURE_WAIT_IN_DOUBT: Duration = Duration::from_secs(10);

/// How long a command runs until its workspace is measured although the disk did not get fuller.
pub const WORKSPACE_MEASURE_EVERY: Duration = Duration::from_secs(60);

/// How long what a command left in its workspace counts as known; then it is measured again before the next one.
pub const WORKSPACE_KNOWN_FOR: Duration = Duration::from_secs(600);

/// Workspaces of which is remembered what they hold; beyond that all of them are measured again.
pub const WORKSPACES_KNOWN_MAX: usize = 10_000;

/// How long a command is waited for beyond that; then its warden is killed, too.
pub const WARDEN_PATIENCE: Duration = Duration::from_secs(5);

/// How long a command may take to start; then it is not started.
pub const START_WAIT: Duration = Duration::from_secs(20);

/// How often a warden looks what the processes of a command use. Between two looks a command may take more than
/// it is allowed.
pub const TREE_LOOK_EVERY: Duration = Duration::from_millis(20);

/// How far commands stand back when the machine is busy.
pub const COMMAND_NICENESS: i32 = 5;

/// Processes that one look finds; more are not counted, and are many more than any command may have.
pub const TREE_MEMBERS_MAX: usize = 100_000;

/// How often processes that were killed are looked for.
pub const KILL_LOOK_EVERY: Duration = Duration::from_millis(1);

/// Rounds of killing; a process that is still there then cannot be killed, and is left to the operating system.
pub const KILL_ROUNDS_MAX: usize = 10_000;

/// Bytes of what a warden is told of one command; more is not started.
pub const PLAN_BYTES_MAX: usize = 1 << 20;

/// Bytes of one line that a warden tells; a longer one is taken for its end.
pub const NEWS_BYTES_MAX: usize = 16 << 10;

/// Rules that one sandbox of Landlock takes; what needs more is not started.
pub const LANDLOCK_RULES_MAX: usize = 20_000;

/// Names tried for the private folder of a command; when all are taken it is not started.
pub const PRIVATE_FOLDER_ATTEMPTS: u32 = 100;

/// Bytes of a pipe of output; a command that writes more than that before it is read waits.
pub const PIPE_BYTES: usize = 1 << 20;
