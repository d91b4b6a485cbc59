// The console as a screen reader speaks it: what is announced, how often, how urgently, in which language, and what is
// read on the way through a run.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { launch, openPage } from './browser.mjs';
import { Listener } from './listener.mjs';
import { startServer } from './server.mjs';
import { Producer, createRun } from './story.mjs';

const TEST = { timeout: 180_000 };

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser?.close());

const data = (value) => JSON.stringify(value);
const STARTED = [['run.started', '{}'], ['turn.started', '{"turn_index":0}']];
const END = [['turn.completed', '{"turn_index":0,"stop_reason":"end_turn"}'], ['run.finished', '{"final_status":"completed"}']];
const delta = (text, turn = 0) => ['assistant.text_delta', data({ turn_index: turn, block_index: 0, delta: text })];
const complete = (text, turn = 0) => ['assistant.text_complete', data({ turn_index: turn, block_index: 0, text })];
const asking = (call, more = {}) => [
  ['assistant.tool_call_proposed', data({ turn_index: 0, tool_call_id: call, tool_name: 'shell', input: { argv: ['rm', '-r', 'build'] } })],
  ['turn.completed', '{"turn_index":0,"stop_reason":"tool_use"}'],
  ['approval.requested', data({ approval_id: `appr-${call}`, tool_call_id: call, kind: 'shell', summary: 'rm -r build', ...more })],
];

/// A started run, a page on it, and a listener who has heard nothing yet.
async function listening(t, title, settings = {}) {
  const server = await startServer(t);
  const run = await createRun(server, title);
  const producer = new Producer(server, run);
  await producer.append(STARTED);
  const page = await openPage(t, browser, `${server.origin}/`);
  await page.evaluate((kept) => localStorage.setItem('recount.settings', JSON.stringify(kept)), settings);
  await page.goto('about:blank');
  await page.goto(`${server.origin}/#${run}`);
  await page.getByRole('heading', { name: /^Turn 1/ }).waitFor();
  await page.locator('#health', { hasText: 'Connected.' }).waitFor();
  return { server, run, producer, page, listener: await Listener.start(page) };
}

const saysEnd = (phrase) => /finished\.?$|^polite: .*انتهى|أنهى/.test(phrase);

test('text that streams is announced a sentence at a time, once, and the end once', TEST, async (t) => {
  const { producer, listener } = await listening(t, 'streams');
  const sentences = ['The first thing is done.', 'The second one, e.g. the test, needs more time.', 'Version 2.5 is out!', 'Is that all?'];
  const text = `${sentences.join(' ')}\nA last line`;
  for (const piece of text.match(/.{1,6}/gs)) await producer.append([delta(piece)]);
  await producer.append([complete(text), ['assistant.final_answer', data({ turn_index: 0, summary: 'All is done.' })], ...END]);
  const heard = await listener.announcedWhen((phrases) => phrases.some((phrase) => phrase.endsWith('has finished.')));
  assert.ok(heard.every((phrase) => phrase.startsWith('polite: ')), data(heard));
  const words = heard.map((phrase) => phrase.replace(/^polite: /, ''));
  assert.equal(words.join(' ').replace(/\s+/g, ' '), `${sentences.join(' ')} A last line The agent has finished.`);
  assert.ok(words.length <= sentences.length + 2, data(words));
  assert.ok(words.slice(0, -2).every((phrase) => sentences.some((sentence) => phrase.includes(sentence.slice(-12)))), `only whole sentences: ${data(words)}`);
  assert.equal(words.filter(saysEnd).length, 1);
});

