//! Where commands run: what they may see, write and reach, and what they may use.
//!
//! Look at [`Sandbox`]. [`Sandbox::probe`] finds out once, by running something, which layer holds here;
//! [`Sandbox::start`] runs a command in it. `docs/sandbox.md` says what each layer enforces and what it does not.
//!
//! Commands are started by a warden, which is this program started again: a program that wants sandboxes calls
//! [`entrance`] before anything else. It must never know tools, runs or policy.

#[cfg(not(target_os = "linux"))]
mod absent;
#[cfg(target_os = "linux")]
mod bwrap;
#[cfg(target_os = "linux")]
mod calls;
#[cfg(target_os = "linux")]
mod confine;
#[cfg(target_os = "linux")]
pub(crate) mod crowd;
#[cfg(target_os = "linux")]
mod delegated;
mod gaps;
#[cfg(target_os = "linux")]
mod hierarchies;
pub(crate) mod known;
#[cfg(target_os = "linux")]
mod landlock;
pub mod limits;
#[cfg(target_os = "linux")]
mod measure;
#[cfg(target_os = "linux")]
mod modes;
mod places;
pub(crate) mod plan;
pub mod process;
#[cfg(target_os = "linux")]
mod room;
#[cfg(target_os = "linux")]
mod seccomp;
mod settings;
#[cfg(target_os = "linux")]
mod stage;
#[cfg(target_os = "linux")]
mod tree;
#[cfg(target_os = "linux")]
mod user;
#[cfg(target_os = "linux")]
mod view;
#[cfg(target_os = "linux")]
mod warden;

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::net::unix::pipe;

#[cfg(not(target_os = "linux"))]
use self::absent as warden;
pub use self::gaps::Gap;
use self::known::KnownWorkspaces;
use self::places::Places;
pub use self::plan::Layer;
use self::plan::{RoomPlan, SandboxPlan};
use self::process::{Exit, Process, StartError};
pub use self::settings::{Mode, SandboxSettings};
pub(crate) use self::warden::WORD;

/// Whether this program would know what to do when it is started as a warden.
static HAS_ENTRANCE: AtomicBool = AtomicBool::new(false);

/// The first thing a program does: when it was started as a warden, this does a warden's work and answers how it
/// ended, and nothing else may be done.
pub fn entrance() -> Option<ExitCode> {
    HAS_ENTRANCE.store(cfg!(target_os = "linux"), Ordering::Relaxed);
    warden::enter()
}

/// What surrounds the sandbox.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// The data folder, which no command sees.
    pub data: Option<PathBuf>,
    /// The home of the user that runs the server; `HOME` when it is not set.
    pub home: Option<PathBuf>,
    /// A program with an [`entrance`]; this one when it is not said.
    pub helper: Option<PathBuf>,
}

/// The layer that holds here.
#[derive(Debug, Clone)]
pub struct Sandbox {
    layer: Layer,
    detail: String,
    settings: SandboxSettings,
    places: Places,
    helper: Option<PathBuf>,
    bwrap: Option<PathBuf>,
    known: KnownWorkspaces,
    /// Whether the kernel bounds the memory of a command as a whole.
    memory_is_kept: bool,
    _bounds: warden::Bounds,
}

/// A command to run.
#[derive(Debug, Clone)]
pub struct Order<'a> {
    pub argv: Vec<String>,
    /// The workspace, which may be written; the command begins there.
    pub root: &'a Path,
    pub network: bool,
    /// Variables besides those that every command has.
    pub environment: Vec<(String, String)>,
}

/// No layer holds here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no sandbox works here, so no command can run: {why}; {remedy}")]
pub struct Unavailable {
    /// What was tried, and what came of it.
    pub why: String,
    /// Whether another set-up of this machine could have one.
    pub remedy: Remedy,
}

/// What an operator can do about a missing sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// Install bubblewrap, or go without.
    Install,
    /// The operating system has nothing that Recount could use: run the server on Linux, or go without.
    OtherSystem,
}

impl std::fmt::Display for Remedy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Remedy::Install => "install bubblewrap",
            Remedy::OtherSystem => "run the server on Linux",
        })?;
        f.write_str(", or say `--sandbox off` to run commands with all the rights of this server")
    }
}

