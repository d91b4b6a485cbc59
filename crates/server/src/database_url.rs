//! The URL of a PostgreSQL database, which is shown without its password everywhere. See [`DatabaseUrl`].
//!
//! It must not know how a connection is made.

use std::borrow::Cow;
use std::fmt;

/// What is shown in place of a password.
const HIDDEN: &str = "***";

/// Parameters of a URL whose values are shown.
const SHOWN: [&str; 6] = [
    "application_name",
    "channel_binding",
    "connect_timeout",
    "sslmode",
    "sslrootcert",
    "target_session_attrs",
];

/// The URL of a database. Printing it hides its password.
#[derive(Clone, PartialEq, Eq)]
pub struct DatabaseUrl(String);

impl DatabaseUrl {
    /// `None` if this is not the URL of a PostgreSQL database.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix("postgres://").or_else(|| text.strip_prefix("postgresql://"))?;
        let is_plain = |c: char| !c.is_whitespace() && !c.is_control();
        (!rest.is_empty() && rest.chars().all(is_plain)).then(|| DatabaseUrl(text.to_owned()))
    }

    /// The URL with its password, for the driver only.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }

    /// The passwords in the URL, as given and decoded, so that other output can be masked.
    pub(crate) fn passwords(&self) -> Vec<String> {
        let (before, query) = self.0.split_once('?').unwrap_or((&self.0, ""));
        let user = before.rsplit_once('@').and_then(|(user, _)| user.split_once("://")?.1.split_once(':'));
        let values = query.split('&').filter_map(|parameter| parameter.split_once('='));
        let values = values.filter(|(name, _)| name.to_lowercase().contains("password"));
        let given = user.into_iter().chain(values).map(|(_, value)| value);
        let both = given.flat_map(|given| {
            let form = format!("x={given}");
            let decoded = form_urlencoded::parse(form.as_bytes()).next().map(|(_, value)| value.into_owned());
            [Some(given.to_owned()), decoded]
        });
        let mut passwords: Vec<String> = both.flatten().filter(|text| !text.is_empty()).collect();
        passwords.dedup();
        passwords
    }
}

impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&without_password(&self.0))
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", without_password(&self.0))
    }
}

/// Hides everything in a text that may be the password of a URL or of a connection string, valid or not. When in doubt
/// more is hidden.
pub(crate) fn without_password(text: &str) -> Cow<'_, str> {
    let Some((scheme, rest)) = text.split_once("://") else {
        let at = text.to_lowercase().find("password=").map(|at| at + "password=".len());
        return match at.and_then(|at| text.get(..at)) {
            Some(before) => Cow::Owned(format!("{before}{HIDDEN}")),
            None => Cow::Borrowed(text),
        };
    };
    let (user, place) = match rest.rsplit_once('@') {
        Some((user, place)) => match user.split_once(':') {
            Some((name, _)) => (format!("{name}:{HIDDEN}@"), place),
            None => (format!("{user}@"), place),
        },
        None => (String::new(), rest),
    };
    let shown = format!("{scheme}://{user}{place}");
    let Some((before, query)) = shown.split_once('?') else { return Cow::Owned(shown) };
    let parameters: Vec<Cow<'_, str>> = query
        .split('&')
        .map(|parameter| match parameter.split_once('=') {
            Some((name, _)) if SHOWN.contains(&name) => parameter.into(),
            Some((name, _)) => format!("{name}={HIDDEN}").into(),
            None => HIDDEN.into(),
        })
        .collect();
    Cow::Owned(format!("{before}?{}", parameters.join("&")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        for (text, shown) in [
            ("postgres://u@h/db", "postgres://u@h/db"),
            ("postgres://h:5432/db", "postgres://h:5432/db"),
            ("postgres://u:pw@h:5432/db?sslmode=require", "postgres://u:***@h:5432/db?sslmode=require"),
            ("postgres://u:p@w@h/db", "postgres://u:***@h/db"),
            ("postgres://u:p/w?x@h/db?sslmode=x", "postgres://u:***@h/db?sslmode=x"),
            ("postgres://u@h/db?password=pw&sslmode=x", "postgres://u@h/db?password=***&sslmode=x"),
            ("postgres://h/db?password=p@w", "postgres://h/db?password=***"),
            ("postgres://h/db?sslpassword=pw&pw", "postgres://h/db?sslpassword=***&***"),
            ("mysql://u:pw@h/db", "mysql://u:***@h/db"),
            ("host=h Password='p w' user=u", "host=h Password=***"),
            ("/var/lib/recount", "/var/lib/recount"),
            ("https://a.example, http://localhost:3000", "https://a.example, http://localhost:3000"),
        ] {
            assert_eq!(without_password(text), shown);
        }
        let url = DatabaseUrl::parse("postgres://u:hidden@h/db").unwrap();
        assert!(!format!("{url} {url:?}").contains("hidden"));
    }

    #[test]
    fn passwords_are_known_as_given_and_decoded() {
        let passwords = |text: &str| DatabaseUrl::parse(text).unwrap().passwords();
        assert_eq!(passwords("postgresql://u:a%2Fb@h/db"), ["a%2Fb", "a/b"]);
        assert_eq!(passwords("postgres://u@h/db?password=secret&sslmode=x"), ["secret"]);
        assert_eq!(passwords("postgres://u@h:5432/db"), Vec::<String>::new());
        for wrong in ["", "postgres://", "postgres://u@h/d b", "sqlite:/x", "host=h"] {
            assert_eq!(DatabaseUrl::parse(wrong), None, "{wrong}");
        }
    }
}
