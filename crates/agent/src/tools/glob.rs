//! `glob`: files by the pattern of their path.
//!
//! Look at [`Glob`].

use futures_util::future::BoxFuture;
use globset::GlobBuilder;
use recount_event::Payload;
use recount_event::family::search::GlobCompleted;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::limits::PATTERN_CHARS_MAX;
use crate::paths::{Links, Root};
use crate::tool::{Assessment, Cancel, Job, Outcome, Tool};
use crate::tools::ending::{Halt, Stop, Watch, completed};
use crate::tools::limits;
use crate::tools::rooted::in_root;
use crate::tools::walk::Walk;
use crate::tools::{diff, input};

pub(crate) struct Glob;

#[derive(Deserialize)]
struct GlobInput {
    pattern: String,
    path: Option<String>,
}

impl Tool for Glob {
    fn name(&self) -> &'static str {
        "glob"
    }

    fn kind(&self) -> &'static str {
        "search"
    }

    fn description(&self) -> &'static str {
        "Lists files whose path fits a pattern such as `src/**/*.rs`: `*` stays in its folder, `**` goes through \
         folders, `{a,b}` is either. Ignored files (.gitignore) are left out. Sorted by path."
    }

    fn schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "pattern": {
                    "type": "string", "minLength": 1, "maxLength": PATTERN_CHARS_MAX,
                    "description": "The pattern, relative to `path`."
                },
                "path": input::path("The folder to look in, relative to the workspace. Default: the workspace.")
            },
            "required": ["pattern"],
            "additionalProperties": false
        })
    }

    fn reads_only(&self) -> bool {
        true
    }

    fn assess(&self, input: &Value) -> Assessment {
        let pattern = input::text(input, "pattern");
        let path = input.get("path").and_then(Value::as_str).unwrap_or(".");
        input::harmless(pattern, format!("List files that fit {pattern}."), vec![path.to_owned()])
    }

    fn run<'a>(&'a self, job: Job<'a>) -> BoxFuture<'a, Outcome> {
        Box::pin(async move { glob(job).await.unwrap_or_else(Outcome::from) })
    }
}

#[derive(Default)]
struct Files {
    matches: Vec<String>,
    bytes: usize,
    count: u64,
    truncated: bool,
    out_of_time: bool,
}

async fn glob(job: Job<'_>) -> Result<Outcome, Stop> {
    let GlobInput { pattern, path } = input::read(job.input)?;
    let (cancel, wanted) = (job.cancel.clone(), pattern.clone());
    let files = in_root(job.world, job.terms, move |root| {
        look(root, path.as_deref().unwrap_or("."), &wanted, &cancel)
    })
    .await?;
    let mut output: String = files.matches.iter().map(|path| line(path) + "\n").collect();
    if files.out_of_time {
        output.push_str("[not everything was looked at in time; look in a smaller folder]\n");
    } else if files.truncated {
        let (shown, count) = (files.matches.len(), files.count);
        output.push_str(&format!("[{shown} of {count} files; give a narrower pattern]\n"));
    }
    if output.is_empty() {
        output.push_str("No file fits.");
    }
    let summary = match files.count {
        1 => "1 file".to_owned(),
        count => format!("{count} files"),
    };
    let done = GlobCompleted::new(job.call.clone(), pattern, files.matches, files.count, files.truncated);
    Ok(completed(output, summary, vec![Payload::ToolGlobCompleted(Box::new(done)).into()]))
}

/// One path on one line.
pub(crate) fn line(path: &str) -> String {
    if path.chars().any(char::is_control) { diff::quoted(path) } else { path.to_owned() }
}

/// A pattern as a matcher; `anywhere` lets one without a `/` fit in any folder.
pub(crate) fn matcher(pattern: &str, anywhere: bool) -> Result<globset::GlobMatcher, Stop> {
    let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
    let whole = if anywhere && !pattern.contains('/') { format!("**/{pattern}") } else { pattern.to_owned() };
    let glob = GlobBuilder::new(&whole).literal_separator(true).build();
    glob.map(|glob| glob.compile_matcher()).map_err(|error| {
        Stop::failed("invalid_pattern", format!("`{pattern}` is no pattern of files: {}", error.kind()))
    })
}

