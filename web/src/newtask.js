// The form for a new task: what to do, by which agent or model, in which folder, with which budget, and what it may do at most.
// What is left empty is the server's choice. Look at `newTask`.

import { token } from '../entry.js';
import { ask, element, setText } from '../page.js';
import { visible } from '../visible.js';
import { dialog } from './dialogs.js';

/// How many files may go with a task.
const FILES_MAX = 16;

/// What an agent may do at most: its tools. The policy of the server judges each call all the same.
const READING = ['read_file', 'glob', 'grep', 'git_status', 'git_diff', 'todo_write', 'ask_user', 'hand_off'];
const WRITING = [...READING, 'write_file', 'edit_file', 'multi_edit'];
const REACHES = {
  '': ['all that the server policy allows', null],
  writing: ['read and change files, no commands', WRITING],
  reading: ['read files only', READING],
};

let fields = 0;

function field(words, input, hint = '') {
  fields += 1;
  input.id = `task-${fields}`;
  const parts = [element('label', words, { htmlFor: input.id }), input];
  if (hint) {
    const note = element('small', hint, { id: `task-hint-${fields}`, className: 'quiet' });
    input.setAttribute('aria-describedby', note.id);
    parts.push(note);
  }
  return element('div', parts, { className: 'field' });
}

const select = (choices) => element('select', choices.map(([value, words]) => element('option', words, { value })));
const text = (properties = {}) => element('input', undefined, { type: 'text', dir: 'auto', autocomplete: 'off', ...properties });
const number = (properties = {}) => element('input', undefined, { type: 'number', min: 0, ...properties });

/** Sends a file ahead of the task; answers how the task names it. */
async function upload(file) {
  const kind = file.type.startsWith('image/') ? 'image' : 'file_snapshot';
  const headers = { 'content-type': file.type || 'application/octet-stream' };
  if (token()) headers.authorization = `Bearer ${token()}`;
  const query = new URLSearchParams({ kind, name: file.name });
  const response = await fetch(`/v1/artifacts?${query}`, { method: 'POST', headers, body: file });
  const answer = await response.json();
  if (!response.ok) throw new Error(`cannot upload “${file.name}”: ${answer.detail ?? answer.title}`);
  return { artifact_id: answer.data.id, name: file.name };
}

/** What the form says, as the server wants it; nothing of what is empty. */
async function order({ kind, request, title, agent, model, workspace, mode, files, turns, dollars, reach, network }) {
  const said = { kind: kind.value };
  if (kind.value === 'shell') said.command = request.value;
  else said.request_text = request.value;
  if (title.value.trim()) said.title = title.value.trim();
  if (workspace.value.trim()) Object.assign(said, { workspace: workspace.value.trim(), workspace_mode: mode.value });
  if (dollars.value) said.budget_micros_usd = Math.round(Number(dollars.value) * 1e6);
  if (network.checked) said.network = true;
  if (kind.value !== 'agent_loop') return said;
  const [, tools] = REACHES[reach.value];
  if (tools) said.tools = tools;
  if (agent.value) said.agent = { name: agent.value };
  if (model.value.trim()) said.model = model.value.trim();
  if (turns.value) said.max_turns = Number(turns.value);
  const chosen = [...files.files];
  if (chosen.length > FILES_MAX) throw new Error(`${chosen.length} files are selected; the limit is ${FILES_MAX}`);
  if (chosen.length > 0) said.attachments = await Promise.all(chosen.map(upload));
  return said;
}

export async function newTask() {
  const parts = {
    kind: select([['agent_loop', 'agent'], ['shell', 'shell command']]),
    request: element('textarea', undefined, { rows: 6, dir: 'auto', required: true }),
    title: text({ maxLength: 200 }),
    agent: select([['', 'none (model only)']]),
    model: text({ spellcheck: false }),
    workspace: text({ spellcheck: false, dir: 'ltr' }),
    mode: select([['clone', 'work on a copy'], ['in_place', 'work in the folder itself']]),
    files: element('input', undefined, { type: 'file', multiple: true }),
    turns: number({ step: 1, min: 1 }),
    dollars: number({ step: 'any' }),
    reach: select(Object.entries(REACHES).map(([value, [words]]) => [value, words])),
    network: element('input', undefined, { type: 'checkbox' }),
  };
  const agentOnly = [field('Agent', parts.agent), field('Model', parts.model, 'As provider/model. Leave empty for the default model.'),
    field('Files', parts.files), field('Maximum turns', parts.turns),
    field('Allowed tools', parts.reach, 'The server policy still applies: it can require approval or block calls.')];
  const request = field('What should the agent do?', parts.request);
  const label = request.querySelector('label');
  parts.kind.addEventListener('change', () => {
    const agent = parts.kind.value === 'agent_loop';
    agentOnly.forEach((node) => {
      node.hidden = !agent;
    });
    setText(label, agent ? 'What should the agent do?' : 'Shell command (sh)');
  });
  const content = [field('Kind', parts.kind), request,
    element('details', [element('summary', 'Folder, tools and limits'), field('Title', parts.title), ...agentOnly,
      field('Folder', parts.workspace, 'An absolute path that the server allows. Leave empty for a new, empty folder.'), field('Folder mode', parts.mode),
      field('Allow commands to use the network', parts.network),
      field('Budget in US dollars', parts.dollars)])];
  const why = element('p', '', { className: 'bad lines', role: 'alert' });
  const closed = dialog('New task', [why, ...content], [['Start', 'start'], ['Cancel', '']]);
  const form = parts.request.closest('form');
  form.querySelector('button[value=""]').formNoValidate = true;
  parts.request.focus();
  // A refused task stays in the form, with the reason.
  form.addEventListener('submit', async (submitted) => {
    if (submitted.submitter?.value !== 'start') return;
    submitted.preventDefault();
    submitted.submitter.disabled = true;
    setText(why, '');
    try {
      const { data } = await ask('/v1/tasks', await order(parts));
      form.closest('dialog').close('start');
      if (data.latest_run_id) location.hash = `#${data.latest_run_id}`;
    } catch (error) {
      setText(why, visible(error.message));
      submitted.submitter.disabled = false;
      parts.request.focus();
    }
  });
  ask('/v1/agents').then(({ data }) => parts.agent.append(...data.map(({ name, title }) => element('option', visible(title ?? name), { value: name }))),
    () => {});
  return closed;
}
