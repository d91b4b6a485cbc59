//! Signs people in: with a browser that comes back from the provider, or with a code that they confirm on another device. The
//! result is an ordinary token that expires.
//!
//! Start at [`SignInService`]. It must not know HTTP responses; `sign_in.rs` has the routes.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use recount_api::admin::AddedToken;
use recount_api::sign_in::{DeviceSignIn, SignIn};
use recount_engine::{Error, Narrowing, SEAL_KEY_BYTES, TokenRow};
use recount_event::TokenId;
use recount_face_aep::Refusal;
use recount_world::World;
use serde_json::json;
use tokio::time::Instant;

use super::browser::{Attempt, BrowserKey};
use super::claims::{Person, person};
use super::denied::{Denied, Reason};
use super::one_time::OneTime;
use super::provider::{Issued, Provider, ProviderFault};
use crate::access::{Gate, NewToken, public_token, scope};
use crate::audit::AuditKind;
use crate::config::SignInSettings;
use crate::limits;
use crate::peer::PeerId;

/// What the creator of a token of a sign-in begins with. No name of a token has a space, so no other token looks like one.
const CREATOR: &str = "sign-in at ";

pub(crate) struct SignInService {
    settings: Arc<SignInSettings>,
    provider: Provider,
    gate: Gate,
    world: World,
    browsers: BrowserKey,
    /// States of sign-ins that came back from the provider.
    used: OneTime<()>,
    /// Signed-in browsers that have not fetched their token, by code.
    arrivals: OneTime<Arrival>,
    devices: OneTime<Device>,
}

/// A person who has come back from the provider.
struct Arrival {
    /// The cookie of their browser.
    cookie: String,
    person: Person,
}

/// A device flow in progress.
struct Device {
    /// The code of the provider.
    code: String,
    every: Duration,
    /// When the next request to the provider may be sent.
    next_at: Instant,
    /// Who has confirmed it.
    person: Option<Person>,
}

/// What a request about a device flow leads to.
enum DeviceStep {
    Wait(Duration),
    Poll(String),
    Choose(Choice),
}

/// The tenant that a person signs in to.
enum Choice {
    Of(Person, String),
    /// These are possible.
    Between(Vec<String>),
}

impl SignInService {
    pub(crate) fn new(
        settings: Arc<SignInSettings>,
        gate: Gate,
        seal_key: &[u8; SEAL_KEY_BYTES],
        world: World,
    ) -> Self {
        let is_secure = settings.public_url.starts_with("https://");
        SignInService {
            provider: Provider::new(settings.clone(), world.clone()),
            settings,
            gate,
            world,
            browsers: BrowserKey::new(seal_key, is_secure),
            used: OneTime::new(limits::SIGN_IN_BROWSERS_MAX, limits::SIGN_IN_BROWSERS_OF_PEER_MAX),
            arrivals: OneTime::new(limits::SIGN_IN_BROWSERS_MAX, limits::SIGN_IN_BROWSERS_OF_PEER_MAX),
            devices: OneTime::new(limits::SIGN_IN_DEVICES_MAX, limits::SIGN_IN_DEVICES_OF_PEER_MAX),
        }
    }

    pub(super) fn public_url(&self) -> &str {
        &self.settings.public_url
    }

    pub(super) fn browsers(&self) -> &BrowserKey {
        &self.browsers
    }

    /// Counts a refusal in the audit trail.
    pub(super) fn refused(&self, denied: &Denied, peer: Option<PeerId>) {
        if let (Some(audit), Some(code)) = (self.gate.tenants.audit(), denied.audit_code()) {
            audit.refused(code, peer);
        }
    }

    fn scope(&self) -> String {
        let more = self.settings.scopes.iter().map(String::as_str);
        let mut scopes = vec!["openid", "profile", "email"];
        scopes.extend(more.filter(|scope| !["openid", "profile", "email"].contains(scope)));
        scopes.join(" ")
    }

    fn redirect_uri(&self) -> String {
        format!("{}/sign-in/callback", self.settings.public_url)
    }

    /// Where a browser goes to sign in, and what it must bring back. With `as_other`, the provider shows its form also to
    /// a person whom it knows.
    pub(super) async fn begin(&self, as_other: bool) -> Result<(String, Attempt), Denied> {
        let endpoints = self.provider.endpoints().await?;
        let attempt = self.browsers.begin(&self.world);
        let (redirect_uri, scope, challenge) = (self.redirect_uri(), self.scope(), attempt.challenge());
        let mut query = vec![
            ("response_type", "code"),
            ("client_id", &self.settings.client_id),
            ("redirect_uri", &redirect_uri),
            ("scope", &scope),
            ("state", &attempt.state),
            ("nonce", &attempt.nonce),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
        ];
        if as_other {
            query.push(("prompt", "login"));
        }
        Ok((endpoints.authorization_url(&query), attempt))
    }

