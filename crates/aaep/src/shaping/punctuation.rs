//! Character classes for the ends of sentences (UAX #29, property `Sentence_Break`), and abbreviations. It must not
//! know the order of characters. Start at [`stop_of`] and [`is_abbreviation`].

/// The kind of sentence terminator before the current position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    No,
    /// A full stop (`ATerm`), which may also belong to an abbreviation or a number.
    Dot {
        sure: bool,
    },
    /// `!`, `?` and the terminators of other scripts (`STerm`), followed by white space.
    Strong,
    /// A terminator of a script without a space after it.
    Wide,
    /// The full-width full stop: no space follows it, and it may belong to a number.
    WideDot,
}

/// Longest word of [`ABBREVIATIONS`], in characters.
pub(super) const ABBREVIATION_CHARS: usize = 6;

/// Abbreviations with a full stop that rarely end a sentence, in lower case. Single letters need no entry. Words that
/// often end sentences (`no`, `etc`, `usw`) are omitted: before a lower-case letter no sentence ends anyway.
const ABBREVIATIONS: &[&str] = &[
    "approx", "apr", "asst", "aufl", "aug", "ave", "bd", "bijv", "blvd", "brig", "bspw", "bzw", "capt", "cf",
    "cmdr", "col", "corp", "dec", "dept", "dhr", "dipl", "dott", "dr", "dra", "eds", "ehem", "eig", "evtl",
    "feb", "fig", "figs", "fr", "frl", "geb", "gen", "ggf", "gov", "hon", "hr", "hrsg", "inc", "ing", "inkl",
    "jan", "jul", "jun", "lt", "ltd", "maj", "mevr", "mme", "mmes", "mlle", "mr", "mrs", "ms", "mt", "mwst",
    "mx", "nov", "np", "nr", "núm", "oct", "okt", "pp", "prof", "pág", "rep", "rev", "sen", "sept", "sgt",
    "sig", "sr", "sra", "srta", "st", "sta", "tel", "tj", "ud", "uds", "ul", "univ", "vgl", "vol", "vols",
    "vs", "zzgl", "см", "стр", "ул",
];

pub(super) fn is_abbreviation(word: &str) -> bool {
    ABBREVIATIONS.contains(&word)
}

/// The terminator class of a character, if it ends sentences. The classes are those of Unicode, plus the ellipsis,
/// which counts as three full stops.
pub(super) fn stop_of(c: char) -> Option<Stop> {
    match c {
        '.' | '…' | '\u{2024}' | '﹒' => Some(Stop::Dot { sure: true }),
        '．' => Some(Stop::WideDot),
        '。' | '！' | '？' | '｡' | '︒' | '︕' | '︖' | '﹖' | '﹗' => Some(Stop::Wide),
        c if is_terminal(c) => Some(Stop::Strong),
        _ => None,
    }
}

/// `Sentence_Break=STerm`, and full stops.
pub(super) fn is_terminal(c: char) -> bool {
    if c.is_ascii() {
        return matches!(c, '!' | '?' | '.');
    }
    matches!(c, '…' | '\u{2024}' | '﹒' | '．') || in_ranges(TERMINALS, c)
}

/// Characters between the end of a sentence and the following white space: `Sentence_Break=Close`, and Markdown
/// emphasis.
pub(super) fn is_closing(c: char) -> bool {
    matches!(c, '"' | '\'' | '(' | ')' | '[' | ']' | '{' | '}' | '*' | '_')
        || (!c.is_ascii() && in_ranges(CLOSINGS, c))
}

/// Characters that continue a sentence, even after a stop: `Sentence_Break=SContinue`.
pub(super) fn is_continuing(c: char) -> bool {
    matches!(c, ',' | '-' | ':' | ';') || (!c.is_ascii() && in_ranges(CONTINUING, c))
}

/// Punctuation after which text may be spoken, in scripts without a space after it.
pub(super) fn is_pause(c: char) -> bool {
    matches!(c, '，' | '、' | '；' | '：' | '､')
}

/// Letters of scripts that separate neither words nor sentences by spaces: kana and ideographs.
pub(super) fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30FF}' | '\u{3400}'..='\u{9FFF}' | '\u{20000}'..='\u{3FFFF}')
}

/// Non-breaking white space, where no word ends.
pub(super) fn is_glue(c: char) -> bool {
    matches!(c, '\u{A0}' | '\u{2007}' | '\u{202F}')
}

fn in_ranges(ranges: &[(char, char)], c: char) -> bool {
    let at = ranges.partition_point(|(first, _)| *first <= c);
    at > 0 && c <= ranges[at - 1].1
}

