// Patches of a run by the buttons of its cards: applied, rejected and reverted, with the real program and a scripted model.

import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';

import { violations } from './axe.mjs';
import { launch, openPage } from './browser.mjs';
import { atEnd } from './ending.mjs';
import { startScriptedServer } from './server.mjs';

const TEST = { timeout: 240_000 };
/// So many files take a moment to write, in which the server is killed.
const FILES = 40;
/// How many runs may be over before the server is killed.
const TRIES = 8;

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser?.close());

const names = Array.from({ length: FILES }, (_, at) => `f${at}.txt`);
const edits = names.map((path) => `{ path = "${path}", old_text = "old", new_text = "new" }`);
const SCRIPT = `
[[scene]]
when = "all of them"
end = "Done."
[[scene.turn]]
text = "I change all files."
call = [{ name = "multi_edit", input = { edits = [${edits.join(', ')}] } }]

[[scene]]
when = "write one"
end = "Done."
[[scene.turn]]
text = "I write."
call = [{ name = "write_file", input = { path = "note.txt", content = "one\\ntwo\\n" } }]
`;

async function workspace(t) {
  const folder = await mkdtemp(join(tmpdir(), 'recount-work-'));
  atEnd(t, () => rm(folder, { recursive: true, force: true }));
  await mkdir(join(folder, 'work'));
  for (const name of names) await writeFile(join(folder, 'work', name), 'old\n');
  return join(folder, 'work');
}

async function createdRun(server, work, prompt) {
  const body = JSON.stringify({ kind: 'agent_loop', request_text: prompt, workspace: work });
  return JSON.parse(await server.request('POST', '/v1/runs', body)).data.id;
}

/// Follows a run until an event fits; answers it.
async function eventOf(server, run, fits) {
  const aborting = new AbortController();
  const response = await fetch(`${server.origin}/v1/runs/${run}/events?after_sequence=-1`,
    { headers: { accept: 'text/event-stream' }, signal: aborting.signal });
  let rest = '';
  try {
    for await (const piece of response.body.pipeThrough(new TextDecoderStream())) {
      const lines = (rest + piece).split('\n');
      rest = lines.pop();
      for (const line of lines.filter((one) => one.startsWith('data: {"schema_version'))) {
        const event = JSON.parse(line.slice(6));
        if (fits(event)) return event;
      }
    }
    throw new Error('no event fits');
  } finally {
    aborting.abort();
  }
}

const get = async (server, path) => JSON.parse(await server.request('GET', path)).data;
const ended = (server, run) => eventOf(server, run, ({ type }) => /^run\.(finished|failed|cancelled)$/.test(type));

/// A run whose patches stay proposed, because the server is killed while the files are written.
async function interruptedRun(server, work) {
  for (let at = 0; at < TRIES; at += 1) {
    const run = await createdRun(server, work, 'all of them');
    await eventOf(server, run, ({ type }) => type === 'tool.multi_edit.proposed');
    await server.stop('SIGKILL');
    await server.startAgain();
    await ended(server, run);
    const patches = await get(server, `/v1/artifacts?run_id=${run}&kind=patch&limit=100`);
    if (patches.length === FILES && patches.every(({ status }) => status === 'proposed')) return run;
  }
  throw new Error('every run had written its files before the server was killed');
}

/// The card of the run's call, open.
async function openCard(page, server, run) {
  await page.goto(`${server.origin}/#${run}`);
  await page.getByRole('feed').locator('.is-ending').waitFor();
  const card = page.getByRole('feed').locator('recount-call').first();
  await card.locator('summary').first().click();
  return card;
}

const button = (card, name) => card.getByRole('button', { name, exact: true });

test('what a killed server left proposed is applied, rejected and reverted', TEST, async (t) => {
  const work = await workspace(t);
  const server = await startScriptedServer(t, SCRIPT, ['--allow-workspace', work]);
  const run = await interruptedRun(server, work);
  const copy = (await get(server, `/v1/runs/${run}`)).workspace_path;
  const page = await openPage(t, browser, `${server.origin}/`);
  const card = await openCard(page, server, run);
  await button(card, 'Apply f3.txt').waitFor();
  assert.equal(await card.getByRole('button', { name: /^Apply / }).count(), FILES);
  assert.equal(await card.getByRole('button', { name: /^Revert / }).count(), 0);

  // By keyboard, which stays at the change.
  await button(card, 'Apply f3.txt').focus();
  await page.keyboard.press('Enter');
  await button(card, 'Revert f3.txt').waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Show side by side');
  assert.equal(await button(card, 'Apply f3.txt').count(), 0);
  assert.equal(await readFile(join(copy, 'f3.txt'), 'utf8'), 'new\n');

  await button(card, 'Reject f4.txt').click();
  await button(card, 'Reject f4.txt').waitFor({ state: 'detached' });
  assert.equal(await button(card, 'Apply f4.txt').count(), 0, 'for good');
  await card.getByText(`${FILES - 2} proposed, 1 applied, 1 rejected`).waitFor();
  const status = async (path) => (await get(server, `/v1/artifacts?run_id=${run}&kind=patch&limit=100`)).find(({ target_path: at }) => at === path);
  assert.equal((await status('f3.txt')).status, 'applied');
  assert.equal((await status('f4.txt')).status, 'rejected');

  await button(card, 'Revert f3.txt').click();
  await button(card, 'Revert f3.txt').waitFor({ state: 'detached' });
  assert.equal(await readFile(join(copy, 'f3.txt'), 'utf8'), 'old\n');
  assert.ok((await status('f3.txt')).reverted_at);
  assert.equal(await page.locator('#trouble').isVisible(), false, await page.locator('#trouble').textContent());
  assert.deepEqual(await violations(page), []);

  // The run that did it says so, and leads back.
  await card.getByRole('link', { name: 'Show the run that reverted it' }).click();
  await page.locator('#account-title', { hasText: 'Revert the patch of f3.txt' }).waitFor();
});

test('a change is reverted and made again by reverting that, and drift is told', TEST, async (t) => {
  const work = await workspace(t);
  const server = await startScriptedServer(t, SCRIPT, ['--allow-workspace', work]);
  const run = await createdRun(server, work, 'write one');
  await ended(server, run);
  const file = join((await get(server, `/v1/runs/${run}`)).workspace_path, 'note.txt');
  const page = await openPage(t, browser, `${server.origin}/`);
  const card = await openCard(page, server, run);
  await button(card, 'Revert').click();
  await button(card, 'Revert').waitFor({ state: 'detached' });
  await card.getByText('reverted').first().waitFor();
  await assert.rejects(readFile(file), { code: 'ENOENT' });

  await card.getByRole('link', { name: 'Show the run that reverted it' }).click();
  await page.locator('#account-title', { hasText: 'Revert the patch of note.txt' }).waitFor();
  const inverse = page.getByRole('feed').locator('recount-call').first();
  await inverse.locator('summary').first().click();
  const again = button(inverse, 'Revert').last();
  await again.waitFor();
  await writeFile(file, 'another text\n');
  page.expectStatus(409);
  await again.click();
  await page.locator('#trouble', { hasText: 'note.txt has changed' }).waitFor();
  assert.equal(await readFile(file, 'utf8'), 'another text\n', 'nothing was written');
  await rm(file);
  await again.click();
  await page.locator('#trouble').waitFor({ state: 'hidden' });
  assert.equal(await readFile(file, 'utf8'), 'one\ntwo\n');
});
