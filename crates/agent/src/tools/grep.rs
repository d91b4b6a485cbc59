//! The `grep` tool: finds lines of files that match a regular expression.
//!
//! Start at [`Grep`]. It uses ripgrep's libraries, whose time is linear in the text. A search stops in the middle of a
//! file when the call is cancelled or its time is up.

use std::io::{self, Read};

use futures_util::future::BoxFuture;
use globset::GlobMatcher;
use grep_matcher::LineTerminator;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use recount_event::Payload;
use recount_event::family::search::{GrepCompleted, LineMatch};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::limits::{PATTERN_CHARS_MAX, REGEX_BYTES_MAX};
use crate::paths::{Found, Links, Root, WorkspacePath};
use crate::tool::{Assessment, Cancel, FileJudge, Job, Outcome, Tool};
use crate::tools::ending::{CallFailure, Halt, WorkMonitor, completed, counted, cut};
use crate::tools::glob::{hidden_note, line, matcher};
use crate::tools::input;
use crate::tools::limits;
use crate::tools::rooted::in_root;
use crate::tools::walk::Walk;

pub(crate) struct Grep;

#[derive(Deserialize)]
struct GrepInput {
    pattern: String,
    path: Option<String>,
    glob: Option<String>,
    #[serde(default)]
    ignore_case: bool,
    #[serde(default)]
    context: usize,
}

impl Tool for Grep {
    fn name(&self) -> &'static str {
        "grep"
    }

    fn kind(&self) -> &'static str {
        "search"
    }

    fn description(&self) -> &'static str {
        "Searches files for lines that match a regular expression (ripgrep syntax, matched line by line). \
         Returns matches as path:line:text. Binary files and files ignored by .gitignore are skipped."
    }

    fn schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "pattern": {
                    "type": "string", "minLength": 1, "maxLength": PATTERN_CHARS_MAX,
                    "description": "The regular expression."
                },
                "path": input::path(
                    "A file or folder to search, relative to the workspace. Default: the workspace."
                ),
                "glob": {
                    "type": "string", "minLength": 1, "maxLength": PATTERN_CHARS_MAX,
                    "description": "Search only files whose path matches this glob pattern, such as `*.rs` \
                                    or `src/**`."
                },
                "ignore_case": { "type": "boolean", "description": "Default false." },
                "context": {
                    "type": "integer", "minimum": 0, "maximum": limits::GREP_CONTEXT_LINES_MAX,
                    "description": "Lines of context before and after each match. Default 0."
                }
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
        input::harmless(pattern, format!("Search files for {pattern}."), vec![path.to_owned()])
    }

    fn run<'a>(&'a self, job: Job<'a>) -> BoxFuture<'a, Outcome> {
        Box::pin(async move { grep(job).await.unwrap_or_else(Outcome::from) })
    }
}

async fn grep(job: Job<'_>) -> Result<Outcome, CallFailure> {
    let input: GrepInput = input::read(job.input)?;
    let pattern = input.pattern.clone();
    let cancel = job.cancel.clone();
    let files = job.terms.files.clone();
    let work = move |root: &Root| search(root, &input, &cancel, &files);
    let mut hits = in_root(job.world, job.terms, work).await?;
    if hits.out_of_time {
        hits.shown
            .push_str("[the search ran out of time; the results are incomplete; search a smaller folder]\n");
    } else if hits.full {
        let count = hits.matches.len();
        hits.shown
            .push_str(&format!("[stopped after {count} matches; use a narrower pattern, path or glob]\n"));
    }
    if hits.unread > 0 {
        hits.shown.push_str(&format!(
            "[{} could not be searched completely]\n",
            counted(hits.unread, "file", "files")
        ));
    }
    let hidden = hidden_note(hits.hidden);
    if hits.shown.is_empty() {
        hits.shown = format!("No matches in {}.", counted(hits.files, "file", "files"));
        if !hidden.is_empty() {
            hits.shown.push('\n');
        }
    }
    hits.shown.push_str(&hidden);
    let count = hits.matches.len() as u64;
    let files = counted(hits.files, "file", "files");
    let summary = format!("{} in {files} searched", counted(count, "match", "matches"));
    let truncated = hits.full || hits.out_of_time || hits.unread > 0 || hits.cut;
    let mut done = GrepCompleted::new(job.call.clone(), pattern, hits.matches, count, truncated);
    done.files_searched = Some(hits.files);
    Ok(completed(hits.shown, summary, vec![Payload::ToolGrepCompleted(Box::new(done)).into()]))
}

#[derive(Default)]
struct Hits {
    matches: Vec<LineMatch>,
    shown: String,
    files: u64,
    /// Files that were deleted, are not readable, or have a line that is too long for the buffer.
    unread: u64,
    /// Files that a rule of the policy hides.
    hidden: u64,
    full: bool,
    out_of_time: bool,
    cut: bool,
}

