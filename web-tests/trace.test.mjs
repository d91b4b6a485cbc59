// The pages of `aaep visualize` in a real browser: what people with a screen reader, a keyboard, a narrow
// screen, a dark room or no JavaScript get of them, and that nothing in a file can do anything there.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

import { launch, openPage } from './browser.mjs';
import { atEnd } from './ending.mjs';

/// The program `aaep` is built beside `recount`.
const BINARY = join(
  dirname(process.env.RECOUNT_BINARY ?? fileURLToPath(new URL('../target/debug/recount', import.meta.url))),
  'aaep',
);
const TESTDATA = fileURLToPath(new URL('../testdata/aaep/', import.meta.url));
const TAGS = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];

let browser;
let axe;
before(async () => {
  browser = await launch();
  axe = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
});
after(() => browser?.close());

/// The page of a file, on a server of its own.
async function pageOf(t, file) {
  // Status 1 says that the file has errors; its page is whole.
  const { stdout } = await promisify(execFile)(
    BINARY, ['visualize', file, '--format', 'html'], { maxBuffer: 1 << 28 })
    .catch((ended) => (ended.code === 1 ? ended : Promise.reject(ended)));
  const server = createServer((_, answer) => {
    answer.setHeader('content-type', 'text/html');
    answer.end(stdout);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  atEnd(t, async () => server.close());
  return `http://127.0.0.1:${server.address().port}/`;
}

const TRIP = join(TESTDATA, 'traces/trip.jsonl');

/// A file of so many lines, each of them made by `line`.
async function made(t, name, lines) {
  const folder = await mkdtemp(join(tmpdir(), 'recount-trace-'));
  atEnd(t, async () => rm(folder, { recursive: true, force: true }));
  const file = join(folder, name);
  await writeFile(file, lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
  return file;
}

function event(type, number, more) {
  return {
    '@context': 'https://aaep-protocol.org/context/v1',
    type: `aaep:agent.${type}`,
    event_id: `evt_${number}`,
    session_id: 'sess_1',
    timestamp: new Date(Date.UTC(2026, 4, 24, 14, 0, 0, number * 10)).toISOString(),
    producer: { agent_id: 'planner' },
    localization_hints: { primary_language: 'en' },
    ...more,
  };
}

function longSession(events) {
  const lines = [event('session.started', 0, { summary_normal: 'Starting.' })];
  while (lines.length < events) {
    const percent = lines.length % 100;
    lines.push(event('progress.updated', lines.length, { progress: { percent }, summary_normal: 'On.' }));
  }
  // What is completed was never called.
  lines.push(event('tool.completed', lines.length, { tool: 'fetch', status: 'success', summary_normal: 'Here.' }));
  lines.push(event('session.completed', lines.length, { summary_normal: 'Done.' }));
  return lines;
}

async function violations(page) {
  // From outside, because the page's own policy lets no script in.
  await page.evaluate(axe);
  const { violations } = await page.evaluate(
    (tags) => window.axe.run(document, { runOnly: { type: 'tag', values: tags } }), TAGS);
  return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 160)).join(' | ')}`);
}

const VIEWS = ['light', 'dark'].flatMap((colorScheme) =>
  [320, 1280].map((width) => ({ colorScheme, viewport: { width, height: 900 } })));

test('a trace has nothing to complain of for axe, at any width, light and dark', async (t) => {
  const [narrow, , , wide] = VIEWS;
  for (const [file, views] of [
    [TRIP, VIEWS],
    [join(TESTDATA, 'sessions/bad.unrecorded.rejected_behind_the_change.jsonl'), [narrow]],
    [join(TESTDATA, 'sessions/bad.handshake.rate_raised.jsonl'), [wide]],
    [await made(t, 'long.jsonl', longSession(250)), [wide]],
  ]) {
    const url = await pageOf(t, file);
    for (const view of views) {
      const page = await openPage(t, browser, url, view);
      assert.deepEqual(await violations(page), [], `${file} ${JSON.stringify(view)}`);
    }
  }
});

test('nothing is cut off at 320 pixels, which is a window of 1280 at 400 percent', async (t) => {
  const page = await openPage(t, browser, await pageOf(t, TRIP), { viewport: { width: 320, height: 640 } });
  const wide = await page.evaluate(() => {
    const scrolls = (element) => element.closest('.scroll');
    const beyond = [...document.querySelectorAll('body *')].filter((element) =>
      !scrolls(element) && !element.closest('.skips') && element.getBoundingClientRect().right > 320.5);
    return { page: document.documentElement.scrollWidth, beyond: beyond.map(({ outerHTML }) => outerHTML.slice(0, 120)) };
  });
  assert.deepEqual(wide, { page: 320, beyond: [] });
  // Only the drawing scrolls sideways, and the keyboard reaches it.
  const drawing = page.locator('.scroll').first();
  await drawing.focus();
  await page.keyboard.press('End');
  await page.keyboard.press('ArrowRight');
  await page.waitForFunction(() => document.querySelector('.scroll').scrollLeft > 0);
});

test('the keyboard goes through a trace in reading order, and sees where it is', async (t) => {
  const page = await openPage(t, browser, await pageOf(t, TRIP), { reducedMotion: 'reduce' });
  const meant = await page.evaluate(() =>
    [...document.querySelectorAll('a[href], [tabindex="0"], summary')].map((element) =>
      element.getAttribute('href') ?? element.getAttribute('aria-labelledby')));
  const seen = [];
  for (const _ of meant) {
    await page.keyboard.press('Tab');
    const at = await page.evaluate(() => {
      const element = document.activeElement;
      const box = element.getBoundingClientRect();
      const { outlineStyle, outlineWidth } = getComputedStyle(element);
      return {
        name: element.getAttribute('href') ?? element.getAttribute('aria-labelledby'),
        isSeen: box.width > 0 && box.left >= 0 && box.right <= innerWidth && box.bottom > 0 && box.top < innerHeight,
        outline: outlineStyle !== 'none' && outlineWidth !== '0px',
      };
    });
    seen.push(at.name);
    assert.ok(at.isSeen && at.outline, `${at.name} is reached and not seen`);
  }
  assert.deepEqual(seen, meant);
});

test('a problem is reached from the list and from the drawing, and leads back to both', async (t) => {
  const page = await openPage(t, browser, await pageOf(t, TRIP));
  const hash = () => page.evaluate(() => location.hash);
  const problem = page.locator('.problem', { hasText: 'tool.unconfirmed' });
  const number = (await problem.getAttribute('id')).slice(1);
  await page.locator(`#o${number} a`).press('Enter');
  assert.equal(await hash(), `#p${number}`);
  await problem.getByRole('link', { name: `Problem ${number} in the drawing` }).press('Enter');
  assert.equal(await hash(), `#m${number}`);
  await page.getByRole('link', { name: 'Error tool.unconfirmed in line 20' }).press('Enter');
  assert.equal(await hash(), `#p${number}`);
  await problem.getByRole('link', { name: `Problem ${number} in the list` }).press('Enter');
  assert.equal(await hash(), `#o${number}`);
  // Behind the line that it belongs to.
  assert.match(await page.locator('.account li', { has: problem }).innerText(), /Line 20[^]*calls the tool send_mail/);
});

