//! Builds and applies Landlock rules: which paths a command may read and write, where namespaces are not available.
//!
//! Landlock rules only allow. To hide a path inside a readable folder, its siblings are allowed one by one. A plan that
//! needs anything else is refused before the command starts. Landlock does not cover modes, owners and times of files;
//! `modes` does. Start at [`rules`].

use std::io;
use std::path::{Path, PathBuf};

use ::landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};

use super::host_paths::WRITTEN;
use super::plan::SandboxPlan;
use crate::sandbox::limits;

/// The first version that restricts signals and abstract sockets. An older one would isolate less than promised.
const NEEDED: ABI = ABI::V6;

/// Devices that programs commonly need.
const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// Creates the rules of a plan without applying them. `private` is the folder for `/tmp` and the home.
pub(crate) fn rules(plan: &SandboxPlan, private: &Path) -> io::Result<RulesetCreated> {
    let all = AccessFs::from_all(NEEDED);
    let read = AccessFs::from_read(NEEDED);
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(all)
        .and_then(|rules| rules.scope(Scope::from_all(NEEDED)))
        .and_then(Ruleset::create)
        .map_err(io::Error::other)?;
    if let Some(inside) = plan.hidden.iter().find(|hidden| hidden.starts_with(&plan.workspace)) {
        return Err(io::Error::other(format!(
            "Landlock cannot hide {}, which is inside the workspace; use a workspace without it",
            inside.display()
        )));
    }
    let mut remaining = limits::LANDLOCK_RULES_MAX;
    for (path, right) in view(plan, private) {
        rules = match right {
            AccessRight::Read => allow_but(rules, &path, read, &plan.hidden, &mut remaining)?,
            AccessRight::Write => allow(rules, &path, all & !AccessFs::MakeBlock & !AccessFs::MakeChar)?,
            AccessRight::Use => {
                let use_it =
                    AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev;
                allow(rules, &path, use_it)?
            }
            AccessRight::List => allow(rules, &path, AccessFs::ReadDir.into())?,
            AccessRight::ReadData => allow(rules, &path, AccessFs::ReadFile | AccessFs::ReadDir)?,
        };
    }
    Ok(rules)
}

/// The access that a command has to a path and everything below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AccessRight {
    /// Read and execute, except hidden paths.
    Read,
    /// Everything except creating devices.
    Write,
    /// Read and write a device.
    Use,
    /// List names only.
    List,
    /// Read, but not execute.
    ReadData,
}

/// All paths that a command can access. `private` is its folder for `/tmp` and the home.
pub(crate) fn view(plan: &SandboxPlan, private: &Path) -> Vec<(PathBuf, AccessRight)> {
    let mut view: Vec<(PathBuf, AccessRight)> = Vec::new();
    view.extend(plan.readable.iter().map(|path| (path.clone(), AccessRight::Read)));
    view.extend([plan.workspace.as_path(), private].map(|path| (path.to_owned(), AccessRight::Write)));
    view.extend(DEVICES.iter().map(|path| (PathBuf::from(path), AccessRight::Use)));
    // Names only; other devices are not accessible.
    view.push(("/dev".into(), AccessRight::List));
    // Landlock itself protects the memory, files and environment of processes outside the sandbox, for any user. Their
    // names, states and command lines stay readable.
    view.push(("/proc".into(), AccessRight::ReadData));
    view
}

/// Creates additional rules inside bubblewrap: a path that is not writable cannot be opened for writing. On a read-only
/// mount, pipes and devices could be. Uses as much of Landlock as the kernel has.
pub(crate) fn rules_within(workspace: &Path) -> io::Result<Option<RulesetCreated>> {
    if !is_supported() {
        return Ok(None);
    }
    let all = AccessFs::from_all(NEEDED);
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all)
        .and_then(Ruleset::create)
        .map_err(io::Error::other)?;
    rules = allow(rules, Path::new("/"), AccessFs::from_read(NEEDED))?;
    for path in WRITTEN.iter().map(Path::new).chain([workspace]) {
        rules = allow(rules, path, all & !AccessFs::MakeBlock & !AccessFs::MakeChar)?;
    }
    let write = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate;
    // Programs set the names of their threads there.
    rules = allow(rules, Path::new("/proc"), write)?;
    for device in DEVICES.iter().chain(&["/dev/tty", "/dev/pts"]) {
        rules = allow(rules, Path::new(device), write | AccessFs::IoctlDev)?;
    }
    Ok(Some(rules))
}

/// Whether the kernel supports Landlock.
pub(crate) fn is_supported() -> bool {
    const VERSION: libc::c_uint = 1;
    // SAFETY: with this flag the kernel reads nothing and answers a number.
    #[expect(unsafe_code, reason = "there is no wrapper that only asks")]
    let version = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<libc::c_void>(), 0_usize, VERSION)
    };
    version > 0
}

/// Applies the rules to this process, as far as the kernel supports them.
pub(crate) fn enforce_best_effort(rules: RulesetCreated) -> io::Result<()> {
    let status = rules.restrict_self().map_err(io::Error::other)?;
    if status.ruleset == RulesetStatus::NotEnforced {
        return Err(io::Error::other("Landlock enforces nothing"));
    }
    Ok(())
}

/// Applies the rules to this process. Fails if the kernel does not enforce all of them.
pub(crate) fn enforce(rules: RulesetCreated) -> io::Result<()> {
    let status = rules.restrict_self().map_err(io::Error::other)?;
    if status.ruleset != RulesetStatus::FullyEnforced || !status.no_new_privs {
        return Err(io::Error::other(format!("Landlock enforces only part of the rules: {status:?}")));
    }
    Ok(())
}

fn allow(rules: RulesetCreated, path: &Path, access: BitFlags<AccessFs>) -> io::Result<RulesetCreated> {
    let fd = match PathFd::new(path) {
        Ok(fd) => fd,
        // The path was deleted in the meantime: there is nothing to allow.
        Err(_) if !path.exists() => return Ok(rules),
        Err(error) => return Err(io::Error::other(error)),
    };
    let access = if path.is_dir() { access } else { access & AccessFs::from_file(NEEDED) };
    rules.add_rule(PathBeneath::new(fd, access)).map_err(io::Error::other)
}

/// Allows a path and everything below it, except hidden paths.
fn allow_but(
    mut rules: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
    hidden: &[PathBuf],
    remaining: &mut usize,
) -> io::Result<RulesetCreated> {
    *remaining = remaining.checked_sub(1).ok_or_else(|| {
        io::Error::other("the hidden paths need too many rules; hide whole folders instead")
    })?;
    if hidden.iter().any(|hidden| path == hidden) {
        return Ok(rules);
    }
    if !hidden.iter().any(|hidden| hidden.starts_with(path)) {
        return allow(rules, path, access);
    }
    rules = allow(rules, path, AccessFs::ReadDir.into())?;
    for entry in std::fs::read_dir(path)?.flatten() {
        // The target of a symlink is another path with its own rule or none.
        if entry.file_type().is_ok_and(|kind| !kind.is_symlink()) {
            rules = allow_but(rules, &entry.path(), access, hidden, remaining)?;
        }
    }
    Ok(rules)
}
