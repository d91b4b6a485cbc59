// An agent made with the SDK of the protocol's authors. Its first argument is the version of the protocol that it speaks.
// Knows nothing of Recount.

import { Readable, Writable } from 'node:stream';

const version = Number(process.argv[2]);
const acp = await import(version === 2 ? '@agentclientprotocol/sdk/experimental/v2' : '@agentclientprotocol/sdk');

const info = { name: 'sdk-agent', version: '0.1.0' };
const OPTIONS = [
  { optionId: 'allow', name: 'Allow once', kind: 'allow_once' },
  { optionId: 'reject', name: 'Reject', kind: 'reject_once' },
];

const text = (words) => ({ type: 'text', text: words });

const first = acp
  .agent({ name: 'sdk-agent' })
  .onRequest('initialize', () =>
    version === 2
      ? { protocolVersion: 2, info, capabilities: {} }
      : { protocolVersion: 1, agentInfo: info, agentCapabilities: { loadSession: false } },
  )
  .onRequest('session/new', () => ({ sessionId: crypto.randomUUID() }));

/// One turn: a text, a call that asks for permission, a file that is read, a text.
async function turn(client, sessionId) {
  const update = (body) => client.notify('session/update', { sessionId, update: body });
  const say = (words) =>
    update({ sessionUpdate: 'agent_message_chunk', ...(version === 2 ? { messageId: 'm1' } : {}), content: text(words) });
  await say('I look ');
  await say('first.');
  const call = { toolCallId: 'call_1', title: 'Change settings', kind: 'edit', rawInput: { path: '/p/settings' } };
  await update({ sessionUpdate: version === 2 ? 'tool_call_update' : 'tool_call', ...call, status: 'pending' });
  const asked =
    version === 2
      ? { title: 'Change settings', subject: { type: 'tool_call', toolCall: call }, options: OPTIONS }
      : { toolCall: call, options: OPTIONS };
  const { outcome } = await client.request('session/request_permission', { sessionId, ...asked });
  const status = outcome.optionId === 'allow' ? 'completed' : 'failed';
  await update({ sessionUpdate: 'tool_call_update', toolCallId: 'call_1', status });
  if (version === 1) {
    const { content } = await client.request('fs/read_text_file', { sessionId, path: '/p/settings' });
    await say(`It says ${content}.`);
  }
}

const app =
  version === 2
    ? first.onRequest('session/prompt', ({ params, client }) => {
        const { sessionId } = params;
        const state = (body) => client.notify('session/update', { sessionId, update: { sessionUpdate: 'state_update', ...body } });
        void (async () => {
          await state({ state: 'running' });
          await turn(client, sessionId);
          await state({ state: 'idle', stopReason: 'end_turn' });
        })();
        return { messageId: crypto.randomUUID() };
      })
    : first.onRequest('session/prompt', async ({ params, client }) => {
        await turn(client, params.sessionId);
        return { stopReason: 'end_turn' };
      });

app.connect(acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
