//! The catalogue: rows for lists and lookups, folded from the log, and records. The folds can be rebuilt at any time.
//! It must not know who follows a run, nor how a run is written.
//!
//! Start with [`fold`] for how rows are computed and [`table`] for how they are read.

pub(crate) mod allowances;
pub(crate) mod artifact_rows;
pub(crate) mod deleted_artifacts;
mod earlier;
pub(crate) mod fold;
pub(crate) mod handle;
pub(crate) mod pins;
pub(crate) mod profiles;
pub(crate) mod prompt_rows;
pub(crate) mod rebuild;
pub(crate) mod repair;
mod row_cache;
pub(crate) mod run_config;
pub(crate) mod run_row;
pub(crate) mod runs;
pub(crate) mod sessions;
pub(crate) mod setups;
pub(crate) mod store;
pub(crate) mod table;
pub(crate) mod tasks;
pub(crate) mod tombstones;
pub(crate) mod uploads;

pub use allowances::{AllowanceFilter, AllowanceRow};
pub use artifact_rows::{ArtifactRow, FoundArtifact};
pub use handle::CatalogueHandle;
pub use pins::Pin;
pub use profiles::{
    AgentOption, Capabilities, Choice, ChosenWorkspace, OptionKind, OptionTarget, Profile, Profiles,
    ToolInfo, ToolRef,
};
pub use prompt_rows::{ApprovalRow, ClarificationRow, HandoffRow, PromptRow};
pub use rebuild::check;
pub use run_config::{
    Attachment, ClientTool, FileCall, FilesFrom, Purpose, RunConfig, RunConfigChange, SpawnedBy,
};
pub use run_row::RunRow;
pub use runs::{RunFilter, RunOwner, name_begins};
pub use sessions::SessionRow;
pub use setups::{Overrides, Setup, SetupRow};
pub use table::{ListPage, ListQuery, PageEnd};
pub use tasks::{Budget, TaskRow};
pub use tombstones::{ErasureRecord, Tombstone, tombstones};
pub use uploads::UploadRow;
