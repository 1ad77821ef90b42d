// The node map: a canvas with one tile per node, in groups. Thousands of nodes are drawn in a few milliseconds.

import { categoryColor, utilizationColor, theme } from "./colors.js";
import { amount, count, percent, announce } from "./dom.js";

const GAP = 1;
const TITLE_HEIGHT = 22;
const PADDING = 10;
const MIN_COLUMN_WIDTH = 190;
const MAX_SIDE = 44;
const MIN_SIDE = 4;

export const TAINTS = "taints";
export const STRANDED = "stranded";

// Return the value that colors a node: its utilization from 0 to 1, or null if the node lacks the resource.
export function computeShare(layout, load, by, row) {
  if (by === STRANDED) return computeStranded(layout, load, row);
  const capacity = layout.allocatable[by]?.[row] ?? 0;
  if (!capacity) return null;
  return (by === "pods" ? load.pods[row] : load.requested[by]?.[row] ?? 0) / capacity;
}

// Free capacity that is unusable because another resource of the node is exhausted: the largest free share minus
// the smallest.
function computeStranded(layout, load, row) {
  const free = [];
  for (const name of Object.keys(layout.allocatable)) {
    if (name === "pods" || name === "ephemeral-storage" || !layout.allocatable[name][row]) continue;
    free.push(Math.max(0, 1 - (load.requested[name]?.[row] ?? 0) / layout.allocatable[name][row]));
  }
  return free.length > 1 ? Math.max(...free) - Math.min(...free) : 0;
}

export class NodeMap {
  constructor(canvas, { onOpen, onHover, height = 460 }) {
    this.canvas = canvas;
    this.height = height;
    this.options = { by: "cpu", group: "", size: "" };
    this.marks = new Map();
    this.tiles = [];
    this.panels = [];
    this.hovered = -1;
    this.onHover = onHover;
    canvas.tabIndex = 0;
    canvas.setAttribute("role", "application");
    canvas.addEventListener("mousemove", (event) => this.hover(this.rowAt(event)));
    canvas.addEventListener("mouseleave", () => this.hover(-1));
    canvas.addEventListener("click", (event) => {
      const row = this.rowAt(event);
      if (row >= 0) onOpen(this.layout.names[row]);
    });
    canvas.addEventListener("keydown", (event) => this.onKey(event, onOpen));
    this.resizeObserver = new ResizeObserver(() => this.arrange());
    this.resizeObserver.observe(canvas.parentElement ?? canvas);
  }

  close() {
    this.resizeObserver.disconnect();
  }

  // Show the nodes at one time. ``marks`` maps rows to the color of their frame.
  show(layout, load, options = this.options, marks = new Map()) {
    const isNew = layout !== this.layout || JSON.stringify(options) !== JSON.stringify(this.options);
    Object.assign(this, { layout, load, options, marks });
    if (isNew || !this.tiles.length) this.arrange();
    else this.draw();
  }

  groups() {
    const grouping = this.layout.labels[this.options.group];
    if (!grouping) return [["", this.layout.names.map((_, row) => row)]];
    const rows = grouping.values.map(() => []), unlabeled = [];
    grouping.of.forEach((value, row) => (value < 0 ? unlabeled : rows[value]).push(row));
    const groups = grouping.values.map((value, index) => [value, rows[index]]);
    groups.sort((a, b) => a[0].localeCompare(b[0], "en", { numeric: true }));
    return unlabeled.length ? [...groups, ["no label", unlabeled]] : groups;
  }

