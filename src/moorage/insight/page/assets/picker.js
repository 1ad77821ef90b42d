// The node map with its selectors, legend, tooltip line and optional table.

import { gradient, categoryColor, OVER, theme, utilizationColor } from "./colors.js";
import { amount, count, fill, h, nodeLink, percent } from "./dom.js";
import { NodeMap, computeShare, STRANDED, TAINTS } from "./map.js";
import { store } from "./store.js";

const ROWS = 100;
export const SMALL = 20; // nodes; the table of a small cluster is always shown, because the map leaves most of the screen empty
const selection = JSON.parse(sessionStorage.getItem("moorage-map") ?? "{}");

function saveSelection(change) {
  Object.assign(selection, change);
  sessionStorage.setItem("moorage-map", JSON.stringify(selection));
}

function resources(layout) {
  const order = ["cpu", "memory", "pods"];
  const names = Object.keys(layout.allocatable).filter((name) => layout.allocatable[name].some(Boolean));
  return [...order.filter((name) => names.includes(name)), ...names.filter((name) => !order.includes(name)).sort()];
}

// ``withTable`` adds a table with the same data below the map, also for a cluster that is not small.
export function mapPicker({ run = 0, height = 460, withTable = false, title = "Nodes" } = {}) {
  const canvas = h("canvas.map", {});
  const hint = h("p.hint", { "aria-hidden": "true" });
  const legend = h("div.legend", {});
  const by = h("select", { onchange: () => select({ by: by.value }) });
  const group = h("select", { onchange: () => select({ group: group.value }) });
  const size = h("select", { onchange: () => select({ size: size.value }) });
  const table = h("div", {});
  const emptyNote = h("div", {});
  const element = h("section.card.nodes", { "aria-label": title },
    h("div.head", {}, h("h2", {}, title),
      h("div.choices", {}, labelField("Color", by), labelField("Group", group), labelField("Size", size))),
    legend, emptyNote, h("div.canvas", {}, canvas), hint, table);
  let layout, load, marks = new Map(), isTableOpen = false;
  const map = new NodeMap(canvas, {
    height,
    onOpen: (name) => (location.hash = `#/node/${encodeURIComponent(name)}`),
    onHover: (row) => (hint.textContent = row >= 0 ? map.describe(row) : "Hover over a tile or use the arrow keys for details; click or press Enter to open the node."),
  });
  hint.textContent = "Hover over a tile or use the arrow keys for details; click or press Enter to open the node.";

  function select(change) {
    saveSelection(change);
    draw();
  }

  function options() {
    const names = resources(layout);
    const groups = Object.keys(layout.labels);
    return {
      by: [...names, STRANDED, TAINTS].includes(selection.by) ? selection.by : names[0] ?? "pods",
      group: selection.group === "-" || groups.includes(selection.group) ? selection.group : groups[0] ?? "-",
      size: names.includes(selection.size) ? selection.size : "",
    };
  }

  function fillSelects(selected) {
    const names = resources(layout);
    fillOptions(by, [...names.map((name) => [name, name]), [STRANDED, "fragmentation"], [TAINTS, "taints"]], selected.by);
    fillOptions(group, [...Object.keys(layout.labels).map((name) => [name, name.replace(/^.*\//, "")]), ["-", "none"]], selected.group);
    fillOptions(size, [["", "equal"], ...names.map((name) => [name, name])], selected.size);
  }

  function draw() {
    if (!layout) return;
    const selected = options();
    fillSelects(selected);
    canvas.parentElement.hidden = !layout.names.length;
    fill(emptyNote, !layout.names.length && h("div.empty", {}, h("strong", {}, "No nodes"), h("p", {}, "Pods stay pending until a node joins.")));
    fill(legend, layout.names.length ? drawLegend(layout, load, selected.by) : []);
    map.show(layout, load, selected, marks);
    const isSmall = layout.names.length > 0 && layout.names.length <= SMALL;
    if (withTable || isSmall) drawTable(selected, isSmall);
    else fill(table);
  }

  function drawTable(selected, isSmall) {
    const rows = layout.names.map((_, row) => row);
    const share = (row) => (selected.by === TAINTS ? layout.taints.of[row] : computeShare(layout, load, selected.by, row) ?? -1);
    if (!isSmall) rows.sort((a, b) => share(b) - share(a));
    const columns = resources(layout);
    const isOpen = table.querySelector("details")?.open ?? isTableOpen;
    const content = [h("div.scroll", {}, h("table", {},
      h("thead", {}, h("tr", {}, h("th", {}, "Node"), columns.map((name) => h("th.number", {}, name)), h("th", {}, "State"))),
      h("tbody", {}, rows.slice(0, ROWS).map((row) => h("tr", {}, h("td", {}, nodeLink(layout.names[row])),
        columns.map((name) => cell(layout, load, name, row)), h("td", {}, describeState(layout, row))))))),
    rows.length > ROWS && h("p.quiet", {}, `and ${count(rows.length - ROWS, "more node")}`)];
    fill(table, isSmall ? content : h("details", { open: isOpen, ontoggle: (event) => (isTableOpen = event.target.open) },
      h("summary", { "data-key": "table" }, `Table, sorted by ${selected.by}`), content));
  }

  return {
    element,
    close: () => map.close(),
    repaint: draw,
    update(frames = new Map(), override = null) {
      layout = override?.layout ?? store.layouts[run];
      load = override?.load ?? store.states[run].load;
      marks = frames;
      draw();
    },
  };
}

function describeState(layout, row) {
  const taint = layout.taints.of[row] >= 0 && layout.taints.values[layout.taints.of[row]];
  return [layout.notReady.includes(row) && "not ready", layout.cordoned.includes(row) && "cordoned", taint].filter(Boolean).join(", ") || "ready";
}

function cell(layout, load, name, row) {
  const capacity = layout.allocatable[name][row];
  if (!capacity) return h("td.number.quiet", {}, "–");
  const requested = name === "pods" ? load.pods[row] : load.requested[name]?.[row] ?? 0;
  return h("td.number", { title: `${amount(name, requested)} of ${amount(name, capacity)}` }, percent(requested, capacity),
    h("span.meter", { "aria-hidden": "true" }, h("i", { style: { width: `${Math.min(100, (100 * requested) / capacity)}%`, background: utilizationColor(Math.max(0.35, requested / capacity)) } })));
}

function labelField(text, field) {
  return h("label", {}, h("span", {}, text), field);
}

function fillOptions(field, entries, selected) {
  if (field.dataset.entries !== JSON.stringify(entries)) {
    field.dataset.entries = JSON.stringify(entries);
    fill(field, entries.map(([value, text]) => h("option", { value }, text)));
  }
  field.value = selected;
}

function drawLegend(layout, load, by) {
  const states = [
    layout.cordoned.length > 0 && h("span.key", {}, h("i.slash", {}), count(layout.cordoned.length, "cordoned", "cordoned")),
    layout.notReady.length > 0 && h("span.key", {}, h("i.slash.broken", {}), count(layout.notReady.length, "not ready", "not ready")),
  ];
  if (by === TAINTS) {
    const taints = layout.taints.values.slice(0, 8);
    return [h("span.key", {}, h("i", { style: { background: categoryColor(-1) } }), "none"),
      taints.map((text, index) => h("span.key", { title: text }, h("i", { style: { background: categoryColor(index) } }), text)),
      layout.taints.values.length > taints.length && h("span.quiet", {}, "and more"), states];
  }
  const [low, high] = by === STRANDED ? ["free resources are usable", "free, but another resource is exhausted"] : ["empty", "full"];
  const isOvercommitted = by !== STRANDED && layout.names.some((_, row) => (computeShare(layout, load, by, row) ?? 0) > 1.0005);
  return [h("span.key", {}, low, h("i.ramp", { style: { background: gradient() } }), high),
    isOvercommitted && h("span.key", {}, h("i", { style: { background: OVER[theme()] } }), "over capacity"), states];
}
