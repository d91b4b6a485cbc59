//! The `read_file` tool: returns a text file with line numbers, or an image.
//!
//! Start at [`ReadFile`]. Lines are numbered because models refer to them by number. The output is limited in lines,
//! bytes and line length. A file that is too large to be returned completely is stored as a snapshot.

use std::fs::File;
use std::io::Read;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use recount_event::family::file::Read as FileRead;
use recount_event::{Draft, Payload};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::limits::READ_PIECE_BYTES;
use crate::paths::{Links, io_failed};
use crate::tool::{Assessment, Cancel, Job, NewArtifact, Outcome, Tool};
use crate::tools::ending::{CallFailure, Halt, WorkMonitor, completed};
use crate::tools::input;
use crate::tools::limits;
use crate::tools::rooted::in_root;

pub(crate) struct ReadFile;

#[derive(Deserialize)]
struct ReadFileInput {
    path: String,
    offset: Option<u64>,
    limit: Option<u64>,
}

impl Tool for ReadFile {
    fn name(&self) -> &'static str {
        "read_file"
    }

    fn kind(&self) -> &'static str {
        "file"
    }

    fn description(&self) -> &'static str {
        "Reads a file in the workspace. Returns text with a line number and a tab before each line; they are \
         not part of the file. Long files are returned in parts; continue with `offset`. Images (PNG, JPEG, \
         GIF, WebP) are shown."
    }

    fn schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "path": input::path("Path of the file, relative to the workspace."),
                "offset": {
                    "type": "integer", "minimum": 1, "maximum": limits::LINE_NUMBER_MAX,
                    "description": "The first line to read. Lines are numbered from 1. Default 1."
                },
                "limit": {
                    "type": "integer", "minimum": 1, "maximum": limits::READ_LINES_MAX,
                    "description": "The maximum number of lines to read."
                }
            },
            "required": ["path"],
            "additionalProperties": false
        })
    }

    fn reads_only(&self) -> bool {
        true
    }

    fn assess(&self, input: &Value) -> Assessment {
        let path = input::text(input, "path");
        input::harmless(path, format!("Read the file {path}."), vec![path.to_owned()])
    }

    fn run<'a>(&'a self, job: Job<'a>) -> BoxFuture<'a, Outcome> {
        Box::pin(async move { read(job).await.unwrap_or_else(Outcome::from) })
    }
}

