// TLS and HTTP/2: thirty tabs of one browser, each with a stream of its own. Over HTTP/1.1, a browser has six connections.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';

import { follow, heardWhen, launch, openPage } from './browser.mjs';
import { atEnd } from './ending.mjs';
import { startServer } from './server.mjs';
import { Producer, createRun } from './story.mjs';

const TABS = 30;

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser?.close());

/// Files of a certificate for this machine, which only this test trusts.
async function certificate(t) {
  const folder = await mkdtemp(join(tmpdir(), 'recount-tls-'));
  atEnd(t, () => rm(folder, { recursive: true, force: true }));
  const [cert, key] = ['cert.pem', 'key.pem'].map((name) => join(folder, name));
  const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];
  const names = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=IP:127.0.0.1'];
  await promisify(execFile)('openssl', ['req', '-x509', ...curve, ...names, '-keyout', key, '-out', cert]);
  return ['--tls-cert', cert, '--tls-key', key];
}

test('thirty tabs have a stream each over one connection', { timeout: 180_000 }, async (t) => {
  const server = await startServer(t, await certificate(t));
  assert.match(server.origin, /^https:/);
  const run = await createRun(server, 'many tabs');
  const producer = new Producer(server, run);
  await producer.append([['run.started', '{}']]);
  const first = await openPage(t, browser, `${server.origin}/healthz`, { ignoreHTTPSErrors: true });
  const pages = [first];
  while (pages.length < TABS) {
    const page = await first.context().newPage();
    await page.goto(`${server.origin}/healthz`);
    pages.push(page);
  }
  for (const page of pages) await follow(page, `/v1/runs/${run}/events`);
  for (const page of pages) await heardWhen(page, ({ level }) => level === 1);
  await producer.append([['ext.webtest.note', '{"text":"for all"}']]);
  for (const page of pages) {
    const { messages } = await heardWhen(page, ({ messages }) => messages.some(({ data }) => data.includes('for all')));
    assert.deepEqual(messages.map(({ id }) => id), [...messages.keys()].map(String));
  }
  const protocol = () => performance.getEntriesByType('navigation')[0].nextHopProtocol;
  assert.equal(await first.evaluate(protocol), 'h2');
});

test('the console works over TLS', { timeout: 180_000 }, async (t) => {
  const server = await startServer(t, await certificate(t));
  const run = await createRun(server, 'encrypted');
  await new Producer(server, run).append([['run.started', '{}'], ['ext.webtest.note', '{"text":"arrived"}']]);
  const page = await openPage(t, browser, `${server.origin}/#${run}/events`, { ignoreHTTPSErrors: true });
  await page.locator('#events', { hasText: 'arrived' }).waitFor();
});
