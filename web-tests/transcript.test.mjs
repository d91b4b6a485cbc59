// A run as its page tells it: the transcript and its cards, the other views, and what may be done with the run.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, before, test } from 'node:test';

import { violations } from './axe.mjs';
import { launch, openPage, scrollUp } from './browser.mjs';
import { startServer } from './server.mjs';
import { BEGINNING, ENDING, OUTPUT, Producer, createRun, retold } from './story.mjs';
import { isFull } from './tier.mjs';

const TEST = { timeout: 180_000 };

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser?.close());

const holds = (page, condition, argument) => page.waitForFunction(condition, argument, { timeout: 20_000 });

test('a run is told as a transcript, and streams into it', TEST, async (t) => {
  const server = await startServer(t);
  const run = await createRun(server, 'told');
  const producer = new Producer(server, run);
  await producer.append(BEGINNING);
  const page = await openPage(t, browser, `${server.origin}/#${run}`);
  const transcript = page.getByRole('feed', { name: 'Transcript' });
  await transcript.getByText('I list the files').waitFor();
  await transcript.getByRole('heading', { name: /^Turn 1/ }).waitFor();
  const card = transcript.locator('recount-call');
  await card.locator('summary').first().click();
  for (const event of OUTPUT) await producer.append([event]);
  await card.getByRole('group', { name: 'Output' }).getByText('file 39').waitFor();
  await producer.append(ENDING);
  await transcript.getByText('Finished').waitFor();
  await transcript.getByText('Forty files.').waitFor();
  await transcript.getByText('ext.webtest.note').waitFor();
  assert.match(await card.locator('summary').first().innerText(), /done[^]*shell[^]*ls -1[^]*exit 0/);

  // Search in the output.
  await card.getByLabel('Search output').fill('file 3');
  await card.getByText('1 of 11 lines').waitFor();
  await page.keyboard.press('Enter');
  await card.getByText('2 of 11 lines').waitFor();

  // The very same page after a reload.
  const words = () => transcript.locator('> *').allInnerTexts();
  await card.locator('summary').first().click();
  const before = await words();
  await page.reload();
  await transcript.getByText('Forty files.').waitFor();
  assert.deepEqual(await words(), before);
});

test('a cut of the connection loses nothing and repeats nothing', TEST, async (t) => {
  const server = await startServer(t);
  const run = await createRun(server, 'cut off');
  const producer = new Producer(server, run);
  await producer.append(BEGINNING);
  const page = await openPage(t, browser, `${server.origin}/#${run}`);
  const other = await openPage(t, browser, `${server.origin}/#${run}`);
  await page.locator('recount-call').waitFor();
  page.expectOutage(true);
  other.expectOutage(true);
  await server.stop('SIGKILL');
  await page.locator('#health', { hasText: 'Connection lost' }).waitFor();
  await server.startAgain();
  await producer.append([...OUTPUT, ...ENDING]);
  const words = async (one) => {
    await one.getByRole('feed').getByText('Finished').waitFor({ timeout: 30_000 });
    await one.locator('recount-call summary').first().click();
    await one.getByRole('group', { name: 'Output' }).waitFor();
    return one.locator('.things > *').allInnerTexts();
  };
  const all = await words(page);
  assert.deepEqual(await words(other), all, 'two tabs agree');
  assert.equal(all.join('\n').match(/file 39\n/g).length, 1);
});

/// In the full tier twelve pages, each read four times by axe: on a busy machine that takes minutes.
const STORIES = isFull
  ? ['todo-and-search', 'artifacts', 'http-and-web', 'failed-mid-text', 'shell', 'refusals']
  : ['artifacts', 'refusals'];

test('every story opens in every view, light, dark and narrow, and axe finds nothing', { timeout: 600_000 }, async (t) => {
  const server = await startServer(t);
  const shapes = [{ colorScheme: 'light' }, { colorScheme: 'dark', viewport: { width: 320, height: 700 } }];
  for (const name of STORIES) {
    const run = await retold(server, name);
    for (const shape of shapes) {
      const page = await openPage(t, browser, `${server.origin}/`, shape);
      // The bytes of a story's artifacts are nowhere.
      page.expectStatus(404);
      await page.evaluate((run) => (location.hash = `#${run}`), run);
      await page.getByRole('feed').locator('.is-ending').waitFor();
      for (const summary of await page.locator('recount-call > details > summary').all()) await summary.click();
      const problems = [await violations(page)];
      for (const view of ['Timeline', 'Cost', 'Events']) {
        await page.getByRole('link', { name: view, exact: true }).click();
        await page.locator('#views [aria-current]', { hasText: view }).waitFor();
        problems.push(await violations(page));
      }
      assert.deepEqual(problems.flat(), [], `${name} ${JSON.stringify(shape)}`);
      assert.equal(await page.evaluate(() => document.documentElement.scrollWidth > innerWidth), false, `${name} is too wide`);
      await page.context().close();
    }
  }
});

