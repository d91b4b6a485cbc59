// People sign in with a real OpenID provider: the console in a browser.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { after, before, test } from 'node:test';

import { violations } from './axe.mjs';
import { launch, openPage } from './browser.mjs';
import { atEnd } from './ending.mjs';
import { freePort, signInAtProvider, startProvider } from './provider.mjs';
import { BINARY, newServer, plainEnvironment } from './server.mjs';
import { createRun } from './story.mjs';

const TEST = { timeout: 180_000 };
const SECRET = 'a-secret-of-the-client-0123456789';

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser?.close());

/// A server whose people come from a provider, and a token of its operator.
async function startSignIn(t, options) {
  const origin = `http://127.0.0.1:${await freePort()}`;
  const provider = await startProvider(t, origin, options);
  const folder = await mkdtemp(join(tmpdir(), 'recount-sign-in-'));
  atEnd(t, () => rm(folder, { recursive: true, force: true }));
  const config = join(folder, 'recount.toml');
  const grant = (group, tenant, scopes) => `[[sign_in.grants]]\ngroup = "${group}"\ntenant = "${tenant}"\nscopes = ${JSON.stringify(scopes)}\n`;
  await writeFile(config, `public_url = "${origin}"\n[access]\nrequire_token = true\n`
    + `[sign_in]\nissuer = "${provider.issuer}"\nclient_id = "recount"\nscopes = ["groups"]\n`
    + `${options?.secret ? 'client_secret_env = "TEST_CLIENT_SECRET"\n' : ''}`
    + grant('staff', 'default', ['read', 'run', 'approve']) + grant('boss', 'acme', ['read', 'admin']));
  if (options?.secret) process.env.TEST_CLIENT_SECRET = options.secret;
  const server = await newServer(t, ['--config', config]);
  server.token = await server.addToken('operator-token', 'admin,read,run,approve,ingest');
  await server.start(new URL(origin).host);
  return { server, provider };
}

const connected = (page) => page.locator('#health', { hasText: 'Connected.' }).waitFor();
/// Follows the link to the provider, whose page has a font of another site.
async function begin(page) {
  await page.route('https://fonts.googleapis.com/**', (route) => route.fulfill({ contentType: 'text/css', body: '' }));
  await page.getByRole('link', { name: 'Sign in with your organization' }).click();
}

/// The cookies of the server. The provider's are of the same host.
const ownCookies = async (page, server) => (await page.context().cookies(server.origin)).filter(({ name }) => name.includes('recount'));

/// The events of the audit trail of one type, as their data.
async function audited(server, type) {
  const { data } = JSON.parse(await server.request('GET', '/audit/v1/events?limit=1000'));
  return data.filter((event) => event.type === `ext.recount.${type}`).map((event) => event.data);
}

