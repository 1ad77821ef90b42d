// Small SVG charts of time series; the caption shows the value at the selected time.

import { duration, h, svg } from "./dom.js";

const WIDTH = 300;
const HEIGHT = 64;

export function chart(title, values, { unit = (value) => value.toLocaleString("en"), marker = null, step = 1 } = {}) {
  const largest = Math.max(...values, 0);
  const last = values.length ? values[values.length - 1] : 0;
  const current = marker === null ? last : values[Math.min(values.length - 1, Math.max(0, Math.round(marker)))] ?? 0;
  return h("figure.chart", {},
    h("figcaption", {}, h("span", {}, title), h("strong", {}, unit(current))),
    drawLine(values, largest, marker, `${title}: ${unit(current)}, at most ${unit(largest)} over ${duration(values.length * step)}`),
    h("div.range", {}, h("span", {}, `max ${unit(largest)}`), h("span", {}, `over ${duration(values.length * step)}`)));
}

function drawLine(values, largest, marker, label) {
  const x = (index) => (values.length > 1 ? (index / (values.length - 1)) * WIDTH : 0);
  const y = (value) => HEIGHT - 3 - (largest ? value / largest : 0) * (HEIGHT - 8);
  const points = values.map((value, index) => `${x(index).toFixed(1)},${y(value).toFixed(1)}`);
  const area = `0,${HEIGHT} ${points.join(" ")} ${WIDTH},${HEIGHT}`;
  return svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": label },
    values.length > 1 && svg("polygon.area", { points: area }),
    values.length > 1 && svg("polyline.line", { points: points.join(" ") }),
    marker !== null && svg("line.marker", { x1: x(marker), x2: x(marker), y1: 0, y2: HEIGHT }));
}

export function charts(lines, time = null) {
  if (!lines || !lines.placed.length) return null;
  const marker = time === null ? null : Math.max(0, (time - lines.start) / lines.step - 0.5);
  const rate = lines.placed.map((number) => number / lines.step);
  const common = { marker, step: lines.step };
  return h("div.charts", {},
    chart("Scheduled pods per second", rate, { ...common, unit: (value) => (value >= 10 ? Math.round(value).toLocaleString("en") : value.toFixed(1)) }),
    chart("Failed attempts", lines.failed, common),
    chart("Pending pods", lines.waiting, common),
    chart("Mean scheduling latency", lines.latency, { ...common, unit: duration }));
}
