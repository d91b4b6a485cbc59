// What every part of the page uses: asking the server, making elements, saying what is wrong.
// Knows nothing of runs.

import { comeIn, token } from './entry.js';
import { visible } from './visible.js';

/** The element with an id, whichever it is. @param {string} id @returns {any} */
export const byId = (id) => document.getElementById(id);

/// Asks the native face; a refusal is an error with its `status` and `code`. When the server wants to know who asks,
/// the user is asked for a token, and then it goes on.
export async function ask(path, body, method) {
  const options = { headers: {}, ...(method ? { method } : {}) };
  if (body !== undefined) {
    Object.assign(options, { method: 'POST', body: JSON.stringify(body) });
    options.headers['content-type'] = 'application/json';
  }
  const shown = token();
  if (shown) options.headers.authorization = `Bearer ${shown}`;
  let response;
  let answer;
  try {
    response = await fetch(path, options);
    answer = await response.json();
  } catch (cause) {
    throw new Error('The server is not responding.', { cause });
  }
  if (response.ok) return answer;
  if (response.status === 401) {
    // The user may have answered for another request in the meantime.
    if (shown === token()) await comeIn(shown ? answer.detail : '');
    return ask(path, body, method);
  }
  const words = answer.detail ?? answer.title ?? response.statusText;
  throw Object.assign(new Error(words), { status: response.status, code: answer.code });
}

export function element(name, content, properties = {}) {
  const made = Object.assign(document.createElement(name), properties);
  if (content !== undefined) made.append(...[content].flat());
  return made;
}

/// Sets text only where it differs, so that nothing is read out twice.
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/// Removes a part of the page. Keyboard focus in it moves to the status of the run.
export function remove(node) {
  const focused = node.contains(document.activeElement);
  node.remove();
  if (focused) byId('run-status').focus();
}

// One thing may be wrong with each subject at a time, until it is right again.
const troubles = new Map();

export function trouble(subject, error) {
  troubles.set(subject, visible(error.message));
  showTroubles();
}

export function wellAgain(subject) {
  if (troubles.delete(subject)) showTroubles();
}

function showTroubles() {
  const box = byId('trouble');
  setText(box, [...troubles.values()].join(' '));
  box.hidden = troubles.size === 0;
}
