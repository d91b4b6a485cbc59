//! The grammar, one sentence per rule. [`RULES`] is the table; `docs/grammar.md` is generated from it.

use crate::limits;

/// One rule of the grammar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// Stable: refusals and audits carry it.
    pub id: &'static str,
    pub sentence: &'static str,
    pub reach: Reach,
    /// How much a limit allows; `None` of other rules.
    pub at_most: Option<u64>,
}

/// Where a rule can be seen to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// In the log: [`crate::decide`] and [`crate::audit`] both hold it.
    Log,
    /// Only where events are reported, because the log does not record the writer of an event.
    Command,
    /// Only where events are reported or commands given: a number of [`crate::limits`], which other releases
    /// may set otherwise.
    Limit,
}

macro_rules! rules {
    ($( $reach:ident { $( $id:literal $( at most $max:ident )? = $sentence:literal; )* } )*) => {
        /// All rules, in the order of the reference page.
        pub const RULES: &[Rule] = &[$( $(
            Rule {
                id: $id,
                sentence: $sentence,
                reach: Reach::$reach,
                at_most: rules!(@max $( $max )?),
            },
        )* )*];
    };
    (@max) => { None };
    (@max $max:ident) => { Some(limits::$max as u64) };
}

rules! {
    Log {
        "envelope.sequence" = "Events are numbered 0, 1, 2 and so on, without gaps.";
        "envelope.ids" = "Run, task and session stay the same throughout a run.";
        "envelope.time" = "`occurred_at` never decreases.";
        "envelope.event_id" = "Event ids increase strictly.";

        "queued.first" = "A run begins with `run.queued`, or with `run.resumed_from_event` and then `run.queued`.";
        "queued.once" = "`run.queued` and `run.resumed_from_event` occur nowhere else.";
        "start.first" = "Only `user.*`, `artifact.*`, `gap.*`, `run.throttled`, `run.failed`, `run.cancelled` and types outside the registry occur before the first `run.started`.";
        "start.again" = "`run.started` occurs again only after a `gap.run_disconnected` since the last one.";
        "ending.once" = "A run ends once: with `run.finished`, `run.failed` or `run.cancelled`.";
        "ending.last" = "Only `gap.*` occurs after the ending.";
        "ending.text_open" = "A run does not end while a text or thinking block is open.";
        "ending.turn_open" = "A run does not end while a turn is open.";
        "ending.call_open" = "A run does not end while a proposed or invoked call is not settled.";
        "ending.prompt_open" = "A run does not end while an approval, question or handoff has no outcome; when its producer ends it, pending ones are withdrawn directly before the ending.";
        "ending.turns" = "`turns` of an own run's `run.finished` is the number of its completed turns.";
        "gap.pruned" = "`gap.events_pruned` follows the ending and names a range of events before it.";

        "turn.order" = "A turn's index is greater than all earlier ones; the last turn may start again after `turn.failed` with `will_retry`.";
        "turn.one_open" = "One turn is open at a time.";
        "turn.named" = "`turn.completed` and `turn.failed` name the open turn.";
        "turn.text_open" = "A turn does not end while a text or thinking block of it is open.";
        "turn.calls_open" = "Before `turn.failed`, calls proposed in the turn are refused, unless they run or wait for a person.";
        "turn.tool_calls" = "`tool_calls` of `turn.completed` is the number of calls proposed since the turn began.";

        "assistant.turn" = "Events of the model (`assistant.*`) name the open turn.";
        "text.joined" = "The text of a completed block is its joined deltas; a block without deltas may have any text.";
        "text.closed" = "A completed block stays complete, even if its turn starts again.";
        "text.kind" = "A block is either text or thinking, from its first delta to its last.";
        "answer.once" = "`assistant.final_answer` occurs at most once.";
        "answer.last" = "After `assistant.final_answer` no call is proposed.";

        "call.id" = "A call id is used by one call of the run.";
        "call.invoked_once" = "A call is invoked once, and not after it is settled.";
        "call.proposed" = "`tool.invoked` with a turn's index names a call that was proposed in that turn.";
        "call.name" = "All events of a call have the same tool name.";
        "call.open" = "Events about the work of a tool occur between the call's `tool.invoked` and its outcome.";
        "call.refused" = "`tool.refused` settles a call that was proposed, or for which an approval was requested, and that was not invoked.";
        "call.settled_once" = "A call is settled once.";

        "shell.once" = "A call has at most one command.";
        "shell.order" = "Output occurs after the command and before the exit, and the process exits once.";
        "shell.encoding" = "Output declared as base64 is valid base64.";
        "shell.offset" = "The chunks of a stream follow each other without gap or overlap.";
        "shell.sums" = "The exit counts the bytes of both streams: as many as were recorded, or more if it is marked as truncated.";
        "shell.exit" = "A call with a command is completed only after the command's exit.";

        "prompt.id" = "The id of an approval, a question or a handoff is used once in a run.";
        "prompt.pending" = "An outcome or an extension names an approval, question or handoff that has no outcome yet.";
        "prompt.call" = "An outcome or an extension that names a call names the call of the request.";
        "prompt.call_open" = "A question or handoff that names a call names one that is not settled.";
        "prompt.extension" = "An extension moves the deadline of a prompt that has one: `expires_at` is `seconds`, at least 1, after the previous deadline.";
        "approval.call" = "An approval is requested for a call that was proposed and not invoked, or whose id is new, and that was not refused before.";
        "approval.one_pending" = "A call has at most one pending approval.";
        "approval.default" = "The default decision for an irreversible or high-risk call is not to approve.";
        "approval.digest" = "A call digest in the known format is the digest of the proposed call.";
        "approval.pending" = "A call is not invoked while its approval is pending.";
        "approval.denied" = "A call whose approval was not granted is not invoked.";
        "approval.decision" = "The decision of `approval.timed_out` is the default of the request: reject, unless the request states approve and is neither irreversible nor high-risk.";
        "approval.elsewhere" = "`decided_elsewhere` occurs only in external runs and with the decision `cancelled`: the producer withdraws its own approval.";
        "approval.required" = "An own run invokes an irreversible or high-risk call only after a person approved it.";
        "clarification.default" = "`clarification.timed_out` applies a default only if the question stated one, and applies exactly that one.";

        "workspace.own" = "Only own runs have workspaces.";

        "wait.own" = "Only own runs wait and continue.";
        "wait.turn" = "A run does not start to wait in the middle of a turn.";
        "wait.calls" = "A run waits only when every open call waits for a person or an application, has their answer, or is a question or handoff (`ask_user`, `hand_off`) that was not requested yet.";
        "wait.nothing" = "A run waits only when something is open.";
        "wait.names" = "`run.waiting` names exactly what is open.";
        "wait.quiet" = "While a run waits, only these occur: outcomes of what it waits for, extensions of its deadlines, cancelled calls, `gap.*`, `run.continued` and an ending.";
        "wait.continued" = "`run.continued` occurs only while a run waits.";
        "wait.regroup" = "When something is still open after `run.continued`, `run.waiting` with the rest occurs before any other work.";

        "cost.falls" = "Totals never decrease.";
        "cost.prior" = "Totals start at or above what earlier runs of the chain used.";
        "cost.sum" = "Totals of an own run are the usage of earlier runs, of its completed turns, and of other turns and child runs as far as it was reported.";
        "cost.remaining" = "The remaining budget is the budget minus what was used, and at least 0.";
        "cost.warned" = "The budget warning occurs once per threshold.";
        "cost.halted" = "After `cost.budget_exceeded` no turn starts and no call is invoked.";
    }
    Command {
        "append.runtime_only" = "A producer does not report types that only this server writes, except `approval.resolved` with `decided_elsewhere`, which withdraws its own approval.";
        "append.experimental_off" = "A producer does not report experimental types while they are not enabled.";
        "append.unknown_type" = "A type outside the registry is an extension: `ext.`, the name of its owner, and at least one more segment.";
        "progress.external" = "This server itself reports only `gap.*` in an external run.";
        "progress.answer" = "A performer may withdraw its own prompts, but not answer or extend them: answers, extensions and timeouts have their own commands.";
    }
    Limit {
        "limit.turns" at most TURNS_MAX = "Turns started in a run, retries included.";
        "limit.blocks_open" at most BLOCKS_OPEN_MAX = "Text and thinking blocks open at once.";
        "limit.blocks_per_turn" at most BLOCKS_PER_TURN_MAX = "Text and thinking blocks of one turn, its retries included.";
        "limit.text_block" at most TEXT_BLOCK_BYTES_MAX = "Bytes of one text or thinking block.";
        "limit.calls_open" at most CALLS_OPEN_MAX = "Calls proposed, invoked or announced by an approval, and not yet settled.";
        "limit.calls" at most CALLS_MAX = "Calls of a run, settled ones included.";
        "limit.prompts_open" at most PROMPTS_OPEN_MAX = "Approvals, questions and handoffs without an outcome.";
        "limit.prompts" at most PROMPTS_MAX = "Approvals, questions and handoffs of a run.";
        "limit.extension_seconds" at most EXTENSION_SECONDS_MAX = "Seconds added to the deadline of one prompt, all extensions together.";
        "limit.extensions" at most EXTENSIONS_MAX = "Extensions of one prompt.";
        "limit.warnings" at most WARNINGS_MAX = "Different thresholds at which a run warns about its budget.";
        "limit.batch" at most BATCH_DRAFTS_MAX = "Events reported in one batch; a route may allow fewer.";
        "limit.words" at most WORDS_BYTES_MAX = "Bytes of a name, comment or reason in a command.";
        "limit.response" at most RESPONSE_BYTES_MAX = "Bytes of an answer to a question.";
        "limit.output" at most OUTPUT_BYTES_MAX = "Bytes of a result that an application sends for a call.";
        "limit.config" at most CONFIG_BYTES_MAX = "Bytes of the configuration that an answer changes.";
    }
}

