// The agents of others as npm has them, each in a home of its own and with the scripted model for its provider.
// Knows how each is started and where it reads its settings, and nothing of what is recorded.

import { spawn } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { BINARY, plainEnvironment } from '../web-tests/server.mjs';

const PACKAGES = fileURLToPath(new URL('node_modules/', import.meta.url));
export const CLAUDE = join(PACKAGES, '@anthropic-ai/claude-code-linux-x64/claude');
const CODEX = join(PACKAGES, '@openai/codex/bin/codex.js');
const GEMINI = join(PACKAGES, '@google/gemini-cli/bundle/gemini.js');

const AGENT_MS_MAX = 120_000;

/// A home and a project for agents, and what they are told of the server and the model.
export async function agentHome(server, model) {
  const home = join(server.folder, 'home');
  const project = join(home, 'project');
  await mkdir(join(home, '.gemini'), { recursive: true });
  await mkdir(join(home, '.codex'), { recursive: true });
  await mkdir(join(home, '.claude'), { recursive: true });
  await mkdir(project);
  await writeFile(
    join(home, '.gemini/settings.json'),
    '{"security":{"auth":{"selectedType":"gemini-api-key"}},"privacy":{"usageStatisticsEnabled":false}}\n',
  );
  await writeFile(
    join(home, '.codex/config.toml'),
    `model = "gpt-5"
model_provider = "scripted"
check_for_update_on_startup = false

[model_providers.scripted]
name = "scripted"
base_url = "${model.url}/v1"
wire_api = "responses"
env_key = "OPENAI_API_KEY"
`,
  );
  const env = {
    ...plainEnvironment(home),
    RECOUNT_URL: server.origin,
    ANTHROPIC_BASE_URL: model.url,
    ANTHROPIC_API_KEY: 'sk-ant-scripted',
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
    CLAUDE_CODE_EXECUTABLE: CLAUDE,
    DISABLE_AUTOUPDATER: '1',
    // Otherwise it does not start as root.
    IS_SANDBOX: '1',
    OPENAI_API_KEY: 'sk-scripted',
    // Its own sandbox is not what is tested, and does not run everywhere.
    INITIAL_AGENT_MODE: 'agent-full-access',
    GEMINI_API_KEY: 'scripted',
    GOOGLE_GEMINI_BASE_URL: model.url,
    GEMINI_CLI_TRUST_WORKSPACE: 'true',
    OPENCODE_DISABLE_AUTOUPDATE: '1',
    OPENCODE_DISABLE_MODELS_FETCH: '1',
    OPENCODE_DISABLE_DEFAULT_PLUGINS: '1',
    OPENCODE_DISABLE_LSP_DOWNLOAD: '1',
    OPENCODE_PURE: '1',
    OPENCODE_PERMISSION: '{"bash":"ask"}',
    OPENCODE_CONFIG_CONTENT: JSON.stringify({
      model: 'scripted/play',
      small_model: 'scripted/play',
      autoupdate: false,
      share: 'disabled',
      provider: {
        scripted: {
          npm: '@ai-sdk/openai-compatible',
          name: 'scripted',
          options: { baseURL: `${model.url}/v1`, apiKey: 'sk-scripted' },
          models: { play: { name: 'play', limit: { context: 100000, output: 8000 } } },
        },
      },
    }),
  };
  return { home, project, env };
}

/// How each answers one prompt without a person: with every tool allowed.
export const ONE_PROMPT = {
  claude: (prompt) => [CLAUDE, '-p', prompt, '--allowedTools', 'Bash'],
  codex: (prompt) => [
    process.execPath,
    CODEX,
    'exec',
    '--skip-git-repo-check',
    '--dangerously-bypass-approvals-and-sandbox',
    '--dangerously-bypass-hook-trust',
    prompt,
  ],
  gemini: (prompt) => [process.execPath, GEMINI, '-m', 'gemini-2.5-flash', '--yolo', '-p', prompt],
};

/// How each is started as an ACP agent.
export const ACP_AGENTS = {
  'codex-acp': [process.execPath, join(PACKAGES, '@agentclientprotocol/codex-acp/dist/index.js')],
  opencode: [join(PACKAGES, 'opencode-linux-x64-baseline/bin/opencode'), 'acp'],
  'claude-agent-acp': [process.execPath, join(PACKAGES, '@agentclientprotocol/claude-agent-acp/dist/index.js')],
};

/// Runs a program to its end; rejects with what it printed where it fails.
export async function run({ project, env }, [program, ...words]) {
  const child = spawn(program, words, { cwd: project, env, stdio: ['ignore', 'pipe', 'pipe'] });
  const printed = [];
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (piece) => printed.push(piece));
  }
  const timer = setTimeout(() => child.kill('SIGKILL'), AGENT_MS_MAX);
  const [code, signal] = await new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (...how) => resolve(how));
  });
  clearTimeout(timer);
  if (code !== 0) throw new Error(`${program} ended with ${code ?? signal}: ${printed.join('')}`);
  return printed.join('');
}

/// The recorder with an agent behind it.
export function startRecorded({ home, project, env }, agent, options = []) {
  const child = spawn(BINARY, ['acp', ...options, '--', ...agent], {
    cwd: project,
    env: { ...env, RECOUNT_ACP_STATE: join(home, 'acp-state') },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const ended = new Promise((resolve) => child.once('exit', (code, signal) => resolve(code ?? signal)));
  return { child, ended };
}
