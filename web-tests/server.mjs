// Starts and stops the real server, each time on a data folder that goes away with the test.
// Knows the program's command line and the first line it prints, nothing else.

import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

import { atEnd } from './ending.mjs';

export const BINARY =
  process.env.RECOUNT_BINARY ?? fileURLToPath(new URL('../target/debug/recount', import.meta.url));

const START_MS_MAX = 30_000;
const STOP_MS_MAX = 20_000;

/// A server for one test.
export async function startServer(t, options) {
  const server = await newServer(t, options);
  await server.start('127.0.0.1:0');
  return server;
}

/// One whose model plays a script.
export async function startScriptedServer(t, script, options = []) {
  const folder = await mkdtemp(join(tmpdir(), 'recount-script-'));
  atEnd(t, () => rm(folder, { recursive: true, force: true }));
  await mkdir(join(folder, 'scripts'));
  await writeFile(join(folder, 'scripts', 'fix.toml'), script);
  const config = join(folder, 'recount.toml');
  await writeFile(config, `[models]\ndefault = "demo/fix"\n\n[models.providers.demo]\nkind = "scripted"\nscript = "${join(folder, 'scripts')}"\n`);
  return startServer(t, ['--config', config, ...options]);
}

/// One that lets nobody in without a token, and a token for everything.
export async function startClosedServer(t) {
  const server = await newServer(t, ['--require-token']);
  server.token = await server.addToken('boss', 'admin,read,run,approve,ingest');
  await server.start('127.0.0.1:0');
  return server;
}

export async function newServer(t, options = []) {
  const folder = await mkdtemp(join(tmpdir(), 'recount-web-'));
  const server = new Server(folder, options);
  atEnd(t, async () => {
    await server.stop('SIGKILL');
    await rm(folder, { recursive: true, force: true });
  });
  return server;
}

class Server {
  constructor(folder, options) {
    this.folder = folder;
    this.options = options;
    this.token = null;
    this.origin = null;
    this.child = null;
    this.printed = [];
  }

  async start(bind) {
    const words = ['serve', '--bind', bind, '--data', join(this.folder, 'data'), ...this.options];
    const child = spawn(BINARY, words, {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: plainEnvironment(this.folder),
    });
    this.child = child;
    this.origin = await new Promise((resolve, reject) => {
      const fail = (why) => {
        clearTimeout(timer);
        reject(new Error(`${why}; it printed:\n${this.printed.join('\n')}`));
      };
      const timer = setTimeout(() => fail('the server named no address in time'), START_MS_MAX);
      child.once('error', (error) => fail(`${BINARY} does not start: ${error.message}`));
      child.once('exit', (code, signal) => fail(`the server exited with ${code ?? signal}`));
      for (const stream of [child.stdout, child.stderr]) {
        createInterface({ input: stream }).on('line', (line) => {
          this.printed.push(line);
          const address = /https?:\/\/[0-9.]+:[0-9]+/.exec(line);
          if (address) {
            clearTimeout(timer);
            resolve(address[0]);
          }
        });
      }
    });
  }

  /// Ends it, and answers once it is gone.
  async stop(signal) {
    const child = this.child;
    this.child = null;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const gone = once(child, 'exit');
    child.kill(signal);
    const timer = setTimeout(() => child.kill('SIGKILL'), STOP_MS_MAX);
    const [, by] = await gone;
    clearTimeout(timer);
    if (signal !== 'SIGKILL' && by === 'SIGKILL') {
      throw new Error(`the server did not end on ${signal} within ${STOP_MS_MAX} ms`);
    }
  }

  /// Again on the same port and the same data.
  async startAgain() {
    await this.start(new URL(this.origin).host);
  }

  /// A token, made while the server does not run.
  async addToken(name, scopes) {
    const words = ['token', 'add', name, '--scope', scopes, '--data', join(this.folder, 'data')];
    const { stdout } = await promisify(execFile)(BINARY, words, { env: plainEnvironment(this.folder) });
    return stdout.trim();
  }

  /// Sends JSON text as it is, and answers the text that came back. On a connection of its own: one from before a kill
  /// may still look open.
  async request(method, path, body) {
    // A certificate of a test is not known to anyone else.
    const send = this.origin.startsWith('https') ? httpsRequest : httpRequest;
    const request = send(this.origin + path, {
      method,
      rejectUnauthorized: false,
      agent: false,
      headers: {
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...(this.token ? { authorization: `Bearer ${this.token}` } : {}),
      },
    });
    request.end(body);
    const [response] = await once(request, 'response');
    const answer = await text(response);
    if (response.statusCode < 200 || response.statusCode > 299) {
      throw new Error(`${method} ${path} answered ${response.statusCode}: ${answer}`);
    }
    return answer;
  }
}

/// Nothing of the user that runs the tests: no settings, no home.
export function plainEnvironment(folder) {
  const ours = ([name]) => name.startsWith('RECOUNT_') || name.startsWith('XDG_');
  const rest = Object.fromEntries(Object.entries(process.env).filter((entry) => !ours(entry)));
  return { ...rest, HOME: folder, XDG_CONFIG_HOME: join(folder, 'config') };
}
