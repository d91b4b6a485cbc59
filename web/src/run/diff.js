// Unified diffs as rows: what was there on the left, what is there on the right. Pure. Look at `parseDiff`.

/**
 * The rows of a diff: `{ kind, text, left, right }`, where `kind` is `file`, `hunk`, `same`, `del`, `add` or `note`, and
 * `left` and `right` are numbers of lines.
 * @param {string} text
 */
export function parseDiff(text) {
  const rows = [];
  let left = 0;
  let right = 0;
  // How many lines of the hunk are still to come: a removed line may look like the head of a file.
  let leftRest = 0;
  let rightRest = 0;
  for (const line of text.replace(/\n$/, '').split('\n')) {
    const hunk = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@(.*)$/.exec(line);
    const inHunk = leftRest > 0 || rightRest > 0;
    // Lines of a hunk begin with another sign, so that this one always begins the next.
    if (hunk) {
      [left, right] = [Number(hunk[1]), Number(hunk[3])];
      [leftRest, rightRest] = [Number(hunk[2] ?? 1), Number(hunk[4] ?? 1)];
      rows.push({ kind: 'hunk', text: line });
    } else if (inHunk && line.startsWith('-')) {
      rows.push({ kind: 'del', text: line.slice(1), left });
      left += 1;
      leftRest -= 1;
    } else if (inHunk && line.startsWith('+')) {
      rows.push({ kind: 'add', text: line.slice(1), right });
      right += 1;
      rightRest -= 1;
    } else if (inHunk && !line.startsWith('\\')) {
      rows.push({ kind: 'same', text: line.slice(1), left, right });
      left += 1;
      right += 1;
      leftRest -= 1;
      rightRest -= 1;
    } else if (line.startsWith('\\')) {
      rows.push({ kind: 'note', text: line.slice(2) });
    } else {
      rows.push({ kind: 'file', text: line });
    }
  }
  return rows;
}

/** Pairs of rows for two columns: removed lines stand beside the added ones that took their place. */
export function sideBySide(rows) {
  const pairs = [];
  for (let at = 0; at < rows.length;) {
    const row = rows[at];
    if (row.kind !== 'del' && row.kind !== 'add') {
      pairs.push(row.kind === 'same' ? { left: row, right: row } : { both: row });
      at += 1;
      continue;
    }
    const removed = [];
    const added = [];
    while (rows[at]?.kind === 'del') removed.push(rows[at++]);
    while (rows[at]?.kind === 'add') added.push(rows[at++]);
    for (let line = 0; line < Math.max(removed.length, added.length); line += 1) {
      pairs.push({ left: removed[line] ?? null, right: added[line] ?? null });
    }
  }
  return pairs;
}

/** How many lines a diff adds and removes. */
export function diffCounts(rows) {
  return { added: rows.filter(({ kind }) => kind === 'add').length, removed: rows.filter(({ kind }) => kind === 'del').length };
}
