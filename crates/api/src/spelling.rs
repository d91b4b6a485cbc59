//! Finds the known word that is nearest to an unknown one.

/// How many letters apart two words may be that one could be meant for the other.
const NEAR: usize = 3;

/// The known word that is spelt most like this one, if any is near.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let distances = known.into_iter().map(|known| (distance(word, known), known));
    distances.min().filter(|(distance, _)| *distance <= NEAR).map(|(_, known)| known)
}

/// How many letters must be changed, added or taken away.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, letter) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, other) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *other);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_near_is_meant() {
        for (word, meant) in [
            ("statsu", Some("status")),
            ("after_sequnce", Some("after_sequence")),
            ("afterposition", Some("after_position")),
            ("limit", Some("limit")),
            ("colour", None),
            ("", None),
        ] {
            let known = ["status", "after_sequence", "after_position", "limit"];
            assert_eq!(nearest(word, known), meant, "{word}");
        }
    }
}
