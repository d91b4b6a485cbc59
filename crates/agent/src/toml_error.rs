//! Errors of TOML files as one line. See [`one_line`].

/// The line number, the problem and the key. A syntax error shows nothing of the file. An error of a type may quote a key or
/// a value, so of a file that may contain secrets only syntax errors are shown with this.
pub fn one_line(why: &toml::de::Error, text: &str) -> String {
    let before = why.span().and_then(|span| text.get(..span.start));
    let line = before.map(|before| before.matches('\n').count() + 1);
    let mut without_text = why.clone();
    without_text.set_input(None);
    let problem = without_text.to_string().trim_end().replace(char::is_control, " ");
    line.map_or_else(|| problem.clone(), |line| format!("line {line}: {problem}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_syntax_error_is_one_line_that_shows_nothing_of_the_file() {
        let text = "a = 1\nsecret_text\n";
        let why = toml::from_str::<toml::Table>(text).unwrap_err();
        let shown = one_line(&why, text);
        assert!(shown.starts_with("line 2: ") && !shown.contains("secret_text"), "{shown}");
        let policy = crate::policy::Policy::parse(text).unwrap_err().to_string();
        assert_eq!(policy, format!("the policy cannot be read: {shown}"));
    }

    #[test]
    fn an_error_of_a_type_is_one_line_too() {
        for text in ["\n\"ab\\nc\" = 1\n", "\n\"ab\\u001b[2J\" = 1\n"] {
            let shown = crate::policy::Policy::parse(text).unwrap_err().to_string();
            assert!(shown.contains("line 2: ") && shown.contains("ab"), "{shown}");
            assert!(!shown.contains(char::is_control), "{shown:?}");
        }
    }
}
