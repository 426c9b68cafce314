"use strict";
// The report page: draws the charts of the JSON in #data as SVG, and answers pointer and keyboard.
// Nothing is fetched. Names of the data reach the page as text only, never as markup.
(() => {
const data = JSON.parse(document.getElementById("data").textContent);
const hidden = new Set();
const panels = [];
const NS = "http://www.w3.org/2000/svg";

/* ---- elements ------------------------------------------------------------------------------ */

function svg(name, attributes, parent, text) {
  const node = document.createElementNS(NS, name);
  for (const key in attributes) node.setAttribute(key, attributes[key]);
  if (text !== undefined) node.textContent = text;
  if (parent) parent.append(node);
  return node;
}

function html(name, className, parent, text) {
  const node = document.createElement(name);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  if (parent) parent.append(node);
  return node;
}

const color = (series) => `var(--s${series})`;

/* Of an engine that another run has too only the first is filled. */
const fill = (s) => data.series[s].dash.length
  ? `fill:${color(s)};fill-opacity:.2;stroke:${color(s)};stroke-width:1.5` : `fill:${color(s)}`;

const SHAPES = {
  circle: "M-3.6 0a3.6 3.6 0 1 0 7.2 0a3.6 3.6 0 1 0 -7.2 0z",
  square: "M-3.3-3.3H3.3V3.3H-3.3z",
  diamond: "M0-4.6 4.6 0 0 4.6-4.6 0z",
  up: "M0-4.4 4.2 3.2H-4.2z",
  down: "M0 4.4 4.2-3.2H-4.2z",
  plus: "M-1.4-4.4H1.4V-1.4H4.4V1.4H1.4V4.4H-1.4V1.4H-4.4V-1.4H-1.4z",
  cross: "M0-2 2.1-4.1 4.1-2.1 2 0 4.1 2.1 2.1 4.1 0 2-2.1 4.1-4.1 2.1-2 0-4.1-2.1-2.1-4.1z",
  hexagon: "M-4.6 0-2.3-3.6H2.3L4.6 0 2.3 3.6H-2.3z",
  left: "M-4.4 0 3.2-4.2V4.2z",
  right: "M4.4 0-3.2 4.2V-4.2z",
  star: "M0-5.2 1.3-1.8 4.9-1.6 2.1.7 3.1 4.2 0 2.2-3.1 4.2-2.1.7-4.9-1.6-1.3-1.8z",
  hourglass: "M-4-4.4H4L.9 0 4 4.4H-4L-.9 0z",
  bowtie: "M-4.4-4 0-.9 4.4-4V4L0 .9-4.4 4z",
  bar: "M-1.7-4.8H1.7V4.8H-1.7z",
};

function mark(series, x, y, parent, hollow) {
  const style = hollow
    ? `fill:var(--paper);stroke:${color(series)};stroke-width:1.6` : `fill:${color(series)}`;
  const d = SHAPES[data.series[series].shape];
  return svg("path", { d, transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})`, style }, parent);
}

/* ---- numbers ------------------------------------------------------------------------------- */

const trimmed = (value, digits) => String(Number(value.toPrecision(digits)));

function short(value) {
  if (value === 0) return "0";
  const steps = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
  for (const [size, suffix] of steps) {
    if (Math.abs(value) >= size * 0.9995) return trimmed(value / size, 3) + suffix;
  }
  return trimmed(value, 3);
}

/* A size in the unit that fits it. */
function size(value) {
  const steps = [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [1024, "KiB"]];
  for (const [bytes, unit] of steps) {
    if (value >= bytes * 0.9995) return `${trimmed(value / bytes, 3)} ${unit}`;
  }
  return `${Number(value.toFixed(value < 10 ? 2 : 1))} B`;
}

/* The unit for values up to `largest`: divisor and name. */
function scaled(unit, largest) {
  const pick = (steps) => steps.find(([size]) => largest >= size * 0.99999) || steps[steps.length - 1];
  switch (unit.kind) {
    case "ns": return pick([[1e9, "s"], [1e6, "ms"], [1e3, "\u00b5s"], [1, "ns"]]);
    case "bytes": return pick([[2 ** 30, "GiB"], [2 ** 20, "MiB"], [1024, "KiB"], [1, "bytes"]]);
    case "rate": return [1, unit.label + "/s"];
    default: return [1, unit.label];
  }
}

function written(unit, value) {
  const [divisor, name] = scaled(unit, value);
  const number = unit.kind === "ns" || unit.kind === "bytes" ? trimmed(value / divisor, 3) : short(value);
  return name === "" ? number : name === "%" ? number + " %" : `${number} ${name}`;
}

function linearTicks(low, high, count) {
  const least = (high - low) / count;
  if (!(least > 0)) return [];
  const power = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 2.5, 5, 10].map((f) => f * power).find((s) => s >= least * (1 - 1e-9));
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) ticks.push(i * step);
  return ticks;
}

function logTicks(low, high, count) {
  const decades = Math.log10(high / low);
  const factors = decades < 2.2 ? [1, 2, 5] : decades < 3.2 ? [1, 3] : [1];
  let ticks = powers(low, high, factors, Math.max(1, Math.ceil(decades / count)));
  // Every second power may be too few of them.
  if (ticks.length < 3 && factors.length === 1) ticks = powers(low, high, factors, 1);
  // Too little of a logarithm for its powers: it is nearly straight there.
  return ticks.length < 3 ? linearTicks(low, high, count) : ticks;
}

function powers(low, high, factors, every) {
  const ticks = [];
  for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e++) {
    if (factors.length === 1 && ((e % every) + every) % every) continue;
    for (const f of factors) {
      const value = f * 10 ** e;
      if (value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9)) ticks.push(value);
    }
  }
  return ticks;
}

function percentile(x) {
  const share = 100 * (1 - 1 / x);
  if (x <= 2) return `${trimmed(share, 2)}%`;
  return `${trimmed(share, 2 + Math.ceil(Math.log10(x)))}%`;
}

/* ---- axes ---------------------------------------------------------------------------------- */

/* A scale maps values to 0..1 between low and high. */
function ruler(axis, low, high, marks) {
  const log = axis.scale !== "linear";
  const share = log
    ? (v) => Math.log(v / low) / Math.log(high / low)
    : (v) => (v - low) / (high - low);
  const value = log ? (s) => low * (high / low) ** s : (s) => low + s * (high - low);
  return { axis, low, high, marks, share, value };
}

function xRuler(axis, dots, view) {
  let xs = dots.map((d) => d[0]).concat(axis.marks);
  let low = Math.min(...xs), high = Math.max(...xs);
  if (axis.scale === "nines") { low = 1; high = Math.max(high, 10); }
  else if (axis.scale === "log2") { const room = Math.max((high / low) ** 0.05, 1.05); low /= room; high *= room; }
  else if (axis.marks.length) { const room = Math.max((high - low) * 0.05, 0.5); low -= room; high += room; }
  else { low = 0; high = high > 0 ? high : 1; }
  if (view) [low, high] = view;
  let marks;
  if (axis.marks.length) {
    const every = Math.ceil(axis.marks.length / 9);
    marks = axis.marks.filter((_, i) => i % every === 0);
  } else if (axis.scale === "nines") {
    marks = [1, 2];
    for (let v = 10; v <= high * 1.000001; v *= 10) marks.push(v);
  } else marks = axis.scale === "linear" ? linearTicks(low, high, 7) : logTicks(low, high, 7);
  return ruler(axis, low, high, marks.filter((v) => v >= low * 0.999999 && v <= high * 1.000001));
}

function yRuler(axis, values) {
  values = values.filter(Number.isFinite);
  let low = Math.min(...values), high = Math.max(...values);
  if (!values.length) { low = axis.scale === "linear" ? 0 : 0.1; high = 1; }
  if (axis.scale === "linear") {
    low = Math.min(low, 0) * 1.08;
    high = high > low ? low + (high - low) * 1.08 : low + 1;
    const [divisor, name] = scaled(axis.unit, high);
    const marks = linearTicks(low / divisor, high / divisor, 5).map((v) => v * divisor);
    return Object.assign(ruler(axis, low, high, marks), { divisor, name });
  }
  low /= 1.3; high *= 1.3;
  if (axis.unit.kind === "ns") return Object.assign(ruler(axis, low, high, logTicks(low, high, 5)), { divisor: 1, name: "", own: true });
  const [divisor, name] = scaled(axis.unit, high);
  const marks = logTicks(low / divisor, high / divisor, 5).map((v) => v * divisor);
  return Object.assign(ruler(axis, low, high, marks), { divisor, name });
}

/* ---- panels -------------------------------------------------------------------------------- */

class Panel {
  constructor(chart, spec, host, group) {
    Object.assign(this, { chart, spec, group, view: null, at: -1 });
    this.figure = html("figure", "panel", host);
    this.figure.tabIndex = 0;
    this.figure.setAttribute("role", "group");
    this.figure.setAttribute("aria-label", `${chart.title}: ${spec.title || "chart"}`);
    if (spec.title) html("figcaption", "", this.figure, spec.title);
    this.reset = html("button", "reset controls", this.figure, "reset zoom");
    this.reset.hidden = true;
    this.reset.addEventListener("click", () => this.zoom(null));
    this.logs = html("button", "reset logs controls", this.figure, "log");
    this.logs.hidden = !(spec.y && spec.y.scale === "linear");
    this.logs.setAttribute("aria-pressed", "false");
    this.logs.title = "logarithmic y axis (key l)";
    this.logs.addEventListener("click", () => this.logarithmic());
    this.root = svg("svg", { "aria-hidden": "true" }, this.figure);
    this.figure.addEventListener("keydown", (event) => this.key(event));
    this.figure.addEventListener("blur", () => this.leave());
    this.root.addEventListener("pointermove", (event) => this.move(event));
    this.root.addEventListener("pointerleave", () => this.leave());
    group.push(this);
    panels.push(this);
  }
  draw() {
    this.width = Math.max(260, this.figure.clientWidth || 480);
    this.root.replaceChildren();
    this.paint();
    this.root.setAttribute("height", this.height);
    this.root.setAttribute("viewBox", `0 0 ${this.width} ${this.height}`);
  }
  leave() { this.at = -1; if (this.cursor) this.cursor.replaceChildren(); hideTip(); }
  zoom() {}
  key() {}
  move() {}
  plane(left, top, right, bottom) {
    this.box = { left, top, width: this.width - left - right, height: this.height - top - bottom };
    return this.box;
  }
  yAxis(y) {
    const { left, top, width, height } = this.box;
    for (const v of y.marks) {
      const at = top + height * (1 - y.share(v));
      svg("line", { x1: left, x2: left + width, y1: at, y2: at, class: "grid" }, this.root);
      // Too many powers for one unit: each mark has its own.
      const label = y.own ? written(y.axis.unit, v) : short(v / y.divisor);
      svg("text", { x: left - 6, y: at + 4, "text-anchor": "end" }, this.root, label);
    }
    const x = 11, middle = top + height / 2;
    svg("text", { x, y: middle, "text-anchor": "middle", transform: `rotate(-90 ${x} ${middle})` },
      this.root, y.name);
  }
}

class Lines extends Panel {
  shown() { return this.spec.curves.filter((curve) => !hidden.has(curve.s)); }
  paint() {
    this.height = this.chart.panels.length > 1 ? 250 : 330;
    const box = this.plane(54, 12, 14, 40);
    const all = this.spec.curves.flatMap((curve) => curve.d);
    this.full = xRuler(this.spec.x, all, null);
    const x = this.x = xRuler(this.spec.x, all, this.view);
    const inside = (d) => d[0] >= x.low * 0.999999 && d[0] <= x.high * 1.000001;
    const seen = this.shown().flatMap((curve) => curve.d.filter(inside));
    const values = seen.flatMap((d) => d.slice(1));
    const y = this.y = this.log
      ? yRuler({ unit: this.spec.y.unit, scale: "log10" }, values.filter((v) => v > 0))
      : yRuler(this.spec.y, values);
    this.yAxis(y);
    const bottom = box.top + box.height;
    svg("line", { x1: box.left, x2: box.left + box.width, y1: bottom, y2: bottom, class: "base" }, this.root);
    let free = -1e9;
    for (const v of x.marks) {
      const at = box.left + box.width * x.share(v);
      const label = x.axis.scale === "nines" ? percentile(v) : short(v);
      svg("line", { x1: at, x2: at, y1: bottom, y2: bottom + 4, class: "base" }, this.root);
      if (at - label.length * 3.4 < free) continue;
      free = at + label.length * 3.4 + 6;
      svg("text", { x: at, y: bottom + 16, "text-anchor": "middle" }, this.root, label);
    }
    svg("text", { x: box.left + box.width / 2, y: bottom + 33, "text-anchor": "middle" }, this.root, x.axis.unit.label);
    const clip = `clip${panels.indexOf(this)}`;
    svg("rect", { x: box.left - 5, y: box.top - 5, width: box.width + 10, height: box.height + 10 },
      svg("clipPath", { id: clip }, this.root));
    const layer = svg("g", { "clip-path": `url(#${clip})` }, this.root);
    const px = (v) => box.left + box.width * x.share(v);
    const py = (v) => box.top + box.height * (1 - y.share(Math.max(v, y.axis.scale === "linear" ? v : y.low)));
    Object.assign(this, { px, py });
    for (const curve of this.shown()) {
      const style = `stroke:${color(curve.s)}`;
      for (const d of curve.d) {
        if (d.length < 4) continue;
        const at = px(d[0]).toFixed(1), from = py(d[2]).toFixed(1), to = py(d[3]).toFixed(1);
        svg("path", { d: `M${at} ${from}V${to}m-4 0h8M${at - 4} ${from}h8`, style, class: "curve thin" }, layer);
      }
      const points = curve.d.map((d) => `${px(d[0]).toFixed(1)},${py(d[1]).toFixed(1)}`).join(" ");
      const dash = data.series[curve.s].dash.join(" ");
      svg("polyline", { points, class: curve.m ? "curve" : "curve thin", style, "stroke-dasharray": dash }, layer);
      if (curve.m || curve.d.length === 1) {
        for (const d of curve.d) mark(curve.s, px(d[0]), py(d[1]), layer);
      }
    }
    this.cursor = svg("g", {}, this.root);
    this.hit = svg("rect", { x: box.left, y: box.top, width: box.width, height: box.height, fill: "transparent" }, this.root);
    this.hit.addEventListener("pointerdown", (event) => this.drag(event));
    this.hit.addEventListener("dblclick", () => this.zoom(null));
    this.reset.hidden = !this.view;
  }
  positions() {
    const xs = new Set(this.shown().flatMap((curve) => curve.d.map((d) => d[0])));
    return [...xs].filter((v) => v >= this.x.low && v <= this.x.high).sort((a, b) => a - b);
  }
  valueAt(event) {
    const box = this.root.getBoundingClientRect();
    const share = ((event.clientX - box.left) * this.width / box.width - this.box.left) / this.box.width;
    return this.x.value(Math.min(1, Math.max(0, share)));
  }
  move(event) {
    if (this.dragging) return;
    const xs = this.positions();
    if (!xs.length) return;
    const wanted = this.x.share(this.valueAt(event));
    let best = 0;
    xs.forEach((v, i) => {
      if (Math.abs(this.x.share(v) - wanted) < Math.abs(this.x.share(xs[best]) - wanted)) best = i;
    });
    this.point(xs, best, event.clientX, event.clientY);
  }
  point(xs, at, clientX, clientY) {
    this.at = at;
    const v = xs[at];
    this.cursor.replaceChildren();
    const x = this.px(v);
    svg("line", { x1: x, x2: x, y1: this.box.top, y2: this.box.top + this.box.height, class: "cursor" }, this.cursor);
    const rows = [];
    for (const curve of this.shown()) {
      const d = nearest(curve.d, v, this.x);
      if (!d) continue;
      mark(curve.s, this.px(d[0]), this.py(d[1]), this.cursor);
      const range = d.length > 3 ? `  (${written(this.spec.y.unit, d[2])} to ${written(this.spec.y.unit, d[3])})` : "";
      rows.push([curve.s, d[1], written(this.spec.y.unit, d[1]) + range]);
    }
    rows.sort((a, b) => b[1] - a[1]);
    const label = this.spec.x.unit.label;
    const place = this.spec.x.scale === "nines" ? percentile(v) : `${label.startsWith("elapsed") ? trimmed(v, 4) : short(v)}`;
    showTip(`${place} ${this.spec.x.scale === "nines" ? "" : label}`, rows, clientX, clientY);
  }
  drag(event) {
    if (event.button !== 0) return;
    this.dragging = true;
    this.hit.setPointerCapture(event.pointerId);
    const from = this.valueAt(event);
    const band = svg("rect", { class: "band", y: this.box.top, height: this.box.height }, this.root);
    const move = (next) => {
      const [a, b] = [this.px(from), this.px(this.valueAt(next))].sort((p, q) => p - q);
      band.setAttribute("x", a);
      band.setAttribute("width", b - a);
    };
    const end = (next) => {
      this.dragging = false;
      this.hit.removeEventListener("pointermove", move);
      this.hit.removeEventListener("pointerup", end);
      this.hit.removeEventListener("pointercancel", end);
      band.remove();
      const view = [from, this.valueAt(next)].sort((a, b) => a - b);
      // A click is no zoom.
      if (Math.abs(this.px(view[1]) - this.px(view[0])) > 6) this.zoom(view);
    };
    this.hit.addEventListener("pointermove", move);
    this.hit.addEventListener("pointerup", end);
    this.hit.addEventListener("pointercancel", end);
    hideTip();
  }
  logarithmic() {
    if (this.logs.hidden) return;
    this.log = !this.log;
    this.logs.setAttribute("aria-pressed", String(this.log));
    this.draw();
  }
  /* Panels of a chart share their x axis, so they share its zoom. */
  zoom(view) {
    for (const panel of this.group) { panel.view = view; panel.draw(); }
    this.leave();
  }
  narrow(factor, shift) {
    const [a, b] = [this.full.share(this.x.low), this.full.share(this.x.high)];
    const width = Math.min(1, (b - a) * factor);
    let from = (a + b - width) / 2 + shift * (b - a);
    from = Math.min(Math.max(0, from), 1 - width);
    this.zoom(width > 0.999 ? null : [this.full.value(from), this.full.value(from + width)]);
  }
  key(event) {
    const xs = this.positions();
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step && event.shiftKey) this.narrow(1, step * 0.25);
    else if (step && xs.length) {
      const at = this.at < 0 ? (step > 0 ? 0 : xs.length - 1) : Math.min(xs.length - 1, Math.max(0, this.at + step));
      const box = this.root.getBoundingClientRect();
      this.point(xs, at, box.left + this.px(xs[at]) * box.width / this.width, box.top + 30);
    } else if (event.key === "+" || event.key === "=") this.narrow(0.6, 0);
    else if (event.key === "-") this.narrow(1 / 0.6, 0);
    else if (event.key === "l") this.logarithmic();
    else if (event.key === "0") this.zoom(null);
    else return;
    event.preventDefault();
  }
}

function nearest(dots, v, x) {
  let best = null;
  for (const d of dots) {
    if (!best || Math.abs(x.share(d[0]) - x.share(v)) < Math.abs(x.share(best[0]) - x.share(v))) best = d;
  }
  return best && Math.abs(x.share(best[0]) - x.share(v)) < 0.02 ? best : null;
}

class Bars extends Panel {
  paint() {
    this.height = this.spec.unit.kind === "bytes" ? 320 : 300;
    const groups = this.spec.groups;
    const shown = data.series.map((_, s) => s).filter((s) => !hidden.has(s) && groups.some((g) => g.bars[s]));
    const width = Math.max(this.width, 70 + groups.length * (shown.length * 17 + 26));
    this.root.style.width = width > this.width ? `${width}px` : "";
    this.width = width;
    // Sizes are written with their unit, and upright.
    const box = this.plane(54, this.spec.unit.kind === "bytes" ? 46 : 26, 14, 42);
    const bars = groups.flatMap((g) => shown.map((s) => g.bars[s]).filter(Boolean));
    const y = yRuler({ unit: this.spec.unit, scale: "linear" }, bars.flatMap((bar) => bar.slice(0, 3)).concat(0));
    this.yAxis(y);
    const bottom = box.top + box.height;
    svg("line", { x1: box.left, x2: box.left + box.width, y1: bottom, y2: bottom, class: "base" }, this.root);
    const room = box.width / groups.length;
    const slot = Math.min(44, room * 0.84 / Math.max(1, shown.length));
    groups.forEach((group, index) => {
      const middle = box.left + room * (index + 0.5);
      this.name(group.label, middle, bottom + 17, room, "name");
      this.name(group.detail, middle, bottom + 32, room, "");
      shown.forEach((s, place) => {
        const x = middle + (place - (shown.length - 1) / 2) * slot;
        const bar = group.bars[s];
        if (!bar) { this.number("n/a", x, bottom - 4, slot); return; }
        const top = box.top + box.height * (1 - y.share(bar[0]));
        const rect = svg("rect", { x: x - slot * 0.43, width: slot * 0.86, y: top, height: Math.max(0, bottom - top),
          rx: Math.min(2, slot / 6), style: fill(s) }, this.root);
        let above = top;
        if (bar[2] > bar[1]) {
          const [low, high] = [bar[1], bar[2]].map((v) => box.top + box.height * (1 - y.share(v)));
          svg("path", { d: `M${x} ${low}V${high}m-3 0h6M${x - 3} ${low}h6`, style: "stroke:var(--ink);fill:none" }, this.root);
          above = Math.min(above, high);
        }
        const value = this.spec.unit.kind === "bytes" ? size(bar[0]) : short(bar[0]);
        this.number(value + (bar[3] ? "!" : ""), x, above - 5, slot);
        rect.addEventListener("pointermove", (event) => {
          const range = bar[2] > bar[1] ? ` (${written(this.spec.unit, bar[1])} to ${written(this.spec.unit, bar[2])})` : "";
          const flag = bar[3] ? "  ! flagged, see the table" : "";
          showTip(`${group.label}  ${group.detail}`, [[s, 0, written(this.spec.unit, bar[0]) + range + flag]], event.clientX, event.clientY);
        });
      });
    });
  }
  name(text, x, y, room, className) {
    const letters = Math.max(3, Math.floor(room / 6.6));
    const cut = text.length > letters ? `${text.slice(0, letters - 1)}\u2026` : text;
    svg("title", {}, svg("text", { x, y, "text-anchor": "middle", class: className }, this.root, cut), text);
  }
  number(text, x, y, slot) {
    const turned = slot < 34;
    const attributes = { x: turned ? x + 4 : x, y, "text-anchor": turned ? "start" : "middle" };
    if (turned) attributes.transform = `rotate(-90 ${x + 4} ${y})`;
    svg("text", attributes, this.root, text);
  }
}

class Forest extends Panel {
  paint() {
    const rows = this.spec.rows.filter((row) => !hidden.has(row.s));
    const groups = rows.filter((row, i) => !i || rows[i - 1].group !== row.group).length;
    this.height = rows.length * 23 + groups * 27 + 34;
    const names = Math.min(this.width * 0.3, 40 + 6.6 * Math.max(4, ...rows.map((row) => row.label.length)));
    const box = this.plane(names, 4, Math.min(230, this.width * 0.34), 28);
    const values = rows.flatMap((row) => [row.ratio, ...(row.ci || [])]);
    const x = ruler({ scale: "log" }, Math.min(0.9, ...values) / 1.08, Math.max(1.1, ...values) * 1.08);
    const px = (v) => box.left + box.width * Math.min(1, Math.max(0, x.share(v)));
    const bottom = box.top + box.height;
    for (const v of logTicks(x.low, x.high, 8)) {
      svg("line", { x1: px(v), x2: px(v), y1: box.top, y2: bottom, class: "grid" }, this.root);
      svg("text", { x: px(v), y: bottom + 16, "text-anchor": "middle" }, this.root, `${trimmed(v, 3)}x`);
    }
    svg("line", { x1: px(1), x2: px(1), y1: box.top, y2: bottom, class: "base", "stroke-width": 1.5 }, this.root);
    let y = box.top, group = null;
    for (const row of rows) {
      if (row.group !== group) {
        group = row.group;
        svg("text", { x: 4, y: y + 18, class: "strong" }, this.root, group);
        y += 27;
      }
      const middle = y + 11.5;
      svg("text", { x: box.left - 12, y: middle + 4, "text-anchor": "end", class: "name" }, this.root, row.label);
      if (row.ci) {
        const [low, high] = row.ci.map(px);
        svg("path", { d: `M${low} ${middle}H${high}m0-4v8M${low} ${middle - 4}v8`, style: `stroke:${color(row.s)};stroke-width:2;fill:none` }, this.root);
      }
      const shows = row.verdict === "faster" || row.verdict === "slower";
      mark(row.s, px(row.ratio), middle, this.root, !shows);
      const interval = row.ci ? ` [${row.ci[0].toFixed(2)}, ${row.ci[1].toFixed(2)}]` : "";
      const verdict = row.verdict === "~" ? "no difference" : row.verdict;
      svg("text", { x: box.left + box.width + 12, y: middle + 4, class: shows ? "name" : "" }, this.root,
        `${row.ratio.toFixed(2)}x${interval} ${verdict}`);
      y += 23;
    }
  }
}

/* ---- the box beside the pointer ------------------------------------------------------------ */

const tip = html("div", "", document.body);
tip.id = "tip";
tip.hidden = true;
tip.setAttribute("role", "status");

function showTip(title, rows, x, y) {
  tip.replaceChildren();
  html("b", "", tip, title);
  for (const [series, , text] of rows) {
    const line = html("span", "", tip);
    const name = html("i", "", line);
    html("u", "", name).style.background = color(series);
    name.append(data.series[series].label);
    html("span", "", line, text);
  }
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const left = x + 16 + box.width > innerWidth ? x - 16 - box.width : x + 16;
  tip.style.left = `${Math.max(4, left)}px`;
  tip.style.top = `${Math.max(4, Math.min(y + 14, innerHeight - box.height - 4))}px`;
}

function hideTip() { tip.hidden = true; }

/* ---- the page ------------------------------------------------------------------------------ */

const KINDS = { lines: Lines, bars: Bars, forest: Forest };

function build(chart) {
  const host = document.getElementById(`group-${chart.group}`);
  const card = html("article", "card", host);
  card.id = chart.id;
  html("h3", "", card, chart.title);
  if (chart.notes.length) html("p", "note", card, chart.notes.join("; "));
  const wide = chart.kind !== "lines" || chart.panels.length === 1;
  const grid = html("div", wide ? "panels one scroll" : "panels", card);
  const group = [];
  for (const spec of chart.panels) new KINDS[chart.kind](chart, spec, grid, group);
}

function drawAll() { for (const panel of panels) panel.draw(); }

function toggle(series) {
  if (!hidden.delete(series)) hidden.add(series);
  legend();
  for (const row of document.querySelectorAll("tr[data-s]")) row.hidden = hidden.has(Number(row.dataset.s));
  drawAll();
}

function legend() {
  const host = document.getElementById("legend");
  const focused = [...host.children].indexOf(document.activeElement);
  host.replaceChildren();
  data.series.forEach((series, index) => {
    const button = html("button", "", host);
    button.setAttribute("aria-pressed", String(!hidden.has(index)));
    button.title = "show or hide" + (index < 9 ? ` (key ${index + 1})` : "");
    const picture = svg("svg", { viewBox: "0 0 30 14", "aria-hidden": "true" }, button);
    svg("line", { x1: 1, x2: 29, y1: 7, y2: 7, style: `stroke:${color(index)};stroke-width:2`, "stroke-dasharray": series.dash.join(" ") }, picture);
    mark(index, 15, 7, picture);
    button.append(series.label);
    button.addEventListener("click", () => toggle(index));
  });
  if (focused >= 0) host.children[focused].focus();
}

function theme(name) {
  document.documentElement.classList.toggle("dark", name === "dark");
}

const screenIsDark = matchMedia("(prefers-color-scheme: dark)");
let chosen = null;
try { chosen = localStorage.getItem("keyrack-theme"); } catch { /* a page without storage */ }
theme(chosen || (screenIsDark.matches ? "dark" : "light"));
screenIsDark.addEventListener("change", () => { if (!chosen) theme(screenIsDark.matches ? "dark" : "light"); });

function otherTheme() {
  chosen = document.documentElement.classList.contains("dark") ? "light" : "dark";
  try { localStorage.setItem("keyrack-theme", chosen); } catch { /* it lasts as long as the page */ }
  theme(chosen);
}

/* A column is sorted by data-v where its cells have it, else by their text. */
function sortable(table) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = html("button", "", null, head.textContent);
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const key = (row) => row.cells[column].dataset.v ?? row.cells[column].textContent;
      const order = (a, b) => {
        const [p, q] = [key(a), key(b)];
        const difference = p !== "" && q !== "" && !isNaN(p) && !isNaN(q) ? p - q : p.localeCompare(q);
        return up ? difference : -difference;
      };
      table.tBodies[0].append(...[...table.tBodies[0].rows].sort(order));
    });
  });
}

const help = document.getElementById("help");
document.getElementById("theme").addEventListener("click", otherTheme);
document.getElementById("keys").addEventListener("click", () => help.showModal());
document.getElementById("print").addEventListener("click", () => print());
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
  const digit = Number(event.key);
  if (digit >= 1 && digit <= data.series.length) toggle(digit - 1);
  else if (event.key === "d") otherTheme();
  else if (event.key === "?") help.showModal();
  else if (event.key === "Escape") hideTip();
});

data.charts.forEach(build);
document.querySelectorAll("table.sortable").forEach(sortable);
legend();
drawAll();
let wide = document.documentElement.clientWidth;
addEventListener("resize", () => {
  if (document.documentElement.clientWidth === wide) return;
  wide = document.documentElement.clientWidth;
  drawAll();
});
document.documentElement.classList.add("ready");
})();
