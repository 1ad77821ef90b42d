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
const MAX_ROWS = 200;
const formState = { drop: "", copies: "1", drain: "", weights: {}, edits: [], description: "" };

// Open this view with a prepared simulation and run it.
export function prepare(request) {
  Object.assign(formState, { drop: "", drain: "", weights: {}, edits: [], description: "" }, request, { isPrepared: true });
  location.hash = "#/try";
}

export function tryView() {
  const drop = h("textarea", { rows: 9, spellcheck: "false", placeholder: SAMPLE, "aria-label": "Pods or workloads as YAML or JSON", value: formState.drop, oninput: () => (formState.drop = drop.value) });
  const copies = h("input", { type: "number", min: 1, max: 500, value: formState.copies, oninput: () => (formState.copies = copies.value) });
  const names = h("datalist", { id: "node-names" }, (store.layout?.names ?? []).slice(0, 2000).map((name) => h("option", { value: name })));
  const drain = h("input", { list: "node-names", value: formState.drain, placeholder: "node-1, node-2", "aria-label": "Nodes to drain", oninput: () => (formState.drain = drain.value) });
  const resultArea = h("div", { "aria-live": "polite" });
  const run = h("button.primary", { type: "submit" }, "Simulate");
  const status = h("span.status", { role: "status" });
  const weights = weightFields();
  const map = mapPicker({ height: 300, title: "Result on the nodes" });
  const mapArea = h("div", { hidden: true }, map.element);
  const editNote = h("div", {}, formState.description && h("p.headline", {}, formState.description, " ", h("button.quiet.small", { type: "button", onclick: () => {
    Object.assign(formState, { edits: [], description: "" });
    fill(editNote);
  } }, "remove")));
  let result = null;
  const form = h("form.card.try", { onsubmit: (event) => {
    event.preventDefault();
    simulate();
  } }, h("h1", {}, "What if"),
  h("p.quiet", {}, "The scheduler runs on a copy of the cluster", store.about.kind === "live" ? "; the cluster itself is not changed." : "."),
  editNote,
  h("fieldset", {}, h("legend", {}, "Add pods"), drop, h("div.row", {}, h("label", {}, "Copies ", copies), h("button.quiet", { type: "button", onclick: () => (formState.drop = drop.value = SAMPLE) }, "insert sample"))),
  h("fieldset", {}, h("legend", {}, "Drain nodes"), drain, names),
  h("fieldset", {}, h("details", { open: Object.values(formState.weights).some((plugins) => Object.keys(plugins).length) }, h("summary", {}, "Change weights of score plugins"), weights)),
  h("div.row", {}, run, status));
  const element = h("div.columns.tries", {}, form, h("div", {}, resultArea, mapArea));
  fill(resultArea, h("section.card", {}, empty("No simulation yet", "Add a pod, drain a node or change a weight, then simulate.")));

  function weightFields() {
    return Object.entries(store.about.weights).map(([profile, plugins]) => h("div.weights", {}, Object.keys(store.about.weights).length > 1 && h("h3", {}, profile),
      Object.entries(plugins).map(([plugin, weight]) => h("label", {}, h("span", {}, plugin), h("input", { type: "number", min: 1, max: 2147483647, value: formState.weights[profile]?.[plugin] ?? weight, oninput: (event) => {
        formState.weights[profile] ??= {};
        const value = Number(event.target.value);
        if (value === weight) delete formState.weights[profile][plugin];
        else formState.weights[profile][plugin] = value;
      } })))));
  }

  async function simulate() {
    const changedWeights = Object.fromEntries(Object.entries(formState.weights).filter(([, plugins]) => Object.keys(plugins).length));
    const request = { drop: drop.value, copies: Number(copies.value) || 0, drain: drain.value.split(/[,\s]+/).filter(Boolean), weights: changedWeights, edits: formState.edits, ...store.timeQuery };
    run.disabled = true;
    run.textContent = "Simulating…";
    showStatus("");
    try {
      result = await post("try", request);
      fill(resultArea, drawResult(result));
      showMap();
      announce(summarize(result));
      showStatus(summarize(result));
    } catch (error) {
      result = null;
      mapArea.hidden = true;
      showStatus(`The simulation failed: ${error.message}`, true);
      fill(resultArea, h("section.card", {}, empty("The simulation failed", error.message)));
    } finally {
      run.disabled = false;
      run.textContent = "Simulate";
    }
  }

  // The result starts next to the button: on a narrow screen the details are below the form.
  function showStatus(text, isError = false) {
    status.textContent = text;
    status.classList.toggle("error", isError);
  }

  function showMap() {
    if (!result) return;
    const rowByName = new Map(result.names.map((name, index) => [name, index]));
    const marks = new Map();
    const gainColor = theme() === "dark" ? "#59d98e" : "#187532";
    for (const move of [...result.moves, ...result.dropped]) {
      if (rowByName.has(move.before)) marks.set(rowByName.get(move.before), OVER[theme()]);
      if (rowByName.has(move.after)) marks.set(rowByName.get(move.after), gainColor);
    }
    const order = store.layout.names.map((name) => rowByName.get(name));
    const reorder = (values) => order.map((index) => values[index] ?? 0);
    const load = { pods: reorder(result.load.pods), requested: Object.fromEntries(Object.entries(result.load.requested).map(([name, values]) => [name, reorder(values)])) };
    const frames = new Map([...marks].map(([index, color]) => [store.layout.names.indexOf(result.names[index]), color]));
    mapArea.hidden = false;
    map.update(frames, { layout: store.layout, load });
  }

  return { element, title: "What if", close: map.close, repaint: showMap, update() {
    if (formState.isPrepared) {
      formState.isPrepared = false;
      simulate();
    }
  } };
}

