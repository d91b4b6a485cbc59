//! Parses, classifies and joins the addresses of producers. It opens no connection.

use std::str::FromStr;

use reqwest::Url;

use super::error::LinkError;
use super::{Surface, Target};

/// The end of the versioned surface's base URL.
pub(super) const VERSIONED: &str = "/aaep/v1";

const URL_HINT: &str =
    "use a URL such as http://127.0.0.1:8080, http://127.0.0.1:8080/aaep/v1 or ws://127.0.0.1:8080/ws";

impl FromStr for Target {
    type Err = LinkError;

    /// Parses `http://`, `https://`, `ws://` and `wss://` URLs. A URL that ends in a known route is reduced to its
    /// base.
    fn from_str(text: &str) -> Result<Target, LinkError> {
        let unusable =
            |why: &str| LinkError::Unusable(format!("{text:?} is not a producer URL ({why}); {URL_HINT}"));
        let url = Url::parse(text).map_err(|why| unusable(&why.to_string()))?;
        if !matches!(url.scheme(), "http" | "https" | "ws" | "wss") {
            return Err(unusable("it does not begin with http:// or ws://"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(unusable("it contains a user name or a password; use a token instead"));
        }
        if url.fragment().is_some() {
            return Err(unusable("it has a # part"));
        }
        if matches!(url.scheme(), "ws" | "wss") {
            return Ok(Target::WebSocket { url: text.to_owned() });
        }
        if url.query().is_some() {
            return Err(unusable("it has a ? part"));
        }
        let mut base = text.trim_end_matches('/');
        let mut surface = Surface::Legacy;
        for (ending, of) in [("/events", ""), ("/subscriptions", VERSIONED), ("/replies", VERSIONED)] {
            if let Some(shorter) = base.strip_suffix(ending).filter(|shorter| shorter.ends_with(of)) {
                base = shorter;
                break;
            }
        }
        if base.ends_with(VERSIONED) {
            surface = Surface::Versioned;
        }
        Ok(Target::Http { base: base.to_owned(), surface })
    }
}

/// The default URL of a subscription's events.
pub(super) fn events_url(base: &str, subscription: Option<&str>) -> Result<String, LinkError> {
    let mut url = Url::parse(&format!("{base}/events"))
        .map_err(|why| LinkError::Unusable(format!("{base:?} is not a valid URL ({why}); {URL_HINT}")))?;
    if let Some(subscription) = subscription {
        url.query_pairs_mut().append_pair("subscription_id", subscription);
    }
    Ok(url.into())
}

/// Resolves a `Location` header. It must have the same origin, because the token is sent there too.
pub(super) fn resolve_location(base: &str, location: &str) -> Result<String, LinkError> {
    let base = Url::parse(base)
        .map_err(|why| LinkError::Unusable(format!("{base:?} is not a valid URL ({why})")))?;
    let url = base.join(location).map_err(|why| {
        LinkError::Protocol(format!(
            "the Location {location:?} of the subscription is not a valid URL ({why})"
        ))
    })?;
    if url.origin() != base.origin() {
        return Err(LinkError::Protocol(format!(
            "the Location {location:?} of the subscription is on another server; events must come from {}",
            base.origin().ascii_serialization()
        )));
    }
    Ok(url.into())
}

/// Splits a command line into words at white space, with quotes and backslash escapes. No shell is involved, so no
/// other character is special.
pub fn words(line: &str) -> Result<Vec<String>, LinkError> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut rest = line.chars();
    while let Some(c) = rest.next() {
        match (quote, c) {
            (Some(end), c) if c == end => quote = None,
            (Some('\'') | None, '\'' | '"') if quote.is_none() => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => match rest.next() {
                Some(next) => word.get_or_insert_default().push(next),
                None => return Err(LinkError::Unusable(format!("the command {line:?} ends in a backslash"))),
            },
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        return Err(LinkError::Unusable(format!("the command {line:?} has an unclosed quote")));
    }
    words.extend(word);
    if words.is_empty() {
        return Err(LinkError::Unusable("the command is empty; pass a program and its arguments".to_owned()));
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn http(base: &str, surface: Surface) -> Target {
        Target::Http { base: base.to_owned(), surface }
    }

    #[test]
    fn an_address_determines_transport_and_surface() {
        for (text, expected) in [
            ("http://h:1", http("http://h:1", Surface::Legacy)),
            ("http://h:1/", http("http://h:1", Surface::Legacy)),
            ("https://h/room/7/", http("https://h/room/7", Surface::Legacy)),
            ("http://h/events", http("http://h", Surface::Legacy)),
            ("http://h/subscriptions", http("http://h/subscriptions", Surface::Legacy)),
            ("http://h/aaep/v1", http("http://h/aaep/v1", Surface::Versioned)),
            ("http://h/x/aaep/v1/", http("http://h/x/aaep/v1", Surface::Versioned)),
            ("http://h/aaep/v1/events", http("http://h/aaep/v1", Surface::Versioned)),
            ("http://h/aaep/v1/subscriptions", http("http://h/aaep/v1", Surface::Versioned)),
            ("ws://h/ws?room=1", Target::WebSocket { url: "ws://h/ws?room=1".to_owned() }),
            ("wss://h/aaep/v1/ws", Target::WebSocket { url: "wss://h/aaep/v1/ws".to_owned() }),
        ] {
            assert_eq!(text.parse::<Target>().unwrap(), expected, "{text}");
        }
        for bad in
            ["", "localhost:8080", "h", "tcp://h", "http://", "http://h?x=1", "http://u:p@h", "ws://h/#x"]
        {
            let why = bad.parse::<Target>().unwrap_err().to_string();
            assert!(why.contains("use a URL such as"), "{bad:?}: {why}");
        }
    }

    #[test]
    fn events_must_come_from_the_same_server() {
        let base = "http://h:1/aaep/v1";
        let at = |location| resolve_location(base, location);
        assert_eq!(
            at("/aaep/v1/events?subscription_id=sub_1").unwrap(),
            "http://h:1/aaep/v1/events?subscription_id=sub_1"
        );
        assert_eq!(at("http://h:1/e").unwrap(), "http://h:1/e");
        for elsewhere in ["http://h:2/e", "https://h:1/e", "//evil/e", "http://[/"] {
            assert!(matches!(at(elsewhere), Err(LinkError::Protocol(_))), "{elsewhere}");
        }
        assert_eq!(events_url(base, Some("a&b")).unwrap(), "http://h:1/aaep/v1/events?subscription_id=a%26b");
        assert_eq!(events_url(base, None).unwrap(), "http://h:1/aaep/v1/events");
    }

    #[test]
    fn command_lines_are_split_as_shells_split_them() {
        for (line, expected) in [
            ("prog a  b", vec!["prog", "a", "b"]),
            ("prog 'a b' \"c 'd'\" e\\ f ''", vec!["prog", "a b", "c 'd'", "e f", ""]),
            (r#"p "a\"b" 'c\d' e'f'g"#, vec!["p", "a\"b", r"c\d", "efg"]),
            ("p $HOME | x", vec!["p", "$HOME", "|", "x"]),
        ] {
            assert_eq!(words(line).unwrap(), expected, "{line}");
        }
        for bad in ["", "   ", "p 'a", "p \"", "p \\"] {
            assert!(words(bad).is_err(), "{bad:?}");
        }
    }
}