  // Compute the position of every tile. The next panel is added to the shortest column.
  arrange() {
    const width = Math.floor(this.canvas.parentElement?.clientWidth ?? 0);
    if (!this.layout || width < 40) return;
    const groups = this.groups();
    const columns = Math.max(1, Math.min(groups.length, Math.floor(width / MIN_COLUMN_WIDTH)));
    const columnWidth = (width - (columns - 1) * PADDING) / columns;
    const tileArea = (width * this.height * 0.8) / Math.max(1, this.layout.names.length);
    const side = Math.max(MIN_SIDE, Math.min(MAX_SIDE, Math.floor(Math.sqrt(tileArea))));
    const tilesPerRow = Math.max(1, Math.floor((columnWidth + GAP) / (side + GAP)));
    const bottoms = new Array(columns).fill(0);
    this.tiles = new Array(this.layout.names.length);
    this.panels = [];
    this.order = [];
    this.side = side;
    for (const [title, rows] of groups) {
      const column = bottoms.indexOf(Math.min(...bottoms));
      const left = column * (columnWidth + PADDING), top = bottoms[column];
      const titleHeight = title || groups.length > 1 ? TITLE_HEIGHT : 0;
      this.panels.push({ title, rows, left, top, width: columnWidth });
      rows.forEach((row, index) => {
        const x = left + (index % tilesPerRow) * (side + GAP);
        const y = top + titleHeight + Math.floor(index / tilesPerRow) * (side + GAP);
        this.tiles[row] = { x, y };
        this.order.push(row);
      });
      bottoms[column] = top + titleHeight + Math.ceil(rows.length / tilesPerRow) * (side + GAP) + PADDING;
    }
    this.tilesPerRow = tilesPerRow;
    this.resize(width, Math.max(...bottoms, 40));
    this.draw();
  }

  resize(width, height) {
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = width * ratio;
    this.canvas.height = height * ratio;
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    this.ratio = ratio;
  }

  // Draw all tiles on a hidden canvas. Moving the pointer then only copies it and adds one frame.
  draw() {
    if (!this.order) return;
    const startTime = performance.now();
    this.buffer ??= document.createElement("canvas");
    this.buffer.width = this.canvas.width;
    this.buffer.height = this.canvas.height;
    const context = this.buffer.getContext("2d");
    const style = getComputedStyle(document.documentElement);
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    this.drawTitles(context, style);
    const { layout, load, side } = this, { by, size } = this.options;
    const sizes = size ? layout.allocatable[size] ?? [] : [];
    const largest = sizes.reduce((a, b) => Math.max(a, b), 1);
    const cordoned = new Set(layout.cordoned), notReady = new Set(layout.notReady);
    const missingColor = style.getPropertyValue("--tile-none").trim();
    for (const row of this.order) {
      const { x, y } = this.tiles[row];
      const tileSize = size ? Math.max(3, Math.round(side * Math.sqrt((sizes[row] ?? 0) / largest))) : side;
      const share = by === TAINTS ? null : computeShare(layout, load, by, row);
      context.fillStyle = by === TAINTS ? categoryColor(layout.taints.of[row]) : share === null ? missingColor : utilizationColor(share);
      const inset = Math.floor((side - tileSize) / 2);
      context.fillRect(x + inset, y + inset, tileSize, tileSize);
      if (cordoned.has(row) || notReady.has(row)) this.drawCross(context, x + inset, y + inset, tileSize, notReady.has(row));
    }
    for (const [row, color] of this.marks) this.drawFrame(context, row, color, 2);
    this.accent = style.getPropertyValue("--accent").trim();
    this.repaint();
    this.canvas.dataset.took = (performance.now() - startTime).toFixed(1);
    this.canvas.setAttribute("aria-label", this.summary());
  }

  repaint() {
    const context = this.canvas.getContext("2d");
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    context.drawImage(this.buffer, 0, 0);
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    if (this.hovered >= 0) this.drawFrame(context, this.hovered, this.accent, 2);
  }

  drawTitles(context, style) {
    context.font = `600 12px ${style.getPropertyValue("--font")}`;
    context.textBaseline = "middle";
    for (const { title, rows, left, top, width } of this.panels) {
      if (!title && this.panels.length === 1) continue;
      const summary = `${rows.length}${this.options.by === TAINTS ? "" : ` · ${this.mean(rows)}`}`;
      context.fillStyle = style.getPropertyValue("--quiet").trim();
      const maxWidth = width - context.measureText(summary).width - 10;
      context.fillText(summary, left + width - context.measureText(summary).width, top + TITLE_HEIGHT / 2 - 1);
      context.fillStyle = style.getPropertyValue("--text").trim();
      context.fillText(shorten(context, title, maxWidth), left, top + TITLE_HEIGHT / 2 - 1);
    }
  }

