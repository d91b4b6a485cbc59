// The transcript: a window on the things of a run, which moves as the reader scrolls, and follows the end while that
// is in sight. However long the run is, only the window has elements. Look at `Transcript`.

import { announce } from '../voice.js';
import { element } from '../../page.js';
import { counted } from '../time.js';
import { itemNode } from './items.js';

/** How many things are made at once, how many in a frame while the reader scrolls, and how many there are at most. */
const STEP = 24;
const STEP_OF_A_FRAME = 10;
const WINDOW_MAX = 160;
const HOLDS = CSS.supports('overflow-anchor', 'auto');
/** How near to the end counts as the end. */
const NEAR_PX = 80;
/** How far from the edge of the window the next things are made. */
const AHEAD_PX = 900;

export class Transcript {
  /// `context` is what the things need to know of the run.
  constructor(context) {
    this.context = context;
    this.list = element('div', undefined, { className: 'things', tabIndex: -1 });
    this.list.setAttribute('role', 'feed');
    this.list.setAttribute('aria-label', 'Transcript');
    this.earlier = element('button', 'Show earlier', { type: 'button', hidden: true });
    this.later = element('button', 'Show later', { type: 'button', hidden: true });
    this.bounds = element('p', '', { className: 'quiet', hidden: true });
    this.newest = element('button', 'Go to the newest', { type: 'button', className: 'newest', hidden: true });
    this.node = element('div', [this.bounds, this.earlier, this.list, this.later, this.newest], { className: 'transcript' });
    this.items = [];
    this.from = 0;
    this.to = 0;
    this.nodes = new Map();
    this.following = true;
    this.wanted = null;
    this.onScroll = () => this.scrolled();
    this.earlier.addEventListener('click', () => this.more(-1, true));
    this.later.addEventListener('click', () => this.more(1, true));
    this.newest.addEventListener('click', () => this.toEnd());
  }

  /** What scrolls: the transcript's own box on wide screens, the page on narrow ones. */
  get scroller() {
    const box = this.context.scroller();
    return getComputedStyle(box).overflowY === 'auto' ? box : document.scrollingElement;
  }

