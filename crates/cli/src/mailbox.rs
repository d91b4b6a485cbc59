//! Writes a patch as a message of a mailbox that `git am` takes without options.
//!
//! Look at [`Mail::written`]. Pure. It must never know runs, servers or files.

use std::fmt::Write as _;

/// Columns of an encoded line, and of an encoded word in a header.
const ENCODED_COLUMNS: usize = 72;

/// Characters of a name that a subject has room for; of a longer one, the end.
const NAME_CHARS_MAX: usize = 120;

/// Characters of a subject in the name of a file.
const FILE_NAME_CHARS_MAX: usize = 52;

/// One patch of a series.
#[derive(Debug, Clone)]
pub(crate) struct Mail<'a> {
    /// From 1, of so many.
    pub(crate) number: usize,
    pub(crate) count: usize,
    /// The author's name.
    pub(crate) author: &'a str,
    /// As events have it: RFC 3339 in UTC.
    pub(crate) at: &'a str,
    /// The file that it changes.
    pub(crate) path: &'a str,
    /// What it is from: names and values, written below the text.
    pub(crate) trailers: &'a [(&'a str, &'a str)],
    /// The diff as it is stored.
    pub(crate) diff: &'a [u8],
}

impl Mail<'_> {
    /// `Change src/main.rs`.
    pub(crate) fn subject(&self) -> String {
        let has = |word: &[u8]| self.diff.split(|byte| *byte == b'\n').any(|line| line.starts_with(word));
        let verb = if has(b"--- /dev/null") || has(b"new file mode ") {
            "Add"
        } else if has(b"+++ /dev/null") || has(b"deleted file mode ") {
            "Delete"
        } else if has(b"rename from ") {
            "Rename"
        } else {
            "Change"
        };
        let count = self.path.chars().count();
        match count > NAME_CHARS_MAX {
            true => format!("{verb} …{}", last(self.path, count - NAME_CHARS_MAX)),
            false => format!("{verb} {}", self.path),
        }
    }

    /// `0001-Change-src-main.rs.patch`, as `git format-patch` would name it.
    pub(crate) fn file_name(&self) -> String {
        let mut name = format!("{:04}", self.number);
        let mut is_open = false;
        for char in self.subject().chars() {
            if char.is_ascii_alphanumeric() || matches!(char, '.' | '_') {
                if !is_open {
                    name.push('-');
                }
                is_open = true;
                name.push(char);
            } else {
                is_open = false;
            }
            if name.len() >= FILE_NAME_CHARS_MAX {
                break;
            }
        }
        while name.ends_with('.') {
            name.pop();
        }
        name + ".patch"
    }

    pub(crate) fn written(&self) -> Vec<u8> {
        let diff = with_header(self.diff);
        let (number, count) = (self.number, self.count);
        let mut body = format!("Patch {number} of {count} that an agent's run applied.\n\n");
        for (name, value) in self.trailers {
            body.push_str(&format!("{name}: {value}\n"));
        }
        body.push_str("---\n\n");
        let mut body = body.into_bytes();
        body.extend_from_slice(&diff);
        if !body.ends_with(b"\n") {
            body.push(b'\n');
        }
        let is_encoded = needs_encoding(&body);
        let mut head =
            String::from("From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001\n");
        let author: String = self.author.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
        head.push_str(&format!("From: {author} <recount@localhost>\n"));
        head.push_str(&format!("Date: {}\n", date(self.at)));
        let prefix = if count == 1 { "[PATCH]".to_owned() } else { format!("[PATCH {number}/{count}]") };
        head.push_str(&format!("Subject: {prefix} {}\n", header_text(&self.subject())));
        head.push_str("MIME-Version: 1.0\nContent-Type: text/plain; charset=UTF-8\n");
        let encoding = if is_encoded { "quoted-printable" } else { "8bit" };
        head.push_str(&format!("Content-Transfer-Encoding: {encoding}\n\n"));
        let mut out = head.into_bytes();
        match is_encoded {
            true => quoted_printable(&body, &mut out),
            false => out.extend_from_slice(&body),
        }
        out.push(b'\n');
        out
    }
}

fn last(text: &str, skipped: usize) -> &str {
    text.char_indices().nth(skipped).map_or("", |(at, _)| &text[at..])
}

/// A character that a name in a header may have without quotes.
fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, ' ' | '/' | '-' | '_' | '.')
}