impl Sandbox {
    /// Finds the layer that is wanted and works. Really runs commands for that.
    pub async fn probe(settings: SandboxSettings, around: Surroundings) -> Result<Sandbox, Unavailable> {
        let own = HAS_ENTRANCE.load(Ordering::Relaxed).then(std::env::current_exe).and_then(Result::ok);
        let helper = around.helper.clone().or(own).and_then(|path| path.canonicalize().ok());
        let places =
            Places::find(&settings, &around).map_err(|why| Unavailable { why, remedy: Remedy::Install })?;
        let candidates: &[Layer] = match settings.mode {
            Mode::Auto => &[Layer::Bwrap, Layer::Landlock],
            Mode::Bubblewrap => &[Layer::Bwrap],
            Mode::Landlock => &[Layer::Landlock],
            Mode::Off => &[Layer::Off],
        };
        if cfg!(not(target_os = "linux")) && settings.mode != Mode::Off {
            let why = format!("Recount has no sandbox for {}", std::env::consts::OS);
            return Err(Unavailable { why, remedy: Remedy::OtherSystem });
        }
        let mut tried = Vec::new();
        let bounds =
            if settings.mode == Mode::Off { warden::Bounds::default() } else { warden::take_bounds() };
        for layer in candidates {
            let bwrap = places::program("bwrap");
            let mut sandbox = Sandbox {
                layer: *layer,
                detail: String::new(),
                settings: settings.clone(),
                places: places.clone(),
                helper: helper.clone(),
                bwrap,
                known: KnownWorkspaces::default(),
                memory_is_kept: *layer != Layer::Off && warden::bounds_memory(),
                _bounds: bounds.clone(),
            };
            let mut tried_out = sandbox.try_out().await;
            if tried_out.is_err() && sandbox.memory_is_kept {
                // A group that can be made and not joined bounds nothing, and the label must say so.
                sandbox.memory_is_kept = false;
                tried_out = sandbox.try_out().await;
            }
            let tried_out = tried_out.and_then(|()| sandbox.is_strict_enough());
            match tried_out {
                Ok(()) => {
                    sandbox.detail = sandbox.describe();
                    return Ok(sandbox);
                }
                Err(why) => tried.push(format!("{}: {why}", layer.name())),
            }
        }
        Err(Unavailable { why: tried.join("; "), remedy: Remedy::Install })
    }

    /// Runs a command that succeeds only where the layer holds.
    async fn try_out(&self) -> Result<(), String> {
        if self.layer == Layer::Bwrap && self.bwrap.is_none() {
            return Err("there is no bwrap on the search path".into());
        }
        if self.layer != Layer::Off && self.helper.is_none() {
            return Err("this program has no entrance for sandboxes".into());
        }
        let ground = places::Ground::make().map_err(|error| format!("no folder to try it in: {error}"))?;
        // What lies beside the workspace must not be seen, what lies in it must be written.
        let script = match self.layer {
            Layer::Off => "exit 42".to_owned(),
            _ => format!("cat '{}' && exit 1; echo > here && exit 42", ground.secret().display()),
        };
        let order = Order {
            argv: vec!["/bin/sh".into(), "-c".into(), script],
            root: &ground.workspace(),
            network: false,
            environment: Vec::new(),
        };
        let mut process = self.start(order).await.map_err(|error| error.to_string())?;
        match process.ended().await {
            Exit { code: Some(42), .. } => Ok(()),
            Exit { code: Some(1), .. } => Err("what must be hidden was seen".into()),
            exit => Err(format!("a command in it ended with {exit:?}")),
        }
    }

    /// Whether a layer that works keeps in all that the settings ask for.
    fn is_strict_enough(&self) -> Result<(), String> {
        match self.gaps() {
            gaps if self.settings.strict && !gaps.is_empty() => {
                let gaps: Vec<_> = gaps.iter().map(|gap| gap.describe()).collect();
                Err(format!("sandbox.strict is set, and {}", gaps.join("; ")))
            }
            _ => Ok(()),
        }
    }

    /// What the layer does not keep in on this machine.
    pub fn gaps(&self) -> Vec<Gap> {
        let sockets = !self.settings.strict && !self.places.granted.is_empty();
        // Landlock allows all that lies below what may be written.
        let is_below = |path: &PathBuf| places::WRITTEN.iter().any(|folder| path.starts_with(folder));
        let landlock = warden::has_landlock() && !self.places.granted.iter().any(is_below);
        Gap::of(self.layer, landlock, sockets)
    }

    pub fn layer(&self) -> Layer {
        self.layer
    }

    /// What is enforced, for people.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// The value of `sandbox_layer`: the layer's name, and after it what is less than the layer promises.
    pub fn label(&self, network: bool) -> String {
        if self.layer == Layer::Off {
            return self.layer.name().to_owned();
        }
        let network = if network { " network=host" } else { "" };
        let open: Vec<_> = self.gaps().iter().map(|gap| gap.name()).collect();
        let open = if open.is_empty() { String::new() } else { format!(" open={}", open.join(",")) };
        let memory = if self.memory_is_kept { "" } else { " memory=watched" };
        format!("{}{network}{memory}{open}", self.layer.name())
    }

    /// Whether commands reach servers on this machine, so that a token must keep them from answering for people.
    pub fn reaches_loopback(&self, network: bool) -> bool {
        network || self.layer == Layer::Off
    }

    pub fn settings(&self) -> &SandboxSettings {
        &self.settings
    }

    /// The shell that commands are given to.
    pub fn shell(&self) -> &str {
        &self.places.shell
    }

    /// The names of the variables that a command finds.
    pub fn variables(&self, order: &Order<'_>) -> Vec<String> {
        let mut names: Vec<String> = self.environment(order).into_iter().map(|(name, _)| name).collect();
        if self.layer == Layer::Landlock {
            names.extend(["HOME", "TMPDIR"].map(str::to_owned));
        }
        names.sort();
        names.dedup();
        names
    }

