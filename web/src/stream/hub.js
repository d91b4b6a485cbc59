// The one stream of all events that a browser holds, and what pages get of it. It runs in the shared worker, or in the
// page that holds the lock. It must not use the document. Look at `Hub`.

const FEED = '/v1/events/stream';
/** How long after a refusal the stream is opened again; after a broken connection the browser reconnects. */
const AGAIN_MS = 5000;

/** Types after which the summary of their run is different; every page gets these. */
export const CHANGES_A_RUN = /^(run\.|approval\.|clarification\.|handoff\.|turn\.completed)/;

/**
 * What pages get. `level`: everything up to now was sent, and what is appended from now on is sent. `lost`: the connection
 * is being restored; `refused` if the server refused it, as it does without a valid token.
 * @typedef {{ kind: 'level' } | { kind: 'lost', refused: boolean }
 *   | { kind: 'event', run: string, sequence: number, type: string, text: string }} Message
 */

/** The address of the stream; a browser sends no token with a stream, so the server gives a ticket for it. */
async function address(token) {
  if (!token) return `${FEED}?after_position=latest`;
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
  const response = await fetch('/v1/tickets', { method: 'POST', headers, body: JSON.stringify({ path: FEED }) });
  if (!response.ok) throw new Error(`the server returned status ${response.status}`);
  const { data } = await response.json();
  return `${FEED}?after_position=latest&ticket=${encodeURIComponent(data.ticket)}`;
}

export class Hub {
  /**
   * @param {string | null} token
   * @param {(message: Message) => void} send
   */
  constructor(token, send) {
    this.token = token;
    this.send = send;
    this.isLevel = false;
    this.closed = false;
    this.source = null;
    this.timer = null;
    this.open();
  }

  async open() {
    let source;
    try {
      source = new EventSource(await address(this.token));
    } catch {
      this.again();
      return;
    }
    if (this.closed) {
      source.close();
      return;
    }
    this.source = source;
    source.addEventListener('caught_up', () => {
      this.isLevel = true;
      this.send({ kind: 'level' });
    });
    source.onmessage = ({ data: text }) => {
      const { run_id: run, sequence, type } = JSON.parse(text);
      this.send({ kind: 'event', run, sequence, type, text });
    };
    source.onerror = () => {
      if (source.readyState === EventSource.CLOSED) {
        this.again();
        return;
      }
      this.isLevel = false;
      this.send({ kind: 'lost', refused: false });
    };
  }

  again() {
    if (this.closed) return;
    this.isLevel = false;
    this.send({ kind: 'lost', refused: true });
    this.timer = setTimeout(() => this.open(), AGAIN_MS);
  }

  close() {
    this.closed = true;
    clearTimeout(this.timer);
    this.source?.close();
  }
}
