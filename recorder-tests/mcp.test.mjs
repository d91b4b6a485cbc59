// Clients of MCP read the log: the newest SDK in both eras of the protocol, the Inspector's command line, and a whole agent.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

import { atEnd } from '../web-tests/ending.mjs';
import { BINARY, startServer } from '../web-tests/server.mjs';
import { CLAUDE, agentHome, run as runAgent } from './agents.mjs';
import { LAST_WORDS, startModelWith } from './model.mjs';

const TEST = { timeout: 120_000 };

const TRANSPORTS = {
  http: (server) => new StreamableHTTPClientTransport(new URL('/mcp', server.origin)),
  stdio: (server) => new StdioClientTransport({ command: BINARY, args: ['--url', server.origin, 'mcp', 'serve'] }),
};

/// How a client chooses the version, and which era it then speaks.
const MODES = [['auto', 'modern'], [{ pin: '2026-07-28' }, 'modern'], ['legacy', 'legacy']];

async function newRun(server) {
  const order = JSON.stringify({ kind: 'external', title: 'Fix the tests' });
  return JSON.parse(await server.request('POST', '/v1/runs', order)).data;
}

for (const [name, transport] of Object.entries(TRANSPORTS)) {
  for (const [mode, era] of MODES) {
    test(`the SDK's client reads the log over ${name}, ${JSON.stringify(mode)}`, TEST, async (t) => {
      const server = await startServer(t);
      const run = await newRun(server);
      const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode } });
      await client.connect(transport(server));
      atEnd(t, () => client.close());
      assert.equal(client.getProtocolEra(), era);
      assert.equal((await client.listTools()).tools.length, 6);
      const found = await client.callTool({ name: 'search_runs', arguments: {} });
      assert.deepEqual(found.structuredContent.runs.map((one) => one.id), [run.id]);
      const { resources } = await client.listResources();
      const read = await client.readResource({ uri: resources[0].uri });
      assert.match(read.contents[0].text, new RegExp(run.id));
      await assert.rejects(client.readResource({ uri: 'recount://runs/größe' }), /run_not_found/);
    });
  }
}

const INSPECTOR = fileURLToPath(
  new URL('node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js', import.meta.url),
);

test('the Inspector finds no fault with the tools and calls them', TEST, async (t) => {
  const server = await startServer(t);
  const run = await newRun(server);
  const env = { ...process.env, HOME: server.folder };
  const inspect = async (...words) => {
    const target = ['--cli', `${server.origin}/mcp`, '--transport', 'http'];
    const { stdout, stderr } = await promisify(execFile)(process.execPath, [INSPECTOR, ...target, ...words], { env });
    assert.equal(stderr, '');
    return JSON.parse(stdout);
  };
  const { tools } = await inspect('--method', 'tools/list', '--strict');
  assert.equal(tools.length, 6);
  const shown = await inspect('--method', 'tools/call', '--tool-name', 'get_run', '--tool-arg', `run=${run.id}`);
  assert.equal(shown.structuredContent.run.id, run.id);
  const read = await inspect('--method', 'resources/read', '--uri', `recount://runs/${run.id}`);
  assert.match(read.contents[0].text, new RegExp(run.id));
});

for (const [name, words] of Object.entries({
  http: (server) => ['--transport', 'http', 'recount', `${server.origin}/mcp`],
  stdio: () => ['recount', '--', BINARY, 'mcp', 'serve'],
})) {
  test(`Claude Code finds an earlier run and reads it over ${name}, added as the page for users shows it`, TEST, async (t) => {
    const server = await startServer(t);
    const earlier = await newRun(server);
    const model = await startModelWith([
      // It shows the model the tools of MCP servers only after a search.
      { names: /^ToolSearch$/, values: { query: 'select:mcp__recount__search_runs,mcp__recount__get_run' } },
      { names: /^mcp__recount__search_runs$/, values: { text: 'tests' } },
      { names: /^mcp__recount__get_run$/, values: { run: earlier.id } },
    ]);
    atEnd(t, async () => model.close());
    const home = await agentHome(server, model);
    await runAgent(home, [CLAUDE, 'mcp', 'add', ...words(server)]);
    const printed = await runAgent(home, [CLAUDE, '-p', 'How did the last run end?', '--allowedTools', 'mcp__recount']);
    assert.match(printed, new RegExp(LAST_WORDS));
    const blocks = model.requests.at(-1).body.messages.flatMap(({ content }) => (Array.isArray(content) ? content : []));
    const [, ...results] = blocks.filter(({ type }) => type === 'tool_result');
    assert.equal(results.length, 2, JSON.stringify(blocks));
    for (const result of results) {
      assert.notEqual(result.is_error, true, JSON.stringify(result));
      assert.match(JSON.stringify(result.content), new RegExp(earlier.id));
    }
  });
}
