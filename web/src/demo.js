// A run to look at for those who have none yet: this page reports it as any outside program would, piece by piece, and
// it asks one question that a person answers. Look at `playDemo`.

import { ask } from '../page.js';

/// Between two pieces, so that it can be watched.
const PACE_MS = 120;
/// How often and for how long an answer is waited for.
const LOOK_MS = 1000;
const ANSWER_SECONDS_MAX = 600;

const pause = (ms) => new Promise((resolve) => {
  setTimeout(resolve, ms);
});

const LIST = { turn_index: 0, tool_call_id: 'list', tool_name: 'shell' };
const CLEAN = { tool_call_id: 'clean', tool_name: 'shell' };
const OUTPUT = '\u001b[34mbuild\u001b[0m\n\u001b[32mrun.sh\u001b[0m\nREADME.md\nsum.py\n';

/// A text in the pieces in which a model would say it.
const said = (turn, text) => [
  ...text.match(/\S+\s*/g).map((delta) => ['assistant.text_delta', { turn_index: turn, block_index: 0, delta }]),
  ['assistant.text_complete', { turn_index: turn, block_index: 0, text }],
];

const spent = (input, output, cost) => ['cost.tick',
  { cumulative_input_tokens: input, cumulative_output_tokens: output, cumulative_cost_micros_usd: cost }];

const BEGINNING = [
  ['run.started', {}],
  ['user.message', { text: 'Clean up this folder.' }],
  ['turn.started', { turn_index: 0, model: 'demo' }],
  ...said(0, 'First I list the folder. Then I delete what can be **rebuilt**.'),
  ['assistant.tool_call_proposed', { ...LIST, input: { command: 'ls --color' } }],
  ['turn.completed', { turn_index: 0, stop_reason: 'tool_use', tool_calls: 1, input_tokens: 412, output_tokens: 38, cost_micros_usd: 1800 }],
  spent(412, 38, 1800),
  ['tool.invoked', { ...LIST, kind: 'shell', args_summary: 'ls --color', risk_level: 'low' }],
  ['tool.shell.command', { tool_call_id: 'list', argv: ['ls', '--color'], cwd: '.' }],
  ['tool.shell.output_chunk', { tool_call_id: 'list', stream: 'stdout', data: OUTPUT, byte_offset: 0 }],
  ['tool.shell.exited', { tool_call_id: 'list', exit_code: 0, signal: null, stdout_bytes: OUTPUT.length, stderr_bytes: 0, truncated: false }],
  ['tool.completed', { ...LIST, summary: '4 entries', output: OUTPUT, duration_ms: 12 }],
  ['turn.started', { turn_index: 1, model: 'demo' }],
  ...said(1, 'The folder `build` can be deleted. That needs your approval.'),
  ['assistant.tool_call_proposed', { ...CLEAN, turn_index: 1, input: { command: 'rm -r build' } }],
  ['turn.completed', { turn_index: 1, stop_reason: 'tool_use', tool_calls: 1, input_tokens: 540, output_tokens: 31, cost_micros_usd: 2100 }],
  spent(952, 69, 3900),
  ['approval.requested', { approval_id: 'demo', tool_call_id: 'clean', kind: 'shell', summary: 'rm -r build', action: 'Delete the folder build.',
    consequence: 'This is a demo: nothing is deleted, whatever you answer.', irreversible: false, risk_level: 'medium', timeout_seconds: ANSWER_SECONDS_MAX }],
];

const ending = (approved) => [
  ...(approved
    ? [['tool.invoked', { ...CLEAN, kind: 'shell', args_summary: 'rm -r build' }], ['tool.completed', { ...CLEAN, summary: 'deleted', duration_ms: 4 }]]
    : [['tool.refused', { ...CLEAN, code: 'denied', message: 'The call was rejected.' }]]),
  ['turn.started', { turn_index: 2, model: 'demo' }],
  ...said(2, approved ? 'The folder is clean.' : 'I left the folder unchanged.'),
  ['turn.completed', { turn_index: 2, stop_reason: 'end_turn', input_tokens: 610, output_tokens: 9, cost_micros_usd: 1950 }],
  spent(1562, 78, 5850),
  ['run.finished', { final_status: 'completed' }],
];

/** The one question, with an id that no other run has. */
const named = (events, run) => events.map(([type, data]) => ({ type, data: data.approval_id ? { ...data, approval_id: `demo-${run}` } : data }));

async function report(run, events, first) {
  let seq = first;
  for (const event of named(events, run)) {
    await ask(`/v1/runs/${run}/events`, { producer: { id: 'demo', epoch: 0, seq }, events: [event] });
    seq += 1;
    await pause(PACE_MS);
  }
  return seq;
}

/** Creates the run and answers its id at once; it goes on by itself. */
export async function playDemo(failed) {
  const { data } = await ask('/v1/runs', { kind: 'external', title: 'Demo: clean up a folder', agent: { name: 'demo' } });
  const go = async () => {
    const seq = await report(data.id, BEGINNING, 0);
    for (let waited = 0; waited < ANSWER_SECONDS_MAX * 1000; waited += LOOK_MS) {
      const { data: prompt } = await ask(`/v1/approvals/demo-${data.id}`);
      if (prompt.status !== 'pending') {
        await report(data.id, ending(prompt.status === 'approved'), seq);
        return;
      }
      await pause(LOOK_MS);
    }
  };
  go().catch(failed);
  return data.id;
}
