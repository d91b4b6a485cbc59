// A model that answers by rule, in the protocols of other vendors' agents: Anthropic's Messages, OpenAI's Responses and Chat
// Completions, and Gemini's generateContent.
//
// It must not know which agent sends a request. A request that offers tools gets the next step of the script: a call of a shell, of a
// tool that reads a file, of one that edits it, and then a text. The results in the history are the steps that are done. A request
// without tools gets a title. See `startModel`.

import { createServer } from 'node:http';

/// The command for the shell. It writes a file, so agents that allow harmless commands request permission for it.
export const COMMAND = 'printf "recorded-%d\\n" 42 | tee shell.txt';
export const OUTPUT = 'recorded-42';
/// The file to edit, in the agent's folder.
export const NOTES = 'notes.txt';
export const NOTES_BEFORE = 'alpha\nbeta\ngamma\n';
export const NOTES_AFTER = 'alpha\nbetter\ngamma\n';
export const LAST_WORDS = 'The number is printed and the notes are improved.';

/// Serves the script of a command and a change of `file`, the full path of the file to edit. `shellFields` are further values for the call
/// of the shell, which are sent if the tool has such fields.
export function startModel(file, shellFields = {}) {
  return startModelWith(script(file, shellFields));
}

/// Serves until `close`. Each step has `names`, an expression for names of tools, and `values` by the names of fields. `requests` has every
/// request, and `turns` has each part of the script that was played: agents may send the same history twice.
export async function startModelWith(steps) {
  const play = { steps, turns: new Set() };
  const requests = [];
  const server = createServer(async (request, response) => {
    let text = '';
    for await (const piece of request.setEncoding('utf8')) {
      text += piece;
    }
    const path = new URL(request.url, 'http://model').pathname;
    const body = text ? JSON.parse(text) : {};
    requests.push({ path, body });
    const answer = protocols.find(([fits]) => fits.test(path));
    if (!answer || request.method !== 'POST') {
      response.writeHead(404, { 'content-type': 'application/json' }).end('{"error":{"message":"not here"}}');
      return;
    }
    answer[1](body, path, response, play);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    requests,
    turns: play.turns,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

const protocols = [
  [/\/messages$/, messages],
  [/\/messages\/count_tokens$/, (body, path, response) => plain(response, { input_tokens: 100 })],
  [/\/responses$/, responses],
  [/\/chat\/completions$/, completions],
  [/:(stream)?[gG]enerateContent$/, gemini],
  [/:countTokens$/, (body, path, response) => plain(response, { totalTokens: 100 })],
];

function plain(response, value) {
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(value));
}

/// An event stream of `[name, data]`; without names where the protocol has none.
function stream(response, events) {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  for (const [name, data] of events) {
    const line = typeof data === 'string' ? data : JSON.stringify(data);
    response.write(`${name ? `event: ${name}\n` : ''}data: ${line}\n\n`);
  }
  response.end();
}

/// The steps of the script: names of tools in order of preference, and values by the names of their fields.
function script(file, shellFields) {
  const path = { file_path: file, filePath: file, absolute_path: file, path: file };
  return [
    {
      names: /^(bash|shell|exec_command|shell_command|local_shell|run_shell_command|execute)$/i,
      values: {
        ...{ command: COMMAND, cmd: COMMAND, description: 'Prints a number' },
        ...shellFields,
      },
    },
    { names: /^(read|view|read_file|read_text_file)$/i, values: path },
    {
      names: /^(edit|replace|edit_file|apply_patch|write_text_file)$/i,
      values: {
        ...path,
        ...{ old_string: 'beta', oldString: 'beta', old_str: 'beta' },
        ...{ new_string: 'better', newString: 'better', new_str: 'better' },
        instruction: 'Improve beta.',
        content: NOTES_AFTER,
        patch: `*** Begin Patch\n*** Update File: ${NOTES}\n@@\n alpha\n-beta\n+better\n gamma\n*** End Patch\n`,
      },
    },
  ];
}

/// The call of one step, if such a tool is offered.
function callOf({ names, values }, tools) {
  const offered = tools.filter(({ name }) => names.test(name ?? ''));
  // A tool that edits is better than one that overwrites.
  const tool = offered.find(({ name }) => !/write/.test(name)) ?? offered[0];
  if (!tool) {
    return undefined;
  }
  if (tool.isFreeform) {
    return { name: tool.name, text: values.patch };
  }
  const fields = tool.schema?.properties ?? {};
  const input = Object.fromEntries(Object.entries(values).filter(([field]) => field in fields));
  if (fields.command?.type === 'array') {
    input.command = ['bash', '-lc', COMMAND];
  }
  return { name: tool.name, input };
}

/// The next step: a call or words, with an id of its own.
function turn(tools, results, play) {
  if (tools.length > 0) {
    play.turns.add(results);
  }
  const calls = play.steps.map((step) => callOf(step, tools)).filter((call) => call !== undefined);
  const id = `scripted${results + 1}`;
  if (results < calls.length) {
    return { id, call: { id, ...calls[results] } };
  }
  return tools.length > 0 ? { id, words: LAST_WORDS } : { id: 'title', words: 'Recorded' };
}

function messages(body, path, response, play) {
  const tools = (body.tools ?? []).map(({ name, input_schema: schema }) => ({ name, schema }));
  const blocks = (body.messages ?? []).flatMap(({ content }) => (Array.isArray(content) ? content : []));
  const { id, call, words } = turn(tools, blocks.filter(({ type }) => type === 'tool_result').length, play);
  const usage = { input_tokens: 100, output_tokens: 20 };
  const block = call
    ? { type: 'tool_use', id: `toolu_${call.id}`, name: call.name, input: call.input }
    : { type: 'text', text: words };
  const message = { id: `msg_${id}`, type: 'message', role: 'assistant', model: body.model, usage };
  const reason = call ? 'tool_use' : 'end_turn';
  if (!body.stream) {
    return plain(response, { ...message, content: [block], stop_reason: reason, stop_sequence: null });
  }
  const start = call ? { ...block, input: {} } : { ...block, text: '' };
  const delta = call
    ? { type: 'input_json_delta', partial_json: JSON.stringify(call.input) }
    : { type: 'text_delta', text: words };
  const events = [
    { type: 'message_start', message: { ...message, content: [], stop_reason: null, stop_sequence: null } },
    { type: 'content_block_start', index: 0, content_block: start },
    { type: 'content_block_delta', index: 0, delta },
    { type: 'content_block_stop', index: 0 },
    { type: 'message_delta', delta: { stop_reason: reason, stop_sequence: null }, usage },
    { type: 'message_stop' },
  ];
  return stream(response, events.map((event) => [event.type, event]));
}

function responses(body, path, response, play) {
  const tools = (body.tools ?? []).map((tool) => ({
    name: tool.name ?? tool.type,
    schema: tool.parameters,
    isFreeform: tool.type === 'custom',
  }));
  const results = (Array.isArray(body.input) ? body.input : []).filter(({ type }) => /call_output$/.test(type ?? ''));
  const { id, call, words } = turn(tools, results.length, play);
  const item = call
    ? {
        ...(call.text ? { type: 'custom_tool_call', input: call.text } : { type: 'function_call', arguments: JSON.stringify(call.input) }),
        id: `item_${call.id}`,
        call_id: `call_${call.id}`,
        name: call.name,
        status: 'completed',
      }
    : {
        type: 'message',
        id: `msg_${id}`,
        role: 'assistant',
        status: 'completed',
        content: [{ type: 'output_text', text: words, annotations: [] }],
      };
  const usage = {
    input_tokens: 100,
    input_tokens_details: { cached_tokens: 0 },
    output_tokens: 20,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: 120,
  };
  const whole = { id: `resp_${id}`, object: 'response', status: 'completed', model: body.model, output: [item], usage };
  if (!body.stream) {
    return plain(response, whole);
  }
  const events = [
    { type: 'response.created', response: { ...whole, status: 'in_progress', output: [], usage: null } },
    { type: 'response.output_item.added', output_index: 0, item: { ...item, status: 'in_progress', ...(call ? {} : { content: [] }) } },
    ...(call ? [] : [{ type: 'response.output_text.delta', item_id: `msg_${id}`, output_index: 0, content_index: 0, delta: words }]),
    { type: 'response.output_item.done', output_index: 0, item },
    { type: 'response.completed', response: whole },
  ];
  return stream(response, events.map((event, number) => [event.type, { ...event, sequence_number: number }]));
}

function completions(body, path, response, play) {
  const tools = (body.tools ?? []).map(({ function: tool }) => ({ name: tool.name, schema: tool.parameters }));
  const { id, call, words } = turn(tools, (body.messages ?? []).filter(({ role }) => role === 'tool').length, play);
  const calls = call && [
    { index: 0, id: `call_${call.id}`, type: 'function', function: { name: call.name, arguments: JSON.stringify(call.input) } },
  ];
  const message = call ? { tool_calls: calls } : { content: words };
  const head = { id: `chat_${id}`, created: 1, model: body.model };
  const usage = { prompt_tokens: 100, completion_tokens: 20, total_tokens: 120 };
  const reason = call ? 'tool_calls' : 'stop';
  if (!body.stream) {
    const choice = { index: 0, message: { role: 'assistant', ...message }, finish_reason: reason };
    return plain(response, { ...head, object: 'chat.completion', choices: [choice], usage });
  }
  const chunk = (delta, finish, rest) => ['', { ...head, object: 'chat.completion.chunk', choices: [{ index: 0, delta, finish_reason: finish }], ...rest }];
  return stream(response, [chunk({ role: 'assistant', ...message }, null), chunk({}, reason, { usage }), ['', '[DONE]']]);
}

function gemini(body, path, response, play) {
  const tools = (body.tools ?? [])
    .flatMap(({ functionDeclarations }) => functionDeclarations ?? [])
    .map(({ name, parameters, parametersJsonSchema }) => ({ name, schema: parametersJsonSchema ?? parameters }));
  const results = (body.contents ?? []).flatMap(({ parts }) => parts ?? []).filter((part) => part.functionResponse);
  const { id, call, words } = turn(tools, results.length, play);
  const part = call ? { functionCall: { name: call.name, args: call.input } } : { text: words };
  const value = {
    candidates: [{ content: { role: 'model', parts: [part] }, finishReason: 'STOP', index: 0 }],
    usageMetadata: { promptTokenCount: 100, candidatesTokenCount: 20, totalTokenCount: 120 },
    modelVersion: 'scripted',
  };
  return path.includes(':stream') ? stream(response, [['', value]]) : plain(response, value);
}
