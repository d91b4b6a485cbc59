//! Parses a diff. Text around it, such as that of a mail, is skipped.
//!
//! Start at [`TreePatch::parse`].

use std::path::PathBuf;

use super::binary::{BinaryKind, BinaryPiece};
use super::{
    FileMode, FilePatch, Hunk, HunkLine, Mark, PatchContent, PatchSide, TreePatch, TreePatchError, names,
};
use crate::patch::limits;

/// The lines of a diff, without their newlines.
struct DiffLines<'a> {
    lines: Vec<&'a [u8]>,
    at: usize,
}

/// The header lines after `diff --git`.
#[derive(Default)]
struct GitHeader {
    same: Option<PathBuf>,
    from: Option<PathBuf>,
    to: Option<PathBuf>,
    old_mode: Option<FileMode>,
    new_mode: Option<FileMode>,
    is_new: bool,
    is_deleted: bool,
    index: Option<(String, String)>,
}

impl TreePatch {
    pub(crate) fn parse(bytes: &[u8]) -> Result<TreePatch, TreePatchError> {
        let mut lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
        if lines.last().is_some_and(|last| last.is_empty()) {
            lines.pop();
        }
        let mut lines = DiffLines { lines, at: 0 };
        let mut files = Vec::new();
        while let Some(line) = lines.peek() {
            if let Some(about) = line.strip_prefix(b"diff --git ") {
                lines.at += 1;
                files.push(lines.git_file(about)?);
            } else if line.starts_with(b"--- ") && lines.is_traditional() {
                files.push(lines.traditional_file()?);
            } else if line.starts_with(b"@@ -") {
                return Err(lines.malformed("a hunk without a file name"));
            } else {
                lines.at += 1;
            }
            if files.len() > limits::PATCH_FILES_MAX {
                let most = limits::PATCH_FILES_MAX;
                return Err(TreePatchError::Unsupported(format!("the diff has more than {most} files")));
            }
        }
        if files.is_empty() {
            return Err(TreePatchError::Unsupported("it contains no unified diff".to_owned()));
        }
        Ok(TreePatch { files })
    }
}

