// Reloads at random moments while a run streams: whenever a page looks, it shows the beginning of what was said, without a
// gap and without a repetition, and in the end all of it, like a page that was never reloaded. The moments follow from a seed.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { launch, openPage } from './browser.mjs';
import { startServer } from './server.mjs';
import { Producer, createRun } from './story.mjs';
import { times } from './tier.mjs';

const TEST = { timeout: 300_000 };
const SEEDS = process.env.RECOUNT_SEED ? [Number(process.env.RECOUNT_SEED)] : Array.from({ length: times(1) }, (_, at) => at + 1);
const TURNS = 6;
const WORDS_OF_A_TURN = 60;
const RELOADS = 8;

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser?.close());

/// Numbers that are the same whenever the seed is.
function dice(seed) {
  let state = seed >>> 0;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

const data = (value) => JSON.stringify(value);

/// All batches of the run: words that count up, a call with output that counts up in each turn, and the end.
function batches(roll) {
  const all = [[['run.started', '{}']]];
  for (let turn = 0; turn < TURNS; turn += 1) {
    const words = Array.from({ length: WORDS_OF_A_TURN }, (_, at) => `w${turn * WORDS_OF_A_TURN + at}`);
    all.push([['turn.started', data({ turn_index: turn })]]);
    for (let at = 0; at < words.length;) {
      const length = 1 + roll(5);
      const delta = `${words.slice(at, at + length).join(' ')} `;
      all.push([['assistant.text_delta', data({ turn_index: turn, block_index: 0, delta })]]);
      at += length;
    }
    const id = `call-${turn}`;
    all.push([['assistant.text_complete', data({ turn_index: turn, block_index: 0, text: `${words.join(' ')} ` })],
      ['tool.invoked', data({ tool_call_id: id, tool_name: 'shell', kind: 'shell', args_summary: `c${turn}` })],
      ['tool.shell.command', data({ tool_call_id: id, argv: ['count'], cwd: '.' })]]);
    all.push([['tool.shell.output_chunk', data({ tool_call_id: id, stream: 'stdout', data: 'out\n', byte_offset: 0 })],
      ['tool.shell.exited', data({ tool_call_id: id, exit_code: 0, signal: null, stdout_bytes: 4, stderr_bytes: 0, truncated: false })],
      ['tool.completed', data({ tool_call_id: id, tool_name: 'shell', summary: 'counted' })],
      ['turn.completed', data({ turn_index: turn, stop_reason: turn === TURNS - 1 ? 'end_turn' : 'tool_use' })]]);
  }
  all.push([['run.finished', '{"final_status":"completed"}']]);
  return all;
}

/// The numbers that a page shows, in the order of the page.
const shown = (page) => page.evaluate(() => [...document.querySelectorAll('.things > .is-text .prose')]
  .flatMap(({ textContent }) => [...textContent.matchAll(/\bw(\d+)/g)].map(([, number]) => Number(number))));

const ended = (page) => page.getByRole('feed').locator('.is-ending').waitFor();
const told = (page) => page.locator('.things > *').allInnerTexts();

for (const seed of SEEDS) {
  test(`reloads while a run streams lose nothing and repeat nothing, seed ${seed}`, TEST, async (t) => {
    const roll = dice(seed);
    const server = await startServer(t);
    const run = await createRun(server, 'streams');
    const producer = new Producer(server, run);
    const all = batches(roll);
    const moments = Array.from({ length: RELOADS }, () => 1 + roll(all.length - 2)).sort((a, b) => a - b);
    const address = `${server.origin}/#${run}`;
    const still = await openPage(t, browser, address);
    const page = await openPage(t, browser, address);
    page.expectOutage(true);
    let appended = 0;
    let failure = null;
    const appending = (async () => {
      for (const batch of all) {
        await producer.append(batch);
        appended += 1;
        if (moments.includes(appended)) await reloaded(appended);
      }
    })().catch((error) => {
      failure = error;
    });
    let reloads = 0;
    // How far the page comes before more is appended is left to chance.
    async function reloaded() {
      reloads += 1;
      await page.reload({ waitUntil: ['commit', 'domcontentloaded', 'load'][roll(3)] });
    }
    while (appended < all.length && !failure) {
      const numbers = await shown(page).catch(() => []);
      assert.deepEqual(numbers, numbers.map((_, at) => at), `after ${appended} batches, seed ${seed}`);
    }
    await appending;
    if (failure) throw failure;
    assert.equal(reloads, new Set(moments).size);
    await ended(page);
    await ended(still);
    assert.deepEqual(await shown(page), Array.from({ length: TURNS * WORDS_OF_A_TURN }, (_, at) => at));
    assert.deepEqual(await told(page), await told(still), 'a page that was never reloaded shows the same');
    // Once more, when all is over.
    await page.reload();
    await ended(page);
    assert.deepEqual(await told(page), await told(still));
  });
}
