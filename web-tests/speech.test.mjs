// What the console says of runs: the catalogues of the AAEP face, read by its own reader of Fluent, in English and Arabic.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';

import { SpokenMarkdown } from '../web/src/markdown.js';
import { Catalogue, pickLanguage } from '../web/src/speech.js';
import { promptMessage, spoken } from '../web/src/run/spoken.js';

const LANGUAGES = ['en-US', 'ar'];
const NUMBERS = ['seconds', 'minutes', 'calls', 'prompts', 'place', 'percent', 'step', 'total', 'count'];

async function catalogue(language) {
  return new Catalogue(language, await readFile(new URL(`../crates/face-aaep/speech/${language}.ftl`, import.meta.url), 'utf8'));
}

/// The keys, with what may be put into each, as the face names them.
async function keys() {
  const source = await readFile(new URL('../crates/face-aaep/src/speech/key.rs', import.meta.url), 'utf8');
  return [...source.matchAll(/^ {4}\w+ = "([a-z-]+)" \(([^)]*)\);$/gm)].map(([, key, names]) => [key, names.split(/, ?/).filter(Boolean)]);
}

test('every message is said in every language, in every length and number', async () => {
  const all = await keys();
  assert.ok(all.length > 80, `${all.length} keys`);
  for (const language of LANGUAGES) {
    const speech = await catalogue(language);
    assert.equal(speech.messages.size, all.length);
    for (const [key, names] of all) {
      for (const number of [0, 1, 2, 3, 11, 100, 1_000_000]) {
        const values = Object.fromEntries(names.map((name) => [name, NUMBERS.includes(name) ? number : '«x»']));
        for (const length of ['terse', 'normal', 'detailed']) {
          const words = speech.render(key, values, length);
          assert.ok(words.length > 0 && !/[{}$]|\[\w+\]|->|undefined/.test(words), `${language} ${key} ${length}: ${words}`);
        }
      }
    }
  }
});

test('the words are those that other listeners hear', async () => {
  const english = await catalogue('en-US');
  for (const [key, values, length, expected] of [
    ['still-awaiting-input', { prompts: 1 }, 'normal', 'One more question is waiting for your answer.'],
    ['still-awaiting-input', { prompts: 2 }, 'normal', '2 more questions are waiting for your answer.'],
    ['session-completed', { agent: 'Fixer', seconds: 1, calls: 0 }, 'detailed', 'Fixer has finished, after one second and no tool calls.'],
    ['session-completed', { agent: 'Fixer', seconds: 12, calls: 1234 }, 'detailed', 'Fixer has finished, after 12 seconds and 1234 tool calls.'],
    ['session-completed', { agent: 'Fixer', seconds: 12, calls: 3 }, 'terse', 'Finished.'],
    ['clarification', { question: 'Which?' }, 'normal', 'Which?'],
    ['tool-invoked', { tool: 'a\u202eb\nc' }, 'normal', 'Using a\\u{202e}b c.'],
    ['confirmation', { action: 'Do it.', consequence: 'None.', preview: 'x' }, 'detailed', 'Do it. None. Allow this? x'],
  ]) {
    assert.equal(english.render(key, values, length), expected);
  }
  const arabic = await catalogue('ar');
  assert.equal(arabic.render('tool-invoked', { tool: 'shell_exec' }), 'يستخدم \u2068shell_exec\u2069.');
  assert.equal(new Set([0, 1, 2, 3, 11, 100].map((prompts) => arabic.render('still-awaiting-input', { prompts }))).size, 6);
  assert.throws(() => english.render('no-such-message'), /unknown message "no-such-message"/);
});

