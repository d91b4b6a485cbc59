// The site of the documentation: no page asks another host, and axe finds nothing. Full tier, because it installs mdBook.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

import { violations } from './axe.mjs';
import { launch } from './browser.mjs';
import { isFull } from './tier.mjs';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const PAGES = ['index', 'nodes', 'signed-heads', 'cli', 'faces/aep', 'record/index', 'decisions/index'];
const VIEWS = [{ colorScheme: 'light' }, { colorScheme: 'dark' }, { viewport: { width: 390, height: 800 } }];

if (isFull) {
  let browser;
  before(async () => {
    await promisify(execFile)('cargo', ['xtask', 'site'], { cwd: ROOT, maxBuffer: 1 << 26 });
    browser = await launch();
  }, { timeout: 1_800_000 });
  after(() => browser?.close());

  for (const view of VIEWS) {
    test(`the pages of the site are accessible and private: ${JSON.stringify(view)}`, { timeout: 180_000 }, async () => {
      const page = await (await browser.newContext(view)).newPage();
      const foreign = [];
      page.on('request', (request) => {
        if (!/^(file|data):/.test(request.url())) foreign.push(request.url());
      });
      for (const name of PAGES) {
        await page.goto(`file://${ROOT}target/site/${name}.html`);
        await page.locator('#mdbook-content h1').first().waitFor();
        assert.deepEqual(await violations(page), [], name);
      }
      assert.deepEqual(foreign, []);
      await page.context().close();
    });
  }
}
