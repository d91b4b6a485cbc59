// A real OpenID provider on this machine: `oidc-provider` with its own forms to sign in. Any password is right.

import { createServer } from 'node:http';
import { createServer as createListener } from 'node:net';

import { Provider } from 'oidc-provider';

import { atEnd } from './ending.mjs';

/// The groups of each account.
const GROUPS = { ada: ['staff'], boss: ['staff', 'boss'], eve: ['guests'] };

/// A port that is free now.
export async function freePort() {
  const listener = createListener();
  await new Promise((listening) => listener.listen(0, '127.0.0.1', listening));
  const { port } = listener.address();
  await new Promise((closed) => listener.close(closed));
  return port;
}

/// Starts a provider for the server at `origin`. A `secret` makes the server a confidential client.
export async function startProvider(t, origin, { secret } = {}) {
  const http = createServer();
  await new Promise((listening) => http.listen(0, '127.0.0.1', listening));
  const stop = () => new Promise((closed) => http.close(closed) && http.closeAllConnections());
  atEnd(t, stop);
  const issuer = `http://127.0.0.1:${http.address().port}`;
  const provider = new Provider(issuer, {
    clients: [{
      client_id: 'recount',
      redirect_uris: [`${origin}/sign-in/callback`],
      response_types: ['code'],
      grant_types: ['authorization_code', 'urn:ietf:params:oauth:grant-type:device_code'],
      token_endpoint_auth_method: secret ? 'client_secret_basic' : 'none',
      ...(secret ? { client_secret: secret } : {}),
    }],
    features: { deviceFlow: { enabled: true }, devInteractions: { enabled: true } },
    scopes: ['openid', 'profile', 'email', 'groups'],
    claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['preferred_username'], groups: ['groups'] },
    cookies: { keys: ['of a test'] },
    findAccount: (_, id) => ({
      accountId: id,
      claims: () => ({ sub: id, email: `${id}@example.org`, email_verified: true, preferred_username: id, groups: GROUPS[id] ?? [] }),
    }),
  });
  http.on('request', provider.callback());
  return { issuer, stop };
}

/// Fills the provider's forms in a page that has been sent there.
export async function signInAtProvider(page, name) {
  await page.locator('input[name=login]').fill(name);
  await page.locator('input[name=password]').fill('any');
  await page.getByRole('button', { name: 'Sign-in' }).click();
  await page.getByRole('button', { name: 'Continue' }).click();
}