/// `Sentence_Break=STerm` beyond ASCII, in order.
#[rustfmt::skip]
const TERMINALS: &[(char, char)] = &[
    ('\u{0589}', '\u{0589}'), ('\u{061D}', '\u{061F}'), ('\u{06D4}', '\u{06D4}'), ('\u{0700}', '\u{0702}'),
    ('\u{07F9}', '\u{07F9}'), ('\u{0837}', '\u{0837}'), ('\u{0839}', '\u{0839}'), ('\u{083D}', '\u{083E}'),
    ('\u{0964}', '\u{0965}'), ('\u{104A}', '\u{104B}'), ('\u{1362}', '\u{1362}'), ('\u{1367}', '\u{1368}'),
    ('\u{166E}', '\u{166E}'), ('\u{1735}', '\u{1736}'), ('\u{17D4}', '\u{17D5}'), ('\u{1803}', '\u{1803}'),
    ('\u{1809}', '\u{1809}'), ('\u{1944}', '\u{1945}'), ('\u{1AA8}', '\u{1AAB}'), ('\u{1B4E}', '\u{1B4F}'),
    ('\u{1B5A}', '\u{1B5B}'), ('\u{1B5E}', '\u{1B5F}'), ('\u{1B7D}', '\u{1B7F}'), ('\u{1C3B}', '\u{1C3C}'),
    ('\u{1C7E}', '\u{1C7F}'), ('\u{203C}', '\u{203D}'), ('\u{2047}', '\u{2049}'), ('\u{2CF9}', '\u{2CFB}'),
    ('\u{2E2E}', '\u{2E2E}'), ('\u{2E3C}', '\u{2E3C}'), ('\u{2E53}', '\u{2E54}'), ('\u{3002}', '\u{3002}'),
    ('\u{A4FF}', '\u{A4FF}'), ('\u{A60E}', '\u{A60F}'), ('\u{A6F3}', '\u{A6F3}'), ('\u{A6F7}', '\u{A6F7}'),
    ('\u{A876}', '\u{A877}'), ('\u{A8CE}', '\u{A8CF}'), ('\u{A92F}', '\u{A92F}'), ('\u{A9C8}', '\u{A9C9}'),
    ('\u{AA5D}', '\u{AA5F}'), ('\u{AAF0}', '\u{AAF1}'), ('\u{ABEB}', '\u{ABEB}'), ('\u{FE12}', '\u{FE12}'),
    ('\u{FE15}', '\u{FE16}'), ('\u{FE56}', '\u{FE57}'), ('\u{FF01}', '\u{FF01}'), ('\u{FF1F}', '\u{FF1F}'),
    ('\u{FF61}', '\u{FF61}'), ('\u{10A56}', '\u{10A57}'), ('\u{10F55}', '\u{10F59}'),
    ('\u{10F86}', '\u{10F89}'), ('\u{11047}', '\u{11048}'), ('\u{110BE}', '\u{110C1}'),
    ('\u{11141}', '\u{11143}'), ('\u{111C5}', '\u{111C6}'), ('\u{111CD}', '\u{111CD}'),
    ('\u{111DE}', '\u{111DF}'), ('\u{11238}', '\u{11239}'), ('\u{1123B}', '\u{1123C}'),
    ('\u{112A9}', '\u{112A9}'), ('\u{113D4}', '\u{113D5}'), ('\u{1144B}', '\u{1144C}'),
    ('\u{115C2}', '\u{115C3}'), ('\u{115C9}', '\u{115D7}'), ('\u{11641}', '\u{11642}'),
    ('\u{1173C}', '\u{1173E}'), ('\u{11944}', '\u{11944}'), ('\u{11946}', '\u{11946}'),
    ('\u{11A42}', '\u{11A43}'), ('\u{11A9B}', '\u{11A9C}'), ('\u{11C41}', '\u{11C42}'),
    ('\u{11EF7}', '\u{11EF8}'), ('\u{11F43}', '\u{11F44}'), ('\u{16A6E}', '\u{16A6F}'),
    ('\u{16AF5}', '\u{16AF5}'), ('\u{16B37}', '\u{16B38}'), ('\u{16B44}', '\u{16B44}'),
    ('\u{16D6E}', '\u{16D6F}'), ('\u{16E98}', '\u{16E98}'), ('\u{1BC9F}', '\u{1BC9F}'),
    ('\u{1DA88}', '\u{1DA88}'),
];

/// `Sentence_Break=SContinue` beyond ASCII, in order.
#[rustfmt::skip]
const CONTINUING: &[(char, char)] = &[
    ('\u{037E}', '\u{037E}'), ('\u{055D}', '\u{055D}'), ('\u{060C}', '\u{060D}'), ('\u{07F8}', '\u{07F8}'),
    ('\u{1802}', '\u{1802}'), ('\u{1808}', '\u{1808}'), ('\u{2013}', '\u{2014}'), ('\u{3001}', '\u{3001}'),
    ('\u{FE10}', '\u{FE11}'), ('\u{FE13}', '\u{FE14}'), ('\u{FE31}', '\u{FE32}'), ('\u{FE50}', '\u{FE51}'),
    ('\u{FE54}', '\u{FE55}'), ('\u{FE58}', '\u{FE58}'), ('\u{FE63}', '\u{FE63}'), ('\u{FF0C}', '\u{FF0D}'),
    ('\u{FF1A}', '\u{FF1B}'), ('\u{FF64}', '\u{FF64}'),
];

