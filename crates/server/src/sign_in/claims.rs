//! Checks the claims of an ID token, and finds who the person is and what they may do. Pure.
//!
//! Start at [`IdTokenRules::check`] and [`person`]. It must not know signatures or HTTP.

use std::collections::{BTreeMap, BTreeSet};

use recount_api::scope::Scope;
use serde_json::{Map, Value};

use crate::config::{GrantedTo, SignInSettings};
use crate::limits::{SIGN_IN_CLOCK_LEEWAY, TOKEN_NAME_MAX};

/// Hexadecimal digits that identify a person.
const PERSON_ID_CHARS: usize = 32;

/// How many of them a name has that is no verified address.
const MARK_CHARS: usize = 8;

/// Why an ID token of the provider is not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ClaimFault {
    Expired,
    /// It belongs to another sign-in.
    Replayed,
    /// It is not for this server, or not of its provider.
    Forged(&'static str),
}

/// What an ID token must match.
pub(super) struct IdTokenRules<'a> {
    pub(super) issuer: &'a str,
    pub(super) client_id: &'a str,
    /// Of the sign-in in a browser; the device flow has none.
    pub(super) nonce: Option<&'a str>,
    pub(super) now_ms: u64,
}

impl IdTokenRules<'_> {
    pub(super) fn check(&self, claims: &Map<String, Value>) -> Result<(), ClaimFault> {
        let text = |name: &str| claims.get(name).and_then(Value::as_str);
        if text("iss") != Some(self.issuer) {
            return Err(ClaimFault::Forged("it is from another issuer"));
        }
        let (is_for_us, audiences) = match claims.get("aud") {
            Some(Value::String(one)) => (one == self.client_id, 1),
            Some(Value::Array(many)) => (many.iter().any(|one| one == self.client_id), many.len()),
            _ => (false, 0),
        };
        if !is_for_us {
            return Err(ClaimFault::Forged("it is for another client"));
        }
        let azp = claims.get("azp");
        if (audiences > 1 && azp.is_none()) || azp.is_some_and(|azp| azp != self.client_id) {
            return Err(ClaimFault::Forged("it was issued to another client"));
        }
        if text("sub").is_none_or(str::is_empty) {
            return Err(ClaimFault::Forged("it names no subject"));
        }
        let time =
            |name: &str| claims.get(name).map(|at| at.as_f64().filter(|at| at.is_finite() && *at >= 0.0));
        let now = self.now_ms as f64 / 1_000.0;
        let leeway = SIGN_IN_CLOCK_LEEWAY.as_secs_f64();
        let (Some(Some(expires)), Some(Some(issued))) = (time("exp"), time("iat")) else {
            return Err(ClaimFault::Forged("it has no exp and iat"));
        };
        if now >= expires + leeway {
            return Err(ClaimFault::Expired);
        }
        let begins = time("nbf").unwrap_or(Some(0.0)).unwrap_or(f64::INFINITY);
        if issued > now + leeway || begins > now + leeway {
            return Err(ClaimFault::Forged("it is from the future; check the clocks of both servers"));
        }
        if self.nonce.is_some() && text("nonce") != self.nonce {
            return Err(ClaimFault::Replayed);
        }
        Ok(())
    }
}

/// A person whom the provider has signed in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Person {
    /// The name in the log of what they do.
    pub(super) name: String,
    pub(super) subject: String,
    /// A hash of the issuer and the subject, which identifies the person whatever their name is.
    pub(super) id: String,
    /// How many groups the provider named; `None` if it sent no such claim.
    pub(super) groups: Option<usize>,
    /// What they may do, by tenant; empty if nothing.
    pub(super) grants: BTreeMap<String, BTreeSet<Scope>>,
}

/// The person that claims describe.
pub(super) fn person(claims: &Map<String, Value>, settings: &SignInSettings) -> Person {
    let text = |name: &str| claims.get(name).and_then(Value::as_str);
    let is_verified =
        claims.get("email_verified").is_some_and(|verified| *verified == true || verified == "true");
    // Some providers let a person enter any address.
    let email = text("email").filter(|_| is_verified);
    // Checked tokens have one.
    let subject = text("sub").unwrap_or_default();
    let id = person_id(&settings.issuer, subject);
    let name = name(email, text("preferred_username"), subject, &id);
    let groups = groups(claims, &settings.groups_claim);
    let email = email.map(str::to_lowercase);
    let is_granted = |to: &GrantedTo| match to {
        GrantedTo::Group(group) => groups.contains(group.as_str()),
        GrantedTo::Email(wanted) => email.as_ref().is_some_and(|email| match wanted.strip_prefix('*') {
            Some(domain) => email.ends_with(domain) && email.len() > domain.len(),
            None => email == wanted,
        }),
    };
    let mut grants: BTreeMap<String, BTreeSet<Scope>> = BTreeMap::new();
    for grant in settings.grants.iter().filter(|grant| is_granted(&grant.to)) {
        grants.entry(grant.tenant.clone()).or_default().extend(grant.scopes.iter().copied());
    }
    let groups = group_claim(claims, &settings.groups_claim).map(|_| groups.len());
    Person { name, subject: subject.to_owned(), id, groups, grants }
}

