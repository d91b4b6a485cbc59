//! Errors of TOML files as one line. It must not show the text of a file, which may contain a secret. See [`one_line`].

/// The line and the problem.
pub fn one_line(why: &toml::de::Error, text: &str) -> String {
    let before = why.span().and_then(|span| text.get(..span.start));
    let line = before.map(|before| before.matches('\n').count() + 1);
    line.map_or_else(|| why.message().to_owned(), |line| format!("line {line}: {}", why.message()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_line_that_shows_nothing_of_the_file() {
        let text = "a = 1\nsecret_text\n";
        let why = toml::from_str::<toml::Table>(text).unwrap_err();
        let shown = one_line(&why, text);
        assert!(shown.starts_with("line 2: ") && !shown.contains("secret_text"), "{shown}");
        let policy = crate::policy::Policy::parse(text).unwrap_err().to_string();
        assert_eq!(policy, format!("the policy cannot be read: {shown}"));
    }
}
