//! Which token is shown to a server that a verb names itself. The environment's is for the server at `--url`, and goes
//! to no other.

use std::path::Path;

use crate::limits;
use crate::output::note;

/// The token that the command line or the environment has, and the server that it is for.
#[derive(Debug, Clone, Copy)]
pub struct OwnToken<'a> {
    pub token: Option<&'a str>,
    /// Whether it is on the command line, so that it is meant for the address that the verb names.
    pub is_typed: bool,
    /// The server at `--url`, which the one of the environment is for.
    pub url: &'a str,
}

impl OwnToken<'_> {
    /// The token for the server at `base`: the one that was typed, or that of a file, or that of the environment.
    pub fn for_server(self, base: &str, file: Option<&Path>) -> Result<Option<String>, String> {
        let own = self.token.filter(|token| !token.is_empty());
        if self.is_typed {
            return Ok(own.map(str::to_owned));
        }
        if let Some(path) = file {
            let token = small_file(path)?;
            return Ok(Some(token).filter(|token| !token.is_empty()));
        }
        if own.is_some() && !is_same_server(base, self.url) {
            note(&format!(
                "RECOUNT_TOKEN is for {} and is not sent to {base}; use --token-file FILE for that server",
                self.url
            ));
            return Ok(None);
        }
        Ok(own.map(str::to_owned))
    }
}

/// The content of a small file, without the line end at its end.
pub fn small_file(path: &Path) -> Result<String, String> {
    let wrong = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
    let size = std::fs::metadata(path).map_err(|why| wrong(&why))?.len();
    if size > limits::VALUE_FILE_BYTES_MAX {
        let most = limits::VALUE_FILE_BYTES_MAX;
        return Err(wrong(&format!("it has {size} bytes; the limit is {most} (VALUE_FILE_BYTES_MAX)")));
    }
    let text = std::fs::read_to_string(path).map_err(|why| wrong(&why))?;
    Ok(text
        .strip_suffix('\n')
        .map_or(text.as_str(), |text| text.strip_suffix('\r').unwrap_or(text))
        .to_owned())
}

/// Whether two addresses lead to one host and port, or to one socket.
fn is_same_server(one: &str, other: &str) -> bool {
    server_of(one).is_some() && server_of(one) == server_of(other)
}

/// The scheme, host and port of an address, or its socket, in one form for each server. `None` if clients could
/// disagree which server it names.
pub fn server_of(address: &str) -> Option<String> {
    // A path of the server follows the socket after a colon.
    if let Some(socket) = address.strip_prefix("unix:") {
        return Some(format!("unix:{}", socket.split(':').next().unwrap_or_default()));
    }
    let (scheme, rest) = address.split_once("://")?;
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default().to_ascii_lowercase();
    let scheme = scheme.to_ascii_lowercase();
    let usual = match scheme.as_str() {
        "https" => ":443",
        "http" => ":80",
        _ => return None,
    };
    // Parsers of URLs differ about everything else: user information, backslashes, blanks and escapes.
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '[' | ']');
    let host = host.strip_suffix(usual).unwrap_or(&host);
    (!host.is_empty() && host.chars().all(is_plain)).then(|| format!("{scheme}://{host}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_for_one_host_and_port() {
        let usual = "http://127.0.0.1:8765";
        assert!(is_same_server("http://127.0.0.1:8765/aap", usual));
        assert!(is_same_server("HTTP://Host/aap", "http://host:80"));
        assert!(is_same_server("https://host/aap", "https://host:443"));
        assert!(!is_same_server("https://host:80", "https://host"));
        assert!(is_same_server("unix:/run/r.sock:/aap", "unix:/run/r.sock"));
        assert!(!is_same_server("unix:/run/r.sock", "unix:/run/R.sock"));
        for other in [
            "http://127.0.0.1:8766/aap",
            "https://127.0.0.1:8765/aap",
            "http://127.0.0.1:8765.example.org/aap",
            "http://127.0.0.1:8765@example.org/aap",
            "http://example.org/http://127.0.0.1:8765",
            "127.0.0.1:8765",
        ] {
            assert!(!is_same_server(other, usual), "{other}");
        }
        for unclear in [
            "nothing",
            "http://user@host",
            "http://evil.example\\@host",
            "http://host\\.evil.example",
            "http://host\t.evil.example",
            "http://h%6fst",
            "http:///host",
            "ftp://host",
        ] {
            assert_eq!(server_of(unclear), None, "{unclear}");
        }
    }
}
