// The first page and the ways from it: what waits, filters, keys, dialogs, a task from the form to its end, a chat.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { violations } from './axe.mjs';
import { launch, openPage } from './browser.mjs';
import { startScriptedServer, startServer } from './server.mjs';
import { BEGINNING, ENDING, OUTPUT, Producer, createRun } from './story.mjs';

const TEST = { timeout: 180_000 };

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser?.close());

const SCRIPT = `
[[turn]]
text = "First I look. Then I answer."
call = [{ name = "todo_write", input = { todos = [{ content = "Look", status = "completed" }, { content = "Answer", status = "in_progress" }] } }]

[[turn]]
text = "The answer is **forty-two**."
`;

const scriptedServer = (t) => startScriptedServer(t, SCRIPT);

async function waitingRun(server, title, call, timeout = 600) {
  const run = await createRun(server, title);
  await new Producer(server, run).append([
    ['run.started', '{}'], ['turn.started', '{"turn_index":0}'],
    ['assistant.tool_call_proposed', JSON.stringify({ turn_index: 0, tool_call_id: call, tool_name: 'shell', input: { argv: ['ls'] } })],
    ['turn.completed', '{"turn_index":0,"stop_reason":"tool_use"}'],
    ['approval.requested', JSON.stringify({ approval_id: `appr-${call}`, tool_call_id: call, kind: 'shell', summary: `do ${call}`, risk_level: 'high', timeout_seconds: timeout })],
  ]);
  return run;
}

test('the overview says what waits, and a key leads there', TEST, async (t) => {
  const server = await startServer(t);
  const done = await createRun(server, 'done');
  await new Producer(server, done).append([...BEGINNING, ...OUTPUT, ...ENDING]);
  const page = await openPage(t, browser, `${server.origin}/`);
  const counts = (name) => page.locator('.counts div', { hasText: name }).locator('dd');
  await page.locator('.counts div', { hasText: 'Finished today' }).getByText('1', { exact: true }).waitFor();
  assert.equal(await counts('Waiting for a person').innerText(), '0');
  assert.equal(await page.title(), 'Recount');
  for (const words of ['No prompts are waiting.', 'No active runs.', 'No failed runs today.']) await page.getByText(words).waitFor();
  assert.ok(await page.getByRole('button', { name: /^Answer the next prompt/ }).isHidden());

  const first = await waitingRun(server, 'first', 'a');
  await waitingRun(server, 'second', 'b');
  const waiting = page.getByRole('region', { name: 'Waiting for a person' });
  await waiting.getByRole('link', { name: 'Approval: do b' }).waitFor();
  assert.match(await waiting.innerText(), /do a[^]*first[^]*high[^]*min/);
  await page.waitForFunction(() => document.title === '(2) Recount');
  assert.deepEqual(await violations(page), []);

  // From anywhere, in the order in which they came, and round again.
  const prompt = async (name) => {
    await page.keyboard.press('p');
    await page.waitForFunction((name) => document.activeElement.textContent.startsWith(`Approval requested: ${name}`), name);
  };
  await prompt('do a');
  assert.equal(new URL(page.url()).hash, `#${first}`);
  assert.equal(await page.title(), '(2) first – Recount');
  await prompt('do b');
  await prompt('do a');
  await page.keyboard.press('Tab');
  await page.getByRole('button', { name: 'Reject: do a' }).focus();
  await page.locator('.prompt button[aria-disabled]').first().waitFor({ state: 'detached' });
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => document.title === '(1) first – Recount');
  await page.getByRole('feed').getByText('rejected by').waitFor();
});

test('the list of runs is narrowed by status, kind and words, and stays so while things happen', TEST, async (t) => {
  const server = await startServer(t);
  const failed = await createRun(server, 'the bad one');
  await new Producer(server, failed).append([['run.started', '{}'], ['run.failed', '{"code":"internal","message":"no","retriable":false}']]);
  const live = await createRun(server, 'the live one');
  await new Producer(server, live).append([['run.started', '{}']]);
  await waitingRun(server, 'the waiting one', 'c');
  const page = await openPage(t, browser, `${server.origin}/`);
  const titles = (expected) => page.waitForFunction((expected) =>
    [...document.querySelectorAll('#runs bdi:first-child')].map(({ textContent }) => textContent).join() === expected, expected.join());
  await titles(['the waiting one', 'the live one', 'the bad one']);
  const status = page.getByLabel('Status');
  await status.selectOption('failed');
  await titles(['the bad one']);
  await status.selectOption('attention');
  await titles(['the waiting one']);
  await server.request('POST', '/v1/approvals/appr-c/resolve', '{"decision":"reject"}');
  await titles([]);
  await page.getByText('No runs match the filters.').waitFor();
  await status.selectOption('');
  await page.keyboard.press('Escape');
  await page.locator('#account').focus();
  await page.keyboard.press('/');
  await page.keyboard.type('LIVE');
  await titles(['the live one']);
  await createRun(server, 'alive');
  await createRun(server, 'another');
  await titles(['alive', 'the live one']);
  await page.getByLabel('Kind').selectOption('shell');
  await titles([]);
});

