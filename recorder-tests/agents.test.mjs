// Agents of other vendors are recorded: by their own hooks, and as ACP agents. The model is scripted; everything else is real.

import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';

import { atEnd } from '../web-tests/ending.mjs';
import { BINARY, startClosedServer, startServer } from '../web-tests/server.mjs';
import { ACP_AGENTS, HOOK_AGENTS, TRANSCRIPTS, agentHome, projectFolder, run, startRecorded } from './agents.mjs';
import { approveAll } from './approver.mjs';
import { promptOnce } from './editor.mjs';
import { COMMAND, LAST_WORDS, NOTES, NOTES_AFTER, OUTPUT, startModel } from './model.mjs';

const TEST = { timeout: 240_000 };
const PROMPT = 'Print a number and improve the notes.';

/// A server, a model and a home. `shellFields` are further values for the call of the shell.
async function scene(t, shellFields = {}, start = startServer) {
  const server = await start(t);
  const model = await startModel(join(projectFolder(server), NOTES), shellFields);
  atEnd(t, async () => model.close());
  return { server, model, home: await agentHome(server, model) };
}

/// Each run with its events and artifacts, the oldest first.
async function recorded(server) {
  const list = async (path) => {
    const { data, has_more: isCut } = JSON.parse(await server.request('GET', path));
    assert.equal(isCut, false, `${path} returned only a part`);
    return data;
  };
  const runs = [];
  for (const run of (await list('/v1/runs')).reverse()) {
    const events = await list(`/v1/runs/${run.id}/events?limit=500`);
    const of = (type) => events.filter((event) => event.type === type).map((event) => event.data);
    runs.push({ run, events, of, artifacts: await list(`/v1/runs/${run.id}/artifacts`) });
  }
  return runs;
}

/// What both sides of a session must agree on.
function account({ run, events, of }) {
  const outcomeOf = (id) =>
    events.find(
      ({ type, data }) => /^tool\.(completed|failed|cancelled|refused)$/.test(type) && data.tool_call_id === id,
    )?.type;
  const calls = of('assistant.tool_call_proposed').map((data) => ({
    id: data.provider_call_id ?? data.tool_call_id,
    command: commandIn(data.input),
    outcome: outcomeOf(data.tool_call_id),
  }));
  return {
    status: run.status,
    prompt: of('user.message').map((data) => data.text),
    text: of('assistant.text_complete').map((data) => data.text),
    calls,
  };
}

/// The command line in a call's input, which each agent names in its own way.
function commandIn(input) {
  const command = input?.command ?? input?.cmd;
  return Array.isArray(command) ? command.at(-1) : command;
}

/// Checks the record of the whole script: prompt, command with its output, edited file, text.
async function assertWhole(session, model, project) {
  const { status, prompt, text, calls } = account(session);
  assert.equal(status, 'finished');
  assert.deepEqual(prompt, [PROMPT]);
  assert.equal(text.at(-1), LAST_WORDS);
  assert.equal(calls.length, model.turns.size - 1, JSON.stringify(calls));
  assert.equal(calls[0].command, COMMAND, JSON.stringify(calls));
  for (const call of calls) assert.equal(call.outcome, 'tool.completed', JSON.stringify(calls));
  assert.match(JSON.stringify(session.of('tool.completed')), new RegExp(OUTPUT));
  assert.equal(await readFile(join(project, NOTES), 'utf8'), NOTES_AFTER);
}

for (const agent of Object.keys(HOOK_AGENTS)) {
  test(`${agent} is recorded by its hooks`, TEST, async (t) => {
    const { server, model, home } = await scene(t);
    await run(home, [BINARY, 'connect', agent]);
    const printed = await run(home, HOOK_AGENTS[agent](PROMPT));
    assert.ok(printed.includes(LAST_WORDS), printed);
    const [session, ...more] = await recorded(server);
    assert.equal(more.length, 0);
    await assertWhole(session, model, home.project);
    assert.equal(session.run.agent_name, { claude: 'claude-code' }[agent] ?? agent);
  });
}

