//! Sessions that an application has set up: with which agent, what it chose, what tools it brings, and what was said
//! before the session began.
//!
//! Records, not history: what held for a run stands in its log, too. Secret choices lie sealed beside them and are
//! told to nobody but the agent that needs them. Look at [`SetupRow`]. It must never know a wire format; what was said
//! before is kept as it came, so that it can be told again exactly.

use std::collections::{BTreeMap, BTreeSet};

use recount_event::family::run::Driver;
use recount_event::{Code, Json, SessionId, time};
use recount_log::{Append, Fault, FaultKind, Guard, Retry, RowPut, RowRange};
use serde::{Deserialize, Serialize};

use crate::engine::read_row;
use crate::order::ClientTool;
use crate::profile::{Choice, ChosenWorkspace, ToolRef};
use crate::redaction::Redaction;
use crate::{Engine, Error, ListQuery, Listed, NewRun, Once, SessionRow, limits, rows};

/// What was chosen for a session.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// The name of the agent.
    pub agent: String,
    /// Tools of the agent that are enabled; `None` when nothing was said of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<ToolRef>>,
    /// As they were chosen, but for what is secret.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
    /// Secret options that were given a value, an empty one included.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub secrets: BTreeSet<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub client_tools: Vec<ClientTool>,
    /// The folder that all runs of the session work on; the agent's own when it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<ChosenWorkspace>,
}

/// A session's setup as it is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SetupRow {
    pub setup: Setup,
    /// How many messages were said before the session began.
    #[serde(default)]
    pub seeded: usize,
    /// In how many rows those lie.
    #[serde(default)]
    pub seed_rows: usize,
    pub updated_at: String,
    /// Which version of the record it was read as; what changes it names it.
    #[serde(skip)]
    pub version: u64,
}

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

/// What changes of a setup. Options are merged, lists replaced.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Overrides {
    pub tools: Option<Vec<ToolRef>>,
    pub options: BTreeMap<String, String>,
    /// New values of secret options.
    pub secrets: BTreeMap<String, String>,
    pub client_tools: Option<Vec<ClientTool>>,
}

/// A session to be that goes on from another one, with the same setup.
#[derive(Debug, Clone, Default)]
pub struct NewFork {
    pub title: Option<String>,
    /// What was said before, as in [`NewSetup`].
    pub seed: Vec<Json>,
}

impl Overrides {
    pub fn is_empty(&self) -> bool {
        *self == Overrides::default()
    }
}

impl Setup {
    /// What the agent is asked with.
    pub fn choice(&self) -> Choice<'_> {
        Choice {
            tools: self.tools.as_deref(),
            options: self.options.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect(),
            secrets: self.secrets.iter().map(String::as_str).collect(),
            client_tools: &self.client_tools,
            workspace: self.workspace.as_ref(),
        }
    }

    /// The same with changes.
    pub fn changed(&self, overrides: &Overrides) -> Setup {
        let mut changed = self.clone();
        if let Some(tools) = &overrides.tools {
            changed.tools = Some(tools.clone());
        }
        if let Some(client_tools) = &overrides.client_tools {
            changed.client_tools.clone_from(client_tools);
        }
        changed.options.extend(overrides.options.clone());
        changed.secrets.extend(overrides.secrets.keys().cloned());
        changed
    }
}

impl Engine {
    /// Refuses a run whose workspace may not be worked on, whatever else could be refused of it: that is left to the moment
    /// when it is asked for. Nothing is written.
    pub fn check_workspace(&self, mut new: NewRun) -> Result<(), Error> {
        match self.tools.performer.get() {
            Some(performer) if new.queued.driver == Driver::Own => Ok(performer.accept_workspace(&mut new)?),
            _ => Ok(()),
        }
    }

    /// Begins a session with its setup and what was said before. Title and words are masked like everything else that is
    /// stored; what was chosen is kept as it is, or nothing could be done with it.
    pub async fn create_setup(&self, new: NewSetup, once: Option<&Once>) -> Result<SessionRow, Error> {
        let stamp = self.stamp();
        let session = SessionId::new(self.mint(stamp));
        let now = time::format_ms(stamp.now_ms);
        let redaction = self.tools.redaction.knowing(new.secrets.values());
        let title = new.title.map(|title| redaction.redactor.text(&title).into_owned());
        let row = SessionRow { id: session.to_string(), title, created_at: now.clone() };
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
        fits("what is chosen for a session", puts.iter().map(bytes_of).max(), limits::SETUP_BYTES_MAX)?;
        puts.extend(seed);
        puts.extend(self.sealed_options(session, &new.secrets)?);
        puts.extend(once.into_iter().flat_map(|once| self.made_once(once, &row.id)));
        self.store().append(Append { rows: puts, ..Append::default() }).await?;
        if !new.secrets.is_empty() {
            self.tools.session_redactions.keep(session, rows::FIRST_VERSION, redaction);
        }
        Ok(row)
    }

