//! Serves the console: its embedded files, and the catalogues of its announcements, which it shares with the
//! accessibility face.

use axum::Router;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::{HeaderValue, header};
use recount_api::routes::{SERVER_ROUTES, ServerRoute};
use recount_face_aaep::speech::Speech;

/// One file of `web/` under its own path.
macro_rules! web {
    ($type:expr, $path:literal) => {
        (concat!("/", $path), $type, include_bytes!(concat!("../../../web/", $path)))
    };
}

const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const CATALOGUE: &str = "text/plain; charset=utf-8";

/// Path, media type, bytes. A test compares it with the content of `web/`.
const FILES: &[(&str, &str, &[u8])] = &[
    ("/", "text/html; charset=utf-8", include_bytes!("../../../web/index.html")),
    web!(STYLE, "console.css"),
    web!(STYLE, "docs.css"),
    web!(STYLE, "src/run.css"),
    web!(SCRIPT, "account.js"),
    web!(SCRIPT, "console.js"),
    web!(SCRIPT, "entry.js"),
    web!(SCRIPT, "kinds.js"),
    web!(SCRIPT, "page.js"),
    web!(SCRIPT, "prompts.js"),
    web!(SCRIPT, "visible.js"),
    web!(SCRIPT, "src/approved.js"),
    web!(SCRIPT, "src/arming.js"),
    web!(SCRIPT, "src/attention.js"),
    web!(SCRIPT, "src/copy.js"),
    web!(SCRIPT, "src/demo.js"),
    web!(SCRIPT, "src/dialogs.js"),
    web!(SCRIPT, "src/earcons.js"),
    web!(SCRIPT, "src/fold/artifacts.js"),
    web!(SCRIPT, "src/fold/calls.js"),
    web!(SCRIPT, "src/fold/fold.js"),
    web!(SCRIPT, "src/fold/notes.js"),
    web!(SCRIPT, "src/fold/prompts.js"),
    web!(SCRIPT, "src/fold/runs.js"),
    web!(SCRIPT, "src/fold/state.js"),
    web!(SCRIPT, "src/fold/tools.js"),
    web!(SCRIPT, "src/fold/turns.js"),
    web!(SCRIPT, "src/keys.js"),
    web!(SCRIPT, "src/markdown.js"),
    web!(SCRIPT, "src/newtask.js"),
    web!(SCRIPT, "src/overview.js"),
    web!(SCRIPT, "src/preferences.js"),
    web!(SCRIPT, "src/run/actions.js"),
    web!(SCRIPT, "src/run/ansi.js"),
    web!(SCRIPT, "src/run/call.js"),
    web!(SCRIPT, "src/run/changes.js"),
    web!(SCRIPT, "src/run/cost.js"),
    web!(SCRIPT, "src/run/diff.js"),
    web!(SCRIPT, "src/run/feed.js"),
    web!(SCRIPT, "src/run/items.js"),
    web!(SCRIPT, "src/run/page.js"),
    web!(SCRIPT, "src/run/panel.js"),
    web!(SCRIPT, "src/run/patches.js"),
    web!(SCRIPT, "src/run/pictures.js"),
    web!(SCRIPT, "src/run/prose.js"),
    web!(SCRIPT, "src/run/results.js"),
    web!(SCRIPT, "src/run/shell.js"),
    web!(SCRIPT, "src/run/spoken.js"),
    web!(SCRIPT, "src/run/timeline.js"),
    web!(SCRIPT, "src/run/transcript.js"),
    web!(SCRIPT, "src/run/words.js"),
    web!(SCRIPT, "src/runs.js"),
    web!(SCRIPT, "src/server.js"),
    web!(SCRIPT, "src/session.js"),
    web!(SCRIPT, "src/settings.js"),
    web!(SCRIPT, "src/signin.js"),
    web!(SCRIPT, "src/speech.js"),
    web!(SCRIPT, "src/stream/hub.js"),
    web!(SCRIPT, "src/stream/live.js"),
    web!(SCRIPT, "src/stream/worker.js"),
    web!(SCRIPT, "src/time.js"),
    web!(SCRIPT, "src/voice.js"),
];

/// Allows only this server's files and streams; no page may frame the console.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The catalogues by their paths.
fn catalogues() -> impl Iterator<Item = (String, &'static [u8])> {
    Speech::sources().map(|(tag, source)| (format!("/speech/{tag}.ftl"), source.as_bytes()))
}

pub(crate) fn router() -> Router {
    let router = FILES.iter().fold(Router::new(), |router, &(path, media_type, bytes)| {
        router.route(path, get(move || async move { file(media_type, bytes) }))
    });
    catalogues().fold(router, |router, (path, bytes)| {
        router.route(&path, get(move || async move { file(CATALOGUE, bytes) }))
    })
}

pub(crate) fn file(media_type: &'static str, bytes: &'static [u8]) -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(media_type)),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    ];
    (headers, bytes).into_response()
}

/// Whether a path is public: the embedded files, and routes without scopes.
pub(crate) fn is_open(path: &str) -> bool {
    let needs_nothing = |route: &ServerRoute| route.path == path && route.scopes.is_empty();
    let tag = path.strip_prefix("/speech/").and_then(|name| name.strip_suffix(".ftl"));
    let catalogue = tag.is_some_and(|tag| Speech::languages().any(|known| known == tag));
    FILES.iter().any(|(open, ..)| *open == path) || catalogue || SERVER_ROUTES.iter().any(needs_nothing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn scripts_and_styles(folder: &Path, found: &mut Vec<String>, root: &Path) {
        for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let name = entry.strip_prefix(root).unwrap().to_string_lossy().into_owned();
            if entry.is_dir() {
                scripts_and_styles(&entry, found, root);
            } else if name.ends_with(".js") || name.ends_with(".css") {
                found.push(format!("/{name}"));
            }
        }
    }

    #[test]
    fn every_file_of_the_console_is_embedded() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web");
        let mut found = vec!["/".to_owned()];
        scripts_and_styles(&root, &mut found, &root);
        let mut embedded: Vec<_> = FILES.iter().map(|(path, ..)| (*path).to_owned()).collect();
        found.sort();
        embedded.sort();
        assert_eq!(embedded, found);
    }
}
