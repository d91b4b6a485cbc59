//! Writes a diff in the format that git and `patch` accept.

use super::{FileMode, FilePatch, Hunk, HunkLine, Mark, PatchContent, PatchSide, TreePatch, names};

impl TreePatch {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for file in &self.files {
            file.write(&mut out);
        }
        out
    }
}

impl FilePatch {
    fn write(&self, out: &mut Vec<u8>) {
        if self.has_git_header {
            self.write_header(out);
        }
        match &self.content {
            PatchContent::Same => {}
            // An empty file has only a header.
            PatchContent::Text(hunks) if hunks.is_empty() && self.has_git_header => {}
            PatchContent::Text(hunks) => {
                self.write_name(out, b"--- ", "a/", self.old.as_ref());
                self.write_name(out, b"+++ ", "b/", self.new.as_ref());
                hunks.iter().for_each(|hunk| hunk.write(out));
            }
            PatchContent::Binary { forward, back } => {
                out.extend_from_slice(b"GIT binary patch\n");
                for piece in [Some(forward), back.as_ref()].into_iter().flatten() {
                    let (kind, size) = (piece.kind.as_str(), piece.data.len());
                    out.extend_from_slice(format!("{kind} {size}\n").as_bytes());
                    for line in &piece.lines {
                        out.extend_from_slice(line);
                        out.push(b'\n');
                    }
                    out.push(b'\n');
                }
            }
        }
    }

    fn write_header(&self, out: &mut Vec<u8>) {
        let path = |side: &Option<PatchSide>, other: &Option<PatchSide>| {
            side.as_ref().or(other.as_ref()).map(|side| side.path.clone()).unwrap_or_default()
        };
        let (a, b) = (path(&self.old, &self.new), path(&self.new, &self.old));
        out.extend_from_slice(b"diff --git ");
        out.extend_from_slice(&names::written("a/", &a));
        out.push(b' ');
        out.extend_from_slice(&names::written("b/", &b));
        out.push(b'\n');
        let mut mode = |word: &str, mode: FileMode| {
            out.extend_from_slice(format!("{word} {}\n", mode.as_str()).as_bytes());
        };
        match (&self.old, &self.new) {
            (None, Some(new)) => mode("new file mode", new.mode.unwrap_or(FileMode::Plain)),
            (Some(old), None) => mode("deleted file mode", old.mode.unwrap_or(FileMode::Plain)),
            (Some(PatchSide { mode: Some(old), .. }), Some(PatchSide { mode: Some(new), .. }))
                if old != new =>
            {
                mode("old mode", *old);
                mode("new mode", *new);
            }
            _ => {}
        }
        if self.old.is_some() && self.new.is_some() && a != b {
            out.extend_from_slice(b"rename from ");
            out.extend_from_slice(&names::written("", &a));
            out.extend_from_slice(b"\nrename to ");
            out.extend_from_slice(&names::written("", &b));
            out.push(b'\n');
        }
        if let Some((old, new)) = &self.index {
            out.extend_from_slice(format!("index {old}..{new}").as_bytes());
            // An unchanged mode is written here.
            if let (Some(old), Some(new)) = (&self.old, &self.new)
                && let Some(mode) = new.mode.filter(|mode| old.mode == Some(*mode))
            {
                out.extend_from_slice(format!(" {}", mode.as_str()).as_bytes());
            }
            out.push(b'\n');
        }
    }

    fn write_name(&self, out: &mut Vec<u8>, mark: &[u8], prefix: &str, side: Option<&PatchSide>) {
        out.extend_from_slice(mark);
        match side {
            None => out.extend_from_slice(b"/dev/null"),
            Some(side) => {
                let name = names::written(prefix, &side.path);
                out.extend_from_slice(&name);
                // Readers expect a tab after a name that contains a space.
                if !name.starts_with(b"\"") && name.contains(&b' ') {
                    out.push(b'\t');
                }
            }
        }
        out.push(b'\n');
    }
}

impl Hunk {
    /// The numbers of lines before and after.
    pub(super) fn counts(&self) -> (usize, usize) {
        let of = |not: Mark| self.lines.iter().filter(|line| line.mark != not).count();
        (of(Mark::Added), of(Mark::Removed))
    }

    fn write(&self, out: &mut Vec<u8>) {
        // An empty side names the line before it.
        let span = |before: usize, count: usize| match count {
            0 => format!("{before},0"),
            1 => format!("{}", before + 1),
            count => format!("{},{count}", before + 1),
        };
        let (old, new) = self.counts();
        let (old, new) = (span(self.old_before, old), span(self.new_before, new));
        out.extend_from_slice(format!("@@ -{old} +{new} @@\n").as_bytes());
        for HunkLine { mark, text } in &self.lines {
            out.push(match mark {
                Mark::Kept => b' ',
                Mark::Removed => b'-',
                Mark::Added => b'+',
            });
            out.extend_from_slice(text);
            if !text.ends_with(b"\n") {
                out.extend_from_slice(b"\n\\ No newline at end of file\n");
            }
        }
    }
}
