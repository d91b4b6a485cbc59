// A run that was written to do harm: markup, overrides of direction, escapes of terminals, very long lines, very many calls.
// It is imported by an ordinary producer, and shown as the text that it is, with no more work and memory than a kind one.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { launch, openPage, scrollUp } from './browser.mjs';
import { startServer } from './server.mjs';
import { Producer, createRun } from './story.mjs';

const CALLS = 10_000;
/// Each call is up to five events; so many calls go in one batch.
const CALLS_OF_A_BATCH = 200;
const LINE = 1_000_000;
/// What one chunk of output may have; a line of a megabyte comes in several.
const CHUNK = 60_000;
/// A run of this size may hold so much of the page's memory once everything else is collected.
const HEAP_BYTES_MAX = 150 * 1024 * 1024;
/// How many elements the page may make in one frame while the reader scrolls: a part of what it keeps, so that no frame is
/// long. A bound in milliseconds would measure the machine and its load.
const FRAME_ELEMENTS_MAX = 300;

const MARKUP = [
  '<img src=x onerror="window.harmed=1">', '<script>window.harmed=1</script>', '<svg onload="window.harmed=1">', '"><iframe src="javascript:harmed=1">',
  '<a href="javascript:window.harmed=1">press</a>', '<style>*{display:none}</style>', '<meta http-equiv=refresh content="0;url=//x">', '<base href="//x/">',
  '[link](javascript:window.harmed=1)', '![picture](http://198.51.100.1/x.png)', '{{constructor.constructor("harmed=1")()}}', '</pre></body><h1>not here</h1>',
];
const OVERRIDES = '\u202ereversed\u202c \u2066isolated\u2069 \u200fmark \u061cletter \u{e0041}tag \u200bnone \u00adsoft \u2028line \ufeffbom';
const ESCAPES = '\u001b[31mred\u001b[0m \u001b]0;a title\u0007 \u001b]8;;http://198.51.100.1\u001b\\link\u001b]8;;\u001b\\ \u001b[2J\u001b[H \u001b[?1049h \u001bP+q\u001b\\ \u009b31m \u0008\u0008\u0007';
const BAD = `${MARKUP.join(' ')} ${OVERRIDES} ${ESCAPES}`;
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\u00ad]|[\u{e0000}-\u{e007f}]/u;

const data = (value) => JSON.stringify(value);
const bytes = (text) => new TextEncoder().encode(text).length;

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser?.close());

/// One call whose every text is hostile; of each kind in turn.
function call(at) {
  const id = `c-${at}`;
  const bad = MARKUP[at % MARKUP.length];
  const name = `t${at} ${bad}`;
  const begin = ['tool.invoked', data({ tool_call_id: id, tool_name: name, kind: 'shell', args_summary: `${bad} ${OVERRIDES}` })];
  const end = ['tool.completed', data({ tool_call_id: id, tool_name: name, summary: bad, output: BAD })];
  if (at % 3 === 0) {
    return [begin, ['tool.grep.completed', data({ tool_call_id: id, pattern: bad, match_count: 1, truncated: false, matches: [{ path: bad, line: 1, text: BAD }] })], end];
  }
  return [begin, ['tool.shell.command', data({ tool_call_id: id, argv: [bad, OVERRIDES], cwd: bad })],
    ['tool.shell.output_chunk', data({ tool_call_id: id, stream: 'stdout', data: ESCAPES, byte_offset: 0 })],
    ['tool.shell.exited', data({ tool_call_id: id, exit_code: 0, signal: null, stdout_bytes: bytes(ESCAPES), stderr_bytes: 0, truncated: false })], end];
}

/// A call whose output is one line of a megabyte, after a short one.
function longLine(id) {
  const pieces = [`${ESCAPES}\n`];
  for (let left = LINE; left > 0; left -= CHUNK) pieces.push('<b>\u202e'.repeat(CHUNK / 4).slice(0, Math.min(CHUNK, left)));
  let offset = 0;
  const chunks = pieces.map((piece) => {
    const event = ['tool.shell.output_chunk', data({ tool_call_id: id, stream: 'stdout', data: piece, byte_offset: offset })];
    offset += bytes(piece);
    return event;
  });
  return [['tool.invoked', data({ tool_call_id: id, tool_name: 'shell', kind: 'shell', args_summary: 'a line of a megabyte' })],
    ['tool.shell.command', data({ tool_call_id: id, argv: ['yes'], cwd: '.' })], chunks,
    ['tool.shell.exited', data({ tool_call_id: id, exit_code: 0, signal: null, stdout_bytes: offset, stderr_bytes: 0, truncated: false })],
    ['tool.completed', data({ tool_call_id: id, tool_name: 'shell', summary: 'done' })]];
}

