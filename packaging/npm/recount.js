#!/usr/bin/env node
// Starts the program recount from the package for this platform, and ends as it ends.
'use strict';

const { spawn } = require('node:child_process');

const name = `@recount/recount-${process.platform}-${process.arch}`;
const file = process.platform === 'win32' ? 'recount.exe' : 'recount';

let program;
try {
  program = require.resolve(`${name}/${file}`);
} catch {
  console.error(
    `recount: the package ${name} is missing; npm omits it with --omit=optional, ` +
      'and on platforms without a program: build it from source there',
  );
  process.exit(5);
}

const child = spawn(program, process.argv.slice(2), { stdio: 'inherit' });
// A terminal sends SIGINT to both; other signals reach only this process.
process.on('SIGINT', () => {});
for (const signal of ['SIGTERM', 'SIGHUP']) {
  process.on(signal, () => child.kill(signal));
}
child.on('error', (error) => {
  console.error(`recount: cannot start ${program}: ${error.message}`);
  process.exit(5);
});
child.on('exit', (status, signal) => {
  if (signal) {
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  } else {
    process.exit(status);
  }
});
