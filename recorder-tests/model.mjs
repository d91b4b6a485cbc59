// A model that answers by rule, in the protocols that the agents of others speak: Anthropic's Messages, OpenAI's Responses and
// Chat Completions, and Gemini's generateContent.
//
// It must not know which agent asks. A request that offers tools and holds no result yet is answered by one call of a shell; one
// with a result by a text; one without tools by a title. See `startModel`.

import { createServer } from 'node:http';

/// What the shell is to run, and what the model says in the end.
export const COMMAND = 'printf "recorded-%d\\n" 42';
export const OUTPUT = 'recorded-42';
export const LAST_WORDS = 'The command said what it should.';

/// Serves until `close`. `requests` has what was asked, for who looks for a fault.
export async function startModel() {
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
    answer[1](body, path, response);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    requests,
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

/// The name and the input of the shell among the tools that are offered; undefined where there is none.
function shellCall(tools) {
  const shell = tools.find(({ name }) =>
    /^(bash|shell|exec_command|shell_command|local_shell|run_shell_command)$/i.test(name ?? ''),
  );
  if (!shell) {
    return undefined;
  }
  const fields = (shell.schema?.properties ?? {});
  const input = {};
  if ('cmd' in fields) {
    input.cmd = COMMAND;
  } else if (fields.command?.type === 'array') {
    input.command = ['bash', '-lc', COMMAND];
  } else {
    input.command = COMMAND;
  }
  if ('description' in fields) {
    input.description = 'Says that it was recorded';
  }
  return { name: shell.name, input };
}

/// What is answered: a call, or words.
function turn(tools, hasResult) {
  const call = hasResult ? undefined : shellCall(tools);
  if (call) {
    return { call };
  }
  return { words: tools.length > 0 ? LAST_WORDS : 'Recorded' };
}

function messages(body, path, response) {
  const tools = (body.tools ?? []).map(({ name, input_schema: schema }) => ({ name, schema }));
  const hasResult = JSON.stringify(body.messages ?? []).includes('"tool_result"');
  const { call, words } = turn(tools, hasResult);
  const usage = { input_tokens: 100, output_tokens: 20 };
  const block = call
    ? { type: 'tool_use', id: 'toolu_scripted1', name: call.name, input: call.input }
    : { type: 'text', text: words };
  const message = { id: 'msg_1', type: 'message', role: 'assistant', model: body.model, usage };
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

function responses(body, path, response) {
  const tools = (body.tools ?? []).map((tool) => ({ name: tool.name ?? tool.type, schema: tool.parameters }));
  const hasResult = JSON.stringify(body.input ?? []).includes('call_output');
  const { call, words } = turn(tools, hasResult);
  const item = call
    ? {
        type: 'function_call',
        id: 'fc_1',
        call_id: 'call_scripted1',
        name: call.name,
        arguments: JSON.stringify(call.input),
        status: 'completed',
      }
    : {
        type: 'message',
        id: 'msg_1',
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
  const whole = { id: 'resp_1', object: 'response', status: 'completed', model: body.model, output: [item], usage };
  if (!body.stream) {
    return plain(response, whole);
  }
  const events = [
    { type: 'response.created', response: { ...whole, status: 'in_progress', output: [], usage: null } },
    { type: 'response.output_item.added', output_index: 0, item: { ...item, status: 'in_progress', ...(call ? {} : { content: [] }) } },
    ...(call ? [] : [{ type: 'response.output_text.delta', item_id: 'msg_1', output_index: 0, content_index: 0, delta: words }]),
    { type: 'response.output_item.done', output_index: 0, item },
    { type: 'response.completed', response: whole },
  ];
  return stream(response, events.map((event, number) => [event.type, { ...event, sequence_number: number }]));
}

function completions(body, path, response) {
  const tools = (body.tools ?? []).map(({ function: tool }) => ({ name: tool.name, schema: tool.parameters }));
  const hasResult = (body.messages ?? []).some(({ role }) => role === 'tool');
  const { call, words } = turn(tools, hasResult);
  const calls = call && [
    { index: 0, id: 'call_scripted1', type: 'function', function: { name: call.name, arguments: JSON.stringify(call.input) } },
  ];
  const said = call ? { tool_calls: calls } : { content: words };
  const head = { id: 'chat_1', created: 1, model: body.model };
  const usage = { prompt_tokens: 100, completion_tokens: 20, total_tokens: 120 };
  const reason = call ? 'tool_calls' : 'stop';
  if (!body.stream) {
    const choice = { index: 0, message: { role: 'assistant', ...said }, finish_reason: reason };
    return plain(response, { ...head, object: 'chat.completion', choices: [choice], usage });
  }
  const chunk = (delta, finish, rest) => ['', { ...head, object: 'chat.completion.chunk', choices: [{ index: 0, delta, finish_reason: finish }], ...rest }];
  return stream(response, [chunk({ role: 'assistant', ...said }, null), chunk({}, reason, { usage }), ['', '[DONE]']]);
}

function gemini(body, path, response) {
  const tools = (body.tools ?? [])
    .flatMap(({ functionDeclarations }) => functionDeclarations ?? [])
    .map(({ name, parameters, parametersJsonSchema }) => ({ name, schema: parametersJsonSchema ?? parameters }));
  const hasResult = JSON.stringify(body.contents ?? []).includes('"functionResponse"');
  const { call, words } = turn(tools, hasResult);
  const part = call ? { functionCall: { name: call.name, args: call.input } } : { text: words };
  const value = {
    candidates: [{ content: { role: 'model', parts: [part] }, finishReason: 'STOP', index: 0 }],
    usageMetadata: { promptTokenCount: 100, candidatesTokenCount: 20, totalTokenCount: 120 },
    modelVersion: 'scripted',
  };
  return path.includes(':stream') ? stream(response, [['', value]]) : plain(response, value);
}
