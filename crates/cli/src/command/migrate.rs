//! `recount migrate`: copies the stores of a data folder into a database.

use std::path::Path;

use clap::Args;
use recount_server::migrate::{MigratedStore, migrate};
use serde_json::json;

use super::invocation::{self, Invocation};
use crate::failure::Failure;
use crate::output::{Output, note};
use crate::render::{clean, count};

/// Copy the stores of a data folder into a PostgreSQL database
#[derive(Args)]
pub(super) struct Migrate {
    /// Data folder to copy, which no server may be using, such as sqlite:/var/lib/recount
    #[arg(long, value_name = "sqlite:DIR")]
    from: String,
    /// Database without stores, such as postgres://user@host/db
    #[arg(long, value_name = "URL")]
    to: String,
}

impl Migrate {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        let Some(data) = self.from.strip_prefix("sqlite:") else {
            return Err(Failure::Usage(
                "--from names no data folder; use sqlite:DIR. To copy from a database, export its runs and import them"
                    .to_owned(),
            ));
        };
        let copied = invocation::block_on(async { Ok(migrate(Path::new(data), &self.to).await?) })?;
        let mut out = Output::new();
        for store in &copied {
            print_store(&mut out, invocation.json, store)?;
        }
        note(&format!("verified; start the server with recount serve --data {data} and --store"));
        Ok(())
    }
}

fn print_store(out: &mut Output, as_json: bool, store: &MigratedStore) -> Result<(), Failure> {
    let MigratedStore { name, runs, events, rows, blobs } = store;
    if as_json {
        return out.value(&json!({
            "object": "store", "name": name, "runs": runs, "events": events, "rows": rows, "blobs": blobs,
        }));
    }
    let counts = [(runs, "run"), (events, "event"), (rows, "row"), (blobs, "blob")];
    let counts: Vec<String> = counts.iter().map(|(number, noun)| count(**number, noun)).collect();
    out.line(&clean::line(&format!("{name}: {} copied", counts.join(", "))))
}
