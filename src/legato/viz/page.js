"use strict";
// The page of `legato show --html`. Strings of the model are only ever put in as text.

const SVG = "http://www.w3.org/2000/svg", ROW = 17, SMALL = 0.35, MANY = 300;
const started = performance.now();
const data = JSON.parse(document.getElementById("data").textContent);
const at = id => document.getElementById(id);
const state = {stage: data.start, open: new Map(), selected: null, hits: [], marked: new Set(), hit: -1, x: 0, y: 0, scale: 1};
const stages = data.stages.map(() => null), keys = new Map();
let stage = null, drawn = null, changes = null, rows = [], waiting = false;

// ---------------------------------------------------------------------------------------------- what the page holds

function loaded(n) {
  if (stages[n]) return stages[n];
  const raw = data.stages[n], word = k => data.strings[k];
  const nodes = raw.nodes.map(([kind, label, type, detail, span, cluster, line, share, inputs]) => (
    {kind: word(kind), label: word(label), type: word(type), detail: word(detail), span: word(span), cluster, line, share, inputs}));
  const clusters = raw.clusters.map(([kind, label, type, detail, span, parent, line, share]) => (
    {kind: word(kind), label: word(label), type: word(type), detail: word(detail), span: word(span), parent, line, share}));
  const counts = new Map();
  for (const cluster of clusters) {  // what is open stays so from stage to stage, by name
    const name = `${cluster.parent < 0 ? "" : clusters[cluster.parent].key}/${cluster.kind} ${cluster.label}`;
    counts.set(name, (counts.get(name) || 0) + 1);
    const full = `${name} ${counts.get(name)}`;
    if (!keys.has(full)) keys.set(full, keys.size);
    cluster.key = keys.get(full);
  }
  const units = new Set(raw.ranks.flat(2)), byLine = new Map();  // constants, and clusters of nothing else, have no box
  clusters.forEach((cluster, c) => { if (units.has(-1 - c) && !byLine.has(cluster.line)) byLine.set(cluster.line, -1 - c); });
  nodes.forEach((node, n) => { if (units.has(n) && node.kind !== "parameter") byLine.set(node.line, n); });
  const held = {name: raw.name, nodes, clusters, units, ranks: raw.ranks, edges: raw.edges, lines: raw.lines, keys: raw.keys, byLine};
  return stages[n] = held;
}

function textOf(line) {
  let n = 0;
  return data.templates[line[0]].replace(/\u0001/g, () => `%${line[++n]}`);
}

function isOpen(c) {
  const cluster = stage.clusters[c], chosen = state.open.get(cluster.key);
  if (chosen !== undefined) return chosen;
  if (cluster.kind === "function") return cluster.label === "@main" || stage.clusters.length === 1;
  return stage.nodes.length <= MANY || cluster.kind !== "group";
}

function part(unit) {
  return unit < 0 ? stage.clusters[-1 - unit] : stage.nodes[unit];
}

// ---------------------------------------------------------------------------------------------- stages

function show(n, reset) {
  state.stage = n;
  stage = loaded(n);
  state.selected = null;
  const before = n ? loaded(n - 1).keys : null;
  changes = before ? difference(before, stage.keys) : {gone: [], fresh: new Set()};
  at("stage").value = n;
  at("name").textContent = `${n + 1}/${stages.length} ${stage.name}`;
  at("changed").textContent = before ? `+${changes.fresh.size} −${changes.gone.length} lines` : "";
  tellRows();
  arrange();
  if (reset) home();
  search(false);
  told();
}

function tellRows() {
  const gone = new Map();
  if (at("removed").checked && state.stage) {
    const before = loaded(state.stage - 1).lines;
    for (const line of changes.gone) {
      const place = placeOf(line);
      gone.has(place) ? gone.get(place).push(before[line]) : gone.set(place, [before[line]]);
    }
  }
  rows = [];
  for (let n = 0; n <= stage.lines.length; n++) {
    for (const line of gone.get(n) || []) rows.push({line: -1, text: line});
    if (n < stage.lines.length) rows.push({line: n, text: stage.lines[n]});
  }
  rows.of = new Map(rows.map((row, n) => [row.line, n]));
  at("space").style.height = `${rows.length * ROW}px`;
  at("lines").dataset.rows = rows.length;
  drawText();
}

// Before which line of this stage a line of the stage before stood.
function placeOf(line) {
  if (!changes.places) {
    const before = loaded(state.stage - 1).lines.length, gone = new Set(changes.gone);
    changes.places = [];
    for (let old = 0, now = 0; old < before; old++) {
      while (changes.fresh.has(now)) now++;
      changes.places.push(Math.min(now, stage.lines.length));
      if (!gone.has(old)) now++;
    }
  }
  return changes.places[line];
}

