//! Signs the head of each run when the run has ended, and keeps the signed heads and the keys of a tenant.
//!
//! A service follows the feed from a stored cursor, so no ending is missed. The private key is sealed in the store; a
//! rotation deletes it, so heads of retired keys cannot be forged later. It must not know how signatures are made. Start
//! at [`AdminHandle::start_signing`] and [`AdminHandle::signed_head`].

use memchr::memmem::Finder;
use recount_event::codec::Envelope;
use recount_event::{Code, RunId, time};
use recount_log::{Append, Guard, Row, RowPut, Store, Tail};
use recount_signature::{ALGORITHM, Jwk, SEED_BYTES, SignedHead, SigningKey, Statement};
use recount_world::Kind;
use serde::{Deserialize, Serialize};
use tokio::sync::MutexGuard;

use crate::admin::handle::AdminHandle;
use crate::admin::signer::{Progress, Signer, SignerState};
use crate::boxed;
use crate::catalogue::table::read_row;
use crate::ground::row_pages::RowPages;
use crate::ground::{journal, rows};
use crate::{Error, limits};

/// A published key of a tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyRow {
    pub public: Jwk,
    pub created_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retired_at: Option<String>,
}

impl AdminHandle {
    /// Signs the heads of ended runs from now on, and first those of runs that ended earlier. Needs a key that seals. If its
    /// records are damaged, nothing is signed.
    #[boxed]
    pub async fn start_signing(&self, tenant: &str) -> Result<(), Error> {
        let state = match self.signer_state().await {
            Err(error) if error.is_damage() => {
                tracing::error!(%error, tenant, "heads of runs are not signed: the records of signing are damaged");
                return Ok(());
            }
            state => tokio::sync::Mutex::new(state?),
        };
        if self.signer.set(Signer { tenant: tenant.to_owned(), state }).is_err() {
            return Err(Error::bug("signing was started twice"));
        }
        let admin = self.clone();
        self.ground().world.tasks.spawn_until_shutdown(Kind::Service, async move {
            loop {
                if let Err(error) = admin.sign_endings().await {
                    tracing::warn!(%error, "cannot sign the heads of ended runs; retrying later");
                }
                tokio::time::sleep(limits::SIGNING_RETRY).await;
            }
        });
        Ok(())
    }

    async fn signer_state(&self) -> Result<SignerState, Error> {
        let progress = self.stored_progress().await?;
        let key = match self.stored_key().await? {
            Some(key) => key,
            // A seed that cannot be opened stays: the right seal key may come back.
            None => self.new_key(false).await?,
        };
        Ok(SignerState { key, progress, is_unsettled: false })
    }

    async fn stored_progress(&self) -> Result<Progress, Error> {
        let row = self.ground().store().row(rows::SIGNING, rows::SIGNING_PROGRESS).await?;
        let read = |row: Row| read_row(rows::SIGNING, rows::SIGNING_PROGRESS, &row.value);
        Ok(row.map(read).transpose()?.unwrap_or_default())
    }

