//! Language tags (BCP 47): well-formedness, and matching of requested with offered languages. It has no registry of
//! subtags, so it does not know whether a language exists.

/// Grandfathered tags: well-formed although they do not follow the grammar.
const GRANDFATHERED: &[&str] = &[
    "en-gb-oed",
    "i-ami",
    "i-bnn",
    "i-default",
    "i-enochian",
    "i-hak",
    "i-klingon",
    "i-lux",
    "i-mingo",
    "i-navajo",
    "i-pwn",
    "i-tao",
    "i-tay",
    "i-tsu",
    "sgn-be-fr",
    "sgn-be-nl",
    "sgn-ch-de",
];

/// [`is_well_formed`] for JSON Schemas.
pub const PATTERN: &str = concat!(
    "^(?:",
    "(?:[A-Za-z]{2,3}(?:-[A-Za-z]{3}){0,3}|[A-Za-z]{4}|[A-Za-z]{5,8})",
    "(?:-[A-Za-z]{4})?(?:-(?:[A-Za-z]{2}|[0-9]{3}))?",
    "(?:-(?:[A-Za-z0-9]{5,8}|[0-9][A-Za-z0-9]{3}))*",
    "(?:-[0-9A-WY-Za-wy-z](?:-[A-Za-z0-9]{2,8})+)*",
    "(?:-[xX](?:-[A-Za-z0-9]{1,8})+)?",
    "|[xX](?:-[A-Za-z0-9]{1,8})+",
    "|[eE][nN]-[gG][bB]-[oO][eE][dD]",
    "|[iI]-(?:[aA][mM][iI]|[bB][nN][nN]|[dD][eE][fF][aA][uU][lL][tT]|[eE][nN][oO][cC][hH][iI][aA][nN]|[hH][aA][kK]",
    "|[kK][lL][iI][nN][gG][oO][nN]|[lL][uU][xX]|[mM][iI][nN][gG][oO]|[nN][aA][vV][aA][jJ][oO]|[pP][wW][nN]",
    "|[tT][aA][oO]|[tT][aA][yY]|[tT][sS][uU])",
    "|[sS][gG][nN]-(?:[bB][eE]-(?:[fF][rR]|[nN][lL])|[cC][hH]-[dD][eE])",
    ")$"
);

/// Whether the protocol's schemas accept a tag: subtags of up to eight letters and digits.
pub fn looks_like_tag(text: &str) -> bool {
    let mut parts = text.split('-');
    let language =
        |part: &str| (1..=8).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_alphabetic());
    let word =
        |part: &str| (1..=8).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_alphanumeric());
    parts.next().is_some_and(language) && parts.all(word)
}

/// Whether a tag follows the grammar of BCP 47 (RFC 5646 §2.1), grandfathered tags included.
///
/// ```
/// use recount_aaep::language::is_well_formed;
/// assert!(is_well_formed("zh-Hant-TW"));
/// assert!(!is_well_formed("en_US"));
/// assert!(!is_well_formed("english-american-long"));
/// ```
pub fn is_well_formed(text: &str) -> bool {
    // The most common form first.
    if let [a, b] | [a, b, b'-', _, _] = text.as_bytes()
        && a.is_ascii_alphabetic()
        && b.is_ascii_alphabetic()
        && text.as_bytes()[2..].iter().skip(1).all(u8::is_ascii_alphabetic)
    {
        return true;
    }
    if GRANDFATHERED.iter().any(|tag| tag.eq_ignore_ascii_case(text)) {
        return true;
    }
    let alpha = |part: &str| part.bytes().all(|byte| byte.is_ascii_alphabetic());
    let alphanumeric = |part: &str, min: usize| {
        (min..=8).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_alphanumeric())
    };
    let mut parts = text.split('-').peekable();
    let private = |parts: &mut dyn Iterator<Item = &str>| {
        let (mut count, mut good) = (0, true);
        for part in parts {
            count += 1;
            good &= alphanumeric(part, 1);
        }
        good && count > 0
    };
    let Some(language) = parts.next() else { return false };
    if language.eq_ignore_ascii_case("x") {
        return private(&mut parts);
    }
    if !(2..=8).contains(&language.len()) || !alpha(language) {
        return false;
    }
    if language.len() <= 3 {
        for _ in 0..3 {
            parts.next_if(|part| part.len() == 3 && alpha(part));
        }
    }
    parts.next_if(|part| part.len() == 4 && alpha(part));
    let number = |part: &str| part.len() == 3 && part.bytes().all(|byte| byte.is_ascii_digit());
    parts.next_if(|part| (part.len() == 2 && alpha(part)) || number(part));
    let variant = |part: &str| {
        (alphanumeric(part, 5))
            || (part.len() == 4 && part.as_bytes()[0].is_ascii_digit() && alphanumeric(part, 4))
    };
    while parts.next_if(|part| variant(part)).is_some() {}
    while let Some(single) = parts.next() {
        if single.eq_ignore_ascii_case("x") {
            return private(&mut parts);
        }
        if single.len() != 1 || !alphanumeric(single, 1) {
            return false;
        }
        if parts.next_if(|part| alphanumeric(part, 2)).is_none() {
            return false;
        }
        while parts.next_if(|part| alphanumeric(part, 2)).is_some() {}
    }
    true
}