fn search(root: &Root, input: &GrepInput, cancel: &Cancel, files: &FileJudge) -> Result<Hits, CallFailure> {
    let regex = RegexMatcherBuilder::new()
        .case_insensitive(input.ignore_case)
        // `^` and `$` match at both kinds of line ends.
        .multi_line(true)
        .crlf(true)
        .size_limit(REGEX_BYTES_MAX)
        .dfa_size_limit(REGEX_BYTES_MAX)
        .build(&input.pattern)
        .map_err(|error| {
            CallFailure::failed(
                "invalid_pattern",
                format!("the pattern is not a valid regular expression: {error}"),
            )
        })?;
    let glob = input.glob.as_deref().map(|glob| matcher(glob, true)).transpose()?;
    let top = root.place(input.path.as_deref().unwrap_or("."))?;
    let watch = WorkMonitor::new(cancel, limits::SEARCH_TIME_MAX);
    let context = input.context.min(limits::GREP_CONTEXT_LINES_MAX);
    let searcher = SearcherBuilder::new()
        .line_terminator(LineTerminator::crlf())
        .line_number(true)
        .before_context(context)
        .after_context(context)
        .binary_detection(BinaryDetection::quit(0))
        .heap_limit(Some(limits::GREP_LINE_BYTES_MAX))
        .build();
    let mut search = Search { regex, searcher, watch: &watch, files, hits: Hits::default() };
    let done = match root.find(&top, Links::Follow)? {
        Found::File(_) if files.hides("grep", &top.text()) => {
            let why = format!("a rule of the policy blocks reading {}", line(&top.text()));
            return Err(CallFailure::failed("blocked", why));
        }
        Found::File(file) => search.file(&top, file),
        Found::Folder(_) => search.folder(root, &top, glob.as_ref()),
    };
    match done {
        Ok(()) => {}
        Err(Halt::Cancelled) => return Err(CallFailure::cancelled()),
        Err(Halt::TimeUp) => search.hits.out_of_time = true,
    }
    Ok(search.hits)
}

struct Search<'a> {
    regex: RegexMatcher,
    searcher: Searcher,
    watch: &'a WorkMonitor,
    files: &'a FileJudge,
    hits: Hits,
}

impl Search<'_> {
    fn folder(&mut self, root: &Root, top: &WorkspacePath, glob: Option<&GlobMatcher>) -> Result<(), Halt> {
        let watch = self.watch;
        let mut walk = Walk::new(root, top, watch);
        while let Some(place) = walk.next()? {
            let below = place.as_path().strip_prefix(top.as_path()).unwrap_or(place.as_path());
            if glob.is_some_and(|glob| !glob.is_match(below) && !glob.is_match(place.as_path())) {
                continue;
            }
            if self.files.hides("grep", &place.text()) {
                self.hits.hidden += 1;
                continue;
            }
            match root.file(&place, Links::Refuse) {
                Ok(file) => self.file(&place, file)?,
                Err(_) => self.hits.unread += 1,
            }
            if self.hits.full {
                return Ok(());
            }
        }
        self.hits.cut = walk.cut;
        Ok(())
    }

    fn file(&mut self, place: &WorkspacePath, file: impl Read) -> Result<(), Halt> {
        self.hits.files += 1;
        let mut interrupted = None;
        let source = Watched { file, watch: self.watch, interrupted: &mut interrupted };
        let sink = Collect { path: place.text(), watch: self.watch, hits: &mut self.hits };
        let searched = self.searcher.search_reader(&self.regex, source, sink);
        if let Some(halt) = interrupted {
            return Err(halt);
        }
        if searched.is_err() {
            self.watch.check()?;
            self.hits.unread += 1;
        }
        Ok(())
    }
}

/// A reader that fails when the search has to stop. The sink alone is called only for matches.
struct Watched<'a, R> {
    file: R,
    watch: &'a WorkMonitor,
    interrupted: &'a mut Option<Halt>,
}

impl<R: Read> Read for Watched<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Err(halt) = self.watch.check() {
            *self.interrupted = Some(halt);
            return Err(io::Error::other("the search is to stop"));
        }
        self.file.read(buffer)
    }
}

struct Collect<'a> {
    path: String,
    watch: &'a WorkMonitor,
    hits: &'a mut Hits,
}

impl Collect<'_> {
    fn show(&mut self, mark: char, number: u64, bytes: &[u8]) -> String {
        let text = shown_line(bytes);
        let row = format!("{}{mark}{number}{mark}{text}\n", line(&self.path));
        if self.hits.shown.len() + row.len() > limits::SEARCH_OUTPUT_BYTES_MAX {
            self.hits.full = true;
        } else {
            self.hits.shown.push_str(&row);
        }
        text
    }
}

impl Sink for Collect<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        let number = found.line_number().unwrap_or_default();
        let text = self.show(':', number, found.bytes());
        if !self.hits.full {
            self.hits.matches.push(LineMatch { path: self.path.clone(), line: number, text });
            self.hits.full = self.hits.matches.len() >= limits::GREP_MATCHES_MAX;
        }
        Ok(!self.hits.full && self.watch.check().is_ok())
    }

    fn context(&mut self, _: &Searcher, around: &SinkContext<'_>) -> Result<bool, io::Error> {
        self.show('-', around.line_number().unwrap_or_default(), around.bytes());
        Ok(!self.hits.full && self.watch.check().is_ok())
    }

    fn context_break(&mut self, _: &Searcher) -> Result<bool, io::Error> {
        self.hits.shown.push_str("--\n");
        Ok(true)
    }
}

/// A line for the output: without its end, and truncated if it is long.
fn shown_line(bytes: &[u8]) -> String {
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
    let head = &bytes[..bytes.len().min(limits::GREP_TEXT_CHARS_MAX * 4)];
    cut(&String::from_utf8_lossy(head), limits::GREP_TEXT_CHARS_MAX)
}

#[cfg(test)]
mod tests;
