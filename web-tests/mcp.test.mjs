// The client of the protocol's own SDK reads the log, over HTTP and through `recount mcp serve`.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

import { atEnd } from './ending.mjs';
import { BINARY, startServer } from './server.mjs';

const TEST = { timeout: 120_000 };

const TRANSPORTS = {
  http: (server) => new StreamableHTTPClientTransport(new URL('/mcp', server.origin)),
  stdio: (server) => new StdioClientTransport({ command: BINARY, args: ['--url', server.origin, 'mcp', 'serve'] }),
};

for (const [name, transport] of Object.entries(TRANSPORTS)) {
  test(`the SDK's client reads the log over ${name}`, TEST, async (t) => {
    const server = await startServer(t);
    const order = JSON.stringify({ kind: 'external', title: 'Fix the tests' });
    const { data: run } = JSON.parse(await server.request('POST', '/v1/runs', order));
    const client = new Client({ name: 'test', version: '1' });
    await client.connect(transport(server));
    atEnd(t, () => client.close());
    assert.equal(client.getServerVersion().name, 'recount');
    assert.match(client.getInstructions(), /untrusted/);

    const { tools } = await client.listTools();
    assert.deepEqual(
      tools.map((tool) => tool.name),
      ['search_runs', 'get_run', 'read_events', 'diff_run', 'run_cost', 'list_prompts'],
    );
    const call = (tool, args) => client.callTool({ name: tool, arguments: args });
    const found = await call('search_runs', { text: 'fix' });
    assert.deepEqual(found.structuredContent.runs.map((one) => one.id), [run.id]);
    assert.match(found.content[0].text, /^\| {3}title: Fix the tests$/m);
    const events = await call('read_events', { run: run.id, raw: true });
    assert.equal(events.structuredContent.events[0].type, 'run.queued');
    const failed = await call('get_run', { run: 'run_x' });
    assert.equal(failed.isError, true);
    assert.equal(failed.structuredContent.error.code, 'run_not_found');
    await assert.rejects(call('delete_run', {}), { code: -32602 });

    const { resources } = await client.listResources();
    const read = await client.readResource({ uri: resources[0].uri });
    assert.match(read.contents[0].text, new RegExp(run.id));
  });
}
