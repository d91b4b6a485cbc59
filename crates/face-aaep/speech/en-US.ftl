# What listeners hear of a run, in English. docs/aaep/speech.md explains the format for translators.
#
# The value of a message is its normal form, one sentence; `.terse` is a few words, `.detailed` is all there is to say.
# A message without `.detailed` has nothing to add.

## The beginning and the end

session-started = { $agent } has started: { $request }
    .terse = Started.
session-started-plain = { $agent } has started.
    .terse = Started.
session-completed = { $agent } has finished.
    .terse = Finished.
    .detailed = { $agent } has finished, after { $seconds ->
        [one] one second
       *[other] { $seconds } seconds
    } and { $calls ->
        [0] no tool calls
        [one] one tool call
       *[other] { $calls } tool calls
    }.
session-completed-saying = Finished: { $answer }
    .terse = Finished.
    .detailed = { $agent } has finished, after { $seconds ->
        [one] one second
       *[other] { $seconds } seconds
    } and { $calls ->
        [0] no tool calls
        [one] one tool call
       *[other] { $calls } tool calls
    }: { $answer }
session-errored = The run failed: { $message }
    .terse = Failed.
    .detailed = The run failed with the code { $code }: { $message }
session-cancelled = The run was cancelled: { $reason }
    .terse = Cancelled.
session-cancelled-plain = The run was cancelled.
    .terse = Cancelled.
remedy-retry = Starting the run again may help.
remedy-none = Starting the run again will not help; look at the error first.

## States

thinking = Thinking.
    .terse = Thinking.
deciding = Choosing the next step.
    .terse = Deciding.
writing = Writing.
    .terse = Writing.
calling-tool = Using a tool.
    .terse = Using a tool.
awaiting-input = Waiting for your answer.
    .terse = Waiting.
still-awaiting-input = { $prompts ->
        [one] One more question is waiting for your answer.
       *[other] { $prompts } more questions are waiting for your answer.
    }
    .terse = Still waiting.
handing-off = Handing the work over.
    .terse = Handing over.

## The course of a run

taken-over = Another worker continues this run.
    .terse = Taken over.
throttled = The run is number { $place } in the queue: { $reason }
    .terse = Queued.
continued = The run continues.
    .terse = Continuing.
continued-by = The run continues after an answer from { $by }.
    .terse = Continuing.
resumed = This run continues where an earlier one stopped.
    .terse = Resumed.
disconnected = The connection to the agent was lost for a while. What it did meanwhile is not in this record.
    .terse = Connection was lost.
waiting-for-application = Waiting for the application to carry out { $calls ->
        [one] a tool call
       *[other] { $calls } tool calls
    }.
    .terse = Waiting for the application.
turn-failed = The model did not answer: { $message }
    .terse = Model error.
turn-retried = The model did not answer. Trying again: { $message }
    .terse = Retrying.
text-cut = The text was cut off.
    .terse = Cut off.
compacted = Earlier parts of the conversation were replaced by a summary.
    .terse = Conversation shortened.
workspace-failed = The workspace could not be prepared.
    .terse = No workspace.
budget-warning = { $percent } percent of the budget is used.
    .terse = Budget { $percent } percent.
budget-exceeded = The budget is used up. The run stops.
    .terse = Budget used up.
child-started = Another run was started from this one.
    .terse = Another run.
child-started-saying = Another run was started from this one: { $summary }
    .terse = Another run.

## Tools

tool-invoked = Using { $tool }.
    .terse = { $tool }.
tool-invoked-with = Using { $tool }: { $arguments }
    .terse = { $tool }.
tool-irreversible = Using { $tool }, which cannot be undone: { $arguments }
    .terse = { $tool }, cannot be undone.
tool-running = { $tool } has been running for { $seconds ->
        [one] one second
       *[other] { $seconds } seconds
    }.
    .terse = { $tool } is still running.
tool-running-saying = { $tool } has been running for { $seconds ->
        [one] one second
       *[other] { $seconds } seconds
    }: { $line }
    .terse = { $tool } is still running.
tool-succeeded = { $tool } finished.
    .terse = Done.
tool-succeeded-saying = { $tool } finished: { $summary }
    .terse = Done.
tool-failed = { $tool } failed: { $error }
    .terse = { $tool } failed.
tool-failed-plain = { $tool } failed.
    .terse = { $tool } failed.
tool-cancelled = { $tool } was stopped.
    .terse = { $tool } stopped.
tool-interrupted = { $tool } was interrupted. It may or may not have taken effect.
    .terse = { $tool } interrupted.
tool-timed-out = { $tool } took too long and was stopped.
    .terse = { $tool } timed out.
tool-abandoned = { $tool } had no result when the run ended.
    .terse = { $tool } has no result.
