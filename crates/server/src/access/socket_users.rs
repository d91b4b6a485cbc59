//! Users of this machine who need no token over the Unix socket: the operator, and those of the configuration.
//!
//! See [`SocketUsers`]. It must not know requests.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use recount_engine::{Caller, Scope};
use recount_event::Code;
use recount_face_aep::Refusal;

use super::rate::Bucket;
use super::token::scope;
use crate::config::UnixUser;
use crate::peer::{LocalUser, OVERFLOW_UID, PeerId};
use crate::tenant_folder::TENANT_DEFAULT;

/// The name in the log of requests without a token.
const OPERATOR: &str = "operator";

/// The configured users, by name or number.
pub(super) struct SocketUsers(BTreeMap<String, Arc<ConfiguredUser>>);

struct ConfiguredUser {
    user: UnixUser,
    bucket: Bucket,
}

/// A user who needs no token.
#[derive(Clone)]
pub(crate) struct IdentifiedUser {
    pub(super) tenant: Arc<str>,
    pub(super) caller: Caller,
    /// `None` for the operator.
    configured: Option<Arc<ConfiguredUser>>,
}

impl SocketUsers {
    pub(super) fn new(configured: &BTreeMap<String, UnixUser>) -> Self {
        let users = configured.iter().map(|(name, user)| {
            let bucket = Bucket::new(recount_world::moment());
            (name.clone(), Arc::new(ConfiguredUser { user: user.clone(), bucket }))
        });
        SocketUsers(users.collect())
    }

    /// The rights of a user without a token, if there are any.
    pub(super) fn identify(&self, user: &LocalUser) -> Option<IdentifiedUser> {
        if user.uid == OVERFLOW_UID {
            return None;
        }
        let id = PeerId::User(user.uid).to_string();
        // The log would show requests without a token under the same name.
        let name = user.name.clone().filter(|name| name != OPERATOR).unwrap_or_else(|| id.clone());
        if user.is_operator {
            let caller = Caller::local_user(id, name, Scope::ALL.into());
            return Some(IdentifiedUser { tenant: TENANT_DEFAULT.into(), caller, configured: None });
        }
        let is_number = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
        let by_name = user.name.as_ref().filter(|name| !is_number(name)).and_then(|name| self.0.get(name));
        let configured = by_name.or_else(|| self.0.get(&user.uid.to_string()))?;
        let scopes = configured.user.scopes.iter().map(|named| scope(*named)).collect();
        let tenant = configured.user.tenant.as_str().into();
        let caller = Caller::local_user(id, name, scopes);
        Some(IdentifiedUser { tenant, caller, configured: Some(configured.clone()) })
    }
}

impl IdentifiedUser {
    /// Refuses the request of a configured user when the rate is exceeded.
    pub(super) fn check_rate(&self, rate: Option<u32>) -> Result<(), Refusal> {
        let (Some(configured), Some(rate)) = (&self.configured, rate) else { return Ok(()) };
        configured.bucket.take(rate, recount_world::moment()).map_err(|wait| Refusal {
            // The header has whole seconds only.
            retry_after: Some(Duration::from_secs(wait.as_secs() + 1)),
            ..Refusal::new(Code::RateLimited, format!("this user may send {rate} requests per second"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(uid: u32, name: Option<&str>, is_operator: bool) -> LocalUser {
        LocalUser { uid, name: name.map(str::to_owned), is_operator }
    }

    #[tokio::test]
    async fn users_have_the_rights_of_their_name_or_number() {
        use recount_api::scope::Scope as Named;
        let of = |tenant: &str, named: Named| UnixUser { tenant: tenant.to_owned(), scopes: [named].into() };
        let users = SocketUsers::new(
            &[
                ("ada".to_owned(), of("acme", Named::Approve)),
                ("1001".to_owned(), of("default", Named::Read)),
            ]
            .into(),
        );
        let ada = users.identify(&user(1000, Some("ada"), false)).unwrap();
        assert_eq!((&*ada.tenant, &*ada.caller.id, &*ada.caller.name), ("acme", "uid:1000", "ada"));
        assert_eq!(ada.caller.scopes, [Scope::Approve].into());
        let unnamed = users.identify(&user(1001, None, false)).unwrap();
        assert_eq!((&*unnamed.caller.name, &unnamed.caller.scopes), ("uid:1001", &[Scope::Read].into()));
        assert!(users.identify(&user(1002, Some("eve"), false)).is_none());
        assert!(users.identify(&user(1002, None, false)).is_none());
        let root = users.identify(&user(0, Some("root"), true)).unwrap();
        assert_eq!((root.caller.scopes, &*root.tenant), (Scope::ALL.into(), TENANT_DEFAULT));
        assert!(ada.check_rate(Some(1)).is_ok());
        assert_eq!(ada.check_rate(Some(1)).unwrap_err().code, Code::RateLimited);
        assert!(unnamed.check_rate(Some(1)).is_ok(), "each user has a rate of its own");
    }

    #[test]
    fn numbers_and_names_are_not_mistaken_for_each_other() {
        use recount_api::scope::Scope as Named;
        let reads = || UnixUser { tenant: "default".to_owned(), scopes: [Named::Read].into() };
        let keys = ["1001", "65534", "operator"];
        let users = SocketUsers::new(&keys.map(|key| (key.to_owned(), reads())).into());
        assert!(users.identify(&user(65_534, None, false)).is_none(), "many users have this number");
        assert!(users.identify(&user(7, Some("1001"), false)).is_none(), "the name of another user");
        assert!(users.identify(&user(1001, Some("7"), false)).is_some());
        let named = users.identify(&user(11, Some("operator"), false)).unwrap();
        assert_eq!(&*named.caller.name, "uid:11");
    }
}
