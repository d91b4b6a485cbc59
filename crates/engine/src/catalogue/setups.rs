//! The setup of a session as a row: agent, options, tools and seed messages. It must not see the value of a secret
//! option.

use std::collections::{BTreeMap, BTreeSet};

use recount_event::{Json, SessionId};
use recount_log::RowRange;
use serde::{Deserialize, Serialize};

use crate::boxed;
use crate::catalogue::handle::CatalogueHandle;
use crate::catalogue::table::read_row;
use crate::ground::rows;
use crate::{Choice, ChosenWorkspace, ClientTool, Error, ListPage, ListQuery, SessionRow, ToolRef, limits};

/// The choices for a session.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// The name of the agent.
    pub agent: String,
    /// Enabled tools of the agent; `None` if not chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<ToolRef>>,
    /// The option values, except secret ones.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
    /// Secret options that have a value, including an empty one.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub secrets: BTreeSet<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub client_tools: Vec<ClientTool>,
    /// The folder of all runs of the session; the agent's own if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<ChosenWorkspace>,
}

impl Setup {
    /// The choice for [`crate::Profile::run_config`].
    pub fn choice(&self) -> Choice<'_> {
        Choice {
            tools: self.tools.as_deref(),
            options: self.options.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect(),
            secrets: self.secrets.iter().map(String::as_str).collect(),
            client_tools: &self.client_tools,
            workspace: self.workspace.as_ref(),
        }
    }

    /// The setup with changes applied.
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

/// A session's setup as stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SetupRow {
    pub setup: Setup,
    /// The number of seed messages.
    #[serde(default)]
    pub seeded: usize,
    /// The number of rows with seed messages.
    #[serde(default)]
    pub seed_rows: usize,
    pub updated_at: String,
    /// The version of the row when it was read; an update requires it.
    #[serde(skip)]
    pub version: u64,
}

/// Changes of a setup. Options are merged, lists are replaced.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Overrides {
    pub tools: Option<Vec<ToolRef>>,
    pub options: BTreeMap<String, String>,
    /// New values of secret options.
    pub secrets: BTreeMap<String, String>,
    pub client_tools: Option<Vec<ClientTool>>,
}

impl Overrides {
    pub fn is_empty(&self) -> bool {
        *self == Overrides::default()
    }
}

impl CatalogueHandle {
    /// The setup of a session, if it has one.
    #[boxed]
    pub async fn setup(&self, session: SessionId) -> Result<Option<SetupRow>, Error> {
        let Some(row) = self.ground().store().row(rows::SETUPS, &rows::tenant_key(session)).await? else {
            return Ok(None);
        };
        let setup: SetupRow = read_row(rows::SETUPS, &row.key, &row.value)?;
        Ok(Some(SetupRow { version: row.version, ..setup }))
    }

    /// The seed messages of a session.
    #[boxed]
    pub async fn seed(&self, session: SessionId) -> Result<Vec<Json>, Error> {
        let range = RowRange::first(
            rows::SEEDS,
            rows::within(session),
            limits::SEED_BYTES_MAX / limits::SEED_ROW_BYTES + 1,
        );
        let parts = self.ground().store().rows(range).await?;
        if parts.is_empty() {
            return Ok(Vec::new());
        }
        let whole: Vec<u8> = parts.iter().flat_map(|part| part.value.iter().copied()).collect();
        read_row(rows::SEEDS, &rows::tenant_key(session), &whole)
    }

    /// Sessions with a setup, newest first.
    #[boxed]
    pub async fn list_setups(&self, query: &ListQuery) -> Result<ListPage<(SessionRow, SetupRow)>, Error> {
        let prefix = rows::tenant_key("");
        let ListPage { items: listed, mut end } =
            self.list(rows::SETUPS, &prefix, query, |_: &SetupRow| String::new()).await?;
        let mut items = Vec::with_capacity(listed.len());
        for (id, setup) in listed {
            // A session that was deleted after the list was read is skipped.
            let key = rows::tenant_key(id);
            let row = self.listed_row::<SessionRow>(rows::SESSIONS, &key, &mut end).await?;
            items.extend(row.map(|row| (row, setup)));
        }
        Ok(ListPage { items, end })
    }
}

/// The key of the sealed value of a secret option.
pub(crate) fn option_key(session: SessionId, option: &str) -> String {
    format!("{}{option}", rows::sealed_of_session(session))
}
