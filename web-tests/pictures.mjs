// Takes the pictures of docs/console/: `node pictures.mjs` in this folder, after `cargo build`. Look at each of them before it
// is kept. Each shows one screen in one form: light, dark, narrow, forced colours, announcements apart.

import { mkdir, mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { launch, openPage } from './browser.mjs';
import { startScriptedServer } from './server.mjs';
import { Producer, createRun, retold } from './story.mjs';

const FOLDER = fileURLToPath(new URL('../docs/console/', import.meta.url));
const WIDE = { viewport: { width: 1280, height: 800 } };
const NARROW = { viewport: { width: 360, height: 720 } };
const STORIES = ['long-conversation', 'todo-and-search', 'artifacts', 'http-and-web', 'refusals', 'failed-mid-text', 'plain-answer'];

const SCRIPT = `
[[turn]]
thinking = "The tests say what is wrong."
text = "I read the test and the function. Then I correct the sum, and run the tests."
call = [
  { name = "todo_write", input = { todos = [
    { content = "Read the test", status = "completed" },
    { content = "Correct the sum", status = "in_progress" },
    { content = "Run the tests", status = "pending" } ] } },
  { name = "read_file", input = { path = "sum.py" } },
  { name = "edit_file", input = { path = "sum.py", old_text = "return a - b", new_text = "return a + b" } } ]
[[turn]]
text = "The function subtracted. Now the tests."
call = [{ name = "shell_exec", input = { command = "python3 -m unittest test_sum.py" } }]
[[turn]]
text = "All tests pass."
`;

/// What tests register to be undone; here it is done at the end.
function life() {
  const undone = [];
  return { after: (undo) => undone.push(undo), end: async () => {
    for (const undo of undone.reverse()) await undo();
  } };
}

async function workspace() {
  const folder = join(await mkdtemp(join(tmpdir(), 'recount-pictures-')), 'sum');
  await mkdir(folder);
  await writeFile(join(folder, 'sum.py'), 'def add(a, b):\n    return a - b\n');
  await writeFile(join(folder, 'test_sum.py'), 'import unittest\nfrom sum import add\n\n\nclass Sum(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(add(2, 3), 5)\n');
  return folder;
}

async function waiting(server, run) {
  for (;;) {
    const { data } = JSON.parse(await server.request('GET', `/v1/runs/${run}`));
    if (data.needs_attention) return data;
    if (['finished', 'failed', 'cancelled'].includes(data.status)) throw new Error(`the run ended: ${JSON.stringify(data)}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

const t = life();
try {
  const work = await workspace();
  const server = await startScriptedServer(t, SCRIPT, ['--allow-workspace', work]);
  for (const name of STORIES) await retold(server, name);
  const recorded = await createRun(server, 'Tidy the build folder');
  await new Producer(server, recorded).append([['run.started', '{}'], ['turn.started', '{"turn_index":0}'],
    ['assistant.text_delta', '{"turn_index":0,"block_index":0,"delta":"I look for what nobody needs."}']]);
  const order = { kind: 'agent_loop', title: 'Correct the sum', request_text: 'The test of the sum fails. Correct it.', workspace: work, workspace_mode: 'in_place' };
  const { data: { id: run } } = JSON.parse(await server.request('POST', '/v1/runs', JSON.stringify(order)));
  // The edit is allowed, and the command after it is what waits.
  for (let allowed = 0; ; allowed += 1) {
    const { pending_approvals: [approval] } = await waiting(server, run);
    const { data } = JSON.parse(await server.request('GET', `/v1/approvals/${approval}`));
    if (data.summary.includes('unittest') || allowed > 3) break;
    await server.request('POST', `/v1/approvals/${approval}/resolve`, '{"decision":"approve"}');
  }

  const browser = await launch();
  t.after(() => browser.close());
  const take = async (name, hash, options, ready) => {
    const page = await openPage(t, browser, `${server.origin}/${hash}`, { reducedMotion: 'reduce', ...options });
    await page.locator('#health', { hasText: 'Connected.' }).waitFor();
    await ready(page);
    await page.screenshot({ path: join(FOLDER, `${name}.png`) });
    await page.context().close();
  };
  const prompt = (page) => page.locator('.prompt button:not([aria-disabled])', { hasText: 'Approve' }).first().waitFor();
  const overview = (page) => page.getByRole('link', { name: /^Approval: / }).first().waitFor();
  const edit = async (page) => {
    await prompt(page);
    const card = page.getByRole('feed').locator('recount-call', { hasText: 'edit_file' });
    await card.locator('summary').first().click();
    await card.locator('table.diff').waitFor();
    await card.scrollIntoViewIfNeeded();
  };
  await take('run-light', `#${run}`, { ...WIDE, colorScheme: 'light' }, prompt);
  await take('edit-light', `#${run}`, { ...WIDE, colorScheme: 'light' }, edit);
  await take('overview-dark', '', { ...WIDE, colorScheme: 'dark' }, overview);
  await take('run-narrow', `#${run}`, { ...NARROW, colorScheme: 'light' }, prompt);
  await take('run-forced', `#${run}`, { ...WIDE, colorScheme: 'dark', forcedColors: 'active' }, edit);
  await take('overview-forced', '', { ...WIDE, colorScheme: 'light', forcedColors: 'active' }, overview);
  await take('settings-dark', '', { ...WIDE, colorScheme: 'dark' }, async (page) => {
    await overview(page);
    await page.keyboard.press('s');
    await page.getByText('Server', { exact: true }).click();
    await page.getByRole('region', { name: 'Server checks' }).getByText('version').waitFor();
  });
} finally {
  await t.end();
}