test('the list of runs is narrowed to an agent and to a session, and shows who each is of', TEST, async (t) => {
  const server = await startServer(t);
  const made = JSON.parse(await server.request('POST', '/v1/sessions', '{"title":"the talk"}')).data.id;
  const inSession = JSON.stringify({ kind: 'external', title: 'of the talk', session_id: made, agent: { name: 'claude' } });
  await server.request('POST', '/v1/runs', inSession);
  await createRun(server, 'of codex', { name: 'codex', version: '0.166.0' });
  await createRun(server, 'of claude', { name: 'claude', version: '2.1.332' });
  const page = await openPage(t, browser, `${server.origin}/`);
  const titles = (expected) => page.waitForFunction((expected) =>
    [...document.querySelectorAll('#runs bdi:first-child')].map(({ textContent }) => textContent).join() === expected, expected.join());
  await titles(['of claude', 'of codex', 'of the talk']);
  assert.match(await page.locator('#runs').innerText(), /claude 2\.1\.332[^]*codex 0\.166\.0/);
  const figures = page.locator('.counts');
  await figures.getByText('Cost today, where reported').waitFor();
  assert.match(await figures.innerText(), /unknown/);
  const agent = page.getByLabel('Filter runs by the start of the agent name');
  await agent.fill('CLAU');
  await titles(['of claude', 'of the talk']);
  // What comes meanwhile is held against the filter, too.
  await createRun(server, 'again of codex', { name: 'codex' });
  await createRun(server, 'again of claude', { name: 'claude' });
  await titles(['again of claude', 'of claude', 'of the talk']);
  await agent.fill('codex');
  await titles(['again of codex', 'of codex']);
  await agent.fill('nobody');
  await page.getByText('No runs match the filters.').waitFor();
  await agent.fill('');
  await page.getByLabel('Session', { exact: true }).selectOption(made);
  await titles(['of the talk']);
  assert.deepEqual(await violations(page), []);
});

test('every dialog opens by keyboard, holds the focus and gives it back, and axe finds nothing', TEST, async (t) => {
  const server = await startServer(t);
  const page = await openPage(t, browser, `${server.origin}/`);
  await page.locator('#health', { hasText: 'Connected.' }).waitFor();
  for (const [key, title] of [['?', 'Keyboard shortcuts'], ['s', 'Settings'], ['n', 'New task']]) {
    await page.locator('#open-keys').focus();
    await page.keyboard.press(key);
    const dialog = page.getByRole('dialog', { name: title });
    await dialog.waitFor();
    assert.ok(await page.evaluate(() => document.querySelector('dialog').contains(document.activeElement)), title);
    for (const summary of await dialog.locator('summary').all()) await summary.click();
    if (key === 's') await dialog.getByText('SQLite').first().waitFor();
    assert.deepEqual(await violations(page), [], title);
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
    assert.equal(await page.evaluate(() => document.activeElement.id), 'open-keys', title);
  }
  // What is chosen stays.
  await page.keyboard.press('s');
  await page.getByLabel('Colour theme').selectOption('dark');
  await page.keyboard.press('Escape');
  await page.reload();
  assert.equal(await page.evaluate(() => getComputedStyle(document.documentElement).colorScheme), 'dark');
});

test('a task goes from the form to its answer, is retried and continued', TEST, async (t) => {
  const server = await scriptedServer(t);
  const page = await openPage(t, browser, `${server.origin}/`);
  await page.locator('#health', { hasText: 'Connected.' }).waitFor();
  await page.getByRole('button', { name: 'New task' }).click();
  await page.getByLabel('What should the agent do?').fill('Find the answer.');
  await page.getByText('Folder, tools and limits').click();
  await page.getByLabel('Title', { exact: true }).fill('the question');
  page.expectStatus(422);
  await page.getByLabel('Budget in US dollars').fill('1.5');
  await page.getByRole('button', { name: 'Start' }).click();
  // The refusal is said where it can be put right.
  await page.getByRole('dialog').getByRole('alert').getByText('no configured price').waitFor();
  assert.equal(await page.getByLabel('What should the agent do?').inputValue(), 'Find the answer.');
  await page.getByLabel('Budget in US dollars').fill('');
  await page.getByRole('button', { name: 'Start' }).click();
  const feed = page.getByRole('feed');
  await feed.getByText('forty-two').waitFor();
  await page.locator('#run-status', { hasText: 'finished' }).waitFor();
  assert.match(await page.getByRole('complementary').innerText(), /To do: 1 of 2 done/);
  const { data: [task] } = JSON.parse(await server.request('GET', '/v1/tasks'));
  assert.equal(task.title, 'the question');
  const first = new URL(page.url()).hash;

  await page.getByRole('button', { name: 'Branch from here' }).first().click();
  await page.waitForFunction((first) => location.hash !== first, first);
  await feed.getByText('forty-two').waitFor();
  await page.getByRole('link', { name: 'Previous run' }).waitFor();
  const second = new URL(page.url()).hash;
  await page.locator('#run-status', { hasText: 'finished' }).waitFor();
  await page.getByRole('button', { name: 'Continue …' }).click();
  await page.getByLabel('What should the agent do next?').fill('And now?');
  await page.getByRole('dialog').getByRole('button', { name: 'Continue' }).click();
  await page.waitForFunction((second) => location.hash !== second, second);
  await feed.getByText('And now?').filter({ visible: true }).waitFor();
  await page.getByRole('link', { name: 'Previous run' }).click();
  await page.waitForFunction((second) => location.hash === second, second);
});