for (const protocol of ['http/json', 'http/protobuf']) {
  test(`the telemetry of Claude Code adds its tokens to the run of its hooks, by ${protocol}`, TEST, async (t) => {
    const { server, model, home } = await scene(t);
    // connect takes them over, as a user has set them. The default interval is longer than the prompt.
    const variables = { OTEL_EXPORTER_OTLP_PROTOCOL: protocol, OTEL_LOGS_EXPORT_INTERVAL: '5000' };
    await run({ ...home, env: { ...home.env, ...variables } }, [BINARY, 'connect', 'claude', '--telemetry']);
    await run(home, HOOK_AGENTS.claude(PROMPT));
    await run(home, HOOK_AGENTS.claude(PROMPT));
    // The first prompt ended before its tokens were known to come.
    const [first, late, second, ...more] = await recorded(server);
    assert.equal(more.length, 0);
    assert.deepEqual([first, late, second].map(({ run: { source } }) => source), [
      'claude-code-hooks',
      'claude-code-otel',
      'claude-code-hooks',
    ]);
    assert.equal(late.of('ext.recount.recorded_as')[0].raw.run_id, first.run.id);
    assert.equal(second.run.status, 'finished');
    for (const { run } of [late, second]) {
      assert.deepEqual([run.input_tokens, run.output_tokens], [100 * model.turns.size, 20 * model.turns.size]);
      assert.ok(run.cost_micros_usd > 0);
    }
  });
}

/// The tokens of all runs of the server, which has no others than those of Claude Code's telemetry.
async function tokensOf(server) {
  const runs = await recorded(server);
  return runs.reduce((sum, { run }) => sum + (run.input_tokens ?? 0), 0);
}

for (const [kind, options, variables] of [
  ['a file', (file) => ['--token-file', file], () => ({})],
  ['a variable', () => [], (token) => ({ RECOUNT_TOKEN: token })],
]) {
  test(`the telemetry of Claude Code has the token from ${kind}, and ends with --remove`, TEST, async (t) => {
    const { server, model, home } = await scene(t, {}, startClosedServer);
    const file = join(home.home, 'token of ours');
    await writeFile(file, `${server.token}\n`, { mode: 0o600 });
    const agent = { ...home, env: { ...home.env, ...variables(server.token) } };
    const settings = join(home.home, '.claude/settings.json');
    const before = await readFile(settings, 'utf8');
    await run(agent, [BINARY, 'connect', 'claude', '--telemetry', ...options(file)]);
    assert.ok(!(await readFile(settings, 'utf8')).includes(server.token));
    const status = JSON.parse(await run(agent, [BINARY, 'connect', 'claude', '--status', '--json']));
    assert.equal(status.telemetry, `${server.origin}/otlp`);
    await run(agent, HOOK_AGENTS.claude(PROMPT));
    const tokens = 100 * model.turns.size;
    assert.equal(await tokensOf(server), tokens);

    await run(agent, [BINARY, 'connect', 'claude', '--remove']);
    assert.equal(await readFile(settings, 'utf8'), before);
    await run(agent, HOOK_AGENTS.claude(PROMPT));
    assert.equal(await tokensOf(server), tokens);
  });
}

for (const [agent, { source, folder }] of Object.entries(TRANSCRIPTS)) {
  test(`${source} of ${agent} are imported`, TEST, async (t) => {
    const { server, model, home } = await scene(t);
    await run(home, HOOK_AGENTS[agent](PROMPT));
    await run(home, [BINARY, 'import', '--from', source, join(home.home, folder)]);
    const [session, ...more] = await recorded(server);
    assert.equal(more.length, 0);
    await assertWhole(session, model, home.project);
    assert.equal(session.run.input_tokens, 100 * model.turns.size);
    assert.equal(session.run.output_tokens, 20 * model.turns.size);
  });
}

/// A session with one prompt. `ask` is where permissions are requested.
async function acpSession(t, home, agent, ask) {
  const { child, ended } = startRecorded(home, agent.command, ['--ask', ask]);
  atEnd(t, async () => child.kill());
  const result = await promptOnce(child, home.project, PROMPT, agent.usesEditor);
  await ended;
  return result;
}