test('in what a person decides on, line ends, blanks and backticks are in words', async () => {
  const english = await catalogue('en-US');
  const confirmation = (action) => english.render('confirmation', { action, consequence: 'It runs.', preview: '' });
  for (const [action, expected] of [
    ['Run ls.', 'Run ls. It runs. Allow this?'],
    ['Run cd /tmp\nrm x.', 'Run cd /tmp [new line] rm x. It runs. Allow this?'],
    [`Run a\n\n\nb;${' '.repeat(50)}rm x.`, 'Run a [3 new lines] b; [50 blanks] rm x. It runs. Allow this?'],
    ['Run echo `rm x`', 'Run echo [backtick] rm x [backtick] It runs. Allow this?'],
  ]) {
    assert.equal(confirmation(action), expected);
  }
  assert.ok(confirmation(`Run ${'x'.repeat(3000)}.`).includes('x'.repeat(3000)), 'a long command is whole');
  assert.equal(english.render('tool-invoked-with', { tool: 'shell', arguments: 'a\n`b`' }), 'Using shell: a `b`');
  const { values } = promptMessage('approval', { action: 'Run `echo `rm x``.' });
  assert.equal(values.action, 'Run echo `rm x`.');
});

/// The table that the narrator's converter is checked with.
test('Markdown is spoken as text', async () => {
  const table = JSON.parse(await readFile(new URL('../testdata/aaep/markdown.json', import.meta.url), 'utf8'));
  assert.ok(table.length > 20);
  for (const { name, pieces, parts } of table) {
    const markdown = new SpokenMarkdown();
    const spoken = pieces.flatMap((piece) => markdown.take(piece));
    assert.deepEqual([...spoken, ...markdown.release()], parts, name);
  }
});

test('the language is the one that is chosen, or the first that the browser wants', () => {
  assert.equal(pickLanguage('ar', ['en']), 'ar');
  assert.equal(pickLanguage('auto', ['fr', 'ar-EG', 'en']), 'ar');
  assert.equal(pickLanguage('auto', ['en-GB']), 'en-US');
  assert.equal(pickLanguage('auto', ['tlh']), 'en-US');
  assert.equal(pickLanguage('tlh', []), 'en-US');
});

test('events as they are recorded are said in words', async () => {
  const english = await catalogue('en-US');
  const run = () => ({ agent: 'Fixer', answer: '', seconds: 1, calls: 2 });
  for (const [name, state, expected] of [
    ['approval.resolved', '', 'operator approved it: go ahead.'],
    ['approval.resolved+elsewhere', '', 'claude approved it: the agent went on with the call, which was approved outside Recount.'],
    ['approval.timed_out', '', 'The action is not carried out, because there was no answer in time.'],
    ['clarification.answered', '', 'operator answered: 1.22'],
    ['clarification.timed_out', '', 'There was no answer in time. The agent continues with: 1.18'],
    ['handoff.rejected', '', 'dana did not take over: not a billing matter'],
    ['tool.refused', 'refused', 'tool was not run: The operator said no: not on this machine.'],
    ['tool.failed', 'failed', 'tool failed: path is outside the allowed folders.'],
    ['tool.timed_out', 'timed_out', 'tool took too long and was stopped.'],
    ['tool.cancelled', 'cancelled', 'tool was stopped.'],
    ['run.cancelled', '', 'The run was cancelled: wrong branch'],
    ['run.throttled', '', 'The run is number 3 in the queue: runs active max'],
    ['turn.failed', '', 'The model request failed. Trying again: no answer within 60 s'],
    ['cost.budget_warning', '', '80 percent of the budget is used.'],
  ]) {
    const event = JSON.parse(await readFile(new URL(`../testdata/events/${name}.json`, import.meta.url), 'utf8'));
    const { key, values } = spoken(event, { kind: 'call', name: 'tool', state }, run);
    assert.equal(english.render(key, values), expected, name);
  }
});

