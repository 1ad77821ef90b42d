// The node map with its selectors, legend, tooltip line and optional table.

import { gradient, kind, OVER, theme } from "./colors.js";
import { amount, count, fill, h, nodeLink, percent } from "./dom.js";
import { NodeMap, shareOf, STRANDED, TAINTS } from "./map.js";
import { store } from "./store.js";

const ROWS = 100;
const chosen = JSON.parse(sessionStorage.getItem("moorage-map") ?? "{}");

function keep(choice) {
  Object.assign(chosen, choice);
  sessionStorage.setItem("moorage-map", JSON.stringify(chosen));
}

function resources(layout) {
  const order = ["cpu", "memory", "pods"];
  const names = Object.keys(layout.allocatable).filter((name) => layout.allocatable[name].some(Boolean));
  const known = order.filter((name) => names.includes(name));
  return [...known, ...names.filter((name) => !order.includes(name)).sort()];
}

// ``withTable`` adds a table with the same data below the map.
export function mapPicker({ run = 0, height = 460, withTable = false, title = "Nodes" } = {}) {
  const canvas = h("canvas.map", {});
  const hint = h("p.hint", { "aria-hidden": "true" });
  const legend = h("div.legend", {});
  const by = h("select", { onchange: () => choose({ by: by.value }) });
  const group = h("select", { onchange: () => choose({ group: group.value }) });
  const size = h("select", { onchange: () => choose({ size: size.value }) });
  const table = h("div", {});
  const nothing = h("div", {});
  const element = h("section.card.nodes", { "aria-label": title },
    h("div.head", {}, h("h2", {}, title),
      h("div.choices", {}, labelled("Colour", by), labelled("Group", group), labelled("Size", size))),
    legend, nothing, h("div.canvas", {}, canvas), hint, withTable && table);
  let layout, load, marks = new Map(), wasPressed = false;
  const map = new NodeMap(canvas, {
    height,
    onOpen: (name) => (location.hash = `#/node/${encodeURIComponent(name)}`),
    onPoint: (row) => (hint.textContent = row >= 0 ? map.describe(row) : "Point at a tile, or use the arrow keys; a click opens the node."),
  });
  hint.textContent = "Point at a tile, or use the arrow keys; a click opens the node.";

  function choose(choice) {
    keep(choice);
    draw();
  }

  function options() {
    const known = resources(layout);
    const groups = Object.keys(layout.labels);
    return {
      by: [...known, STRANDED, TAINTS].includes(chosen.by) ? chosen.by : known[0] ?? "pods",
      group: chosen.group === "-" || groups.includes(chosen.group) ? chosen.group : groups[0] ?? "-",
      size: known.includes(chosen.size) ? chosen.size : "",
    };
  }

  function fillChoices(now) {
    const known = resources(layout);
    choices(by, [...known.map((name) => [name, name]), [STRANDED, "fragmentation"], [TAINTS, "taints"]], now.by);
    choices(group, [...Object.keys(layout.labels).map((name) => [name, name.replace(/^.*\//, "")]), ["-", "none"]], now.group);
    choices(size, [["", "equal"], ...known.map((name) => [name, name])], now.size);
  }

  function draw() {
    if (!layout) return;
    const now = options();
    fillChoices(now);
    canvas.parentElement.hidden = !layout.names.length;
    fill(nothing, !layout.names.length && h("div.empty", {}, h("strong", {}, "No nodes"), h("p", {}, "Pods stay pending until a node joins.")));
    fill(legend, layout.names.length ? legendOf(layout, load, now.by) : []);
    map.show(layout, load, now, marks);
    if (withTable) drawTable(now);
  }

  function drawTable(now) {
    const rows = layout.names.map((_, row) => row);
    const share = (row) => (now.by === TAINTS ? layout.taints.of[row] : shareOf(layout, load, now.by, row) ?? -1);
    rows.sort((a, b) => share(b) - share(a));
    const shown = resources(layout);
    const wasOpen = table.querySelector("details")?.open ?? wasPressed;
    fill(table, h("details", { open: wasOpen, ontoggle: (event) => (wasPressed = event.target.open) },
      h("summary", { "data-key": "table" }, `Table, sorted by ${now.by}`),
      h("div.scroll", {}, h("table", {},
        h("thead", {}, h("tr", {}, h("th", {}, "Node"), shown.map((name) => h("th.number", {}, name)), h("th", {}, "Taints"))),
        h("tbody", {}, rows.slice(0, ROWS).map((row) => h("tr", {}, h("td", {}, nodeLink(layout.names[row])),
          shown.map((name) => cell(layout, load, name, row)),
          h("td", {}, layout.taints.of[row] >= 0 ? layout.taints.values[layout.taints.of[row]] : "")))))),
      rows.length > ROWS && h("p.quiet", {}, `and ${count(rows.length - ROWS, "more node")}`)));
  }

  return {
    element,
    close: () => map.close(),
    repaint: draw,
    update(frames = new Map(), given = null) {
      layout = given?.layout ?? store.layouts[run];
      load = given?.load ?? store.states[run].load;
      marks = frames;
      draw();
    },
  };
}

function cell(layout, load, name, row) {
  const whole = layout.allocatable[name][row];
  if (!whole) return h("td.number.quiet", {}, "–");
  const taken = name === "pods" ? load.pods[row] : load.requested[name]?.[row] ?? 0;
  return h("td.number", { title: `${amount(name, taken)} of ${amount(name, whole)}` }, percent(taken, whole));
}

function labelled(text, field) {
  return h("label", {}, h("span", {}, text), field);
}

function choices(field, entries, now) {
  if (field.dataset.entries !== JSON.stringify(entries)) {
    field.dataset.entries = JSON.stringify(entries);
    fill(field, entries.map(([value, text]) => h("option", { value }, text)));
  }
  field.value = now;
}

function legendOf(layout, load, by) {
  const states = [
    layout.cordoned.length > 0 && h("span.key", {}, h("i.slash", {}), count(layout.cordoned.length, "cordoned", "cordoned")),
    layout.notReady.length > 0 && h("span.key", {}, h("i.slash.broken", {}), count(layout.notReady.length, "not ready", "not ready")),
  ];
  if (by === TAINTS) {
    const shown = layout.taints.values.slice(0, 8);
    return [h("span.key", {}, h("i", { style: { background: kind(-1) } }), "none"),
      shown.map((text, at) => h("span.key", { title: text }, h("i", { style: { background: kind(at) } }), text)),
      layout.taints.values.length > shown.length && h("span.quiet", {}, "and more"), states];
  }
  const [low, high] = by === STRANDED ? ["free resources are usable", "free, but another resource is exhausted"] : ["empty", "full"];
  const over = by !== STRANDED && layout.names.some((_, row) => (shareOf(layout, load, by, row) ?? 0) > 1.0005);
  return [h("span.key", {}, low, h("i.ramp", { style: { background: gradient() } }), high),
    over && h("span.key", {}, h("i", { style: { background: OVER[theme()] } }), "over capacity"), states];
}
