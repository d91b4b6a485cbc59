//! Runs commands in a sandbox that restricts files, network, processes, memory and disk use.
//!
//! Start at [`Sandbox`]. [`Sandbox::probe`] runs a test command once to find the layer that works on this machine, and
//! [`Sandbox::start`] runs a command in it. `docs/sandbox.md` lists what each layer enforces.
//!
//! A warden starts each command. The warden is this same program started again, so a program that uses sandboxes calls
//! [`entrance`] before anything else. The module must not depend on tools, runs or policy.

#[cfg(not(target_os = "linux"))]
mod absent;
#[cfg(target_os = "linux")]
mod bwrap;
#[cfg(target_os = "linux")]
mod calls;
#[cfg(target_os = "linux")]
mod confine;
#[cfg(target_os = "linux")]
pub(crate) mod control_groups;
#[cfg(target_os = "linux")]
mod delegated;
mod gaps;
#[cfg(target_os = "linux")]
mod hierarchies;
mod host_paths;
pub(crate) mod known;
#[cfg(target_os = "linux")]
mod landlock;
pub mod limits;
#[cfg(target_os = "linux")]
mod measure;
#[cfg(target_os = "linux")]
mod modes;
pub(crate) mod plan;
pub mod process;
#[cfg(target_os = "linux")]
mod quota;
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
use self::host_paths::HostPaths;
use self::known::KnownWorkspaces;
pub use self::plan::Layer;
use self::plan::{QuotaPlan, SandboxPlan};
use self::process::{Exit, Process, StartError};
pub use self::settings::{Mode, SandboxSettings};
pub(crate) use self::warden::WARDEN_ARGUMENT;

/// Whether this program calls [`entrance`], so that it can be started as a warden.
static HAS_ENTRANCE: AtomicBool = AtomicBool::new(false);

/// Must be called first in `main`. When the program was started as a warden, this does the warden's work and returns
/// its exit code, and the caller must exit with it. Otherwise returns `None`.
pub fn entrance() -> Option<ExitCode> {
    HAS_ENTRANCE.store(cfg!(target_os = "linux"), Ordering::Relaxed);
    warden::enter()
}

/// The folders and the helper program that a sandbox depends on.
#[derive(Debug, Clone, Default)]
pub struct SandboxContext {
    /// The data folder, which commands must not see.
    pub data: Option<PathBuf>,
    /// The home of the user that runs the server. Default: `HOME`.
    pub home: Option<PathBuf>,
    /// A program that calls [`entrance`]. Default: this program.
    pub helper: Option<PathBuf>,
}

/// A sandbox with the layer that works on this machine.
#[derive(Debug, Clone)]
pub struct Sandbox {
    layer: Layer,
    detail: String,
    settings: SandboxSettings,
    host_paths: HostPaths,
    helper: Option<PathBuf>,
    bwrap: Option<PathBuf>,
    known: KnownWorkspaces,
    /// Whether the kernel limits the memory of a command as a whole.
    kernel_limits_memory: bool,
    _group_guard: warden::ControlGroupGuard,
}

/// A command to run in a sandbox.
#[derive(Debug, Clone)]
pub struct SandboxCommand<'a> {
    pub argv: Vec<String>,
    /// The workspace: writable, and the command's working directory.
    pub root: &'a Path,
    pub network: bool,
    /// Variables in addition to those that every command has.
    pub environment: Vec<(String, String)>,
}

/// No layer works on this machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no sandbox works on this machine, so commands cannot run: {why}; {remedy}")]
pub struct Unavailable {
    /// The layers that were tried, and why each failed.
    pub why: String,
    /// What the operator can do about it.
    pub remedy: Remedy,
}

/// What an operator can do about a missing sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// Install bubblewrap, or run without a sandbox.
    Install,
    /// The operating system has no supported sandbox: run the server on Linux, or run without a sandbox.
    OtherSystem,
}

impl std::fmt::Display for Remedy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Remedy::Install => "install bubblewrap",
            Remedy::OtherSystem => "run the server on Linux",
        })?;
        f.write_str(", or use `--sandbox off` to run commands with all rights of this server")
    }
}

