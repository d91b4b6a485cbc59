//! `recount keys`: the public keys that sign heads of runs.

use clap::{Args, Subcommand};
use recount_client::admin::SigningKey;

use super::invocation::Invocation;
use crate::failure::Failure;
use crate::output::note;
use crate::render::clean;

/// List the public keys that sign heads of runs, or replace the one in use
#[derive(Args)]
pub(super) struct Keys {
    #[command(subcommand)]
    action: Option<KeyAction>,
}

#[derive(Subcommand)]
enum KeyAction {
    /// List the keys of all tenants
    Ls,
    /// Create a new key and delete the previous private key
    Rotate,
}

impl Keys {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        invocation.ask(async |mut asking| {
            let keys = match self.action {
                None | Some(KeyAction::Ls) => asking.client.signing_keys().await?.keys,
                Some(KeyAction::Rotate) => vec![asking.client.rotate_signing_key().await?],
            };
            if keys.is_empty() && !asking.json {
                note("this server signs nothing");
            }
            for key in &keys {
                match asking.json {
                    true => asking.out.value(key)?,
                    false => asking.out.line(&clean::line(&line(key)))?,
                }
            }
            Ok(())
        })
    }
}

fn line(key: &SigningKey) -> String {
    let until = key.retired_at.as_ref().map_or("in use".to_owned(), |at| format!("retired {at}"));
    format!("{} since {}, {until}", key.kid, key.created_at)
}