/// How closely an offered language matches a requested one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Nearness {
    /// The same tag, ignoring case.
    Same,
    /// The same language and script; the regions or further subtags differ.
    SameScript,
    /// The same language.
    SameLanguage,
}

/// The parts of a tag that matching compares.
struct Parts<'t> {
    language: &'t str,
    script: Option<&'t str>,
    region: Option<&'t str>,
}

fn parts(tag: &str) -> Parts<'_> {
    let mut rest = tag.split('-').peekable();
    let language = rest.next().unwrap_or_default();
    while rest.next_if(|part| part.len() == 3 && !part.as_bytes()[0].is_ascii_digit()).is_some() {}
    let script = rest.next_if(|part| part.len() == 4 && !part.as_bytes()[0].is_ascii_digit());
    let region =
        rest.next_if(|part| part.len() == 2 || (part.len() == 3 && part.as_bytes()[0].is_ascii_digit()));
    Parts { language, script, region }
}

/// Whether an offered language matches a requested one, and how closely. `en` and `en-US` match each other. For
/// `en-US`, `en` is a better match than `en-GB`.
///
/// ```
/// use recount_aaep::language::{Nearness, nearness};
/// assert_eq!(nearness("en", "en-US"), Some(Nearness::SameScript));
/// assert_eq!(nearness("zh-Hant", "zh-Hans"), Some(Nearness::SameLanguage));
/// assert_eq!(nearness("en", "fr"), None);
/// ```
pub fn nearness(wish: &str, offer: &str) -> Option<Nearness> {
    if wish.eq_ignore_ascii_case(offer) {
        return Some(Nearness::Same);
    }
    let (wish, offer) = (parts(wish), parts(offer));
    if !wish.language.eq_ignore_ascii_case(offer.language) || wish.language.len() < 2 {
        return None;
    }
    let script = |one: Option<&str>, two: Option<&str>| match (one, two) {
        (Some(one), Some(two)) => one.eq_ignore_ascii_case(two),
        _ => true,
    };
    Some(if script(wish.script, offer.script) { Nearness::SameScript } else { Nearness::SameLanguage })
}

/// Chooses an offered language. For each wish in order: the same tag, then without region, then without script.
/// Otherwise the producer's fallback chain decides, then its primary language. The result is always a language, because
/// an event is sent whatever its language.
///
/// ```
/// use recount_aaep::language::choose;
/// assert_eq!(choose(&["yo-NG", "fr"], &["fr-CA", "en"], &[], "en"), "fr-CA");
/// assert_eq!(choose(&["tlh"], &["fr-CA", "en"], &[], "en"), "en");
/// ```
pub fn choose<'t>(wishes: &[&str], offers: &[&'t str], chain: &[&'t str], primary: &'t str) -> &'t str {
    wishes
        .iter()
        .find_map(|wish| best(wish, offers))
        .or_else(|| {
            chain.iter().copied().find(|tag| best(tag, offers).is_some()).and_then(|tag| best(tag, offers))
        })
        .unwrap_or(primary)
}