    /// Signs in a person whose browser came back from the provider. Returns a code for the console, which is of use only in
    /// this browser.
    pub(super) async fn arrive(
        &self,
        query: &str,
        headers: &HeaderMap,
        peer: Option<PeerId>,
    ) -> Result<String, Denied> {
        let text = |wanted: &str| {
            let mut found = form_urlencoded::parse(query.as_bytes()).filter(|(name, _)| name == wanted);
            let first = found.next().map(|(_, value)| value.into_owned());
            // Sent twice, it is ambiguous.
            first.filter(|value| found.next().is_none() && value.len() <= limits::SIGN_IN_CODE_BYTES_MAX)
        };
        let elsewhere =
            "it was not started in this browser, or another one was started after it; sign in again";
        let attempt = self.browsers.read(headers).ok_or_else(|| Denied::new(Reason::Invalid, elsewhere))?;
        let shown = text("state").unwrap_or_default();
        // Hashes are compared in constant time.
        if blake3::hash(shown.as_bytes()) != blake3::hash(attempt.state.as_bytes()) {
            return Err(Denied::new(Reason::Invalid, elsewhere));
        }
        if attempt.is_expired(self.world.clock.now_ms()) {
            return Err(Denied::new(Reason::Expired, "the time to sign in is over; sign in again"));
        }
        // Used up only by a person, so that clients without an account cannot fill the table. The provider accepts a code once.
        let state = self.used.reserve(&attempt.state, peer, limits::SIGN_IN_BROWSER_LIFE)?;
        if !self.provider.endpoints().await?.is_own_response(text("iss").as_deref()) {
            return Err(Denied::new(Reason::Forged, "the response is from another provider"));
        }
        if let Some(error) = text("error") {
            let shown: String =
                error.chars().filter(|c| c.is_ascii_lowercase() || *c == '_').take(40).collect();
            return Err(Denied::new(
                Reason::Refused,
                format!("the provider refused the sign-in with {shown}"),
            ));
        }
        let no_code =
            || Denied::new(Reason::Invalid, "the response of the provider has no code; sign in again");
        let code = text("code").filter(|code| !code.is_empty()).ok_or_else(no_code)?;
        let issued = self.provider.exchange(&code, &attempt.verifier, &self.redirect_uri()).await?;
        let person = self.person(&issued, Some(&attempt.nonce)).await?;
        state.keep(None, limits::SIGN_IN_BROWSER_LIFE);
        let life = match person.grants.len() {
            1 => limits::SIGN_IN_CODE_LIFE,
            _ => limits::SIGN_IN_CHOICE_LIFE,
        };
        let code = self.random();
        self.arrivals.put(&code, Arrival { cookie: attempt.cookie, person }, peer, life)?;
        Ok(code)
    }

    /// Gives the console its token, or the tenants to choose from.
    pub(super) async fn finish(
        &self,
        code: &str,
        tenant: Option<&str>,
        headers: &HeaderMap,
    ) -> Result<SignIn, Denied> {
        let cookie = self.browsers.read(headers).map(|attempt| attempt.cookie);
        let choice = self.arrivals.with(code, |arrival| {
            if cookie.as_ref() != Some(&arrival.cookie) {
                let why = "this sign-in belongs to another browser; sign in again";
                return (Err(Denied::new(Reason::Invalid, why)), false);
            }
            let choice = choose(&arrival.person, tenant);
            let is_done = matches!(choice, Ok(Choice::Of(..)));
            (choice, is_done)
        })??;
        self.settle(choice, "console").await
    }

