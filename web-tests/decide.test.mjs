// The page of a decision link in a real browser: accessible, without scripts, and its form answers the prompt.

import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { after, before, test } from 'node:test';

import { violations } from './axe.mjs';
import { launch, openPage } from './browser.mjs';
import { atEnd } from './ending.mjs';
import { startServer } from './server.mjs';
import { Producer, createRun } from './story.mjs';

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser?.close());

/// A receiver of webhooks: `next` waits for the message after those it has given out.
async function startReceiver(t) {
  const messages = [];
  const waiting = [];
  const give = () => {
    while (messages.length > 0 && waiting.length > 0) waiting.shift()(messages.shift());
  };
  const receiver = createServer(async (request, response) => {
    messages.push(await text(request));
    response.end();
    give();
  });
  await new Promise((listening) => receiver.listen(0, '127.0.0.1', listening));
  atEnd(t, () => new Promise((closed) => receiver.close(closed) && receiver.closeAllConnections()));
  const next = () => new Promise((resolve) => {
    waiting.push(resolve);
    give();
  });
  return { port: receiver.address().port, next };
}

test('an approval and a question are answered on pages without violations', { timeout: 180_000 }, async (t) => {
  const receiver = await startReceiver(t);
  const folder = await mkdtemp(join(tmpdir(), 'recount-decide-'));
  atEnd(t, () => rm(folder, { recursive: true, force: true }));
  const config = join(folder, 'recount.toml');
  await writeFile(config, `public_url = "https://recount.example"\n[webhooks.chat]\nurl = "http://127.0.0.1:${receiver.port}/in"\n`
    + 'format = "telegram"\napprover = "ada"\nevents = ["approval.requested", "clarification.requested"]\n');
  const server = await startServer(t, ['--config', config]);
  const data = (value) => JSON.stringify(value);
  const link = async () => {
    const { text: words } = JSON.parse(await receiver.next());
    return words.split('\n').at(-1).replace('https://recount.example', server.origin);
  };

  const run = await createRun(server, 'clean up');
  const producer = new Producer(server, run);
  await producer.append([
    ['run.started', '{}'], ['turn.started', '{"turn_index":0}'],
    ['assistant.tool_call_proposed', data({ turn_index: 0, tool_call_id: 'c', tool_name: 'shell_exec', input: { command: 'rm -r old' } })],
    ['turn.completed', '{"turn_index":0,"stop_reason":"tool_use"}'],
    ['approval.requested', data({ approval_id: 'a', tool_call_id: 'c', kind: 'shell_exec', summary: 'rm -r old', preview: `rm -r old\n${'x'.repeat(400)}`,
      preview_kind: 'command', consequence: 'Deletes files.', timeout_seconds: 600 })],
  ]);
  const page = await openPage(t, browser, await link());
  assert.equal(await page.title(), 'Approval requested - Recount');
  assert.deepEqual(await violations(page), []);
  const isWide = () => document.documentElement.scrollWidth > document.documentElement.clientWidth;
  await page.setViewportSize({ width: 320, height: 640 });
  assert.equal(await page.evaluate(isWide), false, 'nothing is cut on a phone');
  assert.notEqual(await page.evaluate(() => getComputedStyle(document.querySelector('button')).minHeight), '0px', 'the style applies');
  await page.getByLabel('Comment (optional)').fill('fine');
  await page.getByRole('button', { name: 'Approve' }).click();
  await page.getByRole('heading', { name: 'Your answer is recorded' }).waitFor();
  assert.deepEqual(await violations(page), []);
  const { data: approval } = JSON.parse(await server.request('GET', '/v1/approvals/a'));
  assert.equal(`${approval.status} ${approval.decided_by} ${approval.comment}`, 'approved ada (link of webhook chat) fine');

  await producer.append([['clarification.requested', data({ clarification_id: 'q', question: 'which one?', choices: ['a', 'b'], timeout_seconds: 600 })]]);
  await page.goto(await link());
  assert.deepEqual(await violations(page), []);
  await page.getByRole('radio', { name: 'b' }).check();
  await page.getByRole('button', { name: 'Send answer' }).click();
  await page.getByRole('heading', { name: 'Your answer is recorded' }).waitFor();
  const { data: question } = JSON.parse(await server.request('GET', '/v1/clarifications/q'));
  assert.equal(`${question.status} ${question.response}`, 'answered b');
});
