//! Sessions of applications: agent, options, client tools and seed messages.
//!
//! They are records; the log of each run has its own configuration. Secret options are sealed, and only the agent
//! that needs them gets them. Start with [`SetupRow`]. It must not depend on a wire format; seed messages are stored
//! unchanged, so that they can be returned exactly.

use std::collections::BTreeMap;

use recount_event::{Code, Json, SessionId, time};
use recount_log::{Append, Guard, RowPut};

use crate::boxed;
use crate::catalogue::setups::option_key;
use crate::ground::rows;
use crate::write::handle::WriteHandle;
use crate::write::redaction::Redaction;
use crate::{Error, IdempotencyKey, Overrides, RequestResult, SessionRow, Setup, SetupRow, limits};

/// A session to create.
#[derive(Debug, Clone, Default)]
pub struct NewSetup {
    pub title: Option<String>,
    pub setup: Setup,
    /// The values of secret options, which are stored sealed.
    pub secrets: BTreeMap<String, String>,
    /// The seed messages: JSON objects in the application's format.
    pub seed: Vec<Json>,
}

/// A session to create with the setup of another one.
#[derive(Debug, Clone, Default)]
pub struct NewFork {
    pub title: Option<String>,
    /// The seed messages, as in [`NewSetup`].
    pub seed: Vec<Json>,
}

impl WriteHandle {
    /// Creates a session with its setup and seed messages. Title and messages are masked; option values are not,
    /// because they would become unusable.
    #[boxed]
    pub async fn create_setup(
        &self,
        new: NewSetup,
        idempotency: Option<&IdempotencyKey>,
    ) -> Result<SessionRow, Error> {
        let stamp = self.ground().stamp();
        let session = SessionId::new(self.ground().mint(stamp));
        let now = time::format_ms(stamp.now_ms);
        let redaction = self.context.redaction.with_secrets(new.secrets.values());
        let title = new.title.map(|title| redaction.redactor.text(&title).into_owned());
        let row = SessionRow { id: session, title, created_at: now.clone() };
        let seed = seed_rows(&redaction, session, &new.seed)?;
        let setup = SetupRow {
            setup: new.setup,
            seeded: new.seed.len(),
            seed_rows: seed.len(),
            updated_at: now,
            version: 0,
        };
        let key = rows::tenant_key(session);
        let mut puts = vec![
            rows::put(rows::SESSIONS, key.as_str(), Guard::Absent, &row),
            rows::put(rows::SETUPS, key.as_str(), Guard::Absent, &setup),
        ];
        fits("the configuration of the session", puts.iter().map(bytes_of).max(), limits::SETUP_BYTES_MAX)?;
        puts.extend(seed);
        puts.extend(self.sealed_options(session, &new.secrets)?);
        puts.extend(self.result_rows(idempotency, RequestResult::Session(session)));
        self.ground().store().append(Append { rows: puts, ..Append::default() }).await?;
        if !new.secrets.is_empty() {
            self.context.session_redactions.insert(session, (rows::FIRST_VERSION, redaction));
        }
        self.context.session_copies.insert(session, None);
        Ok(row)
    }

    /// Creates a session with the same setup and secrets, and with other seed messages.
    #[boxed]
    pub async fn fork(
        &self,
        session: SessionId,
        new: NewFork,
        idempotency: Option<&IdempotencyKey>,
    ) -> Result<SessionRow, Error> {
        let Some(SetupRow { setup, .. }) = self.catalogue().setup(session).await? else {
            return Err(self.missing_setup(session).await);
        };
        let mut secrets = BTreeMap::new();
        for name in &setup.secrets {
            let Some(value) = self.secret_option(session, name).await? else {
                return Err(self.missing_setup(session).await);
            };
            secrets.insert(name.clone(), value);
        }
        let NewFork { title, seed } = new;
        self.create_setup(NewSetup { title, setup, secrets, seed }, idempotency).await
    }

