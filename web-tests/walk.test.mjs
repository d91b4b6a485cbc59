// Whatever can be pressed is pressed, in every view: nothing complains, and the keyboard alone reaches all of it.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { launch, openPage } from './browser.mjs';
import { startServer } from './server.mjs';
import { BEGINNING, ENDING, OUTPUT, Producer, createRun } from './story.mjs';

const TEST = { timeout: 240_000 };
const PRESSABLE = 'main button, main summary, main a[href], header.top button';
const STEPS_MAX = 400;

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser?.close());

async function fullRun(server) {
  const run = await createRun(server, 'everything');
  await new Producer(server, run).append([
    ...BEGINNING, ...OUTPUT, ...ENDING.slice(0, -1),
    ['tool.invoked', '{"tool_call_id":"g","tool_name":"grep","kind":"file"}'],
    ['tool.grep.completed', '{"tool_call_id":"g","pattern":"x","matches":[{"path":"a","line":1,"text":"x"}],"match_count":1,"truncated":false}'],
    ['tool.completed', '{"tool_call_id":"g","tool_name":"grep","output":"a:1:x"}'],
    ['clarification.requested', '{"clarification_id":"q","question":"which?"}'],
  ]);
  return run;
}

/// The names of what can be pressed now, each with its place among those of that name.
const pressable = (page) => page.locator(PRESSABLE).evaluateAll((all) =>
  all.map((node, at) => ({ at, shown: node.checkVisibility(), name: `${node.localName} ${(node.ariaLabel ?? node.textContent).trim().slice(0, 60)}` }))
    .filter(({ shown }) => shown));

/// What is not pressed yet. Nothing may be found while a list is drawn anew.
const unpressed = async (page, pressed) =>
  (await pressable(page)).find(({ name }) => !pressed.has(name) && !/Send answer|Show earlier events/.test(name));

/// Waits until a place shows what it is about: the run, or on the overview the links to it and to its question.
async function drawn(page, place) {
  if (place) return page.locator('#run-status', { hasText: 'running' }).waitFor();
  await page.getByRole('navigation', { name: 'Runs' }).getByRole('link', { name: /everything/ }).first().waitFor();
  await page.locator('body[data-page="overview"]').waitFor();
  // Also the page of the run has a link to its question.
  await page.locator('#overview').getByRole('link', { name: /which\?/ }).first().waitFor();
}

test('everything that can be pressed is pressed, and nothing complains', TEST, async (t) => {
  const server = await startServer(t);
  const run = await fullRun(server);
  for (const place of ['', `#${run}`, `#${run}/timeline`, `#${run}/cost`, `#${run}/events`]) {
    const page = await openPage(t, browser, `${server.origin}/${place}`);
    await page.locator('#health', { hasText: 'Connected.' }).waitFor();
    await drawn(page, place);
    const pressed = new Set();
    for (let step = 0; step < STEPS_MAX; step += 1) {
      // What leads away is pressed, too, and then the way back is taken.
      if (new URL(page.url()).hash !== place) {
        await page.evaluate((place) => new Promise((resolve) => {
          // The page may not have followed the way there yet.
          addEventListener('hashchange', function arrived({ newURL }) {
            if (new URL(newURL).hash !== place) return;
            removeEventListener('hashchange', arrived);
            resolve();
          });
          location.hash = place || '#';
        }), place);
        await drawn(page, place);
      }
      const next = await unpressed(page, pressed) ?? (await drawn(page, place), await unpressed(page, pressed));
      if (!next) break;
      pressed.add(next.name);
      await page.locator(PRESSABLE).nth(next.at).click({ timeout: 2000 }).catch((error) => {
        // It was drawn anew, or is covered by what is in front of it.
        if (!/Timeout|detached|not attached/.test(error.message)) throw error;
      });
      if (await page.locator('dialog[open]').count()) await page.keyboard.press('Escape');
    }
    // The overview of one run has five buttons, the run and its question.
    assert.ok(pressed.size >= (place ? 8 : 7), `${place}: ${[...pressed].join(', ')}`);
    assert.ok(await page.locator('#trouble').isHidden(), await page.locator('#trouble').textContent());
    await page.context().close();
  }
});

test('the keyboard reaches everything that a mouse can press, in the order of the page', TEST, async (t) => {
  const server = await startServer(t);
  const run = await fullRun(server);
  const page = await openPage(t, browser, `${server.origin}/#${run}`);
  await page.locator('#run-status', { hasText: 'running' }).waitFor();
  await page.getByRole('feed').getByText('There are forty.').first().waitFor();
  await page.locator('recount-call > details > summary').first().click();
  const wanted = new Set((await pressable(page)).map(({ name }) => name));
  // It goes when the end is in sight, where the keyboard arrives.
  wanted.delete('button Go to the newest');
  await page.locator('.skip').focus();
  const reached = [];
  for (let step = 0; step < STEPS_MAX; step += 1) {
    await page.keyboard.press('Tab');
    const [name, seen, outlined] = await page.evaluate(() => {
      const node = document.activeElement;
      const box = node.getBoundingClientRect();
      return [`${node.localName} ${(node.ariaLabel ?? node.textContent).trim().slice(0, 60)}`, box.bottom > 0 && box.top < innerHeight,
        getComputedStyle(node).outlineStyle !== 'none'];
    });
    if (name.startsWith('body')) break;
    assert.ok(seen, `${name} is in sight while it has the focus`);
    assert.ok(outlined, `${name} shows that it has the focus`);
    reached.push(name);
  }
  assert.deepEqual([...wanted].filter((name) => !reached.includes(name)), []);
});
