// The story these tests tell: an outside program reports a run with two turns and one shell call.
// Bodies are JSON text written by hand, with white space and unusual tokens in them, because the server
// must keep tokens and drop only the space.

import { story } from './views.mjs';

/// Creates a run that an outside program will report on; answers its id.
export async function createRun(server, title, agent) {
  const body = JSON.stringify({ kind: 'external', title, agent });
  const run = JSON.parse(await server.request('POST', '/v1/runs', body));
  return run.data.id;
}

/// The program that reports. One instance, one batch after the other.
export class Producer {
  constructor(server, run) {
    this.server = server;
    this.run = run;
    this.seq = 0;
  }

  /// Appends events, given as pairs of type and JSON text.
  async append(events) {
    const list = events.map(([type, data]) => `{"type":${JSON.stringify(type)}, "data": ${data}}`);
    const producer = `{"id":"p","epoch":0,"seq":${this.seq}}`;
    this.seq += 1;
    const body = `{ "producer": ${producer}, "events": [\n${list.join(',\n')}\n] }`;
    await this.server.request('POST', `/v1/runs/${this.run}/events`, body);
  }
}

/// What only the server may append, which a program outside cannot tell.
const OURS = /^(run\.(queued|checkpoint_saved|waiting|continued|throttled|resumed)|workspace\.|gap\.|context\.|policy\.|approval\.(resolved|timed|ext)|clarification\.(answered|timed|ext)|handoff\.(ack|rej|timed|ext))/;

/// A story of testdata, told again as the run of an outside program.
export async function retold(server, name) {
  const [queued, ...events] = await story(name);
  const run = await createRun(server, queued.data.title ?? name);
  await new Producer(server, run).append(events.filter(({ type }) => !OURS.test(type)).map(({ type, data }) => [type, JSON.stringify(data)]));
  return run;
}

const CALL = '"tool_call_id": "call-1", "tool_name": "shell"';

/// Up to the moment when the tool's output comes in.
export const BEGINNING = [
  ['run.started', '{}'],
  ['turn.started', '{ "turn_index": 0, "model": "m" }'],
  ['assistant.text_delta', '{ "turn_index": 0, "block_index": 0, "delta": "I list " }'],
  ['assistant.text_delta', '{ "turn_index": 0, "block_index": 0, "delta": "the files\\u2028\\u00e4 – ☃ 😀." }'],
  [
    'assistant.text_complete',
    '{ "turn_index": 0, "block_index": 0, "text": "I list the files\\u2028\\u00e4 – ☃ 😀." }',
  ],
  [
    'assistant.tool_call_proposed',
    `{ "turn_index": 0, ${CALL}, "input": { "argv" : ["ls", "-1"], "odd": 1.50e+2, "slash": "\\/" } }`,
  ],
  ['turn.completed', '{ "turn_index": 0, "stop_reason": "tool_use", "tool_calls": 1 }'],
  ['tool.invoked', `{ ${CALL}, "kind": "shell", "turn_index": 0 }`],
  ['tool.shell.command', `{ ${CALL}, "argv": ["ls", "-1"], "cwd": "." }`],
];

const LINES = Array.from({ length: 40 }, (_, at) => `file ${at}\n`);

/// Its output, a batch of one event for each line.
export const OUTPUT = LINES.map((line, at) => {
  const offset = LINES.slice(0, at).join('').length;
  return [
    'tool.shell.output_chunk',
    `{ "tool_call_id": "call-1", "stream": "stdout", "data": ${JSON.stringify(line)}, "byte_offset": ${offset} }`,
  ];
});

/// From the tool's end to the run's.
export const ENDING = [
  [
    'tool.shell.exited',
    `{ "tool_call_id": "call-1", "exit_code": 0, "signal": null, "stdout_bytes": ${LINES.join('').length},
       "stderr_bytes": 0, "truncated": false }`,
  ],
  ['tool.completed', `{ ${CALL}, "summary": "40 files" }`],
  ['ext.webtest.note', '{ "unknown": [ 1e-7, "\\ud83d\\ude00", {} ] }'],
  ['turn.started', '{ "turn_index": 1 }'],
  ['assistant.text_complete', '{ "turn_index": 1, "block_index": 0, "text": "There are forty." }'],
  ['assistant.final_answer', '{ "turn_index": 1, "summary": "Forty files." }'],
  ['turn.completed', '{ "turn_index": 1, "stop_reason": "end_turn" }'],
  ['run.finished', '{ "final_status": "completed" }'],
];