test('a link to an event leads to what it belongs to', TEST, async (t) => {
  const server = await startServer(t);
  const run = await createRun(server, 'long');
  const producer = new Producer(server, run);
  await producer.append([['run.started', '{}']]);
  for (let batch = 0; batch < 5; batch += 1) {
    await producer.append(Array.from({ length: 500 }, (_, at) => ['ext.webtest.note', JSON.stringify({ at: batch * 500 + at })]));
  }
  const page = await openPage(t, browser, `${server.origin}/#${run}/700`);
  await holds(page, () => document.querySelector('.target')?.dataset.key === 'unknown-700');
  assert.equal(await page.evaluate(() => document.activeElement.dataset.key), 'unknown-700');
  const { y } = await page.locator('.target').boundingBox();
  assert.ok(y > 0 && y < 720, `it is in sight: ${y}`);
  await page.evaluate((run) => (location.hash = `#${run}/events/701`), run);
  await page.getByRole('heading', { name: 'Event 701' }).waitFor();
  await page.getByText('"at": 699').waitFor();
});

/// Opens a run from the overview; answers how many elements the page made until its newest call was to be seen.
function opened(page, run, last) {
  return page.evaluate(async ([run, last]) => {
    let made = 0;
    const observer = new MutationObserver((changes) => {
      for (const { addedNodes } of changes) {
        for (const node of addedNodes) made += node.nodeType === Node.ELEMENT_NODE ? 1 + node.querySelectorAll('*').length : 0;
      }
    });
    observer.observe(document.body, { childList: true, subtree: true });
    location.hash = `#${run}`;
    for (;;) {
      await new Promise(requestAnimationFrame);
      if ([...document.querySelectorAll('recount-call')].some(({ textContent }) => textContent.includes(last))) break;
    }
    observer.disconnect();
    return made;
  }, [run, last]);
}

/// How many elements the page may make until the end of a run is to be seen, and in one frame while the reader scrolls:
/// as many as for a short run, of ten events for each call. A bound in milliseconds would measure the machine and its load.
const OPENING_ELEMENTS_MAX = 2_000;
const FRAME_ELEMENTS_MAX = 300;

const LONG_RUN_CALLS = isFull ? 10_000 : 2_000;

test('a run of very many events opens with as little work as a short one and scrolls by small steps', { timeout: 400_000 }, async (t) => {
  const server = await startServer(t);
  const run = await createRun(server, 'very long');
  const producer = new Producer(server, run);
  await producer.append([['run.started', '{}']]);
  const call = (id) => [
    ['tool.invoked', JSON.stringify({ tool_call_id: id, tool_name: 'shell', kind: 'shell', args_summary: `make ${id}` })],
    ['tool.shell.command', JSON.stringify({ tool_call_id: id, argv: ['make', id], cwd: '.' })],
    ...Array.from({ length: 6 }, (_, at) => ['tool.shell.output_chunk',
      JSON.stringify({ tool_call_id: id, stream: 'stdout', data: `line ${at}\n`, byte_offset: at * 7 })]),
    ['tool.shell.exited', JSON.stringify({ tool_call_id: id, exit_code: 0, signal: null, stdout_bytes: 42, stderr_bytes: 0, truncated: false })],
    ['tool.completed', JSON.stringify({ tool_call_id: id, tool_name: 'shell', summary: 'made' })],
  ];
  for (let first = 0; first < LONG_RUN_CALLS; first += 100) {
    await producer.append(Array.from({ length: 100 }, (_, at) => call(`c-${first + at}.`)).flat());
  }
  const page = await openPage(t, browser, `${server.origin}/`);
  await page.getByText('Active', { exact: true }).waitFor();
  const opening = await opened(page, run, `c-${LONG_RUN_CALLS - 1}.`);
  await page.getByText(/^Loading/).waitFor({ state: 'hidden', timeout: 60_000 });
  const scrolling = await scrollUp(page, 120, 300);
  const made = await page.locator('.things > *').count();
  t.diagnostic(`opening made ${opening} elements, and scrolling ${scrolling.most} in one frame at most, ${scrolling.all} in all; ${made} elements`);
  assert.ok(opening <= OPENING_ELEMENTS_MAX, `${opening} elements to open it`);
  assert.ok(scrolling.all > 0 && scrolling.most <= FRAME_ELEMENTS_MAX, JSON.stringify(scrolling));
  assert.ok(made <= 240, `${made} elements`);
  assert.ok(await page.evaluate(() => document.getElementById('view').scrollTop > 0), 'what was in sight stays in sight');
  // The first event is there, too.
  await page.evaluate((run) => (location.hash = `#${run}/2`), run);
  await page.locator('.target', { hasText: 'c-0.' }).waitFor();
  // The timeline shows the newest rows, the whole run in groups, and each group by itself.
  await page.getByRole('link', { name: 'Timeline', exact: true }).click();
  const rows = page.locator('.timeline tbody tr');
  await rows.filter({ hasText: `c-${LONG_RUN_CALLS - 1}.` }).waitFor();
  assert.equal(await rows.count(), 200);
  await page.getByRole('button', { name: 'Whole run' }).click();
  await page.getByText(/, several in one row/).first().waitFor();
  assert.ok(await rows.count() <= 200);
  await rows.first().getByRole('button').click();
  await rows.filter({ hasText: 'c-0.' }).waitFor();
  await page.getByRole('button', { name: 'Newest' }).click();
  await rows.filter({ hasText: `c-${LONG_RUN_CALLS - 1}.` }).waitFor();
});

