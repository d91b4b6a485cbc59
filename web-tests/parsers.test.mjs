// Three readers of event streams that share no code hear the same from ours, however the bytes are cut up on the
// way: a browser, the package eventsource, and the package eventsource-parser.

import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { after, before, test } from 'node:test';

import EventSource from 'eventsource';
import { createParser } from 'eventsource-parser';

import { launch } from './browser.mjs';
import { atEnd } from './ending.mjs';
import { startServer } from './server.mjs';
import { listElements } from './slices.mjs';
import { BEGINNING, ENDING, OUTPUT, Producer, createRun } from './story.mjs';

const CUTS = 12;

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser.close());

/// Numbers that are the same in every run of the test.
function dice(seed) {
  let state = seed >>> 0;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

/// The bytes in pieces: some of one byte, some of a few, some large, so that characters and frames are cut.
function cut(bytes, seed) {
  const roll = dice(seed);
  const pieces = [];
  for (let at = 0; at < bytes.length; ) {
    const size = [1, 1 + roll(8), 1 + roll(3000)][seed % 4 === 0 ? 0 : roll(3)];
    pieces.push(bytes.subarray(at, at + size));
    at += size;
  }
  return pieces;
}

/// A run told in full, and its stream as the server sent it.
async function capture(t) {
  const server = await startServer(t);
  const run = await createRun(server, 'cut up\r\nin  every way ☃');
  const producer = new Producer(server, run);
  for (const part of [BEGINNING, OUTPUT, ENDING]) await producer.append(part);
  const path = `/v1/runs/${run}/events`;
  const response = await fetch(server.origin + path, { headers: { accept: 'text/event-stream' } });
  const bytes = Buffer.from(await response.arrayBuffer());
  const page = await server.request('GET', `${path}?limit=1000`);
  const events = listElements(page, 'data').map((data, at) => ({ name: 'message', id: String(at), data }));
  const level = { name: 'caught_up', id: String(events.length - 1), data: `{"sequence":${events.length - 1}}` };
  return { bytes, heard: [...events, level] };
}

/// Serves pieces one by one at `/N`, and an empty page at `/`.
async function replayer(t, cuts) {
  const server = createServer(async (request, response) => {
    const pieces = cuts[Number(request.url.slice(1)) - 1];
    if (!pieces) {
      response.writeHead(200, { 'content-type': 'text/html' }).end('<!doctype html><title>t</title>');
      return;
    }
    response.writeHead(200, { 'content-type': 'text/event-stream', 'access-control-allow-origin': '*' });
    response.socket.setNoDelay(true);
    for (const piece of pieces) {
      if (!response.write(piece)) await new Promise((resolve) => response.once('drain', resolve));
      await new Promise((resolve) => setImmediate(resolve));
    }
    response.end();
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  atEnd(t, () => new Promise((resolve) => {
    server.closeAllConnections();
    server.close(resolve);
  }));
  return `http://127.0.0.1:${server.address().port}`;
}

function heardByParser(pieces) {
  const heard = [];
  let id = '';
  const parser = createParser({
    onEvent: (event) => {
      id = event.id ?? id;
      heard.push({ name: event.event ?? 'message', id, data: event.data });
    },
  });
  const decoder = new TextDecoder();
  for (const piece of pieces) parser.feed(decoder.decode(piece, { stream: true }));
  return heard;
}

/// What a source of the standard's form hears until its stream has ended once.
function heardBySource(source) {
  return new Promise((resolve) => {
    const heard = [];
    const note = (name) => (event) => {
      if (event.data !== undefined) heard.push({ name, id: event.lastEventId, data: event.data });
    };
    source.onmessage = note('message');
    for (const name of ['caught_up', 'gap', 'position']) source.addEventListener(name, note(name));
    source.onerror = () => {
      source.close();
      resolve(heard);
    };
  });
}

test('a browser and two libraries hear the same, however the stream is cut', async (t) => {
  const { bytes, heard } = await capture(t);
  assert.ok(heard.length > 50 && bytes.includes('☃'), 'there is something to cut');
  const cuts = Array.from({ length: CUTS }, (_, seed) => cut(bytes, seed));
  for (const pieces of cuts) assert.deepEqual(Buffer.concat(pieces), bytes);
  const origin = await replayer(t, cuts);
  const page = await browser.newPage();
  atEnd(t, () => page.close());
  await page.goto(origin);
  for (const [at, pieces] of cuts.entries()) {
    const url = `${origin}/${at + 1}`;
    assert.deepEqual(heardByParser(pieces), heard, `eventsource-parser, cut ${at}`);
    assert.deepEqual(await heardBySource(new EventSource(url)), heard, `eventsource, cut ${at}`);
    const inBrowser = await page.evaluate(
      ([url, listen]) => new Function(`return ${listen}`)()(new EventSource(url)),
      [url, heardBySource.toString()],
    );
    assert.deepEqual(inBrowser, heard, `browser, cut ${at}`);
  }
});
