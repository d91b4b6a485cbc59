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

use super::plan::Plan;
use crate::limits;

/// The first that keeps signals and abstract sockets inside; an older one would keep less than is promised.
const NEEDED: ABI = ABI::V6;

/// Devices that every program may want.
const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// The rules of a plan, not yet in force. `private` is the folder for `/tmp` and the home.
pub(crate) fn rules(plan: &Plan, private: &Path) -> io::Result<RulesetCreated> {
    let all = AccessFs::from_all(NEEDED);
    let read = AccessFs::from_read(NEEDED);
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(all)
        .and_then(|rules| rules.scope(Scope::from_all(NEEDED)))
        .and_then(Ruleset::create)
        .map_err(io::Error::other)?;
    let mut left = limits::LANDLOCK_RULES_MAX;
    for path in &plan.readable {
        rules = allow_but(rules, path, read, &plan.hidden, &mut left)?;
    }
    if let Some(inside) = plan.hidden.iter().find(|hidden| hidden.starts_with(&plan.workspace)) {
        return Err(io::Error::other(format!(
            "{} is to be hidden and lies in the workspace; Landlock cannot do that, choose a workspace without it",
            inside.display()
        )));
    }
    for path in [plan.workspace.as_path(), private] {
        rules = allow(rules, path, all & !AccessFs::MakeBlock & !AccessFs::MakeChar)?;
    }
    for device in DEVICES {
        let use_it = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev;
        rules = allow(rules, Path::new(device), use_it)?;
    }
    // Names only: what leads to other devices is not there.
    rules = allow(rules, Path::new("/dev"), AccessFs::ReadDir.into())?;
    // Other processes' memory, files and environment are kept by Landlock itself, whoever owns them: they may be
    // asked for within one sandbox only. Their names, states and command lines are not.
    allow(rules, Path::new("/proc"), AccessFs::ReadFile | AccessFs::ReadDir)
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
