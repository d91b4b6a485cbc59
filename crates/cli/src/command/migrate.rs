//! `recount migrate`: copies the stores of a data folder into a database, or back.

use std::path::Path;

use clap::Args;
use recount_server::migrate::{self, MigratedStore};
use serde_json::json;

use super::invocation::{self, Invocation};
use crate::failure::Failure;
use crate::output::{Output, note};
use crate::render::{clean, count};

/// Copy all stores of a data folder into a PostgreSQL database, or back
#[derive(Args)]
pub(super) struct Migrate {
    /// Stores to copy, which no server may be using: sqlite:DIR for a data folder, or the URL of a database
    #[arg(long, value_name = "STORES")]
    from: String,
    /// Database or data folder without stores, in the same form
    #[arg(long, value_name = "STORES")]
    to: String,
}

impl Migrate {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        let (from, to) = (folder_of(&self.from), folder_of(&self.to));
        let (copied, next) = match (from, to) {
            (Some(data), None) => {
                let copied = invocation::block_on(async { Ok(migrate::to_database(data, &self.to).await?) })?;
                (copied, format!("recount serve --data {} and --store", data.display()))
            }
            (None, Some(data)) => {
                let copied = invocation::block_on(async { Ok(migrate::to_folder(&self.from, data).await?) })?;
                (copied, format!("recount serve --data {}", data.display()))
            }
            _ => {
                let words = "one of --from and --to must be sqlite:DIR, and the other the URL of a database";
                return Err(Failure::Usage(words.to_owned()));
            }
        };
        let mut out = Output::new();
        for store in &copied {
            print_store(&mut out, invocation.json, store)?;
        }
        note(&format!("verified; start the server with {next}"));
        Ok(())
    }
}

fn folder_of(stores: &str) -> Option<&Path> {
    stores.strip_prefix("sqlite:").map(Path::new)
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