test('every message that the console chooses has all that is put into it', async () => {
  const named = new Map(await keys());
  const run = () => ({ agent: 'A', answer: '', seconds: 1, calls: 2 });
  const call = { kind: 'call', name: 'shell', state: 'completed' };
  const events = [
    ['run.started', {}], ['run.finished', {}], ['run.failed', { code: 'internal', message: 'no' }], ['run.cancelled', { by: 'user', reason: 'enough' }],
    ['run.cancelled', { by: 'user', reason: '' }], ['run.throttled', { place: 2, reason: 'busy' }], ['run.continued', { by: 'tester' }], ['run.continued', {}],
    ['gap.run_disconnected', {}], ['turn.failed', { message: 'no', will_retry: true }], ['turn.failed', { message: 'no' }], ['context.compacted', {}],
    ['workspace.failed', {}], ['cost.budget_warning', { threshold_pct: 80 }], ['cost.budget_exceeded', {}], ['child_run.started', {}],
    ['child_run.started', { summary: 'look' }], ['policy.tool_blocked', { tool_name: 't', reason: 'r' }],
    ['policy.model_rewrote', { from_model: 'a', to_model: 'b', reason: 'r' }], ['error.tool_unavailable', { tool_name: 't', reason: 'r' }],
    ['error.model_capability_missing', { model: 'm', missing_capability: 'c' }], ['error.upstream', { provider: 'p', message: 'm' }],
    ['approval.resolved', { decision: 'approved', by: 'me' }], ['approval.resolved', { decision: 'rejected', by: 'me', comment: 'no' }],
    ['approval.resolved', { decision: 'cancelled' }], ['approval.resolved', { decision: 'cancelled', decided_elsewhere: 'approved', by: 'claude' }],
    ['approval.resolved', { decision: 'cancelled', decided_elsewhere: 'undecided', by: 'claude' }], ['approval.timed_out', { decision: 'approved' }], ['approval.timed_out', { decision: 'rejected' }],
    ['clarification.answered', { by: 'me', response: 'x' }], ['clarification.answered', {}], ['clarification.timed_out', { response: 'x' }],
    ['clarification.timed_out', {}], ['handoff.acknowledged', { by: 'me' }], ['handoff.rejected', { by: 'me', reason: 'r' }], ['handoff.rejected', {}],
    ['handoff.timed_out', {}], ['tool.invoked', { args_summary: 'ls' }], ['tool.invoked', { args_summary: 'rm', irreversible: true }], ['tool.invoked', {}],
    ['tool.completed', { summary: 'done' }, call], ['tool.completed', {}, call], ['tool.failed', { error: 'e' }, { ...call, state: 'failed' }],
    ['tool.failed', {}, { ...call, state: 'failed' }], ['tool.failed', { code: 'interrupted' }, { ...call, state: 'failed' }],
    ['tool.timed_out', {}, { ...call, state: 'timed_out' }], ['tool.cancelled', {}, { ...call, state: 'cancelled' }],
    ['tool.refused', { message: 'r' }, { ...call, state: 'refused' }],
  ];
  for (const [type, data, item = call] of events) {
    const { key, values } = spoken({ type, data }, item, run);
    const names = named.get(key);
    assert.ok(names, `${type}: there is no message ${key}`);
    assert.deepEqual(Object.keys(values).filter((name) => !names.includes(name)), [], `${type}: ${key}`);
    assert.deepEqual(names.filter((name) => !(name in values)), [], `${type}: ${key} lacks`);
  }
  assert.equal(spoken({ type: 'ext.something', data: {} }, undefined, run), null);
  for (const [kind, thing] of [['approval', { summary: 'do', irreversible: true }], ['approval', { kind: 'shell' }], ['clarification', { question: 'q?', choices: ['a'] }],
    ['clarification', { question: 'q?', context: 'c' }], ['handoff', { reason: 'r' }]]) {
    const { key, values, parts } = promptMessage(kind, thing);
    assert.ok(named.has(key), key);
    for (const [part] of Object.values(parts)) assert.ok(part === '' || named.has(part), part);
    assert.deepEqual([...Object.keys(values), ...Object.keys(parts)].filter((name) => !named.get(key).includes(name) && name !== 'context'), [], key);
  }
});
