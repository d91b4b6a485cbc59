//! URLs of servers on Unix sockets: `unix:/run/recount/recount.sock`, and `unix:/run/recount/recount.sock:/aap` with a path of
//! the server after a second colon. Requests use the host `localhost`.
//!
//! Start at [`SocketUrl::parse`] and [`url_below`].

use std::path::Path;

const SCHEME: &str = "unix:";

/// The host and the scheme of requests over a socket.
const REQUEST_BASE: &str = "http://localhost";

/// A URL of a Unix socket in its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SocketUrl<'u> {
    pub(crate) file: &'u str,
    /// Empty, or with a slash at its beginning.
    path: &'u str,
}

impl<'u> SocketUrl<'u> {
    /// `None` for the URL of another kind.
    pub(crate) fn parse(url: &'u str) -> Option<Self> {
        let rest = url.strip_prefix(SCHEME)?;
        let (file, path) = rest.split_once(':').unwrap_or((rest, ""));
        Some(SocketUrl { file, path })
    }

    /// Refuses what names no socket.
    pub(crate) fn check(self) -> Result<(), String> {
        let is_path = self.path.is_empty() || self.path.starts_with('/');
        if !cfg!(unix) {
            return Err("this operating system has no Unix sockets; use a URL such as http://127.0.0.1:8765"
                .to_owned());
        }
        if !Path::new(self.file).is_absolute() || !is_path {
            return Err(format!(
                "\"{SCHEME}{}\" is not a server URL; after unix: write the absolute path of a socket, such as \
                 unix:/run/recount/recount.sock",
                self.file
            ));
        }
        Ok(())
    }
}

/// The URL that requests use.
pub fn request_url(url: &str) -> String {
    match SocketUrl::parse(url) {
        Some(url) => format!("{REQUEST_BASE}{}", url.path),
        None => url.to_owned(),
    }
}

/// The URL of a path of the server, which begins with a slash.
pub fn url_below(base: &str, path: &str) -> String {
    let base = base.trim_end_matches('/');
    match SocketUrl::parse(base) {
        Some(url) if url.path.is_empty() => format!("{base}:{path}"),
        _ => format!("{base}{path}"),
    }
}

/// Whether a URL names a Unix socket.
pub fn is_socket(url: &str) -> bool {
    SocketUrl::parse(url).is_some()
}

/// What to do after a connection to a socket failed.
pub(crate) fn advice(why: &std::io::Error) -> &'static str {
    use std::io::ErrorKind;
    match why.kind() {
        ErrorKind::NotFound => "; no server has this socket",
        ErrorKind::ConnectionRefused => "; no server listens on this socket",
        ErrorKind::PermissionDenied => "; this user may not connect: the group of the socket must include it",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_and_a_path_of_its_server_have_one_url() {
        let socket = "unix:/run/r.sock";
        assert_eq!(SocketUrl::parse(socket), Some(SocketUrl { file: "/run/r.sock", path: "" }));
        let below = url_below(socket, "/aap");
        assert_eq!(below, "unix:/run/r.sock:/aap");
        assert_eq!(SocketUrl::parse(&below), Some(SocketUrl { file: "/run/r.sock", path: "/aap" }));
        assert_eq!(request_url(&below), "http://localhost/aap");
        assert_eq!(url_below(&below, "/x"), "unix:/run/r.sock:/aap/x");
        assert_eq!(url_below("http://h/", "/aap"), "http://h/aap");
        assert_eq!(
            (request_url("http://h/aap"), SocketUrl::parse("http://h")),
            ("http://h/aap".to_owned(), None)
        );
    }

    #[test]
    #[cfg(unix)]
    fn only_absolute_paths_name_a_socket() {
        let check = |url: &str| SocketUrl::parse(url).unwrap().check();
        assert_eq!(check("unix:/run/r.sock"), Ok(()));
        assert_eq!(check("unix:///run/r.sock:/aap"), Ok(()));
        for wrong in ["unix:", "unix:r.sock", "unix://r:80"] {
            let refused = check(wrong);
            assert!(refused.is_err_and(|why| why.contains("the absolute path of a socket")), "{wrong}");
        }
    }
}
