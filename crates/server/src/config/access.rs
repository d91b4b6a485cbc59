//! Configuration of access: tokens, origins of pages, the rate of requests, and the keys of `[access.unix_users.NAME]`.
//!
//! It must not know how a request is checked. Start at [`Access`].

use std::collections::{BTreeMap, BTreeSet};

use recount_api::scope::Scope;
use serde::Deserialize;

use crate::StartError;
use crate::limits::UNIX_USERS_MAX;
use crate::peer::OVERFLOW_UID;
use crate::settings::{Lookup, join_names};
use crate::tenant_folder::{TENANT_DEFAULT, is_tenant_name};

/// Keys below `[access.unix_users.NAME]`, for messages about an unknown one.
pub(super) const UNIX_USER_KEYS: [&str; 2] = ["scopes", "tenant"];

/// The configured rules of access.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Access {
    /// Whether requests over loopback need a token, too.
    pub require_token: bool,
    /// Other origins whose pages may send requests, exactly as browsers send them.
    pub allowed_origins: Vec<String>,
    /// Requests per second of tokens without a rate of their own.
    pub requests_per_second: Option<u32>,
    /// What users of this machine may do over the Unix socket without a token, by name or number.
    pub unix_users: BTreeMap<String, UnixUser>,
}

/// What a user of this machine may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnixUser {
    pub tenant: String,
    pub scopes: BTreeSet<Scope>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UnixUserSection {
    scopes: BTreeSet<Scope>,
    tenant: Option<String>,
}

/// Checks all users, and notes each.
pub(super) fn settle_users(
    lookup: &mut Lookup<'_>,
    sections: BTreeMap<String, UnixUserSection>,
    require_token: bool,
) -> Result<BTreeMap<String, UnixUser>, StartError> {
    let refused = |why: String| Err(StartError::usage(format!("access.unix_users{why}")));
    if !sections.is_empty() && require_token {
        return refused(
            " has no effect, because access.require_token is true; remove one of both".to_owned(),
        );
    }
    if sections.len() > UNIX_USERS_MAX {
        let count = sections.len();
        return refused(format!(": {count} users are configured; the limit is {UNIX_USERS_MAX}"));
    }
    let (mut users, mut shown) = (BTreeMap::new(), Vec::new());
    for (name, UnixUserSection { scopes, tenant }) in sections {
        if name.bytes().all(|byte| byte.is_ascii_digit()) {
            let uid = name.parse::<u32>().ok().filter(|uid| uid.to_string() == name);
            if uid == Some(OVERFLOW_UID) {
                return refused(format!(
                    ".{name}: many users can have this number in a user namespace; use another user"
                ));
            }
            if uid.is_none() {
                return refused(format!(".{name}: invalid number of a user; use one as `id -u` prints it"));
            }
        }
        if scopes.is_empty() {
            return refused(format!(".{name}.scopes is empty; name at least one scope"));
        }
        let tenant = tenant.unwrap_or_else(|| TENANT_DEFAULT.to_owned());
        if !is_tenant_name(&tenant) {
            return refused(format!(".{name}.tenant: invalid tenant {tenant:?}; use a-z, 0-9 and -"));
        }
        let scope_names: Vec<String> =
            scopes.iter().map(|scope| format!("{scope:?}").to_lowercase()).collect();
        shown.push(format!("{name} ({} of {tenant})", scope_names.join(" ")));
        users.insert(name, UnixUser { tenant, scopes });
    }
    lookup.note("access", "access.unix_users", join_names(&shown), !shown.is_empty());
    Ok(users)
}