    /// Why a session has no setup: it does not exist, or was created without one.
    async fn missing_setup(&self, session: SessionId) -> Error {
        match self.catalogue().session(session).await {
            Ok(Some(_)) => Error::rejected(Code::SessionNotFound, format!("session {session} has no agent")),
            Ok(None) => self.catalogue().missing_session(session).await,
            Err(error) => error,
        }
    }

    /// The value of a secret option of a session.
    #[boxed]
    pub async fn secret_option(&self, session: SessionId, option: &str) -> Result<Option<String>, Error> {
        let Some(bytes) = self.unseal_at(&option_key(session, option)).await? else { return Ok(None) };
        let text = String::from_utf8(bytes);
        text.map(Some).map_err(|_| Error::bug(format!("the option {option} of {session} is not text")))
    }

    /// The rows that store overrides, for the append that they belong to.
    pub(crate) fn override_rows(
        &self,
        session: SessionId,
        before: &SetupRow,
        overrides: &Overrides,
    ) -> Result<Vec<RowPut>, Error> {
        if overrides.is_empty() {
            return Ok(Vec::new());
        }
        let updated_at = time::format_ms(self.ground().world.clock.now_ms());
        let setup = SetupRow { setup: before.setup.changed(overrides), updated_at, ..before.clone() };
        let guard = Guard::Version(before.version);
        let mut puts = vec![rows::put(rows::SETUPS, rows::tenant_key(session), guard, &setup)];
        fits("the configuration of the session", puts.first().map(bytes_of), limits::SETUP_BYTES_MAX)?;
        puts.extend(self.sealed_options(session, &overrides.secrets)?);
        Ok(puts)
    }

    /// The deletions for a setup. Secrets that are set meanwhile are deleted at the end of the session's deletion.
    pub(crate) async fn setup_deletions(&self, session: SessionId) -> Result<Vec<RowPut>, Error> {
        let Some(SetupRow { setup, seed_rows, .. }) = self.catalogue().setup(session).await? else {
            return Ok(Vec::new());
        };
        let mut deletions = vec![rows::delete(rows::SETUPS, rows::tenant_key(session))];
        deletions.extend((0..seed_rows).map(|part| rows::delete(rows::SEEDS, rows::seed_key(session, part))));
        deletions
            .extend(setup.secrets.iter().map(|name| rows::delete(rows::SEALED, option_key(session, name))));
        Ok(deletions)
    }

    fn sealed_options(
        &self,
        session: SessionId,
        secrets: &BTreeMap<String, String>,
    ) -> Result<Vec<RowPut>, Error> {
        let sealed = |(name, value): (&String, &String)| {
            fits("the value of a secret option", Some(value.len()), limits::SETUP_BYTES_MAX)?;
            self.sealed_row(&option_key(session, name), value.as_bytes())
        };
        secrets.iter().map(sealed).collect()
    }
}

/// The masked seed messages, split into rows.
fn seed_rows(redaction: &Redaction, session: SessionId, seed: &[Json]) -> Result<Vec<RowPut>, Error> {
    if seed.is_empty() {
        return Ok(Vec::new());
    }
    let mut masked = seed.to_vec();
    masked.iter_mut().try_for_each(|message| redaction.json(message, &mut Vec::new()))?;
    let whole = rows::written(&masked);
    fits("the seed messages of the session", Some(whole.len()), limits::SEED_BYTES_MAX)?;
    let parts = (0..whole.len()).step_by(limits::SEED_ROW_BYTES).enumerate().map(|(part, start)| RowPut {
        space: rows::SEEDS.into(),
        key: rows::seed_key(session, part).into(),
        guard: Guard::Absent,
        value: Some(whole.slice(start..whole.len().min(start + limits::SEED_ROW_BYTES))),
    });
    Ok(parts.collect())
}

fn bytes_of(put: &RowPut) -> usize {
    put.value.as_ref().map_or(0, bytes::Bytes::len)
}

/// Refuses more than the limit.
fn fits(what: &str, found: Option<usize>, most: usize) -> Result<(), Error> {
    match found.filter(|found| *found > most) {
        Some(found) => {
            let message = format!("{what} has {found} bytes; send at most {most}");
            Err(Error::rejected(Code::LimitReached, message))
        }
        None => Ok(()),
    }
}
