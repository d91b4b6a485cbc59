// The console as people use it: by mouse and keyboard, by eye and by ear, on a small screen, on a run
// written to deceive them.

import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';

import { launch, openPage } from './browser.mjs';
import { startServer } from './server.mjs';
import { BEGINNING, ENDING, OUTPUT, Producer, createRun } from './story.mjs';

const TEST = { timeout: 120_000 };
const NOBODY = 'run_01M7YHX0000000000000000000';

let browser;
before(async () => {
  browser = await launch();
});
after(async () => {
  await browser?.close();
});

function proposal(call, input = { argv: ['ls'] }) {
  return ['assistant.tool_call_proposed', JSON.stringify({ turn_index: 0, tool_call_id: call, tool_name: 'shell', input })];
}

function request(call, more = {}) {
  const words = { approval_id: `appr-${call}`, tool_call_id: call, kind: 'shell', summary: `do ${call}`, ...more };
  return ['approval.requested', JSON.stringify(words)];
}

const STARTED = [['run.started', '{}'], ['turn.started', '{"turn_index":0}']];
const TURNED = ['turn.completed', '{"turn_index":0,"stop_reason":"tool_use"}'];
const FAILED = (message) => ['run.failed', JSON.stringify({ code: 'internal', message, retriable: false })];

/// A run in which the calls wait for permission.
async function waitingRun(server, title, calls, more) {
  const run = await createRun(server, title);
  const producer = new Producer(server, run);
  await producer.append([...STARTED, ...calls.map((call) => proposal(call)), TURNED, ...calls.map((call) => request(call, more))]);
  return { run, producer };
}

