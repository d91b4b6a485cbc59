//! What `recount --version` prints: the release, the commit that it was built from, and the schemas of its stores.

use std::sync::LazyLock;

use recount_server::Durability;
use recount_server::nodes::Survey;

/// Set by `cargo xtask dist` only: other builds would start again after each commit.
const COMMIT: Option<&str> = option_env!("RECOUNT_COMMIT");

static LINE: LazyLock<String> = LazyLock::new(|| {
    format!(
        "{} (commit {}; SQLite schema {}, PostgreSQL schema {})",
        env!("CARGO_PKG_VERSION"),
        COMMIT.unwrap_or("unknown"),
        Durability::SCHEMA,
        Survey::SCHEMA
    )
});

pub(crate) fn line() -> &'static str {
    &LINE
}
