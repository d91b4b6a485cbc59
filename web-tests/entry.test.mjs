// A server that asks who comes: the page asks for a token once, and then shows, follows and answers as ever.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { launch, openPage } from './browser.mjs';
import { startClosedServer } from './server.mjs';
import { BEGINNING, ENDING, OUTPUT, Producer, createRun } from './story.mjs';

const TEST = { timeout: 120_000 };
const FIELD = 'Token';

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser?.close());

const enter = async (page, token) => {
  await page.getByLabel(FIELD).fill(token);
  await page.getByRole('button', { name: 'Sign in' }).click();
};

test('a token is asked for, and with it the page follows a run live', TEST, async (t) => {
  const server = await startClosedServer(t);
  const run = await createRun(server, 'behind a door');
  const producer = new Producer(server, run);
  await producer.append([...BEGINNING, ...OUTPUT]);

  const page = await openPage(t, browser, `${server.origin}/#${run}/events`, { statuses: [401] });
  await page.getByLabel(FIELD).waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.id), 'entry-token', 'the field has the focus');
  assert.equal(await page.evaluate(() => document.querySelector('main').inert), true);
  assert.equal(await page.locator('#events > *').count(), 0, 'nothing is shown before');

  await enter(page, `${server.token.slice(0, -4)}0000`);
  await page.locator('#entry-why', { hasText: 'unknown, expired or revoked' }).waitFor();
  await enter(page, server.token);
  await page.locator('#entry').waitFor({ state: 'hidden' });
  await page.locator('#health', { hasText: 'Connected.' }).waitFor();
  await page.locator('#events', { hasText: 'file 39' }).waitFor();

  await producer.append(ENDING);
  await page.locator('#events', { hasText: 'Forty files.' }).waitFor();
  await page.locator('#run-status', { hasText: 'finished' }).waitFor();
  const address = await page.evaluate(() => location.href);
  assert.ok(!address.includes('rct_'), 'the token is not in the address');

  // The tab keeps it.
  await page.reload();
  await page.locator('#events', { hasText: 'Forty files.' }).waitFor();
  assert.ok(await page.locator('#entry').isHidden());

  // Until it is taken back: then it is asked for again.
  const listed = JSON.parse(await server.request('GET', '/admin/tokens'));
  await server.request('DELETE', `/admin/tokens/${listed.data[0].id}`);
  // Each attempt to join the stream again is refused, and then the page asks whether its token is valid.
  const refused = () => page.waitForResponse((response) => response.url().endsWith('/v1/runs?limit=1') && response.status() === 401);
  const first = refused();
  await page.locator('#entry-why', { hasText: 'unknown, expired or revoked' }).waitFor({ timeout: 30_000 });
  await first;
  await refused();
  assert.equal(await page.locator('#health').textContent(), 'Not signed in.');
  assert.equal(await page.locator('#health').getAttribute('data-well'), null, 'no sign of a connection');
});
