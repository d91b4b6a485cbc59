//! Manages tokens in stores that no server holds, for `recount token --data` and `--store`. See [`OfflineTokens`].

use std::path::Path;
use std::sync::Arc;

use recount_api::admin::{AddToken, AddedToken, Token};
use recount_api::reply::Page;
use recount_engine::{Caller, TokenRows};
use recount_log::Store;
use recount_world::World;
use serde_json::json;

use super::token::{created, new_token, public_token};
use crate::StartError;
use crate::audit::{self, AuditKind};
use crate::boxed;
use crate::config::Config;
use crate::stores::{SqliteSettings, Stores};
use crate::tenant_folder::TENANT_DEFAULT;

/// The tokens of a data folder or a database, which stays locked until [`OfflineTokens::close`].
pub struct OfflineTokens {
    stores: Stores,
    store: Arc<dyn Store>,
}

impl OfflineTokens {
    /// Opens a data folder; a missing one is created.
    pub fn open(data: &Path) -> Result<Self, StartError> {
        let stores = Stores::in_folder(data, SqliteSettings::default());
        OfflineTokens::of(stores)
    }

    /// Opens the stores in a database, which no server may be using. Blocks.
    pub fn in_database(url: &str) -> Result<Self, StartError> {
        OfflineTokens::of(Config::of_database(url)?.stores(None)?)
    }

    fn of(stores: Stores) -> Result<Self, StartError> {
        stores.check_note()?;
        let store = open(&stores, TENANT_DEFAULT).inspect_err(|_| stores.disconnect())?;
        Ok(OfflineTokens { stores, store })
    }

    /// Creates a token, and the store of its tenant if it is missing.
    #[boxed]
    pub async fn add(&self, request: AddToken) -> Result<AddedToken, StartError> {
        let tenant = request.tenant.clone().unwrap_or_else(|| TENANT_DEFAULT.to_owned());
        let new = new_token(request, tenant, &Caller::operator())
            .map_err(|refusal| StartError::usage(refusal.detail))?;
        if new.tenant != TENANT_DEFAULT {
            close(open(&self.stores, &new.tenant)?).await?;
        }
        let (row, secret) = new.minted(&World::real());
        recount_engine::add_token(&*self.store, &row).await.map_err(failed)?;
        audit::record_offline(&self.stores, AuditKind::TokenCreated, created(&row)).await?;
        Ok(AddedToken { secret: secret.reveal().to_owned(), token: public_token(row) })
    }

    #[boxed]
    pub async fn list(&self) -> Result<Page<Token>, StartError> {
        let TokenRows { whole, damaged } = recount_engine::tokens(&*self.store).await.map_err(failed)?;
        let tokens = whole.into_iter().map(public_token).collect();
        Ok(Page { damaged, ..Page::new(tokens, None, false) })
    }

    /// Revokes a token; returns whether it existed.
    #[boxed]
    pub async fn remove(&self, id: &str) -> Result<bool, StartError> {
        let Ok(id) = id.parse() else { return Ok(false) };
        let existed = recount_engine::remove_token(&*self.store, id).await.map_err(failed)?;
        if existed {
            let facts = json!({"token_id": id.to_string(), "by": Caller::operator().name});
            audit::record_offline(&self.stores, AuditKind::TokenRevoked, facts).await?;
        }
        Ok(existed)
    }

    #[boxed]
    pub async fn close(self) -> Result<(), StartError> {
        let closed = close(self.store).await;
        self.stores.disconnect();
        closed
    }
}

fn open(stores: &Stores, name: &str) -> Result<Arc<dyn Store>, StartError> {
    stores.open(name).map_err(|fault| StartError::failed(fault.to_string()))
}

async fn close(store: Arc<dyn Store>) -> Result<(), StartError> {
    store.close().await.map_err(|fault| StartError::failed(fault.to_string()))
}

fn failed(error: recount_engine::Error) -> StartError {
    StartError::failed(error.to_string())
}
