// Any number of tabs: one stream for each browser, whatever the browser has to share it, closed with the page and opened
// again after the back-forward cache.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { launch, openPage } from './browser.mjs';
import { startClosedServer, startServer } from './server.mjs';
import { Producer, createRun } from './story.mjs';

const TEST = { timeout: 180_000 };
const TABS = 12;
/// How long after an event is durable every tab has it, on a machine that also runs other tests.
const CURRENT_MS = 1000;
const CHECKS = 3;

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser?.close());

/// How pages share the stream: by a worker, by a lock, or not at all.
const WAYS = {
  'a shared worker': () => {},
  'a lock': () => {
    delete window.SharedWorker;
  },
};

const note = (text) => ['ext.webtest.note', JSON.stringify({ text })];
const has = (page, text) => page.locator('#events', { hasText: text }).waitFor();

async function liveRuns(server, count) {
  const runs = [];
  for (let at = 0; at < count; at += 1) {
    const run = await createRun(server, `run ${at}`);
    const producer = new Producer(server, run);
    await producer.append([['run.started', '{}']]);
    runs.push({ run, producer });
  }
  return runs;
}

/// Opens tabs of one browser profile, one for each run, on its list of events.
async function tabs(t, server, runs, prepare) {
  const first = await openPage(t, browser, `${server.origin}/healthz`);
  await first.context().addInitScript(prepare);
  const pages = [];
  for (const { run } of runs) {
    const page = await first.context().newPage();
    await page.goto(`${server.origin}/#${run}/events`);
    await page.locator('#health', { hasText: 'Connected.' }).waitFor();
    await has(page, 'run.started');
    pages.push(page);
  }
  return pages;
}

for (const [way, prepare] of Object.entries(WAYS)) {
  test(`twelve tabs on live runs are all current within a second, with ${way}`, TEST, async (t) => {
    const server = await startServer(t);
    const runs = await liveRuns(server, TABS);
    const pages = await tabs(t, server, runs, prepare);
    const times = [];
    for (let check = 0; check < CHECKS; check += 1) {
      await Promise.all(runs.map(({ producer }, at) => producer.append([note(`news ${check} of ${at}`)])));
      const start = performance.now();
      await Promise.all(pages.map((page, at) => has(page, `news ${check} of ${at}`)));
      times.push(performance.now() - start);
    }
    t.diagnostic(`current after ${times.map((ms) => ms.toFixed(0)).join(', ')} ms`);
    assert.ok(Math.min(...times) < CURRENT_MS, `${times}`);

    // The tab that may hold the stream leaves; the others go on.
    await pages[0].close();
    await Promise.all(runs.slice(1).map(({ producer }, at) => producer.append([note(`after all ${at}`)])));
    await Promise.all(pages.slice(1).map((page, at) => has(page, `after all ${at}`)));
  });
}

test('twenty times back and forth in one tab leaves nothing behind that holds up the next page', TEST, async (t) => {
  const server = await startServer(t);
  const [{ run, producer }] = await liveRuns(server, 1);
  const page = await openPage(t, browser, `${server.origin}/#${run}/events`);
  for (let at = 0; at < 10; at += 1) {
    await page.goto(`${server.origin}/healthz`);
    await page.goBack();
    await producer.append([note(`round ${at}`)]);
    await has(page, `round ${at}`);
    await page.goForward();
    await page.goto(`${server.origin}/#${run}/events`);
    await has(page, `round ${at}`);
  }
});

test('a page that was hidden and comes back is current, and so is one after a restart', TEST, async (t) => {
  const server = await startServer(t);
  const [{ run, producer }] = await liveRuns(server, 1);
  const page = await openPage(t, browser, `${server.origin}/#${run}/events`);
  await has(page, 'run.started');
  // What a browser does around its back-forward cache.
  await page.evaluate(() => dispatchEvent(new PageTransitionEvent('pagehide', { persisted: true })));
  await producer.append([note('meanwhile')]);
  await page.evaluate(() => dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true })));
  await has(page, 'meanwhile');
  await producer.append([note('afterwards')]);
  await has(page, 'afterwards');
  page.expectOutage(true);
  await server.stop('SIGTERM');
  await page.locator('#health', { hasText: 'Connection lost. Reconnecting.' }).waitFor();
  await server.startAgain();
  await page.locator('#health', { hasText: 'Connected.' }).waitFor();
  await producer.append([note('restarted')]);
  await has(page, 'restarted');
});

test('a tab gets nothing through the token of another tab', TEST, async (t) => {
  const server = await startClosedServer(t);
  const run = await createRun(server, 'secret', { name: 'x' });
  const producer = new Producer(server, run);
  await producer.append([['run.started', '{}']]);
  const page = await openPage(t, browser, `${server.origin}/#${run}/events`, { statuses: [401] });
  await page.getByLabel('Token').fill(server.token);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await has(page, 'run.started');
  const other = await page.context().newPage();
  await other.goto(`${server.origin}/#${run}/events`);
  await other.getByLabel('Token').waitFor();
  await producer.append([note('for the first only')]);
  await has(page, 'for the first only');
  assert.equal(await other.locator('#events > *').count(), 0);
});
