// All pods, on nodes and pending, with a search over pods, workloads and nodes.

import { get } from "./api.js";
import { age, amount, empty, fill, h, nodeLink, podLink } from "./dom.js";
import { reason } from "./reasons.js";
import { store } from "./store.js";
import { pagedList } from "./view-waiting.js";

const MAX_NODES = 12;
const REFRESH_MILLISECONDS = 3000;

export function podsView(search) {
  const list = podList(search);
  return { element: h("section.card", {}, h("h1", {}, "Pods"), list.element), title: "Pods", update: list.update };
}

export function podList(search = "") {
  const state = h("select", { "aria-label": "State", onchange: () => list.refresh(true) }, [["", "all states"], ["pending", "pending"], ["placed", "on nodes"]].map(([value, text]) => h("option", { value }, text)));
  const nodes = h("p", {});
  const list = pagedList({
    label: "Filter by pod, owner or node…",
    search,
    more: state,
    load: async (q, namespace, offset, limit) => {
      drawNodes(q);
      const { pods, count: total, namespaces } = await get("pods", { q, namespace, state: state.value, offset, limit, ...store.timeQuery });
      return { items: pods, total, namespaces };
    },
    draw: podTable,
    emptyText: (text) => empty("No pods", text ? "Try another filter." : ""),
  });
  let last = 0;

  function drawNodes(text) {
    const names = text ? store.layout.names.filter((name) => name.includes(text)) : [];
    fill(nodes, names.length > 0 && ["Nodes: ", names.slice(0, MAX_NODES).map((name, index) => [index ? ", " : "", nodeLink(name)]), names.length > MAX_NODES && ` and ${names.length - MAX_NODES} more`]);
  }

  return { element: h("div", {}, list.element, nodes), update() {
    // The list of a busy cluster would otherwise be requested every second.
    if (store.about.kind === "live" && Date.now() - last < REFRESH_MILLISECONDS) return;
    last = Date.now();
    list.refresh();
  } };
}

function podTable(pods) {
  const withAge = store.about.kind === "live";
  return h("div.scroll", {}, h("table.stack", {},
    h("thead", {}, h("tr", {}, h("th", {}, "Pod"), h("th", {}, "Node"), h("th.number", {}, "CPU"), h("th.number", {}, "Memory"), h("th.number", {}, "Priority"), h("th", {}, "Owner"), withAge && h("th.number", {}, "Age"))),
    h("tbody", {}, pods.map((pod) => h("tr", {}, h("td", {}, podLink(pod.pod)),
      pod.node ? h("td", {}, nodeLink(pod.node)) : h("td.long", {}, h("span.tag.unschedulable", {}, "pending"), " ", reason(pod.reason)),
      h("td.number", {}, amount("cpu", pod.requests.cpu ?? 0)), h("td.number", {}, amount("memory", pod.requests.memory ?? 0)),
      h("td.number", {}, pod.priority), h("td", {}, pod.owner), withAge && h("td.number", {}, age(pod.created)))))));
}
