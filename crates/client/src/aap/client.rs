//! The AAP client: one method per route. See [`AapClient`].

use std::time::Duration;

use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use reqwest::{Method, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::error::AapError;
use super::wire::{
    CreatedSession, HistoryKind, HistoryMessage, Meta, NewSession, SessionInfo, SessionPage, VERSION,
};
use crate::boxed;
use crate::client::address::Address;
use crate::client::{bearer, check_base, connections, whole_body};
use crate::error::ClientError;
use crate::limits;

pub(super) const JSON: &str = "application/json";

/// Speaks to one server. Cheap to clone.
#[derive(Clone)]
pub struct AapClient {
    http: reqwest::Client,
    base: String,
    token: Option<HeaderValue>,
}

impl AapClient {
    /// `base_url` is where the server has the protocol, such as `http://127.0.0.1:8765/aap`.
    pub fn new(base_url: &str, token: Option<&str>) -> Result<Self, AapError> {
        let base = base_url.strip_suffix('/').unwrap_or(base_url).to_owned();
        check_base(&base)?;
        let token = token.map(bearer).transpose()?;
        let http = connections(&base)?;
        Ok(AapClient { http, base, token })
    }

    pub fn base_url(&self) -> &str {
        &self.base
    }

    /// The server's agents. Another version of the protocol is refused.
    #[boxed]
    pub async fn meta(&self) -> Result<Meta, AapError> {
        let meta: Value = self.call(Method::GET, self.at(&["meta"]), None::<&()>).await?;
        match meta.get("version") {
            Some(version) if version.as_u64() == Some(VERSION) => {}
            Some(version) => {
                return Err(self.unexpected(format!(
                    "it uses protocol version {version}; this client supports version {VERSION}"
                )));
            }
            None => return Err(self.unexpected("it does not state its protocol version".to_owned())),
        }
        serde_json::from_value(meta)
            .map_err(|why| self.unexpected(format!("its list of agents is malformed: {why}")))
    }

    /// A page of sessions: after `after`, the `next` of the page before.
    #[boxed]
    pub async fn sessions(&self, after: Option<&str>) -> Result<SessionPage, AapError> {
        self.call(Method::GET, self.at(&["sessions"]).with("after", after), None::<&()>).await
    }

    /// The same of the sessions of one agent, from servers of ours; others may list all.
    #[boxed]
    pub async fn sessions_of(&self, agent: &str, after: Option<&str>) -> Result<SessionPage, AapError> {
        let address = self.at(&["sessions"]).with("agent", Some(agent)).with("after", after);
        self.call(Method::GET, address, None::<&()>).await
    }

    /// Changes the title of a session. Not of the protocol.
    #[boxed]
    pub async fn retitle_session(&self, session: &str, title: &str) -> Result<(), AapError> {
        let address = self.at(&["sessions", session]);
        let body = serde_json::json!({ "title": title });
        self.send(limits::CALL_TIMEOUT, Method::PATCH, address, JSON, Some(&body), None).await.map(drop)
    }

    /// Begins a session; its id is the answer.
    #[boxed]
    pub async fn create_session(&self, new: &NewSession) -> Result<String, AapError> {
        let created: CreatedSession = self.call(Method::POST, self.at(&["sessions"]), Some(new)).await?;
        Ok(created.session_id)
    }

    #[boxed]
    pub async fn session(&self, session: &str) -> Result<SessionInfo, AapError> {
        self.call(Method::GET, self.at(&["sessions", session]), None::<&()>).await
    }

    #[boxed]
    pub async fn delete_session(&self, session: &str) -> Result<(), AapError> {
        let address = self.at(&["sessions", session]);
        self.send(limits::CALL_TIMEOUT, Method::DELETE, address, JSON, None::<&()>, None).await.map(drop)
    }

    #[boxed]
    pub async fn history(&self, session: &str, kind: HistoryKind) -> Result<Vec<HistoryMessage>, AapError> {
        let address = self.at(&["sessions", session, "history"]).with("type", Some(kind.as_str()));
        let mut reply: Value = self.call(Method::GET, address, None::<&()>).await?;
        let messages = reply.get_mut("history").and_then(|history| history.get_mut(kind.as_str()));
        let messages = messages
            .map(Value::take)
            .ok_or_else(|| self.unexpected(format!("its history has no field {:?}", kind.as_str())))?;
        serde_json::from_value(messages)
            .map_err(|why| self.unexpected(format!("its history is malformed: {why}")))
    }

    /// Asks for the end of a turn; it then ends by itself. `false` when the server has no such thing.
    #[boxed]
    pub async fn cancel_turn(&self, session: &str, turn: &str) -> Result<bool, AapError> {
        let address = self.at(&["sessions", session, "turns", turn, "cancel"]);
        match self.send(limits::CALL_TIMEOUT, Method::POST, address, JSON, None::<&()>, None).await {
            Ok(_) => Ok(true),
            Err(why) if matches!(why.status(), Some(404 | 405 | 501)) => Ok(false),
            Err(why) => Err(why),
        }
    }

    // What the calls are made of.

    pub(super) fn at(&self, path: &[&str]) -> Address {
        Address::outside(&self.base, path)
    }

    pub(super) fn unexpected(&self, reason: String) -> AapError {
        AapError::protocol(&self.base, reason)
    }

    pub(super) fn request(&self, method: Method, url: &str) -> reqwest::RequestBuilder {
        let request = self.http.request(method, url);
        match &self.token {
            Some(token) => request.header(AUTHORIZATION, token),
            None => request,
        }
    }

    /// A reply that is all there, as JSON.
    async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        address: Address,
        body: Option<&impl Serialize>,
    ) -> Result<T, AapError> {
        let response = self.send(limits::CALL_TIMEOUT, method, address, JSON, body, None).await?;
        let whole = tokio::time::timeout(limits::CALL_TIMEOUT, whole_body(&self.base, response));
        let body = whole.await.map_err(|why| ClientError::unreachable(&self.base, &why))??;
        serde_json::from_slice(&body)
            .map_err(|why| self.unexpected(format!("the response is malformed: {why}")))
    }

    /// With a key, servers of ours execute the same request once, however often it is sent.
    pub(super) async fn send(
        &self,
        patience: Duration,
        method: Method,
        address: Address,
        accept: &str,
        body: Option<&impl Serialize>,
        key: Option<&str>,
    ) -> Result<Response, AapError> {
        let url = address.into_url()?;
        let mut request = self.request(method, &url).header(ACCEPT, accept).header(CONTENT_TYPE, JSON);
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        if let Some(body) = body {
            request = request
                .body(serde_json::to_vec(body).expect("requests hold only values that JSON can represent"));
        }
        let response = self.patiently(patience, request).await?;
        match response.status().is_success() {
            true => Ok(response),
            false => Err(self.refusal(response).await),
        }
    }

    pub(super) async fn patiently(
        &self,
        patience: Duration,
        request: reqwest::RequestBuilder,
    ) -> Result<Response, AapError> {
        let sent = tokio::time::timeout(patience, request.send());
        let sent = sent.await.map_err(|why| ClientError::unreachable(&self.base, &why))?;
        Ok(sent.map_err(|why| ClientError::unreachable(&self.base, &why))?)
    }

    pub(super) async fn refusal(&self, response: Response) -> AapError {
        let status = response.status();
        let retry_after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        let retry_after = retry_after.and_then(|seconds| seconds.trim().parse().ok());
        let whole = tokio::time::timeout(limits::CALL_TIMEOUT, whole_body(&self.base, response));
        let body = whole.await.ok().and_then(Result::ok).unwrap_or_default();
        AapError::refused(status, &body, retry_after)
    }
}