function isFresh(unit) {
  return changes.fresh.has(part(unit).line);
}

// ---------------------------------------------------------------------------------------------- the graph

function arrange() {
  drawn = layOut(stage, isOpen);
  drawn.of = standIns(stage, isOpen);
  drawn.fresh = new Set();
  stage.nodes.forEach((node, n) => { if (node.kind !== "parameter" && isFresh(n)) drawn.fresh.add(drawn.of[n]); });
  drawn.edges = [];
  const seen = new Set();
  stage.nodes.forEach((node, n) => node.inputs.forEach((source, port) => {
    const a = drawn.of[source], b = drawn.of[n], key = `${a} ${b}`;
    if (a === b || !drawn.boxes.has(a) || !drawn.boxes.has(b) || seen.has(key)) return;
    seen.add(key);
    drawn.edges.push([a, b, b < 0 ? 0 : port, b < 0 ? 1 : node.inputs.length]);
  }));
  const order = stage.nodes.map((_, n) => n).filter(n => drawn.boxes.has(n));
  drawn.units = [...stage.clusters.keys()].map(c => -1 - c).filter(unit => drawn.boxes.has(unit)).concat(order);
  draw();
}

function home() {
  const view = at("graph").getBoundingClientRect(), main = stage.clusters.findIndex(c => c.label === "@main");
  const box = drawn.boxes.get(-1 - Math.max(main, 0)) || {x: 0, y: 0, w: drawn.width};
  state.scale = Math.min(1, Math.max(0.5, view.width / (box.w + 40)));
  state.x = box.x + box.w / 2 - view.width / 2 / state.scale;
  state.y = box.y - 10;
  draw();
}

function fit() {
  const view = at("graph").getBoundingClientRect();
  state.scale = Math.min(view.width / drawn.width, view.height / drawn.height, 1);
  state.x = (drawn.width - view.width / state.scale) / 2;
  state.y = (drawn.height - view.height / state.scale) / 2;
  draw();
}

function draw() {
  if (!waiting) requestAnimationFrame(() => { waiting = false; drawGraph(); });
  waiting = true;
}

function element(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const key in attributes) made.setAttribute(key, attributes[key]);
  if (text !== undefined) made.textContent = text;
  return made;
}

function drawGraph() {
  const view = at("graph").getBoundingClientRect(), far = 60;
  const left = state.x - far, top = state.y - far;
  const right = state.x + view.width / state.scale + far, bottom = state.y + view.height / state.scale + far;
  const sees = box => box.x < right && box.x + box.w > left && box.y < bottom && box.y + box.h > top;
  const world = element("g", {transform: `scale(${state.scale}) translate(${-state.x} ${-state.y})`});
  const units = drawn.units.filter(unit => sees(drawn.boxes.get(unit)));
  const isFrame = unit => unit < 0 && isOpen(-1 - unit);
  const open = units.filter(isFrame), boxes = units.filter(unit => !isFrame(unit));
  if (state.scale < SMALL || boxes.length > 1500) drawSmall(world, open, boxes);
  else drawLarge(world, open, boxes, left, right, top, bottom);
  at("canvas").replaceChildren(world);
}

function edgesIn(left, right, top, bottom) {
  return drawn.edges.filter(([a, b]) => {
    const from = drawn.boxes.get(a), to = drawn.boxes.get(b);
    return from.y < bottom && to.y + to.h > top && Math.min(from.x, to.x) - 300 < right && Math.max(from.x + from.w, to.x + to.w) + 300 > left;
  }).map(([a, b, port, ports]) => curve(drawn.boxes.get(a), drawn.boxes.get(b), port, ports)).join("");
}

// From far away: one path for all boxes of a kind.
function drawSmall(world, open, boxes) {
  const paths = units => {
    const found = new Map();
    for (const unit of units) {
      const box = drawn.boxes.get(unit), kind = classOf(unit);
      found.set(kind, (found.get(kind) || "") + `M${box.x} ${box.y}h${box.w}v${box.h}h${-box.w}z`);
    }
    return [...found].map(([kind, d]) => element("path", {class: kind, d}));
  };
  const edges = element("path", {class: "edge", d: edgesIn(-Infinity, Infinity, -Infinity, Infinity)});
  world.append(...paths(open), edges, ...paths(boxes));
}

function drawLarge(world, open, boxes, left, right, top, bottom) {
  for (const unit of open) world.append(drawBox(unit, true));
  world.append(element("path", {class: "edge", d: edgesIn(left, right, top, bottom)}));
  for (const unit of boxes) world.append(drawBox(unit, false));
}

