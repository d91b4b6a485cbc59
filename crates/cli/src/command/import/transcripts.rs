//! `recount import --from`: finds transcripts, imports each, and with `--follow` goes on as they grow. Each line is imported
//! once, however often this runs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use recount_client::Client;
use recount_record::claude_transcripts::ClaudeTranscript;
use recount_record::codex_rollouts::CodexRollout;
use recount_record::transcript::Transcript;
use serde_json::json;

use super::transcript_file::{Next, TranscriptFile};
use super::transcript_import::{Tally, TranscriptImport};
use crate::failure::Failure;
use crate::limits;
use crate::output::{Output, note};
use crate::render::{self, clean};

/// A source of transcripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum From {
    /// Claude Code: ~/.claude/projects
    ClaudeTranscripts,
    /// Codex: ~/.codex/sessions
    CodexRollouts,
}

impl From {
    fn transcript(self) -> Box<dyn Transcript> {
        match self {
            From::ClaudeTranscripts => Box::new(ClaudeTranscript::new()),
            From::CodexRollouts => Box::new(CodexRollout::new()),
        }
    }

    /// Whether a file of a folder is one of its transcripts.
    fn is_transcript(self, name: &str) -> bool {
        name.ends_with(".jsonl") && (self == From::ClaudeTranscripts || name.starts_with("rollout-"))
    }
}

/// Where the import of a transcript is.
struct FollowedFile {
    session: TranscriptImport,
    offset: u64,
    /// Looks without a new line.
    quiet: u32,
}

pub(super) async fn import(
    client: Client,
    from: From,
    path: &Path,
    follow: bool,
    as_json: bool,
) -> Result<(), Failure> {
    let mut work = Work {
        client,
        from,
        as_json,
        out: Output::new(),
        followed: BTreeMap::new(),
        left: BTreeMap::new(),
        failed: 0,
    };
    let files = work.find(path)?;
    if files.is_empty() && !follow {
        return Err(Failure::Usage(format!("{} contains no transcripts of this source", path.display())));
    }
    for file in &files {
        work.first(file, follow).await?;
    }
    if !follow {
        return if work.failed == 0 { Ok(()) } else { Err(Failure::No) };
    }
    note("following; press Ctrl-C to stop; import again to continue");
    loop {
        tokio::time::sleep(limits::TRANSCRIPT_POLL).await;
        for file in work.find(path)? {
            work.again(&file).await?;
        }
    }
}

struct Work {
    client: Client,
    from: From,
    as_json: bool,
    out: Output,
    /// Of transcripts that are followed.
    followed: BTreeMap<PathBuf, FollowedFile>,
    /// Lengths of those that are looked at again only when they have another.
    left: BTreeMap<PathBuf, u64>,
    failed: usize,
}

impl Work {
    /// The transcripts at a path, in order.
    fn find(&self, path: &Path) -> Result<Vec<PathBuf>, Failure> {
        let unreadable =
            |why: std::io::Error| Failure::Usage(format!("cannot read {}: {why}", path.display()));
        if !fs::metadata(path).map_err(unreadable)?.is_dir() {
            return Ok(vec![path.to_owned()]);
        }
        let mut files = Vec::new();
        let mut folders = vec![(path.to_owned(), 0)];
        while let Some((folder, depth)) = folders.pop() {
            let listed = match fs::read_dir(&folder) {
                Ok(listed) => listed,
                Err(why) if depth == 0 => return Err(unreadable(why)),
                // It may have been deleted since its name was read.
                Err(why) => {
                    note(&format!("{} is skipped: {why}", folder.display()));
                    continue;
                }
            };
            for entry in listed.flatten() {
                // Links to folders are not followed.
                let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
                if is_folder && depth < limits::TRANSCRIPT_FOLDERS_DEEP_MAX {
                    folders.push((entry.path(), depth + 1));
                } else if !is_folder
                    && entry.file_name().to_str().is_some_and(|name| self.from.is_transcript(name))
                {
                    files.push(entry.path());
                }
            }
            if files.len() > limits::TRANSCRIPTS_MAX {
                let most = limits::TRANSCRIPTS_MAX;
                return Err(Failure::Usage(format!(
                    "{} contains more than {most} transcripts (TRANSCRIPTS_MAX); import its subfolders one \
                     by one",
                    path.display()
                )));
            }
        }
        files.sort();
        Ok(files)
    }

    /// Imports a transcript from its beginning.
    async fn first(&mut self, file: &Path, follow: bool) -> Result<(), Failure> {
        match self.read_whole(file, follow).await {
            Ok((file_state, is_half)) => {
                // One that is followed may be just about to be written.
                if !follow || file_state.session.tally.lines > 0 {
                    self.print_result(file, &file_state.session, is_half)?;
                }
                if follow {
                    self.keep(file, file_state);
                }
                Ok(())
            }
            Err(why @ (Failure::Refused(_) | Failure::Usage(_))) => {
                self.leave(file);
                self.print_failure(file, &why)
            }
            Err(why) => Err(why),
        }
    }

