//! The `glob` tool: finds files by a pattern for their path.
//!
//! Start at [`Glob`].

use futures_util::future::BoxFuture;
use globset::GlobBuilder;
use recount_event::Payload;
use recount_event::family::search::GlobCompleted;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::limits::PATTERN_CHARS_MAX;
use crate::paths::{Links, Root};
use crate::tool::{Assessment, Cancel, FileJudge, Job, Outcome, Tool};
use crate::tools::ending::{CallFailure, Halt, WorkMonitor, completed, counted};
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
        "Lists files whose path matches a glob pattern such as `src/**/*.rs`, sorted by path. `*` matches \
         within a folder, `**` across folders, `{a,b}` matches a or b. Files ignored by .gitignore are \
         skipped."
    }

    fn schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "pattern": {
                    "type": "string", "minLength": 1, "maxLength": PATTERN_CHARS_MAX,
                    "description": "The glob pattern, relative to `path`."
                },
                "path": input::path("The folder to search, relative to the workspace. Default: the workspace.")
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
        input::harmless(pattern, format!("List files that match {pattern}."), vec![path.to_owned()])
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
    /// Matching files that a rule of the policy hides.
    hidden: u64,
    truncated: bool,
    out_of_time: bool,
}

async fn glob(job: Job<'_>) -> Result<Outcome, CallFailure> {
    let GlobInput { pattern, path } = input::read(job.input)?;
    let (cancel, expected, judge) = (job.cancel.clone(), pattern.clone(), job.terms.files.clone());
    let files = in_root(job.world, job.terms, move |root| {
        find_files(root, path.as_deref().unwrap_or("."), &expected, &cancel, &judge)
    })
    .await?;
    let mut output: String = files.matches.iter().map(|path| line(path) + "\n").collect();
    if files.out_of_time {
        output.push_str("[the search ran out of time; the list is incomplete; search a smaller folder]\n");
    } else if files.truncated {
        let (shown, count) = (files.matches.len(), files.count);
        output.push_str(&format!("[{shown} of {count} files shown; use a narrower pattern]\n"));
    }
    let hidden = hidden_note(files.hidden);
    if output.is_empty() {
        output.push_str(if hidden.is_empty() { "No files match." } else { "No files match.\n" });
    }
    output.push_str(&hidden);
    let summary = counted(files.count, "file", "files");
    let done = GlobCompleted::new(job.call.clone(), pattern, files.matches, files.count, files.truncated);
    Ok(completed(output, summary, vec![Payload::ToolGlobCompleted(Box::new(done)).into()]))
}

/// States how many files a search does not show because of the policy. Their paths are hidden.
pub(crate) fn hidden_note(count: u64) -> String {
    match count {
        0 => String::new(),
        _ => format!("[{} hidden by a rule of the policy]\n", counted(count, "file is", "files are")),
    }
}

/// A path in one line.
pub(crate) fn line(path: &str) -> String {
    if path.chars().any(char::is_control) { diff::quoted(path) } else { path.to_owned() }
}

/// Compiles a pattern. With `anywhere`, a pattern without `/` matches in every folder.
pub(crate) fn matcher(pattern: &str, anywhere: bool) -> Result<globset::GlobMatcher, CallFailure> {
    let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
    let whole = if anywhere && !pattern.contains('/') { format!("**/{pattern}") } else { pattern.to_owned() };
    let glob = GlobBuilder::new(&whole).literal_separator(true).build();
    glob.map(|glob| glob.compile_matcher()).map_err(|error| {
        CallFailure::failed(
            "invalid_pattern",
            format!("`{pattern}` is not a valid glob pattern: {}", error.kind()),
        )
    })
}

