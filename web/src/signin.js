// Sign-in with the organization's provider: the link to it, the return from it, the choice of a tenant, and signing out.
// The server speaks with the provider; this page gets a token at the end and keeps it like one that was typed.

import { byId, element } from '../page.js';
import { visible } from '../visible.js';
import { dialog } from './dialogs.js';
import { announce } from './voice.js';

/** What the page showed when the person left for the provider. */
const RETURN = 'recount.return';
/** The name of the person, while they are signed in. */
const NAME = 'recount.signed-in';

/** Sends JSON, or nothing. A refusal is an error. */
async function send(method, path, body, headers = {}) {
  const options = { method, headers };
  if (body) Object.assign(options, { body: JSON.stringify(body), headers: { ...headers, 'content-type': 'application/json' } });
  const response = await fetch(path, options);
  const reply = await response.json();
  if (!response.ok) {
    const error = new Error(reply.detail ?? reply.title ?? response.statusText);
    throw Object.assign(error, { code: reply.code });
  }
  return reply.data;
}

/** Shows the link to the provider, if there is one. Returns whether there is. */
export async function offer() {
  const about = await send('GET', '/sign-in/about').catch(() => null);
  const link = byId('entry-begin');
  if (!about?.configured) return false;
  link.href = about.url;
  link.onclick = () => sessionStorage.setItem(RETURN, location.hash);
  byId('entry-provider').hidden = false;
  return true;
}

async function chooseTenant(tenants) {
  const choices = tenants.map((tenant, at) => {
    const input = element('input', undefined, { type: 'radio', name: 'tenant', value: tenant, required: true, checked: at === 0 });
    return element('label', [input, ` ${visible(tenant)}`]);
  });
  const group = element('fieldset', [element('legend', 'You belong to several tenants. Sign in to:'), ...choices]);
  const answer = await dialog('Choose a tenant', [group], [['Sign in', 'yes'], ['Cancel', '']]);
  const chosen = /** @type {HTMLInputElement | null} */ (group.querySelector('input:checked'));
  return answer === 'yes' ? chosen?.value : undefined;
}

/**
 * Finishes a sign-in, if the browser has just come back from the provider. Returns the token, or why there is none.
 * @returns {Promise<{ secret?: string, why?: string }>}
 */
export async function arrive() {
  const code = /^#sign-in=([0-9a-f]+)$/.exec(location.hash)?.[1];
  if (!code) return {};
  // The code is of no use twice, and nothing remains of it in the history.
  history.replaceState(null, '', `${location.pathname}${sessionStorage.getItem(RETURN) ?? ''}`);
  sessionStorage.removeItem(RETURN);
  try {
    let reply = await send('POST', '/sign-in/token', { code });
    if (reply.status === 'choose_tenant') {
      const tenant = await chooseTenant(reply.tenants);
      if (!tenant) return { why: 'You did not choose a tenant.' };
      reply = await send('POST', '/sign-in/token', { code, tenant });
    }
    sessionStorage.setItem(NAME, reply.token.name);
    announce(`Signed in as ${reply.token.name}.`);
    return { secret: reply.token.secret };
  } catch (error) {
    return { why: error.message };
  }
}

/** The name of the person who signed in, if the token is still that of the sign-in. */
export const signedIn = () => sessionStorage.getItem(NAME);

/** A typed token is of no sign-in. */
export const forget = () => sessionStorage.removeItem(NAME);

/** Revokes a token of a sign-in. Fails if it may still be valid. */
export async function signOut(token) {
  await send('DELETE', '/sign-in/session', undefined, { authorization: `Bearer ${token}` }).catch((error) => {
    // A token that has expired, or was revoked, needs no revocation.
    if (error.code !== 'token_invalid') throw error;
  });
  forget();
}