    async fn read_whole(&self, file: &Path, follow: bool) -> Result<(FollowedFile, bool), Failure> {
        let name = file.file_stem().and_then(|name| name.to_str()).ok_or_else(|| {
            Failure::Usage("its file name, which names the session, is not UTF-8; rename the file".to_owned())
        })?;
        let session = TranscriptImport::open(&self.client, name, self.from.transcript()).await?;
        let mut file_state = FollowedFile { session, offset: 0, quiet: 0 };
        let is_half = read(file, &mut file_state).await?;
        let idle = || {
            let changed = fs::metadata(file).and_then(|about| about.modified()).ok()?;
            changed.elapsed().ok()
        };
        let is_idle = !is_half && idle().is_some_and(|time| time >= limits::TRANSCRIPT_IDLE);
        if follow && !is_idle {
            file_state.session.flush().await?;
        } else {
            file_state.session.settle(is_idle).await?;
        }
        Ok((file_state, is_half))
    }

    /// Imports what a transcript that is followed has grown by.
    async fn again(&mut self, file: &Path) -> Result<(), Failure> {
        let Ok(length) = fs::metadata(file).map(|about| about.len()) else { return Ok(()) };
        if self.left.get(file) == Some(&length) {
            return Ok(());
        }
        self.left.remove(file);
        let Some(file_state) = self.followed.get_mut(file) else { return self.first(file, true).await };
        if length < file_state.offset {
            note(&format!("{} became shorter; reading it from the beginning", file.display()));
            self.followed.remove(file);
            return self.first(file, true).await;
        }
        let before = file_state.session.tally.clone();
        let is_half = if length > file_state.offset { read(file, file_state).await? } else { false };
        if before.lines == file_state.session.tally.lines {
            file_state.quiet = file_state.quiet.saturating_add(1);
            if file_state.quiet == limits::TRANSCRIPT_QUIET_POLLS {
                file_state.session.settle(false).await?;
            }
            return Ok(());
        }
        file_state.quiet = 0;
        file_state.session.flush().await?;
        let Some(file_state) = self.followed.remove(file) else { return Ok(()) };
        self.print_result(file, &file_state.session, is_half)?;
        self.keep(file, file_state);
        Ok(())
    }

    fn keep(&mut self, file: &Path, file_state: FollowedFile) {
        if self.followed.len() >= limits::TRANSCRIPTS_OPEN_MAX {
            let quietest = self
                .followed
                .iter()
                .max_by_key(|(_, file_state)| file_state.quiet)
                .map(|(path, _)| path.clone());
            if let Some(path) = quietest {
                self.followed.remove(&path);
                self.leave(&path);
            }
        }
        self.followed.insert(file.to_owned(), file_state);
    }

    fn leave(&mut self, file: &Path) {
        if let Ok(about) = fs::metadata(file) {
            self.left.insert(file.to_owned(), about.len());
        }
    }

    fn print_result(
        &mut self,
        file: &Path,
        session: &TranscriptImport,
        is_half: bool,
    ) -> Result<(), Failure> {
        let tally = &session.tally;
        if self.as_json {
            return self.out.value(&json!({
                "file": file.to_string_lossy(), "ok": true, "task_id": session.task(), "tally": tally,
                "last_line_incomplete": is_half, "run_open": session.has_open_run(),
            }));
        }
        let Tally { imported, already_present, runs_created, .. } = tally;
        let task = session.task().map_or(String::new(), |task| format!(", {task}"));
        self.out.line(&clean::line(&format!(
            "{}: {} imported, {already_present} already present, {} created{task}",
            file.display(),
            render::count(*imported, "line"),
            render::count(*runs_created, "run")
        )))?;
        let remark = |words: String| note(&format!("{}: {words}", file.display()));
        if tally.invalid > 0 {
            let invalid = render::count(tally.invalid, "line");
            remark(format!("{invalid} unreadable; the run records this as gap events"));
        }
        for (kind, count) in &tally.unknown {
            let lines = render::count(*count, "line");
            remark(format!("{lines} of unknown type {kind}, stored as raw text only"));
        }
        if tally.runs_without_prompt > 0 {
            let runs = render::count(tally.runs_without_prompt, "run");
            remark(format!("{runs} without a prompt; each records this as a gap event"));
        }
        if tally.held > 0 {
            let held = render::count(tally.held, "line");
            remark(format!("{held} after the end of the last run, to be imported with the next run"));
        }
        if is_half {
            remark("the last line is incomplete; import again when it is complete".to_owned());
        }
        if session.has_open_run() {
            remark("the last run is open, because its turn has not ended".to_owned());
        }
        Ok(())
    }

    fn print_failure(&mut self, file: &Path, why: &Failure) -> Result<(), Failure> {
        self.failed += 1;
        let why = why.to_string();
        if self.as_json {
            return self.out.value(&json!({ "file": file.to_string_lossy(), "ok": false, "detail": why }));
        }
        self.out.line(&clean::line(&format!("{}: not imported: {why}", file.display())))
    }
}

/// Imports the lines from a file_state on, and returns whether the last one is not complete.
async fn read(file: &Path, file_state: &mut FollowedFile) -> Result<bool, Failure> {
    let unreadable = |why: std::io::Error| Failure::Usage(format!("cannot read it: {why}"));
    let mut lines = TranscriptFile::open(file, file_state.offset, limits::TRANSCRIPT_LINE_BYTES_MAX)
        .map_err(unreadable)?;
    loop {
        let next = lines.next().map_err(unreadable)?;
        match &next {
            Next::Line(line) => file_state.session.line(line).await?,
            Next::NotText(line) => file_state.session.not_text(line).await?,
            Next::TooLong(beginning) => file_state.session.too_long(beginning).await?,
            Next::Half => return Ok(true),
            Next::End => return Ok(false),
        }
        file_state.offset = lines.offset;
    }
}
