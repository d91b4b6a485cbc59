//! The protocol of Claude Code's hooks: the JSON object that a script reads, and the decisions that it returns.
//!
//! Start at [`request`] and [`ruling`]. An unsupported decision, such as a changed input, is a veto: a script that
//! changes a call must not have it run unchanged. Pure.

use serde::Deserialize;
use serde_json::{Value, json};

use super::names::ForeignCall;
use super::process::{HookFault, HookReply};
use super::ruling::{Ruling, ruling_of_status, shorten};
use super::settings::HookEvent;

/// Context that a script receives in addition to the call.
pub(super) struct ScriptContext<'a> {
    pub(super) session: &'a str,
    pub(super) cwd: &'a str,
    pub(super) tool_use_id: &'a str,
}

/// Builds the object on a script's standard input. `response` is the output of the call, after it.
pub(super) fn request(
    event: HookEvent,
    around: &ScriptContext<'_>,
    call: &ForeignCall,
    response: Option<&Value>,
) -> Vec<u8> {
    let mut object = json!({
        "session_id": around.session,
        // Scripts read this file without checking that it exists; this one is always empty.
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

/// The output of a call, with the members that scripts expect.
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

/// The object that a script may write to standard output.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ScriptOutput {
    r#continue: Option<bool>,
    stop_reason: Option<String>,
    /// The older form of a decision.
    decision: Option<String>,
    reason: Option<String>,
    hook_specific_output: Option<SpecificOutput>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SpecificOutput {
    permission_decision: Option<String>,
    permission_decision_reason: Option<String>,
    updated_input: Option<Value>,
}

/// The decision of a script on a call whose input was `sent`.
pub(super) fn ruling(reply: &HookReply, sent: &Value) -> Result<Ruling, HookFault> {
    let status_ruling = ruling_of_status(reply)?;
    if status_ruling != Ruling::Pass {
        return Ok(status_ruling);
    }
    match output_ruling(reply, sent) {
        // A veto counts even if the output is incomplete.
        Ok(veto @ Ruling::Veto(_)) => Ok(veto),
        _ if reply.left_open => Err(HookFault::LeftOpen),
        ruling => ruling,
    }
}

/// The decision in the output, if the exit status is 0.
fn output_ruling(reply: &HookReply, sent: &Value) -> Result<Ruling, HookFault> {
    let stdout = reply.stdout.trim_ascii();
    // Any other output is text for people.
    if !stdout.starts_with(b"{") {
        return Ok(Ruling::Pass);
    }
    let output = serde_json::from_slice::<ScriptOutput>(stdout);
    let output = output.map_err(|why| HookFault::Garbled(why.to_string()))?;
    let specific = output.hook_specific_output.unwrap_or_default();
    if output.r#continue == Some(false) {
        return Ok(Ruling::Veto(shorten(&output.stop_reason.or(output.reason).unwrap_or_default())));
    }
    let older = output.decision.as_deref().map(|word| decided(word, output.reason.as_deref()));
    let newer = specific.permission_decision.as_deref();
    let newer = newer.map(|word| decided(word, specific.permission_decision_reason.as_deref()));
    let rulings = [newer.transpose()?, older.transpose()?];
    // Of two decisions the stricter one counts.
    let strictest = rulings.into_iter().flatten().max_by_key(|ruling| match ruling {
        Ruling::Pass => 0,
        Ruling::Ask(_) => 1,
        Ruling::Veto(_) => 2,
    });
    match strictest {
        Some(veto @ Ruling::Veto(_)) => Ok(veto),
        _ if specific.updated_input.as_ref().is_some_and(|input| input != sent) => Ok(Ruling::Veto(
            "it returned a changed input (updatedInput), but a call runs exactly as recorded or not at all"
                .into(),
        )),
        ruling => Ok(ruling.unwrap_or(Ruling::Pass)),
    }
}

fn decided(word: &str, reason: Option<&str>) -> Result<Ruling, HookFault> {
    let reason = shorten(reason.unwrap_or_default());
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
    fn every_documented_response_is_understood() {
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
            // Of two different decisions the stricter one counts.
            (
                r#"{"decision":"block","reason":"older","hookSpecificOutput":{"permissionDecision":"allow"}}"#
                    .to_owned(),
                veto("older"),
            ),
            // An unchanged input is allowed.
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
    fn an_invalid_response_is_a_failure_and_no_approval() {
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

    /// Another process may still write the rest, so only a veto counts.
    #[test]
    fn a_response_that_may_be_incomplete_approves_nothing() {
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
    fn a_script_receives_the_documented_members() {
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
