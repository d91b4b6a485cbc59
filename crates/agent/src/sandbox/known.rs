//! Remembers the disk usage of workspaces, so that they are not measured before every command.
//!
//! The values are only in memory; an unknown workspace is measured. Start at [`KnownWorkspaces`]. The module must not
//! depend on how usage is measured.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;

use super::plan::WorkspaceUsage;
use crate::sandbox::limits;

/// Disk usage by workspace path.
#[derive(Debug, Clone, Default)]
pub(crate) struct KnownWorkspaces(Arc<Mutex<BTreeMap<PathBuf, (WorkspaceUsage, Instant)>>>);

/// The entry of one workspace, in which a command runs.
#[derive(Debug)]
pub(crate) struct Workspace {
    all: KnownWorkspaces,
    path: PathBuf,
}

impl KnownWorkspaces {
    pub(crate) fn of(&self, path: &Path) -> Option<WorkspaceUsage> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (known, at) = all.get(path)?;
        let age = recount_world::moment().duration_since(*at);
        Some(WorkspaceUsage { is_fresh: known.is_fresh && age < limits::WORKSPACE_KNOWN_FOR, ..*known })
    }

    pub(crate) fn workspace(&self, path: &Path) -> Workspace {
        Workspace { all: self.clone(), path: path.to_owned() }
    }
}

impl Workspace {
    /// Stores the usage that was found after a command ended.
    pub(crate) fn store(&self, found: Option<WorkspaceUsage>) {
        let Some(found) = found else { return };
        let mut all = self.all.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= limits::WORKSPACES_KNOWN_MAX && !all.contains_key(&self.path) {
            all.clear();
        }
        // Another command may have ended in the meantime; the first baseline is kept.
        let merged = match all.get(&self.path).map(|(known, _)| *known) {
            // A measured baseline is better than an estimate; the free disk space shows what was added since.
            Some(known) if known.first.is_some() && found.first.is_none() => {
                WorkspaceUsage { is_fresh: false, ..known }
            }
            known => WorkspaceUsage { first: known.and_then(|known| known.first).or(found.first), ..found },
        };
        all.insert(self.path.clone(), (merged, recount_world::moment()));
    }
}
