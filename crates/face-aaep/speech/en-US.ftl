# What listeners hear of a run, in English. docs/aaep/speech.md explains the format for translators.
#
# The value of a message is its normal form, one sentence; `.terse` is a few words, `.detailed` is all there is to say.
# A message without `.detailed` has nothing to add.

## Start and end

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
remedy-none = Starting the run again will not help. Fix the error first.

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
handing-off = Handing over the work.
    .terse = Handing over.

## Progress of a run

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
disconnected = The connection to the agent was lost for a while. Events from that time are missing.
    .terse = Connection was lost.
waiting-for-application = Waiting for the application to run { $calls ->
        [one] a tool call
       *[other] { $calls } tool calls
    }.
    .terse = Waiting for the application.
turn-failed = The model request failed: { $message }
    .terse = Model error.
turn-retried = The model request failed. Trying again: { $message }
    .terse = Retrying.
# The message was spoken before.
turn-retried-plain = The model request failed. Trying again.
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
child-started = This run started another run.
    .terse = Another run.
child-started-saying = This run started another run: { $summary }
    .terse = Another run.

## Tools

tool-invoked = Using { $tool }.
    .terse = { $tool }.
tool-invoked-with = Using { $tool }: { $arguments }
    .terse = { $tool }.
tool-irreversible = Using { $tool }, which cannot be undone: { $arguments }
    .terse = { $tool }, cannot be undone.
# A call that is of high risk or cannot be undone, for which no permission was requested. $arguments may be empty.
tool-unasked = Using { $tool } without permission. { $arguments }
    .terse = { $tool }, without permission.
tool-unasked-irreversible = Using { $tool } without permission. This cannot be undone. { $arguments }
    .terse = { $tool }, without permission, cannot be undone.
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

confirmation = { $action } { $consequence } Allow this?
    .terse = { $action } Allow this?
    .detailed = { $action } { $consequence } Allow this? { $preview }
confirmation-irreversible = { $action } { $consequence } This cannot be undone. Allow this?
    .terse = { $action } This cannot be undone. Allow this?
    .detailed = { $action } { $consequence } This cannot be undone. Allow this? { $preview }
consequence-unknown = The effect is not known.
consequence-by-rule = The effect is not known. Reason for asking: { $reason }
action-unknown = Use { $tool }.
approved = { $by } approved it.
    .terse = Approved.
approved-saying = { $by } approved it: { $comment }
    .terse = Approved.
rejected = { $by } rejected it. The action is not carried out.
    .terse = Rejected.
rejected-saying = { $by } rejected it: { $comment } The action is not carried out.
    .terse = Rejected.
approval-withdrawn = The action is not carried out, because the request was withdrawn.
    .terse = Withdrawn.
approval-timed-out-rejected = The action is not carried out, because there was no answer in time.
    .terse = Not carried out, no answer.
approval-timed-out-approved = The action is carried out, because there was no answer in time.
    .terse = Carried out, no answer.

## The time to answer

extended-seconds = { $by } extended the time to answer by { $seconds ->
        [one] one second
       *[other] { $seconds } seconds
    }.
    .terse = More time.
extended-minutes = { $by } extended the time to answer by { $minutes ->
        [one] one minute
       *[other] { $minutes } minutes
    }.
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

blocked = { $tool } is blocked: { $reason }
    .terse = { $tool } blocked.
model-rewritten = The model { $to } replaces { $from }: { $reason }
    .terse = Model changed.
tool-unavailable = { $tool } is not available: { $reason }
    .terse = { $tool } not available.
capability-missing = The model { $model } lacks a required capability: { $capability }
    .terse = Model not suitable.
upstream = { $provider } reported an error: { $message }
    .terse = Provider error.

## Joining a run

joined = { $agent } is working. { $state }
    .terse = { $state }
joined-request = { $agent } is working on this: { $request } { $state }
    .terse = { $state }
missed = Some events of { $agent } were missed. { $state }
    .terse = Some events were missed. { $state }
aged-out = The events of this run are no longer stored.
    .terse = No longer stored.
damaged = Part of this run is damaged and cannot be read. Later events are not reported here.
    .terse = Part of this run cannot be read.
remedy-damaged = Restore the data from a backup.
open-prompts = { $prompts ->
        [one] One question is waiting for your answer.
       *[other] { $prompts } questions are waiting for your answer.
    }
tools-running = Using { $calls ->
        [one] one tool
       *[other] { $calls } tools
    } at the same time.

## Prompts that others answer

confirmation-of-others = { $action } { $consequence } Others are asked to allow this.
    .terse = { $action } Others are asked.
confirmation-of-others-irreversible = { $action } { $consequence } This cannot be undone. Others are asked to allow this.
    .terse = { $action } This cannot be undone. Others are asked.
clarification-of-others = Others are asked: { $question }
    .terse = Others are asked: { $question }

## Read aloud by the console. Line ends, blanks and backticks change what a command does

line-ends = { $count ->
        [one] new line
       *[other] { $count } new lines
    }
blanks = { $count ->
        [one] { $count } blank
       *[other] { $count } blanks
    }
backtick = backtick
heading = Heading: { $text }
task-done = Done: { $text }
task-open = To do: { $text }
code = Code, { $language }, { $count ->
        [one] 1 line
       *[other] { $count } lines
    }.
code-plain = Code, { $count ->
        [one] 1 line
       *[other] { $count } lines
    }.

## Names when none is known

unnamed = Someone
agent-unnamed = The agent
