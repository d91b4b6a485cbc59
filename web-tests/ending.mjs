// What a test has set up is taken down in the opposite order: pages before the server they look at.

const undone = new WeakMap();

/// Has `undo` run when the test ends, after everything that was set up later.
export function atEnd(t, undo) {
  if (!undone.has(t)) {
    const stack = [];
    undone.set(t, stack);
    t.after(async () => {
      const errors = [];
      for (const step of stack.reverse()) {
        await step().catch((error) => errors.push(error));
      }
      if (errors.length > 0) throw errors[0];
    });
  }
  undone.get(t).push(undo);
}
