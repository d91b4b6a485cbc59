// What a person approves, whole: a command, a diff or the input of a call. It knows whether its end was on the screen.
// Look at `CallContent`.

import { element } from '../page.js';
import { approvedLines, visibleJson } from '../visible.js';
import { bytesOf } from './run/pictures.js';

/** The longest call that is fetched to be shown; a longer one is approved where it can be read. */
const CONTENT_BYTES_MAX = 1024 * 1024;

const NOT_WHOLE = 'Not all of the call can be shown, so it cannot be approved here.';
const NOT_KNOWN = 'The content of the call is not known, so it cannot be approved here.';

/** The kind of a line of a diff, for its colour. */
const tone = (line) => (/^(\+\+\+|---|@@)/.test(line) ? 'hunk' : line.startsWith('+') ? 'add' : line.startsWith('-') ? 'del' : '');

export class CallContent {
  /**
   * @param {any} approval
   * @param {{ changed(): void, shown(wasShown: boolean): void, refuse(why: string): void }} hooks
   */
  constructor(approval, hooks) {
    this.approval = approval;
    this.hooks = hooks;
    /** The text as it is, or `null` while it is not known. @type {string | null} */
    this.text = null;
    this.box = element('pre', 'Loading …', { tabIndex: 0, dir: 'ltr' });
    this.box.setAttribute('role', 'group');
    this.box.setAttribute('aria-label', 'Preview of the call');
    this.end = element('span', undefined, { className: 'end' });
    this.watcher = new IntersectionObserver((entries) => {
      if (entries.some(({ isIntersecting }) => isIntersecting)) hooks.shown(true);
    });
    if (approval.preview) this.load();
  }

  /** The preview, or all of it where the request has only its beginning. */
  async load() {
    const { preview, preview_size_bytes: bytes, preview_artifact_id: id } = this.approval;
    this.show(preview);
    if (!bytes) return;
    this.hooks.refuse(NOT_WHOLE);
    if (!id || bytes > CONTENT_BYTES_MAX) return;
    try {
      this.show(await (await bytesOf(id)).text());
      this.hooks.refuse('');
    } catch {
      // What is missing is stated beside the beginning.
    }
  }

  /** What is known of the call: `undefined` while that is open, `null` if it is not among the events. */
  know(call) {
    if (this.approval.preview || call === undefined) return;
    if (call === null) {
      this.hooks.refuse(NOT_KNOWN);
      this.show('The call is not among the loaded events.');
      return;
    }
    this.hooks.refuse('');
    const { tool_name: tool, input } = call;
    const isCommand = typeof input?.command === 'string' && Object.keys(input).length === 1;
    this.show(isCommand ? input.command : `${tool} ${visibleJson(input)}`);
  }

  show(text) {
    if (text === this.text) return;
    this.text = text;
    const isDiff = this.approval.preview_kind === 'diff';
    const lines = approvedLines(text).map((parts) => {
      const nodes = parts.map((part) => (typeof part === 'string' ? part : element('span', part.count, { className: 'count' })));
      return isDiff ? element('span', nodes, { className: tone(typeof parts[0] === 'string' ? parts[0] : '') }) : nodes;
    });
    this.box.replaceChildren(...lines.flatMap((line, at) => (at === 0 ? line : ['\n', line].flat())), this.end);
    this.watcher.disconnect();
    this.hooks.shown(false);
    this.watcher.observe(this.end);
    this.hooks.changed();
  }

  /** Scrolls to the next part. */
  next() {
    const { box } = this;
    const before = box.scrollTop;
    box.scrollTop += Math.max(box.clientHeight - parseFloat(getComputedStyle(box).lineHeight), 1);
    // The end of the box itself may be out of sight.
    if (box.scrollTop === before) this.end.scrollIntoView({ block: 'nearest' });
  }

  close() {
    this.watcher.disconnect();
  }
}
