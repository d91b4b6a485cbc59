//! Stores the bytes of artifacts, of runs and of uploads. It must not know their content.

pub(crate) mod store;
pub(crate) mod uploads;

pub use store::{ArtifactInput, ArtifactReceipt, OutputInLog, PatchTarget};
pub use uploads::Upload;