    /// The state as the store has it.
    async fn settled<'s>(&self, signer: &'s Signer) -> Result<MutexGuard<'s, SignerState>, Error> {
        let mut state = signer.state.lock().await;
        if state.is_unsettled {
            let cursor = state.progress.cursor;
            *state = self.signer_state().await?;
            state.progress.cursor = state.progress.cursor.max(cursor);
        }
        Ok(state)
    }

    /// Follows the feed and signs the head of each run that ends.
    async fn sign_endings(&self) -> Result<(), Error> {
        let Some(signer) = self.signer.get() else { return Ok(()) };
        let cursor = signer.state.lock().await.progress.cursor;
        let mut records = match self.read().follow_feed_records(cursor).await {
            // Events after the cursor were pruned.
            Err(error) if error.code() == Code::CursorPruned => self.read().follow_feed_records(0).await?,
            followed => followed?,
        };
        let ending = Finder::new(b"\"type\":\"run.");
        while let Some(found) = records.next().await? {
            let mut last = None;
            for (position, envelope) in found {
                last = Some(position);
                if ending.find(&envelope).is_none() {
                    continue;
                }
                let Ok(read) = Envelope::read(&envelope) else { continue };
                if !read.is_ending() {
                    continue;
                }
                match self.sign_ended(signer, read.run_id, position).await {
                    Err(error) if error.is_damage() => {
                        tracing::error!(run = %read.run_id, %error, "the head of a damaged run is not signed");
                    }
                    signed => signed?,
                }
            }
            if let Some(last) = last {
                let mut state = signer.state.lock().await;
                state.progress.cursor = state.progress.cursor.max(last);
            }
        }
        Ok(())
    }

    /// Signs the head of an ended run, unless that was done, and stores it with the progress.
    async fn sign_ended(&self, signer: &Signer, run: RunId, position: u64) -> Result<(), Error> {
        let mut state = self.settled(signer).await?;
        if self.stored_head(run).await?.is_some() {
            return Ok(());
        }
        let stream = journal::stream_of(run);
        let Some(tail) = self.ground().store().tail(&stream).await?.filter(|tail| !tail.erased) else {
            return Ok(());
        };
        let number = state.progress.number + 1;
        let statement = Statement {
            number: Some(number),
            previous: state.progress.digest.clone(),
            ..self.statement(&signer.tenant, &state.key, run, &tail)
        };
        let signed = state.key.sign(&statement);
        let cursor = state.progress.cursor.max(position);
        let progress = Progress { cursor, number, digest: Some(signed.digest()) };
        state.is_unsettled = true;
        self.put_rows(vec![
            rows::put(rows::SIGNED_HEADS, run.to_string(), Guard::Absent, &signed),
            rows::put(rows::SIGNING, rows::SIGNING_PROGRESS, Guard::Any, &progress),
        ])
        .await?;
        state.progress = progress;
        state.is_unsettled = false;
        Ok(())
    }

    fn statement(&self, tenant: &str, key: &SigningKey, run: RunId, tail: &Tail) -> Statement {
        Statement {
            tenant: tenant.to_owned(),
            run_id: run.to_string(),
            events: tail.next_sequence,
            algorithm: ALGORITHM.to_owned(),
            head: tail.head.to_string(),
            signed_at: time::format_ms(self.ground().world.clock.now_ms()),
            key_id: key.id().to_owned(),
            number: None,
            previous: None,
        }
    }

    /// The signed head of a run: of an ended one that was stored, of another one that of this moment. `None` if it is
    /// missing, or if nothing is signed here.
    #[boxed]
    pub async fn signed_head(&self, run: RunId) -> Result<Option<SignedHead>, Error> {
        let Some(signer) = self.signer.get() else { return Ok(None) };
        if let Some(stored) = self.stored_head(run).await? {
            return Ok(Some(stored));
        }
        let row = self.catalogue().existing_run(run).await?;
        let stream = journal::stream_of(run);
        let Some(tail) = self.ground().store().tail(&stream).await?.filter(|tail| !tail.erased) else {
            return Ok(None);
        };
        if !row.has_ended() {
            let state = self.settled(signer).await?;
            return Ok(Some(state.key.sign(&self.statement(&signer.tenant, &state.key, run, &tail))));
        }
        // A head that was stored and is missing is not signed anew.
        let is_due = signer.state.lock().await.progress.cursor < tail.last_position;
        if is_due {
            self.sign_ended(signer, run, 0).await?;
        }
        self.stored_head(run).await
    }

    /// All keys of the tenant, oldest first.
    #[boxed]
    pub async fn signing_keys(&self) -> Result<Vec<KeyRow>, Error> {
        signing_keys(self.ground().store()).await
    }

    /// Replaces the key. The previous private key is deleted, its public key stays published.
    #[boxed]
    pub async fn rotate_signing_key(&self) -> Result<KeyRow, Error> {
        let Some(signer) = self.signer.get() else {
            return Err(Error::rejected(
                Code::LimitReached,
                "this server signs nothing, because it has no data folder",
            ));
        };
        let mut state = self.settled(signer).await?;
        if self.signing_keys().await?.len() >= limits::SIGNING_KEYS_MAX {
            let detail = format!("the limit of {} keys is reached", limits::SIGNING_KEYS_MAX);
            return Err(Error::rejected(Code::LimitReached, detail));
        }
        state.is_unsettled = true;
        state.key = self.new_key(true).await?;
        state.is_unsettled = false;
        let created = self.signing_keys().await?.into_iter().find(|key| key.public.kid == state.key.id());
        created.ok_or_else(|| Error::bug("the new key is not stored"))
    }

    /// The key in use, if its private part can be opened.
    async fn stored_key(&self) -> Result<Option<SigningKey>, Error> {
        let Some(current) = self.signing_keys().await?.into_iter().rfind(|key| key.retired_at.is_none())
        else {
            return Ok(None);
        };
        let seed = match self.write().unseal_at(&rows::signing_seed(&current.public.kid)).await {
            Err(error) if error.is_damage() => {
                tracing::warn!(%error, key = current.public.kid, "the private key that signs heads cannot be opened");
                None
            }
            seed => seed?,
        };
        let key = seed.and_then(|seed| <[u8; SEED_BYTES]>::try_from(seed).ok());
        let key = key.map(|seed| SigningKey::from_seed(&seed)).filter(|key| key.id() == current.public.kid);
        if key.is_none() {
            tracing::warn!(
                key = current.public.kid,
                "the key that signs heads is lost; a new one replaces it"
            );
        }
        Ok(key)
    }

    /// Creates and stores a key; others are retired, and their private parts deleted if requested.
    async fn new_key(&self, deletes_seeds: bool) -> Result<SigningKey, Error> {
        let mut seed = [0; SEED_BYTES];
        for half in seed.chunks_mut(16) {
            half.copy_from_slice(&self.ground().world.entropy.draw().to_le_bytes()[..half.len()]);
        }
        let key = SigningKey::from_seed(&seed);
        let now = time::format_ms(self.ground().world.clock.now_ms());
        let new = KeyRow { public: key.public().clone(), created_at: now.clone(), retired_at: None };
        let mut changes = vec![
            self.write().sealed_row(&rows::signing_seed(key.id()), &seed)?,
            rows::put(rows::SIGNING_KEYS, key.id(), Guard::Absent, &new),
        ];
        for other in self.signing_keys().await? {
            let id = other.public.kid.clone();
            if other.retired_at.is_none() {
                let other = KeyRow { retired_at: Some(now.clone()), ..other };
                changes.push(rows::put(rows::SIGNING_KEYS, id.clone(), Guard::Any, &other));
            }
            if deletes_seeds {
                changes.push(rows::delete(rows::SEALED, rows::signing_seed(&id)));
            }
        }
        self.put_rows(changes).await?;
        tracing::info!(key = key.id(), "a new key signs the heads of runs");
        Ok(key)
    }

    async fn put_rows(&self, rows: Vec<RowPut>) -> Result<(), Error> {
        self.ground().store().append(Append { rows, ..Append::default() }).await?;
        Ok(())
    }

    async fn stored_head(&self, run: RunId) -> Result<Option<SignedHead>, Error> {
        stored_head(self.ground().store(), &run.to_string()).await
    }
}