    /// The setup of a session, when it was begun with one.
    pub async fn setup(&self, session: SessionId) -> Result<Option<SetupRow>, Error> {
        let Some(row) = self.store().row(rows::SETUPS, &rows::tenant_key(session)).await? else {
            return Ok(None);
        };
        let setup: SetupRow = read_row(rows::SETUPS, &row.key, &row.value)?;
        Ok(Some(SetupRow { version: row.version, ..setup }))
    }

    /// What was said before a session began.
    pub async fn seed(&self, session: SessionId) -> Result<Vec<Json>, Error> {
        let range = RowRange {
            space: rows::SEEDS.into(),
            prefix: rows::within(session).into(),
            after: None,
            backwards: false,
            limit: limits::SEED_BYTES_MAX / limits::SEED_ROW_BYTES + 1,
        };
        let parts = self.store().rows(range).await?;
        if parts.is_empty() {
            return Ok(Vec::new());
        }
        let whole: Vec<u8> = parts.iter().flat_map(|part| part.value.iter().copied()).collect();
        read_row(rows::SEEDS, &rows::tenant_key(session), &whole)
    }

    /// The same setup, with the same secrets, for another conversation that begins with what is given.
    pub async fn fork(
        &self,
        session: SessionId,
        new: NewFork,
        once: Option<&Once>,
    ) -> Result<SessionRow, Error> {
        let Some(SetupRow { setup, .. }) = self.setup(session).await? else {
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

    /// Why a session has no setup: it is not there, or nobody set it up.
    async fn missing_setup(&self, session: SessionId) -> Error {
        match self.session(session).await {
            Ok(Some(_)) => Error::rejected(
                Code::SessionNotFound,
                format!("session {session} was not set up with an agent"),
            ),
            Ok(None) => self.missing_session(session).await,
            Err(error) => error,
        }
    }

    /// The value of a secret option of a session.
    pub async fn secret_option(&self, session: SessionId, option: &str) -> Result<Option<String>, Error> {
        let Some(bytes) = self.unseal_at(&option_key(session, option)).await? else { return Ok(None) };
        let text = String::from_utf8(bytes);
        text.map(Some).map_err(|_| Error::bug(format!("the option {option} of {session} is not text")))
    }

    /// Sessions with a setup, newest first.
    pub async fn list_setups(&self, query: &ListQuery) -> Result<Listed<(SessionRow, SetupRow)>, Error> {
        let prefix = rows::tenant_key("");
        let listed = self.list(rows::SETUPS, &prefix, query, |_: &SetupRow| String::new()).await?;
        // The face that lists these has no place to name what is left out.
        if let Some(row) = listed.damaged.first() {
            let message = format!("row {row} is damaged; look at the store with `recount doctor`");
            return Err(Fault::new(FaultKind::Corrupt, Retry::Never, message).into());
        }
        let mut items = Vec::with_capacity(listed.items.len());
        for (id, setup) in listed.keys.iter().zip(listed.items) {
            // One that was deleted since the list was read is not there any more.
            let row: Option<SessionRow> = self.row(rows::SESSIONS, &rows::tenant_key(id)).await?;
            items.extend(row.map(|row| (row, setup)));
        }
        Ok(Listed { items, next: listed.next, has_more: listed.has_more, damaged: Vec::new() })
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
        let updated_at = time::format_ms(self.tools.world.clock.now_ms());
        let setup = SetupRow { setup: before.setup.changed(overrides), updated_at, ..before.clone() };
        let guard = Guard::Version(before.version);
        let mut puts = vec![rows::put(rows::SETUPS, rows::tenant_key(session), guard, &setup)];
        fits("what is chosen for a session", puts.first().map(bytes_of), limits::SETUP_BYTES_MAX)?;
        puts.extend(self.sealed_options(session, &overrides.secrets)?);
        Ok(puts)
    }

    /// What takes a setup away with its session. Secrets that are given in this moment go when the session is taken
    /// away for good.
    pub(crate) async fn setup_gone(&self, session: SessionId) -> Result<Vec<RowPut>, Error> {
        let Some(SetupRow { setup, seed_rows, .. }) = self.setup(session).await? else {
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
    fits("what was said before a session", Some(whole.len()), limits::SEED_BYTES_MAX)?;
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
            let message = format!("{what} comes to {found} bytes; send at most {most}");
            Err(Error::rejected(Code::LimitReached, message))
        }
        None => Ok(()),
    }
}

/// Where the value of a secret option lies.
pub(crate) fn option_key(session: SessionId, option: &str) -> String {
    format!("{}{option}", rows::sealed_of_session(session))
}
