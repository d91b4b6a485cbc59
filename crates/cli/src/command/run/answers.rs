//! Parses the reply of a person to a prompt. Pure; see [`Reply::read`].
//!
//! Only an explicit yes counts as a yes.

use recount_client::request::AllowanceScope;

use crate::render::live::{Kind, Prompt};

/// What a line means as an answer.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::command) enum Reply {
    Approve(Option<String>),
    /// Allow it, and the same call from here on.
    Always(AllowanceScope),
    Reject(Option<String>),
    /// One of the choices, counted from 0.
    Choice(usize),
    Text(String),
    Take(Option<String>),
    Decline(Option<String>),
    /// More is to be shown first.
    Details,
    /// The next page of what a call would do.
    More,
    /// It means nothing here; what would.
    Unclear(String),
}

impl Reply {
    pub(in crate::command) fn read(prompt: &Prompt, line: &str) -> Reply {
        let line = line.trim();
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = Some(rest.trim()).filter(|rest| !rest.is_empty()).map(str::to_owned);
        let word = word.to_lowercase();
        if matches!(word.as_str(), "d" | "details") && rest.is_none() {
            return Reply::Details;
        }
        match &prompt.kind {
            Kind::Approval { always } => match word.as_str() {
                "y" | "yes" | "a" | "always" if prompt.not_approvable().is_some() => {
                    Reply::Unclear(prompt.not_approvable().unwrap_or_default().to_owned())
                }
                "y" | "yes" => Reply::Approve(rest),
                "a" | "always" => match (*always, rest.as_deref()) {
                    (None, _) => Reply::Unclear(
                        "This call needs approval every time. Type y, n, m or d; nothing was decided."
                            .to_owned(),
                    ),
                    (Some(usual), None) => Reply::Always(usual),
                    (Some(_), Some(given)) => {
                        let known = AllowanceScope::ALL.iter().find(|scope| scope.as_str() == given);
                        known.map_or_else(
                            || {
                                let words = "Type a, a run, a session or a workspace; nothing was decided.";
                                Reply::Unclear(words.to_owned())
                            },
                            |scope| Reply::Always(*scope),
                        )
                    }
                },
                "n" | "no" => Reply::Reject(rest),
                "m" | "more" if rest.is_none() => Reply::More,
                _ if always.is_some() => {
                    Reply::Unclear("Type y, a, n, m or d; nothing was decided.".to_owned())
                }
                _ => Reply::Unclear("Type y, n, m or d; nothing was decided.".to_owned()),
            },
            Kind::Question { choices } => match line.parse::<usize>() {
                _ if line.is_empty() => Reply::Unclear("Type an answer; nothing was sent.".to_owned()),
                Ok(number) if (1..=choices.len()).contains(&number) => Reply::Choice(number - 1),
                Ok(_) if !choices.is_empty() => {
                    let most = choices.len();
                    Reply::Unclear(format!("Type a number from 1 to {most}, or an answer; nothing was sent."))
                }
                _ => Reply::Text(line.to_owned()),
            },
            Kind::Handoff => match word.as_str() {
                "t" | "take" => Reply::Take(rest),
                "decline" => Reply::Decline(rest),
                _ => Reply::Unclear("Type take, decline or d; nothing was decided.".to_owned()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::live::{Live, Paint};

    fn prompt(type_name: &str, data: &str) -> Prompt {
        let event = format!(r#"{{"run_id":"run_1","type":"{type_name}","data":{data}}}"#);
        let mut prompt = Live::new(Paint(false)).event(&event).prompt.expect("something is asked");
        prompt.next_page(None);
        prompt
    }

    #[track_caller]
    fn check(prompt: &Prompt, line: &str, expected: &Reply) {
        assert_eq!(&Reply::read(prompt, line), expected, "{line:?}");
    }

    fn comment(words: &str) -> Option<String> {
        Some(words.to_owned())
    }

    #[test]
    fn only_a_yes_is_a_yes() {
        let prompt = prompt("approval.requested", r#"{"approval_id":"a","summary":"rm x"}"#);
        check(&prompt, " Y \n", &Reply::Approve(None));
        check(&prompt, "yes  go ahead ", &Reply::Approve(comment("go ahead")));
        check(&prompt, "n not that folder", &Reply::Reject(comment("not that folder")));
        check(&prompt, "no", &Reply::Reject(None));
        check(&prompt, "d", &Reply::Details);
        check(&prompt, "m", &Reply::More);
        for line in ["", "a", "a run", "m y", "ye", "yep", "ok", "1", "yno", "d e"] {
            assert!(matches!(Reply::read(&prompt, line), Reply::Unclear(_)), "{line:?}");
        }
    }

    #[test]
    fn what_was_not_shown_to_its_end_is_not_approved() {
        let lines = "x\\n".repeat(150);
        let data =
            format!(r#"{{"approval_id":"a","summary":"s","preview":"{lines}","allowance_digest":"d"}}"#);
        let mut prompt = prompt("approval.requested", &data);
        for line in ["y", "yes please", "a", "always session"] {
            assert!(matches!(Reply::read(&prompt, line), Reply::Unclear(_)), "{line:?}");
        }
        check(&prompt, "n", &Reply::Reject(None));
        check(&prompt, "m", &Reply::More);
        prompt.next_page(None);
        check(&prompt, "y", &Reply::Approve(None));
        let part = r#"{"approval_id":"a","summary":"s","preview":"abc","preview_size_bytes":9}"#;
        let prompt = self::prompt("approval.requested", part);
        assert!(matches!(Reply::read(&prompt, "y"), Reply::Unclear(_)));
    }

    #[test]
    fn always_takes_a_scope_or_the_usual_one() {
        let data = r#"{"approval_id":"a","summary":"make test","allowance_digest":"blake3:1"}"#;
        let prompt = prompt("approval.requested", data);
        check(&prompt, "a", &Reply::Always(AllowanceScope::Run));
        check(&prompt, "always session", &Reply::Always(AllowanceScope::Session));
        check(&prompt, "A workspace", &Reply::Always(AllowanceScope::Workspace));
        check(&prompt, "y", &Reply::Approve(None));
        for line in ["a b", "a run please", "al", "always ever"] {
            assert!(matches!(Reply::read(&prompt, line), Reply::Unclear(_)), "{line:?}");
        }
    }

    #[test]
    fn a_question_takes_numbers_and_words() {
        let choices =
            r#"{"clarification_id":"c","question":"which?","choices":["a",{"label":"b","value":2}]}"#;
        let chosen = prompt("clarification.requested", choices);
        check(&chosen, "2", &Reply::Choice(1));
        check(&chosen, "neither", &Reply::Text("neither".to_owned()));
        for line in ["0", "3", ""] {
            assert!(matches!(Reply::read(&chosen, line), Reply::Unclear(_)), "{line:?}");
        }
        let free = prompt("clarification.requested", r#"{"clarification_id":"c","question":"how many?"}"#);
        check(&free, "3", &Reply::Text("3".to_owned()));
    }

    #[test]
    fn a_handoff_is_taken_or_declined() {
        let prompt =
            prompt("handoff.requested", r#"{"handoff_id":"h","reason":"stuck","target_kind":"human"}"#);
        check(&prompt, "take", &Reply::Take(None));
        check(&prompt, "decline not ours", &Reply::Decline(comment("not ours")));
        assert!(matches!(Reply::read(&prompt, "y"), Reply::Unclear(_)));
    }
}
