// A browser follows a run with nothing but EventSource: it hears every event once, in order, with the
// very bytes that a plain read gives, also when the server goes away in the middle.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { follow, heardWhen, launch, openPage } from './browser.mjs';
import { startServer } from './server.mjs';
import { listElements } from './slices.mjs';
import { BEGINNING, ENDING, OUTPUT, Producer, createRun } from './story.mjs';

const TEST = { timeout: 120_000 };
const CLOSED = 2;

let browser;
before(async () => {
  browser = await launch();
});
after(async () => {
  await browser?.close();
});

/// Every event of the run as a plain read gives it, as text.
async function readAll(server, run) {
  const all = [];
  for (let cursor = -1; ; ) {
    const page = await server.request('GET', `/v1/runs/${run}/events?after_sequence=${cursor}&limit=20`);
    all.push(...listElements(page, 'data'));
    const { next, has_more: more } = JSON.parse(page);
    if (!more) return all;
    assert.ok(next > cursor, `the cursor moves on: ${next} after ${cursor}`);
    cursor = next;
  }
}

const hasEnding = ({ messages }) => messages.some(({ data }) => JSON.parse(data).type === 'run.finished');

/// The page heard the run, the whole run and nothing but the run.
async function assertHeardOnce(server, run, heard) {
  const stored = await readAll(server, run);
  assert.deepEqual(heard.messages.map(({ data }) => data), stored);
  assert.deepEqual(heard.messages.map(({ id }) => id), stored.map((_, at) => String(at)));
  assert.deepEqual(stored.map((text) => JSON.parse(text).sequence), stored.map((_, at) => at));
  // One more than was reported: the server itself wrote `run.queued`.
  assert.equal(stored.length, 1 + BEGINNING.length + OUTPUT.length + ENDING.length);
}

test('a page hears history, then live events, then the end', TEST, async (t) => {
  const server = await startServer(t);
  const run = await createRun(server, 'followed');
  const producer = new Producer(server, run);
  await producer.append(BEGINNING);

  const page = await openPage(t, browser, `${server.origin}/`);
  await follow(page, `/v1/runs/${run}/events`);
  const early = await heardWhen(page, ({ level }) => level > 0);
  assert.equal(early.messages.length, 1 + BEGINNING.length, 'level comes right behind the history');

  for (const event of OUTPUT) await producer.append([event]);
  await producer.append(ENDING);
  await assertHeardOnce(server, run, await heardWhen(page, hasEnding));

  // The stream ends with the run; the browser asks once more, is told that nothing follows, and stops.
  const end = await heardWhen(page, ({ state }) => state === CLOSED);
  assert.equal(end.level, 1);
  await assertHeardOnce(server, run, end);
});

test('a page that comes late hears a finished run', TEST, async (t) => {
  const server = await startServer(t);
  const run = await createRun(server, 'finished before');
  await new Producer(server, run).append([...BEGINNING, ...OUTPUT, ...ENDING]);

  const page = await openPage(t, browser, `${server.origin}/`);
  await follow(page, `/v1/runs/${run}/events`);
  const end = await heardWhen(page, ({ state }) => state === CLOSED);
  await assertHeardOnce(server, run, end);
});

for (const signal of ['SIGTERM', 'SIGKILL']) {
  test(`a page connects again by itself after ${signal} and misses nothing`, TEST, async (t) => {
    const server = await startServer(t);
    const run = await createRun(server, 'interrupted');
    const producer = new Producer(server, run);
    await producer.append(BEGINNING);

    const page = await openPage(t, browser, `${server.origin}/`);
    await follow(page, `/v1/runs/${run}/events`);
    await producer.append(OUTPUT.slice(0, 20));
    await heardWhen(page, ({ messages }) => messages.length >= 1 + BEGINNING.length + 5);

    page.expectOutage(true);
    await server.stop(signal);
    await heardWhen(page, ({ state }) => state !== 1);
    await server.startAgain();
    await producer.append(OUTPUT.slice(20));
    const back = await heardWhen(page, ({ opened }) => opened >= 2);
    assert.equal(back.opened, 2);
    page.expectOutage(false);

    await producer.append(ENDING);
    await assertHeardOnce(server, run, await heardWhen(page, hasEnding));
    await assertHeardOnce(server, run, await heardWhen(page, ({ state }) => state === CLOSED));
  });
}
