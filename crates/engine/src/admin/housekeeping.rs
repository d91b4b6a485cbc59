//! Background service that removes unused blobs and expired uploads.

use recount_world::Kind;

use crate::admin::handle::AdminHandle;
use crate::limits;

impl AdminHandle {
    /// Starts the service.
    pub(crate) fn start_blob_cleanup(&self) {
        let admin = self.clone();
        let tasks = &self.ground().world.tasks;
        tasks.spawn_until_shutdown(Kind::Service, async move { admin.clean_up_blobs().await });
    }

    async fn clean_up_blobs(&self) {
        if let Err(error) = self.write().context.blobs.sweep().await {
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
