// Overview: reasons of pending pods with possible fixes, node utilization and charts.

import { amount, count, empty, fill, h, percent, whenChanged } from "./dom.js";
import { charts } from "./lines.js";
import { mapPicker } from "./picker.js";
import { groupList, leftOver } from "./reasons.js";
import { store } from "./store.js";

const SHOWN = 6;

export function overview() {
  const facts = h("div.facts", {});
  const waiting = h("div", {});
  const lines = h("div", {});
  const map = mapPicker({ height: 380 });
  const element = h("div", {}, h("h1.hidden", {}, "Overview"), facts,
    h("div.columns", {}, h("section.card", { "aria-label": "Pending pods" }, waiting), map.element), lines);
  const drawFacts = whenChanged(() => fill(facts, tiles()));
  const drawWaiting = whenChanged((groups, total) => fill(waiting, why(groups, total)));
  return {
    element,
    title: "Overview",
    close: map.close,
    repaint: map.repaint,
    update() {
      const { state } = store;
      drawFacts(state.version, state.time);
      drawWaiting(state.groups, state.waiting, state.note);
      map.update();
      const drawn = charts(store.lines, store.isPlayed ? state.time : null);
      fill(lines, drawn && h("section.card", { "aria-label": "Over time" }, h("h2", {}, "Over time"), drawn));
    },
  };
}

function why(groups, total) {
  const { state } = store;
  const head = h("div.head", {}, h("h2", {}, "Pending pods"), groups.length > 0 && h("a", { href: "#/waiting", "data-key": "all" }, "show all"));
  if (!total) return [head, empty("No pending pods", state.placed ? `${count(state.placed, "pod is", "pods are")} on nodes.` : "The cluster has no pods.")];
  return [head, state.note && h("p.quiet", { role: "status" }, state.note), groupList(groups.slice(0, SHOWN), total),
    groups.length > SHOWN ? h("p.quiet", {}, h("a", { href: "#/waiting", "data-key": "more" }, `${count(groups.length - SHOWN + state.groupsLeft, "more reason")}`)) : leftOver(state)];
}

function tiles() {
  const { state, layout } = store;
  const away = layout.notReady.length, cordoned = layout.cordoned.length;
  const states = [away && `${away} not ready`, cordoned && `${cordoned} cordoned`].filter(Boolean).join(", ");
  const found = [
    tile("Nodes", layout.names.length.toLocaleString("en"), states || (layout.names.length ? "all ready" : "none"), away > 0 && "bad"),
    tile("Pods on nodes", state.placed.toLocaleString("en"), store.about.kind === "still" ? "" : `${state.bound.toLocaleString("en")} scheduled ${store.isPlayed ? "so far" : "since the start"}`),
    tile("Pending", state.waiting.toLocaleString("en"), state.waiting ? `for ${count(state.groups.length + state.groupsLeft, "reason")}` : "no pods", state.waiting > 0 && "warn"),
  ];
  for (const name of ["cpu", "memory"]) {
    const whole = sum(layout.allocatable[name]), taken = sum(state.load.requested[name]);
    if (whole) found.push(tile(name === "cpu" ? "CPU requested" : "Memory requested", percent(taken, whole), `${amount(name, taken)} of ${amount(name, whole)}`));
  }
  return found;
}

function tile(title, value, text, mood) {
  return h(`div.fact${mood ? `.${mood}` : ""}`, {}, h("span.name", {}, title), h("strong", {}, value), h("span.quiet", {}, text));
}

function sum(values = []) {
  return values.reduce((a, b) => a + b, 0);
}