test('a person signs in with the provider, comes back to their page, and signs out', TEST, async (t) => {
  const { server, provider } = await startSignIn(t, { secret: SECRET });
  const run = await createRun(server, 'behind a provider');
  const page = await openPage(t, browser, `${server.origin}/#${run}`, { statuses: [401] });
  await page.getByRole('link', { name: 'Sign in with your organization' }).waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.id), 'entry-begin', 'the link has the focus');
  assert.equal(await page.locator('#health').innerText(), 'Not signed in.');
  assert.deepEqual(await violations(page), []);

  const visited = [];
  page.on('request', (request) => request.isNavigationRequest() && visited.push(request.url()));
  await begin(page);
  await signInAtProvider(page, 'ada');
  await connected(page);
  assert.equal(await page.evaluate(() => location.href), `${server.origin}/#${run}`, 'the page that was open');
  await page.locator('#account-title', { hasText: 'behind a provider' }).waitFor();
  assert.deepEqual(await ownCookies(page, server), [], 'no cookie remains');
  assert.ok(!visited.some((url) => url.includes('rct_')), 'no address has the token');
  const [facts] = await audited(server, 'signed_in');
  assert.equal(`${facts.name} ${facts.tenant} ${facts.scopes} ${facts.issuer} ${facts.subject} ${facts.client}`,
    `ada@example.org default read,run,approve ${provider.issuer} ada console`);

  // Neither the address from the provider nor the code for the console works twice, here or elsewhere.
  const callback = visited.find((url) => url.includes('/sign-in/callback?'));
  page.expectStatus(400);
  await page.goto(callback);
  await page.getByRole('heading', { name: 'This sign-in cannot be continued' }).waitFor();
  assert.deepEqual(await violations(page), []);
  await page.goto(`${server.origin}/#${run}`);
  await connected(page);

  await page.getByRole('button', { name: 'Settings' }).click();
  await page.getByText('Signed in as ada@example.org.').waitFor();
  // A token that the server did not revoke is not forgotten.
  await page.route('**/sign-in/session', (route) => route.fulfill({ status: 503, contentType: 'application/json', body: '{"code":"store_unavailable","detail":"no disk"}' }));
  page.expectStatus(503);
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByText('the server did not revoke the token: no disk').waitFor();
  assert.deepEqual(await violations(page), []);
  await page.getByRole('button', { name: 'Close' }).click();
  await page.unroute('**/sign-in/session');
  await page.getByRole('button', { name: 'Settings' }).click();
  await page.getByText('Signed in as ada@example.org.').waitFor();
  page.expectStatus(401);
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByRole('link', { name: 'Sign in with your organization' }).waitFor();
  const tokens = JSON.parse(await server.request('GET', '/admin/tokens')).data.map(({ name }) => name);
  assert.deepEqual(tokens, ['operator-token']);
  const printed = server.printed.join('\n');
  for (const hidden of [SECRET, new URL(callback).searchParams.get('code'), 'rct_']) assert.ok(!printed.includes(hidden), hidden);
});

test('a person of several tenants chooses one', TEST, async (t) => {
  const { server } = await startSignIn(t);
  const page = await openPage(t, browser, server.origin, { statuses: [401] });
  await begin(page);
  await signInAtProvider(page, 'boss');
  await page.getByRole('heading', { name: 'Choose a tenant' }).waitFor();
  assert.deepEqual(await violations(page), []);
  await page.getByRole('radio', { name: 'acme' }).check();
  await page.getByRole('button', { name: 'Sign in' }).last().click();
  await connected(page);
  const [facts] = await audited(server, 'signed_in');
  assert.equal(`${facts.name} ${facts.tenant} ${facts.scopes}`, 'boss@example.org acme read,admin');
});

test('a person without a group reads what is missing, and no tenant', TEST, async (t) => {
  const { server } = await startSignIn(t);
  const page = await openPage(t, browser, server.origin, { statuses: [401, 403] });
  await begin(page);
  await signInAtProvider(page, 'eve');
  await page.getByRole('heading', { name: 'You have no access to this server' }).waitFor();
  assert.deepEqual(await violations(page), []);
  const words = await page.locator('main').innerText();
  assert.match(words, /eve@example\.org/);
  assert.match(words, /sent 1, and none has access/);
  assert.ok(!words.includes('acme') && !words.includes('staff'), words);
  await page.getByRole('link', { name: 'Sign in again' }).click();
  await page.locator('input[name=login]').waitFor({ timeout: 10_000 });
  assert.deepEqual(await audited(server, 'signed_in'), []);
});

