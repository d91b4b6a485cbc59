//! What the agent asks the editor about an open prompt, and what the editor's answer means for the server.
//!
//! Pure. It must not know how requests are sent. Look at [`permission`] and [`form`].

use recount_client::request::{AllowanceScope, Verdict};
use recount_event::Json;
use recount_event::family::{approval, clarification, handoff};
use serde_json::{Map, Value, json};

use crate::patch;
use crate::project::{OpenPrompt, Projector, call, question};

/// What an answer of the editor decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) verdict: Verdict,
    pub(crate) remember: Option<AllowanceScope>,
}

/// The options of a permission: their id, name and kind, and what they decide. The last three need an approval that can
/// be remembered.
const OPTIONS: [(&str, &str, &str, Decision); 5] = [
    ("allow", "Allow", "allow_once", Decision { verdict: Verdict::Approve, remember: None }),
    (
        "allow_session",
        "Always allow this call in this session",
        "allow_always",
        Decision { verdict: Verdict::Approve, remember: Some(AllowanceScope::Session) },
    ),
    (
        "allow_workspace",
        "Always allow this call in this folder",
        "allow_always",
        Decision { verdict: Verdict::Approve, remember: Some(AllowanceScope::Workspace) },
    ),
    (
        "allow_run",
        "Always allow this call in this turn",
        "allow_always",
        Decision { verdict: Verdict::Approve, remember: Some(AllowanceScope::Run) },
    ),
    ("reject", "Reject", "reject_once", Decision { verdict: Verdict::Reject, remember: None }),
];

/// The parameters of `session/request_permission`; `None` for questions, which are no matter of yes or no.
pub(crate) fn permission(session: &str, prompt: &OpenPrompt, projector: &Projector) -> Option<Value> {
    let (tool_call, can_be_remembered) = match prompt {
        OpenPrompt::Approval(asked) => (approval_call(asked, projector), asked.allowance_digest.is_some()),
        OpenPrompt::Handoff(asked) => (handoff_call(asked, projector), false),
        OpenPrompt::Clarification(_) => return None,
    };
    let is_offered = |decision: &Decision| decision.remember.is_none() || can_be_remembered;
    let options: Vec<Value> = OPTIONS
        .iter()
        .filter(|(.., decision)| is_offered(decision))
        .map(|(id, name, kind, _)| json!({ "optionId": id, "name": name, "kind": kind }))
        .collect();
    Some(json!({ "sessionId": session, "toolCall": tool_call, "options": options }))
}

fn approval_call(asked: &approval::Requested, projector: &Projector) -> Value {
    let mut shown = projector.asked_call(&asked.tool_call_id).unwrap_or_else(
        || json!({ "toolCallId": asked.tool_call_id.as_str(), "title": asked.summary, "status": "pending" }),
    );
    let mut content: Vec<Value> = shown["content"].as_array().cloned().unwrap_or_default();
    let mut words: Vec<String> = vec![asked.summary.clone()];
    words.extend(asked.policy_reason.iter().map(|reason| format!("Reason: {reason}")));
    words.extend(asked.action.clone());
    words.extend(asked.consequence.clone());
    words.extend(asked.risk_level.iter().map(|risk| format!("Risk: {risk}")));
    if asked.irreversible == Some(true) {
        words.push("This cannot be undone.".to_owned());
    }
    if let (Some(size), preview) = (asked.preview_size_bytes, asked.preview.as_ref()) {
        let shown = preview.map_or(0, String::len);
        let artifact = asked.preview_artifact_id.as_ref().map_or("", |id| id.as_str());
        words.push(format!(
            "Only the first {shown} of {size} bytes are shown; all are in the artifact {artifact}."
        ));
    }
    let places = match (asked.preview_kind.as_deref(), &asked.preview) {
        (Some("diff"), Some(diff)) => patch::sides(diff),
        _ => Vec::new(),
    };
    if let Some(preview) =
        asked.preview.as_ref().filter(|preview| places.is_empty() && **preview != asked.summary)
    {
        words.push(preview.clone());
    }
    words.dedup();
    content.push(text(&words.join("\n")));
    for place in places {
        let path = call::absolute(projector.root(), place.path.as_deref().unwrap_or(""));
        content.push(call::diff(&path, &place));
    }
    shown["content"] = json!(content);
    shown
}

fn handoff_call(asked: &handoff::Requested, projector: &Projector) -> Value {
    let call = asked.tool_call_id.as_ref();
    let id = call.unwrap_or(&asked.handoff_id).as_str();
    let title = format!("Take over: {}", asked.reason);
    let mut shown = call
        .and_then(|call| projector.asked_call(call))
        .unwrap_or_else(|| json!({ "toolCallId": id, "kind": "other", "status": "pending" }));
    shown["title"] = json!(call::shortened(&title));
    let summary =
        [&asked.summary_detailed, &asked.summary_normal, &asked.summary_terse].into_iter().flatten().next();
    let mut words = vec![format!("The agent hands its work over: {}", asked.reason)];
    words.extend(summary.cloned());
    if let Some(context) = &asked.packaged_context {
        words.push(context.text().to_owned());
    }
    shown["content"] = json!([text(&words.join("\n"))]);
    shown
}

