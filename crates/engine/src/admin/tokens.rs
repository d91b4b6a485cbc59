//! Token records: id, name, scopes and the hash of the secret.
//!
//! Works with and without an open engine. It must never see a secret.

use std::collections::BTreeSet;

use recount_event::{Code, TokenId};
use recount_log::{Append, AppendError, Guard, RowPut, Store};
use serde::{Deserialize, Serialize};

use crate::admin::handle::AdminHandle;
use crate::boxed;
use crate::catalogue::table::read_row;
use crate::ground::row_pages::RowPages;
use crate::ground::rows;
use crate::write::row_deletions::{delete_damaged_rows, delete_rows};
use crate::{Error, Narrowing, Scope, limits};

/// A token as stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenRow {
    pub id: TokenId,
    pub tenant: String,
    /// The name in the log of the client that uses it.
    pub name: String,
    /// BLAKE3 of the secret, in hex.
    pub hash: String,
    pub scopes: BTreeSet<Scope>,
    #[serde(default, skip_serializing_if = "Narrowing::is_none")]
    pub narrowing: Narrowing,
    pub created_at: String,
    pub created_by: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_ms: Option<u64>,
    /// The rate limit of the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_second: Option<u32>,
}

/// The readable tokens, oldest first, and the unreadable rows. Tokens of unreadable rows are not accepted.
#[derive(Debug, Default)]
pub struct TokenRows {
    pub whole: Vec<TokenRow>,
    pub damaged: Vec<String>,
}

impl AdminHandle {
    /// All tokens.
    #[boxed]
    pub async fn tokens(&self) -> Result<TokenRows, Error> {
        tokens(self.ground().store()).await
    }

    #[boxed]
    pub async fn add_token(&self, row: &TokenRow) -> Result<(), Error> {
        add_token(self.ground().store(), row).await
    }

    /// Returns whether the token existed.
    #[boxed]
    pub async fn remove_token(&self, id: TokenId) -> Result<bool, Error> {
        remove_token(self.ground().store(), id).await
    }
}

/// All tokens of a store.
#[boxed]
pub async fn tokens(store: &dyn Store) -> Result<TokenRows, Error> {
    let (mut found, mut damaged) = (TokenRows::default(), Vec::new());
    let mut pages = RowPages::new(store, rows::TOKENS, limits::PAGE_EVENTS);
    while let Some(page) = pages.next().await? {
        // Each page names all damaged rows.
        damaged = page.damaged;
        for row in &page.rows {
            match read_row(rows::TOKENS, &row.key, &row.value) {
                Ok(token) => found.whole.push(token),
                Err(_) => found.damaged.push(format!("{}/{}", rows::TOKENS, row.key)),
            }
        }
    }
    found.damaged.extend(damaged.iter().map(ToString::to_string));
    Ok(found)
}

/// Adds a token, up to the limit.
#[boxed]
pub async fn add_token(store: &dyn Store, row: &TokenRow) -> Result<(), Error> {
    if tokens(store).await?.whole.len() >= limits::TOKENS_MAX {
        let detail = format!("the limit of {} tokens is reached; remove a token first", limits::TOKENS_MAX);
        return Err(Error::rejected(Code::LimitReached, detail));
    }
    append_row(store, rows::put(rows::TOKENS, row.id.to_string(), Guard::Absent, row)).await
}

/// Removes a token. Returns whether it existed.
#[boxed]
pub async fn remove_token(store: &dyn Store, id: TokenId) -> Result<bool, Error> {
    let key = id.to_string();
    let found = store.row(rows::TOKENS, &key).await.map_err(Error::from);
    let deletions = vec![rows::delete(rows::TOKENS, key)];
    match found {
        Ok(None) => return Ok(false),
        Ok(Some(_)) => delete_rows(store, deletions).await?,
        Err(error) if error.is_damage() => return delete_damaged_rows(store, &deletions).await,
        Err(error) => return Err(error),
    }
    Ok(true)
}

async fn append_row(store: &dyn Store, row: RowPut) -> Result<(), Error> {
    let changed = store.append(Append { rows: vec![row], ..Append::default() }).await;
    changed.map(drop).map_err(|error: AppendError| error.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use recount_log::MemoryStore;

    #[tokio::test]
    async fn tokens_are_added_listed_and_removed() {
        let store = MemoryStore::new();
        let id: TokenId = "tok_01JZZZZZZZZZZZZZZZZZZZZZZZ".parse().unwrap();
        let row = TokenRow {
            id,
            tenant: "acme".into(),
            name: "ci".into(),
            hash: "00".into(),
            scopes: [Scope::Read, Scope::Ingest].into(),
            narrowing: Narrowing {
                tasks: ["task_01JZZZZZZZZZZZZZZZZZZZZZZZ".parse().unwrap()].into(),
                ..Narrowing::default()
            },
            created_at: "2026-01-01T00:00:00.000Z".into(),
            created_by: "operator".into(),
            expires_ms: Some(5),
            requests_per_second: None,
        };
        add_token(&store, &row).await.unwrap();
        assert!(add_token(&store, &row).await.is_err(), "token ids are unique");
        assert_eq!(tokens(&store).await.unwrap().whole, [row]);
        assert!(remove_token(&store, id).await.unwrap());
        assert!(!remove_token(&store, id).await.unwrap());
        assert!(tokens(&store).await.unwrap().whole.is_empty());
    }
}
