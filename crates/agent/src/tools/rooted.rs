//! Work on the files of a workspace, which blocks. Look at [`in_root`].

use recount_world::World;

use crate::paths::Root;
use crate::tool::Terms;
use crate::tools::ending::{Stop, aside};

/// Opens the workspace's folder and works in it, beside the runtime's own threads.
pub(crate) async fn in_root<T: Send + 'static>(
    world: &World,
    terms: &Terms,
    work: impl FnOnce(&Root) -> Result<T, Stop> + Send + 'static,
) -> Result<T, Stop> {
    let root = terms.root.clone();
    aside(world, move || work(&Root::open(&root)?)).await
}
