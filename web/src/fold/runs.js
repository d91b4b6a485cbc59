// The run itself: how it is queued, starts, waits, continues and ends; where it comes from and what it starts.

import { asList, present } from './state.js';

/** @typedef {import('./state.js').Envelope} Envelope */

const QUEUED = ['kind', 'title', 'driver', 'model', 'provider', 'agent', 'action', 'request_text', 'requested_by', 'workspace_path',
  'workspace_mode', 'config', 'patch_artifact_ids', 'traceparent'];
const BUDGET = ['task_budget_micros_usd', 'task_budget_tokens', 'prior_cost_micros_usd', 'prior_input_tokens', 'prior_output_tokens'];

/**
 * @param {import('./state.js').State} state
 * @param {Envelope} event
 * @param {object} data
 */
function note(state, event, data) {
  state.add(event, 'note', { type: event.type, data });
}

/**
 * The ending, whichever it is.
 * @param {string} status
 */
const ends = (status) => (/** @type {import('./state.js').State} */ state, /** @type {Envelope} */ event, /** @type {any} */ data) => {
  const { view } = state;
  view.status = status;
  view.waits_for = [];
  view.pending = [];
  view.ending = { status, sequence: event.sequence, at: event.occurred_at, ...data };
  if (Number.isInteger(data.cost_micros_usd)) view.cost.run_micros_usd = data.cost_micros_usd;
  state.add(event, 'ending', { status, data });
};

/** @type {import('./state.js').Handlers} */
export const runs = {
  'run.queued': (state, event, data) => {
    const { view } = state;
    view.status = 'queued';
    Object.assign(view.run, present(event, ['run_id', 'task_id', 'session_id']), { queued_at: event.occurred_at }, present(data, QUEUED));
    Object.assign(view.cost, present(data, BUDGET));
    if (data.prior_run_id) view.lineage.prior_run_id = data.prior_run_id;
    if (Number.isInteger(data.prior_cost_micros_usd)) view.cost.micros_usd = data.prior_cost_micros_usd;
    if (Number.isInteger(data.prior_input_tokens)) view.cost.input_tokens = data.prior_input_tokens;
    if (Number.isInteger(data.prior_output_tokens)) view.cost.output_tokens = data.prior_output_tokens;
    state.add(event, 'request', { text: data.request_text ?? '', by: data.requested_by ?? null });
  },
  'run.started': (state, event, data) => {
    // Again after a takeover, also while it waits.
    if (state.view.status !== 'waiting') state.view.status = 'running';
    if (state.view.run.started_at) note(state, event, data);
    else state.view.run.started_at = event.occurred_at;
  },
  'run.waiting': (state, event, data) => {
    state.view.status = 'waiting';
    state.view.waits_for = asList(data.for).map(({ kind, id }) => ({ kind, id }));
    state.add(event, 'wait', { for: state.view.waits_for, until: null, by: null }, 'wait');
  },
  'run.continued': (state, event, data) => {
    state.view.status = 'running';
    state.view.waits_for = [];
    const wait = state.named.get('wait');
    if (wait && wait.until === null) Object.assign(state.touch(event, wait), { until: event.occurred_at, by: data.by });
    else note(state, event, data);
  },
  'run.throttled': note,
  'run.resumed_from_event': (state, event, data) => {
    Object.assign(state.view.lineage, present(data, ['from_run_id', 'from_sequence']));
    if (Number.isInteger(data.prior_cost_micros_usd)) state.view.cost.micros_usd = data.prior_cost_micros_usd;
    note(state, event, data);
  },
  'run.branched_from': (state, event, data) => {
    Object.assign(state.view.lineage, present(data, ['from_run_id', 'from_sequence']), { branched: true });
    note(state, event, data);
  },
  'run.checkpoint_saved': (state, event, data) => {
    const turn = state.view.turns.at(-1)?.index ?? null;
    state.view.checkpoints.push({ id: data.checkpoint_id, sequence: event.sequence, at: event.occurred_at, turn });
    state.add(event, 'checkpoint', { id: data.checkpoint_id, turn });
  },
  'child_run.started': (state, event, data) => {
    const child = { run_id: data.child_run_id, sequence: event.sequence, ...present(data, ['summary', 'tool_call_id']) };
    state.view.lineage.children.push(child);
    state.add(event, 'child', child);
  },
  'run.finished': ends('finished'),
  'run.failed': ends('failed'),
  'run.cancelled': ends('cancelled'),
};
