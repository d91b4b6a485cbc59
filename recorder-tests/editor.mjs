// An editor for ACP agents: it permits what it is requested to permit, and offers its files and its terminal.
// It must not know the agent. Start at `promptOnce`.

import { spawn } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { Readable, Writable } from 'node:stream';

import * as acp from '@agentclientprotocol/sdk';

const CAPABILITIES = { fs: { readTextFile: true, writeTextFile: true }, terminal: true };

/// Sends one prompt to an agent's process and waits for its end. Returns the stop reason and the permissions that were requested here.
export async function promptOnce(child, project, prompt, hasOwnTools) {
  const permissions = [];
  const app = acp.client({ name: 'sdk-client' }).onRequest('session/request_permission', ({ params }) => {
    permissions.push(params);
    const allow = params.options.find(({ kind }) => kind === 'allow_once') ?? params.options[0];
    return { outcome: { outcome: 'selected', optionId: allow.optionId } };
  });
  if (hasOwnTools) offerTools(app, project);
  const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
  const reason = await app.connectWith(stream, async (client) => {
    const clientCapabilities = hasOwnTools ? CAPABILITIES : {};
    await client.request('initialize', { protocolVersion: 1, clientCapabilities });
    return client.buildSession(project).withSession(async (session) => {
      void session.prompt(prompt);
      for (;;) {
        const message = await session.nextUpdate();
        if (message.kind === 'stop') return message.stopReason;
      }
    });
  });
  child.stdin.end();
  return { reason, permissions };
}

/// Reads and writes files and runs commands for the agent, as editors do.
function offerTools(app, project) {
  const terminals = new Map();
  const terminal = ({ params }) => terminals.get(params.terminalId);
  app.onRequest('fs/read_text_file', async ({ params }) => ({ content: await readFile(params.path, 'utf8') }));
  app.onRequest('fs/write_text_file', async ({ params }) => {
    await writeFile(params.path, params.content);
    return {};
  });
  app.onRequest('terminal/create', ({ params: { command, args = [], cwd } }) => {
    const child = spawn(command, args, { cwd: cwd ?? project, shell: args.length === 0, stdio: ['ignore', 'pipe', 'pipe'] });
    const terminalId = `terminal-${terminals.size + 1}`;
    const opened = { child, output: '', exitStatus: null };
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text) => (opened.output += text));
    }
    opened.exit = new Promise((resolve) => {
      child.once('close', (exitCode, signal) => resolve((opened.exitStatus = { exitCode, signal })));
    });
    terminals.set(terminalId, opened);
    return { terminalId };
  });
  app.onRequest('terminal/wait_for_exit', (request) => terminal(request).exit);
  app.onRequest('terminal/output', (request) => {
    const { output, exitStatus } = terminal(request);
    return { output, truncated: false, exitStatus };
  });
  app.onRequest('terminal/kill', (request) => {
    terminal(request).child.kill('SIGKILL');
    return {};
  });
  app.onRequest('terminal/release', () => ({}));
}