test('a sign-in that another browser began is refused', TEST, async (t) => {
  const { server } = await startSignIn(t);
  const attacker = await openPage(t, browser, server.origin, { statuses: [401] });
  attacker.expectStatus(400);
  await begin(attacker);
  await attacker.locator('input[name=login]').waitFor();
  const cookies = await ownCookies(attacker, server);
  assert.equal(cookies.length, 1);
  // Without its cookie the server refuses the code before it is used.
  await attacker.context().clearCookies({ name: cookies[0].name });
  await signInAtProvider(attacker, 'ada');
  await attacker.getByRole('heading', { name: 'This sign-in cannot be continued' }).waitFor();
  const callback = attacker.url();
  const victim = await openPage(t, browser, server.origin, { statuses: [400, 401] });
  await victim.goto(callback);
  await victim.getByRole('heading', { name: 'This sign-in cannot be continued' }).waitFor();
  assert.deepEqual(await audited(server, 'signed_in'), []);

  // Nor does the code for the console work elsewhere.
  await attacker.context().addCookies(cookies);
  const answer = await attacker.request.get(callback, { maxRedirects: 0 });
  const arrival = answer.headers().location;
  assert.match(arrival, /\/#sign-in=[0-9a-f]{64}$/);
  await victim.goto(arrival);
  await victim.locator('#entry-why', { hasText: 'belongs to another browser' }).waitFor();
  assert.equal(await victim.evaluate(() => location.hash), '', 'the code is not kept in the history');
});

/// Runs the command line as a person without a token. `lines` are those for people, as they come.
function recount(folder, words) {
  const child = spawn(BINARY, words, { stdio: ['ignore', 'pipe', 'pipe'], env: plainEnvironment(folder) });
  const exited = once(child, 'exit').then(([code]) => code);
  return { exited, printed: text(child.stdout), lines: createInterface({ input: child.stderr }) };
}

test('recount login is confirmed in a browser, and logout revokes the token', TEST, async (t) => {
  const { server } = await startSignIn(t, { secret: SECRET });
  const folder = await mkdtemp(join(tmpdir(), 'recount-login-'));
  atEnd(t, () => rm(folder, { recursive: true, force: true }));
  const run = async (...words) => {
    const command = recount(folder, ['--url', server.origin, ...words]);
    const lines = [];
    command.lines.on('line', (line) => lines.push(line));
    return { code: await command.exited, printed: await command.printed, words: lines.join('\n') };
  };
  assert.match((await run('ls')).words, /token_missing/);
  const login = recount(folder, ['--url', server.origin, 'login', '--tenant', 'acme']);
  const lines = [];
  const address = new Promise((found) => {
    login.lines.on('line', (line) => {
      lines.push(line);
      const complete = /http\S+user_code=\S+/.exec(line);
      if (complete) found(complete[0]);
    });
  });
  const page = await openPage(t, browser, server.origin, { statuses: [401] });
  await page.route('https://fonts.googleapis.com/**', (route) => route.fulfill({ contentType: 'text/css', body: '' }));
  await page.goto(await address);
  await page.getByRole('button', { name: 'Continue' }).click();
  await signInAtProvider(page, 'boss');
  await page.getByText('Sign-in Success').waitFor();
  assert.equal(await login.exited, 0, lines.join('\n'));
  assert.match(await login.printed, /^signed in to http:\S+ as boss@example\.org, tenant acme, until .* UTC\n$/);

  const kept = join(folder, 'config', 'recount', 'logins.json');
  assert.equal((await stat(kept)).mode & 0o777, 0o600);
  const { token } = JSON.parse(await readFile(kept, 'utf8')).logins[server.origin];
  assert.match(token, /^rct_/);
  assert.ok(!lines.join('\n').includes('rct_') && !server.printed.join('\n').includes('rct_'), 'the token is shown nowhere');
  assert.equal((await run('ls')).code, 0);
  const [facts] = await audited(server, 'signed_in');
  assert.equal(`${facts.name} ${facts.tenant} ${facts.client}`, 'boss@example.org acme device');

  // A token that has expired is not sent, and the way out is named.
  const logins = await readFile(kept, 'utf8');
  await writeFile(kept, logins.replace(/"expires_at": "\d{4}/, '"expires_at": "2000'));
  assert.match((await run('ls')).words, /expired at 2000-.*sign in again with recount login/s);
  await writeFile(kept, logins);

  assert.equal((await run('logout')).printed, `signed out of ${server.origin}\n`);
  assert.match((await run('ls')).words, /token_missing/);
  assert.match((await run('logout')).words, /you are not signed in/);
  const revoked = await fetch(`${server.origin}/v1/runs`, { headers: { authorization: `Bearer ${token}` } });
  assert.equal(revoked.status, 401);
});

test('a provider that is down is named, and the server serves everything else', TEST, async (t) => {
  const { server, provider } = await startSignIn(t);
  await provider.stop();
  const page = await openPage(t, browser, server.origin, { statuses: [401, 503] });
  await begin(page);
  await page.getByRole('heading', { name: 'The sign-in provider is not available' }).waitFor();
  assert.deepEqual(await violations(page), []);
  await page.goto(server.origin);
  await page.getByLabel('Token').fill(server.token);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await connected(page);
});