fn person_id(issuer: &str, subject: &str) -> String {
    let mut hasher = blake3::Hasher::new_derive_key("recount 2026 person of a sign-in");
    // No issuer has a line break.
    hasher.update(issuer.as_bytes()).update(b"\n").update(subject.as_bytes());
    hasher.finalize().to_hex()[..PERSON_ID_CHARS].to_owned()
}

/// The name of a person in the log: their verified address, or another name with a mark of the person. At many providers a person can
/// choose the other names, and no token that an operator names has a `~`. Without a usable name, the mark alone identifies the person.
fn name(email: Option<&str>, chosen: Option<&str>, subject: &str, id: &str) -> String {
    let is_plain = |name: &&str, chars_max: usize| {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '@' | '+');
        // The name of requests without a token.
        (1..=chars_max).contains(&name.len()) && name.chars().all(plain) && *name != "operator"
    };
    if let Some(email) = email.filter(|email| is_plain(email, TOKEN_NAME_MAX) && email.contains('@')) {
        return email.to_owned();
    }
    let mark = &id[..MARK_CHARS];
    let chosen = chosen.filter(|name| !name.contains('@'));
    let mut names = [chosen, Some(subject)].into_iter().flatten();
    let name = names.find(|name| is_plain(name, TOKEN_NAME_MAX - MARK_CHARS - 1)).unwrap_or("person");
    format!("{name}~{mark}")
}

/// The claim with groups, by its name or by a path of names with dots between them.
pub(super) fn group_claim<'a>(claims: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    claims.get(name).or_else(|| {
        let (first, rest) = name.split_once('.')?;
        group_claim(claims.get(first)?.as_object()?, rest)
    })
}