function classOf(unit) {
  const names = [`${unit < 0 ? "c" : "k"}-${part(unit).kind}`];
  if (drawn.fresh.has(unit) && !(unit < 0 && isOpen(-1 - unit))) names.push("fresh");
  if (state.marked.has(unit)) names.push("hit");
  if (state.selected === unit) names.push("selected");
  return names.join(" ");
}

function drawBox(unit, open) {
  const box = drawn.boxes.get(unit), it = part(unit), group = element("g", {class: classOf(unit)});
  group.dataset[unit < 0 ? "cluster" : "node"] = unit < 0 ? -1 - unit : unit;
  group.append(element("rect", {x: box.x, y: box.y, width: box.w, height: box.h, rx: 4}));
  if (it.share !== null && !open)
    group.append(element("rect", {class: "share", x: box.x, y: box.y + box.h - 3, width: box.w * Math.min(1, it.share), height: 3}));
  if (unit < 0) {
    const fold = element("g", {class: "fold"});
    fold.dataset.fold = -1 - unit;
    fold.append(element("rect", {x: box.x + 4, y: box.y + 4, width: 14, height: 14, rx: 2}),
                element("text", {x: box.x + 11, y: box.y + 15, "text-anchor": "middle"}, open ? "−" : "+"));
    group.append(fold, element("text", {class: "title", x: box.x + 24, y: box.y + 15}, titleOf(it)));
    if (!open && it.type) group.append(element("text", {class: "type", x: box.x + 24, y: box.y + 29}, shortened(it.type)));
  } else {
    const x = box.x + box.w / 2;
    group.append(element("text", {class: "title", x, y: box.y + 15, "text-anchor": "middle"}, titleOf(it)));
    if (it.type) group.append(element("text", {class: "type", x, y: box.y + 29, "text-anchor": "middle"}, shortened(it.type)));
  }
  return group;
}

function toggle(c) {
  const before = drawn.boxes.get(-1 - c);
  state.open.set(stage.clusters[c].key, !isOpen(c));
  arrange();
  const now = drawn.boxes.get(-1 - c);
  if (before && now) { state.x += now.x - before.x; state.y += now.y - before.y; }
  draw();
}

function foldAll(open) {
  for (const cluster of stage.clusters) if (cluster.kind !== "function" || open) state.open.set(cluster.key, open);
  arrange();
  home();
}

// Makes a unit visible, in the middle.
function go(unit) {
  for (let c = part(unit)[unit < 0 ? "parent" : "cluster"]; c >= 0; c = stage.clusters[c].parent)
    if (!isOpen(c)) state.open.set(stage.clusters[c].key, true);
  if (!drawn.boxes.has(unit)) arrange();
  const box = drawn.boxes.get(unit), view = at("graph").getBoundingClientRect();
  state.scale = Math.max(state.scale, 0.8);
  state.x = box.x + box.w / 2 - view.width / 2 / state.scale;
  state.y = box.y + Math.min(box.h / 2, 40) - view.height / 2 / state.scale;
  draw();
}

function select(unit, scrolls) {
  state.selected = unit;
  if (scrolls && unit !== null && rows.of.has(part(unit).line)) {
    const pane = at("text"), y = rows.of.get(part(unit).line) * ROW;
    if (y < pane.scrollTop || y > pane.scrollTop + pane.clientHeight - ROW) pane.scrollTop = y - pane.clientHeight / 2;
  }
  draw();
  drawText();
  told();
}

// ---------------------------------------------------------------------------------------------- the text

function drawText() {
  const pane = at("text"), first = Math.max(0, Math.floor(pane.scrollTop / ROW) - 20);
  const last = Math.min(rows.length, first + Math.ceil(pane.clientHeight / ROW) + 40);
  const here = state.selected === null ? -2 : part(state.selected).line;
  const made = [];
  for (let n = first; n < last; n++) {
    const row = rows[n], line = document.createElement("div"), number = document.createElement("span");
    line.className = row.line < 0 ? "gone" : changes.fresh.has(row.line) ? "fresh" : "";
    if (row.line === here) line.classList.add("selected");
    line.style.top = `${n * ROW}px`;
    if (row.line >= 0) line.dataset.line = row.line;
    number.textContent = row.line < 0 ? "−" : row.line + 1;
    line.append(number, textOf(row.text));
    made.push(line);
  }
  at("lines").replaceChildren(...made);
}

// ---------------------------------------------------------------------------------------------- search, and what is told