/// An empty file has no hunks; git needs its own header to see that it is added or deleted.
fn with_header(diff: &[u8]) -> Vec<u8> {
    let mut lines = diff.split(|byte| *byte == b'\n');
    let (old, new) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let is_bare = lines.all(<[u8]>::is_empty);
    let name = |line: &[u8], mark: &[u8]| -> Option<Vec<u8>> {
        let name = line.strip_prefix(mark)?;
        Some(name.strip_suffix(b"\t").unwrap_or(name).to_vec())
    };
    let (Some(old), Some(new)) = (name(old, b"--- "), name(new, b"+++ ")) else { return diff.to_vec() };
    let nowhere = b"/dev/null".to_vec();
    if !is_bare || (old == nowhere) == (new == nowhere) {
        return diff.to_vec();
    }
    let is_added = old == nowhere;
    let name = if is_added { new } else { old };
    // Both sides have the name; only the letter before it differs.
    let side = |letter: u8| {
        let mut side = name.clone();
        let at = usize::from(side.first() == Some(&b'"'));
        if let Some(first) = side.get_mut(at) {
            *first = letter;
        }
        side
    };
    let mut out = [b"diff --git ".as_slice(), &side(b'a'), b" ", &side(b'b'), b"\n"].concat();
    out.extend_from_slice(match is_added {
        true => b"new file mode 100644\nindex 0000000..e69de29\n".as_slice(),
        false => b"deleted file mode 100644\nindex e69de29..0000000\n".as_slice(),
    });
    out
}

/// What would not arrive as it is: `git am` removes a carriage return at the end of a line, and takes a line with `From `
/// as the next message.
fn needs_encoding(body: &[u8]) -> bool {
    body.iter().any(|byte| matches!(byte, b'\r' | 0))
        || body.split(|byte| *byte == b'\n').any(|line| line.starts_with(b"From "))
}

fn quoted_printable(body: &[u8], out: &mut Vec<u8>) {
    for line in body.split_inclusive(|byte| *byte == b'\n') {
        let (text, end) = match line.strip_suffix(b"\n") {
            Some(text) => (text, b"\n".as_slice()),
            None => (line, b"".as_slice()),
        };
        let mut column = 0;
        for (at, byte) in text.iter().enumerate() {
            let is_last = at + 1 == text.len();
            let is_literal = match byte {
                b'=' => false,
                b'F' => at != 0,
                b' ' | b'\t' => !is_last,
                byte => byte.is_ascii_graphic(),
            };
            if column >= ENCODED_COLUMNS {
                out.extend_from_slice(b"=\n");
                column = 0;
            }
            match is_literal {
                true => out.push(*byte),
                false => out.extend_from_slice(format!("={byte:02X}").as_bytes()),
            }
            column += if is_literal { 1 } else { 3 };
        }
        out.extend_from_slice(end);
    }
}

/// A text in a header: encoded words where it is not plain.
fn header_text(text: &str) -> String {
    if text.chars().all(|c| c.is_ascii_graphic() || c == ' ') && !text.contains("=?") {
        return text.to_owned();
    }
    let mut words = Vec::new();
    let mut word = String::new();
    for char in text.chars() {
        let mut piece = String::new();
        for byte in char.encode_utf8(&mut [0; 4]).bytes() {
            match byte {
                b' ' => piece.push('_'),
                byte if byte.is_ascii_alphanumeric() => piece.push(char::from(byte)),
                byte => write!(piece, "={byte:02X}").expect("a string takes everything"),
            }
        }
        if word.len() + piece.len() > ENCODED_COLUMNS - "=?UTF-8?q??=".len() {
            words.push(std::mem::take(&mut word));
        }
        word.push_str(&piece);
    }
    words.push(word);
    let words: Vec<String> = words.iter().map(|word| format!("=?UTF-8?q?{word}?=")).collect();
    words.join("\n ")
}

/// `Thu, 26 Nov 2026 18:13:52 +0000`; a time that is not one stays as it is.
fn date(at: &str) -> String {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
    let number = |from: usize, to: usize| at.get(from..to).and_then(|digits| digits.parse::<usize>().ok());
    let parts = (number(0, 4), number(5, 7), number(8, 10), at.get(11..19));
    let (Some(year), Some(month @ 1..=12), Some(day @ 1..=31), Some(time)) = parts else {
        return at.to_owned();
    };
    // Sakamoto's way to the day of the week.
    let shift = [0, 3, 2, 5, 0, 3, 5, 1, 4, 6, 2, 4][month - 1];
    let years = if month < 3 { year.saturating_sub(1) } else { year };
    let weekday = (years + years / 4 - years / 100 + years / 400 + shift + day) % 7;
    format!("{}, {day} {} {year} {time} +0000", DAYS[weekday], MONTHS[month - 1])
}

#[cfg(test)]
mod tests;