test('every link of a trace has its one place, with merged marks too', async (t) => {
  const lines = longSession(300);
  for (let at = 100; at < 160; at += 1) lines[at].timestamp = lines[0].timestamp;
  for (const file of [TRIP, await made(t, 'falls.jsonl', lines)]) {
    const page = await openPage(t, browser, await pageOf(t, file));
    const wrong = await page.evaluate(() => {
      const links = [...document.querySelectorAll('a[href^="#"]')];
      const missing = links.filter(({ hash, href }) => !document.getElementById((hash ?? href.baseVal).slice(1)));
      const ids = [...document.querySelectorAll('[id]')].map(({ id }) => id);
      const far = document.querySelectorAll('[href]:not([href^="#"]), [src]').length;
      return { missing: missing.length, twice: ids.length - new Set(ids).size, far, problems: document.querySelectorAll('.problem').length };
    });
    assert.ok(wrong.problems > 1);
    assert.deepEqual({ ...wrong, problems: 0 }, { missing: 0, twice: 0, far: 0, problems: 0 });
  }
});

test('a trace needs no script: a page that is closed opens for who follows a link into it', async (t) => {
  const url = await pageOf(t, await made(t, 'long.jsonl', longSession(450)));
  const page = await openPage(t, browser, url, { javaScriptEnabled: false });
  const problem = page.locator('.problem', { hasText: 'tool.not_invoked' });
  assert.equal(await problem.isVisible(), false, 'it is on the third page');
  await page.locator('.overview a').click();
  await problem.waitFor({ state: 'visible' });
  assert.equal(await page.locator('summary').count(), 3);
  assert.match(await page.locator('summary').nth(2).innerText(), /Lines 401 to 452: 52 texts, 1 problem/);
});

