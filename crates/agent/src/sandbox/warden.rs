//! The warden: a process that starts one command, enforces its limits and kills everything that the command leaves
//! running. It is this same program, started again.
//!
//! It has one thread, so it may do between fork and exec what a server must not. It communicates only with the server
//! that started it, and kills the command when the connection closes. Start at [`enter`].

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, WaitStatus};

use super::control_groups::{ControlGroups, GroupLimits};
use super::plan::{Exit, FullWorkspace, Layer, Limit, SandboxPlan, WardenReport, WardenRequest};
use super::quota::WorkspaceQuota;
use super::stage::MountCopies;
use super::tree::Tree;
use super::user::{self, CommandUser};
use super::{bwrap, confine, host_paths, landlock, modes, seccomp};
use crate::limits::TERM_GRACE;
use crate::sandbox::limits;

/// The first argument of this program when it starts as a warden.
pub(crate) const WARDEN_ARGUMENT: &str = "__sandbox";
/// The second argument of the inner stage of bubblewrap.
const INNER: &str = "inner";
/// Arguments of the inner stage: whether the workspace is full.
const FULL: &str = "full";
const NOT_FULL: &str = "room";

/// Whether the kernel limits the processes of a command, also for root.
pub(crate) fn limits_processes() -> bool {
    ControlGroups::would_enforce().processes
}

/// Whether the kernel limits the memory of a command as a whole, including files in memory.
pub(crate) fn limits_memory() -> bool {
    ControlGroups::would_enforce().memory
}

/// Kept while sandboxes exist, so that the kernel can limit commands.
pub(crate) type ControlGroupGuard = Option<std::sync::Arc<super::delegated::Delegated>>;

/// Prepares the control group that a service manager delegated.
pub(crate) fn acquire_group_guard() -> ControlGroupGuard {
    super::delegated::Delegated::acquire()
}

/// Whether commands run as another user because the server is root.
pub(crate) fn drops_root() -> bool {
    CommandUser::of_this_warden().is_some()
}

/// Whether the kernel has Landlock, which is then used in addition to bubblewrap.
pub(crate) fn has_landlock() -> bool {
    landlock::is_supported()
}