/// The content of the file.
enum Content {
    Text(Text),
    Picture { mime: &'static str, bytes: Bytes },
}

#[derive(Default)]
struct Text {
    /// For the model.
    shown: String,
    size_bytes: u64,
    /// Lines of the whole file; unknown if it was not read to its end.
    lines: Option<u64>,
    truncated: bool,
    /// The whole file, if only a part is shown and it is not too large to store.
    whole: Option<Bytes>,
}

async fn read(job: Job<'_>) -> Result<Outcome, CallFailure> {
    let input: ReadFileInput = input::read(job.input)?;
    let (cancel, path) = (job.cancel.clone(), input.path.clone());
    let (path_text, content) = in_root(job.world, job.terms, move |root| {
        let place = root.place(&path)?;
        let file = root.file(&place, Links::Follow)?;
        let offset = input.offset.unwrap_or(1).max(1);
        let limit = input.limit.unwrap_or(limits::READ_LINES_MAX).min(limits::READ_LINES_MAX);
        let content = read_content(file, offset, limit, &cancel).map_err(|failure| match failure {
            ReadError::Io(error) => CallFailure::from(io_failed(&place, &error)),
            ReadError::CallFailure(failure) => failure,
        })?;
        Ok((place.text(), content))
    })
    .await?;

    let mut done = FileRead::new(job.call.clone(), path_text.clone());
    let mut events: Vec<Draft> = Vec::new();
    let mut keep = async |kind, mime: &str, bytes: Bytes| {
        let artifact = NewArtifact {
            kind,
            mime: mime.to_owned(),
            summary: Some(path_text.clone()),
            bytes,
            call: Some(job.call.clone()),
            target: None,
        };
        let stored = job.artifacts.store(artifact).await.map_err(|error| {
            CallFailure::failed("not_kept", format!("the content could not be stored: {error}"))
        })?;
        events.push(stored.created);
        Ok::<_, CallFailure>(stored.id)
    };
    match content {
        Content::Picture { mime, bytes } => {
            let summary = format!("{path_text}: image, {} bytes", bytes.len());
            done.size_bytes = Some(bytes.len() as u64);
            done.truncated = Some(false);
            let id = keep("image", mime, bytes.clone()).await?;
            done.snippet_artifact_id = Some(id.clone());
            events.push(Payload::ToolFileReadCompleted(Box::new(done)).into());
            let mut outcome =
                completed(format!("{path_text} is an image ({mime}), shown here."), summary, events);
            outcome.artifact = Some(id);
            outcome.image = Some((mime.to_owned(), bytes));
            Ok(outcome)
        }
        Content::Text(text) => {
            done.size_bytes = Some(text.size_bytes);
            done.lines = text.lines;
            done.truncated = Some(text.truncated);
            if let Some(whole) = text.whole {
                done.snippet_artifact_id = Some(keep("file_snapshot", "text/plain", whole).await?);
            }
            let lines = match text.lines {
                None => String::new(),
                Some(1) => ", 1 line".to_owned(),
                Some(lines) => format!(", {lines} lines"),
            };
            let part = if text.truncated { ", in part" } else { "" };
            let summary = format!("{path_text}: {} bytes{lines}{part}", text.size_bytes);
            events.push(Payload::ToolFileReadCompleted(Box::new(done)).into());
            Ok(completed(text.shown, summary, events))
        }
    }
}

enum ReadError {
    Io(std::io::Error),
    CallFailure(CallFailure),
}

impl From<std::io::Error> for ReadError {
    fn from(error: std::io::Error) -> Self {
        ReadError::Io(error)
    }
}

fn read_content(mut file: File, offset: u64, limit: u64, cancel: &Cancel) -> Result<Content, ReadError> {
    let size = file.metadata()?.len();
    let mut head = Vec::new();
    (&mut file).take(READ_PIECE_BYTES as u64).read_to_end(&mut head)?;
    if let Some(mime) = picture(&head) {
        if size > limits::IMAGE_BYTES_MAX {
            let most = limits::IMAGE_BYTES_MAX;
            let message = format!("the image has {size} bytes; the limit is {most}; make it smaller first");
            return Err(ReadError::CallFailure(CallFailure::failed("file_too_large", message)));
        }
        (&mut file).take(limits::IMAGE_BYTES_MAX).read_to_end(&mut head)?;
        return Ok(Content::Picture { mime, bytes: head.into() });
    }
    if is_binary(&head) {
        let message = format!("the file is binary ({size} bytes) and cannot be shown as text");
        return Err(ReadError::CallFailure(CallFailure::failed("binary_file", message)));
    }
    let mut lines = Lines::new(offset, limit);
    let mut whole = (size <= limits::SNAPSHOT_BYTES_MAX).then(Vec::new);
    let watch = WorkMonitor::new(cancel, limits::SEARCH_TIME_MAX);
    let mut piece = head;
    loop {
        if piece.is_empty() {
            lines.end();
            break;
        }
        lines.push(&piece);
        if let Some(content_bytes) = &mut whole {
            content_bytes.extend_from_slice(&piece);
        }
        // A file may grow while it is read.
        whole = whole.filter(|content_bytes| content_bytes.len() as u64 <= limits::SNAPSHOT_BYTES_MAX);
        match watch.check() {
            Ok(()) => {}
            Err(Halt::Cancelled) => return Err(ReadError::CallFailure(CallFailure::cancelled())),
            // The requested lines may be complete already; the number of lines stays unknown.
            Err(Halt::TimeUp) => break,
        }
        if lines.is_full() && lines.read_bytes >= limits::COUNT_BYTES_MAX {
            break;
        }
        piece.clear();
        (&mut file).take(READ_PIECE_BYTES as u64).read_to_end(&mut piece)?;
    }
    lines.finish(size, whole).map(Content::Text).map_err(ReadError::CallFailure)
}

/// Splits a file into lines and collects the requested ones.
struct Lines {
    offset: u64,
    limit: u64,
    /// The number of the current line, from 1.
    number: u64,
    /// The beginning of the current line, as far as it may be shown, and its length.
    line: Vec<u8>,
    line_bytes: u64,
    read_bytes: u64,
    shown: String,
    shown_lines: u64,
    /// Whether the output is full.
    stopped: bool,
    cut_lines: bool,
    ended: bool,
}

impl Lines {
    fn new(offset: u64, limit: u64) -> Self {
        Lines {
            offset,
            limit,
            number: 1,
            line: Vec::new(),
            line_bytes: 0,
            read_bytes: 0,
            shown: String::new(),
            shown_lines: 0,
            stopped: false,
            cut_lines: false,
            ended: false,
        }
    }

