// Pictures of runs in the page, what a new task may do, runs of one session, and forced colours.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { violations } from './axe.mjs';
import { launch, openPage } from './browser.mjs';
import { startClosedServer, startScriptedServer, startServer } from './server.mjs';
import { Producer, createRun } from './story.mjs';

const TEST = { timeout: 180_000 };
/// A red pixel.
const PNG = Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==', 'base64');
const SVG = Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"><script>window.harmed = 1</script></svg>');
const SCRIPT = '[[turn]]\ntext = "Done."\n';

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser?.close());

const data = (value) => JSON.stringify(value);

async function upload(server, bytes, type, name) {
  const response = await fetch(`${server.origin}/v1/artifacts?kind=image&name=${name}`, {
    method: 'POST', body: bytes, headers: { 'content-type': type, ...(server.token ? { authorization: `Bearer ${server.token}` } : {}) },
  });
  assert.ok(response.ok, await response.clone().text());
  return (await response.json()).data;
}

/// A run with a picture by the agent, one by a call, one that is no picture, and one whose bytes are elsewhere.
async function picturedRun(server) {
  const run = await createRun(server, 'pictures');
  const kept = await upload(server, PNG, 'image/png', 'red.png');
  const vector = await upload(server, SVG, 'image/svg+xml', 'harm.svg');
  const created = (id, more) => ['artifact.created', data({ artifact_id: id, kind: 'image', mime: 'image/png', size_bytes: PNG.length, ...more })];
  await new Producer(server, run).append([
    ['run.started', '{}'], ['turn.started', '{"turn_index":0}'],
    created('pic-1', { name: 'red.png', hash: kept.hash }),
    ['tool.invoked', data({ tool_call_id: 'c', tool_name: 'draw', kind: 'file' })],
    created('pic-2', { name: 'drawn.png', tool_call_id: 'c', hash: kept.hash }),
    ['tool.completed', data({ tool_call_id: 'c', tool_name: 'draw' })],
    created('pic-3', { name: 'elsewhere.png' }),
    created('pic-4', { name: 'harm.svg', mime: 'image/svg+xml', size_bytes: SVG.length, hash: vector.hash }),
  ]);
  return run;
}

test('pictures of a run are shown where they are named, with and without a token', TEST, async (t) => {
  for (const start of [startServer, startClosedServer]) {
    const server = await start(t);
    const run = await picturedRun(server);
    const page = await openPage(t, browser, `${server.origin}/#${run}`, { statuses: server.token ? [401, 404] : [404] });
    if (server.token) {
      await page.getByLabel('Token', { exact: true }).fill(server.token);
      await page.getByRole('button', { name: 'Sign in' }).click();
    }
    const feed = page.getByRole('feed');
    const wide = (picture) => picture.evaluate((image) => image.decode().then(() => image.naturalWidth));
    const first = feed.getByRole('img', { name: 'red.png' });
    await first.waitFor();
    assert.equal(await wide(first), 1);
    const card = feed.locator('recount-call');
    await card.locator('summary').first().click();
    const second = card.getByRole('img', { name: 'drawn.png' });
    await second.waitFor();
    assert.equal(await wide(second), 1);
    await feed.getByText('Cannot read artifact pic-3: the server returned status 404.').waitFor();
    assert.equal(await feed.getByRole('img').count(), 2, 'nothing else is shown as a picture');
    assert.equal(await page.evaluate(() => window.harmed), undefined);
    assert.deepEqual(await violations(page), []);
  }
});

test('a new task is held to what the form says, and runs of one session are listed', TEST, async (t) => {
  const server = await startScriptedServer(t, SCRIPT);
  const { data: session } = JSON.parse(await server.request('POST', '/v1/sessions', data({ title: 'the chat' })));
  await server.request('POST', `/v1/sessions/${session.id}/messages`, data({ text: 'hello' }));
  const page = await openPage(t, browser, `${server.origin}/`);
  await page.locator('#health', { hasText: 'Connected.' }).waitFor();
  await page.getByRole('button', { name: 'New task' }).click();
  await page.getByLabel('What should the agent do?').fill('Look around.');
  await page.getByText('Folder, tools and limits').click();
  await page.getByLabel('Title', { exact: true }).fill('only reads');
  await page.getByLabel('Allowed tools').selectOption('read files only');
  await page.getByRole('button', { name: 'Start' }).click();
  await page.getByRole('feed').getByText('Done.').waitFor();
  const run = new URL(page.url()).hash.slice(1);
  const events = (await server.request('GET', `/v1/runs/${run}/events?after_sequence=-1&limit=1`));
  const { data: [queued] } = JSON.parse(events);
  const tools = (queued.data.config.tools ?? []).map((tool) => tool.name ?? tool);
  assert.ok(tools.includes('read_file') && tools.includes('grep'), data(queued.data.config));
  assert.ok(!tools.includes('shell_exec') && !tools.includes('write_file'), data(tools));

  await page.goto('about:blank');
  await page.goto(`${server.origin}/`);
  const runs = page.getByRole('navigation', { name: 'Runs' }).getByRole('listitem');
  await runs.nth(1).waitFor();
  await page.getByLabel('Session', { exact: true }).selectOption('the chat');
  await page.waitForFunction(() => document.querySelectorAll('#runs li').length === 1);
  assert.equal(await runs.filter({ hasText: 'only reads' }).count(), 0);
  await page.getByLabel('Session', { exact: true }).selectOption('all sessions');
  await runs.nth(1).waitFor();
});

test('the keyboard keeps its place when another view or run is shown', TEST, async (t) => {
  const server = await startScriptedServer(t, SCRIPT);
  const order = { kind: 'agent_loop', title: 'once', request_text: 'go' };
  const { data: { id: run } } = JSON.parse(await server.request('POST', '/v1/runs', data(order)));
  const page = await openPage(t, browser, `${server.origin}/#${run}`);
  await page.getByRole('feed').locator('.is-ending').waitFor();
  const focused = () => page.evaluate(() => document.activeElement.id || document.activeElement.textContent);
  await page.keyboard.press('e');
  for (const [key, view] of [['2', 'Timeline'], ['1', 'Transcript']]) {
    await page.keyboard.press(key);
    await page.locator('#views [aria-current]', { hasText: view }).waitFor();
    if (view === 'Timeline') assert.equal(await focused(), 'Timeline', 'it was in the transcript, which is gone');
  }
  await page.getByRole('button', { name: 'Retry', exact: true }).focus();
  await page.keyboard.press('Enter');
  await page.waitForFunction((run) => location.hash.startsWith('#run_') && location.hash !== `#${run}`, run);
  await page.waitForFunction(() => document.activeElement.id === 'account');
});

test('with forced colours the view that is shown, the chosen run and the focus can be told', TEST, async (t) => {
  const server = await startServer(t);
  const run = await picturedRun(server);
  const page = await openPage(t, browser, `${server.origin}/#${run}`, { forcedColors: 'active', statuses: [404] });
  await page.getByRole('feed').getByRole('img', { name: 'red.png' }).waitFor();
  await page.locator('#runs a[aria-current]').waitFor();
  const borders = await page.locator('#views a').evaluateAll((links) => links.map((link) => [link.hasAttribute('aria-current'), getComputedStyle(link).borderBottomColor]));
  const [current] = borders.filter(([shown]) => shown).map(([, colour]) => colour);
  assert.equal(borders.filter(([, colour]) => colour === current).length, 1, data(borders));
  const ground = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  assert.notEqual(current, ground);
  await page.keyboard.press('Tab');
  await page.keyboard.press('Tab');
  const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
  assert.notEqual(outline, 'none');
});