impl Sandbox {
    /// Finds the first layer that the settings allow and that works. Runs a test command for each.
    pub async fn probe(settings: SandboxSettings, context: SandboxContext) -> Result<Sandbox, Unavailable> {
        let own = HAS_ENTRANCE.load(Ordering::Relaxed).then(std::env::current_exe).and_then(Result::ok);
        let helper = context.helper.clone().or(own).and_then(|path| path.canonicalize().ok());
        let host_paths = HostPaths::find(&settings, &context)
            .map_err(|why| Unavailable { why, remedy: Remedy::Install })?;
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
        let mut failures = Vec::new();
        let group_guard = if settings.mode == Mode::Off {
            warden::ControlGroupGuard::default()
        } else {
            warden::acquire_group_guard()
        };
        for layer in candidates {
            let bwrap = host_paths::program("bwrap");
            let mut sandbox = Sandbox {
                layer: *layer,
                detail: String::new(),
                settings: settings.clone(),
                host_paths: host_paths.clone(),
                helper: helper.clone(),
                bwrap,
                known: KnownWorkspaces::default(),
                kernel_limits_memory: *layer != Layer::Off && warden::limits_memory(),
                _group_guard: group_guard.clone(),
            };
            let mut outcome = sandbox.run_test_command().await;
            if outcome.is_err() && sandbox.kernel_limits_memory {
                // A control group that can be created but not joined limits nothing, and the label must show that.
                sandbox.kernel_limits_memory = false;
                outcome = sandbox.run_test_command().await;
            }
            let outcome = outcome.and_then(|()| sandbox.check_strict());
            match outcome {
                Ok(()) => {
                    sandbox.detail = sandbox.describe();
                    return Ok(sandbox);
                }
                Err(why) => failures.push(format!("{}: {why}", layer.name())),
            }
        }
        Err(Unavailable { why: failures.join("; "), remedy: Remedy::Install })
    }

    /// Runs a command that succeeds only if the layer works.
    async fn run_test_command(&self) -> Result<(), String> {
        if self.layer == Layer::Bwrap && self.bwrap.is_none() {
            return Err("bwrap is not on the PATH".into());
        }
        if self.layer != Layer::Off && self.helper.is_none() {
            return Err("this program has no entrance for sandboxes".into());
        }
        let folder = host_paths::ProbeFolder::create()
            .map_err(|error| format!("cannot create a folder for the test: {error}"))?;
        // A file beside the workspace must be hidden, and the workspace must be writable.
        let script = match self.layer {
            Layer::Off => "exit 42".to_owned(),
            _ => format!("cat '{}' && exit 1; echo > here && exit 42", folder.secret().display()),
        };
        let command = SandboxCommand {
            argv: vec!["/bin/sh".into(), "-c".into(), script],
            root: &folder.workspace(),
            network: false,
            environment: Vec::new(),
        };
        let mut process = self.start(command).await.map_err(|error| error.to_string())?;
        match process.ended().await {
            Exit { code: Some(42), .. } => Ok(()),
            Exit { code: Some(1), .. } => Err("a hidden file was visible in the sandbox".into()),
            exit => Err(format!("a test command ended with {exit:?}")),
        }
    }

    /// Checks that the layer has no gaps if the settings are strict.
    fn check_strict(&self) -> Result<(), String> {
        match self.gaps() {
            gaps if self.settings.strict && !gaps.is_empty() => {
                let gaps: Vec<_> = gaps.iter().map(|gap| gap.describe()).collect();
                Err(format!("sandbox.strict is set, and {}", gaps.join("; ")))
            }
            _ => Ok(()),
        }
    }

    /// What the layer does not isolate on this machine.
    pub fn gaps(&self) -> Vec<Gap> {
        let sockets = !self.settings.strict && !self.host_paths.granted.is_empty();
        // Landlock allows everything below a writable folder.
        let is_below = |path: &PathBuf| host_paths::WRITTEN.iter().any(|folder| path.starts_with(folder));
        let landlock = warden::has_landlock() && !self.host_paths.granted.iter().any(is_below);
        Gap::of(self.layer, landlock, sockets)
    }

    pub fn layer(&self) -> Layer {
        self.layer
    }

    /// A description of what is enforced, to show to a person.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// The value of `sandbox_layer`: the layer's name, followed by what is weaker than the layer's default.
    pub fn label(&self, network: bool) -> String {
        if self.layer == Layer::Off {
            return self.layer.name().to_owned();
        }
        let network = if network { " network=host" } else { "" };
        let open: Vec<_> = self.gaps().iter().map(|gap| gap.name()).collect();
        let open = if open.is_empty() { String::new() } else { format!(" open={}", open.join(",")) };
        let memory = if self.kernel_limits_memory { "" } else { " memory=watched" };
        format!("{}{network}{memory}{open}", self.layer.name())
    }

    /// Whether commands can connect to servers on this machine. If so, approvals need a token, or a command could
    /// approve itself.
    pub fn reaches_loopback(&self, network: bool) -> bool {
        network || self.layer == Layer::Off
    }

    pub fn settings(&self) -> &SandboxSettings {
        &self.settings
    }

    /// The shell that runs commands.
    pub fn shell(&self) -> &str {
        &self.host_paths.shell
    }

    /// The names of the environment variables of a command.
    pub fn variables(&self, command: &SandboxCommand<'_>) -> Vec<String> {
        let mut names: Vec<String> = self.environment(command).into_iter().map(|(name, _)| name).collect();
        if self.layer == Layer::Landlock {
            names.extend(["HOME", "TMPDIR"].map(str::to_owned));
        }
        names.sort();
        names.dedup();
        names
    }

    /// Starts a command with an empty standard input.
    pub async fn start(&self, command: SandboxCommand<'_>) -> Result<Process, StartError> {
        self.start_reading(command, None).await
    }

