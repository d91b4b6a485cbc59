// The client of the official SDK of ACP, which nobody here wrote, drives an agent of the real server: every message is
// checked by its schemas. And so is every message that the transcripts of the stories hold.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { access, mkdir, mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { Readable, Writable } from 'node:stream';
import { test } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';

import { client, methods, ndJsonStream } from '@agentclientprotocol/sdk';

import { atEnd } from './ending.mjs';
import { BINARY, plainEnvironment, startServer } from './server.mjs';

const TEST = { timeout: 120_000 };

const CONFIG = `
[models]
default = "here/script"
[models.providers.here]
kind = "scripted"
script = "script.toml"
[sandbox]
mode = "off"
`;

const SCRIPT = `
[[scene]]
when = "hello"
[[scene.turn]]
thinking = "A greeting."
text = "Hello to you."

[[scene]]
when = "write"
[[scene.turn]]
call = [
    { name = "todo_write", input = { todos = [{ content = "Write it", status = "in_progress" }] } },
    { name = "write_file", input = { path = "new.txt", content = "fresh\\n" } },
]
[[scene.turn]]
text = "Written."
`;

async function scene(t) {
  const folder = await mkdtemp(join(tmpdir(), 'recount-acp-'));
  atEnd(t, () => rm(folder, { recursive: true, force: true }));
  const work = join(folder, 'work');
  await mkdir(work);
  await writeFile(join(folder, 'config.toml'), CONFIG);
  await writeFile(join(folder, 'script.toml'), SCRIPT);
  const options = ['--config', join(folder, 'config.toml'), '--allow-workspace', work];
  return { folder, work, server: await startServer(t, options) };
}

/// Runs `talk` with the agent; what the agent asks and tells is kept in `heard`.
async function withAgent({ folder, server }, choose, talk) {
  const child = spawn(BINARY, ['--url', server.origin, 'acp', '--agent', 'assistant'], {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: plainEnvironment(folder),
  });
  const heard = { updates: [], asked: [] };
  const app = client({ name: 'editor' })
    .onNotification(methods.client.session.update, ({ params }) => {
      heard.updates.push(params.update);
    })
    .onRequest(methods.client.session.requestPermission, ({ params }) => {
      heard.asked.push(params);
      return { outcome: { outcome: 'selected', optionId: choose(params) } };
    });
  try {
    const stream = ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
    return await app.connectWith(stream, async (agent) => {
      const about = await agent.request(methods.agent.initialize, { protocolVersion: 1, clientCapabilities: {} });
      return await talk(agent, heard, about);
    });
  } finally {
    child.kill();
  }
}

const say = (sessionId, text) => ({ sessionId, prompt: [{ type: 'text', text }] });
const texts = (updates, kind) =>
  updates.filter((update) => update.sessionUpdate === kind).map((update) => update.content.text).join('');

test('the client of the SDK talks with an agent, and loads the session again', TEST, async (t) => {
  const stage = await scene(t);
  const { work } = stage;
  const session = await withAgent(stage, () => 'allow', async (agent, heard, about) => {
    assert.equal(about.protocolVersion, 1);
    assert.equal(about.agentCapabilities.loadSession, true);
    const { sessionId, modes } = await agent.request(methods.agent.session.new, { cwd: work, mcpServers: [] });
    assert.equal(modes.currentModeId, 'policy');
    const answer = await agent.request(methods.agent.session.prompt, say(sessionId, 'hello'));
    assert.equal(answer.stopReason, 'end_turn');
    assert.equal(texts(heard.updates, 'agent_message_chunk'), 'Hello to you.');

    // The default policy asks about changes in the folder itself.
    const written = await agent.request(methods.agent.session.prompt, say(sessionId, 'write'));
    assert.equal(written.stopReason, 'end_turn');
    assert.equal(heard.asked.length, 1);
    assert.equal(heard.asked[0].toolCall.kind, 'edit');
    assert.equal(await readFile(join(work, 'new.txt'), 'utf8'), 'fresh\n');
    const edits = heard.updates.filter((update) => update.content?.[0]?.type === 'diff');
    assert.equal(edits.at(-1).status, 'completed');
    assert.equal(edits.at(-1).content[0].newText, 'fresh\n');
    assert.equal(heard.updates.filter((update) => update.sessionUpdate === 'plan').length, 1);
    return sessionId;
  });
  await withAgent(stage, () => 'reject', async (agent, heard) => {
    const { sessions } = await agent.request(methods.agent.session.list, { cwd: work });
    assert.deepEqual(sessions.map(({ sessionId, title }) => [sessionId, title]), [[session, 'hello']]);
    await agent.request(methods.agent.session.load, { sessionId: session, cwd: work, mcpServers: [] });
    assert.equal(texts(heard.updates, 'user_message_chunk'), 'hellowrite');
    assert.equal(texts(heard.updates, 'agent_message_chunk'), 'Hello to you.Written.');
    await rm(join(work, 'new.txt'));
    const refused = await agent.request(methods.agent.session.prompt, say(session, 'write'));
    assert.equal(refused.stopReason, 'end_turn');
    await assert.rejects(access(join(work, 'new.txt')));
    await assert.rejects(agent.request(methods.agent.session.new, { cwd: 'work', mcpServers: [] }), /absolute path/);
  });
});

/// The schemas of the SDK, which are in a module that it does not export.
async function schemas() {
  const entry = createRequire(import.meta.url).resolve('@agentclientprotocol/sdk');
  return import(pathToFileURL(join(dirname(entry), '../schema/zod.gen.js')).href);
}

test('every transcript of a story holds messages of the protocol', TEST, async () => {
  const { zCreateElicitationRequest, zRequestPermissionRequest, zSessionNotification } = await schemas();
  const folder = fileURLToPath(new URL('../testdata/faces/acp/', import.meta.url));
  let messages = 0;
  for (const file of await readdir(folder)) {
    for (const line of (await readFile(join(folder, file), 'utf8')).split('\n')) {
      if (line.startsWith('{')) {
        zSessionNotification.parse({ sessionId: 'chat', update: JSON.parse(line) });
      } else if (line.startsWith('ask ')) {
        const params = JSON.parse(line.slice(line.indexOf('{')));
        (params.mode ? zCreateElicitationRequest : zRequestPermissionRequest).parse(params);
      } else {
        continue;
      }
      messages += 1;
    }
  }
  assert.ok(messages > 400, `${messages} messages`);
});
