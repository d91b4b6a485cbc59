// The console's fold: what it makes of every story and of every type of event, however the events arrive.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFile, readdir } from 'node:fs/promises';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

import { Fold, KNOWN_TYPES, foldEvents } from '../web/src/fold/fold.js';
import { eventTypes } from './types.mjs';
import { VIEWS, stories, story, viewText } from './views.mjs';

const here = (path) => fileURLToPath(new URL(path, import.meta.url));

/// So that a fold that changes what it was given fails.
function frozen(value) {
  if (typeof value === 'object' && value !== null) Object.values(Object.freeze(value)).forEach(frozen);
  return value;
}

async function fixtures() {
  const folder = new URL('../testdata/events/', import.meta.url);
  const names = (await readdir(folder)).filter((name) => name.endsWith('.json')).sort();
  return Promise.all(names.map(async (name) => ({ name, event: JSON.parse(await readFile(new URL(name, folder), 'utf8')) })));
}

test('each story has the view that testdata/views says', async () => {
  const names = await stories();
  assert.ok(names.length > 30);
  const expected = (await readdir(VIEWS)).filter((name) => name.endsWith('.json')).map((name) => name.slice(0, -5)).sort();
  assert.deepEqual(expected, names);
  for (const name of names) {
    const same = viewText(frozen(await story(name))) === await readFile(new URL(`${name}.json`, VIEWS), 'utf8');
    assert.ok(same, `${name}: run \`node views.mjs\` and look at what changed`);
  }
});

test('events that are heard again change nothing, wherever the stream is cut', async () => {
  for (const name of await stories()) {
    const events = frozen(await story(name));
    const whole = foldEvents(events);
    const again = new Fold().applyAll(events).applyAll(events);
    assert.deepEqual(again.view, whole, `${name}, all twice`);
    for (let cut = 1; cut < events.length; cut += 1) {
      const fold = new Fold().applyAll(events.slice(0, cut));
      fold.takeChanges();
      // A reader that comes back hears the last few once more.
      fold.applyAll(events.slice(Math.max(cut - 3, 0)));
      assert.deepEqual(fold.view, whole, `${name}, cut at ${cut}`);
    }
  }
});

test('what changed is told, and nothing else', async () => {
  for (const name of await stories()) {
    const fold = new Fold();
    const texts = new Map();
    for (const event of await story(name)) {
      fold.apply(event);
      const changed = fold.takeChanges();
      for (const item of fold.view.items) {
        const text = JSON.stringify(item);
        if (texts.get(item.key) !== text) assert.ok(changed.has(item), `${name}: ${item.key} changed at ${event.sequence} and it was not told`);
        texts.set(item.key, text);
      }
    }
    assert.equal(new Set(fold.view.items.map(({ key }) => key)).size, fold.view.items.length, `${name}: keys are unique`);
  }
});

test('every type has a meaning in the fold', async () => {
  const folder = new URL('../docs/schemas/events/v1/', import.meta.url);
  const names = (await readdir(folder)).map((name) => name.replace(/\.schema\.json$/, '')).filter((name) => name.includes('.'));
  assert.ok(names.length > 80);
  assert.deepEqual([...KNOWN_TYPES].sort(), names.sort());
});

/// The same event without any id of an artifact.
function stripped(event) {
  const data = Object.fromEntries(Object.entries(event.data).filter(([name]) => !/artifact_ids?$/.test(name)));
  return { ...event, data };
}

test('an event of every type leaves a trace, alone and without ids of artifacts', async () => {
  const blank = JSON.stringify({ ...foldEvents([]), first: 0, last: 0, events: 1 });
  for (const { name, event } of await fixtures()) {
    for (const [form, told] of [['as it is', event], ['stripped', stripped(event)]]) {
      const view = foldEvents([frozen({ ...told, sequence: 0 })]);
      // Without its id there is no artifact of which something could be said.
      if (form === 'stripped' && event.type === 'artifact.updated') continue;
      assert.notEqual(JSON.stringify(view), blank, `${name}, ${form}`);
      JSON.parse(JSON.stringify(view));
    }
  }
});

