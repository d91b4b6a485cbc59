// The console before a server of a later release: it shows what it knows, as it is what it does not know, and
// complains of nothing. What such a server may send is in `testdata/future/`.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFile, readdir } from 'node:fs/promises';
import { createServer } from 'node:http';
import { after, before, test } from 'node:test';

import { foldEvents } from '../web/src/fold/fold.js';
import { launch, openPage } from './browser.mjs';
import { atEnd } from './ending.mjs';

const RUN = 'run_01M90000000000000000000F01';
const MEDIA_TYPES = { html: 'text/html; charset=utf-8', js: 'text/javascript', css: 'text/css' };

const corpus = (name) => readFile(new URL(`../testdata/future/${name}`, import.meta.url), 'utf8');

let browser;
before(async () => {
  browser = await launch();
});
after(async () => {
  await browser?.close();
});

/// The events of a stream after a cursor as a page.
function pageOf(stream, cursor) {
  const frames = stream.split('\n\n').filter((frame) => !/^event:/m.test(frame) && /^data: /m.test(frame));
  const data = frames.map((frame) => JSON.parse(/^data: (.*)$/m.exec(frame)[1])).filter(({ sequence }) => sequence > cursor);
  return { object: 'list', data, next: data.at(-1)?.sequence ?? cursor, has_more: false };
}

/// The console's own files, and behind them answers of a later release; `stream` is the account of its run.
async function laterRelease(t, stream) {
  const [replies, problem] = await Promise.all(['replies.json', 'problem.json'].map(corpus));
  const known = JSON.parse(replies);
  const json = (response, body, status = 200, type = 'application/json') => {
    response.writeHead(status, { 'content-type': type }).end(JSON.stringify(body));
  };
  const server = createServer(async (request, response) => {
    const path = decodeURIComponent(request.url.split('?')[0]);
    const events = { 'content-type': 'text/event-stream', 'cache-control': 'no-store' };
    if (request.headers['last-event-id']) return response.writeHead(204).end();
    if (path === '/v1/events/stream') {
      response.writeHead(200, events);
      return response.write('event: welcome\ndata: {}\n\nevent: caught_up\ndata: {"position":19,"lag_ms":3}\n\n');
    }
    if (path === `/v1/runs/${RUN}/events`) {
      if (request.headers.accept?.includes('text/event-stream')) return response.writeHead(200, events).end(stream);
      return json(response, pageOf(stream, Number(new URL(request.url, 'http://x').searchParams.get('after_sequence'))));
    }
    if (path === '/v1/runs') return json(response, known.list_runs);
    if (path === '/v1/sessions') return json(response, { object: 'list', data: [], next: null, has_more: false });
    if (path === `/v1/runs/${RUN}`) return json(response, known.get_run);
    if (path === `/v1/runs/${RUN}/digest`) return json(response, known.get_run_digest);
    if (path === '/v1/approvals/approval:1') return json(response, known.get_approval);
    if (path.startsWith('/v1/')) return json(response, JSON.parse(problem), 409, 'application/problem+json');
    const name = path === '/' ? 'index.html' : path.slice(1);
    const file = await readFile(new URL(`../web/${name}`, import.meta.url)).catch(() => null);
    if (!file) return response.writeHead(404).end();
    return response.writeHead(200, { 'content-type': MEDIA_TYPES[name.split('.').pop()] }).end(file);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  atEnd(t, async () => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${server.address().port}`;
}

test('the console reads a run of a later release', { timeout: 120_000 }, async (t) => {
  const lines = (await corpus('events.jsonl')).trim().split('\n');
  const origin = await laterRelease(t, await corpus('stream.txt'));
  const page = await openPage(t, browser, `${origin}/#${RUN}/events`);
  await page.locator('#events', { hasText: 'run.finished' }).waitFor();
  assert.equal(await page.locator('#events > *').count(), lines.length, 'every event is shown');
  for (const type of ['run.placed', 'vote.cast', 'assistant.audio_delta', 'ext.acme.moved']) {
    await page.locator('#events', { hasText: type }).waitFor();
  }
  await page.locator('#run-status', { hasText: 'Status: paused.' }).waitFor();
  await page.locator('#runs', { hasText: 'from a later release' }).waitFor();
  assert.equal(await page.locator('#trouble').isVisible(), false, await page.locator('#trouble').textContent());
});

test('the console shows an event of every type there is', { timeout: 120_000 }, async (t) => {
  const folder = new URL('../testdata/events/', import.meta.url);
  const names = (await readdir(folder)).filter((name) => name.endsWith('.json')).sort();
  const events = await Promise.all(names.map(async (name) => JSON.parse(await readFile(new URL(name, folder), 'utf8'))));
  const frames = events.map((event, sequence) => {
    const data = JSON.stringify({ ...event, run_id: RUN, sequence });
    return `id: ${sequence}\ndata: ${data}\n\n`;
  });
  const origin = await laterRelease(t, `${frames.join('')}event: caught_up\ndata: {}\n\n`);
  const page = await openPage(t, browser, `${origin}/#${RUN}/events`);
  await page.locator('#events > *').nth(events.length - 1).waitFor();
  assert.equal(await page.locator('#events > *').count(), events.length);
  const shown = await page.locator('#events').textContent();
  for (const { type } of events) assert.ok(shown.includes(type), `${type} is not shown`);
});

for (const [form, names] of [['as it is', /^$/], ['without ids of artifacts', /artifact_ids?$/]]) {
  test(`the transcript shows an event of every type, ${form}`, { timeout: 120_000 }, async (t) => {
    const folder = new URL('../testdata/events/', import.meta.url);
    const files = (await readdir(folder)).filter((name) => name.endsWith('.json')).sort();
    const events = await Promise.all(files.map(async (name) => JSON.parse(await readFile(new URL(name, folder), 'utf8'))));
    const told = events.map((event, sequence) => {
      const data = Object.fromEntries(Object.entries(event.data).filter(([name]) => !names.test(name)));
      return { ...event, data, run_id: RUN, sequence };
    });
    const frames = told.map((event) => `id: ${event.sequence}\ndata: ${JSON.stringify(event)}\n\n`);
    const origin = await laterRelease(t, `${frames.join('')}event: caught_up\ndata: {}\n\n`);
    const page = await openPage(t, browser, `${origin}/#${RUN}`, { statuses: [409] });
    const things = page.locator('.things > *');
    await things.nth(10).waitFor({ state: 'attached' });
    const shown = new Set();
    for (let step = 0; step < 40; step += 1) {
      (await things.evaluateAll((all) => all.map((node) => node.dataset.key))).forEach((key) => shown.add(key));
      await page.evaluate(() => document.querySelectorAll('.things details').forEach((details) => (details.open = true)));
      const before = shown.size;
      await page.evaluate(() => (document.getElementById('view').scrollTop = 0));
      await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
      (await things.evaluateAll((all) => all.map((node) => node.dataset.key))).forEach((key) => shown.add(key));
      if (shown.size === before && step > 2) break;
    }
    const wanted = foldEvents(told).items.map(({ key }) => key);
    assert.ok(wanted.length > 40, `${wanted.length} things`);
    assert.deepEqual(wanted.filter((key) => !shown.has(key)), []);
    assert.ok(!(await page.locator('#view').innerText()).includes('undefined'), 'everything has its words');
  });
}
