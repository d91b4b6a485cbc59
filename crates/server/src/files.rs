//! The limit of open files: raised as far as allowed, and the number of connections it is enough for.

use recount_world::platform::{OpenFiles, open_files, raise_open_files};

use crate::limits;

/// How many files this process may have open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Files {
    /// The current limit; `None` means no limit.
    pub soft: Option<u64>,
    /// The hard limit, up to which the process may raise it.
    pub hard: Option<u64>,
}

impl Files {
    pub fn now() -> Self {
        let OpenFiles { soft, hard } = open_files();
        Files { soft, hard }
    }

    /// Raises the current limit to the hard limit. Call it once at startup: programs started later inherit the limit.
    pub fn raise() -> Self {
        let before = Files::now();
        if let Err(error) = raise_open_files() {
            tracing::warn!(%error, limit = ?before.soft, "cannot raise the limit of open files");
        }
        Files::now()
    }

    /// The number of connections that leaves enough files for everything else.
    pub fn connections_max(self) -> usize {
        let Some(soft) = self.soft else { return limits::CONNECTIONS_MAX };
        let soft = usize::try_from(soft).unwrap_or(usize::MAX);
        // With very few files, reserve only part of them, so that some connections remain.
        let available = soft.saturating_sub(limits::FILES_KEPT).max(soft / 4).max(1);
        available.min(limits::CONNECTIONS_MAX)
    }
}

/// A limit as text for operators.
pub(crate) fn limit_text(limit: Option<u64>) -> String {
    limit.map_or_else(|| "unlimited".to_owned(), |limit| limit.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_for_the_rest() {
        let most = |soft| Files { soft, hard: None }.connections_max();
        assert_eq!(most(None), limits::CONNECTIONS_MAX);
        assert_eq!(most(Some(1 << 20)), limits::CONNECTIONS_MAX);
        assert_eq!(most(Some(1024)), 1024 - limits::FILES_KEPT);
        assert_eq!(most(Some(64)), 16);
        assert_eq!(most(Some(0)), 1);
    }
}