test('stories are readable without ids of artifacts', async () => {
  for (const name of await stories()) {
    const view = foldEvents((await story(name)).map(stripped));
    const whole = foldEvents(await story(name));
    assert.deepEqual(view.items.map(({ kind }) => kind), whole.items.map(({ kind }) => kind), name);
    assert.deepEqual(view.turns, whole.turns, name);
  }
});

test('what a later release sends is kept as it is', async () => {
  const text = await readFile(new URL('../testdata/future/events.jsonl', import.meta.url), 'utf8');
  const events = text.trim().split('\n').map((line) => JSON.parse(line));
  const { items } = foldEvents(events);
  for (const event of events.filter(({ type }) => !KNOWN_TYPES.includes(type))) {
    const item = items.find(({ sequence }) => sequence === event.sequence);
    assert.deepEqual([item.kind, item.type, item.data], ['unknown', event.type, event.data]);
  }
});

test('data of a wrong form is shown and does no harm', async () => {
  for (const { name, event } of await fixtures()) {
    for (const wrong of [null, 7, 'text', [], { __proto__: 1 }, {}]) {
      assert.doesNotThrow(() => foldEvents([{ ...event, sequence: 0, data: wrong }]), `${name} with ${JSON.stringify(wrong)}`);
    }
    const confused = Object.fromEntries(Object.keys(event.data).map((key) => [key, 7]));
    assert.doesNotThrow(() => foldEvents([{ ...event, sequence: 0, data: confused }]), `${name} with numbers`);
  }
});

test('a hole in what was heard is said where it is', () => {
  const event = (sequence) => ({ sequence, occurred_at: '2026-05-03T11:15:49.256Z', type: 'ext.acme.note', data: {} });
  const { items, gaps, first, last } = foldEvents([event(4), event(5), event(9)]);
  assert.deepEqual([first, last, gaps], [4, 9, [{ first: 6, last: 8 }]]);
  assert.deepEqual(items.map(({ kind }) => kind), ['unknown', 'unknown', 'gap', 'unknown']);
});

test('a block is one item, however small its pieces, and bytes that are missing are said', () => {
  const at = '2026-05-03T11:15:49.256Z';
  const delta = (sequence, text) => ({ sequence, occurred_at: at, type: 'assistant.text_delta', data: { turn_index: 0, block_index: 0, delta: text } });
  const { items: [text, ...more] } = foldEvents([...'smooth ☃'].map((character, sequence) => delta(sequence, character)));
  assert.deepEqual([text.text, text.complete, more.length], ['smooth ☃', false, 0]);
  const chunk = (sequence, offset, data) => ({ sequence, occurred_at: at, type: 'tool.shell.output_chunk',
    data: { tool_call_id: 'c', stream: 'stdout', data, byte_offset: offset } });
  const { items: [call] } = foldEvents([chunk(0, 0, 'ä'), chunk(1, 2, 'b'), chunk(2, 7, 'c')]);
  assert.deepEqual(call.shell.output, [{ stream: 'stdout', text: 'äb' }, { stream: 'stdout', missing_bytes: 4 }, { stream: 'stdout', text: 'c' }]);
});

test('the types are those of the schemas, and the scripts agree with them', { timeout: 120_000 }, async () => {
  assert.equal(await readFile(new URL('../web/types/events.d.ts', import.meta.url), 'utf8'), await eventTypes(), 'run `node types.mjs`');
  const compiler = here('node_modules/typescript/bin/tsc');
  // The fold strictly; what draws, as far as the types of a page are known.
  for (const project of ['tsconfig.json', 'tsconfig.page.json']) {
    await promisify(execFile)(process.execPath, [compiler, '-p', here(`../web/${project}`)])
      .catch(({ stdout, message }) => assert.fail(stdout || message));
  }
});