tool-refused = { $tool } was not run: { $reason }
    .terse = { $tool } not run.
todo = Step { $step } of { $total }: { $item }
    .terse = Step { $step } of { $total }.

## Permission

confirmation = Permission needed: { $action } { $consequence }
    .terse = Allow? { $action }
    .detailed = Permission needed: { $action } { $consequence } { $preview }
confirmation-irreversible = Permission needed: { $action } { $consequence } This cannot be undone.
    .terse = Allow? { $action } This cannot be undone.
    .detailed = Permission needed: { $action } { $consequence } This cannot be undone. { $preview }
consequence-unknown = The consequences are not known.
consequence-by-rule = A rule asks for your permission: { $reason }
action-unknown = Use { $tool }.
approved = { $by } allowed it.
    .terse = Allowed.
approved-saying = { $by } allowed it: { $comment }
    .terse = Allowed.
rejected = { $by } refused. The action is not carried out.
    .terse = Refused.
rejected-saying = { $by } refused: { $comment } The action is not carried out.
    .terse = Refused.
approval-withdrawn = The request was withdrawn. The action is not carried out.
    .terse = Withdrawn.
approval-timed-out-rejected = There was no answer in time. The action is not carried out.
    .terse = No answer, not carried out.
approval-timed-out-approved = There was no answer in time. The action is carried out, as announced.
    .terse = No answer, carried out.

## The time to answer

extended-seconds = { $by } asked for more time: { $seconds ->
        [one] one more second
       *[other] { $seconds } more seconds
    } to answer.
    .terse = More time.
extended-minutes = { $by } asked for more time: { $minutes ->
        [one] one more minute
       *[other] { $minutes } more minutes
    } to answer.
    .terse = More time.
seconds-left = { $seconds ->
        [one] One second is
       *[other] { $seconds } seconds are
    } left to answer.
    .terse = { $seconds } s left.
minutes-left = { $minutes ->
        [one] One minute is
       *[other] { $minutes } minutes are
    } left to answer.
    .terse = { $minutes } min left.

## Questions

clarification = { $question } { $choices }
    .terse = Question: { $question }
clarification-in-context = { $question } { $choices }
    .terse = Question: { $question }
    .detailed = { $context } { $question } { $choices }
choices = Choose one of: { $choices }.
answered = { $by } answered: { $answer }
    .terse = Answered.
answered-plain = { $by } answered.
    .terse = Answered.
unanswered-default = There was no answer in time. The agent continues with: { $answer }
    .terse = No answer, default used.
unanswered = There was no answer.
    .terse = No answer.
question-withdrawn = The question was withdrawn.
    .terse = Withdrawn.

## Handing over

handoff = The agent cannot continue and asks for a person or another agent to take over: { $reason }
    .terse = Handover needed.
handoff-acknowledged = { $by } takes over.
    .terse = Taken over.
handoff-rejected = { $by } did not take over.
    .terse = Not taken over.
handoff-rejected-saying = { $by } did not take over: { $reason }
    .terse = Not taken over.
handoff-timed-out = The handover timed out.
    .terse = Handover timed out.

## Rules and errors

blocked = A rule forbids { $tool }: { $reason }
    .terse = { $tool } forbidden.
model-rewritten = The model { $to } replaces { $from }: { $reason }
    .terse = Other model.
tool-unavailable = { $tool } is not available: { $reason }
    .terse = { $tool } not available.
capability-missing = The model { $model } lacks a capability that is needed: { $capability }
    .terse = Model not suited.
upstream = { $provider } reported an error: { $message }
    .terse = Provider error.

## Joining a run

joined = { $agent } is at work. { $state }
    .terse = { $state }
joined-request = { $agent } is at work on this: { $request } { $state }
    .terse = { $state }
missed = Some events of { $agent } were missed. { $state }
    .terse = Some was missed. { $state }
aged-out = What happened in this run is no longer stored.
    .terse = No longer stored.
damaged = Part of the record of this run is damaged and cannot be read. What follows it is not reported here.
    .terse = Part of the record cannot be read.
remedy-damaged = Restore the record from a backup.
open-prompts = { $prompts ->
        [one] One question is waiting for your answer.
       *[other] { $prompts } questions are waiting for your answer.
    }
tools-running = Using { $calls ->
        [one] one tool
       *[other] { $calls } tools
    } at the same time.

## Prompts that others answer

confirmation-of-others = Permission is asked of others: { $action } { $consequence }
    .terse = Others are asked: { $action }
confirmation-of-others-irreversible = Permission is asked of others: { $action } { $consequence } This cannot be undone.
    .terse = Others are asked: { $action } This cannot be undone.
clarification-of-others = Others are asked: { $question }
    .terse = Others are asked: { $question }

## Names in the place of others

unnamed = Someone
agent-unnamed = The agent
