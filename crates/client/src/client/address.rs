//! The address of a server: paths, tokens, headers. See [`Address`].

use std::fmt::{Display, Write};

use crate::error::ClientError;
use crate::socket_url::request_url;

/// A URL in the making: every part is escaped, so no identifier can lead elsewhere.
pub(crate) struct Address {
    url: String,
    has_query: bool,
    /// A part that cannot be in a path: servers and libraries resolve it, even when it is escaped.
    refused: Option<String>,
}

impl Address {
    pub(crate) fn new(base: &str, path: &[&str]) -> Self {
        Address::below(format!("{}/v1", request_url(base)), path)
    }

    /// What is not of the native face.
    pub(crate) fn outside(base: &str, path: &[&str]) -> Self {
        Address::below(request_url(base), path)
    }

    fn below(mut url: String, path: &[&str]) -> Self {
        let mut refused = None;
        for part in path {
            url.push('/');
            match *part {
                "" | "." | ".." => refused = Some((*part).to_owned()),
                part => escape(&mut url, part),
            }
        }
        Address { url, has_query: false, refused }
    }

    pub(crate) fn with(mut self, name: &str, value: Option<impl Display>) -> Self {
        if let Some(value) = value {
            self.url.push(if self.has_query { '&' } else { '?' });
            self.has_query = true;
            escape(&mut self.url, name);
            self.url.push('=');
            escape(&mut self.url, &value.to_string());
        }
        self
    }

    pub(crate) fn into_url(self) -> Result<String, ClientError> {
        match self.refused {
            None => Ok(self.url),
            Some(part) => Err(ClientError::Unusable(format!(
                "{part:?} is not a valid id; use an id that ls or show prints"
            ))),
        }
    }
}

fn escape(out: &mut String, text: &str) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            write!(out, "%{byte:02X}").expect("writing into a string does not fail");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_escapes_its_part() {
        let url = |path: &[&str]| Address::new("http://h", path).into_url().unwrap();
        assert_eq!(url(&["runs", "run_1", "events"]), "http://h/v1/runs/run_1/events");
        let of_socket = Address::new("unix:/run/r.sock:/audit", &["runs"]).into_url().unwrap();
        assert_eq!(of_socket, "http://localhost/audit/v1/runs");
        assert_eq!(url(&["runs", "a/../b?c#d e%"]), "http://h/v1/runs/a%2F..%2Fb%3Fc%23d%20e%25");
        for resolved in ["", ".", ".."] {
            let refused = Address::new("http://h", &["runs", resolved, "events"]).into_url();
            assert!(matches!(refused, Err(ClientError::Unusable(_))), "{resolved:?}");
        }
        let none: Option<u64> = None;
        let address =
            Address::new("http://h", &["e"]).with("a", Some(1)).with("b", none).with("c", Some("&="));
        assert_eq!(address.into_url().unwrap(), "http://h/v1/e?a=1&c=%26%3D");
    }
}