/// Does the warden's work if this process was started as a warden; otherwise returns `None` at once.
pub(crate) fn enter() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != WARDEN_ARGUMENT {
        return None;
    }
    let mut rest: Vec<OsString> = arguments.collect();
    let inner = rest.first().is_some_and(|word| word == INNER);
    let done = if inner { inner_stage(rest.split_off(1)) } else { run_warden() };
    Some(if done.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The connection to the server.
struct ServerLink {
    stream: UnixStream,
    read: Vec<u8>,
}

impl ServerLink {
    /// The connection is this process's standard input.
    fn open() -> io::Result<ServerLink> {
        let stream = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        Ok(ServerLink { stream, read: Vec::new() })
    }

    /// Receives the next value; `None` when the connection is closed. Blocks.
    fn next<T: serde::de::DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                return serde_json::from_slice(&line).map(Some).map_err(io::Error::other);
            }
            if self.read.len() > limits::PLAN_BYTES_MAX {
                return Err(io::Error::other("the sandbox plan exceeds its size limit"));
            }
            let mut piece = [0; 4096];
            match self.stream.read(&mut piece) {
                Ok(0) => return Ok(None),
                Ok(count) => self.read.extend_from_slice(&piece[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn has_more(&self) -> bool {
        self.read.contains(&b'\n')
    }

    fn send(&mut self, report: &WardenReport) -> io::Result<()> {
        let mut line = serde_json::to_vec(report).map_err(io::Error::other)?;
        line.push(b'\n');
        self.stream.write_all(&line)
    }
}

/// A running command.
struct Running {
    child: Pid,
    /// Becomes readable when the child ends.
    pidfd: OwnedFd,
    /// Reports of the inner stage, if there is one.
    inner: Option<OwnedFd>,
    /// The depth from which processes belong to the command, not to the layer.
    depth: usize,
    private: Option<PathBuf>,
    /// The listener for calls that this process performs for the command.
    calls: Option<OwnedFd>,
}

/// Checks that the kernel enforces the limits that the log promises.
fn check_limits(plan: &SandboxPlan, control_groups: Option<&ControlGroups>) -> Result<(), String> {
    match control_groups {
        Some(control_groups) if plan.memory_is_kept && !control_groups.enforced().memory => Err(format!(
            "the kernel no longer limits the memory of commands ({}); run the command again; if that does \
             not help, restart the server, which then polls memory itself (`memory=watched`)",
            control_groups.missing()
        )),
        _ => Ok(()),
    }
}

/// Runs one command from start to end.
fn run_warden() -> io::Result<()> {
    rustix::process::setsid().ok();
    // Orphans of the command become children of this process, not of init.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let mut server = ServerLink::open()?;
    let Some((first, mut input)) = modes::receive_byte(&server.stream)? else { return Ok(()) };
    server.read.push(first);
    let Some(plan) = server.next::<SandboxPlan>()? else { return Ok(()) };
    let group_limits = GroupLimits { processes: plan.processes, memory_bytes: plan.memory_bytes };
    let control_groups = (plan.layer != Layer::Off).then(|| ControlGroups::join(group_limits));
    if let Err(why) = check_limits(&plan, control_groups.as_ref()) {
        return server.send(&WardenReport::NotStarted { why });
    }
    let mut quota = (plan.layer != Layer::Off).then(|| WorkspaceQuota::start(&plan.workspace, plan.room));
    let full_at_start = quota.as_ref().and_then(WorkspaceQuota::full_at_start);
    let running = match start(&plan, full_at_start.is_some(), &mut input) {
        Ok(running) => running,
        Err(why) => {
            kill_all();
            return server.send(&WardenReport::NotStarted { why: why.to_string() });
        }
    };
    if let Some(control_groups) = &control_groups {
        control_groups.leave();
    }
    // The command has its own copies. While this process holds them, readers would not see the end.
    let null = std::fs::OpenOptions::new().write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    let mut running = running;
    if let (Some(quota), Some(private)) = (&mut quota, &running.private) {
        quota.add(private);
    }
    let ended = supervise(&mut server, &plan, &mut running, quota.as_mut());
    kill_all();
    if let Some(private) = &running.private {
        std::fs::remove_dir_all(private).ok();
    }
    let mut exit = ended?;
    if exit.limit.is_none() && control_groups.as_ref().is_some_and(ControlGroups::ran_out_of_memory) {
        // A command that succeeded was not killed by the kernel, even if its children were.
        if exit.code == Some(0) {
            exit.lost_to_memory = true;
        } else {
            exit.limit = Some(Limit::Memory);
        }
    }
    let (known, full_now) = quota.map(WorkspaceQuota::finish).unwrap_or_default();
    exit.full = exit
        .full
        .or_else(|| full_at_start.map(|why| FullWorkspace { why, at_start: true }))
        .or_else(|| full_now.map(|why| FullWorkspace { why, at_start: false }));
    server.send(&WardenReport::Ended(exit, known))
}

/// Starts the command with `input` as its standard input. No other process keeps `input`.
fn start(plan: &SandboxPlan, is_full: bool, input: &mut Option<OwnedFd>) -> io::Result<Running> {
    let stdin = input.take().map_or_else(Stdio::null, Stdio::from);
    let filters = seccomp::filters(plan).map_err(io::Error::other)?;
    match plan.layer {
        Layer::Off => {
            let mut command = command_of(plan, stdin);
            command.envs(plan.environment.iter().map(|(name, value)| (name, value)));
            let process_limits = confine::ProcessLimits::of(plan, is_full);
            // SAFETY: this process has one thread, so everything may be done after fork.
            #[expect(unsafe_code, reason = "the child must be bound before it becomes the command")]
            unsafe {
                command.pre_exec(move || confine::command(&process_limits));
            }
            running(command, None, 1, None)
        }
        Layer::Landlock => {
            let private = host_paths::private_folder("command")?;
            let mut command = command_of(plan, stdin);
            command.envs(plan.environment.iter().map(|(name, value)| (name, value)));
            command.env("HOME", private.join("home")).env("TMPDIR", private.join("tmp"));
            let mut rules = Some(landlock::rules(plan, &private)?);
            let process_limits = confine::ProcessLimits::of(plan, is_full);
            let (ours, theirs) = UnixStream::pair()?;
            let confine = move || {
                confine::command(&process_limits)?;
                confine::drop_privileges()?;
                let rules = rules.take().ok_or_else(|| io::Error::other("a command is started once"))?;
                landlock::enforce(rules)?;
                modes::hand_over(&theirs)?;
                confine::filter(&filters)
            };
            // SAFETY: this process has one thread, so everything may be done after fork.
            #[expect(unsafe_code, reason = "the child must be bound before it becomes the command")]
            unsafe {
                command.pre_exec(confine);
            }
            let started = running(command, None, 1, Some(private.clone()))
                .and_then(|running| Ok(Running { calls: Some(modes::receive(&ours)?), ..running }));
            if started.is_err() {
                std::fs::remove_dir_all(&private).ok();
            }
            started
        }
        Layer::Bwrap => start_in_bubblewrap(plan, is_full, &filters, stdin),
    }
}

fn start_in_bubblewrap(
    plan: &SandboxPlan,
    is_full: bool,
    filters: &[seccompiler::BpfProgram],
    stdin: Stdio,
) -> io::Result<Running> {
    let bwrap = plan.bwrap.as_ref().ok_or_else(|| io::Error::other("bwrap is not named"))?;
    let filters: Vec<OwnedFd> =
        filters.iter().map(|filter| memory_file(&seccomp::bytes(filter))).collect::<io::Result<_>>()?;
    let (inner, report_write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let own = CommandUser::of_this_warden().map(|user| RootSetup::prepare(plan, user)).transpose()?;
    let numbers: Vec<RawFd> = filters.iter().map(AsRawFd::as_raw_fd).collect();
    let files: Vec<(PathBuf, RawFd)> =
        own.iter().flat_map(|own| &own.files).map(path_and_descriptor).collect();
    let inherited =
        bwrap::Inherited { filters: &numbers, files: &files, stage: own.as_ref().map(|own| &own.stage) };
    let mut command = Command::new(bwrap);
    command.env_clear().stdin(stdin);
    command.args(bwrap::arguments(plan, &inherited));
    command.args([WARDEN_ARGUMENT, INNER]).arg(report_write.as_raw_fd().to_string());
    command.arg(own.as_ref().map_or(0, |_| user::ID_INSIDE).to_string());
    command.arg(if is_full { FULL } else { NOT_FULL }).arg(&plan.workspace);
    command.args(&plan.argv);
    let process_limits = confine::ProcessLimits::of(plan, is_full);
    let mut inherited_fds = numbers;
    inherited_fds.extend(files.iter().map(|(_, number)| *number));
    inherited_fds.push(report_write.as_raw_fd());
    // SAFETY: this process has one thread, so everything may be done after fork.
    #[expect(unsafe_code, reason = "the child must be bound before it becomes bubblewrap")]
    unsafe {
        command.pre_exec(move || {
            confine::command(&process_limits)?;
            if let Some(own) = &own {
                own.stage.set()?;
                user::enter(&own.namespace)?;
                // The change of user cleared the parent death signal.
                confine::die_with_parent()?;
                std::env::set_current_dir("/")?;
            }
            inherited_fds.iter().try_for_each(|number| confine::inherit(*number))
        });
    }
    // Depth 1 is bubblewrap, depth 2 is the inner stage.
    let mut running = running(command, Some(inner), 3, None)?;
    drop(report_write);
    let first = running.inner.as_ref().map(read_line).transpose()?.unwrap_or_default();
    match serde_json::from_slice(&first) {
        Ok(WardenReport::Started) => Ok(running),
        Ok(WardenReport::NotStarted { why }) => Err(io::Error::other(why)),
        _ => {
            running.inner = None;
            Err(io::Error::other("bubblewrap did not start the command; see its stderr"))
        }
    }
}

/// What is prepared for a command if the server is root.
struct RootSetup {
    stage: MountCopies,
    namespace: OwnedFd,
    files: Vec<(PathBuf, OwnedFd)>,
}

impl RootSetup {
    fn prepare(plan: &SandboxPlan, user: CommandUser) -> io::Result<RootSetup> {
        let mapping = user.mapping()?;
        let mut stage = MountCopies::default();
        stage.add(&plan.workspace, Some(&mapping))?;
        for path in &plan.granted {
            // In folders that the operator configured, the command may read what the server may read.
            if stage.add(path, Some(&mapping)).is_err() {
                stage.add(path, None)?;
            }
        }
        for path in plan.readable.iter().chain([&plan.helper]) {
            stage.add(path, None)?;
        }
        let mut files = Vec::new();
        for (path, line) in user::NAME_LINES {
            if let Some(text) = user::with_line(path, line) {
                files.push((PathBuf::from(path), memory_file(text.as_bytes())?));
            }
        }
        user.own_outputs()?;
        Ok(RootSetup { stage, namespace: user.namespace()?, files })
    }
}

fn path_and_descriptor((path, file): &(PathBuf, OwnedFd)) -> (PathBuf, RawFd) {
    (path.clone(), file.as_raw_fd())
}

fn command_of(plan: &SandboxPlan, stdin: Stdio) -> Command {
    let mut command = Command::new(&plan.argv[0]);
    command.args(&plan.argv[1..]).current_dir(&plan.cwd).env_clear().stdin(stdin);
    command
}

fn running(
    mut command: Command,
    inner: Option<OwnedFd>,
    depth: usize,
    private: Option<PathBuf>,
) -> io::Result<Running> {
    let child = command.spawn()?;
    let child = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let child = child.expect("a process that was started has a number");
    let pidfd = rustix::process::pidfd_open(child, PidfdFlags::empty())?;
    Ok(Running { child, pidfd, inner, depth, private, calls: None })
}

/// Creates a file in memory that bubblewrap can read.
fn memory_file(bytes: &[u8]) -> io::Result<OwnedFd> {
    let file = rustix::fs::memfd_create("recount", rustix::fs::MemfdFlags::CLOEXEC)?;
    let mut file = std::fs::File::from(file);
    file.write_all(bytes)?;
    io::Seek::rewind(&mut file)?;
    Ok(file.into())
}

/// Waits for the end of the command, a limit, or a request of the server.
fn supervise(
    server: &mut ServerLink,
    plan: &SandboxPlan,
    running: &mut Running,
    mut quota: Option<&mut WorkspaceQuota>,
) -> io::Result<Exit> {
    server.send(&WardenReport::Started)?;
    let own = rustix::process::getpid();
    let pause = Timespec::try_from(limits::TREE_POLL_EVERY).expect("it is short");
    let mut kill_at = None;
    let at_once = Timespec::default();
    let (mut limit, mut full) = (None, None);
    let writable: Vec<PathBuf> = running.private.iter().chain([&plan.workspace]).cloned().collect();
    loop {
        let mut polled =
            vec![PollFd::new(&running.pidfd, PollFlags::IN), PollFd::new(&server.stream, PollFlags::IN)];
        polled.extend(running.calls.as_ref().map(|calls| PollFd::new(calls, PollFlags::IN)));
        let measures = quota.as_ref().is_some_and(|quota| quota.is_measuring());
        match rustix::event::poll(&mut polled, Some(if measures { &at_once } else { &pause })) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let has_request = !polled[1].revents().is_empty();
        let called = polled.get(2).map_or(PollFlags::empty(), PollFd::revents);
        if called.contains(PollFlags::IN) {
            let goes_on = running.calls.as_ref().is_some_and(|calls| modes::handle(calls, &writable));
            running.calls = running.calls.take().filter(|_| goes_on);
        } else if !called.is_empty() {
            running.calls = None;
        }
        if let Some(status) = reap(running.child) {
            return Ok(Exit { limit, full, ..exit_of(running, status) });
        }
        if has_request || server.has_more() {
            match server.next::<WardenRequest>() {
                Ok(Some(WardenRequest::Stop)) => {
                    Tree::below(own, limits::TREE_MEMBERS_MAX).signal(running.depth, Signal::TERM);
                    kill_at.get_or_insert(recount_world::moment() + TERM_GRACE);
                }
                Ok(Some(WardenRequest::Kill) | None) | Err(_) => kill_tree(running),
            }
        }
        if kill_at.is_some_and(|at| recount_world::moment() >= at) {
            kill_tree(running);
        }
        if plan.layer != Layer::Off && limit.is_none() {
            let most = usize::try_from(plan.processes).unwrap_or(usize::MAX);
            let tree = Tree::below(own, most.saturating_add(running.depth));
            limit = exceeded_limit(plan, &tree, running.depth);
            if let (None, Some(quota)) = (limit, &mut quota) {
                let why = quota.poll(&tree);
                full = why.map(|why| FullWorkspace { why, at_start: false });
                limit = why.map(|_| Limit::Workspace);
            }
            if limit.is_some() {
                kill_tree(running);
            }
        }
    }
}

/// Which limit the processes of a command exceed.
fn exceeded_limit(plan: &SandboxPlan, tree: &Tree, depth: usize) -> Option<Limit> {
    let most = usize::try_from(plan.processes).unwrap_or(usize::MAX);
    if tree.count(depth) > most {
        return Some(Limit::Processes);
    }
    let usage = tree.usage(depth);
    if usage.threads > u64::from(plan.processes) {
        Some(Limit::Processes)
    } else if usage.memory_bytes > plan.memory_bytes {
        Some(Limit::Memory)
    } else {
        None
    }
}

/// Kills the command and all its descendants. Killing the first process of the namespace, a child of bubblewrap, ends
/// the whole namespace.
fn kill_tree(running: &Running) {
    let own = rustix::process::getpid();
    if running.depth > 1 {
        let few = Tree::below(own, running.depth);
        for member in few.members.iter().filter(|member| member.depth == 2) {
            rustix::process::kill_process(member.pid, Signal::KILL).ok();
        }
    }
    Tree::kill(own);
}

/// Kills until no descendant is left.
fn kill_all() {
    let pause = Timespec::try_from(limits::KILL_POLL_EVERY).expect("it is short");
    for _ in 0..limits::KILL_ROUNDS_MAX {
        Tree::kill(rustix::process::getpid());
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some(_)) => {}
                Ok(None) => break,
                // All descendants were adopted when their parents ended, so none is left.
                Err(_) => return,
            }
        }
        rustix::event::poll(&mut [], Some(&pause)).ok();
    }
}

/// Reaps the processes that ended. Returns how the child ended, when it was among them.
fn reap(child: Pid) -> Option<WaitStatus> {
    let mut found = None;
    while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
        if pid == child {
            found = Some(status);
        }
    }
    found
}

