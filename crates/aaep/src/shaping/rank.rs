//! Ranks of boundaries in a text, and the agreed boundaries. Data only.

use crate::wire::Boundary;

/// The rank of a boundary; the end of a paragraph is also the end of a sentence and of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// Only a character.
    Character,
    Word,
    Sentence,
    Paragraph,
    /// The output.
    Completion,
}

impl Rank {
    pub(super) fn of(boundary: &Boundary) -> Option<Rank> {
        Some(match boundary {
            Boundary::None => Rank::Character,
            Boundary::Word => Rank::Word,
            Boundary::Sentence => Rank::Sentence,
            Boundary::Paragraph => Rank::Paragraph,
            Boundary::Completion => Rank::Completion,
            Boundary::Other(_) => return None,
        })
    }

    fn boundary(self) -> Boundary {
        match self {
            Rank::Character => Boundary::None,
            Rank::Word => Boundary::Word,
            Rank::Sentence => Boundary::Sentence,
            Rank::Paragraph => Boundary::Paragraph,
            Rank::Completion => Boundary::Completion,
        }
    }
}

/// The agreed boundaries.
#[derive(Debug, Clone)]
pub(super) struct AgreedBoundaries {
    /// One bit for each rank.
    ranks: u8,
    /// The minimum rank of a cut; higher ranks are allowed too.
    pub(super) least: Rank,
}

const RANKS: [Rank; 5] = [Rank::Character, Rank::Word, Rank::Sentence, Rank::Paragraph, Rank::Completion];

impl AgreedBoundaries {
    pub(super) fn new(boundaries: &[Boundary]) -> Self {
        let ranks = boundaries.iter().filter_map(Rank::of).fold(0, |ranks, rank| ranks | (1 << rank as u8));
        let mut legal = AgreedBoundaries { ranks, least: Rank::Completion };
        legal.least = RANKS.into_iter().find(|rank| legal.has(*rank)).unwrap_or(Rank::Completion);
        legal
    }

    fn has(&self, rank: Rank) -> bool {
        self.ranks & (1 << rank as u8) != 0
    }

    /// The hint for a cut: the highest true and agreed boundary, else `none`, which means that more follows.
    pub(super) fn hint(&self, rank: Rank) -> Boundary {
        let agreed = RANKS.into_iter().rev().find(|agreed| self.has(*agreed) && *agreed <= rank);
        agreed.map_or(Boundary::None, Rank::boundary)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_name_true_and_agreed_boundaries() {
        let legal = |names: &[&str]| {
            AgreedBoundaries::new(&names.iter().map(|name| Boundary::from(*name)).collect::<Vec<_>>())
        };
        for (agreed, rank, hint) in [
            (&["sentence", "completion"][..], Rank::Paragraph, "sentence"),
            (&["sentence", "completion"], Rank::Completion, "completion"),
            (&["sentence", "completion"], Rank::Word, "none"),
            (&["word"], Rank::Completion, "word"),
            (&["none"], Rank::Completion, "none"),
            (&["paragraph"], Rank::Sentence, "none"),
            (&["paragraph", "word"], Rank::Sentence, "word"),
        ] {
            assert_eq!(legal(agreed).hint(rank).as_str(), hint, "{agreed:?} {rank:?}");
        }
        assert_eq!(legal(&["sentence", "word"]).least, Rank::Word);
        assert_eq!(legal(&[]).least, Rank::Completion);
    }
}
