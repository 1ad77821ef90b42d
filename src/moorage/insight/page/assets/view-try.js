// What-if form: add pods, drain nodes or change weights on a copy of the cluster.

import { post } from "./api.js";
import { count, empty, fill, h, nodeLink, podLink, announce } from "./dom.js";
import { OVER, theme } from "./colors.js";
import { mapPicker } from "./picker.js";
import { store } from "./store.js";

const SAMPLE = `apiVersion: v1
kind: Pod
metadata: {name: new}
spec:
  containers:
  - name: main
    image: new:1
    resources: {requests: {cpu: 2, memory: 4Gi}}
`;
const SHOWN = 200;
const kept = { drop: "", copies: "1", drain: "", weights: {}, edits: [], told: "" };

// Open this view with a prepared simulation and run it.
export function prepare(wish) {
  Object.assign(kept, { drop: "", drain: "", weights: {}, edits: [], told: "" }, wish, { isWanted: true });
  location.hash = "#/try";
}

export function tryView() {
  const drop = h("textarea", { rows: 9, spellcheck: "false", placeholder: SAMPLE, "aria-label": "Pods or workloads as YAML or JSON", value: kept.drop, oninput: () => (kept.drop = drop.value) });
  const copies = h("input", { type: "number", min: 1, max: 500, value: kept.copies, oninput: () => (kept.copies = copies.value) });
  const names = h("datalist", { id: "node-names" }, (store.layout?.names ?? []).slice(0, 2000).map((name) => h("option", { value: name })));
  const drain = h("input", { list: "node-names", value: kept.drain, placeholder: "node-1, node-2", "aria-label": "Nodes to drain", oninput: () => (kept.drain = drain.value) });
  const result = h("div", { "aria-live": "polite" });
  const run = h("button.primary", { type: "submit" }, "Simulate");
  const weights = weightFields();
  const map = mapPicker({ height: 300, title: "Result on the nodes" });
  const mapPlace = h("div", { hidden: true }, map.element);
  const edited = h("div", {}, kept.told && h("p.headline", {}, kept.told, " ", h("button.quiet.small", { type: "button", onclick: () => {
    Object.assign(kept, { edits: [], told: "" });
    fill(edited);
  } }, "remove")));
  let answer = null;
  const form = h("form.card.try", { onsubmit: (event) => {
    event.preventDefault();
    go();
  } }, h("h1", {}, "What if"),
  h("p.quiet", {}, "The scheduler runs on a copy of the cluster", store.about.kind === "live" ? "; the cluster itself is not changed." : "."),
  edited,
  h("fieldset", {}, h("legend", {}, "Add pods"), drop, h("div.row", {}, h("label", {}, "Copies ", copies), h("button.quiet", { type: "button", onclick: () => (kept.drop = drop.value = SAMPLE) }, "insert sample"))),
  h("fieldset", {}, h("legend", {}, "Drain nodes"), drain, names),
  h("fieldset", {}, h("legend", {}, "Change weights of score plugins"), weights),
  h("div.row", {}, run));
  const element = h("div.columns.tries", {}, form, h("div", {}, result, mapPlace));
  fill(result, h("section.card", {}, empty("No simulation yet", "Add a pod, drain a node or change a weight, then simulate.")));

  function weightFields() {
    return Object.entries(store.about.weights).map(([profile, plugins]) => h("div.weights", {}, Object.keys(store.about.weights).length > 1 && h("h3", {}, profile),
      Object.entries(plugins).map(([plugin, weight]) => h("label", {}, h("span", {}, plugin), h("input", { type: "number", min: 1, max: 2147483647, value: kept.weights[profile]?.[plugin] ?? weight, oninput: (event) => {
        kept.weights[profile] ??= {};
        const wanted = Number(event.target.value);
        if (wanted === weight) delete kept.weights[profile][plugin];
        else kept.weights[profile][plugin] = wanted;
      } })))));
  }

  async function go() {
    const changed = Object.fromEntries(Object.entries(kept.weights).filter(([, plugins]) => Object.keys(plugins).length));
    const wish = { drop: drop.value, copies: Number(copies.value) || 0, drain: drain.value.split(/[,\s]+/).filter(Boolean), weights: changed, edits: kept.edits, ...store.moment };
    run.disabled = true;
    run.textContent = "Simulating…";
    try {
      answer = await post("try", wish);
      fill(result, outcome(answer));
      showMap();
      announce(summary(answer));
    } catch (error) {
      answer = null;
      mapPlace.hidden = true;
      fill(result, h("section.card", {}, empty("The simulation failed", error.message)));
    } finally {
      run.disabled = false;
      run.textContent = "Simulate";
    }
  }

  function showMap() {
    if (!answer) return;
    const row = new Map(answer.names.map((name, at) => [name, at]));
    const marks = new Map();
    const gained = theme() === "dark" ? "#59d98e" : "#187532";
    for (const move of [...answer.moves, ...answer.dropped]) {
      if (row.has(move.before)) marks.set(row.get(move.before), OVER[theme()]);
      if (row.has(move.after)) marks.set(row.get(move.after), gained);
    }
    const order = store.layout.names.map((name) => row.get(name));
    const picked = (values) => order.map((at) => values[at] ?? 0);
    const load = { pods: picked(answer.load.pods), requested: Object.fromEntries(Object.entries(answer.load.requested).map(([name, values]) => [name, picked(values)])) };
    const placed = new Map([...marks].map(([at, color]) => [store.layout.names.indexOf(answer.names[at]), color]));
    mapPlace.hidden = false;
    map.update(placed, { layout: store.layout, load });
  }

  return { element, title: "What if", close: map.close, repaint: showMap, update() {
    if (kept.isWanted) {
      kept.isWanted = false;
      go();
    }
  } };
}

