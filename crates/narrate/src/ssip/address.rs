//! Finds the address of speech-dispatcher: [`SsipAddress`], in the order that its own clients use. Pure.

use std::path::PathBuf;

use super::error::SsipError;

/// The default port of `inet_socket`.
const PORT: u16 = 6560;

/// An address to connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SsipAddress {
    Unix(PathBuf),
    Tcp { host: String, port: u16 },
}

impl std::fmt::Display for SsipAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SsipAddress::Unix(path) => write!(f, "{}", path.display()),
            SsipAddress::Tcp { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

impl SsipAddress {
    /// `SPEECHD_ADDRESS`; else the socket below `XDG_RUNTIME_DIR`, or below the cache of the user's home. The caller
    /// passes the environment.
    pub fn find(variable: impl Fn(&str) -> Option<String>) -> Result<SsipAddress, SsipError> {
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        let own = || {
            let folder = variable("XDG_RUNTIME_DIR")
                .or_else(|| variable("XDG_CACHE_HOME"))
                .map(PathBuf::from)
                .or_else(|| variable("HOME").map(|home| PathBuf::from(home).join(".cache")))
                .unwrap_or_default();
            SsipAddress::Unix(folder.join("speech-dispatcher").join("speechd.sock"))
        };
        let Some(named) = variable("SPEECHD_ADDRESS") else { return Ok(own()) };
        let (method, rest) = named.split_once(':').unwrap_or((&named, ""));
        let refused = || SsipError::Address { value: named.clone() };
        match method {
            "unix_socket" if rest.is_empty() => Ok(own()),
            "unix_socket" => Ok(SsipAddress::Unix(rest.into())),
            "inet_socket" => {
                let (host, port) = rest.rsplit_once(':').unwrap_or((rest, ""));
                let port = if port.is_empty() { PORT } else { port.parse().map_err(|_| refused())? };
                let host = if host.is_empty() { "127.0.0.1" } else { host };
                Ok(SsipAddress::Tcp { host: host.trim_matches(['[', ']']).to_owned(), port })
            }
            _ => Err(refused()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(variables: &[(&str, &str)]) -> Result<String, String> {
        let value = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        SsipAddress::find(value).map(|address| address.to_string()).map_err(|why| why.to_string())
    }

    #[test]
    fn the_address_is_searched_in_the_usual_order() {
        let run = ("XDG_RUNTIME_DIR", "/run/user/7");
        let home = ("HOME", "/home/ana");
        for (variables, expected) in [
            (vec![run, home], "/run/user/7/speech-dispatcher/speechd.sock"),
            (vec![("XDG_RUNTIME_DIR", ""), home], "/home/ana/.cache/speech-dispatcher/speechd.sock"),
            (vec![("XDG_CACHE_HOME", "/c"), home], "/c/speech-dispatcher/speechd.sock"),
            (vec![run, ("SPEECHD_ADDRESS", "unix_socket:/tmp/s.sock")], "/tmp/s.sock"),
            (vec![run, ("SPEECHD_ADDRESS", "unix_socket")], "/run/user/7/speech-dispatcher/speechd.sock"),
            (vec![run, ("SPEECHD_ADDRESS", "inet_socket:h:77")], "h:77"),
            (vec![run, ("SPEECHD_ADDRESS", "inet_socket:h")], "h:6560"),
            (vec![run, ("SPEECHD_ADDRESS", "inet_socket")], "127.0.0.1:6560"),
        ] {
            assert_eq!(find(&variables).unwrap(), expected, "{variables:?}");
        }
        for bad in ["pipe:/x", "inet_socket:h:port"] {
            let why = find(&[("SPEECHD_ADDRESS", bad)]).unwrap_err();
            assert!(why.contains(bad) && why.contains("unix_socket:PATH"), "{why}");
        }
    }
}
