//! File names in diffs: quoting as in git, the prefixes `a/` and `b/`, and the check that a path stays inside the tree.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path, PathBuf};

/// A name with the prefix `a/` or `b/`, quoted if necessary.
pub(super) fn written(prefix: &str, path: &Path) -> Vec<u8> {
    let name = path.as_os_str().as_bytes();
    let needs_quotes = |byte: &u8| byte.is_ascii_control() || matches!(byte, b'"' | b'\\' | 0x80..);
    if !name.iter().any(needs_quotes) {
        return [prefix.as_bytes(), name].concat();
    }
    let mut out = vec![b'"'];
    out.extend_from_slice(prefix.as_bytes());
    for byte in name {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', *byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\r' => out.extend_from_slice(b"\\r"),
            byte if needs_quotes(byte) => out.extend_from_slice(format!("\\{byte:03o}").as_bytes()),
            byte => out.push(*byte),
        }
    }
    out.push(b'"');
    out
}

/// Reads a name at the beginning of a text. Returns it and the rest. A quoted name ends with its quote, another one at
/// a tab.
pub(super) fn read(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    if text.first() != Some(&b'"') {
        let end = text.iter().position(|byte| *byte == b'\t').unwrap_or(text.len());
        return Some((text[..end].to_vec(), &text[end..]));
    }
    let mut name = Vec::new();
    let mut at = 1;
    loop {
        match *text.get(at)? {
            b'"' => return Some((name, &text[at + 1..])),
            b'\\' => {
                at += 1;
                let escaped = *text.get(at)?;
                name.push(match escaped {
                    b'n' => b'\n',
                    b't' => b'\t',
                    b'r' => b'\r',
                    b'a' => 7,
                    b'b' => 8,
                    b'v' => 11,
                    b'f' => 12,
                    b'"' | b'\\' => escaped,
                    b'0'..=b'3' => {
                        let digits = std::str::from_utf8(text.get(at..at + 3)?).ok()?;
                        at += 2;
                        u8::from_str_radix(digits, 8).ok()?
                    }
                    _ => return None,
                });
            }
            byte => name.push(byte),
        }
        at += 1;
    }
}

/// The name without its first part, which is `a/` or `b/`.
pub(super) fn stripped(name: &[u8]) -> Option<&[u8]> {
    let slash = name.iter().position(|byte| *byte == b'/')?;
    Some(&name[slash + 1..]).filter(|rest| !rest.is_empty())
}

/// A path inside the tree; `None` if it would leave it.
pub(super) fn inside(name: &[u8]) -> Option<PathBuf> {
    let path = PathBuf::from(OsString::from_vec(name.to_vec()));
    let is_plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    // A double or trailing slash would be another spelling of the same path.
    let is_exact = path.components().collect::<PathBuf>().as_os_str().as_bytes() == name;
    (is_plain && is_exact && !name.is_empty() && !name.contains(&0)).then_some(path)
}

/// The path after `diff --git`, if both names are equal. Different names have lines of their own.
pub(super) fn of_git(text: &[u8]) -> Option<PathBuf> {
    if text.first() == Some(&b'"') {
        let (first, rest) = read(text)?;
        let (second, _) = read(rest.strip_prefix(b" ")?)?;
        let (first, second) = (stripped(&first)?, stripped(&second)?);
        return inside(first).filter(|_| first == second);
    }
    // The name may contain spaces: it is cut where both halves are equal.
    let cuts = text.iter().enumerate().filter(|(_, byte)| **byte == b' ').map(|(at, _)| at);
    for cut in cuts {
        let (first, second) = (&text[..cut], &text[cut + 1..]);
        if let (Some(first), Some(second)) = (stripped(first), stripped(second))
            && first == second
        {
            return inside(first);
        }
    }
    None
}
