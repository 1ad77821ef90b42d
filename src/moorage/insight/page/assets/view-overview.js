// Overview: reasons of pending pods with possible fixes, node utilization and charts.

import { amount, count, empty, fill, h, percent, whenChanged } from "./dom.js";
import { charts } from "./lines.js";
import { decisionTable } from "./view-decisions.js";
import { podList } from "./view-pods.js";
import { mapPicker, SMALL } from "./picker.js";
import { groupList, remainingReasons } from "./reasons.js";
import { store } from "./store.js";

const MAX_GROUPS = 6;
const MAX_DECISIONS = 8;

export function overview() {
  const tileArea = h("div.facts", {});
  const reasonArea = h("div", {});
  const chartArea = h("div", {});
  const map = mapPicker({ height: 380 });
  const pods = podList(); // of a small cluster: the other cards leave half of the screen empty
  const podSection = h("section.card", { "aria-label": "Pods", hidden: true }, h("h2", {}, "Pods"), pods.element);
  const element = h("div", {}, h("h1.hidden", {}, "Overview"), tileArea,
    h("div.columns", {}, h("section.card", { "aria-label": "Pending pods" }, reasonArea), map.element), chartArea, podSection);
  const updateTiles = whenChanged(() => fill(tileArea, drawTiles()));
  const updateReasons = whenChanged((groups, total) => fill(reasonArea, drawReasons(groups, total)));
  return {
    element,
    title: "Overview",
    close: map.close,
    repaint: map.repaint,
    update() {
      const { state } = store;
      updateTiles(state.version, state.time);
      updateReasons(state.groups, state.waiting, state.note, state.waiting ? 0 : store.decisions.at(-1)?.number);
      map.update();
      podSection.hidden = store.layout.names.length > SMALL || !(state.placed + state.waiting);
      if (!podSection.hidden) pods.update();
      const chartElements = charts(store.lines, store.isPlayed ? state.time : null);
      fill(chartArea, chartElements && h("section.card", { "aria-label": "Over time" }, h("h2", {}, "Over time"), chartElements));
    },
  };
}

function drawReasons(groups, total) {
  const { state } = store;
  const head = h("div.head", {}, h("h2", {}, "Pending pods"), groups.length > 0 && h("a", { href: "#/waiting", "data-key": "all" }, "show all"));
  if (!total) {
    const newest = store.decisions.slice(-MAX_DECISIONS).reverse();
    return [head, empty("No pending pods", state.placed ? [h("a", { href: "#/pods" }, count(state.placed, "pod is", "pods are")), " on nodes."] : "The cluster has no pods."),
      newest.length > 0 && [h("h2", {}, "Recent decisions"), decisionTable(newest)]];
  }
  return [head, state.note && h("p.quiet", { role: "status" }, state.note), groupList(groups.slice(0, MAX_GROUPS), total),
    groups.length > MAX_GROUPS ? h("p.quiet", {}, h("a", { href: "#/waiting", "data-key": "more" }, `${count(groups.length - MAX_GROUPS + state.groupsLeft, "more reason")}`)) : remainingReasons(state)];
}

function drawTiles() {
  const { state, layout } = store;
  const notReady = layout.notReady.length, cordoned = layout.cordoned.length;
  const states = [notReady && `${notReady} not ready`, cordoned && `${cordoned} cordoned`].filter(Boolean).join(", ");
  const tiles = [
    tile("Nodes", layout.names.length.toLocaleString("en"), states || (layout.names.length ? "all ready" : "none"), notReady > 0 && "bad"),
    tile("Pods on nodes", state.placed.toLocaleString("en"), store.about.kind === "still" ? "" : `${state.bound.toLocaleString("en")} scheduled ${store.isPlayed ? "so far" : "since the start"}`),
    tile("Pending", state.waiting.toLocaleString("en"), state.waiting ? `for ${count(state.groups.length + state.groupsLeft, "reason")}` : "no pods", state.waiting > 0 && "warn"),
  ];
  for (const name of ["cpu", "memory"]) {
    const capacity = sum(layout.allocatable[name]), requested = sum(state.load.requested[name]);
    if (capacity) tiles.push(tile(name === "cpu" ? "CPU requested" : "Memory requested", percent(requested, capacity), `${amount(name, requested)} of ${amount(name, capacity)}`));
  }
  return tiles;
}

function tile(title, value, text, level) {
  return h(`div.fact${level ? `.${level}` : ""}`, {}, h("span.name", {}, title), h("strong", {}, value), h("span.quiet", {}, text));
}

function sum(values = []) {
  return values.reduce((a, b) => a + b, 0);
}