function summarize(result) {
  const moved = result.moves.filter((move) => move.before !== move.after);
  const parts = [count(moved.length, "pod would move", "pods would move")];
  if (result.dropped.length) parts.push(`${result.dropped.filter((pod) => pod.after).length} of ${result.dropped.length} added pods would be scheduled`);
  parts.push(`${result.waitingAfter.toLocaleString("en")} would be pending (${result.waitingBefore.toLocaleString("en")} before)`);
  return parts.join(", ");
}

function drawResult(result) {
  return h("section.card", {}, h("h2", {}, summarize(result)),
    result.notTried > 0 && h("p.quiet", {}, `${count(result.notTried, "pending pod")} could not be tried within the time limit.`),
    h("p.quiet.legend", {}, h("span.key", {}, h("i.frame.lose", {}), "loses a pod"), h("span.key", {}, h("i.frame.win", {}), "gains a pod")),
    drawMoves("Added pods", result.dropped), drawMoves("Moved pods", result.moves),
    !result.dropped.length && !result.moves.length && empty("No changes", "All pods stay on their nodes."));
}

function drawMoves(title, moves) {
  if (!moves.length) return null;
  return [h("h3", {}, `${title}: ${moves.length.toLocaleString("en")}`), h("div.scroll", {}, h("table", {},
    h("thead", {}, h("tr", {}, h("th", {}, "Pod"), h("th", {}, "From"), h("th", {}, "To"))),
    h("tbody", {}, moves.slice(0, MAX_ROWS).map((move) => h("tr", {}, h("td", {}, podLink(move.pod)), h("td", {}, move.before ? nodeLink(move.before) : h("span.quiet", {}, "pending")),
      h("td.long", {}, move.after ? nodeLink(move.after) : [h("span.tag.unschedulable", {}, "pending"), " ", h("span.quiet", {}, move.text)])))))),
  moves.length > MAX_ROWS && h("p.quiet", {}, `and ${count(moves.length - MAX_ROWS, "more")}`)];
}