    pub(super) async fn start_device(&self, peer: Option<PeerId>) -> Result<DeviceSignIn, Denied> {
        let device_code = self.random();
        // Before the provider has work with it.
        let place = self.devices.reserve(&device_code, peer, limits::SIGN_IN_DEVICE_LIFE_MAX)?;
        let started = self.provider.start_device(&self.scope()).await?;
        let life = Duration::from_secs(started.expires_in).min(limits::SIGN_IN_DEVICE_LIFE_MAX);
        let every = started.interval.map_or(limits::SIGN_IN_DEVICE_EVERY, Duration::from_secs);
        let every = every.clamp(limits::SIGN_IN_DEVICE_EVERY_MIN, limits::SIGN_IN_DEVICE_EVERY_MAX);
        let next_at = recount_world::moment();
        let device = Device { code: started.device_code, every, next_at, person: None };
        place.keep(Some(device), life);
        Ok(DeviceSignIn {
            device_code,
            user_code: started.user_code,
            verification_uri: started.verification_uri,
            verification_uri_complete: started.verification_uri_complete,
            expires_in_seconds: life.as_secs(),
            interval_seconds: every.as_secs(),
        })
    }

    /// Gives the command line its token as soon as the person has confirmed the code.
    pub(super) async fn finish_device(
        &self,
        device_code: &str,
        tenant: Option<&str>,
    ) -> Result<SignIn, Denied> {
        match self.devices.with(device_code, |device| device.step(tenant))?? {
            DeviceStep::Wait(every) => Ok(SignIn::pending(every.as_secs())),
            DeviceStep::Choose(choice) => self.settle(choice, "device").await,
            DeviceStep::Poll(code) => match self.poll(&code).await {
                Ok(person) => {
                    let choice = self.devices.with(device_code, |device| {
                        let choice = choose(&person, tenant);
                        device.person = Some(person);
                        let is_done = matches!(choice, Ok(Choice::Of(..)));
                        (choice, is_done)
                    })??;
                    self.settle(choice, "device").await
                }
                Err(Polled::Pending { slower }) => {
                    let every = self.devices.with(device_code, |device| {
                        if slower {
                            device.every = (device.every + limits::SIGN_IN_DEVICE_EVERY)
                                .min(limits::SIGN_IN_DEVICE_EVERY_MAX);
                        }
                        (device.every, false)
                    })?;
                    Ok(SignIn::pending(every.as_secs()))
                }
                Err(Polled::Denied(denied)) => {
                    // The provider may be available later; nothing else can become better.
                    if !matches!(denied.reason, Reason::Unavailable | Reason::Busy) {
                        self.devices.with(device_code, |_| ((), true)).ok();
                    }
                    Err(denied)
                }
            },
        }
    }

    async fn poll(&self, code: &str) -> Result<Person, Polled> {
        let issued = match self.provider.poll_device(code).await {
            Ok(issued) => issued,
            Err(ProviderFault::Refused(code)) if code == "authorization_pending" => {
                return Err(Polled::Pending { slower: false });
            }
            Err(ProviderFault::Refused(code)) if code == "slow_down" => {
                return Err(Polled::Pending { slower: true });
            }
            Err(fault) => return Err(Polled::Denied(fault.into())),
        };
        self.person(&issued, None).await.map_err(Polled::Denied)
    }

    /// The person whom the provider has signed in, if they have access here.
    async fn person(&self, issued: &Issued, nonce: Option<&str>) -> Result<Person, Denied> {
        let claims = self.provider.identify(issued, nonce).await?;
        let person = person(&claims, &self.settings);
        if !person.grants.is_empty() {
            return Ok(person);
        }
        let claim = &self.settings.groups_claim;
        let found = match person.groups {
            None => format!("The provider sent no claim {claim:?} with your groups"),
            Some(count) => format!("Of your groups, the provider sent {count}, and none has access"),
        };
        let name = &person.name;
        Err(Denied::new(
            Reason::NoGrant,
            format!(
                "the provider signed you in as {name}, but neither your groups nor your address have access here. {found}. \
                 The operator can grant access in sign_in.grants"
            ),
        ))
    }

    async fn settle(&self, choice: Choice, client: &str) -> Result<SignIn, Denied> {
        match choice {
            Choice::Between(tenants) => Ok(SignIn::choose(tenants)),
            Choice::Of(person, tenant) => Ok(SignIn::signed_in(self.issue(&person, tenant, client).await?)),
        }
    }

