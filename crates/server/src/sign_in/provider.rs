//! Talks to the OpenID provider: discovery, its keys, tokens, the device flow and user info. Everything it sends is bounded in
//! size and time, redirects are not followed, and nothing is fetched before someone signs in.
//!
//! Start at [`Provider`]. It must not know browsers, tenants or tokens of this server.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use recount_world::{Kind, World};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio::sync::{Mutex, OnceCell, Semaphore};
use tokio::time::Instant;

use super::claims::{ClaimFault, IdTokenRules, group_claim};
use super::jwt::{Jwks, JwtFault};
use crate::config::{GrantedTo, SignInSettings, is_secure_url};
use crate::{limits, outgoing};

pub(super) struct Provider {
    settings: Arc<SignInSettings>,
    world: World,
    client: OnceCell<reqwest::Client>,
    endpoints: Mutex<Option<Fetched<Endpoints>>>,
    keys: Mutex<Option<Fetched<Jwks>>>,
    places: Places,
}

/// How many requests may be in progress. Clients without an account can cause those of device flows, so these have places of
/// their own.
struct Places {
    exchanges: Semaphore,
    device_starts: Semaphore,
    device_polls: Semaphore,
}

/// The result of the last request for something that changes rarely.
struct Fetched<T> {
    at: Instant,
    result: Result<Arc<T>, String>,
}

/// Why the provider did not sign a person in.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ProviderFault {
    /// It cannot be reached, or does not respond as the standards require.
    Unavailable(String),
    /// Too many requests to it are in progress.
    Busy,
    /// It refused, with this code.
    Refused(String),
    Expired,
    Replayed,
    Forged(String),
}

/// What discovery returns, as far as it is used.
#[derive(Debug, Deserialize)]
pub(super) struct Endpoints {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    userinfo_endpoint: Option<String>,
    device_authorization_endpoint: Option<String>,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
}

/// A device flow that the provider has started.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct DeviceStart {
    pub(super) device_code: String,
    pub(super) user_code: String,
    pub(super) verification_uri: String,
    pub(super) verification_uri_complete: Option<String>,
    pub(super) expires_in: u64,
    pub(super) interval: Option<u64>,
}

/// What the provider issued.
#[derive(Deserialize)]
pub(super) struct Issued {
    id_token: Option<String>,
    access_token: Option<String>,
}

impl Endpoints {
    /// Where a browser signs in.
    pub(super) fn authorization_url(&self, query: &[(&str, &str)]) -> String {
        let url = &self.authorization_endpoint;
        let separator = if url.contains('?') { '&' } else { '?' };
        format!("{url}{separator}{}", form(query))
    }

    /// Whether a response names this provider, if it names one or has to.
    pub(super) fn is_own_response(&self, issuer: Option<&str>) -> bool {
        match issuer {
            Some(issuer) => issuer == self.issuer,
            None => !self.authorization_response_iss_parameter_supported,
        }
    }
}

fn form(pairs: &[(&str, &str)]) -> String {
    form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish()
}