fn find_files(
    root: &Root,
    path: &str,
    pattern: &str,
    cancel: &Cancel,
    judge: &FileJudge,
) -> Result<Files, CallFailure> {
    let top = root.place(path)?;
    drop(root.folder(&top, Links::Refuse)?);
    let matcher = matcher(pattern, false)?;
    let watch = WorkMonitor::new(cancel, limits::SEARCH_TIME_MAX);
    let mut walk = Walk::new(root, &top, &watch);
    let mut files = Files::default();
    loop {
        let place = match walk.next() {
            Ok(Some(place)) => place,
            Ok(None) => break,
            Err(Halt::Cancelled) => return Err(CallFailure::cancelled()),
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
        let text = place.text();
        if judge.hides("glob", &text) {
            files.hidden += 1;
            continue;
        }
        files.count += 1;
        if files.matches.len() < limits::GLOB_MATCHES_MAX
            && files.bytes + text.len() <= limits::SEARCH_OUTPUT_BYTES_MAX
        {
            files.bytes += text.len() + 1;
            files.matches.push(text);
        }
    }
    files.truncated = files.out_of_time || walk.cut || files.count > files.matches.len() as u64;
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::OutcomeStatus;
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
    async fn files_that_a_rule_hides_are_not_listed() {
        let mut scene = scene();
        scene.file_judge = FileJudge::new(|_, path| path.ends_with("b.rs"));
        for (input, expected) in [
            (
                json!({ "pattern": "**/*.rs" }),
                "a.rs\nsrc/deep/c.rs\n[1 file is hidden by a rule of the policy]\n",
            ),
            (json!({ "pattern": "src/b*" }), "No files match.\n[1 file is hidden by a rule of the policy]\n"),
            (json!({ "pattern": "src/*.txt" }), "src/d.txt\n"),
        ] {
            assert_eq!(scene.run("glob", input.clone()).await.output, expected, "{input}");
        }
        let outcome = scene.run("glob", json!({ "pattern": "**/*.rs" })).await;
        assert_eq!(scene.events(&outcome)[0].1["match_count"], 2);
    }

    #[tokio::test]
    async fn files_are_listed_and_reported() {
        let mut scene = scene();
        for (input, expected) in [
            (json!({ "pattern": "*.rs" }), "a.rs\n"),
            (json!({ "pattern": "**/*.rs" }), "a.rs\nsrc/b.rs\nsrc/deep/c.rs\n"),
            (json!({ "pattern": "./src/*" }), "src/b.rs\nsrc/d.txt\n"),
            (json!({ "pattern": "*.{rs,txt}", "path": "src" }), "src/b.rs\nsrc/d.txt\n"),
            (json!({ "pattern": "*.rs", "path": "target" }), "target/e.rs\n"),
            (json!({ "pattern": "none" }), "No files match."),
        ] {
            assert_eq!(scene.run("glob", input.clone()).await.output, expected, "{input}");
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
    async fn long_lists_are_counted_and_truncated() {
        let mut scene = Scene::new();
        for n in 0..=limits::GLOB_MATCHES_MAX {
            scene.put(&format!("f{n:05}"), b"");
        }
        let outcome = scene.run("glob", json!({ "pattern": "*" })).await;
        assert!(outcome.output.ends_with("[1000 of 1001 files shown; use a narrower pattern]\n"));
        let data = scene.events(&outcome).remove(0).1;
        assert_eq!((&data["match_count"], &data["truncated"]), (&json!(1001), &json!(true)));
        assert_eq!(data["matches"].as_array().map(Vec::len), Some(1000));
    }

    #[tokio::test]
    async fn invalid_patterns_and_folders_are_refused() {
        let mut scene = scene();
        for (input, expected) in [
            (json!({ "pattern": "[" }), "invalid_pattern"),
            (json!({ "pattern": "*", "path": ".." }), "outside_workspace"),
            (json!({ "pattern": "*", "path": "none" }), "not_found"),
            (json!({ "pattern": "*", "path": "a.rs" }), "not_a_folder"),
        ] {
            let outcome = scene.run("glob", input).await;
            refused(&outcome, expected);
            assert!(outcome.events.is_empty());
        }
        scene.stop.send_replace(true);
        assert_eq!(scene.run("glob", json!({ "pattern": "*" })).await.status, OutcomeStatus::Cancelled);
    }
}
