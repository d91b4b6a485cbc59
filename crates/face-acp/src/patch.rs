//! Converts a unified diff to diffs of ACP: for each hunk of a file the text before and after. Pure.
//!
//! Must not depend on where a patch comes from. Start with [`sides`].

/// The text before and after of one hunk. Without a text before, the file is new.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sides {
    /// The path of the file, if the diff has it.
    pub(crate) path: Option<String>,
    pub(crate) old: Option<String>,
    pub(crate) new: String,
}

/// The hunks of a diff, in order.
pub(crate) fn sides(diff: &str) -> Vec<Sides> {
    let mut places: Vec<Sides> = Vec::new();
    let (mut path, mut is_new) = (None, false);
    let mut left = (0_u64, 0_u64);
    let mut last = None;
    for line in diff.split_inclusive('\n') {
        let in_hunk = left.0 > 0 || left.1 > 0;
        match (line.as_bytes().first(), in_hunk, places.last_mut()) {
            (Some(sign @ (b' ' | b'-' | b'+')), true, Some(place)) => {
                let text = &line[1..];
                if *sign != b'+' {
                    place.old.get_or_insert_default().push_str(text);
                    left.0 = left.0.saturating_sub(1);
                }
                if *sign != b'-' {
                    place.new.push_str(text);
                    left.1 = left.1.saturating_sub(1);
                }
                last = Some(*sign);
            }
            // "\ No newline at end of file" refers to the line before it.
            (Some(b'\\'), _, Some(place)) => {
                if let Some(old) = place.old.as_mut().filter(|old| last != Some(b'+') && old.ends_with('\n'))
                {
                    old.pop();
                }
                if last != Some(b'-') && place.new.ends_with('\n') {
                    place.new.pop();
                }
            }
            _ => {
                if let Some(name) = line.strip_prefix("--- ") {
                    is_new = name.trim() == "/dev/null";
                    path = file(name);
                } else if let Some(name) = line.strip_prefix("+++ ") {
                    path = file(name).or(path);
                } else if let Some(ranges) = line.strip_prefix("@@ ") {
                    left = lengths(ranges);
                    let old = (!is_new).then(String::new);
                    places.push(Sides { path: path.clone(), old, new: String::new() });
                    last = None;
                }
            }
        }
    }
    places
}

/// The path after `a/` or `b/`.
fn file(name: &str) -> Option<String> {
    let name = name.trim_end_matches(['\n', '\r']).split('\t').next().unwrap_or("");
    let name = name.strip_prefix("a/").or(name.strip_prefix("b/")).unwrap_or(name);
    (name != "/dev/null" && !name.is_empty()).then(|| name.to_owned())
}

/// The numbers of lines of a hunk before and after, from `-1,3 +1,4 @@`.
fn lengths(ranges: &str) -> (u64, u64) {
    let mut parts = ranges.split(' ');
    let mut length = |sign: char| {
        let range = parts.next().and_then(|part| part.strip_prefix(sign)).unwrap_or("");
        range.split_once(',').map_or(1, |(_, length)| length.parse().unwrap_or(0))
    };
    (length('-'), length('+'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_has_both_sides() {
        let diff = "--- a/src/a.rs\n+++ b/src/a.rs\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n@@ -9 +9,2 @@ fn\n---- x\n++++ y\n+z\n";
        let place = |old: &str, new: &str| Sides {
            path: Some("src/a.rs".into()),
            old: Some(old.into()),
            new: new.into(),
        };
        assert_eq!(
            sides(diff),
            [place("one\ntwo\nthree\n", "one\n2\nthree\n"), place("--- x\n", "+++ y\nz\n")]
        );
    }

    #[test]
    fn a_new_file_has_no_text_before_and_a_deleted_one_none_after() {
        let new = sides("--- /dev/null\n+++ b/n\n@@ -0,0 +1,2 @@\n+a\n+b\n\\ No newline at end of file\n");
        assert_eq!(new, [Sides { path: Some("n".into()), old: None, new: "a\nb".into() }]);
        let deleted = sides("--- a/n\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n\\ No newline at end of file\n");
        assert_eq!(deleted, [Sides { path: Some("n".into()), old: Some("a".into()), new: String::new() }]);
        let same = sides("--- a/n\n+++ b/n\n@@ -1,2 +1,2 @@\n-a\n+b\n c\n\\ No newline at end of file\n");
        assert_eq!(same, [Sides { path: Some("n".into()), old: Some("a\nc".into()), new: "b\nc".into() }]);
    }

    #[test]
    fn invalid_diffs_have_no_hunks() {
        for text in ["", "hello\n", "@@\n", "+a\n", "\\ x\n", "@@ x y @@\n+a"] {
            let places = sides(text);
            assert!(places.iter().all(|place| place.new.len() <= 1), "{text}: {places:?}");
        }
    }
}
