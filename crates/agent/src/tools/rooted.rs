//! Runs blocking work on the files of a workspace.
//!
//! Start at [`in_root`].

use recount_world::World;

use crate::paths::Root;
use crate::tool::Terms;
use crate::tools::ending::{CallFailure, run_blocking};

/// Opens the workspace folder and runs the work on a separate thread.
pub(crate) async fn in_root<T: Send + 'static>(
    world: &World,
    terms: &Terms,
    work: impl FnOnce(&Root) -> Result<T, CallFailure> + Send + 'static,
) -> Result<T, CallFailure> {
    let root = terms.root.clone();
    run_blocking(world, move || work(&Root::open(&root)?)).await
}
