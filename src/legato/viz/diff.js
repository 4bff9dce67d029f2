"use strict";
// Which lines of `now` are new, and which of `before` are gone: the fewest (Myers, O(ND)). Lines are numbers.

const MOST = 2000;  // differences up to which they are found exactly; beyond, lines are compared by how often they occur

function difference(before, now) {
  let start = 0, end = 0;
  while (start < before.length && start < now.length && before[start] === now[start]) start++;
  while (end < before.length - start && end < now.length - start &&
         before[before.length - 1 - end] === now[now.length - 1 - end]) end++;
  const a = before.slice(start, before.length - end), b = now.slice(start, now.length - end);
  const [gone, fresh] = shortest(a, b) || counted(a, b);
  return {gone: gone.map(n => n + start), fresh: new Set(fresh.map(n => n + start))};
}

function shortest(a, b) {
  const most = Math.min(MOST, a.length + b.length), row = new Int32Array(2 * most + 3), rows = [];
  for (let d = 0; d <= most; d++) {
    rows.push(row.slice(most - d, most + d + 3));
    for (let k = -d; k <= d; k += 2) {
      const down = k === -d || (k !== d && row[most + k] < row[most + k + 2]);
      let x = down ? row[most + k + 2] : row[most + k] + 1;
      while (x < a.length && x - k < b.length && a[x] === b[x - k]) x++;
      row[most + k + 1] = x;
      if (x >= a.length && x - k >= b.length) return traced(rows, d, a.length, b.length);
    }
  }
  return null;
}

// Each entry of `rows` has the diagonals -d - 1 … d + 1 as they were before step d.
function traced(rows, d, x, y) {
  const gone = [], fresh = [];
  for (; d > 0; d--) {
    const row = rows[d], k = x - y;
    const down = k === -d || (k !== d && row[d + k] < row[d + k + 2]);
    const before = down ? row[d + k + 2] : row[d + k];
    if (down) fresh.push(before - (k + 1)); else gone.push(before);
    x = before;
    y = before - (down ? k + 1 : k - 1);
  }
  return [gone.reverse(), fresh.reverse()];
}

function counted(a, b) {
  const beyond = (lines, others) => {
    const left = new Map();
    for (const line of others) left.set(line, (left.get(line) || 0) + 1);
    const found = [];
    lines.forEach((line, n) => {
      const count = left.get(line) || 0;
      if (count) left.set(line, count - 1); else found.push(n);
    });
    return found;
  };
  return [beyond(a, b), beyond(b, a)];
}
