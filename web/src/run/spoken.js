// Which message of the catalogue an event of a run is: its key, what is put into it, and for whom it is said. Pure, and
// after the AAEP face's projection, so that the console says of a run what every other listener hears. Look at `spoken`.

import { asText } from '../fold/state.js';

/**
 * `urgent` messages interrupt; `ALWAYS` is said to everybody, `ANSWERS` with the sentences of answers, `EVERYTHING` to those
 * who want every call.
 */
export const ALWAYS = 0;
export const ANSWERS = 1;
export const EVERYTHING = 2;

/** A sentence may follow it. @param {string} text */
export const ended = (text) => (/[.!?…。؟:][)"'”’]?$/.test(text.trim()) ? text.trim() : `${text.trim()}.`);
/** Without the marks around its code: of several, those within may be part of a command. @param {string} text */
const withoutOuterTicks = (text) => text.replace(/^([^`]*)`(.*)`([^`]*)$/s, '$1$2$3');
const withBy = (data) => ({ by: data.by ?? null });
/** What was answered, however it was chosen. @param {any} response */
const answerOf = (response) => (response === undefined || response === null ? '' : asText(response.choice ?? response.text ?? response.value ?? response));

/**
 * A message with a text in it, or the one without when there is no text.
 * @returns {[string, Record<string, any>]}
 */
const saying = (key, plain, name, text, more = {}) => (text ? [key, { ...more, [name]: text }] : [plain, more]);

/**
 * The ending of a call, by what came of it.
 * @param {any} call
 * @param {any} data
 * @returns {[string, Record<string, any>]}
 */
function callEnded(call, data) {
  const tool = { tool: call.name || data.tool_name || 'call' };
  if (call.state === 'completed') return saying('tool-succeeded-saying', 'tool-succeeded', 'summary', data.summary && ended(asText(data.summary)), tool);
  if (call.state === 'timed_out') return ['tool-timed-out', tool];
  if (data.code === 'interrupted') return ['tool-interrupted', tool];
  if (call.state === 'cancelled') return ['tool-cancelled', tool];
  if (call.state === 'refused') return ['tool-refused', { ...tool, reason: asText(data.message) }];
  const error = asText(data.error ?? data.message);
  return saying('tool-failed', 'tool-failed-plain', 'error', error && ended(error.replaceAll('`', '')), tool);
}

/** @type {Record<string, (data: any, item: any, run: any) => [number, string, Record<string, any>, boolean?] | null>} */
const MESSAGES = {
  'run.started': (_data, _item, run) => [ANSWERS, 'session-started-plain', { agent: run().agent }],
  'run.finished': (data, _item, run) => {
    const { agent, answer, seconds, calls } = run();
    const figures = { agent, seconds: Number.isFinite(data.duration_ms) ? Math.ceil(data.duration_ms / 1000) : seconds, calls };
    return answer ? [ALWAYS, 'session-completed-saying', { ...figures, answer }] : [ALWAYS, 'session-completed', figures];
  },
  'run.failed': (data) => [ALWAYS, 'session-errored', { message: asText(data.message) || asText(data.code), code: asText(data.code) }, true],
  'run.cancelled': (data) => [ALWAYS, ...saying('session-cancelled', 'session-cancelled-plain', 'reason', data.reason)],
  'run.throttled': ({ place, reason }) => [ANSWERS, 'throttled', { place, reason: asText(reason).replaceAll('_', ' ') }],
  'run.continued': ({ by }) => [ANSWERS, ...saying('continued-by', 'continued', 'by', by)],
  'gap.run_disconnected': () => [ANSWERS, 'disconnected', {}],
  'turn.failed': ({ message, will_retry: again }) => (again ? [ANSWERS, 'turn-retried', { message: asText(message) }]
    : [ALWAYS, 'turn-failed', { message: asText(message) }, true]),
  'context.compacted': () => [ANSWERS, 'compacted', {}],
  'workspace.failed': () => [ALWAYS, 'workspace-failed', {}, true],
  'cost.budget_warning': ({ threshold_pct: percent }) => [ANSWERS, 'budget-warning', { percent }],
  'cost.budget_exceeded': () => [ALWAYS, 'budget-exceeded', {}, true],
  'child_run.started': ({ summary }) => [ANSWERS, ...saying('child-started-saying', 'child-started', 'summary', summary)],
  'policy.tool_blocked': ({ tool_name: tool, reason }) => [ANSWERS, 'blocked', { tool: asText(tool), reason: asText(reason) }],
  'policy.model_rewrote': ({ from_model: from, to_model: to, reason }) => [ANSWERS, 'model-rewritten', { from, to, reason: asText(reason) }],
  'error.tool_unavailable': ({ tool_name: tool, reason }) => [ANSWERS, 'tool-unavailable', { tool: asText(tool), reason: asText(reason) }],
  'error.model_capability_missing': ({ model, missing_capability: capability }) => [ANSWERS, 'capability-missing', { model, capability: asText(capability) }],
  'error.upstream': ({ provider, message }) => [ANSWERS, 'upstream', { provider, message: asText(message) }],
  'approval.resolved': (data) => {
    // Where it was decided elsewhere, the call may be carried out although the approval was withdrawn here.
    const decision = data.decided_elsewhere ?? data.decision;
    if (decision === 'undecided') return [ANSWERS, 'question-withdrawn', {}];
    if (decision === 'cancelled') return [ANSWERS, 'approval-withdrawn', {}];
    const name = decision === 'approved' ? 'approved' : 'rejected';
    return [ANSWERS, ...saying(`${name}-saying`, name, 'comment', data.comment && ended(asText(data.comment)), withBy(data))];
  },
  'approval.timed_out': ({ decision }) => [ANSWERS, decision === 'approved' ? 'approval-timed-out-approved' : 'approval-timed-out-rejected', {}],
  'clarification.answered': (data) => [ANSWERS, ...saying('answered', 'answered-plain', 'answer', answerOf(data.response), withBy(data))],
  'clarification.timed_out': ({ response }) => [ANSWERS, ...saying('unanswered-default', 'unanswered', 'answer', answerOf(response))],
  'handoff.acknowledged': (data) => [ANSWERS, 'handoff-acknowledged', withBy(data)],
  'handoff.rejected': (data) => [ANSWERS, ...saying('handoff-rejected-saying', 'handoff-rejected', 'reason', data.reason, withBy(data))],
  'handoff.timed_out': () => [ANSWERS, 'handoff-timed-out', {}],
  'tool.invoked': (data, call) => {
    const tool = call?.name || data.tool_name || 'call';
    if (!data.args_summary) return [EVERYTHING, 'tool-invoked', { tool }];
    return [EVERYTHING, data.irreversible === true ? 'tool-irreversible' : 'tool-invoked-with', { tool, arguments: data.args_summary }];
  },
};
for (const type of ['completed', 'failed', 'cancelled', 'timed_out', 'refused']) {
  MESSAGES[`tool.${type}`] = (data, call) => (call?.kind === 'call' ? [EVERYTHING, ...callEnded(call, data)] : null);
}

/**
 * The message of an event, or nothing when it is only seen. `run` gives the agent's name and what was not yet heard of its answer.
 * @returns {{ level: number, key: string, values: Record<string, any>, urgent: boolean } | null}
 */
export function spoken({ type, data }, item, run) {
  if (!Object.hasOwn(MESSAGES, type)) return null;
  const found = MESSAGES[type](data ?? {}, item, run);
  if (!found) return null;
  const [level, key, values, urgent = false] = found;
  return { level, key, values, urgent };
}

/** What a prompt is announced as. @param {string} kind @param {any} thing */
export function promptMessage(kind, thing) {
  if (kind === 'approval') {
    const irreversible = thing.irreversible === true || thing.reversibility === 'irreversible';
    const consequence = thing.consequence ? ['', ended(asText(thing.consequence))]
      : thing.policy_reason ? ['consequence-by-rule', { reason: ended(asText(thing.policy_reason)) }] : ['consequence-unknown', {}];
    const action = asText(thing.action) || asText(thing.summary);
    const preview = asText(thing.preview);
    return { key: irreversible ? 'confirmation-irreversible' : 'confirmation', values: { action: ended(withoutOuterTicks(action)), preview: action.includes(preview) ? '' : preview },
      parts: { consequence, ...(action ? {} : { action: ['action-unknown', { tool: asText(thing.kind) }] }) } };
  }
  if (kind === 'clarification') {
    const choices = (thing.choices ?? []).map((choice) => asText(choice?.label ?? choice?.value ?? choice)).join(', ');
    return { key: thing.context ? 'clarification-in-context' : 'clarification', values: { question: asText(thing.question), context: asText(thing.context) },
      parts: choices ? { choices: ['choices', { choices }] } : {} };
  }
  return { key: 'handoff', values: { reason: asText(thing.reason ?? thing.summary_terse) }, parts: {} };
}
