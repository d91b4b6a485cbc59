//! The data folder of a server, and how its stores are opened.
//!
//! It must not know tenants or requests. Start at [`Home`].

use std::path::PathBuf;

use recount_log_sqlite::{Durability, SqliteOptions};

/// The data folder of a server and its durability, for the admin functions.
#[derive(Debug, Clone)]
pub struct Home {
    pub data: PathBuf,
    pub durability: Durability,
    /// Positions after which acknowledged events may be missing.
    pub accept_loss_after: Vec<u64>,
    /// How many events of a store may be unsealed. For tests that want much sealing.
    #[doc(hidden)]
    pub hot_events_max: Option<u64>,
}

impl Home {
    /// The options to open a store in this folder.
    pub(crate) fn options(&self, folder: PathBuf) -> SqliteOptions {
        let mut options = SqliteOptions::new(folder);
        options.durability = self.durability;
        options.accept_loss_after.clone_from(&self.accept_loss_after);
        if let Some(events) = self.hot_events_max {
            options.hot_records_max = events;
        }
        options
    }
}