test('prompts interrupt, their answers do not, and errors do', TEST, async (t) => {
  const { server, producer, listener } = await listening(t, 'asks');
  await producer.append(asking('a', { action: 'Remove the folder build.', consequence: 'It is made again by the next build', irreversible: true }));
  const asked = await listener.announcedWhen((phrases) => phrases.length > 0);
  assert.deepEqual(asked, ['assertive: Remove the folder build. It is made again by the next build. This cannot be undone. Allow this?']);
  await server.request('POST', '/v1/approvals/appr-a/resolve', data({ decision: 'reject', comment: 'keep it' }));
  const answered = await listener.announcedWhen((phrases) => phrases.length > 1);
  assert.match(answered[1], /^polite: .+ rejected it: keep it\. The action is not carried out\.$/);
  await producer.append([['clarification.requested', data({ clarification_id: 'q', question: 'Which folder?', choices: ['src', 'web'] })]]);
  await listener.announcedWhen((phrases) => phrases.includes('assertive: Which folder? Choose one of: src, web.'));
  await producer.append([
    ['tool.refused', data({ tool_call_id: 'a', tool_name: 'shell', code: 'denied', message: 'keep it' })],
    ['run.failed', data({ code: 'internal', message: 'the disk is full', retriable: false })],
  ]);
  const all = await listener.announcedWhen((phrases) => phrases.some((phrase) => phrase.includes('disk')));
  assert.deepEqual(all.filter((phrase) => phrase.includes('disk')), ['assertive: The run failed: the disk is full']);
});

test('who wants everything hears each call, and who wants quiet hears the end alone, with the answer', TEST, async (t) => {
  const call = [
    ['tool.invoked', data({ tool_call_id: 'c', tool_name: 'shell', kind: 'shell', args_summary: 'make test' })],
    ['tool.completed', data({ tool_call_id: 'c', tool_name: 'shell', summary: '12 tests passed' })],
  ];
  const told = [delta('It works. '), delta('All of it.'), complete('It works. All of it.'), ...END];
  const ends = (phrases) => phrases.some((phrase) => /has finished|Finished|All of it/.test(phrase) && !phrase.includes('passed'));
  const everything = await listening(t, 'everything', { speech: 'everything' });
  await everything.producer.append([...call, ...told]);
  assert.deepEqual(await everything.listener.announcedWhen((phrases) => phrases.some((phrase) => phrase.endsWith('The agent has finished.'))), [
    'polite: Using shell: make test', 'polite: shell finished: 12 tests passed.', 'polite: It works.', 'polite: All of it.',
    'polite: The agent has finished.']);
  const quiet = await listening(t, 'quiet', { speech: 'quiet' });
  await quiet.producer.append([...call, ...told]);
  assert.deepEqual(await quiet.listener.announcedWhen(ends), ['polite: Finished: It works. All of it.']);
  const terse = await listening(t, 'terse', { speech: 'everything', length: 'terse' });
  await terse.producer.append([...call, ...END]);
  assert.deepEqual(await terse.listener.announcedWhen((phrases) => phrases.includes('polite: Finished.')),
    ['polite: shell.', 'polite: Done.', 'polite: Finished.']);
});

test('Markdown is announced as text, and an answer at the end whole', TEST, async (t) => {
  const text = '# Result\n\nAll **3** tests of `sum.py` pass.\n\n- one\n- [x] two\n\n| file | lines |\n| --- | --- |\n| a.txt | 12 |\n\n```sh\nls\n```\nDone.';
  const words = 'Heading: Result. All 3 tests of sum.py pass. one. Done: two. file: a.txt, lines: 12. Code, sh, 1 line. Done.';
  const streamed = await listening(t, 'streamed');
  for (const piece of text.match(/.{1,9}/gs)) await streamed.producer.append([delta(piece)]);
  await streamed.producer.append([complete(text), ...END]);
  const announced = await streamed.listener.announcedWhen((phrases) => phrases.some((phrase) => phrase.endsWith('has finished.')));
  const plain = (phrase) => phrase.replace(/^polite: /, '').replaceAll('.', '');
  assert.equal(announced.slice(0, -1).map(plain).join(' '), words.replaceAll('.', ''), data(announced));
  const quiet = await listening(t, 'whole', { speech: 'quiet' });
  await quiet.producer.append([complete(text), ...END]);
  assert.deepEqual(await quiet.listener.announcedWhen((phrases) => phrases.some((phrase) => phrase.endsWith('has finished.'))),
    [`polite: ${words}`, 'polite: The agent has finished.']);
});