/// The list of events is the view that shows all there is.
const open = (t, server, run, options) => openPage(t, browser, `${server.origin}/${run ? `#${run}/events` : ''}`, options);

const resolve = (server, call, decision) =>
  server.request('POST', `/v1/approvals/appr-${call}/resolve`, JSON.stringify({ decision }));

/// While the page cannot see it: the same data, at another address.
async function whileAway(page, server, work) {
  const { origin } = server;
  page.expectOutage(true);
  await server.stop('SIGTERM');
  await server.start('127.0.0.1:0');
  await work();
  await server.stop('SIGTERM');
  await server.start(new URL(origin).host);
}

/// Waits until an expression of the page holds.
const holds = (page, condition, argument) => page.waitForFunction(condition, argument, { timeout: 15_000 });
const statusIs = (page, text) =>
  holds(page, (text) => document.getElementById('run-status').textContent === text, text);
/// Waits until the prompts have been there for long enough to be answered.
const takesAnswers = (page) => page.locator('.prompt button[aria-disabled]').first().waitFor({ state: 'detached' });
const focusedId = (page) => page.evaluate(() => document.activeElement.id || document.activeElement.tagName);

// As characters of the source, so that the check does not share its list with the page.
const HOSTILE = ['\u202e', '\u202c', '\u2066', '\u2069', '\u200f', '\u061c', '\u{e0041}', '\u200b', '\u00ad', '\u2060', '\ufeff',
  '\u001b', '\u009b', '\u007f', '\u2028', '\u3164'];

test('what steers, reorders or hides is shown wherever text of events is', TEST, async (t) => {
  const server = await startServer(t);
  const hostile = `x${HOSTILE.join('y')}z`;
  const run = await createRun(server, `title ${hostile}`);
  const summary = 'cat \u202e # txt.seton fr- mr\u202c';
  await new Producer(server, run).append([
    ...STARTED, proposal('c', { [hostile]: hostile }), ['ext.webtest.note', JSON.stringify({ text: hostile })], TURNED,
    request('c', { summary, action: hostile, consequence: hostile, policy_reason: hostile, kind: hostile }),
  ]);

  const page = await open(t, server, run);
  const label = 'cat \\u{202e} # txt.seton fr- mr\\u{202c}';
  await page.getByRole('button', { name: `Approve: ${label}`, exact: true }).waitFor();
  await page.getByRole('button', { name: `Reject: ${label}`, exact: true }).waitFor();
  await page.getByRole('heading', { name: `Approval requested: ${label}`, exact: true }).waitFor();
  await page.locator('#events summary', { hasText: 'ext.webtest.note' }).click();
  await page.locator('#events pre').waitFor();
  await holds(page, () => document.querySelector('.prompt pre').textContent.startsWith('shell '));

  const text = await page.evaluate(() => `${document.title}${document.body.textContent}`);
  assert.deepEqual(HOSTILE.filter((c) => text.includes(c)).map((c) => c.codePointAt(0).toString(16)), []);
  const shown = HOSTILE.map((c) => `\\u{${c.codePointAt(0).toString(16)}}`).join('y');
  assert.ok(text.includes(`title x${shown}z`));
  for (const place of ['#account-title bdi', '#runs a bdi', '.prompt h3 bdi', '.prompt dd bdi', '#events .says',
    '#events pre', '.prompt pre']) {
    // Found and asked in one step: the list may be drawn anew between two.
    const isolated = await page.evaluate((where) => getComputedStyle(document.querySelector(where)).unicodeBidi, place);
    assert.equal(isolated, 'isolate', place);
  }
  const input = await page.getByLabel('Preview of the call').textContent();
  assert.deepEqual(JSON.parse(input.slice('shell '.length)), { [hostile]: hostile }, 'the input means the same');
});

test('a prompt says all that helps to decide', TEST, async (t) => {
  const server = await startServer(t);
  const run = await createRun(server, 'clean up');
  const lines = Array.from({ length: 300 }, (_, at) => `folder ${at}`);
  await new Producer(server, run).append([
    ...STARTED, proposal('c', { remove: lines }), TURNED,
    request('c', {
      action: 'Removes folders.', consequence: 'The build starts anew.', policy_reason: 'rule 7 asks', risk_level: 'high',
      irreversible: true, timeout_seconds: 3600,
    }),
  ]);

  const page = await open(t, server, run);
  const prompt = page.getByRole('group', { name: 'Approval requested: do c' });
  await prompt.waitFor();
  await holds(page, () => document.querySelector('.prompt pre').textContent.includes('folder 299'));
  const text = await prompt.textContent();
  for (const words of ['This cannot be undone.', 'Riskhigh', 'Kindshell', 'Callc', 'On timeoutreject, at', 'recount approve appr-c']) {
    assert.ok(text.includes(words), `${words} in ${text.slice(0, 500)}`);
  }
  // What happens, where, the consequence and whether it can be undone, the deadline; the reason of our policy is folded.
  const order = ['Removes folders.', 'folder 299', 'Where', 'The build starts anew.', 'This cannot be undone.', 'Risk', 'On timeout', 'Details', 'Policy reasonrule 7 asks'].map((words) => text.indexOf(words));
  assert.ok(order.every((at) => at >= 0), `${order} in ${text.slice(0, 500)}`);
  assert.deepEqual(order, [...order].sort((one, other) => one - other));
  assert.ok(await prompt.getByText('rule 7 asks').isHidden());
  const content = prompt.getByLabel('Preview of the call');
  const { height } = await content.boundingBox();
  assert.ok(height <= 200, `${height}`);
  assert.equal(await content.getAttribute('tabindex'), '0', 'the keyboard can scroll it');
});

test('a prompt shows all of what the call does, or how much is missing', TEST, async (t) => {
  const server = await startServer(t);
  const run = await createRun(server, 'edit');
  const preview = `--- a/x\n+++ b/x\n${Array.from({ length: 200 }, (_, at) => `+line ${at}`).join('\n')}`;
  await new Producer(server, run).append([
    ...STARTED, proposal('c'), TURNED,
    request('c', { preview, preview_kind: 'diff', preview_size_bytes: 70_000, preview_artifact_id: 'art_1' }),
  ]);
  const page = await open(t, server, run);
  page.expectStatus(404);
  const prompt = page.getByRole('group', { name: 'Approval requested: do c' });
  const shown = prompt.getByLabel('Preview of the call');
  assert.equal(await shown.textContent(), preview);
  assert.equal(await shown.getAttribute('tabindex'), '0', 'the keyboard can scroll it');
  assert.ok((await prompt.textContent()).includes('The complete preview has 70,000 bytes and is stored as artifact art_1.'));
});

test('a yes holds for as long as the page is told, and is given by keyboard', TEST, async (t) => {
  const work = await mkdtemp(join(tmpdir(), 'recount-work-'));
  t.after(() => rm(work, { recursive: true, force: true }));
  const server = await startServer(t, ['--allow-workspace', work]);
  // In the folder itself a command that replaces files needs an approval, with a sandbox and without.
  const order = JSON.stringify({ kind: 'shell', command: 'mv a b', workspace: work, workspace_mode: 'in_place' });
  const { data: { id: run } } = JSON.parse(await server.request('POST', '/v1/runs', order));
  const page = await open(t, server, run);
  const reach = page.getByLabel('If approved, allow this call');
  await reach.waitFor();
  const choices = await reach.locator('option').allTextContents();
  assert.deepEqual(choices, ['once', 'always in this run', 'always for runs in this folder'], 'the run is in no session');
  await reach.focus();
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Tab');
  await takesAnswers(page);
  await page.keyboard.press('Enter');
  await page.locator('.prompt').waitFor({ state: 'detached' });
  const { data: [allowed] } = JSON.parse(await server.request('GET', '/v1/allowances'));
  assert.deepEqual([allowed.scope, allowed.preview, allowed.run_id], ['workspace', 'mv a b', run]);
});

test('what is asked about every time offers no more than this once', TEST, async (t) => {
  const server = await startServer(t);
  const { run } = await waitingRun(server, 'grave', ['c'], { risk_level: 'high' });
  const page = await open(t, server, run);
  await page.locator('.prompt').waitFor();
  assert.equal(await page.locator('.prompt select').count(), 0);
});

test('a prompt finds its call among events that are not shown', TEST, async (t) => {
  const server = await startServer(t);
  const run = await createRun(server, 'long ago');
  const producer = new Producer(server, run);
  await producer.append([...STARTED, proposal('c', { argv: ['needle'] }), TURNED]);
  await producer.append(Array.from({ length: 900 }, () => ['ext.webtest.note', '{}']));
  await producer.append([request('c')]);
  const page = await open(t, server, run);
  await holds(page, () => document.querySelector('.prompt pre')?.textContent.includes('needle'));
});

test('the skip link leads to the account and leaves it there', TEST, async (t) => {
  const server = await startServer(t);
  const { run } = await waitingRun(server, 'skipped to', ['c']);
  const page = await open(t, server, run);
  await page.locator('#events li').nth(3).waitFor();
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await holds(page, () => document.activeElement.id === 'account');
  assert.equal(new URL(page.url()).hash, `#${run}/events`);
  // The address may name the place, too, as links of old did.
  await page.evaluate(() => (location.hash = '#account'));
  await holds(page, () => location.hash === '#account' && document.querySelectorAll('#events li').length > 3);
  assert.equal(await page.locator('#account-title').textContent(), 'skipped to');
  assert.equal(await page.locator('.prompt').count(), 1);
});

test('after a restart the page shows what is, not what was', TEST, async (t) => {
  const server = await startServer(t);
  const { run, producer } = await waitingRun(server, 'answered meanwhile', ['c']);
  for (let at = 0; at < 60; at += 1) await createRun(server, `newer ${at}`);
  const page = await open(t, server);
  await page.getByRole('button', { name: 'Show older runs' }).click();
  await page.locator('#runs').getByRole('link', { name: 'answered meanwhile' }).click();
  await page.locator('.prompt').waitFor();
  const [other] = await page.evaluate(() => [document.querySelector('#runs li:nth-last-child(2) a').hash.slice(1)]);
  await whileAway(page, server, async () => {
    await resolve(server, 'c', 'approve');
    await producer.append([['tool.invoked', '{"tool_call_id":"c","tool_name":"shell"}']]);
    await new Producer(server, other).append([['run.started', '{}'], FAILED('meanwhile')]);
  });
  await page.locator('.prompt').waitFor({ state: 'detached' });
  await page.locator(`#item-${other}`, { hasText: 'failed' }).waitFor();
  await page.locator(`#item-${run} .attention`).waitFor({ state: 'detached' });
  await holds(page, () => document.getElementById('health').textContent === 'Connected.');
  assert.equal(await page.locator('#trouble').isVisible(), false, 'what was wrong is over');
});

test('the account of a run alone keeps its prompts right', TEST, async (t) => {
  const server = await startServer(t);
  const { run } = await waitingRun(server, 'without the feed', ['c']);
  const page = await open(t, server);
  page.expectOutage(true);
  await page.route('**/v1/events/stream*', (route) => route.abort('connectionrefused'));
  await page.goto('about:blank');
  await page.goto(`${server.origin}/#${run}/events`);
  await page.locator('.prompt').waitFor();
  await page.locator('#events li').nth(5).waitFor();
  await resolve(server, 'c', 'reject');
  await page.locator('.prompt').waitFor({ state: 'detached' });
});

test('a run that does not exist is said to be none, and nothing of the last one stays', TEST, async (t) => {
  const server = await startServer(t);
  const { run } = await waitingRun(server, 'here', ['c']);
  const page = await open(t, server, run);
  page.expectStatus(404);
  const state = () => page.evaluate(() => [
    document.getElementById('account-title').textContent, document.getElementById('run-status').textContent,
    document.querySelectorAll('.prompt, #events li').length,
  ]);
  const title = (text) => holds(page, (text) => document.getElementById('account-title').textContent === text, text);
  for (const [hash, heading, status] of [
    [`#${NOBODY}`, 'Run not found', `Run ${NOBODY} not found.`],
    ['#', 'Overview', ''],
    ['#run_x', 'Run not found', 'Run run_x not found.'],
  ]) {
    await page.evaluate((hash) => (location.hash = hash), `#${run}`);
    await page.locator('.prompt').waitFor();
    await title('here');
    await page.evaluate((hash) => (location.hash = hash), hash);
    await title(heading);
    assert.deepEqual(await state(), [heading, status, 0]);
    assert.equal(await page.locator('#runs a[aria-current]').count(), 0);
  }
  assert.equal(await page.locator('#health').textContent(), 'Connected.');
});

test('the chosen run is marked with a value that readers know', TEST, async (t) => {
  const server = await startServer(t);
  await createRun(server, 'one');
  await createRun(server, 'two');
  const page = await open(t, server);
  for (const name of ['one', 'two', 'one']) {
    await page.locator('#runs').getByRole('link', { name }).click();
    await holds(page, (name) => document.getElementById('account-title').textContent === name, name);
    const marks = await page.locator('#runs a').evaluateAll((links) => links.map((link) => link.getAttribute('aria-current')));
    assert.deepEqual(marks, name === 'one' ? [null, 'true'] : ['true', null]);
  }
});

test('who answers by keyboard is not thrown out', TEST, async (t) => {
  const server = await startServer(t);
  const { run } = await waitingRun(server, 'two prompts', ['a', 'b']);
  const page = await open(t, server, run);
  const second = page.getByRole('button', { name: 'Approve: do b' });
  await second.focus();
  await page.locator('#urgent p').nth(1).waitFor({ state: 'attached' });
  assert.deepEqual(await page.locator('#urgent p').allTextContents(),
    ['a', 'b'].map((call) => `do ${call}. The effect is not known. Allow this?`));
  await second.evaluate((button) => (window.held = button));
  await resolve(server, 'a', 'reject');
  await page.getByRole('button', { name: 'Approve: do a' }).waitFor({ state: 'detached' });
  assert.ok(await page.evaluate(() => document.activeElement === window.held), 'the other prompt is still the same');

  await takesAnswers(page);
  await page.keyboard.press('Enter');
  await page.locator('.prompt').waitFor({ state: 'detached' });
  assert.equal(await focusedId(page), 'run-status');
  assert.equal(JSON.parse(await server.request('GET', '/v1/approvals/appr-b')).data.status, 'approved');
});

test('a question is answered in words, by a choice, and by the keyboard alone', TEST, async (t) => {
  const server = await startServer(t);
  const run = await createRun(server, 'asks');
  const producer = new Producer(server, run);
  const question = (id, more) => ['clarification.requested', JSON.stringify({ clarification_id: id, question: `which ${id}?`, ...more })];
  const answer = async (id) => JSON.parse(await server.request('GET', `/v1/clarifications/${id}`)).data.response;
  await producer.append([
    ['run.started', '{}'], question('q1', { context: 'two \u202efit', timeout_seconds: 3600, default_response: 'a' }),
    question('q2', { choices: ['a', { value: 7, label: 'seven' }], accepted_response_kinds: ['multiple_choice'] }),
    question('q3', { accepted_response_kinds: ['numeric'] }), question('q4', { accepted_response_kinds: ['yes_no'] }),
  ]);
  const page = await open(t, server, run);
  const [first, second, third, fourth] = ['q1', 'q2', 'q3', 'q4'].map((id) => page.getByRole('group', { name: `Question: which ${id}?` }));
  await first.waitFor();
  await page.locator('.attention').waitFor();
  await page.locator('#urgent p').nth(3).waitFor({ state: 'attached' });
  assert.deepEqual(await page.locator('#urgent p').allTextContents(),
    ['which q1?', 'which q2? Choose one of: a, seven.', 'which q3?', 'which q4?']);
  const text = await first.textContent();
  for (const words of ['Contexttwo \\u{202e}fit', 'On timeoutanswer "a", at']) assert.ok(text.includes(words), `${words} in ${text}`);
  assert.equal(await second.getByRole('textbox').count(), 0, 'only the choices are allowed');

  // More time shows where the prompt is, and the rest of it stays as it was.
  const until = first.getByText('answer "a", at');
  const before = await until.textContent();
  await server.request('POST', '/v1/clarifications/q1/extend', '{"seconds":7200}');
  await page.waitForFunction(([node, text]) => node.textContent !== text, [await until.elementHandle(), before]);
  assert.equal(await first.count(), 1);

  // Nothing is sent while there is nothing to send, and what was typed stays while others are answered.
  await first.getByRole('button', { name: 'Send answer' }).click();
  await holds(page, () => document.activeElement.tagName === 'TEXTAREA');
  await page.keyboard.type('the old one');
  await second.getByRole('button', { name: 'Answer: seven' }).click();
  await second.waitFor({ state: 'detached' });
  assert.equal(await answer('q2'), 7);
  await first.getByLabel('Your answer').focus();
  assert.equal(await first.getByLabel('Your answer').inputValue(), 'the old one');
  await takesAnswers(page);
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await first.waitFor({ state: 'detached' });
  assert.equal(await focusedId(page), 'run-status');
  assert.equal(await answer('q1'), 'the old one');

  const number = third.getByLabel('Your answer (a number)');
  await number.fill('many');
  await third.getByRole('button', { name: 'Send answer' }).click();
  await holds(page, () => document.activeElement.tagName === 'TEXTAREA');
  await number.fill('12');
  await third.getByRole('button', { name: 'Send answer' }).click();
  await third.waitFor({ state: 'detached' });
  assert.equal(await answer('q3'), 12);
  await fourth.getByRole('button', { name: 'Answer: No' }).click();
  await page.getByRole('region', { name: 'Waiting for you' }).waitFor({ state: 'hidden' });
  assert.equal(await answer('q4'), false);
  await page.locator('.attention').waitFor({ state: 'detached' });
});

test('a handoff is shown with what was packed, and taken or turned down', TEST, async (t) => {
  const server = await startServer(t);
  const run = await createRun(server, 'hands over');
  const producer = new Producer(server, run);
  const handoff = (id, more) => ['handoff.requested', JSON.stringify({ handoff_id: id, reason: `too hard ${id}`, target_kind: 'human', ...more })];
  const packed = { seen: Array.from({ length: 300 }, (_, at) => `file ${at}`) };
  await producer.append([
    ['run.started', '{}'],
    handoff('h1', { summary_terse: 'help', urgency_for_handoff: 'high', packaged_context: packed }), handoff('h2'),
  ]);
  const page = await open(t, server, run, { viewport: { width: 360, height: 640 } });
  const first = page.getByRole('group', { name: 'Handoff: help' });
  await first.waitFor();
  await page.locator('#urgent p').nth(1).waitFor({ state: 'attached' });
  assert.deepEqual(await page.locator('#urgent p').allTextContents(),
    ['h1', 'h2'].map((id) => `The agent cannot continue and asks for a person or another agent to take over: too hard ${id}`));
  const text = await first.textContent();
  for (const words of ['Reasontoo hard h1', 'Forhuman', 'Urgencyhigh', '"file 299"']) assert.ok(text.includes(words), words);
  assert.equal(await first.locator('pre').getAttribute('tabindex'), '0', 'the keyboard can scroll it');
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 360);

  await first.getByLabel('Comment (optional)').fill('mine');
  await first.getByRole('button', { name: 'Take over: help' }).click();
  await first.waitFor({ state: 'detached' });
  const second = page.getByRole('group', { name: 'Handoff: too hard h2' });
  await second.getByRole('button', { name: 'Reject: too hard h2' }).click();
  await second.waitFor({ state: 'detached' });
  const outcome = async (id) => {
    const { status, comment } = JSON.parse(await server.request('GET', `/v1/handoffs/${id}`)).data;
    return [status, comment];
  };
  assert.deepEqual(await outcome('h1'), ['acknowledged', 'mine']);
  assert.deepEqual(await outcome('h2'), ['rejected', undefined]);
});

