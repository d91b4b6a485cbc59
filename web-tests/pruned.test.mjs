// A run of which events were pruned, as a page shows it: it says what is gone and goes on with what is left,
// whether it comes later or was there before.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { follow, heardWhen, launch, openPage } from './browser.mjs';
import { startServer } from './server.mjs';
import { listElements } from './slices.mjs';
import { BEGINNING, ENDING, OUTPUT, Producer, createRun } from './story.mjs';

const TEST = { timeout: 120_000 };
const CLOSED = 2;
// One more than was reported: the server itself wrote `run.queued`. The marker comes behind all of them.
const EVENTS = 1 + BEGINNING.length + OUTPUT.length + ENDING.length;

let browser;
before(async () => {
  browser = await launch();
});
after(async () => {
  await browser?.close();
});

async function finishedRun(server, title) {
  const run = await createRun(server, title);
  await new Producer(server, run).append([...BEGINNING, ...OUTPUT, ...ENDING]);
  return run;
}

const prune = (server, run, before) => server.request('POST', `/v1/runs/${run}/prune`, JSON.stringify({ before }));

const boundsSay = (page, words) =>
  page.waitForFunction(
    (words) => {
      const bounds = document.getElementById('bounds');
      return !bounds.hidden && bounds.textContent.includes(words);
    },
    words,
    { timeout: 15_000 },
  );

test('the console says in words what is gone and shows what is left', TEST, async (t) => {
  const server = await startServer(t);
  const run = await finishedRun(server, 'long ago');
  await prune(server, run, 20);

  const page = await openPage(t, browser, `${server.origin}/#${run}/events`);
  await boundsSay(page, 'Showing events from 20 on; events 0 to 19 were pruned.');
  await page.locator('#events', { hasText: 'Forty files.' }).waitFor();
  await page.locator('#events', { hasText: 'gap.events_pruned' }).waitFor();
  assert.equal(await page.locator('#events > *').count(), EVENTS + 1 - 20);
  assert.ok(await page.locator('#earlier').isHidden(), 'what is gone cannot be asked for');

  // An operator prunes again; a page that comes back says what is gone now.
  await prune(server, run, EVENTS - 1);
  await page.reload();
  await boundsSay(page, `events 0 to ${EVENTS - 2} were pruned.`);
  await page.locator('#events', { hasText: 'run.finished' }).waitFor();
  assert.equal(await page.locator('#events > *').count(), 3, 'the ending and both markers');
});

test('a page that follows by itself is told of the gap and hears the rest', TEST, async (t) => {
  const server = await startServer(t);
  const run = await finishedRun(server, 'cut');
  await prune(server, run, 20);

  const page = await openPage(t, browser, `${server.origin}/`);
  await follow(page, `/v1/runs/${run}/events?after_sequence=4`);
  const heard = await heardWhen(page, ({ state }) => state === CLOSED);
  assert.deepEqual(heard.gaps.map((text) => JSON.parse(text)), [
    { first_pruned_sequence: 5, last_pruned_sequence: 19 },
  ]);
  const stored = await server.request('GET', `/v1/runs/${run}/events?limit=1000`);
  assert.deepEqual(heard.messages.map(({ data }) => data), listElements(stored, 'data'));
  assert.equal(heard.messages[0].id, '20');
});
