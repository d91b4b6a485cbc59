// Writes the types of the events' data from their JSON Schemas, for `tsc --checkJs` of the console.
// `node types.mjs` in this folder writes web/types/events.d.ts; the test says when that is due.

import { readFile, readdir, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';

const SCHEMAS = new URL('../docs/schemas/events/v1/', import.meta.url);
const TYPES = new URL('../web/types/events.d.ts', import.meta.url);

const WORDS = { string: 'string', integer: 'number', number: 'number', boolean: 'boolean', null: 'null' };

/// One schema as a type; `names` are the shared parts it may refer to.
function typeOf(schema, names) {
  if (schema === true || schema === undefined) return 'unknown';
  if (schema.$ref) return typeOf(names[schema.$ref.split('/').at(-1)], names);
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(' | ');
  if (schema.anyOf) return [...new Set(schema.anyOf.map((one) => typeOf(one, names)))].join(' | ');
  const types = [schema.type ?? []].flat();
  if (types.length === 0) return 'unknown';
  return types.map((type) => {
    if (type === 'array') return `Array<${typeOf(schema.items, names)}>`;
    if (type === 'object') return schema.properties ? object(schema, names) : 'Record<string, unknown>';
    return WORDS[type];
  }).join(' | ');
}

function object(schema, names) {
  const required = new Set(schema.required ?? []);
  const fields = Object.entries(schema.properties).map(([name, field]) =>
    `${JSON.stringify(name)}${required.has(name) ? '' : '?'}: ${typeOf(field, names)}`);
  return `{ ${fields.join('; ')} }`;
}

/// The whole file.
export async function eventTypes() {
  const files = (await readdir(SCHEMAS)).filter((name) => name.endsWith('.json')).sort();
  const lines = [];
  for (const file of files) {
    const schema = JSON.parse(await readFile(new URL(file, SCHEMAS), 'utf8'));
    // The envelope has a schema of its own; it is written below.
    if (schema.properties?.schema_version || !schema.properties) continue;
    lines.push(`  ${JSON.stringify(schema.title)}: ${object(schema, schema.$defs ?? {})};`);
  }
  return `// The data of every type of event. Written by web-tests/types.mjs from docs/schemas; not by hand.

export interface Envelope {
  schema_version?: string;
  event_id?: string;
  run_id?: string;
  task_id?: string;
  session_id?: string;
  sequence: number;
  occurred_at: string;
  type: string;
  data: unknown;
}

export interface EventData {
${lines.join('\n')}
}
`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await writeFile(TYPES, await eventTypes());
