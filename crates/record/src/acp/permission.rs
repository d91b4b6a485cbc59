//! Permission requests: their options, and the decision in a response.

use serde_json::{Value, json};

use crate::recording::{Decided, Elsewhere};

/// The decision of a person in Recount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    Approve { always: bool },
    Reject,
}

/// The options that an agent offers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options(Vec<PermissionOption>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct PermissionOption {
    id: String,
    name: String,
    kind: String,
}

impl Options {
    /// Of the parameters of `session/request_permission`.
    pub fn of(params: &Value) -> Self {
        let text = |option: &Value, name: &str| option[name].as_str().unwrap_or("").to_owned();
        let read = |option: &Value| PermissionOption {
            id: text(option, "optionId"),
            name: text(option, "name"),
            kind: text(option, "kind"),
        };
        Options(params["options"].as_array().into_iter().flatten().map(read).collect())
    }

    /// The result that carries a choice to the agent. A lasting option is selected only for a lasting
    /// choice; an option of the other duration is used if there is no better one. `None`: no option matches.
    pub fn result(&self, choice: Choice) -> Option<Value> {
        let kinds = match choice {
            Choice::Approve { always: true } => ["allow_always", "allow_once"],
            Choice::Approve { always: false } => ["allow_once", "allow_always"],
            Choice::Reject => ["reject_once", "reject_always"],
        };
        let option = kinds.iter().find_map(|kind| self.0.iter().find(|option| option.kind == *kind))?;
        Some(json!({ "outcome": { "outcome": "selected", "optionId": option.id } }))
    }

    /// The editor's response, as a decision made elsewhere.
    pub(super) fn elsewhere(&self, response: &Value) -> Elsewhere {
        let by = "editor";
        let outcome = &response["result"]["outcome"];
        if outcome["outcome"] == "cancelled" {
            return Elsewhere::undecided(by, "the editor cancelled the request");
        }
        let Some(id) = outcome["optionId"].as_str() else {
            return Elsewhere::undecided(by, "the editor returned none of the options");
        };
        let Some(option) = self.0.iter().find(|option| option.id == id) else {
            return Elsewhere::undecided(by, "the editor returned an option that the agent did not offer");
        };
        let comment = format!("the editor selected the option {:?} ({})", option.name, option.kind);
        let decided = match &*option.kind {
            "allow_once" | "allow_always" => Decided::Approved,
            "reject_once" | "reject_always" => Decided::Rejected,
            _ => Decided::Undecided,
        };
        Elsewhere { by: by.to_owned(), decided, comment }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(kinds: &[&str]) -> Options {
        let list: Vec<Value> =
            kinds.iter().map(|kind| json!({"optionId": kind, "name": "N", "kind": kind})).collect();
        Options::of(&json!({ "options": list }))
    }

    #[test]
    fn a_decision_selects_the_matching_option() {
        let id = |options: &Options, choice| {
            options.result(choice).map(|result| result["outcome"]["optionId"].clone())
        };
        let all = options(&["allow_always", "allow_once", "reject_always", "reject_once"]);
        assert_eq!(id(&all, Choice::Approve { always: false }), Some("allow_once".into()));
        assert_eq!(id(&all, Choice::Approve { always: true }), Some("allow_always".into()));
        assert_eq!(id(&all, Choice::Reject), Some("reject_once".into()));
        let few = options(&["allow_always", "sometimes"]);
        assert_eq!(id(&few, Choice::Approve { always: false }), Some("allow_always".into()));
        assert_eq!(id(&few, Choice::Reject), None);
        assert_eq!(Options::of(&json!({"options": 7})), Options::default());
    }

    #[test]
    fn an_answer_has_the_decision() {
        let all = options(&["allow_once", "reject_once"]);
        let decided = |response: Value| all.elsewhere(&response).decided;
        let selected = |id: &str| json!({"result": {"outcome": {"outcome": "selected", "optionId": id}}});
        assert_eq!(decided(selected("allow_once")), Decided::Approved);
        assert_eq!(decided(selected("reject_once")), Decided::Rejected);
        assert_eq!(decided(selected("other")), Decided::Undecided);
        assert_eq!(decided(json!({"result": {"outcome": {"outcome": "cancelled"}}})), Decided::Undecided);
        assert_eq!(decided(json!({"error": {"code": 1}})), Decided::Undecided);
    }
}
