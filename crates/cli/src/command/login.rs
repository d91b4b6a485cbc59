//! `recount login` and `recount logout`: signs a person in with the provider of the server, by a code that they confirm in a
//! browser on any device, and out again.
//!
//! The server speaks with the provider. `stored_login.rs` keeps the token for all other verbs.

use std::io::{BufRead as _, IsTerminal as _};
use std::time::Duration;

use clap::Args;
use recount_client::admin::AddedToken;
use recount_client::sign_in::{DeviceSignIn, FinishDeviceSignIn, SignIn, SignInStatus};
use recount_client::{Client, ClientError, moment};
use serde_json::json;

use super::invocation::{self, Invocation};
use super::stored_login::{self, StoredLogin};
use crate::failure::Failure;
use crate::limits::LOGIN_POLL_MAX;
use crate::output::{Output, aside, note};
use crate::render::{clean, utc_time};

/// Sign in to the server with your organization's account
#[derive(Args)]
pub(super) struct Login {
    /// Tenant to sign in to, if you belong to several
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
}

/// Sign out: revoke the token of recount login and delete it
#[derive(Args)]
pub(super) struct Logout {}

impl Login {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        invocation::block_on(self.sign_in(invocation))
    }

    async fn sign_in(self, invocation: Invocation) -> Result<(), Failure> {
        let (url, mut out) = (&invocation.url, Output::new());
        let client = Client::new(url, None)?;
        let started = client.start_device_sign_in().await.map_err(|why| match why.code() {
            Some("route_not_found") => Failure::Refused(format!(
                "the server at {url} has no sign-in; its operator can configure one (docs/sign-in.md) or create a token for \
                 you with recount token add"
            )),
            _ => why.into(),
        })?;
        show(&started, invocation.json, &mut out)?;
        let added = self.wait(&client, &started).await?;
        let AddedToken { secret, token } = added;
        let login = StoredLogin {
            token: secret,
            name: token.name.clone(),
            tenant: token.tenant.clone(),
            expires_at: token.expires_at.clone(),
        };
        let path = stored_login::store(url, Some(login))?;
        if invocation.token.is_some() {
            note("a token is given by --token or RECOUNT_TOKEN and is used before this sign-in; unset it");
        }
        if invocation.json {
            return out.value(&token);
        }
        note(&format!("the token is in {}", path.display()));
        let until =
            token.expires_at.as_ref().map(|at| format!(", until {}", utc_time(at))).unwrap_or_default();
        out.line(&clean::line(&format!(
            "signed in to {url} as {}, tenant {}{until}",
            token.name, token.tenant
        )))
    }

    /// Requests the token until the person has confirmed the code.
    async fn wait(&self, client: &Client, started: &DeviceSignIn) -> Result<AddedToken, Failure> {
        let ends = moment() + Duration::from_secs(started.expires_in_seconds);
        let mut every = pause(started.interval_seconds);
        let mut tenant = self.tenant.clone();
        loop {
            tokio::time::sleep(every).await;
            let request =
                FinishDeviceSignIn { device_code: started.device_code.clone(), tenant: tenant.clone() };
            let sign_in = match client.finish_device_sign_in(&request).await {
                Ok(sign_in) => sign_in,
                Err(why @ ClientError::Protocol { .. }) => return Err(why.into()),
                Err(why) if why.may_pass() && moment() < ends => {
                    note(&format!("{why}; retrying"));
                    continue;
                }
                Err(why) => return Err(why.into()),
            };
            match sign_in {
                SignIn { token: Some(token), .. } => return Ok(token),
                SignIn { status: SignInStatus::ChooseTenant, tenants, .. } if tenant.is_none() => {
                    tenant = Some(choose(&tenants)?);
                    every = Duration::ZERO;
                }
                SignIn { interval_seconds, .. } if moment() < ends => {
                    every = pause(interval_seconds.unwrap_or(started.interval_seconds));
                }
                _ => {
                    let why = "the time to confirm the code is over; run recount login again";
                    return Err(Failure::Refused(why.to_owned()));
                }
            }
        }
    }
}

fn pause(seconds: u64) -> Duration {
    Duration::from_secs(seconds.max(1)).min(LOGIN_POLL_MAX)
}

/// Plain lines in the order of what the person does. Addresses are never broken, so that they can be copied.
fn show(started: &DeviceSignIn, as_json: bool, out: &mut Output) -> Result<(), Failure> {
    if as_json {
        return out.value(&json!({
            "user_code": started.user_code, "verification_uri": started.verification_uri,
            "verification_uri_complete": started.verification_uri_complete,
            "expires_in_seconds": started.expires_in_seconds,
        }));
    }
    let mut lines = vec![
        format!("To sign in, open this address in a browser on any device: {}", started.verification_uri),
        format!("Enter this code there: {}", started.user_code),
    ];
    if let Some(complete) = &started.verification_uri_complete {
        lines.push(format!("Or open this address, which has the code in it: {complete}"));
    }
    lines.push("Confirm it only if you started this sign-in yourself. Waiting.".to_owned());
    lines.iter().for_each(|line| aside(&format!("{}\n", clean::line(line))));
    Ok(())
}

/// The tenant that a person at the terminal types.
fn choose(tenants: &[String]) -> Result<String, Failure> {
    let all = tenants.join(", ");
    if !std::io::stdin().is_terminal() {
        return Err(Failure::Usage(format!("you belong to several tenants: {all}; use --tenant TENANT")));
    }
    note(&format!("You belong to several tenants: {all}."));
    loop {
        aside("Type the name of the tenant to sign in to: ");
        let mut line = String::new();
        let read = std::io::stdin().lock().read_line(&mut line);
        match read.map_err(|why| Failure::Own(format!("cannot read the tenant: {why}")))? {
            0 => return Err(Failure::Usage("no tenant was chosen; use --tenant TENANT".to_owned())),
            _ if tenants.iter().any(|tenant| tenant == line.trim()) => return Ok(line.trim().to_owned()),
            _ => note(&format!("{:?} is not one of {all}.", line.trim())),
        }
    }
}

impl Logout {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        invocation::block_on(sign_out(invocation))
    }
}

async fn sign_out(invocation: Invocation) -> Result<(), Failure> {
    let url = &invocation.url;
    let login = stored_login::find(url)
        .ok_or_else(|| Failure::Refused(format!("you are not signed in to {url} with recount login")))?;
    let ended = Client::new(url, Some(&login.token))?.end_sign_in().await;
    stored_login::store(url, None)?;
    match ended {
        Ok(_) => {}
        // It has expired, or was revoked before.
        Err(why) if why.code() == Some("token_invalid") => {}
        Err(why) => {
            note("the token was deleted here, but not revoked: it is valid until it expires");
            return Err(why.into());
        }
    }
    let mut out = Output::new();
    match invocation.json {
        true => out.value(&json!({ "url": url, "name": login.name, "tenant": login.tenant })),
        false => out.line(&clean::line(&format!("signed out of {url}"))),
    }
}
