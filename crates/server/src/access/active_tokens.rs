//! The active tokens: creates, lists and revokes them. Requests are checked against memory; the store only persists.
//! See [`ActiveTokens`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use recount_engine::{Caller, Engine, Error, Narrowing, Scope, TokenRow, TokenRows};
use recount_event::{Code, TokenId, time};
use recount_face_aep::Refusal;
use recount_world::World;
use tokio::sync::watch;

use super::rate::Bucket;
use super::secret::{self, Secret};

/// A token in use, with its revocation flag and rate limit.
pub(crate) struct ActiveToken {
    pub(crate) row: TokenRow,
    revoked: watch::Sender<bool>,
    bucket: Bucket,
    world: World,
}

/// The properties of a new token.
pub(crate) struct NewToken {
    pub(crate) tenant: String,
    pub(crate) name: String,
    pub(crate) scopes: BTreeSet<Scope>,
    pub(crate) narrowing: Narrowing,
    pub(crate) expires_in: Option<Duration>,
    pub(crate) requests_per_second: Option<u32>,
    pub(crate) created_by: String,
}

impl NewToken {
    /// Creates the row to store and the secret to show once.
    pub(crate) fn minted(self, world: &World) -> (TokenRow, Secret) {
        let secret = secret::minted(world);
        let now = world.clock.now_ms();
        let lasts = |wait: Duration| now.saturating_add(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
        let row = TokenRow {
            id: secret.id,
            tenant: self.tenant,
            name: self.name,
            hash: secret.hash().to_hex().to_string(),
            scopes: self.scopes,
            narrowing: self.narrowing,
            created_at: time::format_ms(now),
            created_by: self.created_by,
            expires_ms: self.expires_in.map(lasts),
            requests_per_second: self.requests_per_second,
        };
        (row, secret)
    }
}

impl ActiveToken {
    fn new(row: TokenRow, world: World) -> Arc<Self> {
        let bucket = Bucket::new(recount_world::moment());
        Arc::new(ActiveToken { row, revoked: watch::channel(false).0, bucket, world })
    }

    fn expires_in(&self) -> Option<Duration> {
        let now = self.world.clock.now_ms();
        self.row.expires_ms.map(|at| Duration::from_millis(at.saturating_sub(now)))
    }

    /// Refuses a revoked or expired token.
    pub(crate) fn check_valid(&self) -> Result<(), Refusal> {
        if *self.revoked.borrow() || self.expires_in() == Some(Duration::ZERO) {
            return Err(invalid());
        }
        Ok(())
    }

    /// Refuses the request when the token's rate, or else the default rate, is exceeded.
    pub(crate) fn check_rate(&self, default: Option<u32>) -> Result<(), Refusal> {
        let Some(rate) = self.row.requests_per_second.or(default) else { return Ok(()) };
        self.bucket.take(rate, recount_world::moment()).map_err(|wait| Refusal {
            // The header has whole seconds only.
            retry_after: Some(Duration::from_secs(wait.as_secs() + 1)),
            ..Refusal::new(Code::RateLimited, format!("the token allows {rate} requests per second"))
        })
    }

    pub(crate) fn caller(&self) -> Caller {
        let row = &self.row;
        let revoked = self.revoked.subscribe();
        Caller::new(
            row.id.to_string(),
            row.name.clone(),
            row.scopes.clone(),
            row.narrowing.clone(),
            revoked,
            self.expires_in(),
        )
    }
}

/// The same text for every cause, so that it reveals nothing.
fn invalid() -> Refusal {
    Refusal::new(Code::TokenInvalid, "the token is unknown, expired or revoked")
}

pub(crate) struct ActiveTokens {
    /// The engine of the default tenant, whose store holds all tokens.
    engine: Engine,
    tokens: RwLock<BTreeMap<TokenId, Arc<ActiveToken>>>,
    /// Rows that cannot be read.
    damaged: RwLock<Vec<String>>,
}

impl ActiveTokens {
    pub(crate) async fn load(engine: Engine) -> Result<Self, Error> {
        let world = engine.world().clone();
        let TokenRows { whole, damaged } = engine.admin().tokens().await?;
        for row in &damaged {
            tracing::error!(%row, "the record of a token is damaged; the token is not accepted");
        }
        let tokens = whole.into_iter().map(|row| (row.id, ActiveToken::new(row, world.clone()))).collect();
        Ok(ActiveTokens { engine, tokens: RwLock::new(tokens), damaged: RwLock::new(damaged) })
    }

    /// Rows, as space and key, of tokens that cannot be read.
    pub(crate) fn damaged(&self) -> Vec<String> {
        self.damaged.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tokens.read().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// The active token for the text that a client sent.
    pub(crate) fn find(&self, shown: &str) -> Result<Arc<ActiveToken>, Refusal> {
        let secret = Secret::parse(shown).ok_or_else(invalid)?;
        let found = self.tokens.read().unwrap_or_else(PoisonError::into_inner).get(&secret.id).cloned();
        let token = found.ok_or_else(invalid)?;
        let stored = blake3::Hash::from_hex(&token.row.hash).map_err(|_| invalid())?;
        // Compared in constant time.
        if stored != secret.hash() {
            return Err(invalid());
        }
        token.check_valid()?;
        Ok(token)
    }

    /// Lists the tokens of one tenant, or of all, oldest first.
    pub(crate) fn list(&self, tenant: Option<&str>) -> Vec<TokenRow> {
        let tokens = self.tokens.read().unwrap_or_else(PoisonError::into_inner);
        let wanted = |token: &&Arc<ActiveToken>| tenant.is_none_or(|tenant| token.row.tenant == tenant);
        tokens.values().filter(wanted).map(|token| token.row.clone()).collect()
    }

    /// Stores a new token; it is valid when this returns.
    pub(crate) async fn add(&self, new: NewToken) -> Result<(TokenRow, Secret), Error> {
        let world = self.engine.world().clone();
        let (row, secret) = new.minted(&world);
        self.engine.admin().add_token(&row).await?;
        let token = ActiveToken::new(row.clone(), world);
        self.tokens.write().unwrap_or_else(PoisonError::into_inner).insert(row.id, token);
        Ok((row, secret))
    }

    /// Revokes a token: requests are refused and open streams end. Returns whether the token existed, in this tenant if
    /// one is named.
    pub(crate) async fn remove(&self, id: TokenId, tenant: Option<&str>) -> Result<bool, Error> {
        let found = {
            let tokens = self.tokens.read().unwrap_or_else(PoisonError::into_inner);
            tokens.get(&id).filter(|token| tenant.is_none_or(|tenant| token.row.tenant == tenant)).cloned()
        };
        let Some(token) = found else {
            // The tenant of a damaged record is unknown, so only the operator may remove it.
            if tenant.is_some() {
                return Ok(false);
            }
            let existed = self.engine.admin().remove_token(id).await?;
            let mut damaged = self.damaged.write().unwrap_or_else(PoisonError::into_inner);
            damaged.retain(|row| !row.ends_with(&id.to_string()));
            return Ok(existed);
        };
        // In memory first, so that it is never valid after its removal was confirmed.
        token.revoked.send_replace(true);
        self.engine.admin().remove_token(id).await?;
        self.tokens.write().unwrap_or_else(PoisonError::into_inner).remove(&id);
        Ok(true)
    }
}
