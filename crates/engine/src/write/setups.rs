//! Sessions that an application has set up: with which agent, what it chose, what tools it brings, and what was said
//! before the session began.
//!
//! Records, not history: what held for a run is in its log, too. Secret choices lie sealed beside them and are
//! told to nobody but the agent that needs them. Look at [`SetupRow`]. It must never know a wire format; what was said
//! before is kept as it came, so that it can be told again exactly.

use std::collections::BTreeMap;

use recount_event::{Code, Json, SessionId, time};
use recount_log::{Append, Guard, RowPut};

use crate::boxed;
use crate::catalogue::setups::option_key;
use crate::ground::rows;
use crate::write::handle::WriteHandle;
use crate::write::redaction::Redaction;
use crate::{Error, Made, Once, Overrides, SessionRow, Setup, SetupRow, limits};

/// A session to be.
#[derive(Debug, Clone, Default)]
pub struct NewSetup {
    pub title: Option<String>,
    pub setup: Setup,
    /// The values of secret options, which are kept sealed.
    pub secrets: BTreeMap<String, String>,
    /// What was said before: messages as the application words them, each a JSON object.
    pub seed: Vec<Json>,
}

/// A session to be that goes on from another one, with the same setup.
#[derive(Debug, Clone, Default)]
pub struct NewFork {
    pub title: Option<String>,
    /// What was said before, as in [`NewSetup`].
    pub seed: Vec<Json>,
}

impl WriteHandle {
    /// Begins a session with its setup and what was said before. Title and words are masked like everything else that is
    /// stored; what was chosen is kept as it is, or nothing could be done with it.
    #[boxed]
    pub async fn create_setup(&self, new: NewSetup, once: Option<&Once>) -> Result<SessionRow, Error> {
        let stamp = self.ground().stamp();
        let session = SessionId::new(self.ground().mint(stamp));
        let now = time::format_ms(stamp.now_ms);
        let redaction = self.room.redaction.knowing(new.secrets.values());
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
        puts.extend(once.into_iter().flat_map(|once| self.made_once(once, Made::Session(session))));
        self.ground().store().append(Append { rows: puts, ..Append::default() }).await?;
        if !new.secrets.is_empty() {
            self.room.session_redactions.keep(session, rows::FIRST_VERSION, redaction);
        }
        Ok(row)
    }

    /// The same setup, with the same secrets, for another conversation that begins with what is given.
    #[boxed]
    pub async fn fork(
        &self,
        session: SessionId,
        new: NewFork,
        once: Option<&Once>,
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
        self.create_setup(NewSetup { title, setup, secrets, seed }, once).await
    }

    /// Why a session has no setup: it was not found, or nobody set it up.
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

    /// What makes overrides last, to be part of the append that they come with.
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

    /// What takes a setup away with its session. Secrets that are given in this moment go when the session is taken
    /// away for good.
    pub(crate) async fn setup_gone(&self, session: SessionId) -> Result<Vec<RowPut>, Error> {
        let Some(SetupRow { setup, seed_rows, .. }) = self.catalogue().setup(session).await? else {
            return Ok(Vec::new());
        };
        let mut gone = vec![rows::delete(rows::SETUPS, rows::tenant_key(session))];
        gone.extend((0..seed_rows).map(|part| rows::delete(rows::SEEDS, rows::seed_key(session, part))));
        gone.extend(setup.secrets.iter().map(|name| rows::delete(rows::SEALED, option_key(session, name))));
        Ok(gone)
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

/// What was said before, masked, in as many rows as it takes.
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

/// Refuses what would be more than is kept.
fn fits(what: &str, found: Option<usize>, most: usize) -> Result<(), Error> {
    match found.filter(|found| *found > most) {
        Some(found) => {
            let message = format!("{what} has {found} bytes; send at most {most}");
            Err(Error::rejected(Code::LimitReached, message))
        }
        None => Ok(()),
    }
}