  mean(rows) {
    const shares = rows.map((row) => computeShare(this.layout, this.load, this.options.by, row)).filter((share) => share !== null);
    return shares.length ? percent(shares.reduce((a, b) => a + b, 0), shares.length) : "–";
  }

  drawCross(context, x, y, side, isNotReady) {
    context.strokeStyle = isNotReady ? (theme() === "dark" ? "#ff8a80" : "#c2255c") : theme() === "dark" ? "#c9d1d9" : "#3b4550";
    context.lineWidth = Math.max(1, side / 12);
    context.beginPath();
    context.moveTo(x + 1, y + side - 1);
    context.lineTo(x + side - 1, y + 1);
    if (isNotReady) {
      context.moveTo(x + 1, y + 1);
      context.lineTo(x + side - 1, y + side - 1);
    }
    context.stroke();
  }

  drawFrame(context, row, color, width) {
    const tile = this.tiles[row];
    if (!tile) return;
    context.strokeStyle = color;
    context.lineWidth = width;
    context.strokeRect(tile.x - 1, tile.y - 1, this.side + 2, this.side + 2);
  }

  rowAt(event) {
    const box = this.canvas.getBoundingClientRect();
    const x = event.clientX - box.left, y = event.clientY - box.top;
    return this.tiles.findIndex((tile) => tile && x >= tile.x && x < tile.x + this.side + GAP && y >= tile.y && y < tile.y + this.side + GAP);
  }

  hover(row) {
    if (row === this.hovered) return;
    this.hovered = row;
    if (this.buffer) this.repaint();
    this.onHover?.(row);
  }

  onKey(event, onOpen) {
    const index = this.order.indexOf(this.hovered);
    const last = this.order.length - 1;
    const steps = { ArrowRight: index + 1, ArrowLeft: index - 1, ArrowDown: index + this.tilesPerRow, ArrowUp: index - this.tilesPerRow, Home: 0, End: last };
    if (event.key in steps && last >= 0) {
      event.preventDefault();
      const next = Math.max(0, Math.min(last, steps[event.key]));
      this.hover(this.order[next]);
      announce(this.describe(this.order[next]));
    } else if (event.key === "Enter" && this.hovered >= 0) {
      onOpen(this.layout.names[this.hovered]);
    } else if (event.key === "Escape") {
      this.hover(-1);
    }
  }

  describe(row) {
    const { layout, load } = this;
    const parts = Object.keys(layout.allocatable)
      .filter((name) => layout.allocatable[name][row] && (name !== "ephemeral-storage" || load.requested[name]))
      .map((name) => {
        const requested = name === "pods" ? load.pods[row] : load.requested[name]?.[row] ?? 0;
        return `${name} ${amount(name, requested)} of ${amount(name, layout.allocatable[name][row])}`;
      });
    const states = [layout.cordoned.includes(row) && "cordoned", layout.notReady.includes(row) && "not ready"];
    const taint = layout.taints.of[row] >= 0 && layout.taints.values[layout.taints.of[row]];
    return [layout.names[row], ...parts, ...states, taint].filter(Boolean).join(" · ");
  }

  summary() {
    return `Map of ${count(this.layout.names.length, "node")}, colored by ${this.options.by}. Arrow keys move, Enter opens a node. The table below has the same data.`;
  }
}

function shorten(context, text, maxWidth) {
  if (context.measureText(text).width <= maxWidth) return text;
  let end = text.length;
  while (end > 1 && context.measureText(`${text.slice(0, end)}…`).width > maxWidth) end -= 1;
  return `${text.slice(0, end)}…`;
}
