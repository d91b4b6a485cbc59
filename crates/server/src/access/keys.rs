//! The valid tokens: created, listed, revoked. Requests are checked against memory; the store only remembers. See
//! [`Keys`].

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

/// One token that was handed out.
pub(crate) struct Key {
    pub(crate) row: TokenRow,
    revoked: watch::Sender<bool>,
    bucket: Bucket,
    world: World,
}

/// What a new token is to be.
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
    /// The row of it, and what is shown once.
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

impl Key {
    fn new(row: TokenRow, world: World) -> Arc<Self> {
        let bucket = Bucket::new(recount_world::moment());
        Arc::new(Key { row, revoked: watch::channel(false).0, bucket, world })
    }

    fn expires_in(&self) -> Option<Duration> {
        let now = self.world.clock.now_ms();
        self.row.expires_ms.map(|at| Duration::from_millis(at.saturating_sub(now)))
    }

    /// Whether it still counts.
    pub(crate) fn is_good(&self) -> Result<(), Refusal> {
        if *self.revoked.borrow() || self.expires_in() == Some(Duration::ZERO) {
            return Err(invalid());
        }
        Ok(())
    }

    pub(crate) fn may_ask_now(&self, otherwise: Option<u32>) -> Result<(), Refusal> {
        let Some(rate) = self.row.requests_per_second.or(otherwise) else { return Ok(()) };
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

/// The same words whatever is wrong, so that nothing is learnt from them.
fn invalid() -> Refusal {
    Refusal::new(Code::TokenInvalid, "the token is unknown, expired or revoked")
}

pub(crate) struct Keys {
    /// Of the default tenant, whose store holds all tokens.
    engine: Engine,
    keys: RwLock<BTreeMap<TokenId, Arc<Key>>>,
    /// Rows that cannot be read.
    damaged: RwLock<Vec<String>>,
}

impl Keys {
    pub(crate) async fn load(engine: Engine) -> Result<Self, Error> {
        let world = engine.world().clone();
        let TokenRows { whole, damaged } = engine.admin().tokens().await?;
        for row in &damaged {
            tracing::error!(%row, "the record of a token is damaged; the token is not accepted");
        }
        let keys = whole.into_iter().map(|row| (row.id, Key::new(row, world.clone()))).collect();
        Ok(Keys { engine, keys: RwLock::new(keys), damaged: RwLock::new(damaged) })
    }

    /// Rows, as space and key, of tokens that cannot be read.
    pub(crate) fn damaged(&self) -> Vec<String> {
        self.damaged.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.keys.read().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// The key that a shown text is.
    pub(crate) fn of(&self, shown: &str) -> Result<Arc<Key>, Refusal> {
        let secret = Secret::parse(shown).ok_or_else(invalid)?;
        let found = self.keys.read().unwrap_or_else(PoisonError::into_inner).get(&secret.id).cloned();
        let key = found.ok_or_else(invalid)?;
        let kept = blake3::Hash::from_hex(&key.row.hash).map_err(|_| invalid())?;
        // Compared in constant time.
        if kept != secret.hash() {
            return Err(invalid());
        }
        key.is_good()?;
        Ok(key)
    }

    /// Those of one tenant, or of all, oldest first.
    pub(crate) fn list(&self, tenant: Option<&str>) -> Vec<TokenRow> {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        let wanted = |key: &&Arc<Key>| tenant.is_none_or(|tenant| key.row.tenant == tenant);
        keys.values().filter(wanted).map(|key| key.row.clone()).collect()
    }

    /// Good from now on.
    pub(crate) async fn add(&self, new: NewToken) -> Result<(TokenRow, Secret), Error> {
        let world = self.engine.world().clone();
        let (row, secret) = new.minted(&world);
        self.engine.admin().add_token(&row).await?;
        let key = Key::new(row.clone(), world);
        self.keys.write().unwrap_or_else(PoisonError::into_inner).insert(row.id, key);
        Ok((row, secret))
    }

    /// Good no more: for requests at once, for streams that are open too. Whether there was one, of this
    /// tenant if one is named.
    pub(crate) async fn remove(&self, id: TokenId, tenant: Option<&str>) -> Result<bool, Error> {
        let found = {
            let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
            keys.get(&id).filter(|key| tenant.is_none_or(|tenant| key.row.tenant == tenant)).cloned()
        };
        let Some(key) = found else {
            // Of one whose record is damaged it is not known whose it is, so it is the operator's.
            if tenant.is_some() {
                return Ok(false);
            }
            let was_there = self.engine.admin().remove_token(id).await?;
            let mut damaged = self.damaged.write().unwrap_or_else(PoisonError::into_inner);
            damaged.retain(|row| !row.ends_with(&id.to_string()));
            return Ok(was_there);
        };
        // In memory first, so that it is never valid after its removal was confirmed.
        key.revoked.send_replace(true);
        self.engine.admin().remove_token(id).await?;
        self.keys.write().unwrap_or_else(PoisonError::into_inner).remove(&id);
        Ok(true)
    }
}
