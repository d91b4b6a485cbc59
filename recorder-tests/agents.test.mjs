// Claude Code, Codex, Gemini CLI and opencode, as npm has them, are recorded: by their own hooks and as ACP agents. The model
// is scripted; all else is real.

import assert from 'node:assert/strict';
import { Readable, Writable } from 'node:stream';
import { test } from 'node:test';

import * as acp from '@agentclientprotocol/sdk';

import { atEnd } from '../web-tests/ending.mjs';
import { BINARY, startServer } from '../web-tests/server.mjs';
import { ACP_AGENTS, ONE_PROMPT, agentHome, run, startRecorded } from './agents.mjs';
import { COMMAND, LAST_WORDS, OUTPUT, startModel } from './model.mjs';

const TEST = { timeout: 240_000 };
const PROMPT = 'Say that it was recorded.';

/// A server, a model and a home.
async function scene(t) {
  const model = await startModel();
  atEnd(t, async () => model.close());
  const server = await startServer(t);
  return { server, model, home: await agentHome(server, model) };
}

/// Each run with its events, the oldest first.
async function recorded(server) {
  const { data } = JSON.parse(await server.request('GET', '/v1/runs'));
  const runs = [];
  for (const run of data.reverse()) {
    const { data: events } = JSON.parse(await server.request('GET', `/v1/runs/${run.id}/events`));
    const of = (type) => events.filter((event) => event.type === type).map((event) => event.data);
    runs.push({ run, events, of });
  }
  return runs;
}

/// What both sides of a session must agree on.
function account({ run, events, of }) {
  const ofCall = (data) => (event) => event.data.tool_call_id === data.tool_call_id;
  const calls = of('assistant.tool_call_proposed')
    // opencode begins a call before it asks for it; then another call stands for the request.
    .filter((data) => data.tool_name !== 'request_permission')
    .map((data) => {
      const [outcome] = events.filter(
        (event) => /^tool\.(completed|failed|cancelled|refused)$/.test(event.type) && ofCall(data)(event),
      );
      return { id: data.provider_call_id ?? data.tool_call_id, command: commandIn(data.input), outcome: outcome?.type };
    });
  return {
    status: run.status,
    prompt: of('user.message').map((data) => data.text),
    text: of('assistant.text_complete').map((data) => data.text),
    calls,
  };
}

/// The command line in a call's input, which each agent names in its own way.
function commandIn(input) {
  const command = input?.command ?? input?.cmd;
  return Array.isArray(command) ? command.at(-1) : command;
}

function assertWhole(told) {
  const { status, prompt, text, calls } = account(told);
  assert.equal(status, 'finished');
  assert.deepEqual(prompt, [PROMPT]);
  assert.equal(text.at(-1), LAST_WORDS);
  assert.equal(calls.length, 1, JSON.stringify(calls));
  assert.equal(calls[0].outcome, 'tool.completed');
  assert.equal(calls[0].command, COMMAND);
  assert.match(JSON.stringify(told.of('tool.completed')), new RegExp(OUTPUT));
}

for (const agent of Object.keys(ONE_PROMPT)) {
  test(`${agent} is recorded by its hooks`, TEST, async (t) => {
    const { server, home } = await scene(t);
    await run(home, [BINARY, 'connect', agent]);
    const printed = await run(home, ONE_PROMPT[agent](PROMPT));
    assert.ok(printed.includes(LAST_WORDS), printed);
    const [told, ...more] = await recorded(server);
    assert.equal(more.length, 0);
    assertWhole(told);
    assert.equal(told.of('run.queued')[0].agent.name, agent);
  });
}

/// A session with one prompt, in which the client permits everything. How often it was asked.
async function acpSession(home, agent) {
  const { child, ended } = startRecorded(home, agent);
  let asked = 0;
  const app = acp.client({ name: 'sdk-client' }).onRequest('session/request_permission', ({ params }) => {
    asked += 1;
    const allow = params.options.find(({ kind }) => kind === 'allow_once') ?? params.options[0];
    return { outcome: { outcome: 'selected', optionId: allow.optionId } };
  });
  const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
  const reason = await app.connectWith(stream, async (client) => {
    await client.request('initialize', { protocolVersion: 1, clientCapabilities: {} });
    return client.buildSession(home.project).withSession(async (session) => {
      void session.prompt(PROMPT);
      for (;;) {
        const message = await session.nextUpdate();
        if (message.kind === 'stop') return message.stopReason;
      }
    });
  });
  child.stdin.end();
  await ended;
  return { reason, asked };
}

for (const [name, agent] of Object.entries(ACP_AGENTS)) {
  test(`${name} is recorded as an ACP agent`, TEST, async (t) => {
    const { server, home } = await scene(t);
    const { reason, asked } = await acpSession(home, agent);
    assert.equal(reason, 'end_turn');
    const [told, ...more] = await recorded(server);
    assert.equal(more.length, 0);
    assertWhole(told);
    assert.equal(told.of('approval.requested').length, asked);
  });
}

test('a session of Claude Code that is recorded from two sides agrees', TEST, async (t) => {
  const { server, home } = await scene(t);
  await run(home, [BINARY, 'connect', 'claude']);
  await acpSession(home, ACP_AGENTS['claude-agent-acp']);
  const both = await recorded(server);
  assert.equal(both.length, 2, 'one by the hooks and one by ACP');
  const [one, other] = both.map(account);
  assert.deepEqual(one, other);
});
