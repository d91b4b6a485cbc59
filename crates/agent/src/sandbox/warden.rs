//! The warden: a process of ours that starts one command, holds it to its bounds and sees that nothing of it is
//! left. It is this program, started again.
//!
//! Look at [`enter`]. It has one thread, so that it may do between fork and exec what a server must not. It never
//! speaks to anyone but the server that started it, and ends the command when that is gone.

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, WaitStatus};

use super::crowd::{Crowd, Most};
use super::plan::{Exit, FullWorkspace, Layer, Limit, News, SandboxPlan, Wish};
use super::room::Room;
use super::stage::MountCopies;
use super::tree::Tree;
use super::user::{self, CommandUser};
use super::{bwrap, confine, landlock, modes, places, seccomp};
use crate::limits::TERM_GRACE;
use crate::sandbox::limits;

/// The first argument of this program when it is to be a warden.
pub(crate) const WORD: &str = "__sandbox";
/// The second, when it is to be the stage inside of bubblewrap.
const INNER: &str = "inner";
/// What the stage is told of the workspace: whether there is room in it.
const FULL: &str = "full";
const ROOM: &str = "room";

/// Whether the kernel bounds how many processes a command has, for root too.
pub(crate) fn bounds_processes() -> bool {
    Crowd::would_keep().processes
}

/// Whether the kernel bounds the memory of a command as a whole, files in memory included.
pub(crate) fn bounds_memory() -> bool {
    Crowd::would_keep().memory
}

/// What is held while there are sandboxes, so that the kernel can bound commands.
pub(crate) type Bounds = Option<std::sync::Arc<super::delegated::Delegated>>;

/// Makes ready what a service manager handed over for that.
pub(crate) fn take_bounds() -> Bounds {
    super::delegated::Delegated::take()
}

/// Whether commands are another user than the server, which is root.
pub(crate) fn drops_root() -> bool {
    CommandUser::of_this_warden().is_some()
}

/// Whether the kernel has Landlock, which bubblewrap is then a second border to.
pub(crate) fn has_landlock() -> bool {
    landlock::is_there()
}

