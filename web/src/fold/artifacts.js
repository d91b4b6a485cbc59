// Artifacts that a run made, used or changed. Only facts about them; their bytes are on the server.

import { present } from './state.js';

const FACTS = ['kind', 'mime', 'name', 'path', 'summary', 'size_bytes', 'original_size_bytes', 'truncated', 'hash', 'additions', 'deletions',
  'hunks', 'base_revision', 'tool_call_id'];

/** @type {import('./state.js').Handlers} */
export const artifacts = {
  'artifact.created': (state, event, data) => {
    const artifact = state.artifact(data.artifact_id);
    if (artifact) Object.assign(artifact, { sequence: event.sequence }, present(data, FACTS));
    const call = state.named.get(`call ${data.tool_call_id}`);
    const fields = { ...present(data, ['artifact_id']), ...present(data, FACTS) };
    if (call) (state.touch(event, call).artifacts ??= []).push(fields);
    else state.add(event, 'artifact', { ...fields, artifact_kind: data.kind ?? null, kind: 'artifact' });
  },
  'artifact.referenced': (state, event, data) => {
    state.artifact(data.artifact_id);
    state.add(event, 'note', { type: event.type, data });
  },
  'artifact.updated': (state, event, data) => {
    const artifact = state.artifact(data.artifact_id);
    // The names of these fields are the producer's.
    if (artifact && ['status', 'reverted_at', 'applied_at', 'rejected_at'].includes(data.field)) artifact[data.field] = data.new_value;
    const call = state.named.get(`patch ${data.artifact_id}`);
    if (call) state.touch(event, call);
  },
};
