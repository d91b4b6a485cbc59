// Cost and tokens, turn by turn: a drawing for the eye, and the same as a table. Custom element `recount-plot`.

import { element } from '../../page.js';
import { visible } from '../../visible.js';
import { costOf } from '../runs.js';
import { count, duration, money, tokens } from '../time.js';

const SVG = 'http://www.w3.org/2000/svg';
const WIDTH = 800;
const HEIGHT = 160;
/** How many turns are drawn one by one; of more, neighbours share a bar. */
const BARS_MAX = 200;
/** How many turns the table has; the newest ones. */
const ROWS_MAX = 1000;

function shape(name, attributes, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  made.append(...children);
  return made;
}

/** Turns as bars: neighbours together when there are too many. */
function barsOf(turns) {
  const each = Math.ceil(turns.length / BARS_MAX) || 1;
  const bars = [];
  for (let at = 0; at < turns.length; at += each) {
    const some = turns.slice(at, at + each);
    const sum = (name) => some.reduce((all, turn) => all + (turn[name] ?? 0), 0);
    bars.push({ name: some.length > 1 ? `turns ${some[0].index + 1} to ${some.at(-1).index + 1}` : `turn ${some[0].index + 1}`,
      input: sum('input_tokens'), output: sum('output_tokens'), cost: sum('cost_micros_usd') });
  }
  return bars;
}

class Plot extends HTMLElement {
  show(turns) {
    const bars = barsOf(turns);
    const most = Math.max(...bars.map(({ input, output }) => input + output), 1);
    const costs = Math.max(...bars.map(({ cost }) => cost), 1);
    const step = WIDTH / Math.max(bars.length, 8);
    const drawing = shape('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT + 24}`, 'aria-hidden': 'true', class: 'plot' });
    bars.forEach(({ name, input, output, cost }, at) => {
      const [inputHeight, outputHeight] = [input, output].map((value) => (value / most) * HEIGHT);
      const group = shape('g', {});
      const place = { x: at * step + step * 0.12, width: Math.max(step * 0.76, 1) };
      group.append(
        shape('title', {}, `${name}: ${tokens(input)} in, ${tokens(output)} out, ${money(cost)}`),
        shape('rect', { ...place, y: HEIGHT - inputHeight, height: inputHeight, class: 'bar-in' }),
        shape('rect', { ...place, y: HEIGHT - inputHeight - outputHeight, height: outputHeight, class: 'bar-out' }),
      );
      if (cost > 0) group.append(shape('circle', { cx: at * step + step / 2, cy: HEIGHT + 6 - (cost / costs) * HEIGHT, r: 3, class: 'dot-cost' }));
      drawing.append(group);
    });
    drawing.append(shape('line', { x1: 0, x2: WIDTH, y1: HEIGHT, y2: HEIGHT, class: 'axis' }));
    const label = (x, anchor, text) => shape('text', { x, y: HEIGHT + 18, 'text-anchor': anchor, class: 'label' }, text);
    if (bars.length > 0) drawing.append(label(4, 'start', bars[0].name), label(WIDTH - 4, 'end', `highest: ${tokens(most)} tokens`));
    const legend = element('p', ['input', 'output', 'cost'].flatMap((name) => [element('span', '', { className: `key key-${name}` }), ` ${name} `]), { className: 'legend' });
    legend.ariaHidden = 'true';
    this.replaceChildren(drawing, legend);
  }
}

customElements.define('recount-plot', Plot);

const HEADS = ['Turn', 'Model', 'Input tokens', 'Cached tokens', 'Output tokens', 'Cost', 'Tool calls', 'Duration', 'Stop reason'];

export class CostView {
  constructor(context) {
    this.context = context;
    this.totals = element('dl', undefined, { className: 'facts totals' });
    this.plot = /** @type {Plot} */ (document.createElement('recount-plot'));
    this.body = element('tbody');
    this.foot = element('tfoot');
    const table = element('table', [
      element('caption', 'Cost and tokens by turn'),
      element('thead', element('tr', HEADS.map((name) => element('th', name, { scope: 'col' })))), this.body, this.foot,
    ], { className: 'figures-table' });
    this.scroll = element('div', table, { className: 'scroll', tabIndex: 0 });
    this.scroll.setAttribute('role', 'region');
    this.scroll.setAttribute('aria-label', 'Cost and tokens by turn');
    this.empty = element('p', 'No turns yet.', { className: 'quiet' });
    this.node = element('div', [this.totals, this.empty, this.plot, this.scroll], { className: 'cost' });
  }

  update() {
    const { turns, cost, run } = this.context.fold().view;
    const facts = [['Cost so far', costOf({ driver: run.driver, cost_micros_usd: cost.micros_usd }) || 'unknown'], ['Input tokens', count(cost.input_tokens)], ['Output tokens', count(cost.output_tokens)],
      ['Cost of earlier runs', cost.prior_cost_micros_usd ? money(cost.prior_cost_micros_usd) : ''],
      ['Task budget', cost.task_budget_micros_usd ? money(cost.task_budget_micros_usd) : ''],
      ['Budget remaining', Number.isFinite(cost.task_budget_remaining_micros_usd) ? money(cost.task_budget_remaining_micros_usd) : ''],
      ['Tokens remaining', count(cost.task_budget_remaining_tokens)]];
    this.totals.replaceChildren(...facts.filter(([, words]) => words).map(([name, words]) => element('div', [element('dt', name), element('dd', words)])));
    this.empty.hidden = turns.length > 0;
    this.plot.hidden = turns.length === 0;
    this.scroll.hidden = turns.length === 0;
    this.plot.show(turns);
    this.body.replaceChildren(...turns.slice(-ROWS_MAX).map((turn) => this.row(turn)));
    const sum = (name) => turns.reduce((all, turn) => all + (turn[name] ?? 0), 0);
    const [before, after] = ['input_tokens', 'output_tokens'].map((name) => (cost[name] ?? 0) - sum(name));
    const others = before > 0 || after > 0
      ? [element('tr', [element('th', 'Earlier runs, and outside of turns', { scope: 'row', colSpan: 2 }),
        ...[count(before), '', count(after), '', '', '', ''].map((words) => element('td', words))])] : [];
    const cells = [count(sum('input_tokens')), count(sum('cached_input_tokens')), count(sum('output_tokens')), money(sum('cost_micros_usd')),
      count(sum('calls')), duration(sum('duration_ms')), ''];
    this.foot.replaceChildren(element('tr', [element('th', 'All turns', { scope: 'row', colSpan: 2 }), ...cells.map((words) => element('td', words))]), ...others);
  }

  row(turn) {
    const name = `${turn.index + 1}${turn.attempt > 1 ? ` (attempt ${turn.attempt})` : ''}`;
    const link = element('a', name, { href: this.context.linkTo(turn.sequence) });
    const ended = turn.state === 'open' ? 'running' : turn.failure?.code ?? turn.stop_reason ?? '';
    return element('tr', [element('th', link, { scope: 'row' }), ...[visible(turn.model ?? ''), count(turn.input_tokens ?? NaN),
      count(turn.cached_input_tokens ?? NaN), count(turn.output_tokens ?? NaN), money(turn.cost_micros_usd ?? NaN), count(turn.calls),
      duration(turn.duration_ms ?? NaN), visible(ended)].map((words) => element('td', words))]);
  }
}