test('sounds are off at first, and then there is one for each of three things', TEST, async (t) => {
  for (const [sounds, expected] of [['off', []], ['on', [2, 1, 3]]]) {
    const { server, producer, page, listener } = await listening(t, `sounds ${sounds}`, { sounds });
    await page.evaluate(() => {
      window.tones = [];
      const start = OscillatorNode.prototype.start;
      OscillatorNode.prototype.start = function begin(at) {
        window.tones.push([at, this.frequency.value]);
        return start.call(this, at);
      };
    });
    const tones = () => page.evaluate(() => window.tones.length);
    const played = async (count) => {
      if (sounds === 'on') await page.waitForFunction((most) => window.tones.length >= most, count);
    };
    await producer.append(asking('a'));
    await listener.announcedWhen((phrases) => phrases.some((phrase) => phrase.startsWith('assertive: ')));
    await played(2);
    await server.request('POST', '/v1/approvals/appr-a/resolve', data({ decision: 'reject' }));
    await producer.append([['tool.refused', data({ tool_call_id: 'a', tool_name: 'shell', code: 'denied', message: 'no' })],
      ['turn.started', '{"turn_index":1}'], ['turn.completed', '{"turn_index":1,"stop_reason":"end_turn"}'], END[1]]);
    await listener.announcedWhen((phrases) => phrases.some((phrase) => phrase.includes('finished')));
    await played(3);
    const other = await createRun(server, 'fails');
    const second = new Producer(server, other);
    await second.append([STARTED[0]]);
    await page.getByRole('link', { name: /fails/ }).first().waitFor();
    await second.append([['run.failed', data({ code: 'internal', message: 'no', retriable: false })]]);
    await page.getByRole('link', { name: /fails.*failed/ }).first().waitFor();
    await played(6);
    assert.equal(await tones(), expected.reduce((sum, count) => sum + count, 0), sounds);
  }
});

test('announcements are in the language that is chosen, and marked as being in it', TEST, async (t) => {
  const { producer, page, listener } = await listening(t, 'arabic', { language: 'ar' });
  await producer.append(asking('a'));
  await listener.announcedWhen((phrases) => phrases.some((phrase) => phrase.startsWith('assertive: ') && phrase.includes('rm -r build')));
  const [language, direction] = await page.evaluate(() => {
    const { lang, dir } = document.querySelector('#urgent p');
    return [lang, dir];
  });
  assert.deepEqual([language, direction], ['ar', 'rtl']);
  assert.match((await listener.announced())[0], /[\u0600-\u06ff]{3}/);
});

test('a run and its prompt are read in order, under headings, with names', TEST, async (t) => {
  const { producer, page, listener } = await listening(t, 'read aloud');
  await producer.append([complete('I tidy up.'), ...asking('a', { risk_level: 'high' })]);
  await page.getByRole('button', { name: 'Approve: rm -r build' }).waitFor();
  const read = await listener.readTo(/^end of document$/);
  const position = (phrase) => {
    const at = read.findIndex((one) => (typeof phrase === 'string' ? one === phrase : phrase.test(one)));
    assert.ok(at >= 0, `${phrase} is not read in ${JSON.stringify(read)}`);
    return at;
  };
  const order = [/^link, Skip to main content/, /^heading, Recount, level 1/, 'main', /^navigation, Runs/, /^search, Runs/, /^region, read aloud/, /^heading, read aloud, level 2/,
    /^group, Actions/, /^navigation, Views of this run/, /^region, Waiting for you/, /^group, Approval requested: rm -r build/, /^button, Approve: rm -r build/,
    /^feed, Transcript/, /^heading, Turn 1.*, level 3/, /^heading, Agent, level 4/, 'I tidy up.', /^heading, Approval, level 4/].map(position);
  assert.deepEqual(order, [...order].sort((a, b) => a - b), JSON.stringify(read));
});

test('a browser that can announce without a live region does, and announces nothing twice', TEST, async (t) => {
  const server = await startServer(t);
  const run = await createRun(server, 'announced');
  const page = await openPage(t, browser, `${server.origin}/#${run}`);
  await page.evaluate(() => {
    window.notified = [];
    Element.prototype.ariaNotify = function ariaNotify(text, { priority }) {
      window.notified.push([text, priority]);
    };
  });
  await new Producer(server, run).append([['run.started', '{}'],
    ['clarification.requested', '{"clarification_id":"q","question":"Which one?"}']]);
  await page.waitForFunction(() => window.notified.some(([text, priority]) => text === 'Which one?' && priority === 'high'));
  assert.equal(await page.locator('#urgent').getAttribute('aria-live'), 'off');
});
