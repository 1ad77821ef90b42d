// A node: utilization, pods and near misses.

import { get } from "./api.js";
import { amount, count, empty, fill, h, percent, podLink } from "./dom.js";
import { scale } from "./colors.js";
import { reason } from "./reasons.js";
import { store } from "./store.js";
import { prepare } from "./view-try.js";

const ROWS = 200;

export function nodeView(name) {
  const body = h("div", {}, h("p.quiet", { role: "status" }, "Loading the node…"));
  const element = h("div", {}, h("h1.key", {}, name), body);
  let asked, node = null, deep = null;

  async function load() {
    const wanted = store.about.kind === "live" ? store.version : store.at;
    if (wanted === asked) return;
    const isFirst = asked === undefined || store.about.kind !== "live";
    asked = wanted;
    try {
      node = await get("node", { node: name, deep: "no", ...store.moment });
      deep = "almost" in node ? node : deep;
      show();
      if (isFirst && !("almost" in node)) {
        deep = await get("node", { node: name, ...store.moment });
        show();
      }
    } catch (error) {
      fill(body, empty("The node is not available", error.message));
    }
  }

  function show() {
    const states = [node.isCordoned && "cordoned", node.conditions.Ready && node.conditions.Ready !== "True" && "not ready"].filter(Boolean);
    fill(body, states.length > 0 && h("p.headline.unschedulable", {}, states.join(", ")), meters(node),
      node.taints.length > 0 && h("p", {}, "Taints: ", node.taints.map((taint) => h("code.chip", {}, `${taint.key}${taint.value ? `=${taint.value}` : ""}:${taint.effect}`))),
      h("div.columns.even", {}, pods(node), almost(deep)), labels(node),
      h("p", {}, h("button", { type: "button", "data-key": "drain", onclick: () => prepare({ drain: name }) }, "Simulate a drain")));
  }

  return { element, title: name, update: load };
}

function meters(node) {
  const shown = Object.entries(node.allocatable).filter(([name, whole]) => whole && (name !== "ephemeral-storage" || node.requested[name]));
  return h("div.facts", {}, shown.map(([name, whole]) => {
    const taken = node.requested[name] ?? 0;
    return h("div.fact", {}, h("span.name", {}, name), h("strong", {}, percent(taken, whole)),
      h("span.meter", { role: "meter", "aria-label": name, "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": Math.round((100 * taken) / whole) },
        h("i", { style: { width: `${Math.min(100, (100 * taken) / whole)}%`, background: scale(Math.max(0.35, taken / whole)) } })),
      h("span.quiet", {}, `${amount(name, taken)} of ${amount(name, whole)}`));
  }));
}

function pods(node) {
  const shown = node.pods.slice(0, ROWS);
  return h("section.card", {}, h("h2", {}, `Pods on this node: ${node.pods.length.toLocaleString("en")}`), shown.length ? h("div.scroll", {}, h("table", {},
    h("thead", {}, h("tr", {}, h("th", {}, "Pod"), h("th.number", {}, "CPU"), h("th.number", {}, "Memory"), h("th.number", {}, "Priority"), h("th", {}, "Owner"))),
    h("tbody", {}, shown.map((pod) => h("tr", {}, h("td", {}, podLink(pod.pod)), h("td.number", {}, amount("cpu", pod.requests.cpu ?? 0)), h("td.number", {}, amount("memory", pod.requests.memory ?? 0)), h("td.number", {}, pod.priority), h("td", {}, pod.owner))))))
    : empty("No pods", ""), node.pods.length > ROWS && h("p.quiet", {}, `and ${count(node.pods.length - ROWS, "more pod")}`));
}

function almost(deep) {
  if (!deep) return h("section.card", {}, h("h2", {}, "Near misses"), h("p.quiet", { role: "status" }, "Evaluating the plugins…"));
  return h("section.card", {}, h("h2", {}, "Near misses"),
    deep.almost.length > 0 && [h("h3", {}, "Pending pods, and why they are not on this node"), h("ul.plain.spaced", {}, deep.almost.map((item) => h("li", {}, podLink(item.pod), ": ",
      item.obstacles.length ? item.obstacles.map((obstacle, at) => [at ? "; " : "", reason(obstacle.text), h("span.quiet", {}, ` (${obstacle.plugin})`)]) : h("strong", {}, "would fit here"))))],
    deep.second.length > 0 && [h("h3", {}, "Recent pods for which this node was the runner-up"), h("ul.plain.spaced", {}, deep.second.map((item) => h("li", {}, podLink(item.pod), ` is on ${item.node}, ${item.lead > 0 ? `which scored ${count(item.lead, "point")} more` : "which had the same score"}`)))],
    !deep.almost.length && !deep.second.length && empty("No near misses", "No pending pod was rejected here, and this node was not the runner-up for a recent pod."));
}

function labels(node) {
  const entries = Object.entries(node.labels).sort();
  return entries.length > 0 && h("section.card", {}, h("h2", {}, "Labels"), h("p", {}, entries.map(([key, value]) => h("code.chip", {}, `${key}=${value}`))));
}