/// The stored signed head of a run.
#[boxed]
pub async fn stored_head(store: &dyn Store, run: &str) -> Result<Option<SignedHead>, Error> {
    let row = store.row(rows::SIGNED_HEADS, run).await?;
    row.map(|row| read_row(rows::SIGNED_HEADS, run, &row.value)).transpose()
}

/// The runs that have a signed head in a store.
#[boxed]
pub async fn signed_runs(store: &dyn Store) -> Result<Vec<String>, Error> {
    let mut found = Vec::new();
    let mut pages = RowPages::new(store, rows::SIGNED_HEADS, limits::PAGE_EVENTS);
    while let Some(page) = pages.next().await? {
        found.extend(page.rows.iter().map(|row| row.key.to_string()));
    }
    Ok(found)
}

/// The keys that sign heads in a store, oldest first.
#[boxed]
pub async fn signing_keys(store: &dyn Store) -> Result<Vec<KeyRow>, Error> {
    let mut found = Vec::new();
    let mut pages = RowPages::new(store, rows::SIGNING_KEYS, limits::PAGE_EVENTS);
    while let Some(page) = pages.next().await? {
        for row in &page.rows {
            found.push(read_row::<KeyRow>(rows::SIGNING_KEYS, &row.key, &row.value)?);
        }
    }
    found.sort_by(|one, other| one.created_at.cmp(&other.created_at));
    Ok(found)
}