    /// Starts a command that reads nothing.
    pub async fn start(&self, order: Order<'_>) -> Result<Process, StartError> {
        self.start_reading(order, None).await
    }

    /// Starts a command that reads what is written to the second value, and sees its end when that is dropped.
    pub async fn start_with_input(&self, order: Order<'_>) -> Result<(Process, pipe::Sender), StartError> {
        let program = order.argv.first().cloned().unwrap_or_default();
        let spawn = |source| StartError::Spawn { program: program.clone(), source };
        let (read, write) = std::io::pipe().map_err(spawn)?;
        let input = pipe::Sender::from_owned_fd(OwnedFd::from(write)).map_err(spawn)?;
        Ok((self.start_reading(order, Some(OwnedFd::from(read))).await?, input))
    }

    async fn start_reading(&self, order: Order<'_>, input: Option<OwnedFd>) -> Result<Process, StartError> {
        let plan = self.plan(&order)?;
        match (&self.helper, self.layer) {
            (Some(helper), _) => {
                Process::warded(helper, &plan, self.known.workspace(&plan.workspace), input).await
            }
            (None, Layer::Off) => Process::grouped(&plan, input),
            (None, _) => Err(StartError::Refused("this program has no entrance for sandboxes".into())),
        }
    }

    fn plan(&self, order: &Order<'_>) -> Result<SandboxPlan, StartError> {
        if order.argv.is_empty() {
            return Err(StartError::Refused("there is no command".into()));
        }
        let workspace = order.root.canonicalize().map_err(|error| {
            StartError::Refused(format!("the workspace {} is missing: {error}", order.root.display()))
        })?;
        if self.layer != Layer::Off {
            self.places.check(&workspace).map_err(StartError::Refused)?;
        }
        Ok(SandboxPlan {
            layer: self.layer,
            argv: order.argv.clone(),
            cwd: workspace.clone(),
            environment: self.environment(order),
            room: RoomPlan {
                bytes: self.settings.workspace_bytes,
                entries: limits::COMMAND_WORKSPACE_ENTRIES,
                in_place: !self.places.is_copy(&workspace),
                known: self.known.of(&workspace),
            },
            workspace,
            readable: self.places.readable(order.network),
            hidden: self.places.hidden.clone(),
            granted: self.places.granted.clone(),
            links: self.places.links.clone(),
            network: order.network,
            strict: self.settings.strict,
            memory_bytes: self.settings.memory_bytes,
            memory_is_kept: self.memory_is_kept,
            processes: self.settings.processes,
            file_bytes: self.settings.file_bytes,
            tmp_bytes: self.settings.tmp_bytes,
            helper: self.helper.clone().unwrap_or_default(),
            bwrap: self.bwrap.clone(),
        })
    }

    /// Later ones of the same name win.
    fn environment(&self, order: &Order<'_>) -> Vec<(String, String)> {
        let mut all = self.places.environment.clone();
        match self.layer {
            Layer::Bwrap => {
                all.push(("HOME".into(), places::BWRAP_HOME.into()));
                all.push(("TMPDIR".into(), "/tmp".into()));
            }
            // The warden makes the folder, so it says where.
            Layer::Landlock => {}
            Layer::Off => {
                if let Some(home) = self.places.home.as_ref().and_then(|home| home.to_str()) {
                    all.push(("HOME".into(), home.to_owned()));
                }
            }
        }
        all.extend(self.settings.environment.clone());
        all.extend(order.environment.iter().cloned());
        all
    }

    fn describe(&self) -> String {
        // Under bubblewrap even root's command is a user whose processes the kernel counts.
        let kept =
            warden::bounds_processes() || self.layer == Layer::Bwrap || !rustix::process::geteuid().is_root();
        let bounds = format!(
            "at most {} processes, bounded {}, {} MiB of memory, bounded {}, and {} MiB in a \
             workspace, bounded by looking",
            self.settings.processes,
            if kept { "by the kernel" } else { "by looking" },
            self.settings.memory_bytes >> 20,
            if self.memory_is_kept { "by the kernel" } else { "by looking, files in memory not counted" },
            self.settings.workspace_bytes >> 20,
        );
        let open: Vec<_> = self.gaps().iter().map(|gap| gap.describe()).collect();
        let open =
            if open.is_empty() { String::new() } else { format!("; not kept in: {}", open.join("; ")) };
        let user = if warden::drops_root() { "a user of their own without rights; " } else { "" };
        match self.layer {
            Layer::Bwrap => format!(
                "bubblewrap: own mounts, processes, network, users; {user}listed system calls only; no \
                 capabilities; {bounds}{open}"
            ),
            Layer::Landlock => format!(
                "Landlock: paths, signals and sockets; listed system calls only, no network; no capabilities; \
                 {bounds}{open}"
            ),
            Layer::Off if self.helper.is_some() => {
                "nothing is enforced; what a command leaves behind is killed".to_owned()
            }
            Layer::Off => "nothing is enforced; the process group of a command is killed".to_owned(),
        }
    }
}