fn groups<'a>(claims: &'a Map<String, Value>, name: &str) -> BTreeSet<&'a str> {
    match group_claim(claims, name) {
        Some(Value::String(one)) => [one.as_str()].into(),
        Some(Value::Array(many)) => many.iter().filter_map(Value::as_str).collect(),
        _ => BTreeSet::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config::Grant;

    const NOW_MS: u64 = 1_800_000_000_000;

    fn check(changes: &Value) -> Result<(), ClaimFault> {
        let now = NOW_MS / 1_000;
        let mut claims = json!({
            "iss": "https://id.example", "aud": "recount", "sub": "s", "exp": now + 60, "iat": now, "nonce": "n",
        });
        for (name, value) in changes.as_object().unwrap() {
            match value {
                Value::Null => drop(claims.as_object_mut().unwrap().remove(name)),
                value => claims[name] = value.clone(),
            }
        }
        let rules = IdTokenRules {
            issuer: "https://id.example",
            client_id: "recount",
            nonce: Some("n"),
            now_ms: NOW_MS,
        };
        rules.check(claims.as_object().unwrap())
    }

    #[test]
    fn only_current_tokens_for_this_client_and_sign_in_pass() {
        let now = NOW_MS / 1_000;
        for changes in [
            json!({}),
            json!({"exp": now - 59}),
            json!({"iat": now + 59}),
            json!({"aud": ["recount"]}),
            json!({"aud": ["other", "recount"], "azp": "recount"}),
            json!({"azp": "recount"}),
            json!({"exp": now as f64 + 0.5}),
        ] {
            assert_eq!(check(&changes), Ok(()), "{changes}");
        }
        for changes in [
            json!({"iss": "https://id.example/"}),
            json!({"iss": null}),
            json!({"aud": "other"}),
            json!({"aud": ["other"]}),
            json!({"aud": null}),
            json!({"aud": ["other", "recount"]}),
            json!({"azp": "other"}),
            json!({"azp": 1}),
            json!({"sub": ""}),
            json!({"sub": null}),
            json!({"exp": null}),
            json!({"exp": "1"}),
            json!({"iat": null}),
            json!({"iat": now + 61}),
            json!({"nbf": now + 61}),
            json!({"nbf": "x"}),
        ] {
            assert!(matches!(check(&changes), Err(ClaimFault::Forged(_))), "{changes}");
        }
        assert_eq!(check(&json!({"exp": now - 60})), Err(ClaimFault::Expired));
        for changes in [json!({"nonce": "m"}), json!({"nonce": null}), json!({"nonce": 1})] {
            assert_eq!(check(&changes), Err(ClaimFault::Replayed), "{changes}");
        }
    }

    fn settings(groups_claim: &str, grants: Vec<Grant>) -> SignInSettings {
        SignInSettings {
            issuer: "https://id.example".into(),
            client_id: "recount".into(),
            client_secret: None,
            scopes: Vec::new(),
            groups_claim: groups_claim.into(),
            session: crate::limits::SIGN_IN_SESSION_DEFAULT,
            grants,
            public_url: "https://r.example".into(),
        }
    }

    #[test]
    fn groups_and_verified_addresses_grant_scopes_of_tenants() {
        let grant = |to, tenant: &str, scope| Grant { to, tenant: tenant.into(), scopes: vec![scope] };
        let group = |name: &str| GrantedTo::Group(name.into());
        let email = |text: &str| GrantedTo::Email(text.into());
        let grants = vec![
            grant(group("staff"), "default", Scope::Read),
            grant(group("boss"), "default", Scope::Admin),
            grant(group("boss"), "acme", Scope::Run),
            grant(email("ada@example.org"), "mail", Scope::Read),
            grant(email("*@example.com"), "domain", Scope::Read),
        ];
        let found = |claim: &str, claims: Value| {
            let person = person(claims.as_object().unwrap(), &settings(claim, grants.clone()));
            let grants = person.grants.iter().map(|(tenant, scopes)| format!("{tenant}{scopes:?}"));
            (person.name.clone(), grants.collect::<Vec<_>>().join(" "))
        };
        for (claim, claims, name, grants) in [
            (
                "groups",
                json!({"sub": "s", "groups": ["staff", "boss", 1]}),
                "s",
                "acme{Run} default{Read, Admin}",
            ),
            (
                "groups",
                json!({"sub": "s", "groups": "staff", "preferred_username": "ada"}),
                "ada",
                "default{Read}",
            ),
            ("realm.roles", json!({"sub": "s", "realm": {"roles": ["staff"]}}), "s", "default{Read}"),
            (
                "https://x.example/g",
                json!({"sub": "s", "https://x.example/g": ["staff"]}),
                "s",
                "default{Read}",
            ),
            (
                "groups",
                json!({"sub": "s", "email": "Ada@example.org", "email_verified": true}),
                "Ada@example.org",
                "mail{Read}",
            ),
            ("groups", json!({"sub": "s", "email": "ada@example.org"}), "s", ""),
            (
                "groups",
                json!({"sub": "s", "email": "a@example.com", "email_verified": "true"}),
                "a@example.com",
                "domain{Read}",
            ),
            (
                "groups",
                json!({"sub": "s", "email": "a@notexample.com", "email_verified": true}),
                "a@notexample.com",
                "",
            ),
            ("groups", json!({"sub": "s", "preferred_username": "operator"}), "s", ""),
            ("groups", json!({"sub": "s", "preferred_username": "a\u{202e}b"}), "s", ""),
            ("groups", json!({"sub": "s", "preferred_username": "ada@example.org"}), "s", ""),
            ("groups", json!({"sub": "s", "email": "ada", "email_verified": true}), "s", ""),
        ] {
            // A name that is no verified address has a mark of the person.
            let mark = &person_id("https://id.example", "s")[..MARK_CHARS];
            let name = if name.contains('@') { name.to_owned() } else { format!("{name}~{mark}") };
            assert_eq!(found(claim, claims.clone()), (name, grants.to_owned()), "{claims}");
        }
        for subject in ["with spaces", &"0".repeat(64)] {
            let claims =
                json!({"sub": subject, "preferred_username": "ada@example.org", "groups": ["staff"]});
            let mark = &person_id("https://id.example", subject)[..MARK_CHARS];
            assert_eq!(found("groups", claims), (format!("person~{mark}"), "default{Read}".to_owned()));
        }
    }

    #[test]
    fn each_person_has_a_name_of_their_own() {
        let person = |issuer: &str, subject: &str| {
            let claims = json!({"sub": subject, "preferred_username": "ada"});
            let settings = SignInSettings { issuer: issuer.into(), ..settings("groups", Vec::new()) };
            person(claims.as_object().unwrap(), &settings)
        };
        let ada = person("https://id.example", "1");
        assert_eq!(ada, person("https://id.example", "1"));
        assert!(ada.name.starts_with("ada~") && ada.name.len() == 12, "{}", ada.name);
        for other in [person("https://id.example", "2"), person("https://other.example", "1")] {
            assert!(other.name != ada.name && other.id != ada.id, "{} {}", other.name, ada.name);
        }
    }
}