    /// Creates the token of a person.
    async fn issue(&self, person: &Person, tenant: String, client: &str) -> Result<AddedToken, Denied> {
        self.gate.tenants.ensure(&tenant).await?;
        let created_by = format!("{CREATOR}{} as {}", self.settings.issuer, person.id);
        self.remove_old(&tenant, &created_by).await.map_err(Refusal::from)?;
        let scopes = person.grants.get(&tenant).into_iter().flatten().map(|named| scope(*named));
        let new = NewToken {
            tenant,
            name: person.name.clone(),
            scopes: scopes.collect(),
            narrowing: Narrowing::default(),
            expires_in: Some(self.settings.session),
            requests_per_second: None,
            created_by,
        };
        let (row, secret) = self.gate.tokens.add(new).await.map_err(Refusal::from)?;
        tracing::info!(token = %row.id, tenant = row.tenant, name = row.name, client, "a person signed in");
        if let Some(audit) = self.gate.tenants.audit() {
            let scopes: Vec<&str> = row.scopes.iter().map(|scope| scope.as_str()).collect();
            let facts = json!({
                "token_id": row.id.to_string(), "name": row.name, "tenant": row.tenant, "scopes": scopes,
                "issuer": self.settings.issuer, "subject": person.subject, "client": client,
            });
            audit.record(AuditKind::SignedIn, facts).await;
        }
        Ok(AddedToken { secret: secret.reveal().to_owned(), token: public_token(row) })
    }

    /// Removes expired tokens of all sign-ins, and the oldest of this person if they have too many.
    async fn remove_old(&self, tenant: &str, created_by: &str) -> Result<(), Error> {
        let now = self.world.clock.now_ms();
        let is_expired = |row: &TokenRow| row.expires_ms.is_some_and(|at| at <= now);
        let rows = self.gate.tokens.list(None).into_iter().filter(|row| row.created_by.starts_with(CREATOR));
        let (expired, current): (Vec<_>, Vec<_>) = rows.partition(is_expired);
        // By the creator, which names the person: their name may have changed.
        let own = current.into_iter().filter(|row| row.tenant == tenant && row.created_by == created_by);
        let own: Vec<TokenRow> = own.collect();
        let surplus = (own.len() + 1).saturating_sub(limits::SIGN_IN_TOKENS_MAX);
        for row in &expired {
            self.gate.tokens.remove(row.id, None).await?;
        }
        for row in own.iter().take(surplus) {
            revoke(&self.gate, row).await?;
        }
        Ok(())
    }

    fn random(&self) -> String {
        format!("{:032x}{:032x}", self.world.entropy.draw(), self.world.entropy.draw())
    }
}

/// Revokes the token of a sign-in. Returns its id, or `None` if it is another token.
pub(super) async fn end(gate: &Gate, row: &TokenRow) -> Result<Option<TokenId>, Refusal> {
    if !row.created_by.starts_with(CREATOR) {
        return Ok(None);
    }
    revoke(gate, row).await?;
    Ok(Some(row.id))
}

async fn revoke(gate: &Gate, row: &TokenRow) -> Result<(), Error> {
    gate.tokens.remove(row.id, None).await?;
    tracing::info!(token = %row.id, by = row.name, "the token of a sign-in was revoked");
    if let Some(audit) = gate.tenants.audit() {
        let id = row.id.to_string();
        audit.record(AuditKind::TokenRevoked, json!({"token_id": id, "by": row.name, "caller_id": id})).await;
    }
    Ok(())
}

/// What the provider returned about a device flow.
enum Polled {
    Pending { slower: bool },
    Denied(Denied),
}

impl Device {
    fn step(&mut self, tenant: Option<&str>) -> (Result<DeviceStep, Denied>, bool) {
        if let Some(person) = &self.person {
            let choice = choose(person, tenant);
            let is_done = matches!(choice, Ok(Choice::Of(..)));
            return (choice.map(DeviceStep::Choose), is_done);
        }
        let now = recount_world::moment();
        if now < self.next_at {
            return (Ok(DeviceStep::Wait(self.every)), false);
        }
        self.next_at = now + self.every;
        (Ok(DeviceStep::Poll(self.code.clone())), false)
    }
}

fn choose(person: &Person, tenant: Option<&str>) -> Result<Choice, Denied> {
    let tenants = || person.grants.keys().cloned().collect::<Vec<_>>();
    let mut all = person.grants.keys();
    match (tenant, all.next(), all.next()) {
        (Some(tenant), ..) if person.grants.contains_key(tenant) => {
            Ok(Choice::Of(person.clone(), tenant.to_owned()))
        }
        (Some(tenant), ..) => {
            let shown: String = tenant.chars().take(80).collect();
            let own = tenants().join(", ");
            Err(Denied::new(
                Reason::NoGrant,
                format!("you have no access to the tenant {shown:?}; you have access to {own}"),
            ))
        }
        (None, Some(only), None) => Ok(Choice::Of(person.clone(), only.clone())),
        (None, ..) => Ok(Choice::Between(tenants())),
    }
}
