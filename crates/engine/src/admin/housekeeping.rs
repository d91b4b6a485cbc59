//! Removes blobs that nothing names and uploads that no run used, as long as the engine runs.

use recount_world::Kind;

use crate::admin::handle::AdminHandle;
use crate::limits;

impl AdminHandle {
    /// Looks after blobs and uploads from now on.
    pub(crate) fn look_after_blobs(&self) {
        let admin = self.clone();
        self.ground().world.tasks.spawn(Kind::Service, move |mut shutdown| async move {
            tokio::select! {
                biased;
                () = shutdown.requested() => {}
                () = admin.tidy_blobs() => {}
            }
        });
    }

    async fn tidy_blobs(&self) {
        if let Err(error) = self.write().room.blobs.sweep().await {
            tracing::warn!(%error, "the search for unused blobs failed; it is repeated at the next start");
        }
        loop {
            match self.write().forget_uploads().await {
                Ok(true) => continue,
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(%error, "cannot delete expired uploads; retrying")
                }
            }
            tokio::time::sleep(limits::UPLOAD_SWEEP).await;
        }
    }
}