function summary(answer) {
  const moved = answer.moves.filter((move) => move.before !== move.after);
  const parts = [count(moved.length, "pod would move", "pods would move")];
  if (answer.dropped.length) parts.push(`${answer.dropped.filter((pod) => pod.after).length} of ${answer.dropped.length} added pods would be scheduled`);
  parts.push(`${answer.waitingAfter.toLocaleString("en")} would be pending (${answer.waitingBefore.toLocaleString("en")} before)`);
  return parts.join(", ");
}

function outcome(answer) {
  return h("section.card", {}, h("h2", {}, summary(answer)),
    answer.notTried > 0 && h("p.quiet", {}, `${count(answer.notTried, "pending pod")} could not be tried within the time limit.`),
    h("p.quiet.legend", {}, h("span.key", {}, h("i.frame.lose", {}), "loses a pod"), h("span.key", {}, h("i.frame.win", {}), "gains a pod")),
    table("Added pods", answer.dropped), table("Moved pods", answer.moves),
    !answer.dropped.length && !answer.moves.length && empty("No changes", "All pods stay on their nodes."));
}

function table(title, moves) {
  if (!moves.length) return null;
  return [h("h3", {}, `${title}: ${moves.length.toLocaleString("en")}`), h("div.scroll", {}, h("table", {},
    h("thead", {}, h("tr", {}, h("th", {}, "Pod"), h("th", {}, "From"), h("th", {}, "To"), h("th", {}, ""))),
    h("tbody", {}, moves.slice(0, SHOWN).map((move) => h("tr", {}, h("td", {}, podLink(move.pod)), h("td", {}, move.before ? nodeLink(move.before) : h("span.quiet", {}, "pending")),
      h("td", {}, move.after ? nodeLink(move.after) : h("span.tag.unschedulable", {}, "pending")), h("td.long.quiet", {}, move.text)))))),
  moves.length > SHOWN && h("p.quiet", {}, `and ${count(moves.length - SHOWN, "more")}`)];
}
