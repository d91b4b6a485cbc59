// Agents of other vendors from npm and PyPI, each with a home of its own and the scripted model as its provider.
// Defines how each is started and where it reads its settings. It must not know what is recorded.

import { spawn } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { BINARY, plainEnvironment } from '../web-tests/server.mjs';
import { NOTES, NOTES_BEFORE } from './model.mjs';

const PACKAGES = fileURLToPath(new URL('node_modules/', import.meta.url));
export const CLAUDE = join(PACKAGES, '@anthropic-ai/claude-code-linux-x64/claude');
const CODEX = join(PACKAGES, '@openai/codex/bin/codex.js');
const GEMINI = join(PACKAGES, '@google/gemini-cli/bundle/gemini.js');
/// The folder with a Python environment for each agent from PyPI.
const PYTHON_AGENTS = process.env.RECOUNT_PYTHON_AGENTS ?? fileURLToPath(new URL('../target/agents/', import.meta.url));

const AGENT_MS_MAX = 120_000;

/// Settings of each agent, by their path in its home.
function settings(model) {
  return {
    '.claude/settings.json': JSON.stringify({ permissions: { defaultMode: 'default' } }),
    '.codex/config.toml': `model = "gpt-5.5"
model_provider = "scripted"
check_for_update_on_startup = false

[model_providers.scripted]
name = "scripted"
base_url = "${model.url}/v1"
wire_api = "responses"
env_key = "OPENAI_API_KEY"
`,
    '.gemini/settings.json': JSON.stringify({
      security: { auth: { selectedType: 'gemini-api-key' } },
      privacy: { usageStatisticsEnabled: false },
    }),
    '.qwen/settings.json': JSON.stringify({
      security: { auth: { selectedType: 'openai' } },
      privacy: { usageStatisticsEnabled: false },
      // Otherwise it sends the model requests of its own after a prompt.
      memory: { enableManagedAutoMemory: false, enableManagedAutoDream: false, enableAutoSkill: false },
    }),
    '.vibe/config.toml': `active_model = "play"
default_agent = "ask"
enable_telemetry = false
enable_update_checks = false
enable_auto_update = false

[[providers]]
name = "scripted"
api_base = "${model.url}/v1"
api_key_env_var = "OPENAI_API_KEY"
backend = "generic"

[[models]]
name = "play"
alias = "play"
provider = "scripted"
input_price = 1.0
output_price = 2.0
`,
  };
}

/// The project of the agents of a server.
export function projectFolder(server) {
  return join(server.folder, 'home/project');
}

/// A home and a project for agents, and the environment in which they find the server and the model.
export async function agentHome(server, model) {
  const home = join(server.folder, 'home');
  const project = projectFolder(server);
  await mkdir(project, { recursive: true });
  await writeFile(join(project, NOTES), NOTES_BEFORE);
  for (const [path, text] of Object.entries(settings(model))) {
    await mkdir(join(home, path, '..'), { recursive: true });
    await writeFile(join(home, path), text);
  }
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
    OPENAI_BASE_URL: `${model.url}/v1`,
    OPENAI_MODEL: 'play',
    // The mode of codex-acp in which a person permits each change.
    INITIAL_AGENT_MODE: 'read-only',
    GEMINI_API_KEY: 'scripted',
    GOOGLE_GEMINI_BASE_URL: model.url,
    GEMINI_CLI_TRUST_WORKSPACE: 'true',
    COPILOT_OFFLINE: 'true',
    COPILOT_PROVIDER_BASE_URL: `${model.url}/v1`,
    COPILOT_PROVIDER_API_KEY: 'sk-scripted',
    COPILOT_MODEL: 'play',
    COPILOT_AUTO_UPDATE: 'false',
    GENERIC_API_KEY: 'sk-scripted',
    GENERIC_BASE_URL: `${model.url}/v1`,
    VIBE_HOME: join(home, '.vibe'),
    OPENCODE_DISABLE_AUTOUPDATE: '1',
    OPENCODE_DISABLE_MODELS_FETCH: '1',
    OPENCODE_DISABLE_DEFAULT_PLUGINS: '1',
    OPENCODE_DISABLE_LSP_DOWNLOAD: '1',
    OPENCODE_PURE: '1',
    OPENCODE_PERMISSION: '{"bash":"ask","edit":"ask"}',
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
          models: { play: { name: 'play', limit: { context: 100000, output: 8000 }, cost: { input: 1, output: 2 } } },
        },
      },
    }),
  };
  return { home, project, env };
}

/// How each answers one prompt without a person: with every tool allowed. By the name that `recount connect` knows.
export const HOOK_AGENTS = {
  claude: (prompt) => [CLAUDE, '-p', prompt, '--allowedTools', 'Bash,Read,Edit'],
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

/// Where they keep transcripts, in the home, and the name of the format.
export const TRANSCRIPTS = {
  claude: { source: 'claude-transcripts', folder: '.claude/projects' },
  codex: { source: 'codex-rollouts', folder: '.codex/sessions' },
};

/// How each is started as an ACP agent that requests permission for each command and each change.
///
/// - `tokens`: the requests to the model whose tokens it reports: all of a prompt, the last one, or none.
/// - `cost`: whether it reports the cost.
/// - `fragment`: its diffs are parts of a file without their place.
/// - `shellFields`: further values for the call of the shell.
/// - `usesEditor`: it requests permissions only if the editor offers its files and its terminal.
export const ACP_AGENTS = {
  'codex-acp': {
    command: [process.execPath, join(PACKAGES, '@agentclientprotocol/codex-acp/dist/index.js')],
    tokens: 'all',
    // It requests permission only for a command outside its sandbox.
    shellFields: { sandbox_permissions: 'require_escalated', justification: 'Print a number?' },
  },
  opencode: { command: [join(PACKAGES, 'opencode-linux-x64-baseline/bin/opencode'), 'acp'], tokens: 'last', cost: true },
  'claude-agent-acp': {
    command: [process.execPath, join(PACKAGES, '@agentclientprotocol/claude-agent-acp/dist/index.js')],
    tokens: 'all',
    cost: true,
  },
  'qwen-code': {
    command: [process.execPath, join(PACKAGES, '@qwen-code/qwen-code/cli-entry.js'), '--acp', '--approval-mode', 'default'],
    tokens: 'all',
  },
  copilot: { command: [join(PACKAGES, '@github/copilot-linux-x64/copilot'), '--acp'], tokens: 'all', fragment: true },
  'mistral-vibe': {
    command: [join(PYTHON_AGENTS, 'mistral-vibe/python/bin/vibe-acp')],
    tokens: 'all',
    cost: true,
    fragment: true,
  },
  'fast-agent': {
    command: [join(PYTHON_AGENTS, 'fast-agent/python/bin/fast-agent-acp'), '--model', 'generic.play', '--shell'],
    tokens: 'none',
    usesEditor: true,
  },
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

/// An agent and its recorder.
export function startRecorded({ home, project, env }, agent, options = []) {
  const child = spawn(BINARY, ['acp', ...options, '--', ...agent], {
    cwd: project,
    env: { ...env, RECOUNT_ACP_STATE: join(home, 'acp-state') },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const ended = new Promise((resolve) => child.once('exit', (code, signal) => resolve(code ?? signal)));
  return { child, ended };
}