fn look(root: &Root, path: &str, pattern: &str, cancel: &Cancel) -> Result<Files, Stop> {
    let top = root.place(path)?;
    drop(root.folder(&top, Links::Refuse)?);
    let matcher = matcher(pattern, false)?;
    let watch = Watch::new(cancel, limits::SEARCH_TIME_MAX);
    let mut walk = Walk::new(root, &top, &watch);
    let mut files = Files::default();
    loop {
        let place = match walk.next() {
            Ok(Some(place)) => place,
            Ok(None) => break,
            Err(Halt::Cancelled) => return Err(Stop::cancelled()),
            Err(Halt::TimeUp) => {
                files.out_of_time = true;
                break;
            }
        };
        let below =
            if top.is_top() { Ok(place.as_path()) } else { place.as_path().strip_prefix(top.as_path()) };
        if !below.is_ok_and(|below| matcher.is_match(below)) {
            continue;
        }
        files.count += 1;
        let told = place.told();
        if files.matches.len() < limits::GLOB_MATCHES_MAX
            && files.bytes + told.len() <= limits::SEARCH_OUTPUT_BYTES_MAX
        {
            files.bytes += told.len() + 1;
            files.matches.push(told);
        }
    }
    files.truncated = files.out_of_time || walk.cut || files.count > files.matches.len() as u64;
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::How;
    use crate::tools::scene::{Scene, refused};

    fn scene() -> Scene {
        Scene::with(&[
            (".gitignore", "target\n"),
            ("a.rs", ""),
            ("src/b.rs", ""),
            ("src/deep/c.rs", ""),
            ("src/d.txt", ""),
            ("target/e.rs", ""),
        ])
    }

    #[tokio::test]
    async fn files_are_listed_and_told() {
        let mut scene = scene();
        for (input, wanted) in [
            (json!({ "pattern": "*.rs" }), "a.rs\n"),
            (json!({ "pattern": "**/*.rs" }), "a.rs\nsrc/b.rs\nsrc/deep/c.rs\n"),
            (json!({ "pattern": "./src/*" }), "src/b.rs\nsrc/d.txt\n"),
            (json!({ "pattern": "*.{rs,txt}", "path": "src" }), "src/b.rs\nsrc/d.txt\n"),
            (json!({ "pattern": "*.rs", "path": "target" }), "target/e.rs\n"),
            (json!({ "pattern": "none" }), "No file fits."),
        ] {
            assert_eq!(scene.run("glob", input.clone()).await.output, wanted, "{input}");
        }
        let outcome = scene.run("glob", json!({ "pattern": "src/*.rs" })).await;
        assert_eq!(
            scene.events(&outcome),
            [(
                "tool.glob.completed".to_owned(),
                json!({
                    "tool_call_id": "call_1", "pattern": "src/*.rs", "matches": ["src/b.rs"], "match_count": 1,
                    "truncated": false
                })
            )]
        );
        scene.put("src/odd\nname.rs", b"");
        let outcome = scene.run("glob", json!({ "pattern": "src/o*" })).await;
        assert_eq!(outcome.output, "\"src/odd\\nname.rs\"\n");
    }

    #[tokio::test]
    async fn much_is_counted_and_shown_in_part() {
        let mut scene = Scene::new();
        for n in 0..=limits::GLOB_MATCHES_MAX {
            scene.put(&format!("f{n:05}"), b"");
        }
        let outcome = scene.run("glob", json!({ "pattern": "*" })).await;
        assert!(outcome.output.ends_with("[1000 of 1001 files; give a narrower pattern]\n"));
        let data = scene.events(&outcome).remove(0).1;
        assert_eq!((&data["match_count"], &data["truncated"]), (&json!(1001), &json!(true)));
        assert_eq!(data["matches"].as_array().map(Vec::len), Some(1000));
    }

    #[tokio::test]
    async fn what_cannot_be_looked_through_is_refused() {
        let mut scene = scene();
        for (input, wanted) in [
            (json!({ "pattern": "[" }), "invalid_pattern"),
            (json!({ "pattern": "*", "path": ".." }), "outside_workspace"),
            (json!({ "pattern": "*", "path": "none" }), "not_found"),
            (json!({ "pattern": "*", "path": "a.rs" }), "not_a_folder"),
        ] {
            let outcome = scene.run("glob", input).await;
            refused(&outcome, wanted);
            assert!(outcome.events.is_empty());
        }
        scene.stop.send_replace(true);
        assert_eq!(scene.run("glob", json!({ "pattern": "*" })).await.how, How::Cancelled);
    }
}