    /// Starts a command whose standard input is written through the returned sender. Dropping the sender closes the
    /// input.
    pub async fn start_with_input(
        &self,
        command: SandboxCommand<'_>,
    ) -> Result<(Process, pipe::Sender), StartError> {
        let program = command.argv.first().cloned().unwrap_or_default();
        let spawn = |source| StartError::Spawn { program: program.clone(), source };
        let (read, write) = std::io::pipe().map_err(spawn)?;
        let input = pipe::Sender::from_owned_fd(OwnedFd::from(write)).map_err(spawn)?;
        Ok((self.start_reading(command, Some(OwnedFd::from(read))).await?, input))
    }

    async fn start_reading(
        &self,
        command: SandboxCommand<'_>,
        input: Option<OwnedFd>,
    ) -> Result<Process, StartError> {
        let plan = self.plan(&command)?;
        match (&self.helper, self.layer) {
            (Some(helper), _) => {
                Process::start_with_warden(helper, &plan, self.known.workspace(&plan.workspace), input).await
            }
            (None, Layer::Off) => Process::start_in_group(&plan, input),
            (None, _) => Err(StartError::Refused("this program has no entrance for sandboxes".into())),
        }
    }

    fn plan(&self, command: &SandboxCommand<'_>) -> Result<SandboxPlan, StartError> {
        if command.argv.is_empty() {
            return Err(StartError::Refused("the command is empty".into()));
        }
        let workspace = command.root.canonicalize().map_err(|error| {
            StartError::Refused(format!("the workspace {} is missing: {error}", command.root.display()))
        })?;
        if self.layer != Layer::Off {
            self.host_paths.check(&workspace).map_err(StartError::Refused)?;
        }
        Ok(SandboxPlan {
            layer: self.layer,
            argv: command.argv.clone(),
            cwd: workspace.clone(),
            environment: self.environment(command),
            room: QuotaPlan {
                bytes: self.settings.workspace_bytes,
                entries: limits::COMMAND_WORKSPACE_ENTRIES,
                in_place: !self.host_paths.is_copy(&workspace),
                known: self.known.of(&workspace),
            },
            workspace,
            readable: self.host_paths.readable(command.network),
            hidden: self.host_paths.hidden.clone(),
            granted: self.host_paths.granted.clone(),
            links: self.host_paths.links.clone(),
            network: command.network,
            strict: self.settings.strict,
            memory_bytes: self.settings.memory_bytes,
            memory_is_kept: self.kernel_limits_memory,
            processes: self.settings.processes,
            file_bytes: self.settings.file_bytes,
            tmp_bytes: self.settings.tmp_bytes,
            helper: self.helper.clone().unwrap_or_default(),
            bwrap: self.bwrap.clone(),
        })
    }

    /// A later entry overrides an earlier one of the same name.
    fn environment(&self, command: &SandboxCommand<'_>) -> Vec<(String, String)> {
        let mut all = self.host_paths.environment.clone();
        match self.layer {
            Layer::Bwrap => {
                all.push(("HOME".into(), host_paths::BWRAP_HOME.into()));
                all.push(("TMPDIR".into(), "/tmp".into()));
            }
            // The warden creates these folders and sets the variables.
            Layer::Landlock => {}
            Layer::Off => {
                if let Some(home) = self.host_paths.home.as_ref().and_then(|home| home.to_str()) {
                    all.push(("HOME".into(), home.to_owned()));
                }
            }
        }
        all.extend(self.settings.environment.clone());
        all.extend(command.environment.iter().cloned());
        all
    }

    fn describe(&self) -> String {
        // Under bubblewrap even a command of root runs as a user whose processes the kernel counts.
        let processes_by_kernel =
            warden::limits_processes() || self.layer == Layer::Bwrap || !rustix::process::geteuid().is_root();
        let limits_text = format!(
            "at most {} processes (enforced {}), {} MiB of memory (enforced {}) and {} MiB per workspace \
             (enforced by polling)",
            self.settings.processes,
            if processes_by_kernel { "by the kernel" } else { "by polling" },
            self.settings.memory_bytes >> 20,
            if self.kernel_limits_memory {
                "by the kernel"
            } else {
                "by polling; files in memory are not counted"
            },
            self.settings.workspace_bytes >> 20,
        );
        let open: Vec<_> = self.gaps().iter().map(|gap| gap.describe()).collect();
        let open =
            if open.is_empty() { String::new() } else { format!("; not isolated: {}", open.join("; ")) };
        let user = if warden::drops_root() { "separate user without rights; " } else { "" };
        match self.layer {
            Layer::Bwrap => format!(
                "bubblewrap: separate mounts, processes, network and users; {user}only listed system calls; \
                 no capabilities; {limits_text}{open}"
            ),
            Layer::Landlock => format!(
                "Landlock: restricted paths, signals and sockets; only listed system calls; no network; no \
                 capabilities; {limits_text}{open}"
            ),
            Layer::Off if self.helper.is_some() => {
                "nothing is enforced; background processes are killed when the command ends".to_owned()
            }
            Layer::Off => "nothing is enforced; the process group of a command is killed".to_owned(),
        }
    }
}
