// What happens now, in every page, from one stream for each browser: a shared worker holds it, or the page that has a lock
// and passes on what it gets. Closed while the page is hidden in the back-forward cache. Look at `live`.

import { token } from '../../entry.js';
import { Hub } from './hub.js';

const NAME = 'recount.events';

/** @typedef {import('./hub.js').Message} Message */
/** @typedef {{ follow(run: string | null): void, close(): void }} Link */

/** The stream of the shared worker; `failed` is called if the browser cannot start it. @returns {Link} */
function workerLink(receive, failed) {
  const worker = new SharedWorker('/src/stream/worker.js', { type: 'module', name: NAME });
  worker.onerror = failed;
  worker.port.onmessage = ({ data }) => receive(data);
  worker.port.postMessage({ kind: 'join', token: token() });
  return {
    follow: (run) => worker.port.postMessage({ kind: 'follow', run }),
    close() {
      worker.onerror = null;
      worker.port.postMessage({ kind: 'leave' });
      worker.port.close();
    },
  };
}

/** Pages with different tokens may see different runs, so they do not share a channel. */
async function channelName() {
  const bytes = new TextEncoder().encode(token() ?? '');
  const digest = await crypto.subtle.digest('SHA-256', bytes);
  return `${NAME}.${[...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, '0')).join('')}`;
}

/** The stream of the page that holds the lock; the others get what it passes on. @returns {Link} */
function lockLink(receive) {
  const aborting = new AbortController();
  let channel = null;
  let hub = null;
  const lead = () => new Promise((/** @type {(value?: unknown) => void} */ release) => {
    hub = new Hub(token(), (message) => {
      channel.postMessage(message);
      receive(message);
    });
    aborting.signal.addEventListener('abort', () => release());
  });
  channelName().then((name) => {
    if (aborting.signal.aborted) return;
    channel = new BroadcastChannel(name);
    channel.onmessage = ({ data }) => {
      if (data.kind !== 'join') receive(data);
      else if (hub?.isLevel) channel.postMessage({ kind: 'level' });
    };
    channel.postMessage({ kind: 'join' });
    // The lock is free only after its page has closed the stream; a page that leaves while it waits has no error to show.
    navigator.locks.request(name, { signal: aborting.signal }, lead).catch(() => {});
  });
  return {
    follow() {},
    close() {
      hub?.close();
      aborting.abort();
      channel?.close();
    },
  };
}

/** A stream of this page alone, for browsers without locks. @returns {Link} */
function ownLink(receive) {
  const hub = new Hub(token(), receive);
  return { follow() {}, close: () => hub.close() };
}

class Live {
  constructor() {
    /** @type {Link | null} */
    this.link = null;
    this.isLevel = false;
    this.listener = null;
    this.follower = null;
    this.withoutWorker = !('SharedWorker' in window);
    addEventListener('pagehide', () => this.close());
    addEventListener('pageshow', ({ persisted }) => {
      if (persisted && this.listener) this.open();
    });
  }

  /** Starts. `listener` gets `level()`, `lost(refused)` and `event(run, type)`. */
  start(listener) {
    this.listener = listener;
    this.open();
  }

  /** Joins the stream, again if there is another token. */
  open() {
    this.close();
    this.token = token();
    const receive = (message) => this.receive(message);
    if (!this.withoutWorker) {
      this.link = workerLink(receive, () => {
        this.withoutWorker = true;
        this.open();
      });
    } else {
      this.link = 'locks' in navigator && 'BroadcastChannel' in window ? lockLink(receive) : ownLink(receive);
    }
    this.link.follow(this.follower?.run ?? null);
  }

  close() {
    this.link?.close();
    this.link = null;
    this.isLevel = false;
  }

  /** Follows one run; `follower` gets each of its new events, and `level()` when some may be missing. */
  follow(run, follower) {
    this.follower = { run, ...follower };
    this.link?.follow(run);
  }

  unfollow(run) {
    if (this.follower?.run !== run) return;
    this.follower = null;
    this.link?.follow(null);
  }

  /** @param {Message | { kind: 'following' }} message */
  receive(message) {
    if (message.kind === 'following') {
      this.follower?.level();
      return;
    }
    if (message.kind === 'event') {
      if (message.run === this.follower?.run && message.text) this.follower.event(JSON.parse(message.text));
      this.listener.event(message.run, message.type);
      return;
    }
    this.isLevel = message.kind === 'level';
    if (message.kind === 'lost') {
      this.listener.lost(message.refused);
      return;
    }
    this.listener.level();
    this.follower?.level();
  }
}

export const live = new Live();