test('of a long account the newest part is shown, and more of it when asked', TEST, async (t) => {
  const server = await startServer(t);
  const run = await createRun(server, 'long');
  const producer = new Producer(server, run);
  const notes = (count) => Array.from({ length: count }, () => ['ext.webtest.note', '{"text":"n"}']);
  await producer.append([['run.started', '{}']]);
  for (let batch = 0; batch < 20; batch += 1) await producer.append(notes(1000));

  const page = await open(t, server, run);
  const sequences = () => page.locator('#events .sequence').evaluateAll((all) => all.map((one) => Number(one.textContent)));
  const from = (first, count) => Array.from({ length: count }, (_, at) => first + at);
  const shows = (first, last) => holds(page, ([first, last]) => {
    const all = document.querySelectorAll('#events .sequence');
    return all[0]?.textContent === String(first) && [...all].at(-1).textContent === String(last);
  }, [first, last]);
  await shows(19502, 20001);
  assert.deepEqual(await sequences(), from(19502, 500));

  await page.getByRole('button', { name: 'Show earlier events' }).focus();
  await page.keyboard.press('Enter');
  await shows(19002, 20001);
  assert.deepEqual(await sequences(), from(19002, 1000));
  assert.equal(await focusedId(page), 'earlier');
  assert.equal(await page.locator('#news').textContent(), '500 earlier events loaded.');

  // What comes takes the place of what was first; nothing between is lost.
  await producer.append(notes(600));
  await shows(19602, 20601);
  assert.deepEqual(await sequences(), from(19602, 1000));
});

