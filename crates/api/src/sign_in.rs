//! Sign-in by OpenID Connect: what the console and the command line send and get. The server speaks with the provider.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::admin::AddedToken;

/// `GET /sign-in/about`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SignInAbout {
    /// Whether people can sign in here.
    pub configured: bool,
    /// Where a browser begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// `POST /sign-in/token`
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FinishSignIn {
    /// From the fragment of the address that the browser was sent to.
    pub code: String,
    /// The chosen tenant, if the person belongs to several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
}

/// `POST /sign-in/device`: a sign-in that a person confirms on another device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceSignIn {
    /// For `POST /sign-in/device/token`; a secret.
    pub device_code: String,
    /// The code that the person enters.
    pub user_code: String,
    /// Where the person enters it.
    pub verification_uri: String,
    /// The same with the code in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verification_uri_complete: Option<String>,
    pub expires_in_seconds: u64,
    /// The pause between two requests for the token.
    pub interval_seconds: u64,
}

/// `POST /sign-in/device/token`
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FinishDeviceSignIn {
    pub device_code: String,
    /// The chosen tenant, if the person belongs to several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
}

/// How far a sign-in is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SignInStatus {
    /// The person has not confirmed it yet. Send the request again after the interval.
    Pending,
    /// The person belongs to several tenants. Send the request again with one of them.
    ChooseTenant,
    SignedIn,
    /// A status that only a later release knows.
    #[serde(other)]
    #[schemars(skip)]
    Other,
}

/// A sign-in, and its token at the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SignIn {
    pub status: SignInStatus,
    /// The pause before the next request, while it is pending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_seconds: Option<u64>,
    /// The tenants to choose from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tenants: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<AddedToken>,
}

impl SignIn {
    pub fn pending(interval_seconds: u64) -> Self {
        SignIn {
            status: SignInStatus::Pending,
            interval_seconds: Some(interval_seconds),
            tenants: Vec::new(),
            token: None,
        }
    }

    pub fn choose(tenants: Vec<String>) -> Self {
        SignIn { status: SignInStatus::ChooseTenant, interval_seconds: None, tenants, token: None }
    }

    pub fn signed_in(token: AddedToken) -> Self {
        SignIn {
            status: SignInStatus::SignedIn,
            interval_seconds: None,
            tenants: Vec::new(),
            token: Some(token),
        }
    }
}
