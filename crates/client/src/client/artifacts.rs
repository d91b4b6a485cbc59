//! Artifacts: upload, list, show, download.

use std::time::Duration;

use bytes::Bytes;
use recount_api::query;
use recount_api::reply::{Artifact, ArtifactGone, One, Page};
use reqwest::{Method, Response};

use super::{Client, Listing};
use crate::boxed;
use crate::error::ClientError;
use crate::limits;

impl Client {
    /// Uploads an artifact for a run. `kind` is `image` or `file`; without it the media type decides.
    #[boxed]
    pub async fn upload_artifact(
        &self,
        bytes: Vec<u8>,
        media_type: &str,
        kind: Option<&str>,
        name: Option<&str>,
    ) -> Result<Artifact, ClientError> {
        let address = self.at(&["artifacts"]).with(query::KIND, kind).with(query::NAME, name);
        let one: One<Artifact> = self.call(Method::POST, address, Some((media_type, bytes))).await?;
        Ok(one.data)
    }

    /// Artifacts, newest first: all, or those of a run or a task.
    #[boxed]
    pub async fn list_artifacts(
        &self,
        listing: &Listing,
        run: Option<&str>,
        task: Option<&str>,
    ) -> Result<Page<Artifact>, ClientError> {
        let address = self.at(&["artifacts"]).with(query::RUN_ID, run).with(query::TASK_ID, task);
        self.list(address, listing).await
    }

    /// Those of a run.
    #[boxed]
    pub async fn list_run_artifacts(
        &self,
        run: &str,
        listing: &Listing,
    ) -> Result<Page<Artifact>, ClientError> {
        self.list(self.at(&["runs", run, "artifacts"]), listing).await
    }

    #[boxed]
    pub async fn get_artifact(&self, artifact: &str) -> Result<Artifact, ClientError> {
        self.get_one(self.at(&["artifacts", artifact])).await
    }

    /// Withholds an artifact from deletion, and the run that made it from pruning.
    #[boxed]
    pub async fn pin_artifact(&self, artifact: &str) -> Result<Artifact, ClientError> {
        self.ask(Method::PUT, self.at(&["artifacts", artifact, "pin"])).await
    }

    #[boxed]
    pub async fn unpin_artifact(&self, artifact: &str) -> Result<Artifact, ClientError> {
        self.ask(Method::DELETE, self.at(&["artifacts", artifact, "pin"])).await
    }

    /// Deletes an artifact of an ended run, or an upload that no run has used.
    #[boxed]
    pub async fn delete_artifact(&self, artifact: &str) -> Result<ArtifactGone, ClientError> {
        self.ask(Method::DELETE, self.at(&["artifacts", artifact])).await
    }

    /// The bytes of an artifact, as they come: it may be larger than what fits in memory.
    #[boxed]
    pub async fn stream_artifact(&self, artifact: &str) -> Result<ArtifactStream, ClientError> {
        let response = self.ask_for_bytes(artifact, limits::LONG_CALL_TIMEOUT).await?;
        Ok(ArtifactStream { base: self.base_url().to_owned(), response })
    }

    /// All bytes of an artifact.
    #[boxed]
    pub async fn read_artifact(&self, artifact: &str) -> Result<Bytes, ClientError> {
        let response = self.ask_for_bytes(artifact, limits::CALL_TIMEOUT).await?;
        self.body(response).await
    }

    async fn ask_for_bytes(&self, artifact: &str, timeout: Duration) -> Result<Response, ClientError> {
        let url = self.at(&["artifacts", artifact, "raw"]).into_url()?;
        let response = self
            .request(Method::GET, &url)
            .timeout(timeout)
            .send()
            .await
            .map_err(|why| ClientError::unreachable(self.base_url(), &why))?;
        if !response.status().is_success() {
            return Err(self.refusal(response).await);
        }
        Ok(response)
    }
}

/// Bytes of an artifact on their way.
pub struct ArtifactStream {
    base: String,
    response: Response,
}

impl ArtifactStream {
    /// The next bytes; `None` when they were all there.
    #[boxed]
    pub async fn next(&mut self) -> Result<Option<Bytes>, ClientError> {
        self.response.chunk().await.map_err(|why| ClientError::unreachable(&self.base, &why))
    }
}
