//! Calls about signing in with an OpenID provider. The server speaks with the provider.

use recount_api::admin::Removed;
use recount_api::sign_in::{DeviceSignIn, FinishDeviceSignIn, SignIn, SignInAbout};
use reqwest::Method;

use super::Client;
use super::address::Address;
use crate::boxed;
use crate::error::ClientError;

impl Client {
    /// Whether people can sign in at the server.
    #[boxed]
    pub async fn describe_sign_in(&self) -> Result<SignInAbout, ClientError> {
        self.get_one(Address::outside(&self.base, &["sign-in", "about"])).await
    }

    /// Starts a sign-in that a person confirms in a browser.
    #[boxed]
    pub async fn start_device_sign_in(&self) -> Result<DeviceSignIn, ClientError> {
        self.ask(Method::POST, Address::outside(&self.base, &["sign-in", "device"])).await
    }

    /// The token of a sign-in, once it is confirmed.
    #[boxed]
    pub async fn finish_device_sign_in(&self, request: &FinishDeviceSignIn) -> Result<SignIn, ClientError> {
        self.post(Address::outside(&self.base, &["sign-in", "device", "token"]), request).await
    }

    /// Revokes the token of this client, which a sign-in created.
    #[boxed]
    pub async fn end_sign_in(&self) -> Result<Removed, ClientError> {
        self.ask(Method::DELETE, Address::outside(&self.base, &["sign-in", "session"])).await
    }
}
