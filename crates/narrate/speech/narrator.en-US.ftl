# What the narrator (`recount narrate`) says in its own words, in English. docs/aaep/speech.md explains the format for
# translators. What is said of a run comes from the server, whose catalogues are in crates/face-aaep/speech.
#
# Every message is spoken, so it is one or two short sentences. Letters of keys (y, n, a, p, r, w, e, c, q) are those on
# the keyboard: do not translate them. `$answer`, `$text` and the like are put in as they are.

## The connection

connected = Connected. Press question mark for the keys.
connected-again = Reconnected.
connection-lost = Connection lost. Reconnecting.
narration-ended = Narration ended.
not-connected = Not connected.
# A key was pressed that sends something.
not-connected-not-sent = Not sent: no connection. Press the key again after reconnecting.
# $why is a reason in English, from the network, or too-much-waits.
not-sent = Not sent: { $why }. Press the key again.
# Used as $why.
too-much-waits = too many messages are waiting to be sent

## The keys of a prompt, spoken after it

keys-approve-reject = Press y to approve, n to reject.
keys-approve = Press y to approve.
keys-reject = Press n to reject.
# The choices of the question were read out with their numbers.
keys-number = Press a number and Enter.
keys-yes-no = Press y for yes, n for no.
# After another way to answer the same question.
keys-or-yes-no = Or press y for yes, n for no.
keys-type = Press a, type the answer, and press Enter.
keys-or-type = Or press a, type the answer, and press Enter.
keys-type-number = Press a, type a number, and press Enter.
keys-or-type-number = Or press a, type a number, and press Enter.

## In what a person approves, because they change what a command does

line-ends = { $count ->
        [one] new line
       *[other] { $count } new lines
    }
blanks = { $count ->
        [one] { $count } blank
       *[other] { $count } blanks
    }
# The character `, which begins and ends a command within a command.
backtick = backtick

## In the text of an agent

heading = Heading: { $text }
# Items of a list of tasks.
task-done = Done: { $text }
task-open = To do: { $text }
# A block of code. $language is a name such as rust.
code = Code, { $language }, { $count ->
        [one] 1 line
       *[other] { $count } lines
    }.
code-plain = Code, { $count ->
        [one] 1 line
       *[other] { $count } lines
    }.
# The answer is spoken when the run has ended, and it is very long.
answer-cut = The answer is longer. recount show prints all of it.

## Prompts of a run that has ended. Nothing can be answered any more

past-permission = Permission was requested: { $text }
past-question = The agent had a question: { $text }

## The time to answer. $time is one of the three times below

seconds = { $count ->
        [one] { $count } second
       *[other] { $count } seconds
    }
minutes = { $count ->
        [one] { $count } minute
       *[other] { $count } minutes
    }
hours = { $count ->
        [one] { $count } hour
       *[other] { $count } hours
    }
time-left = { $time } left.
time-left-approved = { $time } left, then it is approved.
time-left-rejected = { $time } left, then it is rejected.
# $answer is the default answer of the question.
time-left-answered = { $time } left, then the answer is { $answer }.

## Prompts

another-prompt = Another prompt is waiting. Press p to hear it.
another-prompt-of = Another prompt is waiting in run { $run }. Press p to hear it.
more-prompts = { $count } more. Press p for the next.
no-prompt = No prompt is open.
prompt-closed = The prompt is closed. Nothing was sent.
# A key was pressed right after another prompt was read; it may have been meant for the one before.
prompt-changed = The prompt just changed. Nothing was sent. Listen, then press the key again.
confirm-first = High risk, or cannot be undone. Press Enter to approve, any other key to go back.
not-approved = Not approved. The prompt is still open.
not-answered = Not answered. The prompt is still open.
type-answer = Type the answer, then Enter. Escape goes back.
nothing-typed = Nothing was typed. Press a to type an answer.
# $text is what was typed.
not-a-number = { $text } is not a number. Press a to type one.
not-a-choice = { $text } is not one of the choices.
# A digit was pressed: the choice with this number is read back.
choice = { $number }: { $answer }. Press Enter to answer.
no-choice = There is no choice { $number }.
# A reply was sent. Whether it decides anything is not known yet: do not say that it did.
approval-sent = Approval sent.
rejection-sent = Rejection sent.
answer-sent = Answer sent: { $answer }.
answer-sent-yes = Answer sent: yes.
answer-sent-no = Answer sent: no.
# Nothing settled the prompt within five seconds.
reply-without-effect = Your reply had no effect. The prompt is still open.
asked-for-time = Asked for { $time } more.

## Where am I

nothing-happened = Nothing has happened yet.
no-run-active = No run is active.
run-ended = The run has ended.
runs-active = { $count ->
        [one] { $count } run is active.
       *[other] { $count } runs are active.
    }
not-started = It has not started.
# $text is what the run does, or another sentence about it.
run-says = Run { $run }: { $text }
# $left is one of the four sentences that begin with time-left.
prompt-open = 1 prompt is open: { $left } Press p to hear it.
prompts-open = { $count ->
        [one] { $count } prompt is open. The first: { $left } Press p to hear it.
       *[other] { $count } prompts are open. The first: { $left } Press p to hear it.
    }
cut-short = { $count ->
        [one] { $count } message was cut short. Press r to repeat the last ones.
       *[other] { $count } messages were cut short. Press r to repeat the last ones.
    }

## Other keys

help = Space or s: silence. r: repeat the last, 3 r the last three. w: where am I. p: read the next prompt. y: approve or
    yes. n: reject or no. a: type an answer. A number and Enter: choose an answer. Plus and minus: more or less detail.
    e: ask for more time. c: cancel the run. q: quit.
not-a-key = Unknown key. Press question mark for help.
nothing-spoken = Nothing has been spoken yet.
# $level is one of the four levels below.
level-now = Level { $level }.
level-highest = { $level } is the highest level.
level-lowest = { $level } is the lowest level.
level-brief = brief
level-terse = terse
level-normal = normal
level-detailed = detailed
cancel-run = Cancel the run? Press Enter to cancel it, any other key to go back.
cancel-run-of = Cancel run { $run }? Press Enter to cancel it, any other key to go back.
cancel-asked = Cancellation requested.
not-cancelled = Not cancelled.
ended-already = The run has already ended.
nothing-to-cancel = No active run to cancel.

## For producers that leave their own sentences out

session-started = The session has started.
session-finished = The session has finished.
session-failed = The session failed.
# $by is one of user, producer, timeout, system.
session-cancelled = The session was cancelled by { $by }.
using-tool = Using { $tool }.
# $status is one of success, error, timeout.
tool-ended = { $tool }: { $status }.
# $target is one of human, specialist agent, escalation queue.
handover = Handing over to { $target }: { $reason }
percent = { $percent } percent.
step = Step { $step }.
step-of = Step { $step } of { $total }.
