//! Converts open prompts to requests to the editor, and the editor's responses to decisions. Pure.
//!
//! Must not depend on how requests are sent. Start with [`permission`] and [`form`].

use recount_client::request::{AllowanceScope, Verdict};
use recount_event::Json;
use recount_event::family::{approval, clarification, handoff};
use serde_json::{Map, Value, json};

use crate::patch;
use crate::project::{OpenPrompt, Projector, call, question};

/// The decision in a response of the editor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) verdict: Verdict,
    pub(crate) remember: Option<AllowanceScope>,
}

/// The options of a permission: id, name, kind and decision. Those that remember the decision need an approval that can
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

/// The parameters of `session/request_permission`; `None` for questions, which are not answered with yes or no.
pub(crate) fn permission(session: &str, prompt: &OpenPrompt, projector: &Projector) -> Option<Value> {
    let (tool_call, can_be_remembered) = match prompt {
        OpenPrompt::Approval(request) => {
            (approval_call(request, projector), request.allowance_digest.is_some())
        }
        OpenPrompt::Handoff(request) => (handoff_call(request, projector), false),
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

fn approval_call(request: &approval::Requested, projector: &Projector) -> Value {
    let mut shown = projector.prompted_call(&request.tool_call_id).unwrap_or_else(
        || json!({ "toolCallId": request.tool_call_id.as_str(), "title": request.summary, "status": "pending" }),
    );
    let mut content: Vec<Value> = shown["content"].as_array().cloned().unwrap_or_default();
    // The effect and whether it can be undone come first, the reason of the policy comes last.
    let mut words: Vec<String> = Vec::new();
    words.extend(request.action.clone());
    words.extend(request.consequence.clone());
    words.extend(undoing(request).map(str::to_owned));
    if !words.contains(&request.summary) {
        words.push(request.summary.clone());
    }
    words.extend(request.risk_level.iter().map(|risk| format!("Risk: {risk}")));
    if let (Some(size), preview) = (request.preview_size_bytes, request.preview.as_ref()) {
        let shown = preview.map_or(0, String::len);
        let artifact = request.preview_artifact_id.as_ref().map_or("", |id| id.as_str());
        words.push(format!(
            "Only the first {shown} of {size} bytes are shown. The artifact {artifact} has all of them."
        ));
    }
    let places = match (request.preview_kind.as_deref(), &request.preview) {
        (Some("diff"), Some(diff)) => patch::sides(diff),
        _ => Vec::new(),
    };
    if let Some(preview) =
        request.preview.as_ref().filter(|preview| places.is_empty() && **preview != request.summary)
    {
        words.push(preview.clone());
    }
    words.extend(request.policy_reason.iter().map(|reason| format!("Reason: {reason}")));
    words.dedup();
    content.push(text(&words.join("\n")));
    for place in places {
        let path = call::absolute(projector.root(), place.path.as_deref().unwrap_or(""));
        content.push(call::diff(&path, &place));
    }
    shown["content"] = json!(content);
    shown
}

/// A sentence on whether the effect can be undone, unless the consequence has one.
fn undoing(request: &approval::Requested) -> Option<&'static str> {
    if request.irreversible == Some(true) {
        return Some("This cannot be undone.");
    }
    let is_stated = request.consequence.as_ref().is_some_and(|consequence| consequence.contains("undone"));
    match request.reversibility? {
        approval::Reversibility::Irreversible => Some("This cannot be undone."),
        _ if is_stated => None,
        approval::Reversibility::PartiallyReversible => Some("This can only be undone in part."),
        approval::Reversibility::Reversible => Some("This can be undone."),
    }
}

fn handoff_call(request: &handoff::Requested, projector: &Projector) -> Value {
    let call = request.tool_call_id.as_ref();
    let id = call.unwrap_or(&request.handoff_id).as_str();
    let title = format!("Take over: {}", request.reason);
    let mut shown = call
        .and_then(|call| projector.prompted_call(call))
        .unwrap_or_else(|| json!({ "toolCallId": id, "kind": "other", "status": "pending" }));
    shown["title"] = json!(call::shortened(&title));
    let summary = [&request.summary_detailed, &request.summary_normal, &request.summary_terse]
        .into_iter()
        .flatten()
        .next();
    let mut words = vec![format!("The agent hands over its work: {}", request.reason)];
    words.extend(summary.cloned());
    if let Some(context) = &request.packaged_context {
        words.push(context.text().to_owned());
    }
    shown["content"] = json!([text(&words.join("\n"))]);
    shown
}

fn text(words: &str) -> Value {
    json!({ "type": "content", "content": { "type": "text", "text": words } })
}

/// The decision in the response to a permission. `None`: no decision, so the prompt stays open for all faces.
pub(crate) fn decision(answer: &Value) -> Option<Decision> {
    let outcome = answer.get("outcome")?;
    if outcome.get("outcome")? != "selected" {
        return None;
    }
    let option = outcome.get("optionId")?.as_str()?;
    OPTIONS.iter().find(|(id, ..)| *id == option).map(|(.., decision)| *decision)
}

/// The parameters of `elicitation/create`.
pub(crate) fn form(session: &str, request: &clarification::Requested) -> Value {
    let mut properties = Map::new();
    let options: Vec<Value> = question::choices(request)
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
        "message": question::words(request),
        "requestedSchema": { "type": "object", "properties": properties, "required": required },
    });
    if let Some(call) = &request.tool_call_id {
        params["toolCallId"] = json!(call.as_str());
    }
    params
}

/// The answer to a question, as JSON; `None` if the form was not filled in.
pub(crate) fn reply(request: &clarification::Requested, answer: &Value) -> Option<String> {
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
    request.choices.as_ref()?.get(at).map(choice_value)
}

/// The value of a choice: its `value` if it has one, else the choice itself.
fn choice_value(choice: &Json) -> String {
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
        let mut request = clarification::Requested::new(id, "Which one?".into());
        request.choices = choices.map(|choices| serde_json::from_str(choices).unwrap());
        request
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
    fn a_form_answers_with_a_text_or_the_value_of_a_choice() {
        let plain = question_with(None);
        let filled_form = |answer: &str| json!({"action": "accept", "content": {"text": answer}});
        assert_eq!(reply(&plain, &filled_form("red")), Some("\"red\"".into()));
        assert_eq!(reply(&plain, &filled_form(" ")), None);
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
