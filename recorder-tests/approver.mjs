// A person at another screen who approves every request for permission, over HTTP.
// It must not know the agent. See `approveAll`.

import { atEnd } from '../web-tests/ending.mjs';

/// Approves each request of the server's runs until the test ends.
export function approveAll(t, server) {
  const ended = new AbortController();
  const work = approve(server, ended.signal).catch((error) => {
    if (!ended.signal.aborted) throw error;
  });
  atEnd(t, () => {
    ended.abort();
    return work;
  });
}

async function approve(server, signal) {
  const path = '/v1/events/stream?type=approval.requested&after_position=0';
  const stream = await fetch(server.origin + path, { signal });
  if (!stream.ok) throw new Error(`GET ${path} returned ${stream.status}: ${await stream.text()}`);
  let text = '';
  for await (const piece of stream.body.pipeThrough(new TextDecoderStream())) {
    const lines = (text + piece).split('\n');
    text = lines.pop();
    for (const line of lines.filter((line) => line.startsWith('data:'))) {
      const { type, data } = JSON.parse(line.slice('data:'.length));
      if (type !== 'approval.requested') continue;
      await server.request('POST', `/v1/approvals/${data.approval_id}/resolve`, '{"decision":"approve"}');
    }
  }
}
