//! The targets of escape attempts: folders, processes, queues and sockets of the test, and a sandbox.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use recount_agent::sandbox::{Mode, Sandbox, SandboxCommand, SandboxContext, SandboxSettings};

/// The folder with the programs of this test, if it was started again as another user.
pub(crate) const PROGRAMS: &str = "RECOUNT_TEST_PROGRAMS";

/// The ordinary user as which root runs the test again.
pub(crate) const USER: u32 = 64_321;

/// The path of a program of this crate.
pub(crate) fn program(name: &str, built: &str) -> PathBuf {
    std::env::var_os(PROGRAMS).map_or_else(|| built.into(), |folder| Path::new(&folder).join(name))
}

pub(crate) fn warden() -> PathBuf {
    program("recount-warden", env!("CARGO_BIN_EXE_recount-warden"))
}

pub(crate) fn escapes() -> PathBuf {
    program("recount-escapes", env!("CARGO_BIN_EXE_recount-escapes"))
}

/// Copies a program in a separate process. Otherwise a child of another test could inherit the file open for writing,
/// and the copy could not be started until that child ends or starts its program.
fn copy_program(from: &Path, to: &Path) {
    assert!(Command::new("cp").args([from, to]).status().unwrap().success(), "{}", from.display());
}

/// Runs a test of [`crate::escape`] again as an ordinary user. `None` if this process already is one.
pub(crate) fn as_ordinary_user(test: &str) -> Option<std::process::Output> {
    use std::os::unix::process::CommandExt as _;
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    // That user may have no access to the folder of the programs.
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let own = std::env::current_exe().unwrap();
    let programs = [("tests", own), ("recount-warden", warden()), ("recount-escapes", escapes())];
    for (name, path) in &programs {
        let to = folder.path().join(name);
        copy_program(path, &to);
        std::fs::set_permissions(&to, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut command = Command::new(folder.path().join("tests"));
    command.args(["--exact", &format!("escape::{test}"), "--nocapture"]).current_dir("/").uid(USER).gid(USER);
    command.env(PROGRAMS, folder.path()).env("HOME", "/nonexistent").env_remove("TMPDIR");
    Some(command.output().unwrap())
}

/// The resources outside the sandbox. They are deleted on drop.
pub(crate) struct OutsideResources {
    folder: tempfile::TempDir,
    neighbour: Child,
    tcp: TcpListener,
    _sockets: (UnixListener, UnixDatagram, UnixListener),
    name: String,
    messages: [i32; 3],
    queue: Option<NamedQueue>,
}

impl OutsideResources {
    pub(crate) fn make() -> OutsideResources {
        // Not below `/tmp`, because commands have their own.
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let at = folder.path();
        for name in ["workspace", "home", "outside/open", "outside/shown"] {
            std::fs::create_dir_all(at.join(name)).unwrap();
        }
        for name in ["outside/secret", "outside/open/file", "outside/shown/file"] {
            std::fs::write(at.join(name), "words").unwrap();
        }
        for name in ["outside/pipe", "outside/shown/pipe"] {
            let (mode, kind) = (rustix::fs::Mode::from_raw_mode(0o666), rustix::fs::FileType::Fifo);
            rustix::fs::mknodat(rustix::fs::CWD, at.join(name), kind, mode, 0).unwrap();
        }
        let sockets = (
            UnixListener::bind(at.join("outside/socket")).unwrap(),
            UnixDatagram::bind(at.join("outside/datagrams")).unwrap(),
        );
        let name = format!("recount-escape-{}", at.file_name().unwrap().display());
        let hidden = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        let neighbour =
            Command::new("sleep").arg("1000").stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let queue = NamedQueue::make(&name);
        OutsideResources {
            folder,
            neighbour,
            tcp,
            _sockets: (sockets.0, sockets.1, hidden),
            name,
            messages: make_messages(),
            queue,
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    /// Whether the kernel has named message queues.
    pub(crate) fn has_queue(&self) -> bool {
        self.queue.is_some()
    }

    pub(crate) async fn sandbox(&self, mode: Mode, strict: bool) -> Sandbox {
        let readable = vec![self.path("outside/shown")];
        let settings = SandboxSettings { mode, strict, readable, ..SandboxSettings::default() };
        let context = SandboxContext { data: None, home: Some(self.path("home")), helper: Some(warden()) };
        Sandbox::probe(settings, context).await.unwrap_or_else(|error| panic!("{error}"))
    }
}

impl Drop for OutsideResources {
    fn drop(&mut self) {
        self.neighbour.kill().ok();
        self.neighbour.wait().ok();
        remove_messages(self.messages);
    }
}

/// A named message queue that every user may open. It is deleted on drop.
struct NamedQueue {
    name: std::ffi::CString,
    number: i32,
}

impl NamedQueue {
    /// Returns `None` if this kernel has no such queues.
    fn make(name: &str) -> Option<NamedQueue> {
        let name = std::ffi::CString::new(format!("/{name}")).unwrap();
        let flags = libc::O_CREAT | libc::O_EXCL | libc::O_RDONLY | libc::O_CLOEXEC;
        let attributes = std::ptr::null_mut::<libc::mq_attr>();
        // SAFETY: the name ends with a zero and lives beyond the call; null attributes are the usual ones.
        #[expect(unsafe_code, reason = "there is no wrapper for it")]
        let number = unsafe { libc::mq_open(name.as_ptr(), flags, 0o666, attributes) };
        if number < 0 {
            let error = std::io::Error::last_os_error();
            assert_eq!(error.raw_os_error(), Some(libc::ENOSYS), "no named queue: {error}");
            return None;
        }
        // SAFETY: the number is that of the queue above; the umask removed rights that others must have.
        #[expect(unsafe_code, reason = "there is no wrapper for it")]
        let opened = unsafe { libc::fchmod(number, 0o666) };
        assert_eq!(opened, 0);
        Some(NamedQueue { name, number })
    }
}

impl Drop for NamedQueue {
    fn drop(&mut self) {
        // SAFETY: the number and the name are those of the queue that was created.
        #[expect(unsafe_code, reason = "there are no wrappers for these calls")]
        unsafe {
            libc::mq_close(self.number);
            libc::mq_unlink(self.name.as_ptr());
        }
    }
}

/// Creates a message queue, a semaphore and a shared memory segment of this user.
fn make_messages() -> [i32; 3] {
    // SAFETY: these calls take numbers only.
    #[expect(unsafe_code, reason = "there are no wrappers for these calls")]
    let made = unsafe {
        [
            libc::msgget(libc::IPC_PRIVATE, 0o600),
            libc::semget(libc::IPC_PRIVATE, 1, 0o600),
            libc::shmget(libc::IPC_PRIVATE, 4096, 0o600),
        ]
    };
    assert!(made.iter().all(|number| *number >= 0), "{made:?}");
    made
}

fn remove_messages([queue, semaphore, memory]: [i32; 3]) {
    // SAFETY: the pointers are null, which removing does not read.
    #[expect(unsafe_code, reason = "there are no wrappers for these calls")]
    unsafe {
        libc::msgctl(queue, libc::IPC_RMID, std::ptr::null_mut());
        libc::semctl(semaphore, 0, libc::IPC_RMID);
        libc::shmctl(memory, libc::IPC_RMID, std::ptr::null_mut());
    }
}

/// Kind and name of an attempt, whether it was prevented, and why.
pub(crate) type Attempts = BTreeMap<(String, String), (bool, String)>;

/// Runs every attempt in a sandbox.
pub(crate) async fn attempts(mode: Mode) -> Attempts {
    let outside = OutsideResources::make();
    let sandbox = outside.sandbox(mode, false).await;
    let workspace = outside.path("workspace");
    let [queue, semaphore, memory] = outside.messages;
    std::fs::write(workspace.join("messages"), format!("{queue} {semaphore} {memory}")).unwrap();
    std::fs::write(workspace.join("socket-name"), &outside.name).unwrap();
    std::fs::write(workspace.join("queue-name"), &outside.name).unwrap();
    copy_program(&escapes(), &workspace.join("escapes"));
    let argv = [
        "./escapes".to_owned(),
        outside.path("outside").display().to_string(),
        outside.neighbour.id().to_string(),
        outside.tcp.local_addr().unwrap().port().to_string(),
    ];
    let (stdout, stderr, code) = run(&sandbox, &workspace, &argv).await;
    assert_eq!(code, Some(0), "{mode:?}: {stdout}{stderr}");
    let attempts: Attempts = stdout
        .lines()
        .map(|line| {
            let words: Vec<&str> = line.split('\t').collect();
            let [kind, name, word, why] = words[..] else { panic!("{line}") };
            ((kind.to_owned(), name.to_owned()), (word == "held", why.to_owned()))
        })
        .collect();
    assert_eq!(attempts.len(), stdout.lines().count(), "two attempts have one name");
    assert_eq!(std::fs::read(outside.path("outside/secret")).unwrap(), b"words");
    attempts
}

/// Runs a command to its end. Returns its stdout, stderr and exit code.
pub(crate) async fn run(
    sandbox: &Sandbox,
    workspace: &Path,
    argv: &[String],
) -> (String, String, Option<i32>) {
    run_with(sandbox, workspace, argv, false).await
}

/// Runs a command with or without network.
pub(crate) async fn run_with(
    sandbox: &Sandbox,
    workspace: &Path,
    argv: &[String],
    network: bool,
) -> (String, String, Option<i32>) {
    use tokio::io::AsyncReadExt as _;
    let order = SandboxCommand { argv: argv.to_vec(), root: workspace, network, environment: Vec::new() };
    let mut process = sandbox.start(order).await.unwrap_or_else(|error| panic!("{error}"));
    let (mut stdout, mut stderr) = process.outputs().unwrap();
    let (mut stdout_bytes, mut stderr_bytes) = (Vec::new(), Vec::new());
    let (one, other) =
        tokio::join!(stdout.read_to_end(&mut stdout_bytes), stderr.read_to_end(&mut stderr_bytes));
    one.unwrap();
    other.unwrap();
    let exit = process.ended().await;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (text(stdout_bytes), text(stderr_bytes), exit.code)
}