test('earlier events lead back to the first one', TEST, async (t) => {
  const server = await startServer(t);
  const run = await createRun(server, 'back');
  const producer = new Producer(server, run);
  await producer.append([['run.started', '{}'], ...Array.from({ length: 700 }, () => ['ext.webtest.note', '{}'])]);
  const page = await open(t, server, run);
  await page.getByRole('button', { name: 'Show earlier events' }).focus();
  await page.keyboard.press('Enter');
  await page.locator('#event-0').waitFor();
  assert.equal(await page.locator('#events li').count(), 702);
  assert.equal(await page.locator('#earlier').isVisible(), false);
  assert.equal(await focusedId(page), 'events', 'the button went away, its place is taken by the list');
});

test('on a small screen the account stands near the top and nothing is cut off', TEST, async (t) => {
  const server = await startServer(t);
  const long = `${'without-any-space-'.repeat(40)}end`;
  for (let at = 0; at < 60; at += 1) await createRun(server, `run ${at}`);
  const { run } = await waitingRun(server, long, ['c'], { summary: long, action: long });
  const page = await open(t, server, run, { viewport: { width: 360, height: 640 } });
  await page.locator('.prompt').waitFor();
  const narrow = () => page.evaluate(() => document.documentElement.scrollWidth);
  // The header takes two lines at most; a button shows the list of runs.
  assert.ok((await page.locator('#account-title').boundingBox()).y < 120);
  assert.equal(await narrow(), 360);
  await page.getByRole('button', { name: 'Runs', exact: true }).click();
  await page.locator('#runs li').nth(49).waitFor();
  assert.equal(await narrow(), 360);
  const failed = await createRun(server, 'failed');
  await new Producer(server, failed).append([['run.started', '{}'], FAILED(long)]);
  await page.getByRole('link', { name: 'failed' }).click();
  await statusIs(page, 'Status: failed (code internal).');
  assert.equal(await page.locator('#run-message').textContent(), long);
  assert.equal(await narrow(), 360);
});

