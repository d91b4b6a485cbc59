//! The contract of Claude Code's hooks: the JSON object that a script reads, and the answers that it gives.
//!
//! Look at [`request`] and [`ruling`]. A decision that this server cannot carry out, such as another input, is a veto:
//! a script that wanted to change a call does not get it made unchanged. Pure.

use serde::Deserialize;
use serde_json::{Value, json};

use super::names::ForeignCall;
use super::process::{HookFault, HookReply};
use super::ruling::{Ruling, by_status, in_short};
use super::settings::HookEvent;

/// What a script learns beside the call.
pub(super) struct ScriptContext<'a> {
    pub(super) session: &'a str,
    pub(super) cwd: &'a str,
    pub(super) tool_use_id: &'a str,
}

/// The object on a script's standard input. `response` is what the call brought, after it.
pub(super) fn request(
    event: HookEvent,
    around: &ScriptContext<'_>,
    call: &ForeignCall,
    response: Option<&Value>,
) -> Vec<u8> {
    let mut object = json!({
        "session_id": around.session,
        // Scripts read it without a look, and there is no such file: this one is always empty.
        "transcript_path": "/dev/null",
        "cwd": around.cwd,
        "permission_mode": "default",
        "hook_event_name": event.as_str(),
        "tool_name": call.name,
        "tool_input": call.input,
        "tool_use_id": around.tool_use_id,
    });
    if let Some(output) = response {
        object["tool_response"] = tool_response(call, output);
    }
    let mut bytes = object.to_string().into_bytes();
    bytes.push(b'\n');
    bytes
}

/// What a call brought, with the members that scripts look at.
fn tool_response(call: &ForeignCall, output: &Value) -> Value {
    let mut response = json!({ "success": true, "output": output });
    if let Some(path) = call.input.get("file_path") {
        response["filePath"] = path.clone();
    }
    if call.name == "Bash" {
        response["stdout"] = output.clone();
        response["stderr"] = json!("");
        response["interrupted"] = json!(false);
    }
    response
}

/// The object that a script may write to its standard output.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ScriptAnswer {
    r#continue: Option<bool>,
    stop_reason: Option<String>,
    /// The older way to decide.
    decision: Option<String>,
    reason: Option<String>,
    hook_specific_output: Option<Specific>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Specific {
    permission_decision: Option<String>,
    permission_decision_reason: Option<String>,
    updated_input: Option<Value>,
}

/// What a script rules on a call whose input it got as `sent`.
pub(super) fn ruling(reply: &HookReply, sent: &Value) -> Result<Ruling, HookFault> {
    let by_status = by_status(reply)?;
    if by_status != Ruling::Pass {
        return Ok(by_status);
    }
    match answered_ruling(reply, sent) {
        // What is known of a veto is enough.
        Ok(veto @ Ruling::Veto(_)) => Ok(veto),
        _ if reply.left_open => Err(HookFault::LeftOpen),
        ruling => ruling,
    }
}

/// What it wrote, when its exit status says nothing against the call.
fn answered_ruling(reply: &HookReply, sent: &Value) -> Result<Ruling, HookFault> {
    let stdout = reply.stdout.trim_ascii();
    // Anything else is a text for people.
    if !stdout.starts_with(b"{") {
        return Ok(Ruling::Pass);
    }
    let answer = serde_json::from_slice::<ScriptAnswer>(stdout);
    let answer = answer.map_err(|why| HookFault::Garbled(why.to_string()))?;
    let specific = answer.hook_specific_output.unwrap_or_default();
    if answer.r#continue == Some(false) {
        return Ok(Ruling::Veto(in_short(&answer.stop_reason.or(answer.reason).unwrap_or_default())));
    }
    let older = answer.decision.as_deref().map(|word| decided(word, answer.reason.as_deref()));
    let newer = specific.permission_decision.as_deref();
    let newer = newer.map(|word| decided(word, specific.permission_decision_reason.as_deref()));
    let rulings = [newer.transpose()?, older.transpose()?];
    // The stricter of two counts.
    let strictest = rulings.into_iter().flatten().max_by_key(|ruling| match ruling {
        Ruling::Pass => 0,
        Ruling::Ask(_) => 1,
        Ruling::Veto(_) => 2,
    });
    match strictest {
        Some(veto @ Ruling::Veto(_)) => Ok(veto),
        _ if specific.updated_input.as_ref().is_some_and(|input| input != sent) => Ok(Ruling::Veto(
            "it answered with another input (updatedInput), and a call is made as it was recorded or not at all".into(),
        )),
        ruling => Ok(ruling.unwrap_or(Ruling::Pass)),
    }
}

