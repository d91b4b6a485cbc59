// The words for what happens in a run: a sentence for every type of event that is neither said, called nor asked.
// Pure text; the data of events is made harmless where it is shown.

import { asText } from '../fold/state.js';
import { count, counted, duration, money, moment, size } from '../time.js';

/** The events from one to another; `null` where it is not known how far they go. */
export const through = (first, last) => (first === last ? `event ${first}` : last === undefined || last === null ? `events from ${first} on`
  : `events ${first} to ${last}`);
const sentence = (words) => `${words.charAt(0).toUpperCase()}${words.slice(1)}`;
/** A sentence about events, with the verb in their number. */
const about = (first, last, verbs, rest) => `${sentence(through(first, last))} ${verbs[first === last ? 0 : 1]} ${rest}.`;
export const prunedWords = (first, last) => about(first, last, ['was', 'were'], 'pruned');
export const missingWords = (first, last) => about(first, last, ['is', 'are'], 'missing');
export const unloadedWords = (first, last) => about(first, last, ['is', 'are'], 'not loaded here');
/** Whether an item has nothing to see: a request without a text, or one that the message after it repeats. */
export const isUnseen = (/** @type {any} */ { kind, repeated, text }) => kind === 'request' && (repeated === true || text === '');
/** How a run uses its folder. */
export const modeWords = (mode) => (mode === 'clone' ? 'copy' : mode === 'in_place' ? 'in place' : String(mode));

/** Type of event: how grave it is, and the sentence. */
const NOTES = {
  'run.started': ['quiet', () => 'A worker took over the run.'],
  'run.continued': ['quiet', ({ by }) => `Continued by ${by}.`],
  'run.throttled': ['quiet', ({ place, reason }) => `Queued at position ${place}: ${reason}.`],
  'run.resumed_from_event': ['quiet', ({ from_sequence: at }) => `Resumed from event ${at} of another run.`],
  'run.branched_from': ['quiet', ({ from_sequence: at, reason }) => `Branched from event ${at} of another run: ${reason}.`],
  'turn.failed': ['bad', ({ code, message, will_retry: again }) => `The turn failed (${code}): ${message}${again ? ' Retrying; its text is discarded.' : ''}`],
  'cost.budget_warning': ['warn', ({ threshold_pct: pct, cumulative_cost_micros_usd: spent, task_budget_micros_usd: budget }) =>
    `${pct}% of the budget is used: ${money(spent)} of ${money(budget)}.`],
  'cost.budget_exceeded': ['bad', ({ exhausted, cumulative_cost_micros_usd: spent }) =>
    `Budget exceeded (${exhausted ?? 'cost'}): the run spent ${money(spent)} and stops.`],
  'policy.tool_blocked': ['warn', ({ tool_name: tool, reason }) => `The policy blocked ${tool}: ${reason}`],
  'policy.model_rewrote': ['warn', ({ from_model: from, to_model: to, reason }) => `Model ${to} is used instead of ${from}: ${reason}`],
  'error.tool_unavailable': ['warn', ({ tool_name: tool, reason }) => `The tool ${tool} is unavailable: ${reason}`],
  'error.model_capability_missing': ['warn', ({ model, missing_capability: missing, fallback_strategy: instead }) =>
    `${model} does not support ${missing}${instead ? `; fallback: ${instead}` : ''}.`],
  'error.upstream': ['warn', ({ provider, message, attempt, max_attempts: most }) =>
    `${provider} failed${attempt ? `, attempt ${attempt}${most ? ` of ${most}` : ''}` : ''}: ${message}`],
  'workspace.provisioned': ['quiet', ({ mode, path, files, bytes, files_from_run_id: from, files_from_sequence: at }) =>
    `Workspace ${path} (${modeWords(mode)}${mode === 'clone' ? `; ${counted(files, 'file')}, ${size(bytes)}` : ''}${from ? `; the files at event ${at} of ${from}` : ''}).`],
  'workspace.failed': ['bad', ({ code, message }) => `Cannot create the workspace (${code}): ${message}`],
  'gap.events_pruned': ['warn', ({ first_pruned_sequence: first, last_pruned_sequence: last, reason }) => `${prunedWords(first, last).slice(0, -1)}: ${reason}.`],
  'gap.events_damaged': ['bad', ({ first_damaged_sequence: first, last_damaged_sequence: last, reason }) => `Damage found in ${through(first, last)}: ${reason}.`],
  'gap.run_disconnected': ['warn', ({ reason, since_at: since }) => `No events received since ${moment(since)}: ${reason}.`],
  'gap.workspace_removed': ['quiet', ({ path, reason }) => `The workspace ${path} was removed: ${reason}.`],
  'context.compacted': ['quiet', ({ tokens_before: before, tokens_after: after, summary }) =>
    `The earlier conversation was replaced by a summary${before ? ` (${count(before)} → ${count(after)} tokens)` : ''}: ${summary}`],
  'context.trimmed': ['quiet', ({ results = [] }) => `${counted(results.length, 'earlier result')} shortened for the model; the log keeps the full text.`],
  'artifact.referenced': ['quiet', ({ artifact_id: id, relation }) => `${id ? `Artifact ${id}` : 'An artifact'}: ${relation}.`],
};

