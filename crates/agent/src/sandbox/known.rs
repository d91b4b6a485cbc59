//! What is known of what workspaces hold, so that they need not be measured before every command.
//!
//! Only in memory: what is not known is measured. Look at [`KnownWorkspaces`]. It must never know how
//! anything is measured.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;

use super::plan::WorkspaceUsage;
use crate::sandbox::limits;

/// By their paths.
#[derive(Debug, Clone, Default)]
pub(crate) struct KnownWorkspaces(Arc<Mutex<BTreeMap<PathBuf, (WorkspaceUsage, Instant)>>>);

/// One of them, in which a command runs.
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
    /// What was found when a command was over.
    pub(crate) fn note(&self, found: Option<WorkspaceUsage>) {
        let Some(found) = found else { return };
        let mut all = self.all.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= limits::WORKSPACES_KNOWN_MAX && !all.contains_key(&self.path) {
            all.clear();
        }
        // Another command may have ended in the meantime; what was first stays.
        let noted = match all.get(&self.path).map(|(known, _)| *known) {
            // What was measured says more than what may have been added since, which the disk tells, too.
            Some(known) if known.first.is_some() && found.first.is_none() => {
                WorkspaceUsage { is_fresh: false, ..known }
            }
            known => WorkspaceUsage { first: known.and_then(|known| known.first).or(found.first), ..found },
        };
        all.insert(self.path.clone(), (noted, recount_world::moment()));
    }
}