/// The best offer for one wish. Among equals, an offer without another region is preferred, then the first.
pub fn best<'t>(wish: &str, offers: &[&'t str]) -> Option<&'t str> {
    offers
        .iter()
        .filter_map(|offer| {
            let nearness = nearness(wish, offer)?;
            let other_region = match (parts(wish).region, parts(offer).region) {
                (Some(wished), Some(offered)) => !wished.eq_ignore_ascii_case(offered),
                _ => false,
            };
            Some(((nearness, other_region), *offer))
        })
        .min_by_key(|(rank, _)| *rank)
        .map(|(_, offer)| offer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn well_formed_tags_are_recognized() {
        for good in [
            "en",
            "en-US",
            "yo-NG",
            "zh-Hant-TW",
            "zh-cmn-Hans-CN",
            "de-CH-1996",
            "sl-rozaj-biske",
            "es-419",
            "en-a-bbb-x-a-ccc",
            "x-whatever",
            "i-klingon",
            "I-LUX",
            "sgn-BE-FR",
            "art-lojban",
            "de-Latn-DE-u-co-phonebk",
        ] {
            assert!(is_well_formed(good), "{good}");
        }
        for bad in [
            "",
            "e",
            "en_US",
            "english-american-long",
            "en-",
            "-en",
            "en--US",
            "1n",
            "en-US-x",
            "x",
            "en-a",
            "en-é",
            "abcdefghi",
            "en-US-DE",
        ] {
            assert!(!is_well_formed(bad), "{bad}");
        }
        assert!(looks_like_tag("english-american-long") && !looks_like_tag("en_US"));
    }

    /// R-182: thirty pairs of wish and offers.
    #[test]
    fn requested_and_offered_languages_are_matched() {
        let cases: &[(&[&str], &[&str], &str)] = &[
            (&["en"], &["en"], "en"),
            (&["en"], &["en-US"], "en-US"),
            (&["en-US"], &["en"], "en"),
            (&["en-US"], &["en-GB", "en-US"], "en-US"),
            (&["en-US"], &["en-GB", "en"], "en"),
            (&["en-US"], &["en-GB"], "en-GB"),
            (&["EN-us"], &["en-US"], "en-US"),
            (&["en"], &["fr"], "pr"),
            (&["fr-CA"], &["fr-FR", "en"], "fr-FR"),
            (&["fr-CA", "en"], &["en", "fr"], "fr"),
            (&["tlh", "en"], &["fr", "en-AU"], "en-AU"),
            (&["zh-Hant-TW"], &["zh-Hant", "zh-Hans"], "zh-Hant"),
            (&["zh-Hant-TW"], &["zh-Hans", "zh"], "zh"),
            (&["zh-Hant-TW"], &["zh-Hans"], "zh-Hans"),
            (&["zh-TW"], &["zh-Hant-TW"], "zh-Hant-TW"),
            (&["zh-Hans-CN", "zh-Hant"], &["zh-Hant", "zh-Hans-SG"], "zh-Hans-SG"),
            (&["yo"], &["yo-NG"], "yo-NG"),
            (&["yo-NG"], &["yo"], "yo"),
            (&["yo-BJ"], &["yo-NG"], "yo-NG"),
            (&["ha"], &["ig", "yo"], "pr"),
            (&["es-419"], &["es-MX", "es"], "es"),
            (&["es-419"], &["es-MX"], "es-MX"),
            (&["es"], &["es-419"], "es-419"),
            (&["sr-Cyrl"], &["sr-Latn", "sr-Cyrl-RS"], "sr-Cyrl-RS"),
            (&["sr"], &["sr-Latn"], "sr-Latn"),
            (&["de-CH-1996"], &["de-CH", "de"], "de-CH"),
            (&["pt-BR"], &["pt-PT", "pt-BR"], "pt-BR"),
            (&["i-klingon"], &["i-lux"], "pr"),
            (&["x-one"], &["x-two"], "pr"),
            (&[], &["en"], "pr"),
        ];
        for (wishes, offers, chosen) in cases {
            assert_eq!(choose(wishes, offers, &[], "pr"), *chosen, "{wishes:?} of {offers:?}");
        }
        assert_eq!(
            choose(&["tlh"], &["en", "fr"], &["de", "fr"], "en"),
            "fr",
            "the producer's chain comes next"
        );
    }
}
