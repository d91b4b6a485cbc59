// The changes of a run in the page: listed with one diff, applied in part, merged, in conflict, on a branch, discarded.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';

import { violations } from './axe.mjs';
import { launch, openPage } from './browser.mjs';
import { atEnd } from './ending.mjs';
import { startScriptedServer } from './server.mjs';

const TEST = { timeout: 240_000 };
const lines = (changed = {}) => Array.from({ length: 10 }, (_, at) => `${changed[at] ?? `line ${at}`}\n`).join('');
const toml = (text) => JSON.stringify(text);
const write = (path, content) => `{ name = "write_file", input = { path = ${toml(path)}, content = ${toml(content)} } }`;
const SCRIPT = `
[[scene]]
when = "change"
end = "Done."
[[scene.turn]]
text = "I change files."
call = [${[
    write('merged.txt', lines({ 1: 'of the run' })), write('conflict.txt', lines({ 1: 'of the run' })),
    write('new/file.txt', 'new\n'), write('.envrc', 'export A=1\n'),
  ].join(', ')}]
`;

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser?.close());

/** A run that changed files in a copy of a repository, whose folder changed since. */
async function changedRun(t) {
  const folder = await mkdtemp(join(tmpdir(), 'recount-work-'));
  atEnd(t, () => rm(folder, { recursive: true, force: true }));
  const work = join(folder, 'work');
  await mkdir(work);
  for (const name of ['merged.txt', 'conflict.txt']) await writeFile(join(work, name), lines());
  const git = (...args) => execFileSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@b', ...args], { cwd: work });
  git('init', '-q');
  git('add', '.');
  git('commit', '-qm', 'first');
  const server = await startScriptedServer(t, SCRIPT, ['--allow-workspace', work]);
  const body = JSON.stringify({ kind: 'agent_loop', request_text: 'change', workspace: work });
  const { id: run } = JSON.parse(await server.request('POST', '/v1/runs', body)).data;
  const page = await openPage(t, browser, `${server.origin}/#${run}`);
  await page.getByRole('feed').locator('.is-ending').waitFor();
  await writeFile(join(work, 'merged.txt'), lines({ 8: 'of the folder' }));
  await writeFile(join(work, 'conflict.txt'), lines({ 1: 'of the folder' }));
  git('commit', '-qam', 'second');
  await page.getByRole('link', { name: 'Changes' }).click();
  await page.getByText('5 paths changed in a copy of').waitFor();
  return { work, server, run, page };
}

const file = (page, path) => page.locator('.changed-files li', { hasText: path });

test('files are listed with one diff, and applied in part', TEST, async (t) => {
  const { work, run, page } = await changedRun(t);
  await file(page, 'merged.txt').getByText('both changed, will be merged').waitFor();
  await file(page, 'conflict.txt').getByText('conflict: the folder has changed in the same place').waitFor();
  await file(page, '.envrc').getByText('executed by direnv: read it before you apply it').waitFor();
  assert.match(await page.locator('.changes pre').first().textContent(), /<<<<<<< ours.*of the folder.*of the run.*>>>>>>> theirs/s);
  await page.getByRole('button', { name: 'Show side by side' }).click();
  await page.locator('.changes .diff.split').first().waitFor();
  assert.equal(await page.getByRole('button', { name: 'Apply selected files' }).isDisabled(), true);
  assert.deepEqual(await violations(page), []);

  await file(page, 'file.txt').getByRole('checkbox').check();
  await page.getByText(`recount apply ${run} new/file.txt`, { exact: true }).waitFor();
  await page.getByRole('button', { name: 'Apply 1 selected path' }).click();
  await page.getByText('3 paths changed in a copy of').waitFor();
  assert.equal(await readFile(join(work, 'new/file.txt'), 'utf8'), 'new\n');
  await assert.rejects(readFile(join(work, '.envrc')), { code: 'ENOENT' });

  await page.getByRole('button', { name: 'Apply all' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByText('.envrc (direnv)').waitFor();
  await dialog.getByRole('button', { name: 'Apply', exact: true }).click();
  await page.getByText('1 path changed in a copy of').waitFor();
  assert.equal(await readFile(join(work, 'merged.txt'), 'utf8'), lines({ 1: 'of the run', 8: 'of the folder' }));
  assert.equal(await readFile(join(work, 'conflict.txt'), 'utf8'), lines({ 1: 'of the folder' }));

  await page.getByLabel('Write both versions of conflicting files between conflict markers').check();
  await page.getByRole('button', { name: 'Apply all' }).click();
  await page.getByText(/^Nothing to apply: the copy has the same files as /).waitFor();
  assert.match(await readFile(join(work, 'conflict.txt'), 'utf8'), /<<<<<<< ours/);
  assert.equal(await page.locator('#trouble').isVisible(), false);
});

test('changes that were not shown are not applied, a branch is made, and the rest is discarded', TEST, async (t) => {
  const { work, server, run, page } = await changedRun(t);
  const copy = JSON.parse(await server.request('GET', `/v1/runs/${run}`)).data.workspace_path;
  await writeFile(join(copy, 'new/file.txt'), 'other\n');
  await file(page, 'file.txt').getByRole('checkbox').check();
  page.expectStatus(409);
  await page.getByRole('button', { name: 'Apply 1 selected path' }).click();
  await page.locator('#trouble', { hasText: 'no longer those that were shown' }).waitFor();
  await assert.rejects(readFile(join(work, 'new/file.txt')), { code: 'ENOENT' });

  await file(page, 'file.txt').getByRole('checkbox').check();
  await page.getByLabel('Branch').fill('of-the-run');
  await page.getByText(`recount apply ${run} new/file.txt --branch of-the-run`, { exact: true }).waitFor();
  await page.getByRole('button', { name: 'Apply 1 selected path' }).click();
  await page.locator('#trouble').waitFor({ state: 'hidden' });
  await page.locator('#news', { hasText: 'Committed to the branch of-the-run.' }).waitFor();
  assert.equal(execFileSync('git', ['show', 'of-the-run:new/file.txt'], { cwd: work, encoding: 'utf8' }), 'other\n');

  await page.getByRole('button', { name: 'Discard …' }).click();
  page.expectStatus(410);
  await page.getByRole('dialog').getByRole('button', { name: 'Discard', exact: true }).click();
  await page.getByText('it was discarded').waitFor();
  await assert.rejects(readFile(join(copy, 'new/file.txt')), { code: 'ENOENT' });
});