fn encoded(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

impl Provider {
    pub(super) fn new(settings: Arc<SignInSettings>, world: World) -> Self {
        Provider {
            settings,
            world,
            client: OnceCell::new(),
            endpoints: Mutex::default(),
            keys: Mutex::default(),
            places: Places {
                exchanges: Semaphore::new(limits::SIGN_IN_REQUESTS_MAX),
                device_starts: Semaphore::new(limits::SIGN_IN_DEVICE_STARTS_MAX),
                device_polls: Semaphore::new(limits::SIGN_IN_DEVICE_POLLS_MAX),
            },
        }
    }

    /// The endpoints of the provider: those that are known, or else from discovery.
    pub(super) async fn endpoints(&self) -> Result<Arc<Endpoints>, ProviderFault> {
        let mut known = self.endpoints.lock().await;
        if let Some(fetched) = known.as_ref().filter(|fetched| fetched.is_current(None)) {
            return fetched.result.clone().map_err(ProviderFault::Unavailable);
        }
        let result = self.discover().await.map(Arc::new);
        if let Err(why) = &result {
            tracing::warn!(issuer = self.settings.issuer, why, "cannot use the provider of sign-in");
        }
        known.insert(Fetched::now(result)).result.clone().map_err(ProviderFault::Unavailable)
    }

    async fn discover(&self) -> Result<Endpoints, String> {
        let issuer = &self.settings.issuer;
        let url = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
        let found: Endpoints = parsed(&self.get(&url, None).await?)?;
        if found.issuer != *issuer {
            return Err(format!("its discovery names the issuer {:?}, not {issuer:?}", found.issuer));
        }
        let used = [&found.authorization_endpoint, &found.token_endpoint, &found.jwks_uri].into_iter();
        let used = used.chain(&found.userinfo_endpoint).chain(&found.device_authorization_endpoint);
        let is_local = self.settings.is_local();
        let is_secure = |url: &&String| url.starts_with("https://") || (is_local && is_secure_url(url));
        let insecure = used.into_iter().find(|url| !is_secure(url)).cloned();
        match insecure {
            Some(url) => Err(format!("its discovery names {url:?}, which is not encrypted")),
            None => Ok(found),
        }
    }

    /// The keys of the provider. `since`: the key that is needed was unknown to those that were fetched then.
    async fn keys(&self, since: Option<Duration>) -> Result<Arc<Jwks>, ProviderFault> {
        let endpoints = self.endpoints().await?;
        let mut known = self.keys.lock().await;
        if let Some(fetched) = known.as_ref().filter(|fetched| fetched.is_current(since)) {
            return fetched.result.clone().map_err(ProviderFault::Unavailable);
        }
        let result = match self.get(&endpoints.jwks_uri, None).await {
            Ok(bytes) => {
                Jwks::parse(&bytes).map(Arc::new).ok_or_else(|| "its keys cannot be read".to_owned())
            }
            Err(why) => Err(why),
        };
        known.insert(Fetched::now(result)).result.clone().map_err(ProviderFault::Unavailable)
    }

    /// Exchanges the code that a browser brought.
    pub(super) async fn exchange(
        &self,
        code: &str,
        verifier: &str,
        redirect_uri: &str,
    ) -> Result<Issued, ProviderFault> {
        let fields = [
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", redirect_uri),
            ("code_verifier", verifier),
        ];
        let endpoints = self.endpoints().await?;
        self.post(&self.places.exchanges, &endpoints, &endpoints.token_endpoint, &fields).await
    }

    pub(super) async fn start_device(&self, scope: &str) -> Result<DeviceStart, ProviderFault> {
        let endpoints = self.endpoints().await?;
        let Some(url) = &endpoints.device_authorization_endpoint else {
            let why = "it has no device flow, so people sign in with the console only";
            return Err(ProviderFault::Unavailable(why.to_owned()));
        };
        let fields = [("client_id", self.settings.client_id.as_str()), ("scope", scope)];
        let started: DeviceStart = self.post(&self.places.device_starts, &endpoints, url, &fields).await?;
        let texts = [&started.device_code, &started.user_code, &started.verification_uri];
        let all = texts.into_iter().chain(&started.verification_uri_complete);
        match all.map(String::len).max() > Some(limits::SIGN_IN_FIELD_BYTES_MAX) {
            true => Err(ProviderFault::Unavailable("its response has a field that is too long".to_owned())),
            false => Ok(started),
        }
    }

    /// Whether a person has confirmed a device code.
    pub(super) async fn poll_device(&self, device_code: &str) -> Result<Issued, ProviderFault> {
        let grant = "urn:ietf:params:oauth:grant-type:device_code";
        let fields = [("grant_type", grant), ("device_code", device_code)];
        let endpoints = self.endpoints().await?;
        self.post(&self.places.device_polls, &endpoints, &endpoints.token_endpoint, &fields).await
    }

    /// The claims about the person, from a checked ID token and from user info where the token lacks them.
    pub(super) async fn identify(
        &self,
        issued: &Issued,
        nonce: Option<&str>,
    ) -> Result<Map<String, Value>, ProviderFault> {
        let Some(token) = &issued.id_token else {
            return Err(ProviderFault::Unavailable("its response has no ID token".to_owned()));
        };
        let forged = |why: JwtFault| ProviderFault::Forged(why.to_string());
        let mut claims = match self.keys(None).await?.verify(token) {
            Err(JwtFault::UnknownKey) => {
                self.keys(Some(limits::SIGN_IN_KEYS_EVERY)).await?.verify(token).map_err(forged)?
            }
            verified => verified.map_err(forged)?,
        };
        let rules = IdTokenRules {
            issuer: &self.settings.issuer,
            client_id: &self.settings.client_id,
            nonce,
            now_ms: self.world.clock.now_ms(),
        };
        rules.check(&claims).map_err(|fault| match fault {
            ClaimFault::Expired => ProviderFault::Expired,
            ClaimFault::Replayed => ProviderFault::Replayed,
            ClaimFault::Forged(why) => ProviderFault::Forged(why.to_owned()),
        })?;
        self.complete(&mut claims, issued.access_token.as_deref()).await?;
        Ok(claims)
    }

    /// Adds claims that only user info has.
    async fn complete(
        &self,
        claims: &mut Map<String, Value>,
        access_token: Option<&str>,
    ) -> Result<(), ProviderFault> {
        let of_group = self.settings.grants.iter().any(|grant| matches!(grant.to, GrantedTo::Group(_)));
        let lacks_groups = of_group && group_claim(claims, &self.settings.groups_claim).is_none();
        let has_address = claims.contains_key("email") && claims.contains_key("email_verified");
        if !lacks_groups && has_address {
            return Ok(());
        }
        let added = self.add_user_info(claims, access_token).await;
        match added {
            // The address stays unverified, and nothing else is needed.
            Err(why) if !lacks_groups && claims.contains_key("email") => {
                tracing::warn!(?why, "user info of the sign-in provider was not used");
                Ok(())
            }
            added => added,
        }
    }

    async fn add_user_info(
        &self,
        claims: &mut Map<String, Value>,
        access_token: Option<&str>,
    ) -> Result<(), ProviderFault> {
        let endpoints = self.endpoints().await?;
        let (Some(url), Some(access_token)) = (&endpoints.userinfo_endpoint, access_token) else {
            return Ok(());
        };
        let _place = self.places.exchanges.try_acquire().map_err(|_| ProviderFault::Busy)?;
        let bearer = format!("Bearer {access_token}");
        let found = self.get(url, Some(&bearer)).await.and_then(|bytes| parsed::<Map<String, Value>>(&bytes));
        let found = found.map_err(|why| ProviderFault::Unavailable(format!("its user info: {why}")))?;
        if found.get("sub") != claims.get("sub") {
            return Err(ProviderFault::Forged("its user info is about another person".to_owned()));
        }
        let is_other_address = claims.contains_key("email") && claims.get("email") != found.get("email");
        for (name, value) in found {
            // An address and whether it is verified belong together.
            if !(is_other_address && name == "email_verified") {
                claims.entry(name).or_insert(value);
            }
        }
        Ok(())
    }

    async fn client(&self) -> Result<&reqwest::Client, String> {
        let is_secure = !self.settings.is_local();
        // Building the client reads the certificates of the system.
        let build = || async move {
            let built = self
                .world
                .tasks
                .block(Kind::Service, move || {
                    outgoing::client(is_secure, limits::SIGN_IN_TIMEOUT, |client| client)
                })
                .await;
            built.map_err(|_| "the client cannot be built".to_owned())?
        };
        self.client.get_or_try_init(build).await
    }

    async fn get(&self, url: &str, authorization: Option<&str>) -> Result<Vec<u8>, String> {
        let mut request = self.client().await?.get(url).header(ACCEPT, "application/json");
        if let Some(value) = authorization {
            request = request.header(AUTHORIZATION, value);
        }
        match sent(request).await? {
            (200, body) => Ok(body),
            (status, _) => Err(format!("{} returned {status}", host_of(url))),
        }
    }

    /// Sends a form as this client, and reads the response or the code of the refusal.
    async fn post<T: DeserializeOwned>(
        &self,
        places: &Semaphore,
        endpoints: &Endpoints,
        url: &str,
        fields: &[(&str, &str)],
    ) -> Result<T, ProviderFault> {
        let _place = places.try_acquire().map_err(|_| ProviderFault::Busy)?;
        let unavailable = ProviderFault::Unavailable;
        let client = self.client().await.map_err(unavailable)?;
        let id = self.settings.client_id.as_str();
        let mut fields = fields.to_vec();
        let mut request = client.post(url).header(ACCEPT, "application/json");
        let methods = endpoints.token_endpoint_auth_methods_supported.as_deref();
        let takes_basic =
            methods.is_none_or(|methods| methods.iter().any(|method| method == "client_secret_basic"));
        match &self.settings.client_secret {
            Some(secret) if takes_basic => {
                let pair = format!("{}:{}", encoded(id), encoded(secret.reveal()));
                request = request.header(AUTHORIZATION, format!("Basic {}", STANDARD.encode(pair)));
            }
            secret => {
                fields.retain(|(name, _)| *name != "client_id");
                fields.push(("client_id", id));
                fields.extend(secret.iter().map(|secret| ("client_secret", secret.reveal())));
            }
        }
        let request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded").body(form(&fields));
        #[derive(Deserialize)]
        struct OAuthError {
            error: String,
        }
        match sent(request).await.map_err(unavailable)? {
            (200, body) => parsed(&body).map_err(unavailable),
            (status, body) => match parsed::<OAuthError>(&body) {
                Ok(OAuthError { error }) if is_refusal(&error) => Err(ProviderFault::Refused(error)),
                Ok(OAuthError { error }) => {
                    let shown: String = error.chars().filter(|c| c.is_ascii_graphic()).take(60).collect();
                    Err(unavailable(format!("it refused a request of this server with {shown}")))
                }
                Err(_) => Err(unavailable(format!("{} returned {status}", host_of(url)))),
            },
        }
    }
}

/// Whether a code is about the person or the code, and not about the configuration of this server.
fn is_refusal(error: &str) -> bool {
    ["authorization_pending", "slow_down", "access_denied", "expired_token", "invalid_grant"].contains(&error)
}

impl<T> Fetched<T> {
    fn now(result: Result<Arc<T>, String>) -> Self {
        Fetched { at: recount_world::moment(), result }
    }

    /// Whether it may be used; `most`: an age after which it is fetched again.
    fn is_current(&self, most: Option<Duration>) -> bool {
        let life = match self.result {
            Ok(_) => most.unwrap_or(limits::SIGN_IN_DISCOVERY_LIFE),
            Err(_) => limits::SIGN_IN_FAULT_LIFE,
        };
        recount_world::moment().saturating_duration_since(self.at) < life
    }
}

/// Status and body of a response.
async fn sent(request: reqwest::RequestBuilder) -> Result<(u16, Vec<u8>), String> {
    let mut response = request.send().await.map_err(reason)?;
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(reason)? {
        if body.len() + chunk.len() > limits::SIGN_IN_RESPONSE_BYTES_MAX {
            return Err("its response is too large".to_owned());
        }
        body.extend_from_slice(&chunk);
    }
    Ok((response.status().as_u16(), body))
}

/// The error never quotes the body, which may be a token.
fn parsed<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    serde_json::from_slice(body).map_err(|_| "its response is not the expected JSON".to_owned())
}

fn host_of(url: &str) -> &str {
    url.split('/').nth(2).unwrap_or(url)
}

fn reason(why: reqwest::Error) -> String {
    outgoing::reason(why, limits::SIGN_IN_TIMEOUT)
}