async function hostileRun(server) {
  const run = await createRun(server, `hostile ${BAD}`.slice(0, 190));
  const producer = new Producer(server, run);
  await producer.append([['run.started', '{}'], ['turn.started', '{"turn_index":0}'],
    ['assistant.text_complete', data({ turn_index: 0, block_index: 0, text: `${BAD}\n\n\`\`\`html\n${BAD}\n\`\`\`\n- ${BAD}\n# ${BAD}` })],
    ['assistant.text_complete', data({ turn_index: 0, block_index: 1, text: `${'<i>\u202e'.repeat(12_000)}` })],
    ['ext.webtest.note', data({ [BAD.slice(0, 200)]: BAD })]]);
  for (let at = 0; at < CALLS; at += CALLS_OF_A_BATCH) {
    await producer.append(Array.from({ length: CALLS_OF_A_BATCH }, (_, more) => call(at + more)).flat());
  }
  const [begin, command, chunks, exited, completed] = longLine('long');
  await producer.append([begin, command]);
  for (const chunk of chunks) await producer.append([chunk]);
  await producer.append([exited, completed]);
  await producer.append([['assistant.text_complete', data({ turn_index: 0, block_index: 2, text: `The end. ${BAD}` })],
    ['assistant.final_answer', data({ turn_index: 0, summary: BAD })],
    ['turn.completed', '{"turn_index":0,"stop_reason":"end_turn"}'], ['run.finished', '{"final_status":"completed"}']]);
  return run;
}

/// What the page made of the texts: nothing but text.
async function inert(page, place) {
  const found = await page.evaluate((unseen) => {
    const words = `${document.title}${document.body.innerText}${document.body.textContent}`;
    const at = new RegExp(unseen, 'u').exec(words.replace(/[\n\t]/g, ' '));
    const foreign = [...document.querySelectorAll('img, script:not([src]), iframe, svg:not(.plot), style, base, meta[http-equiv], a[href^="javascript" i], [onerror], [onload]')];
    const away = [...document.querySelectorAll('a[href]')].filter(({ href }) => !href.startsWith(location.origin));
    return { harmed: window.harmed, hidden: at && words.slice(at.index - 10, at.index + 10), foreign: foreign.map(({ outerHTML }) => outerHTML.slice(0, 80)),
      away: away.map(({ href }) => href), heading: [...document.querySelectorAll('h1')].map(({ textContent }) => textContent) };
  }, UNSEEN.source);
  assert.deepEqual(found, { harmed: undefined, hidden: null, foreign: [], away: [], heading: ['Recount'] }, place);
}

/// What the page holds after everything that can be collected was.
async function heap(page) {
  const session = await page.context().newCDPSession(page);
  await session.send('HeapProfiler.collectGarbage');
  const { usedSize } = await session.send('Runtime.getHeapUsage');
  await session.detach();
  return usedSize;
}

test('a hostile run of 10,000 calls is inert, scrolls by small steps and has bounded memory', { timeout: 500_000 }, async (t) => {
  const server = await startServer(t);
  const run = await hostileRun(server);
  const page = await openPage(t, browser, `${server.origin}/#${run}`);
  page.on('request', (request) => assert.ok(request.url().startsWith(server.origin) || request.url().startsWith('data:'), request.url()));
  page.on('dialog', () => assert.fail('a dialog was opened'));
  await page.getByRole('feed').locator('.is-ending').waitFor();
  await page.getByText(/^Loading/).waitFor({ state: 'hidden', timeout: 120_000 });
  await inert(page, 'the transcript');

  // The line of a megabyte, and cards of every kind, open.
  const cards = page.getByRole('feed').locator('recount-call');
  await cards.last().locator('summary').first().click();
  await cards.last().getByRole('group', { name: 'Output' }).waitFor();
  await cards.last().getByRole('button', { name: /^Show all of/ }).click();
  const longest = await cards.last().locator('.terminal > *').evaluateAll((lines) => Math.max(...lines.map(({ textContent }) => textContent.length)));
  // A character that hides something is shown as up to ten.
  assert.ok(longest < 25_000, `${longest}`);
  for (const at of [-2, -3, -4]) await cards.nth((await cards.count()) + at).locator('summary').first().click();
  await inert(page, 'open cards');
  const width = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  assert.ok(width <= 0, `the page is ${width} pixels too wide`);

  // Scrolling up through what was folded; the cards that are open stay out of the way.
  await page.evaluate(() => document.querySelectorAll('.things details[open]').forEach((details) => (details.open = false)));
  const scrolling = await scrollUp(page, 150, 400);
  const made = await page.locator('.things > *').count();
  const held = await heap(page);
  t.diagnostic(`scrolling made ${scrolling.most} elements in one frame at most, ${scrolling.all} in all; ${made} elements; ${(held / 2 ** 20).toFixed(1)} MiB are held`);
  assert.ok(scrolling.all > 0 && scrolling.most <= FRAME_ELEMENTS_MAX, JSON.stringify(scrolling));
  assert.ok(made <= 240, `${made} elements`);
  assert.ok(held <= HEAP_BYTES_MAX, `${held} bytes`);

  // Its beginning, and the other views.
  await page.evaluate((run) => (location.hash = `#${run}/2`), run);
  await page.locator('.target').waitFor();
  await inert(page, 'the beginning');
  for (const view of ['Timeline', 'Cost', 'Events']) {
    await page.getByRole('link', { name: view, exact: true }).click();
    await page.locator('#views [aria-current]', { hasText: view }).waitFor();
    await inert(page, view);
  }
  await page.locator('#events summary').last().click();
  await inert(page, 'an event');
  await page.getByRole('link', { name: 'Recount' }).click();
  await page.getByRole('heading', { name: 'Overview' }).waitFor();
  await inert(page, 'the overview');

  // Leaving the run gives back what it held.
  const left = await heap(page);
  t.diagnostic(`${(left / 2 ** 20).toFixed(1)} MiB are held after leaving it`);
  assert.ok(left < held / 2, `${left} of ${held} bytes`);
});
