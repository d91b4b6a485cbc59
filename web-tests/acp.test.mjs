// The client and the agent of the protocol's own SDK, with the recorder between them, in both versions.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { test } from 'node:test';
import { Readable, Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';

import * as acp1 from '@agentclientprotocol/sdk';
import * as acp2 from '@agentclientprotocol/sdk/experimental/v2';

import { atEnd } from './ending.mjs';
import { startServer } from './server.mjs';

const BINARY =
  process.env.RECOUNT_BINARY ?? fileURLToPath(new URL('../target/debug/recount', import.meta.url));
const AGENT = fileURLToPath(new URL('acp-agent.mjs', import.meta.url));
const TEST = { timeout: 120_000 };

const INITIALIZE = {
  1: { protocolVersion: 1, clientCapabilities: { fs: { readTextFile: true, writeTextFile: false } } },
  2: { protocolVersion: 2, info: { name: 'sdk-client', version: '0.1.0' }, capabilities: {} },
};

/// The recorder with the agent, as streams for the SDK.
function recorded(t, server, acp, version) {
  const words = ['--url', server.origin, 'acp', '--', process.execPath, AGENT, String(version)];
  const child = spawn(BINARY, words, {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: { ...process.env, RECOUNT_ACP_STATE: server.folder },
  });
  atEnd(t, async () => {
    child.kill('SIGKILL');
  });
  const ended = new Promise((resolve) => child.once('exit', (code, signal) => resolve(code ?? signal)));
  return { stream: acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout)), child, ended };
}

/// Reads a session's updates until its turn is over.
async function turn(session, words) {
  const updates = [];
  void session.prompt(words);
  for (;;) {
    const message = await session.nextUpdate();
    if (message.kind === 'stop') return { updates, reason: message.stopReason };
    updates.push(message.update.sessionUpdate);
  }
}

async function eventsOf(server) {
  const { data } = JSON.parse(await server.request('GET', '/v1/runs'));
  const runs = [];
  for (const run of data.reverse()) {
    const { data: events } = JSON.parse(await server.request('GET', `/v1/runs/${run.id}/events`));
    runs.push({ run, events, of: (type) => events.filter((event) => event.type === type).map((event) => event.data) });
  }
  return runs;
}

for (const [version, acp] of [[1, acp1], [2, acp2]]) {
  test(`the SDK's client and agent speak version ${version} through the recorder`, TEST, async (t) => {
    const server = await startServer(t);
    const { stream, child, ended } = recorded(t, server, acp, version);
    const asked = [];
    const app = acp
      .client({ name: 'sdk-client' })
      .onRequest('session/request_permission', ({ params }) => {
        asked.push(params.options.map((option) => option.optionId));
        return { outcome: { outcome: 'selected', optionId: 'allow' } };
      });
    if (version === 1) app.onRequest('fs/read_text_file', () => ({ content: 'blue' }));
    const told = await app.connectWith(stream, async (agent) => {
      const initialized = await agent.request('initialize', INITIALIZE[version]);
      assert.equal(initialized.protocolVersion, version);
      return agent.buildSession('/p').withSession((session) => turn(session, 'change the settings'));
    });
    assert.equal(told.reason, 'end_turn');
    assert.deepEqual(asked, [['allow', 'reject']]);
    child.stdin.end();
    assert.equal(await ended, 0);

    const [{ run, of }, ...more] = await eventsOf(server);
    assert.equal(more.length, 0);
    assert.equal(run.status, 'finished');
    assert.deepEqual(of('run.queued')[0].agent, { name: 'sdk-agent', version: '0.1.0' });
    assert.deepEqual(of('user.message')[0].text, 'change the settings');
    const texts = of('assistant.text_complete').map((data) => data.text);
    assert.deepEqual(texts, version === 1 ? ['I look first.', 'It says blue.'] : ['I look first.']);
    assert.deepEqual(of('assistant.tool_call_proposed')[0].input, { path: '/p/settings' });
    const [resolved] = of('approval.resolved');
    assert.deepEqual([resolved.by, resolved.decided_elsewhere], ['editor', 'approved']);
    const completed = of('tool.completed').map((data) => data.tool_name);
    assert.deepEqual(completed, version === 1 ? ['edit', 'fs/read_text_file'] : ['edit']);
  });
}

test('a person who answers in Recount is faster than the client of the SDK', TEST, async (t) => {
  const server = await startServer(t);
  const { stream, child, ended } = recorded(t, server, acp1, 1);
  let cancelled = false;
  const app = acp1
    .client({ name: 'sdk-client' })
    .onRequest('fs/read_text_file', () => ({ content: 'blue' }))
    .onRequest('session/request_permission', ({ signal }) => {
      void answerInRecount(server);
      // The client's own dialog, which is open until the request is cancelled.
      return new Promise((resolve, reject) => {
        signal.addEventListener('abort', () => {
          cancelled = true;
          reject(new Error('cancelled'));
        });
      });
    });
  const told = await app.connectWith(stream, async (agent) => {
    await agent.request('initialize', INITIALIZE[1]);
    return agent.buildSession('/p').withSession((session) => turn(session, 'change the settings'));
  });
  assert.equal(told.reason, 'end_turn');
  assert.ok(cancelled, 'the client was told that it is decided');
  child.stdin.end();
  assert.equal(await ended, 0);
  const [{ of }] = await eventsOf(server);
  const [resolved] = of('approval.resolved');
  assert.deepEqual([resolved.decision, resolved.decided_elsewhere], ['rejected', undefined]);
  assert.equal(of('tool.refused').length, 1);
});

/// Says no to the first approval that is open, once there is one.
async function answerInRecount(server) {
  for (;;) {
    const { data } = JSON.parse(await server.request('GET', '/v1/approvals?status=pending'));
    if (data.length > 0) {
      await server.request('POST', `/v1/approvals/${data[0].id}/resolve`, '{"decision":"reject"}');
      return;
    }
  }
}