/// `Sentence_Break=Close` beyond ASCII, in order.
#[rustfmt::skip]
const CLOSINGS: &[(char, char)] = &[
    ('\u{00AB}', '\u{00AB}'), ('\u{00BB}', '\u{00BB}'), ('\u{0F3A}', '\u{0F3D}'), ('\u{169B}', '\u{169C}'),
    ('\u{2018}', '\u{201F}'), ('\u{2039}', '\u{203A}'), ('\u{2045}', '\u{2046}'), ('\u{207D}', '\u{207E}'),
    ('\u{208D}', '\u{208E}'), ('\u{2308}', '\u{230B}'), ('\u{2329}', '\u{232A}'), ('\u{275B}', '\u{2760}'),
    ('\u{2768}', '\u{2775}'), ('\u{27C5}', '\u{27C6}'), ('\u{27E6}', '\u{27EF}'), ('\u{2983}', '\u{2998}'),
    ('\u{29D8}', '\u{29DB}'), ('\u{29FC}', '\u{29FD}'), ('\u{2E00}', '\u{2E0D}'), ('\u{2E1C}', '\u{2E1D}'),
    ('\u{2E20}', '\u{2E29}'), ('\u{2E42}', '\u{2E42}'), ('\u{2E55}', '\u{2E5C}'), ('\u{3008}', '\u{3011}'),
    ('\u{3014}', '\u{301B}'), ('\u{301D}', '\u{301F}'), ('\u{FD3E}', '\u{FD3F}'), ('\u{FE17}', '\u{FE18}'),
    ('\u{FE35}', '\u{FE44}'), ('\u{FE47}', '\u{FE48}'), ('\u{FE59}', '\u{FE5E}'), ('\u{FF08}', '\u{FF09}'),
    ('\u{FF3B}', '\u{FF3B}'), ('\u{FF3D}', '\u{FF3D}'), ('\u{FF5B}', '\u{FF5B}'), ('\u{FF5D}', '\u{FF5D}'),
    ('\u{FF5F}', '\u{FF60}'), ('\u{FF62}', '\u{FF63}'), ('\u{1F676}', '\u{1F678}'),
];

#[cfg(test)]
mod tests {
    use unicode_segmentation::UnicodeSegmentation as _;

    use super::*;

    /// Whether a sentence ends at this offset by the rules of Unicode.
    fn ends(text: &str, at: usize) -> bool {
        text.split_sentence_bound_indices().any(|(begins, _)| begins == at)
    }

    /// Every character of Unicode is in the class that the segmentation library has it in.
    #[test]
    fn the_classes_equal_those_of_unicode() {
        let mut counts = [0; 4];
        for c in ('\0'..=char::MAX).filter(|c| !matches!(c, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}'))
        {
            let length = c.len_utf8();
            let strong = ends(&format!("a{c}b"), 1 + length);
            let dot = !strong && ends(&format!("a{c} B"), 2 + length);
            let after_stop = format!("a!{c} B");
            let ends_after = ends(&after_stop, 3 + length);
            let ends_after_space = ends(&format!("a! {c}B"), 3);
            let closes = !ends(&after_stop, 2) && ends_after && ends_after_space;
            let continues = !ends_after && !ends_after_space;
            let is_dot = matches!(stop_of(c), Some(Stop::Dot { .. } | Stop::WideDot));
            let ours = (c != '…' && is_terminal(c), c != '…' && is_dot);
            assert_eq!(ours, (strong || dot, dot), "{c:?} ends sentences");
            assert_eq!(stop_of(c).is_some(), is_terminal(c), "{c:?}");
            assert_eq!(is_closing(c) && !matches!(c, '*' | '_'), closes, "{c:?} closes");
            assert_eq!(is_continuing(c), continues, "{c:?} continues");
            for (count, is) in counts.iter_mut().zip([strong, dot, closes, continues]) {
                *count += usize::from(is);
            }
        }
        assert!(counts[0] >= 166 && counts[1] == 4 && counts[2] >= 195 && counts[3] >= 29, "{counts:?}");
    }

    #[test]
    fn abbreviations_fit_the_scanner() {
        for word in ABBREVIATIONS {
            assert!(
                word.chars().count() <= ABBREVIATION_CHARS && word.chars().all(char::is_lowercase),
                "{word}"
            );
        }
    }
}