function search(moves) {
  const wanted = at("search").value.trim().toLowerCase();
  state.hits = [];
  state.hit = -1;
  if (wanted) {
    const has = it => [it.label, it.type, it.detail, it.span].some(text => text.toLowerCase().includes(wanted));
    stage.nodes.forEach((node, n) => { if (stage.units.has(n) && has(node)) state.hits.push(n); });
    stage.clusters.forEach((cluster, c) => { if (stage.units.has(-1 - c) && has(cluster)) state.hits.push(-1 - c); });
  }
  state.marked = new Set(state.hits);
  if (moves && state.hits.length) next(1); else { tellHits(); draw(); }
}

function next(step) {
  if (!state.hits.length) return;
  state.hit = (state.hit + step + state.hits.length) % state.hits.length;
  go(state.hits[state.hit]);
  select(state.hits[state.hit], true);
  tellHits();
}

function tellHits() {
  at("found").textContent = at("search").value.trim() ? `${state.hit + 1}/${state.hits.length}` : "";
}

function told() {
  const lines = [];
  if (state.selected !== null) {
    const it = part(state.selected);
    lines.push([it.kind, it.label], ["type", it.type], ["attributes", it.detail], ["from", it.span]);
    if (it.share !== null) lines.push(["time", shareText(it.share)]);
    if (state.selected >= 0 && it.inputs.length)
      lines.push(["reads", it.inputs.map(n => `${stage.nodes[n].label} ${stage.nodes[n].type}`).join(" · ")]);
  }
  at("told").replaceChildren(...lines.filter(([, text]) => text).flatMap(([name, text]) => {
    const head = document.createElement("dt"), body = document.createElement("dd");
    head.textContent = name;
    body.textContent = text;
    return [head, body];
  }));
}

// ---------------------------------------------------------------------------------------------- what people do

function listen() {
  at("stage").max = stages.length - 1;
  at("stage").addEventListener("input", event => show(Number(event.target.value), false));
  at("search").addEventListener("input", () => search(true));
  at("search").addEventListener("keydown", event => { if (event.key === "Enter") next(event.shiftKey ? -1 : 1); });
  at("next").addEventListener("click", () => next(1));
  at("removed").addEventListener("change", tellRows);
  at("fold").addEventListener("click", () => foldAll(false));
  at("unfold").addEventListener("click", () => foldAll(true));
  at("fit").addEventListener("click", fit);
  at("home").addEventListener("click", home);
  at("text").addEventListener("scroll", drawText);
  at("lines").addEventListener("click", event => {
    const line = event.target.closest("[data-line]"), unit = line ? stage.byLine.get(Number(line.dataset.line)) : undefined;
    if (unit === undefined || getSelection().toString()) return;
    go(unit);
    select(unit, false);
  });
  window.addEventListener("resize", () => { draw(); drawText(); });
  document.addEventListener("keydown", event => {
    if (event.key === "/" && event.target.tagName !== "INPUT") { event.preventDefault(); at("search").focus(); }
  });
  move(at("canvas"));
}

// Dragging moves the picture, the wheel too; with Ctrl it makes it larger and smaller.
function move(canvas) {
  let held = null;
  canvas.addEventListener("pointerdown", event => { held = {x: event.clientX, y: event.clientY, moved: false}; });
  window.addEventListener("pointermove", event => {
    if (!held) return;
    const dx = event.clientX - held.x, dy = event.clientY - held.y;
    if (!held.moved && Math.abs(dx) + Math.abs(dy) < 4) return;
    state.x -= dx / state.scale;
    state.y -= dy / state.scale;
    held = {x: event.clientX, y: event.clientY, moved: true};
    draw();
  });
  window.addEventListener("pointerup", event => {
    const clicked = held && !held.moved;
    held = null;
    if (!clicked || !canvas.contains(event.target)) return;
    const fold = event.target.closest("[data-fold]"), box = event.target.closest("[data-node],[data-cluster]");
    if (fold) toggle(Number(fold.dataset.fold));
    else if (box) select(box.dataset.node !== undefined ? Number(box.dataset.node) : -1 - Number(box.dataset.cluster), true);
    else select(null, false);
  });
  canvas.addEventListener("wheel", event => {
    event.preventDefault();
    if (!event.ctrlKey) {
      state.x += event.deltaX / state.scale;
      state.y += event.deltaY / state.scale;
      return draw();
    }
    const view = canvas.getBoundingClientRect(), old = state.scale;
    state.scale = Math.min(3, Math.max(0.01, old * Math.exp(-event.deltaY / 300)));
    state.x += (event.clientX - view.left) * (1 / old - 1 / state.scale);
    state.y += (event.clientY - view.top) * (1 / old - 1 / state.scale);
    draw();
  }, {passive: false});
}

listen();
show(data.start, true);
document.documentElement.dataset.ready = Math.round(performance.now() - started);