test('hostile text does nothing in a trace', async (t) => {
  const hostile = '"><script>document.title="gone"</script><img src=x onerror="document.title=`gone`">\u202e</bdi>';
  const lines = [
    event('session.started', 1, { summary_normal: hostile, session_id: hostile }),
    event('state.changed', 2, { from_state: 'idle', to_state: hostile, summary_normal: hostile, producer: { agent_id: hostile } }),
    event('tool.invoked', 3, { tool: hostile, summary_normal: hostile, localization_hints: { primary_language: hostile } }),
  ];
  const page = await openPage(t, browser, await pageOf(t, await made(t, 'hostile.jsonl', lines)));
  const made_of = await page.evaluate(() => ({
    title: document.title.startsWith('Trace of '),
    strange: document.querySelectorAll('script, img, [onerror], iframe, object').length,
  }));
  assert.deepEqual(made_of, { title: true, strange: 0 });
  assert.match(await page.locator('main').innerText(), /<script>document\.title="gone"<\/script>/);
  assert.deepEqual(await violations(page), []);
});

test('the texts of a trace are in their language, run in their direction and stay in their place', async (t) => {
  const page = await openPage(t, browser, await pageOf(t, TRIP));
  const hebrew = page.locator('bdi[lang="he"]').first();
  assert.deepEqual(
    await hebrew.evaluate((element) => [getComputedStyle(element).direction, getComputedStyle(element).unicodeBidi]),
    ['rtl', 'isolate']);
  assert.equal(await page.evaluate(() => document.documentElement.lang), 'en');
  assert.equal(await page.locator('bdi:not([lang])').count(), 0);
});

test('a trace follows what the reader asked the system for', async (t) => {
  const url = await pageOf(t, TRIP);
  const look = (page) => page.evaluate(() => [
    getComputedStyle(document.body).backgroundColor,
    getComputedStyle(document.documentElement).scrollBehavior,
  ]);
  const light = await openPage(t, browser, url, { colorScheme: 'light', reducedMotion: 'no-preference' });
  const dark = await openPage(t, browser, url, { colorScheme: 'dark', reducedMotion: 'reduce' });
  assert.deepEqual(await look(light), ['rgb(244, 245, 248)', 'smooth']);
  assert.deepEqual(await look(dark), ['rgb(17, 20, 27)', 'auto']);
  // On paper all pages are open, and the drawing fits.
  const long = await openPage(t, browser, await pageOf(t, await made(t, 'long.jsonl', longSession(450))));
  await long.emulateMedia({ media: 'print' });
  await long.locator('.problem', { hasText: 'tool.not_invoked' }).waitFor({ state: 'visible' });
});