fn text(words: &str) -> Value {
    json!({ "type": "content", "content": { "type": "text", "text": words } })
}

/// What an answer to a permission decides. `None`: nothing, so that the prompt stays open for all faces.
pub(crate) fn decision(answer: &Value) -> Option<Decision> {
    let outcome = answer.get("outcome")?;
    if outcome.get("outcome")? != "selected" {
        return None;
    }
    let option = outcome.get("optionId")?.as_str()?;
    OPTIONS.iter().find(|(id, ..)| *id == option).map(|(.., decision)| *decision)
}

/// The parameters of `elicitation/create`.
pub(crate) fn form(session: &str, asked: &clarification::Requested) -> Value {
    let mut properties = Map::new();
    let options: Vec<Value> = question::choices(asked)
        .iter()
        .enumerate()
        .map(|(at, label)| json!({ "const": at.to_string(), "title": label }))
        .collect();
    let mut required = Vec::new();
    if options.is_empty() {
        properties.insert("text".to_owned(), json!({ "type": "string", "title": "Answer" }));
        required.push("text");
    } else {
        properties
            .insert("choice".to_owned(), json!({ "type": "string", "title": "Choice", "oneOf": options }));
        properties.insert("text".to_owned(), json!({ "type": "string", "title": "Another answer" }));
    }
    let mut params = json!({
        "sessionId": session,
        "mode": "form",
        "message": question::words(asked),
        "requestedSchema": { "type": "object", "properties": properties, "required": required },
    });
    if let Some(call) = &asked.tool_call_id {
        params["toolCallId"] = json!(call.as_str());
    }
    params
}

/// The answer to the question, as JSON; `None` if the form was not filled in.
pub(crate) fn reply(asked: &clarification::Requested, answer: &Value) -> Option<String> {
    if answer.get("action")? != "accept" {
        return None;
    }
    let content = answer.get("content")?;
    let filled =
        |name: &str| content.get(name).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
    if let Some(text) = filled("text") {
        return Some(Value::from(text).to_string());
    }
    let at: usize = filled("choice")?.parse().ok()?;
    asked.choices.as_ref()?.get(at).map(meant)
}

/// What a choice stands for: its `value` where it has one, else the choice itself.
fn meant(choice: &Json) -> String {
    let value = serde_json::from_str::<Value>(choice.text())
        .ok()
        .and_then(|mut choice| choice.as_object_mut().and_then(|choice| choice.remove("value")));
    value.map_or_else(|| choice.text().to_owned(), |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use recount_event::ForeignId;

    use super::*;

    fn question_with(choices: Option<&str>) -> clarification::Requested {
        let id = ForeignId::parse("clar-1").unwrap();
        let mut asked = clarification::Requested::new(id, "Which one?".into());
        asked.choices = choices.map(|choices| serde_json::from_str(choices).unwrap());
        asked
    }

    #[test]
    fn only_a_known_option_decides() {
        let of = |option: &str| decision(&json!({"outcome": {"outcome": "selected", "optionId": option}}));
        assert_eq!(of("allow"), Some(Decision { verdict: Verdict::Approve, remember: None }));
        let remember = Some(AllowanceScope::Workspace);
        assert_eq!(of("allow_workspace"), Some(Decision { verdict: Verdict::Approve, remember }));
        assert_eq!(of("reject"), Some(Decision { verdict: Verdict::Reject, remember: None }));
        let open = [
            of("yes"),
            decision(&json!({"outcome": {"outcome": "cancelled"}})),
            decision(&json!({"outcome": {"outcome": "cancelled", "optionId": "allow"}})),
            decision(&json!({"outcome": "selected"})),
            decision(&json!({"outcome": {"outcome": "selected"}})),
            decision(&Value::Null),
        ];
        assert_eq!(open, [None; 6]);
    }

    #[test]
    fn a_form_answers_with_a_text_or_what_a_choice_stands_for() {
        let plain = question_with(None);
        let said = |answer: &str| json!({"action": "accept", "content": {"text": answer}});
        assert_eq!(reply(&plain, &said("red")), Some("\"red\"".into()));
        assert_eq!(reply(&plain, &said(" ")), None);
        let choosing = question_with(Some(r#"["red",{"label":"Green","value":7},{"id":"b"}]"#));
        let form = form("s", &choosing);
        let options = &form["requestedSchema"]["properties"]["choice"]["oneOf"];
        let titles: Vec<&str> =
            options.as_array().unwrap().iter().map(|o| o["title"].as_str().unwrap()).collect();
        assert_eq!(titles, ["red", "Green", "b"]);
        let chosen = |at: &str| reply(&choosing, &json!({"action": "accept", "content": {"choice": at}}));
        assert_eq!([chosen("0"), chosen("1")], [Some("\"red\"".into()), Some("7".into())]);
        assert_eq!((chosen("2"), chosen("9"), chosen("x")), (Some(r#"{"id":"b"}"#.into()), None, None));
        for action in ["decline", "cancel", "other"] {
            assert_eq!(reply(&plain, &json!({"action": action, "content": {"text": "x"}})), None);
        }
        assert_eq!(
            question::text(&choosing),
            "\n\nWhich one?\n- red\n- Green\n- b\n\n(Your next message is the answer.)"
        );
    }
}