/** The tone and the sentence of a note; of types that are not known, the type. */
export function noteWords({ type, data }) {
  const [tone, words] = Object.hasOwn(NOTES, type) ? NOTES[type] : ['quiet', () => type];
  return { tone, words: words(Object.fromEntries(Object.entries(data ?? {}).map(([name, value]) => [name, plain(value)]))) };
}

const plain = (value) => (typeof value === 'object' && value !== null && !Array.isArray(value) ? asText(value) : value);

export function endingWords({ status, data }) {
  const took = Number.isFinite(data.duration_ms) ? ` after ${duration(data.duration_ms)}` : '';
  const turns = data.turns ? `, ${counted(data.turns, 'turn')}` : '';
  const cost = data.cost_micros_usd ? `, ${money(data.cost_micros_usd)}` : '';
  if (status === 'failed') return `Failed${took}${turns}${cost}: ${asText(data.message)} (${asText(data.code)})`;
  if (status === 'cancelled') return `Cancelled by ${asText(data.by)}${took}${turns}${cost}: ${asText(data.reason)}`;
  return `Finished${took}${turns}${cost}: ${asText(data.final_status)}`;
}

export const STATES = {
  proposed: 'proposed', refused: 'refused', invoked: 'starting', running: 'running', completed: 'done', failed: 'failed',
  cancelled: 'cancelled', timed_out: 'timed out',
};

/** What a prompt is called and what became of it. */
export function promptWords({ prompt, state, asked, answer }) {
  const question = asText({ approval: asked?.summary, clarification: asked?.question, handoff: asked?.summary_terse ?? asked?.reason }[prompt]);
  const by = answer?.by ? ` by ${answer.by}` : '';
  const words = {
    pending: 'waiting for an answer', approved: `approved${by}`, rejected: `rejected${by}`, cancelled: `cancelled${by}`,
    answered: `answered${by}: ${asText(answer?.response)}`, acknowledged: `taken over${by}`,
    timed_out: `timed out${answer?.decision ? `: ${answer.decision}` : answer?.response !== undefined ? `: ${asText(answer.response)}` : ''}`,
  };
  const elsewhere = { approved: `approved elsewhere${by}`, rejected: `rejected elsewhere${by}`, undecided: 'withdrawn here; decided elsewhere' };
  const of = (all, word) => (Object.hasOwn(all, word) ? all[word] : null);
  const outcome = of(elsewhere, answer?.decided_elsewhere ?? '') ?? of(words, state) ?? asText(state);
  return { name: { approval: 'Approval', clarification: 'Question', handoff: 'Handoff' }[prompt] ?? prompt, question, outcome,
    comment: asText(answer?.comment ?? (prompt === 'handoff' ? answer?.reason : '')) };
}

/** One line for a call: what it was asked to do. */
export function callLine(call) {
  if (call.args_summary) return call.args_summary;
  if (call.shell?.argv.length > 0) return call.shell.argv.join(' ');
  const { input } = call;
  if (input === undefined) return call.input_pieces ?? '';
  if (typeof input !== 'object' || input === null) return asText(input);
  for (const name of ['command', 'path', 'pattern', 'url', 'query', 'question', 'argv']) {
    if (Object.hasOwn(input, name)) return Array.isArray(input[name]) ? input[name].join(' ') : asText(input[name]);
  }
  const text = JSON.stringify(input);
  return text === '{}' ? '' : text;
}

/** What came of a call, short. */
export function outcomeLine(call) {
  const took = Number.isFinite(call.duration_ms) ? duration(call.duration_ms) : '';
  const words = [];
  const { shell } = call;
  if (shell && shell.exit_code !== undefined && shell.exit_code !== null) words.push(`exit ${shell.exit_code}`);
  else if (shell?.signal) words.push(`terminated by ${shell.signal}`);
  else if (call.summary) words.push(call.summary);
  if (took) words.push(took);
  return words.join(', ');
}