impl<'a> DiffLines<'a> {
    fn peek(&self) -> Option<&'a [u8]> {
        self.lines.get(self.at).copied()
    }

    fn malformed(&self, what: &str) -> TreePatchError {
        TreePatchError::Malformed { line: self.at + 1, what: what.to_owned() }
    }

    fn is_traditional(&self) -> bool {
        let after = |count: usize| self.lines.get(self.at + count).copied().unwrap_or_default();
        after(1).starts_with(b"+++ ") && after(2).starts_with(b"@@ -")
    }

    // ---- names -------------------------------------------------------------------------------

    /// The name in a line that begins with `---` or `+++`; `None` for no file.
    fn side_name(&self, mark: &[u8]) -> Result<Option<PathBuf>, TreePatchError> {
        let line = self.peek().and_then(|line| line.strip_prefix(mark));
        let line = line.ok_or_else(|| self.malformed("the name of a file is missing"))?;
        let (name, _) =
            names::read(line).ok_or_else(|| self.malformed("a quoted name without a closing quote"))?;
        if name == b"/dev/null" {
            return Ok(None);
        }
        let name =
            names::stripped(&name).ok_or_else(|| self.malformed("a name without the prefix a/ or b/"))?;
        self.inside(name).map(Some)
    }

    fn inside(&self, name: &[u8]) -> Result<PathBuf, TreePatchError> {
        names::inside(name).ok_or_else(|| {
            self.malformed(&format!("the name {:?} leads out of the tree", String::from_utf8_lossy(name)))
        })
    }

    fn whole_name(&self, text: &[u8]) -> Result<PathBuf, TreePatchError> {
        let (name, _) =
            names::read(text).ok_or_else(|| self.malformed("a quoted name without a closing quote"))?;
        self.inside(&name)
    }

    // ---- one file ----------------------------------------------------------------------------

    /// Parses a file in the format of `diff -u`.
    fn traditional_file(&mut self) -> Result<FilePatch, TreePatchError> {
        let old = self.side_name(b"--- ")?;
        self.at += 1;
        let new = self.side_name(b"+++ ")?;
        self.at += 1;
        let (old, new) = match (old, new) {
            (None, None) => return Err(self.malformed("both file names are /dev/null")),
            // If the names differ, as for a backup file, the new one counts.
            (Some(old), Some(new)) if old != new => (Some(new.clone()), Some(new)),
            both => both,
        };
        let content = PatchContent::Text(self.hunks()?);
        let side = |path: PathBuf| PatchSide { path, mode: None };
        Ok(FilePatch { old: old.map(side), new: new.map(side), content, has_git_header: false, index: None })
    }

    /// Parses a file in the format of `git diff`. The first line is already read.
    fn git_file(&mut self, about: &[u8]) -> Result<FilePatch, TreePatchError> {
        let mut header = GitHeader { same: names::of_git(about), ..GitHeader::default() };
        while let Some(line) = self.peek() {
            if !self.header_line(line, &mut header)? {
                break;
            }
            self.at += 1;
        }
        let mut content = PatchContent::Same;
        let mut named = None;
        let line = self.peek().unwrap_or_default();
        if line.starts_with(b"--- ") {
            let old = self.side_name(b"--- ")?;
            self.at += 1;
            let new = self.side_name(b"+++ ")?;
            self.at += 1;
            named = Some((old, new));
            content = PatchContent::Text(self.hunks()?);
        } else if line == b"GIT binary patch" {
            self.at += 1;
            content = self.binary()?;
        } else if line.starts_with(b"Binary files ") {
            let what = String::from_utf8_lossy(line);
            let why = format!(
                "the diff does not contain the content of a binary file ({what}); create it with --binary"
            );
            return Err(TreePatchError::Unsupported(why));
        }
        let GitHeader { same, from, to, old_mode, new_mode, is_new, is_deleted, index } = header;
        let (named_old, named_new) = named.unwrap_or_default();
        let old = from.or(named_old).or_else(|| same.clone()).filter(|_| !is_new);
        let new = to.or(named_new).or(same).filter(|_| !is_deleted);
        if old.is_none() && new.is_none() {
            return Err(self.malformed("a diff without a file name"));
        }
        let new_mode = new_mode.or(old_mode.filter(|_| !is_deleted));
        Ok(FilePatch {
            old: old.map(|path| PatchSide { path, mode: old_mode }),
            new: new.map(|path| PatchSide { path, mode: new_mode }),
            content,
            has_git_header: true,
            index,
        })
    }

    /// Returns whether the line belongs to the header.
    fn header_line(&self, line: &[u8], header: &mut GitHeader) -> Result<bool, TreePatchError> {
        let mode = |word: &[u8]| {
            FileMode::parse(word).ok_or_else(|| {
                let word = String::from_utf8_lossy(word);
                TreePatchError::Unsupported(format!("mode {word} is neither a file nor a symbolic link"))
            })
        };
        let starts = |word: &str| line.strip_prefix(word.as_bytes());
        if let Some(word) = starts("old mode ") {
            header.old_mode = Some(mode(word)?);
        } else if let Some(word) = starts("new mode ") {
            header.new_mode = Some(mode(word)?);
        } else if let Some(word) = starts("deleted file mode ") {
            header.old_mode = Some(mode(word)?);
            header.is_deleted = true;
        } else if let Some(word) = starts("new file mode ") {
            header.new_mode = Some(mode(word)?);
            header.is_new = true;
        } else if let Some(name) = starts("rename from ").or(starts("rename old ")) {
            header.from = Some(self.whole_name(name)?);
        } else if let Some(name) = starts("rename to ").or(starts("rename new ")) {
            header.to = Some(self.whole_name(name)?);
        } else if starts("copy from ").is_some() {
            let why = "the diff copies a file, which cannot be reverted; create it without --find-copies";
            return Err(TreePatchError::Unsupported(why.to_owned()));
        } else if let Some(names) = starts("index ") {
            let text = String::from_utf8_lossy(names);
            let mut words = text.split(' ');
            let pair = words.next().and_then(|pair| pair.split_once(".."));
            header.index = pair.map(|(old, new)| (old.to_owned(), new.to_owned()));
            // An unchanged mode is only in this line.
            if let Some(word) = words.next() {
                let word = mode(word.as_bytes())?;
                header.old_mode.get_or_insert(word);
            }
        } else {
            return Ok(starts("similarity index ").or(starts("dissimilarity index ")).is_some());
        }
        Ok(true)
    }

    // ---- content -----------------------------------------------------------------------------

    fn hunks(&mut self) -> Result<Vec<Hunk>, TreePatchError> {
        let mut hunks: Vec<Hunk> = Vec::new();
        let (mut old_end, mut new_end) = (0, 0);
        while let Some(line) = self.peek().filter(|line| line.starts_with(b"@@ -")) {
            let (old, new) =
                spans(line).ok_or_else(|| self.malformed("a hunk header without line numbers"))?;
            if old.0 < old_end || new.0 < new_end {
                return Err(self.malformed("the hunks are not in order"));
            }
            self.at += 1;
            let lines = self.hunk_lines(old.1, new.1)?;
            (old_end, new_end) = (old.0.saturating_add(old.1), new.0.saturating_add(new.1));
            hunks.push(Hunk { old_before: old.0, new_before: new.0, lines });
        }
        Ok(hunks)
    }

    fn hunk_lines(&mut self, mut old: usize, mut new: usize) -> Result<Vec<HunkLine>, TreePatchError> {
        let mut lines: Vec<HunkLine> = Vec::new();
        loop {
            let line = self.peek().unwrap_or_default();
            if line.starts_with(b"\\ ") {
                let last = lines.last_mut().filter(|last| last.text.ends_with(b"\n"));
                let last = last.ok_or_else(|| self.malformed("`\\ No newline` without a line"))?;
                last.text.pop();
                self.at += 1;
                continue;
            }
            if old == 0 && new == 0 {
                return Ok(lines);
            }
            if self.peek().is_none() {
                return Err(self.malformed("a hunk is incomplete"));
            }
            let (mark, text) = match line.split_first() {
                Some((b' ', text)) => (Mark::Kept, text),
                Some((b'-', text)) => (Mark::Removed, text),
                Some((b'+', text)) => (Mark::Added, text),
                // Mail programs strip the space of an empty line.
                None => (Mark::Kept, line),
                Some(_) => {
                    return Err(self.malformed("a line of a hunk starts with neither ` `, `+`, `-` nor `\\`"));
                }
            };
            let count_down = |count: &mut usize, counts: bool| {
                *count = count.checked_sub(usize::from(counts))?;
                Some(())
            };
            count_down(&mut old, mark != Mark::Added)
                .and(count_down(&mut new, mark != Mark::Removed))
                .ok_or_else(|| self.malformed("a hunk has more lines than its header says"))?;
            lines.push(HunkLine { mark, text: [text, b"\n"].concat() });
            self.at += 1;
        }
    }

    /// After `GIT binary patch`: the forward change, and usually the reverse one.
    fn binary(&mut self) -> Result<PatchContent, TreePatchError> {
        let forward = self.binary_piece()?.ok_or_else(|| self.malformed("binary content is missing"))?;
        let back = self.binary_piece()?;
        Ok(PatchContent::Binary { forward, back })
    }

    fn binary_piece(&mut self) -> Result<Option<BinaryPiece>, TreePatchError> {
        let line = self.peek().unwrap_or_default();
        let (kind, size) = if let Some(size) = line.strip_prefix(b"literal ") {
            (BinaryKind::Literal, size)
        } else if let Some(size) = line.strip_prefix(b"delta ") {
            (BinaryKind::Delta, size)
        } else {
            return Ok(None);
        };
        let size = number(size).ok_or_else(|| self.malformed("binary content without a size"))?;
        self.at += 1;
        let mut lines = Vec::new();
        while let Some(line) = self.peek().filter(|line| !line.is_empty()) {
            lines.push(line.to_vec());
            self.at += 1;
        }
        let binary_piece = BinaryPiece::read(kind, size, lines).map_err(|what| self.malformed(&what))?;
        // The empty line at the end.
        self.at += 1;
        Ok(Some(binary_piece))
    }
}

/// `@@ -3,7 +3,8 @@`: the number of lines before, and of lines in the hunk, for the old and for the new content.
fn spans(line: &[u8]) -> Option<((usize, usize), (usize, usize))> {
    let rest = line.strip_prefix(b"@@ -")?;
    let end = rest.windows(3).position(|three| three == b" @@")?;
    let text = std::str::from_utf8(&rest[..end]).ok()?;
    let (old, new) = text.split_once(" +")?;
    Some((span(old)?, span(new)?))
}

fn span(text: &str) -> Option<(usize, usize)> {
    let (start, count) = text.split_once(',').unwrap_or((text, "1"));
    let (start, count) = (number(start.as_bytes())?, number(count.as_bytes())?);
    // An empty side names the line before it.
    Some((if count == 0 { start } else { start.checked_sub(1)? }, count))
}

fn number(digits: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(digits).ok()?;
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}
