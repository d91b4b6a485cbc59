// Clients of MCP read the log: the newest SDK in both eras of the protocol, and the Inspector's command line.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

import { atEnd } from '../web-tests/ending.mjs';
import { BINARY, startServer } from '../web-tests/server.mjs';

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