fn decided(word: &str, reason: Option<&str>) -> Result<Ruling, HookFault> {
    let reason = in_short(reason.unwrap_or_default());
    match word {
        "allow" | "approve" => Ok(Ruling::Pass),
        "deny" | "block" => Ok(Ruling::Veto(reason)),
        "ask" | "defer" => Ok(Ruling::Ask(reason)),
        other => {
            let other: String = other.chars().take(crate::limits::NAMED_CHARS_MAX).collect();
            Err(HookFault::Garbled(format!("{other:?} is not a decision; use allow, deny or ask")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(stdout: &str) -> Result<Ruling, HookFault> {
        let reply = HookReply {
            status: 0,
            stdout: stdout.as_bytes().to_vec(),
            stderr: b"a note".to_vec(),
            left_open: false,
        };
        ruling(&reply, &json!({ "command": "ls" }))
    }

    #[test]
    fn every_answer_of_the_contract_is_understood() {
        let specific = |text: &str| format!("{{\"hookSpecificOutput\":{{{text}}}}}");
        let veto = |reason: &str| Ok(Ruling::Veto(reason.to_owned()));
        for (stdout, expected) in [
            (String::new(), Ok(Ruling::Pass)),
            ("checked 3 rules\n".to_owned(), Ok(Ruling::Pass)),
            ("{}".to_owned(), Ok(Ruling::Pass)),
            (r#"{"suppressOutput":true,"systemMessage":"hello","async":true}"#.to_owned(), Ok(Ruling::Pass)),
            (specific(r#""permissionDecision":"allow","permissionDecisionReason":"fine""#), Ok(Ruling::Pass)),
            (
                specific(
                    r#""hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"no rm""#,
                ),
                veto("no rm"),
            ),
            (
                specific(r#""permissionDecision":"ask","permissionDecisionReason":"sure?""#),
                Ok(Ruling::Ask("sure?".into())),
            ),
            (specific(r#""permissionDecision":"deny""#), veto("")),
            (r#"{"decision":"approve","reason":"ok"}"#.to_owned(), Ok(Ruling::Pass)),
            (r#"{"decision":"block","reason":"older"}"#.to_owned(), veto("older")),
            (r#"{"continue":false,"stopReason":"enough"}"#.to_owned(), veto("enough")),
            (r#"{"continue":true}"#.to_owned(), Ok(Ruling::Pass)),
            // Two decisions that differ: the stricter one.
            (
                r#"{"decision":"block","reason":"older","hookSpecificOutput":{"permissionDecision":"allow"}}"#
                    .to_owned(),
                veto("older"),
            ),
            // The same input is no other input.
            (
                specific(r#""permissionDecision":"allow","updatedInput":{"command":"ls"}"#),
                Ok(Ruling::Pass),
            ),
        ] {
            assert_eq!(answered(&stdout), expected, "{stdout}");
        }
        let other = specific(r#""permissionDecision":"allow","updatedInput":{"command":"ls -a"}"#);
        assert!(matches!(answered(&other), Ok(Ruling::Veto(why)) if why.contains("updatedInput")));
    }

    #[test]
    fn what_is_no_answer_is_a_failure_and_no_yes() {
        for (stdout, words) in [
            ("{\"hookSpecificOutput\":", "EOF"),
            ("{\"decision\":1}", "string"),
            ("{\"hookSpecificOutput\":{\"permissionDecision\":\"maybe\"}}", "\"maybe\""),
            ("{} {}", "trailing"),
        ] {
            let Err(HookFault::Garbled(why)) = answered(stdout) else { panic!("{stdout}") };
            assert!(why.contains(words), "{why}");
        }
    }

    /// Another process may still write the rest. Only a veto is enough as far as it was read.
    #[test]
    fn an_answer_that_may_not_be_complete_allows_nothing() {
        let open = |status: i32, stdout: &str| {
            let (stdout, stderr) = (stdout.as_bytes().to_vec(), b"no".to_vec());
            let reply = HookReply { status, stdout, stderr, left_open: true };
            ruling(&reply, &json!({ "command": "ls" }))
        };
        for stdout in ["", "checked 3 rules\n", "{}", "{\"decision\":", "{\"decision\":\"approve\"}"] {
            assert_eq!(open(0, stdout), Err(HookFault::LeftOpen), "{stdout}");
        }
        assert_eq!(
            open(0, "{\"decision\":\"block\",\"reason\":\"no rm\"}"),
            Ok(Ruling::Veto("no rm".into()))
        );
        assert_eq!(open(2, ""), Ok(Ruling::Veto("no".into())));
        assert!(matches!(open(1, ""), Err(HookFault::Status { status: 1, .. })));
    }

    #[test]
    fn a_script_reads_the_members_that_are_documented() {
        let around = ScriptContext { session: "s", cwd: "/srv", tool_use_id: "call_1" };
        let call = ForeignCall { name: "Write".into(), input: json!({ "file_path": "/srv/a" }) };
        let read = |bytes: Vec<u8>| serde_json::from_slice::<Value>(&bytes).unwrap();
        let before = read(request(HookEvent::PreToolUse, &around, &call, None));
        assert_eq!(
            before,
            json!({
                "session_id": "s", "transcript_path": "/dev/null", "cwd": "/srv", "permission_mode": "default",
                "hook_event_name": "PreToolUse", "tool_name": "Write", "tool_input": { "file_path": "/srv/a" },
                "tool_use_id": "call_1",
            })
        );
        let after = read(request(HookEvent::PostToolUse, &around, &call, Some(&json!("written"))));
        assert_eq!(
            after["tool_response"],
            json!({ "success": true, "output": "written", "filePath": "/srv/a" })
        );
        let call = ForeignCall { name: "Bash".into(), input: json!({ "command": "ls" }) };
        let after = read(request(HookEvent::PostToolUse, &around, &call, Some(&json!("a b"))));
        assert_eq!(
            (&after["tool_response"]["stdout"], &after["hook_event_name"]),
            (&json!("a b"), &json!("PostToolUse"))
        );
    }
}
