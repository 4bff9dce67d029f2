"use strict";
// Where units lie: the order within ranks comes with the page (viz/layout.py), lengths depend on what is open.

const CHARACTER = 6.6, LINE = 14, PAD = 10, GAP = 16, BETWEEN = 26, HEAD = 20, LONGEST = 44;

function shortened(text) {
  const flat = text.split(/\s+/).join(" ").trim();
  return flat.length <= LONGEST ? flat : flat.slice(0, LONGEST - 1) + "…";
}

function shareText(share) {
  if (share === null) return "";
  return share >= LEAST ? ` ${(100 * share).toFixed(1)} %` : " <0.1 %";
}

function titleOf(part) {
  return shortened(part.label) + shareText(part.share);
}

// Middles that keep the order and leave gaps, with the least sum of squared distances from those wanted.
function apart(wanted, widths) {
  const blocks = [], offsets = [0];
  for (let n = 1; n < widths.length; n++) offsets.push(offsets[n - 1] + (widths[n - 1] + widths[n]) / 2 + GAP);
  for (let n = 0; n < wanted.length; n++) {
    let mean = wanted[n] - offsets[n], count = 1;
    while (blocks.length && blocks[blocks.length - 1][0] > mean) {
      const [before, more] = blocks.pop();
      mean = (before * more + mean * count) / (more + count);
      count += more;
    }
    blocks.push([mean, count]);
  }
  const found = [];
  for (const [mean, count] of blocks) for (let n = 0; n < count; n++) found.push(mean + offsets[found.length]);
  return found;
}

// The units of one cluster: {unit: [x, y]}, and the size of all together. Units are nodes, or -1 - cluster.
function arranged(ranks, edges, sizes) {
  const near = new Map(), middle = new Map(), places = new Map();
  const join = (a, b) => near.has(a) ? near.get(a).push(b) : near.set(a, [b]);
  for (let k = 0; k < edges.length; k += 2) {
    join(edges[k], edges[k + 1]);
    join(edges[k + 1], edges[k]);
  }
  for (const line of [...ranks, ...ranks.slice().reverse()]) {
    const wanted = line.map(unit => {
      const known = (near.get(unit) || []).filter(other => middle.has(other));
      if (!known.length) return middle.get(unit) || 0;
      return known.reduce((sum, other) => sum + middle.get(other), 0) / known.length;
    });
    apart(wanted, line.map(unit => sizes.get(unit)[0])).forEach((x, n) => middle.set(line[n], x));
  }
  let left = Infinity, right = -Infinity, y = 0;
  for (const [unit, x] of middle) {
    left = Math.min(left, x - sizes.get(unit)[0] / 2);
    right = Math.max(right, x + sizes.get(unit)[0] / 2);
  }
  for (const line of ranks) {
    const height = line.reduce((most, unit) => Math.max(most, sizes.get(unit)[1]), 0);
    for (const unit of line) {
      const [w, h] = sizes.get(unit);
      places.set(unit, [middle.get(unit) - w / 2 - left, y + (height - h) / 2]);
    }
    y += height + BETWEEN;
  }
  return [places, ranks.length ? [right - left, y - BETWEEN] : [0, 0]];
}

// Boxes of all that is visible: {boxes: {unit: {x, y, w, h}}, width, height}.
function layOut(stage, isOpen) {
  const sizes = new Map(), inside = [], module = stage.clusters.length, boxes = new Map();
  const shown = visible(stage, isOpen);
  stage.nodes.forEach((node, n) => {
    const width = CHARACTER * Math.max(titleOf(node).length, shortened(node.type).length) + 2 * PAD;
    sizes.set(n, [width, LINE * (node.type ? 2 : 1) + 8]);
  });
  let total = [0, 0];
  for (let c = module - 1; c >= 0; c--) size(c);
  [inside[module], total] = arranged(stage.ranks[module], stage.edges[module], sizes);
  function size(c) {
    const cluster = stage.clusters[c];
    const least = CHARACTER * (titleOf(cluster).length + 3) + 2 * PAD;
    const type = CHARACTER * shortened(cluster.type).length + 24 + PAD;
    if (!shown[c] || !isOpen(c)) {
      sizes.set(-1 - c, [Math.max(least, type), LINE * (cluster.type ? 2 : 1) + 8]);
      return;
    }
    let extent;
    [inside[c], extent] = arranged(stage.ranks[c], stage.edges[c], sizes);
    sizes.set(-1 - c, [Math.max(extent[0], least) + 2 * PAD, extent[1] + HEAD + 2 * PAD]);
  }
  const put = (c, left, top) => inside[c].forEach(([x, y], unit) => {
    const [w, h] = sizes.get(unit);
    boxes.set(unit, {x: left + x, y: top + y, w, h});
  });
  put(module, PAD, PAD);
  for (let c = 0; c < module; c++) {
    const box = boxes.get(-1 - c);
    if (box && shown[c] && isOpen(c)) put(c, box.x + PAD, box.y + HEAD + PAD);
  }
  return {boxes, width: total[0] + 2 * PAD, height: total[1] + 2 * PAD};
}

// For each cluster whether all around it are open.
function visible(stage, isOpen) {
  const shown = [];
  stage.clusters.forEach((cluster, c) => {
    shown[c] = cluster.parent < 0 || (shown[cluster.parent] && isOpen(cluster.parent));
  });
  return shown;
}

// The unit that stands for each node: itself, or the outermost closed cluster around it.
function standIns(stage, isOpen) {
  const closed = [];
  stage.clusters.forEach((cluster, c) => {
    const around = cluster.parent < 0 ? null : closed[cluster.parent];
    closed[c] = around !== null ? around : isOpen(c) ? null : -1 - c;
  });
  return stage.nodes.map((node, n) => node.cluster >= 0 && closed[node.cluster] !== null ? closed[node.cluster] : n);
}

function curve(a, b, port, ports) {
  const x = a.x + a.w / 2, y = a.y + a.h, u = b.x + b.w * (port + 1) / (ports + 1), v = b.y;
  const drop = Math.max(12, (v - y) / 3);
  let side = 0;
  if (v - y > 2 * BETWEEN + 2 * LINE && Math.abs(u - x) < 60)
    side = Math.max(a.w, b.w) / 2 + Math.min(120, 20 + (v - y) / 12);
  return `M${x} ${y}C${x + side} ${y + drop} ${u + side} ${v - drop} ${u} ${v}`;
}