  attach() {
    this.context.scroller().addEventListener('scroll', this.onScroll, { passive: true });
    document.addEventListener('scroll', this.onScroll, { passive: true });
    this.watcher = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) {
        if (isIntersecting) this.more(target === this.earlier ? -1 : 1);
      }
    }, { root: this.scroller === this.context.scroller() ? this.scroller : null, rootMargin: `${AHEAD_PX}px` });
    this.watcher.observe(this.earlier);
    this.watcher.observe(this.later);
  }

  detach() {
    this.context.scroller().removeEventListener('scroll', this.onScroll);
    document.removeEventListener('scroll', this.onScroll);
    this.watcher?.disconnect();
  }

  /** Shows a fold anew, or another one of the same run: what is on the page keeps its place. */
  replace(fold) {
    const first = this.items[this.from];
    const after = this.items.length - this.to;
    this.items = fold.view.items;
    if (first === undefined) {
      this.to = this.items.length;
      this.from = Math.max(this.to - STEP, 0);
    } else {
      const at = this.items.findIndex(({ key, sequence }) => key === first.key || sequence >= first.sequence);
      this.from = at < 0 ? Math.max(this.items.length - STEP, 0) : at;
      this.to = Math.max(this.items.length - after, this.from);
    }
    fold.takeChanges();
    this.fill();
    // What an item offers depends on the run as well, whose change is not one of the item.
    for (const { item, update } of this.nodes.values()) update(item);
    this.showBounds();
  }

  /** What changed since the last time, and what is new. */
  update(changed) {
    const { items } = this;
    for (const item of changed) this.nodes.get(item.key)?.update(item);
    if (this.wanted !== null) return;
    if (this.following || this.to - this.from < STEP) {
      this.to = items.length;
      if (this.to - this.from > WINDOW_MAX && !this.inUse(this.from, this.to - WINDOW_MAX)) this.from = this.to - WINDOW_MAX + STEP;
      this.fill();
      if (this.following) this.scroller.scrollTop = this.scroller.scrollHeight;
    }
    this.showBounds();
  }

  /** Nothing is removed while a reader is in it. */
  inUse(from, to) {
    return this.items.slice(from, to).some(({ key }) => {
      const node = this.nodes.get(key)?.node;
      return node && (node.contains(document.activeElement) || node.querySelector('details[open]'));
    });
  }

  /** Makes the elements of the window, in order, and takes away all others. */
  fill() {
    const wanted = this.items.slice(this.from, this.to);
    const keys = new Set(wanted.map(({ key }) => key));
    for (const [key, { node }] of this.nodes) {
      if (keys.has(key)) continue;
      this.nodes.delete(key);
      if (node.contains(document.activeElement)) this.list.focus();
      node.remove();
    }
    let before = this.list.firstChild;
    for (const item of wanted) {
      let made = this.nodes.get(item.key);
      if (!made) {
        made = itemNode(item, this.context);
        this.nodes.set(item.key, made);
        this.list.insertBefore(made.node, before);
      } else {
        if (made.node === before) before = before.nextSibling;
        else this.list.insertBefore(made.node, before);
      }
      made.item = item;
    }
  }

  /** Moves the window by a step; what is in sight stays where it is. */
  more(direction, asked = false) {
    const { scroller } = this;
    // Browsers that hold what is in sight by themselves need no measuring, which costs a layout.
    const inSight = HOLDS ? null : [...this.list.children].find((node) => node.getBoundingClientRect().bottom > 0 && !node.hidden);
    const top = inSight?.getBoundingClientRect().top;
    if (HOLDS && direction < 0 && scroller.scrollTop === 0) scroller.scrollTop = 1;
    const [from, to] = [this.from, this.to];
    const step = asked ? STEP : STEP_OF_A_FRAME;
    if (direction < 0) {
      this.from = Math.max(this.from - step, 0);
      if (this.to - this.from > WINDOW_MAX) this.to = this.from + WINDOW_MAX;
    } else {
      this.to = Math.min(this.to + step, this.items.length);
      if (this.to - this.from > WINDOW_MAX) this.from = this.to - WINDOW_MAX;
    }
    if (from === this.from && to === this.to) return;
    this.fill();
    if (inSight?.isConnected) scroller.scrollTop += inSight.getBoundingClientRect().top - top;
    this.showBounds();
    // Looked at once more: the edge may still be near.
    for (const edge of [this.earlier, this.later]) {
      this.watcher?.unobserve(edge);
      this.watcher?.observe(edge);
    }
    if (asked) announce(`${counted(Math.abs(from - this.from) + Math.abs(to - this.to), 'more item')} shown.`);
  }

  scrolled() {
    const { scroller } = this;
    const end = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < NEAR_PX;
    this.following = end && this.to === this.items.length;
    this.newest.hidden = this.following;
  }

  toEnd() {
    this.wanted = null;
    this.to = this.items.length;
    this.from = Math.max(this.to - STEP, 0);
    this.fill();
    this.showBounds();
    this.following = true;
    this.newest.hidden = true;
    this.scroller.scrollTop = this.scroller.scrollHeight;
    this.list.lastElementChild?.focus({ preventScroll: true });
  }

  /** Goes to what an event belongs to; answers whether it was there. */
  goTo(sequence) {
    const fold = this.context.fold();
    if (fold.view.first === null || sequence > fold.view.last) {
      this.wanted = sequence;
      return false;
    }
    const item = fold.itemAt(sequence);
    if (!item || (sequence < fold.view.first && this.context.reading())) {
      this.wanted = sequence;
      return false;
    }
    this.wanted = null;
    this.following = false;
    const at = this.items.indexOf(item);
    if (at < this.from || at >= this.to) {
      this.from = Math.max(at - STEP / 2, 0);
      this.to = Math.min(this.from + STEP, this.items.length);
      this.fill();
      this.showBounds();
    }
    const { node } = this.nodes.get(item.key);
    node.scrollIntoView({ block: 'center' });
    node.focus({ preventScroll: true });
    this.list.querySelector('.target')?.classList.remove('target');
    node.classList.add('target');
    return true;
  }

  /** The next or the previous thing gets the focus. */
  step(direction) {
    const all = [...this.list.children].filter((node) => !node.hidden && node.offsetParent !== null);
    const at = all.findIndex((node) => node.contains(document.activeElement));
    const next = at < 0 ? all.find((node) => node.getBoundingClientRect().bottom > 120) : all[at + direction];
    if (!next) return;
    next.focus();
    next.scrollIntoView({ block: 'nearest' });
  }

  showBounds() {
    this.earlier.hidden = this.from === 0;
    this.later.hidden = this.to === this.items.length;
    const words = this.context.bounds();
    this.bounds.hidden = words === '' || this.from > 0;
    if (this.bounds.textContent !== words) this.bounds.textContent = words;
  }
}