    fn is_full(&self) -> bool {
        self.stopped || self.shown_lines >= self.limit
    }

    fn push(&mut self, piece: &[u8]) {
        self.read_bytes += piece.len() as u64;
        let mut rest = piece;
        while let Some(at) = memchr::memchr(b'\n', rest) {
            self.collect(&rest[..at]);
            self.end_line();
            rest = &rest[at + 1..];
        }
        self.collect(rest);
    }

    fn collect(&mut self, part: &[u8]) {
        self.line_bytes += part.len() as u64;
        if self.number >= self.offset && !self.is_full() {
            let room = limits::LINE_SHOWN_BYTES_MAX.saturating_sub(self.line.len());
            self.line.extend_from_slice(&part[..part.len().min(room)]);
        }
    }

    fn end_line(&mut self) {
        if self.number >= self.offset && !self.is_full() {
            self.show();
        }
        self.line.clear();
        self.line_bytes = 0;
        self.number += 1;
    }

    fn show(&mut self) {
        let hidden = self.line_bytes - self.line.len() as u64;
        let mut line = self.line.as_slice();
        if self.number == 1 {
            line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
        }
        let text = String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line)).into_owned();
        let mut row = format!("{:>6}\t{text}", self.number);
        if hidden > 0 {
            row.push_str(&format!("… [{hidden} more bytes on this line]"));
            self.cut_lines = true;
        }
        row.push('\n');
        if self.shown.len() + row.len() > limits::READ_OUTPUT_BYTES_MAX {
            self.stopped = true;
        } else {
            self.shown.push_str(&row);
            self.shown_lines += 1;
        }
    }

    /// Handles the end of the file.
    fn end(&mut self) {
        if self.line_bytes > 0 {
            self.end_line();
        }
        self.ended = true;
    }

    fn finish(mut self, size: u64, whole: Option<Vec<u8>>) -> Result<Text, CallFailure> {
        let seen = self.number - 1;
        let lines = self.ended.then_some(seen);
        if self.shown_lines == 0 && self.offset > seen && (self.offset > 1 || !self.ended) {
            let many = if self.ended {
                format!("{seen} lines")
            } else {
                format!("more than {seen} lines, too many to count")
            };
            let message = format!("the file has {many}; there is no line {} to show", self.offset);
            return Err(CallFailure::failed("offset_past_end", message));
        }
        if seen == 0 && self.ended {
            return Ok(Text { shown: "The file is empty.".into(), lines: Some(0), ..Text::default() });
        }
        let last = self.offset + self.shown_lines - 1;
        let more = !self.ended || last < seen;
        let truncated = more || self.offset > 1 || self.cut_lines;
        if more {
            let of = lines.map_or_else(String::new, |lines| format!(" of {lines}"));
            self.shown.push_str(&format!(
                "[lines {} to {last}{of}; continue with offset {}]\n",
                self.offset,
                last + 1
            ));
        }
        let whole = whole.filter(|_| truncated && size > limits::SNAPSHOT_BYTES_MIN).map(Bytes::from);
        Ok(Text { shown: self.shown, size_bytes: size, lines, truncated, whole })
    }
}

/// Text has no NUL bytes; most binary formats have one early.
pub(crate) fn is_binary(head: &[u8]) -> bool {
    memchr::memchr(0, &head[..head.len().min(limits::BINARY_LOOK_BYTES)]).is_some()
}

/// Recognizes an image by its first bytes, whatever its name is.
fn picture(head: &[u8]) -> Option<&'static str> {
    if head.starts_with(b"\x89PNG\r\n\x1a\n") {
        Some("image/png")
    } else if head.starts_with(b"\xFF\xD8\xFF") {
        Some("image/jpeg")
    } else if head.starts_with(b"GIF87a") || head.starts_with(b"GIF89a") {
        Some("image/gif")
    } else if head.starts_with(b"RIFF") && head.get(8..12) == Some(b"WEBP") {
        Some("image/webp")
    } else {
        None
    }
}

#[cfg(test)]
mod tests;