test('what is said is said by sentences, and the end once', TEST, async (t) => {
  const server = await startServer(t);
  const run = await createRun(server, 'heard');
  const producer = new Producer(server, run);
  await producer.append([['run.started', '{}'], ['turn.started', '{"turn_index":0}']]);
  const page = await openPage(t, browser, `${server.origin}/#${run}`);
  await page.locator('#run-status', { hasText: 'running' }).waitFor();
  await page.getByRole('heading', { name: /^Turn 1/ }).waitFor();
  await page.evaluate(() => {
    window.said = [];
    for (const region of document.querySelectorAll('[role=status], [role=alert], [aria-live]')) {
      new MutationObserver((changes) => changes.forEach(({ addedNodes }) =>
        window.said.push(...[...addedNodes].map(({ textContent }) => textContent)))).observe(region, { childList: true, subtree: true });
    }
  });
  const text = 'The first thing is done. The second one needs more time, but not much.\nA third line.';
  for (const piece of text.match(/.{1,7}/gs)) {
    await producer.append([['assistant.text_delta', JSON.stringify({ turn_index: 0, block_index: 0, delta: piece })]]);
  }
  await producer.append([
    ['assistant.text_complete', JSON.stringify({ turn_index: 0, block_index: 0, text })],
    ['assistant.final_answer', '{"turn_index":0,"summary":"All is done."}'],
    ['turn.completed', '{"turn_index":0,"stop_reason":"end_turn"}'], ['run.finished', '{"final_status":"completed"}'],
  ]);
  await page.locator('#run-status', { hasText: 'finished' }).waitFor();
  await holds(page, () => window.said.some((words) => words.endsWith('has finished.')));
  const said = await page.evaluate(() => window.said);
  assert.equal(said.filter((words) => words.includes('has finished.')).length, 1, JSON.stringify(said));
  assert.equal(said.join(' ').replace(/\s+/g, ' '),
    'The first thing is done. The second one needs more time, but not much. A third line. The agent has finished.');
  assert.ok(said.length <= 4, JSON.stringify(said));
});

test('text that is meant to deceive is inert in the transcript', TEST, async (t) => {
  const server = await startServer(t);
  const run = await createRun(server, 'hostile');
  const bad = '<img src=x onerror="document.title=\'gone\'"> \u202egnirts [a](javascript:alert(1)) \u001b[31mred\u001b]0;title\u0007';
  const data = (value) => JSON.stringify(value);
  const line = 'x'.repeat(50_000);
  await new Producer(server, run).append([
    ['run.started', '{}'], ['turn.started', '{"turn_index":0}'],
    ['assistant.text_complete', data({ turn_index: 0, block_index: 0, text: `${bad}\n\n\`\`\`\n${bad}\n\`\`\`\n- ${bad}` })],
    ['tool.invoked', data({ tool_call_id: 'c', tool_name: bad, kind: 'shell', args_summary: bad })],
    ['tool.shell.command', data({ tool_call_id: 'c', argv: [bad], cwd: bad })],
    ['tool.shell.output_chunk', data({ tool_call_id: 'c', stream: 'stdout', data: `${bad}\n${line}`, byte_offset: 0 })],
    ['tool.grep.completed', data({ tool_call_id: 'c', pattern: bad, match_count: 1, truncated: false, matches: [{ path: bad, line: 1, text: bad }] })],
    ['ext.webtest.note', data({ [bad]: bad })],
  ]);
  const page = await openPage(t, browser, `${server.origin}/#${run}`);
  await page.locator('recount-call > details > summary').click();
  await page.getByRole('group', { name: 'Output' }).getByText('red').first().waitFor();
  const found = await page.evaluate(() => [document.querySelectorAll('#account img, #account script, a[href^="javascript"]').length, document.title,
    /[\u202e\u001b\u0007]/.test(document.body.textContent)]);
  assert.deepEqual(found, [0, 'hostile – Recount', false]);
  const longest = await page.evaluate(() => Math.max(...[...document.querySelectorAll('.terminal > *')].map(({ textContent }) => textContent.length)));
  assert.ok(longest < 3000, `${longest}`);
  assert.equal(await page.locator('.terminal .fg-1').filter({ hasText: 'red' }).count(), 1, 'colours are shown');
});

test('the whole page weighs no more than it may', async () => {
  const { gzipSync } = await import('node:zlib');
  const table = await readFile(new URL('../crates/server/src/web.rs', import.meta.url), 'utf8');
  const paths = [...table.matchAll(/web!\(\w+, "([^"]+)"\)/g)].map(([, path]) => path).concat('index.html');
  assert.ok(paths.length > 20);
  let sum = 0;
  for (const path of paths) sum += gzipSync(await readFile(new URL(`../web/${path}`, import.meta.url))).length;
  assert.ok(sum <= 150 * 1024, `${sum} bytes`);
});
