// The parts of the console that need no page: colours of terminals, diffs, words for times and money.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { classesOf, styledLines } from '../web/src/run/ansi.js';
import { diffCounts, parseDiff, sideBySide } from '../web/src/run/diff.js';
import { groupedRows, zoomed } from '../web/src/run/timeline.js';
import { noteWords, promptWords } from '../web/src/run/words.js';
import { duration, money, size, tokens } from '../web/src/time.js';
import { KNOWN_TYPES, foldEvents } from '../web/src/fold/fold.js';
import { stories, story } from './views.mjs';

/// Lines as text in which every style is written before its text.
const lines = (text) => styledLines(text).map((spans) => spans.map(({ text, style }) => `${classesOf(style) ? `<${classesOf(style)}>` : ''}${text}`).join('|'));

test('colours and weights of output are those of a terminal', () => {
  for (const [text, expected] of [
    ['plain', ['plain']],
    ['a\nb\n', ['a', 'b', '']],
    ['\u001b[31mred\u001b[0m not', ['<fg-1>red| not']],
    ['\u001b[1;4;92;41mall\u001b[22;24;39;49m none', ['<fg-10 bg-1 t-bold t-underline>all| none']],
    ['\u001b[31mover\nlines\u001b[m', ['<fg-1>over', '<fg-1>lines']],
    ['\u001b[38;5;196mdeep\u001b[38;2;0;0;255mblue\u001b[38;5;244mgrey', ['<fg-9>deep|<fg-12>blue|<fg-7>grey']],
    ['\u001b[2K\u001b[1Gagain\u001b]0;a title\u0007 \u001b]8;;http://x\u001b\\link', ['again| |link']],
    ['10 %\r20 %\r\n30 %', ['20 %', '30 %']],
    ['\u001b[38;5mcut \u001b[99999mhigh', ['<fg-0>cut |<fg-0>high']],
    ['\u001b[', ['\u001b[']],
  ]) {
    assert.deepEqual(lines(text), expected, JSON.stringify(text));
  }
});

const DIFF = `--- a/x
+++ b/x
@@ -1,4 +1,3 @@
 same
--- a removed line that looks like a head
-second
+++ added
 end
@@ -9 +9,2 @@
-old
\\ No newline at end of file
+new
+more
`;

test('a diff is read as git means it, and put side by side', () => {
  const rows = parseDiff(DIFF);
  assert.deepEqual(rows.map(({ kind, left, right }) => [kind, left, right].filter((one) => one !== undefined).join(' ')), [
    'file', 'file', 'hunk', 'same 1 1', 'del 2', 'del 3', 'add 2', 'same 4 3', 'hunk', 'del 9', 'note', 'add 9', 'add 10',
  ]);
  assert.equal(rows[4].text, '-- a removed line that looks like a head');
  assert.deepEqual(diffCounts(rows), { added: 3, removed: 3 });
  const pairs = sideBySide(rows).map(({ left, right, both }) => (both ? both.kind : `${left?.left ?? '-'} ${right?.right ?? '-'}`));
  assert.deepEqual(pairs, ['file', 'file', 'hunk', '1 1', '2 2', '3 -', '4 3', 'hunk', '9 -', 'note', '- 9', '- 10']);
});

test('times, money, tokens and sizes are short', () => {
  assert.deepEqual([0, 999, 1500, 59_000, 60_000, 3_725_000, 90_000_000, NaN].map(duration),
    ['0 ms', '999 ms', '1.5 s', '59 s', '1 min', '1 h 2 min', '1 d 1 h', '']);
  assert.deepEqual([0, 12, 2_424, 12_000, 1_234_567, 250_000_000, NaN].map(money), ['$0', '$0.00001', '$0.00242', '$0.012', '$1.23', '$250', '']);
  assert.deepEqual([999, 1200, 12_345, 1_000_000].map(tokens), ['999', '1.2k', '12k', '1.0M']);
  assert.deepEqual([1, 2, 1536, 5_242_880].map(size), ['1 byte', '2 bytes', '1.5 KiB', '5.0 MiB']);
});

test('every note and prompt of every story has words of its own', async () => {
  const seen = new Set();
  for (const name of await stories()) {
    for (const item of foldEvents(await story(name)).items) {
      if (item.kind === 'note') {
        const { words } = noteWords(item);
        assert.ok(words !== item.type && !/undefined|NaN|\[object/.test(words), `${name}: ${item.type} says: ${words}`);
        seen.add(item.type);
      }
      if (item.kind === 'prompt') {
        const { name: kind, question, outcome } = promptWords(item);
        assert.ok(kind && question && outcome && !/undefined/.test(outcome), `${name}: ${JSON.stringify(item)}`);
      }
    }
  }
  assert.ok(seen.size > 12 && [...seen].every((type) => KNOWN_TYPES.includes(type)), [...seen].join(', '));
});

test('an approval that was decided elsewhere says so', () => {
  const outcome = (answer) => promptWords({ prompt: 'approval', state: 'cancelled', asked: {}, answer }).outcome;
  assert.equal(outcome({ by: 'claude', decided_elsewhere: 'approved' }), 'approved elsewhere by claude');
  assert.equal(outcome({ by: 'claude', decided_elsewhere: 'rejected' }), 'rejected elsewhere by claude');
  assert.equal(outcome({ by: 'claude', decided_elsewhere: 'undecided' }), 'withdrawn here; decided elsewhere');
  assert.equal(outcome({ by: 'claude' }), 'cancelled by claude');
});

test('each range of the timeline is one of its rows, and each step leads back', () => {
  const all = 5_000;
  const rows = Array.from({ length: all }, (_, at) => ({ kind: at % 3 === 0 ? 'turn' : 'call', name: `row ${at}`, sequence: at + 1, outcome: '',
    from: new Date(at * 1000).toISOString(), to: at === all - 1 ? null : new Date(at * 1000 + 500).toISOString() }));
  assert.deepEqual(zoomed(null, 'whole', all), { first: 0, size: all });
  const groups = groupedRows(rows, 0);
  assert.equal(groups.length, 200);
  assert.equal(groups[0].name, '9 turns, 16 calls');
  assert.deepEqual(groups[1].range, { first: 25, size: 25 });
  assert.deepEqual([groups[1].from, groups[1].to], [rows[25].from, rows[49].to]);
  assert.equal(groups.at(-1).to, null, 'its last row is in progress');
  assert.equal(groups.reduce((sum, { range }) => sum + range.size, 0), all);
  let range = { first: 0, size: all };
  for (let step = 0; step < 20; step += 1) range = zoomed(range, 'in', all);
  assert.equal(range.size, 10, 'there is a closest zoom');
  for (const step of ['earlier', 'later', 'in', 'out']) {
    for (let times = 0; times < 600; times += 1) {
      range = zoomed(range, step, all);
      assert.ok(range.first >= 0 && range.size >= 10 && range.first + range.size <= all, `${step} ${JSON.stringify(range)}`);
    }
  }
  assert.deepEqual(range, { first: 0, size: all });
  assert.equal(zoomed(range, 'newest', all), null);
  assert.deepEqual(zoomed(null, 'in', 4), { first: 0, size: 4 }, 'a short run has nothing to zoom');
});