/// The reference page, `docs/grammar.md`.
pub fn grammar_page() -> String {
    let mut page = String::from(
        "# The grammar of a run\n\n\
         The rules that say which event may follow which, one sentence per rule. A rejection with code \
         `event_refused` names the id of the broken rule, and so does an audit. A rejection with code \
         `limit_reached` names the id of the limit. Each rule of the log and of reporting has a \
         counterexample in `testdata/illegal/`, whose last line is the forbidden event. This page is \
         generated from `crates/run/src/rule.rs`.\n",
    );
    let heads = [
        (
            Reach::Log,
            "Rules of the log",
            "They depend only on the events, so they are checked when events are created and again by \
             `audit`.",
        ),
        (
            Reach::Command,
            "Rules of reporting",
            "The log does not record who reported an event, so these are checked only when events are reported.",
        ),
    ];
    for (reach, head, words) in heads {
        page.push_str(&format!("\n## {head}\n\n{words}\n\n| rule | sentence |\n| --- | --- |\n"));
        for rule in RULES.iter().filter(|rule| rule.reach == reach) {
            page.push_str(&format!("| `{}` | {} |\n", rule.id, rule.sentence));
        }
    }
    page.push_str(
        "\n## Limits\n\n\
         They apply to reported events and to commands, never to the events that close a run, and are checked \
         only on input. Input that exceeds a limit is rejected with `limit_reached`.\n\n\
         | rule | maximum | what is counted |\n| --- | --- | --- |\n",
    );
    for rule in RULES {
        if let Some(max) = rule.at_most {
            page.push_str(&format!("| `{}` | {max} | {} |\n", rule.id, rule.sentence));
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_used_once_and_sentences_end() {
        for (at, rule) in RULES.iter().enumerate() {
            assert!(RULES[..at].iter().all(|other| other.id != rule.id), "{} stands twice", rule.id);
            assert_eq!(rule.at_most.is_some(), rule.reach == Reach::Limit, "{}", rule.id);
            assert!(rule.sentence.ends_with('.') && !rule.sentence.contains('|'), "{}", rule.id);
        }
    }
}
