//! Limits of commands and of the sandbox that enforces them. Each constant documents what happens when it is reached.

use std::time::Duration;

/// Default memory limit for all processes of a command. A command that exceeds it is killed and fails with
/// `memory_limit`.
pub const COMMAND_MEMORY_BYTES: u64 = 4 << 30;

/// Memory of the warden, which the kernel counts with the command's.
pub const COMMAND_MEMORY_SLACK_BYTES: u64 = 32 << 20;

/// Default limit of processes and threads of a command. A command that exceeds it is killed and fails with
/// `process_limit`.
pub const COMMAND_PROCESSES: u32 = 512;

/// Slack for processes and threads of an ordinary user, beyond those at the start of the command and those that the
/// command may have. At the limit the command can start no more.
pub const COMMAND_PROCESSES_SLACK: u64 = 2_048;

/// Slack if the command has its own user, as when the server is root. At the limit the command can start no more.
pub const COMMAND_PROCESSES_ALONE_SLACK: u64 = 8;

/// Names that are tried for the control group of a command, if groups of earlier processes with the same number exist.
/// Then the command has no group, and is not started if the log promises one.
pub const COMMAND_GROUP_NAMES: usize = 16;

/// Files that one process of a command may have open. At the limit opening fails.
pub const COMMAND_OPEN_FILES: u64 = 65_536;

/// Memory that processes of a command may lock. Beyond it locking fails.
pub const COMMAND_LOCKED_BYTES: u64 = 64 << 20;

/// Pending signals and timers of a user's processes. Beyond it a command cannot queue another signal.
pub const COMMAND_SIGNALS_PENDING: u64 = 32_768;

/// Bytes in POSIX message queues of a user. Beyond it a command cannot create another queue.
pub const COMMAND_QUEUE_BYTES: u64 = 800 << 10;

/// Default size limit of a file. Writing beyond it fails.
pub const COMMAND_FILE_BYTES: u64 = 8 << 30;

/// Default size of a command's `/tmp`, if it is in memory. Writing beyond it fails.
pub const COMMAND_TMP_BYTES: u64 = 1 << 30;

/// Default disk usage of a workspace: the whole copy, or for a folder used in place, what was added to it. A command
/// that exceeds it is killed and fails with `workspace_limit`; the next one can delete but not write.
pub const COMMAND_WORKSPACE_BYTES: u64 = 10 << 30;

/// Files and folders in a workspace, counted in the same way. More fail with `workspace_limit` too.
pub const COMMAND_WORKSPACE_ENTRIES: u64 = 2_000_000;

/// Free bytes on the workspace's disk that commands must not use, at most 1/50 of the disk. A command that uses them is
/// killed and fails with `workspace_limit`; one that starts then can delete but not write.
pub const COMMAND_DISK_RESERVE_BYTES: u64 = 256 << 20;

/// Free inodes on the workspace's disk that commands must not use, at most 1/50 of all. The consequences are the same.
/// A disk that does not count inodes has no such limit.
pub const COMMAND_DISK_RESERVE_ENTRIES: u64 = 16_384;

/// Bytes by which a full workspace may grow while a command deletes files. Beyond it the command is killed.
pub const WORKSPACE_DELETING_BYTES: u64 = 16 << 20;

/// Files and folders by which a full workspace may grow in the same time. Beyond it the command is killed.
pub const WORKSPACE_DELETING_ENTRIES: u64 = 1_000;

/// Files and folders measured per polling round. The rest waits for the next round.
pub const WORKSPACE_ENTRIES_AT_ONCE: usize = 2_000;

/// Files with several hard links that a measurement remembers. Beyond it each link counts as a file.
pub const WORKSPACE_LINKS_MAX: usize = 400_000;

/// How long a workspace is measured before a command starts or after it ended. After this time the command starts and
/// is limited by the growth of disk usage while the measurement continues; after a command an estimate is used.
pub const WORKSPACE_MEASURE_WAIT: Duration = Duration::from_secs(2);

/// How long a workspace is measured before a command if an estimate shows it as full. After this time the command
/// can delete but not write.
pub const WORKSPACE_MEASURE_WAIT_IN_DOUBT: Duration = Duration::from_secs(10);

/// The interval at which the workspace is measured although disk usage did not grow.
pub const WORKSPACE_MEASURE_EVERY: Duration = Duration::from_secs(60);

/// How long the measured usage of a workspace stays valid. Then it is measured again before the next command.
pub const WORKSPACE_KNOWN_FOR: Duration = Duration::from_secs(600);

/// Workspaces whose usage is remembered. Beyond it all of them are measured again.
pub const WORKSPACES_KNOWN_MAX: usize = 10_000;

/// How long the warden may take after the grace period of a command. Then the warden is killed.
pub const WARDEN_PATIENCE: Duration = Duration::from_secs(5);

/// How long a command may take to start. Then the start fails.
pub const START_WAIT: Duration = Duration::from_secs(20);

/// How often a warden polls what the processes of a command use. Between two polls a command may exceed its limits.
pub const TREE_POLL_EVERY: Duration = Duration::from_millis(20);

/// The nice value of commands, which lowers their CPU priority on a busy machine.
pub const COMMAND_NICENESS: i32 = 5;

/// Processes that one poll lists. More are not counted; no command may have that many.
pub const TREE_MEMBERS_MAX: usize = 100_000;

/// How often killed processes are checked.
pub const KILL_POLL_EVERY: Duration = Duration::from_millis(1);

/// Rounds of killing. A process that still exists then cannot be killed and is left to the operating system.
pub const KILL_ROUNDS_MAX: usize = 10_000;

/// Bytes of a sandbox plan. A command with a larger plan is not started.
pub const PLAN_BYTES_MAX: usize = 1 << 20;

/// Bytes of one report line of a warden. A longer line is treated as the end of the warden.
pub const WARDEN_REPORT_BYTES_MAX: usize = 16 << 10;

/// Rules of one Landlock ruleset. A command that needs more is not started.
pub const LANDLOCK_RULES_MAX: usize = 20_000;

/// Names that are tried for the private folder of a command. If all exist, the command is not started.
pub const PRIVATE_FOLDER_ATTEMPTS: u32 = 100;

/// Capacity of an output pipe in bytes. A command that writes more before it is read blocks.
pub const PIPE_BYTES: usize = 1 << 20;