test('what one tab answers, and what nobody answers, goes from all tabs', TEST, async (t) => {
  const server = await startServer(t);
  const run = await waitingRun(server, 'asked', 'a');
  const [one, other] = [await openPage(t, browser, `${server.origin}/#${run}`), await openPage(t, browser, `${server.origin}/#${run}`)];
  const approve = (page) => page.getByRole('button', { name: 'Approve: do a' });
  await approve(other).waitFor();
  await approve(one).click();
  await approve(other).waitFor({ state: 'detached' });
  for (const page of [one, other]) await page.getByRole('feed').getByText(/^approved by/).waitFor();
  assert.equal(JSON.parse(await server.request('GET', '/v1/approvals/appr-a')).data.status, 'approved');

  const late = await waitingRun(server, 'late', 'b', 2);
  await one.evaluate((late) => (location.hash = `#${late}`), late);
  await one.getByText(/left\)/).waitFor();
  await one.getByRole('feed').getByText('timed out: rejected').waitFor();
  await one.getByRole('region', { name: 'Waiting for you' }).waitFor({ state: 'hidden' });
});

test('a run is cancelled after a question, and its events are saved', TEST, async (t) => {
  const server = await startServer(t);
  const run = await waitingRun(server, 'long work', 'c');
  const page = await openPage(t, browser, `${server.origin}/#${run}`);
  await page.getByRole('button', { name: 'Cancel', exact: true }).click();
  await page.getByRole('button', { name: 'Keep running' }).click();
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Save events' }).click()]);
  assert.equal(download.suggestedFilename(), `${run}.jsonl`);
  const chunks = [];
  for await (const chunk of await download.createReadStream()) chunks.push(chunk);
  const lines = Buffer.concat(chunks).toString().trim().split('\n');
  assert.deepEqual(lines.map((line) => JSON.parse(line).sequence), lines.map((_, at) => at));
  assert.equal(lines.length, 6);
  await page.getByRole('button', { name: 'Cancel', exact: true }).click();
  await page.getByRole('button', { name: 'Cancel run' }).click();
  await page.locator('#run-status', { hasText: 'cancelled' }).waitFor();
  await page.getByRole('feed').getByText(/^Cancelled by/).waitFor();
});

test('who has no runs yet is offered one to look at, which asks and ends', TEST, async (t) => {
  for (const [answer, words] of [['Approve', 'The folder is clean.'], ['Reject', 'I left the folder unchanged.']]) {
    const server = await startServer(t);
    const page = await openPage(t, browser, `${server.origin}/`);
    const play = page.getByRole('button', { name: 'Play the demo run' });
    await play.click();
    await page.getByRole('button', { name: `${answer}: rm -r build` }).click();
    await page.getByRole('feed').getByText(words).waitFor();
    await page.locator('#run-status', { hasText: 'finished' }).waitFor();
    // It is offered to those alone who have none.
    await page.getByRole('link', { name: 'Recount' }).click();
    await page.locator('.counts div', { hasText: 'Finished today' }).getByText('1', { exact: true }).waitFor();
    assert.ok(await play.isHidden());
  }
});

test('a chat goes on in its session', TEST, async (t) => {
  const server = await scriptedServer(t);
  const page = await openPage(t, browser, `${server.origin}/`);
  await page.locator('#health', { hasText: 'Connected.' }).waitFor();
  await page.getByRole('button', { name: 'New chat' }).click();
  await page.getByText('No messages yet.').waitFor();
  await page.getByLabel('Your message').fill('What is it?');
  await page.keyboard.press('Control+Enter');
  const messages = page.getByRole('list', { name: 'Messages' });
  await messages.getByText('forty-two').waitFor();
  await messages.getByText('What is it?').waitFor();
  assert.deepEqual(await violations(page), []);
});
