//! Configuration of the face for applications (AAP): its base paths, and whether its `meta` is public.
//!
//! Start at [`Aap`]. It must never know the replies of the face.

use crate::StartError;
use crate::limits::BASE_PATHS_MAX;

/// The base path that always exists.
pub(super) const BASE_PATH_DEFAULT: &str = "/aap";

/// First path segments that are used or reserved by other routes.
const TAKEN: [&str; 11] = [
    "v1",
    "hecate",
    "aaep",
    ".well-known",
    "healthz",
    "readyz",
    "metrics",
    "openapi.json",
    "docs",
    "speech",
    "decide",
];

/// The checked settings of the face.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Aap {
    /// Base paths without a slash at the end; the default one first.
    pub base_paths: Vec<String>,
    /// Whether clients without a token may list the agents.
    pub public_meta: bool,
}

impl Default for Aap {
    fn default() -> Self {
        Aap { base_paths: vec![BASE_PATH_DEFAULT.into()], public_meta: false }
    }
}

impl Aap {
    /// The rest of a path below a base path: it begins with a slash, or is empty.
    pub(crate) fn below<'a>(&self, path: &'a str) -> Option<&'a str> {
        let below = |base: &String| path.strip_prefix(base.as_str());
        self.base_paths.iter().filter_map(below).find(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

/// Checks the configured paths, and adds the default one.
pub(super) fn settle(base_paths: &[String], public_meta: bool) -> Result<Aap, StartError> {
    let mut settled = vec![BASE_PATH_DEFAULT.to_owned()];
    for path in base_paths {
        let path = path.strip_suffix('/').unwrap_or(path);
        check(path, &settled).map_err(|why| StartError::usage(format!("aap.base_paths: {path:?} {why}")))?;
        if !settled.iter().any(|there| there == path) {
            settled.push(path.to_owned());
        }
    }
    if settled.len() > BASE_PATHS_MAX {
        let why = format!("aap.base_paths has {} paths; the limit is {BASE_PATHS_MAX}", settled.len());
        return Err(StartError::usage(why));
    }
    Ok(Aap { base_paths: settled, public_meta })
}

/// Whether the face can be mounted at this path, next to its other paths.
fn check(path: &str, others: &[String]) -> Result<(), String> {
    let Some(parts) = path.strip_prefix('/').filter(|parts| !parts.is_empty()) else {
        return Err("is not a base path; use one such as /aap or /acme/agents".to_owned());
    };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._~-".contains(&byte);
    let is_part = |part: &str| !matches!(part, "" | "." | "..") && part.bytes().all(plain);
    if !parts.split('/').all(is_part) {
        return Err(
            "has characters other than letters, digits, `.`, `_`, `~` and `-` between its slashes".to_owned()
        );
    }
    let first = parts.split('/').next().unwrap_or_default();
    if TAKEN.contains(&first) || crate::web::is_open(&format!("/{first}")) {
        return Err(format!("is already in use; choose one that does not start with /{first}"));
    }
    let within = |a: &str, b: &str| a.strip_prefix(b).is_some_and(|rest| rest.starts_with('/'));
    match others.iter().find(|other| within(path, other) || within(other, path)) {
        Some(other) => Err(format!("overlaps {other}; choose paths that do not overlap")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(configured: &[&str]) -> Result<Vec<String>, String> {
        let configured: Vec<String> = configured.iter().map(|path| (*path).to_owned()).collect();
        settle(&configured, false).map(|aap| aap.base_paths).map_err(|why| why.to_string())
    }

    #[test]
    fn only_valid_base_paths_are_accepted() {
        assert_eq!(paths(&[]).unwrap(), ["/aap"]);
        assert_eq!(paths(&["/aap/", "/acme/agents/", "/a"]).unwrap(), ["/aap", "/acme/agents", "/a"]);
        for bad in
            ["", "/", "aap", "/v1/aap", "/hecate", "/a//b", "/a/../b", "/a b", "/{x}", "/docs", "/console.js"]
                .into_iter()
                .filter(|bad| !bad.is_empty())
        {
            let why = paths(&[bad]).unwrap_err();
            assert!(why.contains("aap.base_paths"), "{bad}: {why}");
        }
        let why = paths(&["/acme", "/acme/agents"]).unwrap_err();
        assert!(why.contains("/acme/agents") && why.contains("overlap"), "{why}");
        assert!(paths(&["/aap/v3"]).is_err());
    }

    #[test]
    fn the_base_path_is_stripped() {
        let aap = Aap { base_paths: vec!["/aap".into(), "/acme/agents".into()], public_meta: true };
        assert_eq!(aap.below("/aap/meta"), Some("/meta"));
        assert_eq!(aap.below("/acme/agents/sessions/x"), Some("/sessions/x"));
        assert_eq!(aap.below("/aap"), Some(""));
        for other in ["/aapx/meta", "/v1/runs", "/", "/acme", "/acme/agentsx"] {
            assert_eq!(aap.below(other), None, "{other}");
        }
    }
}
