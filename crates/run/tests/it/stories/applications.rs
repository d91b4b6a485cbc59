//! Runs that answer an application, which brings tools and pictures of its own.

use recount_run::Status;

use super::teller::Story;

pub(crate) fn all() -> Vec<(Story, Status)> {
    vec![(mixed_answers(), Status::Finished)]
}

/// Three calls of one step, one of each sort: one runs at once, one needs leave, one is the application's. It sends
/// its own result first and its refusal after it.
fn mixed_answers() -> Story {
    let mut story = Story::of_session("mixed-answers");
    story.emit(
        0,
        "run.queued",
        r#"{"kind":"agent_loop","agent":{"name":"clerk","version":"1.0.0"},"requested_by":"shop","title":"Which blue?",
            "request_text":"Which blue is this?","model":"claude-sonnet-4-5","provider":"anthropic",
            "config":{"tools":["read_file","write_file"],"ask_first":["write_file"],
                "client_tools":[{"name":"pick_color","description":"Picks the colour at a place.","parameters":{"type":"object"}}],
                "blocks":[{"type":"text","text":"Which blue is this?"},{"type":"image","artifact_id":"@art.photo","mime":"image/png"},
                    {"type":"image","url":"https://shop.example/blue.png"}],
                "attachments":[{"artifact_id":"@art.photo","mime":"image/png"}]}}"#,
    );
    story.emit(
        0,
        "user.message",
        r#"{"text":"Which blue is this?","message_id":"@msg.question","blocks":[{"type":"text","text":"Which blue is this?"},
            {"type":"image","artifact_id":"@art.photo","mime":"image/png"},{"type":"image","url":"https://shop.example/blue.png"}]}"#,
    );
    story.emit(0, "user.attachment", r#"{"kind":"image","mime":"image/png","artifact_id":"@art.photo"}"#);
    story.emit(6, "run.started", r#"{"worker_id":"worker-1","lease_until":"@at.30006"}"#);
    story.turn(9, 0);
    story.text_block(400, 0, &["I look ", "at the picture\u{2028}and the list."]);
    story.propose(520, "pick", "pick_color", r#"{"x":12,"y":40}"#);
    story.propose(520, "list", "read_file", r#"{"path":"colours.txt"}"#);
    story.propose(520, "note", "write_file", r#"{"path":"found.txt","text":"teal\n"}"#);
    story.turn_done(520, "tool_use", [903, 87, 4014]);
    story.tool(524, "tool.invoked", "list", r#""kind":"file","executor":"server""#);
    story.tool(
        530,
        "tool.completed",
        "list",
        r#""kind":"file","duration_ms":6,"summary":"2 lines","output":"navy\nteal\n""#,
    );
    story.tool(534, "tool.invoked", "pick", r#""kind":"client","executor":"client""#);
    story.emit(
        534,
        "approval.requested",
        r#"{"approval_id":"@appr.note","tool_call_id":"@call.note","kind":"write_file","summary":"write found.txt",
            "policy_reason":"the application enabled write_file without trusting it","call_digest":"@digest.note"}"#,
    );
    story.emit(
        534,
        "run.waiting",
        r#"{"for":[{"kind":"client_tool","id":"@call.pick"},{"kind":"approval","id":"@appr.note"}]}"#,
    );
    story.tool(
        2_100,
        "tool.completed",
        "pick",
        r#""output":[{"type":"text","text":"teal"},{"type":"image","artifact_id":"@art.swatch","mime":"image/png"}]"#,
    );
    story.emit(2_100, "run.continued", r#"{"by":"shop"}"#);
    story.emit(2_100, "run.waiting", r#"{"for":[{"kind":"approval","id":"@appr.note"}]}"#);
    story.emit(
        6_800,
        "approval.resolved",
        r#"{"approval_id":"@appr.note","decision":"rejected","by":"shop","tool_call_id":"@call.note","comment":"no files, please","via":"aap"}"#,
    );
    story.emit(6_800, "run.continued", r#"{"by":"shop"}"#);
    story.tool(
        6_800,
        "tool.refused",
        "note",
        r#""code":"denied","message":"Tool call denied: no files, please""#,
    );
    story.turn(6_806, 1);
    story.text_block(7_300, 0, &["It is teal."]);
    story.answer(7_360, "It is teal.");
    story.turn_done(7_360, "end_turn", [1_204, 8, 3732]);
    story.finished(7_363);
    story
}
