//! Reply tokens of prompts that are asked again: each time under a token of its own, made from the first one. Pure.
//!
//! A token that was withdrawn is never used again, and both sides can see which prompt one is of. See [`next`].

use recount_aaep::wire::ReplyToken;

/// Between the first token and the number of times that the prompt was asked again. No digit of a token.
const MARK: char = 'x';

/// The token of the same prompt when it is asked once more.
pub(crate) fn next(token: &ReplyToken) -> ReplyToken {
    let (first, times) = parts(token);
    ReplyToken::new(format!("{first}{MARK}{}", times.saturating_add(1)))
        .unwrap_or_else(|why| unreachable!("letters and digits: {why}"))
}

/// The token of a prompt with this first one, when it was asked again so often.
pub(crate) fn asked_again(first: &ReplyToken, times: u64) -> ReplyToken {
    if times == 0 {
        return first.clone();
    }
    ReplyToken::new(format!("{}{MARK}{times}", first.as_str()))
        .unwrap_or_else(|why| unreachable!("letters and digits: {why}"))
}

/// The first token of the prompt, and how often it was asked again.
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