test('a long refusal wraps, and goes when it is no longer true', TEST, async (t) => {
  const server = await startServer(t);
  const { run } = await waitingRun(server, 'refused', ['c']);
  const page = await open(t, server, run, { viewport: { width: 360, height: 640 } });
  const detail = `${'refused-for-a-long-reason-'.repeat(30)}\u202eend`;
  const refusal = { status: 409, contentType: 'application/problem+json', body: JSON.stringify({ detail, code: 'x' }) };
  page.expectStatus(409);
  await page.route('**/resolve', (route) => route.fulfill(refusal));
  await page.getByRole('button', { name: 'Approve: do c' }).click();
  const alert = page.locator('#trouble');
  await alert.waitFor();
  assert.equal(await alert.textContent(), detail.replace('\u202e', '\\u{202e}'));
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 360);
  await page.unroute('**/resolve');
  await page.getByRole('button', { name: 'Approve: do c' }).click();
  await alert.waitFor({ state: 'hidden' });
  await page.locator('.prompt').waitFor({ state: 'detached' });
});

test('who listens hears changes of state and prompts, not every event', TEST, async (t) => {
  const server = await startServer(t);
  const run = await createRun(server, 'heard');
  const producer = new Producer(server, run);
  await producer.append(BEGINNING);
  const page = await open(t, server, run);
  await statusIs(page, 'Status: running.');
  for (const region of ['news', 'urgent']) {
    const { height } = await page.evaluate((id) => document.getElementById(id).getBoundingClientRect(), region);
    assert.ok(height <= 1, 'what is only for the ear takes no room');
  }
  await page.evaluate(() => {
    window.said = [];
    const note = (changes) => changes.forEach(({ addedNodes }) => window.said.push(...[...addedNodes].map(({ textContent }) => textContent)));
    for (const region of document.querySelectorAll('[role=status], [role=alert], [aria-live]')) {
      new MutationObserver(note).observe(region, { childList: true, characterData: true, subtree: true });
    }
  });
  for (const event of OUTPUT) await producer.append([event]);
  await producer.append([...ENDING.slice(0, 2), FAILED('a long story '.repeat(30))]);
  await statusIs(page, 'Status: failed (code internal).');
  await holds(page, () => window.said.length > 0);
  assert.deepEqual(await page.evaluate(() => window.said), [`The run failed: ${'a long story '.repeat(30).trim()}`]);
});
