//! Landlock: which paths a command may read and write, where no namespaces can be had.
//!
//! Rules only ever allow, so a path that is hidden below one that is shown is held by allowing its neighbours one
//! by one. What cannot be held that way is refused before anything runs. Look at [`rules`]. Landlock knows
//! nothing of modes, owners and times of files; `modes` holds those.

use std::io;
use std::path::{Path, PathBuf};

use ::landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};

use super::places::WRITTEN;
use super::plan::SandboxPlan;
use crate::sandbox::limits;

/// The first that keeps signals and abstract sockets inside; an older one would keep less than is promised.
const NEEDED: ABI = ABI::V6;

/// Devices that every program may want.
const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// The rules of a plan, not yet in force. `private` is the folder for `/tmp` and the home.
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
            "{} is to be hidden and lies in the workspace; Landlock cannot do that, choose a workspace without it",
            inside.display()
        )));
    }
    let mut left = limits::LANDLOCK_RULES_MAX;
    for (path, right) in view(plan, private) {
        rules = match right {
            Right::Read => allow_but(rules, &path, read, &plan.hidden, &mut left)?,
            Right::Write => allow(rules, &path, all & !AccessFs::MakeBlock & !AccessFs::MakeChar)?,
            Right::Use => {
                let use_it =
                    AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev;
                allow(rules, &path, use_it)?
            }
            Right::List => allow(rules, &path, AccessFs::ReadDir.into())?,
            Right::ReadData => allow(rules, &path, AccessFs::ReadFile | AccessFs::ReadDir)?,
        };
    }
    Ok(rules)
}

/// What a command may do with a path and what is below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Right {
    /// Read and run, but not what is hidden.
    Read,
    /// Everything but make devices.
    Write,
    /// Read and write a device.
    Use,
    /// See the names.
    List,
    /// Read, and run nothing.
    ReadData,
}

/// All that a command may do with files. `private` is its folder for `/tmp` and the home.
pub(crate) fn view(plan: &SandboxPlan, private: &Path) -> Vec<(PathBuf, Right)> {
    let mut view: Vec<(PathBuf, Right)> = Vec::new();
    view.extend(plan.readable.iter().map(|path| (path.clone(), Right::Read)));
    view.extend([plan.workspace.as_path(), private].map(|path| (path.to_owned(), Right::Write)));
    view.extend(DEVICES.iter().map(|path| (PathBuf::from(path), Right::Use)));
    // Names only: what leads to other devices does not exist here.
    view.push(("/dev".into(), Right::List));
    // Other processes' memory, files and environment are kept by Landlock itself, whatever user owns them: they may be
    // asked for within one sandbox only. Their names, states and command lines are not.
    view.push(("/proc".into(), Right::ReadData));
    view
}

/// A second border inside of bubblewrap: what is not to be written there cannot be opened for writing either, as
/// pipes and devices can be on a mount that is read-only. As much of it as the kernel has.
pub(crate) fn rules_within(workspace: &Path) -> io::Result<Option<RulesetCreated>> {
    if !is_there() {
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
    // Programs name their threads there.
    rules = allow(rules, Path::new("/proc"), write)?;
    for device in DEVICES.iter().chain(&["/dev/tty", "/dev/pts"]) {
        rules = allow(rules, Path::new(device), write | AccessFs::IoctlDev)?;
    }
    Ok(Some(rules))
}

/// Whether the kernel has Landlock at all.
pub(crate) fn is_there() -> bool {
    const VERSION: libc::c_uint = 1;
    // SAFETY: with this flag the kernel reads nothing and answers a number.
    #[expect(unsafe_code, reason = "there is no wrapper that only asks")]
    let version = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<libc::c_void>(), 0_usize, VERSION)
    };
    version > 0
}

/// Puts the rules in force on this process, as far as the kernel knows them.
pub(crate) fn enforce_what_there_is(rules: RulesetCreated) -> io::Result<()> {
    let status = rules.restrict_self().map_err(io::Error::other)?;
    if status.ruleset == RulesetStatus::NotEnforced {
        return Err(io::Error::other("Landlock enforces nothing"));
    }
    Ok(())
}

/// Puts the rules in force on this process; refuses when the kernel does less than all of it.
pub(crate) fn enforce(rules: RulesetCreated) -> io::Result<()> {
    let status = rules.restrict_self().map_err(io::Error::other)?;
    if status.ruleset != RulesetStatus::FullyEnforced || !status.no_new_privs {
        return Err(io::Error::other(format!("Landlock enforces only a part: {status:?}")));
    }
    Ok(())
}

fn allow(rules: RulesetCreated, path: &Path, access: BitFlags<AccessFs>) -> io::Result<RulesetCreated> {
    let fd = match PathFd::new(path) {
        Ok(fd) => fd,
        // Gone since it was seen: there is nothing to allow.
        Err(_) if !path.exists() => return Ok(rules),
        Err(error) => return Err(io::Error::other(error)),
    };
    let access = if path.is_dir() { access } else { access & AccessFs::from_file(NEEDED) };
    rules.add_rule(PathBeneath::new(fd, access)).map_err(io::Error::other)
}

/// Allows a path and what is below it, without what is hidden.
fn allow_but(
    mut rules: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
    hidden: &[PathBuf],
    left: &mut usize,
) -> io::Result<RulesetCreated> {
    *left = left.checked_sub(1).ok_or_else(|| {
        io::Error::other("hiding what is to be hidden takes too many rules; hide whole folders instead")
    })?;
    if hidden.iter().any(|hidden| path == hidden) {
        return Ok(rules);
    }
    if !hidden.iter().any(|hidden| hidden.starts_with(path)) {
        return allow(rules, path, access);
    }
    rules = allow(rules, path, AccessFs::ReadDir.into())?;
    for entry in std::fs::read_dir(path)?.flatten() {
        // Where a symlink leads is another path, which has its own rule or none.
        if entry.file_type().is_ok_and(|kind| !kind.is_symlink()) {
            rules = allow_but(rules, &entry.path(), access, hidden, left)?;
        }
    }
    Ok(rules)
}