/// Checks that each command and each change was permitted before it began, by a person who saw it.
async function assertPermitted({ session, ask, permissions, home }) {
  const requested = session.events.filter(({ type }) => type === 'approval.requested');
  assert.equal(permissions.length, ask === 'recount' ? 0 : requested.length, 'permissions at the editor');
  const shown = requested.map(({ data }) => data.preview);
  assert.equal(shown.filter((preview) => preview === COMMAND).length, 1, JSON.stringify(shown));
  assert.ok(shown.some((preview) => /^\+.*better$/m.test(preview)), JSON.stringify(shown));
  for (const { data } of requested) {
    const resolved = session.events.find(
      ({ type, data: { approval_id: id } }) => type === 'approval.resolved' && id === data.approval_id,
    );
    const { decision, decided_elsewhere: elsewhere, by } = resolved.data;
    assert.deepEqual([elsewhere ?? decision, by], ['approved', ask === 'recount' ? 'operator' : 'editor']);
    const began = session.events.find(
      ({ type, data: { tool_call_id: id } }) => type === 'tool.invoked' && id === data.tool_call_id,
    );
    assert.ok(began?.sequence > resolved.sequence, `${data.tool_call_id} began before its permission`);
  }
  assert.equal(await readFile(join(home.project, 'shell.txt'), 'utf8'), `${OUTPUT}\n`);
}

/// Checks tokens and cost, and that the record names what is missing.
function assertUsage(session, agent, model) {
  const counted = { all: model.turns.size, last: 1, none: 0 }[agent.tokens];
  assert.equal(session.run.input_tokens ?? 0, 100 * counted);
  assert.equal(session.run.output_tokens ?? 0, 20 * counted);
  assert.equal(session.run.cost_micros_usd > 0, agent.cost === true);
  const { shows, does_not_show: missing } = session.of('ext.recount.source').at(-1);
  for (const [fact, isShown] of [['tokens', agent.tokens !== 'none'], ['cost', agent.cost === true]]) {
    assert.equal(shows.includes(fact), isShown, `shows ${shows}`);
    assert.equal(missing.includes(fact), !isShown, `does not show ${missing}`);
  }
}

/// Checks that the change of the file is one artifact. One that the agent showed before, and replaced, is rejected.
async function assertChange(session, agent, server) {
  const changes = session.artifacts.filter(({ target_path: path, status }) => path?.endsWith(NOTES) && status !== 'rejected');
  assert.equal(changes.length, 1, JSON.stringify(session.artifacts));
  const [change] = changes;
  assert.equal(change.kind === 'patch', agent.fragment !== true, JSON.stringify(change));
  if (change.kind === 'patch') assert.equal(change.status, 'applied');
  const text = await server.request('GET', `/v1/artifacts/${change.id}/raw`);
  assert.match(text, /^-beta$/m);
  assert.match(text, /^\+better$/m);
}

for (const [name, agent] of Object.entries(ACP_AGENTS)) {
  for (const ask of ['both', 'recount']) {
    test(`${name} is recorded as an ACP agent, with --ask ${ask}`, TEST, async (t) => {
      const { server, model, home } = await scene(t, agent.shellFields);
      if (ask === 'recount') approveAll(t, server);
      const { reason, permissions } = await acpSession(t, home, agent, ask);
      assert.equal(reason, 'end_turn');
      const [session, ...more] = await recorded(server);
      assert.equal(more.length, 0);
      await assertWhole(session, model, home.project);
      await assertPermitted({ session, ask, permissions, home });
      assertUsage(session, agent, model);
      await assertChange(session, agent, server);
    });
  }
}

test('a session of Claude Code that is recorded from two sides agrees', TEST, async (t) => {
  const { server, home } = await scene(t);
  await run(home, [BINARY, 'connect', 'claude']);
  await acpSession(t, home, ACP_AGENTS['claude-agent-acp'], 'both');
  const both = await recorded(server);
  assert.equal(both.length, 2, 'one by the hooks and one by ACP');
  const [one, other] = both.map(account);
  assert.deepEqual(one, other);
});
