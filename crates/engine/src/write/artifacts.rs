//! Keeping the bytes of artifacts, with the run that made them or before there is one. It must not know what they mean.

pub(crate) mod keep;
pub(crate) mod uploads;

pub use keep::{Keep, KeptArtifact, OutputInLog, Target};
pub use uploads::Upload;
