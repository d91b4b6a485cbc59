//! Reply tokens of repeated prompts: each repetition has its own token, derived from the first one. Pure.
//!
//! A withdrawn token is never used again. The prompt can be found from every token of it. Start with [`next`].

use recount_aaep::wire::ReplyToken;

/// Separates the first token from the number of repetitions. Tokens do not contain it.
const MARK: char = 'x';

/// The token for the next repetition of the same prompt.
pub(crate) fn next(token: &ReplyToken) -> ReplyToken {
    let (first, times) = parts(token);
    ReplyToken::new(format!("{first}{MARK}{}", times.saturating_add(1)))
        .unwrap_or_else(|why| unreachable!("letters and digits: {why}"))
}

/// The token of a prompt after `times` repetitions.
pub(crate) fn repeated(first: &ReplyToken, times: u64) -> ReplyToken {
    if times == 0 {
        return first.clone();
    }
    ReplyToken::new(format!("{}{MARK}{times}", first.as_str()))
        .unwrap_or_else(|why| unreachable!("letters and digits: {why}"))
}

/// The first token of the prompt, and how often it was repeated.
pub(crate) fn parts(token: &ReplyToken) -> (&str, u64) {
    let text = token.as_str();
    match text.rsplit_once(MARK).and_then(|(first, times)| Some((first, times.parse().ok()?))) {
        Some(parts) => parts,
        None => (text, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_token_of_a_prompt_differs_and_names_the_first() {
        let first = ReplyToken::new("rpl_00ff00ff00ff00ff00ff00ff00ff00ff").unwrap();
        let second = next(&first);
        let third = next(&second);
        assert_eq!(parts(&first), (first.as_str(), 0));
        assert_eq!(parts(&second), (first.as_str(), 1));
        assert_eq!(parts(&third), (first.as_str(), 2));
        assert_eq!(third.as_str(), "rpl_00ff00ff00ff00ff00ff00ff00ff00ffx2");
    }
}