fn exit_of(running: &Running, status: WaitStatus) -> Exit {
    let outer = Exit { code: status.exit_status(), signal: status.terminating_signal(), ..Exit::default() };
    // Bubblewrap reports a death by signal as an exit code; the inner stage reports the signal. If the inner stage
    // reported nothing, it was killed with everything else.
    match running.inner.as_ref().map(read_line) {
        None => outer,
        Some(line) => match line.ok().and_then(|line| serde_json::from_slice(&line).ok()) {
            Some(WardenReport::Ended(exit, _)) => exit,
            _ => Exit { signal: Some(Signal::KILL.as_raw()), ..Exit::default() },
        },
    }
}

/// Reads up to the end of a line or of the pipe, one byte at a time: later bytes belong to the next reader.
fn read_line(pipe: &OwnedFd) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    let mut byte = [0];
    while line.len() < limits::WARDEN_REPORT_BYTES_MAX {
        match rustix::io::read(pipe, &mut byte) {
            Ok(0) => break,
            Ok(_) if byte[0] == b'\n' => break,
            Ok(_) => line.push(byte[0]),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(line)
}

/// Runs inside bubblewrap as the first process of the command's namespace. When it ends, all others there end too.
fn inner_stage(arguments: Vec<OsString>) -> io::Result<()> {
    let mut arguments = arguments.into_iter();
    let number = arguments.next().and_then(|word| word.to_str()?.parse::<RawFd>().ok());
    let number = number.ok_or_else(|| io::Error::other("the inner stage received no descriptor"))?;
    let mut pipe = confine::adopt(number)?;
    let user = arguments.next().and_then(|word| word.to_str()?.parse::<u32>().ok());
    let user = user.ok_or_else(|| io::Error::other("the inner stage received no user"))?;
    let user = Some(user).filter(|user| *user != 0);
    let is_full = arguments.next().is_some_and(|word| word == FULL);
    let workspace = arguments.next().map(PathBuf::from);
    let workspace = workspace.ok_or_else(|| io::Error::other("the inner stage received no workspace"))?;
    let program = arguments.next().ok_or_else(|| io::Error::other("the inner stage received no command"))?;
    let mut rules = landlock::rules_within(&workspace)?;
    let mut command = Command::new(program);
    // Bubblewrap already has the command's input as its standard input.
    command.args(arguments).stdin(Stdio::inherit());
    // SAFETY: this process has one thread, so everything may be done after fork.
    #[expect(unsafe_code, reason = "the child must be bound before it becomes the command")]
    unsafe {
        command.pre_exec(move || confine::inner_command(user, is_full, &workspace, rules.take()));
    }
    let mut send_report = |report: &WardenReport| -> io::Result<()> {
        let mut line = serde_json::to_vec(report).map_err(io::Error::other)?;
        line.push(b'\n');
        pipe.write_all(&line)
    };
    let child = match command.spawn() {
        Ok(child) => child,
        Err(why) => return send_report(&WardenReport::NotStarted { why: why.to_string() }),
    };
    let child = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let child = child.expect("a process that was started has a number");
    // The capabilities were only needed to start the command.
    confine::drop_privileges()?;
    send_report(&WardenReport::Started)?;
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == child => {
                let (code, signal) = (status.exit_status(), status.terminating_signal());
                return send_report(&WardenReport::Ended(Exit { code, signal, ..Exit::default() }, None));
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
