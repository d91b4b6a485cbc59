//! The limit of open files: raised as far as allowed, and the number of connections it is enough for.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::limits;

/// How many files this process may have open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Files {
    /// What counts now; `None` is without a limit.
    pub soft: Option<u64>,
    /// The hard limit, up to which the process may raise it.
    pub hard: Option<u64>,
}

impl Files {
    pub fn now() -> Self {
        let limit = getrlimit(Resource::Nofile);
        Files { soft: limit.current, hard: limit.maximum }
    }

    /// Raises what counts to the most that is allowed. Once, when the server starts: what it starts later
    /// would inherit it.
    pub fn raise() -> Self {
        let before = Files::now();
        let limit = Rlimit { current: before.hard, maximum: before.hard };
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            tracing::warn!(%error, limit = ?before.soft, "cannot raise the limit of open files");
        }
        Files::now()
    }

    /// Connections that leave enough files for everything else.
    pub fn connections_max(self) -> usize {
        let Some(soft) = self.soft else { return limits::CONNECTIONS_MAX };
        let soft = usize::try_from(soft).unwrap_or(usize::MAX);
        // So few that nothing works well: then a quarter of them, so that something does.
        let left = soft.saturating_sub(limits::FILES_KEPT).max(soft / 4).max(1);
        left.min(limits::CONNECTIONS_MAX)
    }
}

/// A limit in words.
pub(crate) fn in_words(limit: Option<u64>) -> String {
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