/// Does a warden's work, when this process was started for that; else answers `None` at once.
pub(crate) fn enter() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != WORD {
        return None;
    }
    let mut rest: Vec<OsString> = arguments.collect();
    let inner = rest.first().is_some_and(|word| word == INNER);
    let done = if inner { inner_stage(rest.split_off(1)) } else { watch() };
    Some(if done.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The line to the server.
struct ServerLink {
    stream: UnixStream,
    read: Vec<u8>,
}

impl ServerLink {
    /// The server's end is this process's standard input.
    fn open() -> io::Result<ServerLink> {
        let stream = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        Ok(ServerLink { stream, read: Vec::new() })
    }

    /// The next value; `None` when the server is gone. Blocks.
    fn next<T: serde::de::DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                return serde_json::from_slice(&line).map(Some).map_err(io::Error::other);
            }
            if self.read.len() > limits::PLAN_BYTES_MAX {
                return Err(io::Error::other("a plan is longer than a plan may be"));
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

    fn tell(&mut self, news: &News) -> io::Result<()> {
        let mut line = serde_json::to_vec(news).map_err(io::Error::other)?;
        line.push(b'\n');
        self.stream.write_all(&line)
    }
}

/// A command that runs.
struct Running {
    child: Pid,
    /// Ready to be read when the child is gone.
    gone: OwnedFd,
    /// What the inner stage says, where there is one.
    inner: Option<OwnedFd>,
    /// From which depth on processes are the command's and not the layer's own.
    depth: usize,
    private: Option<PathBuf>,
    /// Where calls come in that this process does for the command.
    calls: Option<OwnedFd>,
}

/// Whether the kernel bounds as much of a command as the log says it does.
fn may_start(plan: &SandboxPlan, crowd: Option<&Crowd>) -> Result<(), String> {
    match crowd {
        Some(crowd) if plan.memory_is_kept && !crowd.kept().memory => Err(format!(
            "the kernel no longer bounds the memory of commands ({}); start the command again, and where that does \
             not help restart the server, which then looks at memory itself (`memory=watched`)",
            crowd.missing()
        )),
        _ => Ok(()),
    }
}

/// The warden's whole life.
fn watch() -> io::Result<()> {
    rustix::process::setsid().ok();
    // Orphans of the command come to us rather than to the first process.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let mut line = ServerLink::open()?;
    let Some((first, mut input)) = modes::receive_byte(&line.stream)? else { return Ok(()) };
    line.read.push(first);
    let Some(plan) = line.next::<SandboxPlan>()? else { return Ok(()) };
    let most = Most { processes: plan.processes, memory_bytes: plan.memory_bytes };
    let crowd = (plan.layer != Layer::Off).then(|| Crowd::join(most));
    if let Err(why) = may_start(&plan, crowd.as_ref()) {
        return line.tell(&News::NotStarted { why });
    }
    let mut room = (plan.layer != Layer::Off).then(|| Room::begin(&plan.workspace, plan.room));
    let full_at_start = room.as_ref().and_then(Room::full_at_start);
    let running = match start(&plan, full_at_start.is_some(), &mut input) {
        Ok(running) => running,
        Err(why) => {
            kill_all();
            return line.tell(&News::NotStarted { why: why.to_string() });
        }
    };
    if let Some(crowd) = &crowd {
        crowd.step_out();
    }
    // The command has its own; while we hold them, its readers would not see their end.
    let null = std::fs::OpenOptions::new().write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    let mut running = running;
    if let (Some(room), Some(private)) = (&mut room, &running.private) {
        room.add(private);
    }
    let ended = hold(&mut line, &plan, &mut running, room.as_mut());
    kill_all();
    if let Some(private) = &running.private {
        std::fs::remove_dir_all(private).ok();
    }
    let mut exit = ended?;
    if exit.limit.is_none() && crowd.as_ref().is_some_and(Crowd::ran_out_of_memory) {
        // What ended well was not ended by the kernel, whatever became of its children.
        if exit.code == Some(0) {
            exit.lost_to_memory = true;
        } else {
            exit.limit = Some(Limit::Memory);
        }
    }
    let (known, full_now) = room.map(Room::end).unwrap_or_default();
    exit.full = exit
        .full
        .or_else(|| full_at_start.map(|why| FullWorkspace { why, at_start: true }))
        .or_else(|| full_now.map(|why| FullWorkspace { why, at_start: false }));
    line.tell(&News::Ended(exit, known))
}

/// Starts the command. It takes `input` as its standard input, if there is one, and nobody else keeps it.
fn start(plan: &SandboxPlan, is_full: bool, input: &mut Option<OwnedFd>) -> io::Result<Running> {
    let stdin = input.take().map_or_else(Stdio::null, Stdio::from);
    let filters = seccomp::filters(plan).map_err(io::Error::other)?;
    match plan.layer {
        Layer::Off => {
            let mut command = command_of(plan, stdin);
            command.envs(plan.environment.iter().map(|(name, value)| (name, value)));
            let bounds = confine::Bounds::of(plan, is_full);
            // SAFETY: this process has one thread, so everything may be done after fork.
            #[expect(unsafe_code, reason = "the child must be bound before it becomes the command")]
            unsafe {
                command.pre_exec(move || confine::command(&bounds));
            }
            running(command, None, 1, None)
        }
        Layer::Landlock => {
            let private = places::private_folder("command")?;
            let mut command = command_of(plan, stdin);
            command.envs(plan.environment.iter().map(|(name, value)| (name, value)));
            command.env("HOME", private.join("home")).env("TMPDIR", private.join("tmp"));
            let mut rules = Some(landlock::rules(plan, &private)?);
            let bounds = confine::Bounds::of(plan, is_full);
            let (ours, theirs) = UnixStream::pair()?;
            let confine = move || {
                confine::command(&bounds)?;
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
            let made = running(command, None, 1, Some(private.clone()))
                .and_then(|running| Ok(Running { calls: Some(modes::receive(&ours)?), ..running }));
            if made.is_err() {
                std::fs::remove_dir_all(&private).ok();
            }
            made
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
        filters.iter().map(|filter| in_memory(&seccomp::bytes(filter))).collect::<io::Result<_>>()?;
    let (inner, told) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let own = CommandUser::of_this_warden().map(|user| Own::make(plan, user)).transpose()?;
    let numbers: Vec<RawFd> = filters.iter().map(AsRawFd::as_raw_fd).collect();
    let files: Vec<(PathBuf, RawFd)> = own.iter().flat_map(|own| &own.files).map(numbered).collect();
    let inherited =
        bwrap::Inherited { filters: &numbers, files: &files, stage: own.as_ref().map(|own| &own.stage) };
    let mut command = Command::new(bwrap);
    command.env_clear().stdin(stdin);
    command.args(bwrap::arguments(plan, &inherited));
    command.args([WORD, INNER]).arg(told.as_raw_fd().to_string());
    command.arg(own.as_ref().map_or(0, |_| user::INSIDE).to_string());
    command.arg(if is_full { FULL } else { ROOM }).arg(&plan.workspace);
    command.args(&plan.argv);
    let bounds = confine::Bounds::of(plan, is_full);
    let mut kept = numbers;
    kept.extend(files.iter().map(|(_, number)| *number));
    kept.push(told.as_raw_fd());
    // SAFETY: this process has one thread, so everything may be done after fork.
    #[expect(unsafe_code, reason = "the child must be bound before it becomes bubblewrap")]
    unsafe {
        command.pre_exec(move || {
            confine::command(&bounds)?;
            if let Some(own) = &own {
                own.stage.set()?;
                user::enter(&own.namespace)?;
                // Another user's death sends nothing any more.
                confine::die_with_parent()?;
                std::env::set_current_dir("/")?;
            }
            kept.iter().try_for_each(|number| confine::inherit(*number))
        });
    }
    // Bubblewrap itself is one, the inner stage the other.
    let mut running = running(command, Some(inner), 3, None)?;
    drop(told);
    let first = running.inner.as_ref().map(read_line).transpose()?.unwrap_or_default();
    match serde_json::from_slice(&first) {
        Ok(News::Started) => Ok(running),
        Ok(News::NotStarted { why }) => Err(io::Error::other(why)),
        _ => {
            running.inner = None;
            Err(io::Error::other("bubblewrap did not start it; the command's stderr says why"))
        }
    }
}

/// What a command has of its own where the server is root.
struct Own {
    stage: MountCopies,
    namespace: OwnedFd,
    files: Vec<(PathBuf, OwnedFd)>,
}

impl Own {
    fn make(plan: &SandboxPlan, user: CommandUser) -> io::Result<Own> {
        let mapping = user.mapping()?;
        let mut stage = MountCopies::default();
        stage.add(&plan.workspace, Some(&mapping))?;
        for path in &plan.granted {
            // Of what the operator names, the command may read what the server may.
            if stage.add(path, Some(&mapping)).is_err() {
                stage.add(path, None)?;
            }
        }
        for path in plan.readable.iter().chain([&plan.helper]) {
            stage.add(path, None)?;
        }
        let mut files = Vec::new();
        for (path, line) in user::LINES {
            if let Some(text) = user::with_line(path, line) {
                files.push((PathBuf::from(path), in_memory(text.as_bytes())?));
            }
        }
        user.own_outputs()?;
        Ok(Own { stage, namespace: user.namespace()?, files })
    }
}

fn numbered((path, file): &(PathBuf, OwnedFd)) -> (PathBuf, RawFd) {
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
    let gone = rustix::process::pidfd_open(child, PidfdFlags::empty())?;
    Ok(Running { child, gone, inner, depth, private, calls: None })
}

/// Bytes as a file that bubblewrap can read.
fn in_memory(bytes: &[u8]) -> io::Result<OwnedFd> {
    let file = rustix::fs::memfd_create("recount", rustix::fs::MemfdFlags::CLOEXEC)?;
    let mut file = std::fs::File::from(file);
    file.write_all(bytes)?;
    io::Seek::rewind(&mut file)?;
    Ok(file.into())
}

/// Waits for the end of the command, its bounds, or the server's wish.
fn hold(
    line: &mut ServerLink,
    plan: &SandboxPlan,
    running: &mut Running,
    mut room: Option<&mut Room>,
) -> io::Result<Exit> {
    line.tell(&News::Started)?;
    let own = rustix::process::getpid();
    let pause = Timespec::try_from(limits::TREE_LOOK_EVERY).expect("it is short");
    let mut kill_at = None;
    let at_once = Timespec::default();
    let (mut limit, mut full) = (None, None);
    let writable: Vec<PathBuf> = running.private.iter().chain([&plan.workspace]).cloned().collect();
    loop {
        let mut polled =
            vec![PollFd::new(&running.gone, PollFlags::IN), PollFd::new(&line.stream, PollFlags::IN)];
        polled.extend(running.calls.as_ref().map(|calls| PollFd::new(calls, PollFlags::IN)));
        let measures = room.as_ref().is_some_and(|room| room.is_measuring());
        match rustix::event::poll(&mut polled, Some(if measures { &at_once } else { &pause })) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let said = !polled[1].revents().is_empty();
        let called = polled.get(2).map_or(PollFlags::empty(), PollFd::revents);
        if called.contains(PollFlags::IN) {
            let goes_on = running.calls.as_ref().is_some_and(|calls| modes::answer(calls, &writable));
            running.calls = running.calls.take().filter(|_| goes_on);
        } else if !called.is_empty() {
            running.calls = None;
        }
        if let Some(status) = bury(running.child) {
            return Ok(Exit { limit, full, ..how_it_ended(running, status) });
        }
        if said || line.has_more() {
            match line.next::<Wish>() {
                Ok(Some(Wish::Stop)) => {
                    Tree::below(own, limits::TREE_MEMBERS_MAX).signal(running.depth, Signal::TERM);
                    kill_at.get_or_insert(recount_world::moment() + TERM_GRACE);
                }
                Ok(Some(Wish::Kill) | None) | Err(_) => kill_tree(running),
            }
        }
        if kill_at.is_some_and(|at| recount_world::moment() >= at) {
            kill_tree(running);
        }
        if plan.layer != Layer::Off && limit.is_none() {
            let most = usize::try_from(plan.processes).unwrap_or(usize::MAX);
            let tree = Tree::below(own, most.saturating_add(running.depth));
            limit = over(plan, &tree, running.depth);
            if let (None, Some(room)) = (limit, &mut room) {
                let why = room.look(&tree);
                full = why.map(|why| FullWorkspace { why, at_start: false });
                limit = why.map(|_| Limit::Workspace);
            }
            if limit.is_some() {
                kill_tree(running);
            }
        }
    }
}

/// Which bound a command is beyond, by its processes.
fn over(plan: &SandboxPlan, tree: &Tree, depth: usize) -> Option<Limit> {
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

/// Kills the command with everything below. Its namespace goes at once where it has one: its first process is
/// bubblewrap's child.
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

/// Until no process is left that came from ours.
fn kill_all() {
    let pause = Timespec::try_from(limits::KILL_LOOK_EVERY).expect("it is short");
    for _ in 0..limits::KILL_ROUNDS_MAX {
        Tree::kill(rustix::process::getpid());
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some(_)) => {}
                Ok(None) => break,
                // Everything below came to us when its parent went: there is nothing more.
                Err(_) => return,
            }
        }
        rustix::event::poll(&mut [], Some(&pause)).ok();
    }
}

/// Reaps the processes that ended. Returns how the child ended, when it was among them.
fn bury(child: Pid) -> Option<WaitStatus> {
    let mut found = None;
    while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
        if pid == child {
            found = Some(status);
        }
    }
    found
}

fn how_it_ended(running: &Running, status: WaitStatus) -> Exit {
    let outer = Exit { code: status.exit_status(), signal: status.terminating_signal(), ..Exit::default() };
    // Bubblewrap tells a death by signal as a code; the inner stage tells it as it was. When it could not,
    // it was killed with everything else.
    match running.inner.as_ref().map(read_line) {
        None => outer,
        Some(said) => match said.ok().and_then(|line| serde_json::from_slice(&line).ok()) {
            Some(News::Ended(exit, _)) => exit,
            _ => Exit { signal: Some(Signal::KILL.as_raw()), ..Exit::default() },
        },
    }
}

/// Reads to the end of a line or of the pipe, a byte at a time: what follows belongs to the next reader.
fn read_line(pipe: &OwnedFd) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    let mut byte = [0];
    while line.len() < limits::NEWS_BYTES_MAX {
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

/// Inside of bubblewrap: the first process of the command's own namespace. Its end is the end of all others
/// there.
fn inner_stage(arguments: Vec<OsString>) -> io::Result<()> {
    let mut arguments = arguments.into_iter();
    let number = arguments.next().and_then(|word| word.to_str()?.parse::<RawFd>().ok());
    let number = number.ok_or_else(|| io::Error::other("the inner stage is told no descriptor"))?;
    let mut pipe = confine::adopt(number)?;
    let user = arguments.next().and_then(|word| word.to_str()?.parse::<u32>().ok());
    let user = user.ok_or_else(|| io::Error::other("the inner stage is told no user"))?;
    let user = Some(user).filter(|user| *user != 0);
    let is_full = arguments.next().is_some_and(|word| word == FULL);
    let workspace = arguments.next().map(PathBuf::from);
    let workspace = workspace.ok_or_else(|| io::Error::other("the inner stage is told no workspace"))?;
    let program = arguments.next().ok_or_else(|| io::Error::other("the inner stage is told no command"))?;
    let mut rules = landlock::rules_within(&workspace)?;
    let mut command = Command::new(program);
    // Bubblewrap was given what the command reads.
    command.args(arguments).stdin(Stdio::inherit());
    // SAFETY: this process has one thread, so everything may be done after fork.
    #[expect(unsafe_code, reason = "the child must be bound before it becomes the command")]
    unsafe {
        command.pre_exec(move || confine::inner_command(user, is_full, &workspace, rules.take()));
    }
    let mut tell = |news: &News| -> io::Result<()> {
        let mut line = serde_json::to_vec(news).map_err(io::Error::other)?;
        line.push(b'\n');
        pipe.write_all(&line)
    };
    let child = match command.spawn() {
        Ok(child) => child,
        Err(why) => return tell(&News::NotStarted { why: why.to_string() }),
    };
    let child = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let child = child.expect("a process that was started has a number");
    // It took these to start the command; nothing takes them from here on.
    confine::drop_privileges()?;
    tell(&News::Started)?;
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == child => {
                let (code, signal) = (status.exit_status(), status.terminating_signal());
                return tell(&News::Ended(Exit { code, signal, ..Exit::default() }, None));
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
