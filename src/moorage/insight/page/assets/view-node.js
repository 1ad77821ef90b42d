// A node: utilization, pods and near misses.

import { get } from "./api.js";
import { age, amount, count, empty, fill, h, percent, podLink } from "./dom.js";
import { utilizationColor } from "./colors.js";
import { reason } from "./reasons.js";
import { store } from "./store.js";
import { prepare } from "./view-try.js";

const MAX_ROWS = 200;

export function nodeView(name) {
  const body = h("div", {}, h("p.quiet", { role: "status" }, "Loading the node…"));
  const element = h("div", {}, h("h1.key", {}, name), body);
  const planned = h("div", {});
  let requestedVersion, node = null, details = null;

  // The steps of `moorage plan drain`: where each pod would go, and which pods cannot leave.
  async function plan() {
    fill(planned, h("p.quiet", { role: "status" }, "Planning…"));
    try {
      const { lines } = await get("plan", { node: name, ...store.timeQuery });
      fill(planned, h("section.card", {}, h("h2", {}, "Plan of a drain"), h("pre", {}, lines.join("\n")),
        h("p.quiet", {}, "Nothing was changed. moorage plan drain prints more details and saves the plan.")));
    } catch (error) {
      fill(planned, empty("No plan", error.message));
    }
  }

  async function load() {
    const version = store.about.kind === "live" ? store.version : store.at;
    if (version === requestedVersion) return;
    const isFirst = requestedVersion === undefined || store.about.kind !== "live";
    requestedVersion = version;
    try {
      node = await get("node", { node: name, deep: "no", ...store.timeQuery });
      details = "almost" in node ? node : details;
      show();
      if (isFirst && !("almost" in node)) {
        details = await get("node", { node: name, ...store.timeQuery });
        show();
      }
    } catch (error) {
      fill(body, empty("The node is not available", error.message));
    }
  }

  function show() {
    const isNotReady = node.conditions.some((item) => item.type === "Ready" && item.status !== "True");
    const states = [node.isCordoned && "cordoned", isNotReady && "not ready"].filter(Boolean);
    fill(body, states.length > 0 && h("p.headline.unschedulable", {}, states.join(", ")), meters(node),
      h("div.columns.even", {}, taints(node), conditions(node)),
      h("p", {}, h("button", { type: "button", "data-key": "drain", onclick: () => prepare({ drain: name }) }, "Simulate a drain"), " ",
        h("button", { type: "button", "data-key": "plan", onclick: plan }, "Plan a drain")), planned,
      h("div.columns.even", {}, pods(node), drawNearMisses(details)));
  }

  return { element, title: name, update: load };
}

function meters(node) {
  const entries = Object.entries(node.allocatable).filter(([name, capacity]) => capacity && (name !== "ephemeral-storage" || node.requested[name]));
  return h("div.facts", {}, entries.map(([name, capacity]) => {
    const requested = node.requested[name] ?? 0;
    return h("div.fact", {}, h("span.name", {}, name), h("strong", {}, percent(requested, capacity)),
      h("span.meter", { role: "meter", "aria-label": name, "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": Math.round((100 * requested) / capacity) },
        h("i", { style: { width: `${Math.min(100, (100 * requested) / capacity)}%`, "min-width": requested ? "3px" : 0, background: utilizationColor(Math.max(0.35, requested / capacity)) } })),
      h("span.quiet", {}, `${amount(name, requested)} of ${amount(name, capacity)}`));
  }));
}

function pods(node) {
  const visiblePods = node.pods.slice(0, MAX_ROWS);
  return h("section.card", {}, h("h2", {}, `Pods on this node: ${node.pods.length.toLocaleString("en")}`), visiblePods.length ? h("div.scroll", {}, h("table.stack", {},
    h("thead", {}, h("tr", {}, h("th", {}, "Pod"), h("th.number", {}, "CPU"), h("th.number", {}, "Memory"), h("th.number", {}, "Priority"), h("th", {}, "Owner"))),
    h("tbody", {}, visiblePods.map((pod) => h("tr", {}, h("td", {}, podLink(pod.pod)), h("td.number", {}, amount("cpu", pod.requests.cpu ?? 0)), h("td.number", {}, amount("memory", pod.requests.memory ?? 0)), h("td.number", {}, pod.priority), h("td", {}, pod.owner))))))
    : empty("No pods", ""), node.pods.length > MAX_ROWS && h("p.quiet", {}, `and ${count(node.pods.length - MAX_ROWS, "more pod")}`));
}

function drawNearMisses(details) {
  if (!details) return h("section.card", {}, h("h2", {}, "Near misses"), h("p.quiet", { role: "status" }, "Evaluating the plugins…"));
  return h("section.card", {}, h("h2", {}, "Near misses"),
    details.almost.length > 0 && [h("h3", {}, "Pending pods, and why they are not on this node"), h("ul.plain.spaced", {}, details.almost.map((item) => h("li", {}, podLink(item.pod), ": ",
      item.obstacles.length ? item.obstacles.map((obstacle, index) => [index ? "; " : "", reason(obstacle.text), h("span.quiet", {}, ` (${obstacle.plugin})`)]) : h("strong", {}, "would fit here"))))],
    details.second.length > 0 && [h("h3", {}, "Recent pods for which this node was the runner-up"), h("ul.plain.spaced", {}, details.second.map((item) => h("li", {}, podLink(item.pod), ` is on ${item.node}, ${item.lead > 0 ? `which scored ${count(item.lead, "point")} more` : "which had the same score"}`)))],
    !details.almost.length && !details.second.length && empty("No near misses", "No pending pod was rejected here, and this node was not the runner-up for a recent pod."));
}

function taints(node) {
  const entries = Object.entries(node.labels).sort();
  return h("section.card", {}, h("h2", {}, "Taints"), node.taints.length ? h("p", {}, node.taints.map((taint) => h("code.chip", {}, `${taint.key}${taint.value ? `=${taint.value}` : ""}:${taint.effect}`))) : h("p.quiet", {}, "none"),
    h("h2", {}, "Labels"), entries.length ? h("p", {}, entries.map(([key, value]) => h("code.chip", {}, `${key}=${value}`))) : h("p.quiet", {}, "none"));
}

// A condition other than Ready reports a problem if it is true.
function conditions(node) {
  const isGood = (item) => item.status === (item.type === "Ready" ? "True" : "False");
  return h("section.card", {}, h("h2", {}, "Conditions"), node.conditions.length ? h("table.stack", {}, h("tbody", {}, node.conditions.map((item) => h("tr", {}, h("td", {}, item.type),
    h("td", {}, h(`span.tag${isGood(item) ? "" : ".error"}`, {}, item.status)), h("td", {}, item.reason), h("td.quiet", {}, store.about.kind === "live" && item.since ? `for ${age(item.since)}` : item.since))))) : h("p.quiet", {}, "none reported"),
  node.created && store.about.kind === "live" && h("p.quiet", {}, `Age: ${age(node.created)}`));
}
