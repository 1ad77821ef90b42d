// Pending pods: all reasons, page by page, and the pods of one reason.

import { get } from "./api.js";
import { age, amount, count, duration, empty, fill, h, podLink } from "./dom.js";
import { describeFix, groupList, reason } from "./reasons.js";
import { store } from "./store.js";

const PAGE_SIZE = 50;
const NAMESPACE = "moorage-namespace";

// A filtered, paginated list. It is reloaded when the state changes. The namespace applies to all lists.
export function pagedList({ label, load, draw, emptyText, search = "", more = null }) {
  const restart = () => {
    first = 0;
    refresh(true);
  };
  const field = h("input", { type: "search", value: search, placeholder: label, "aria-label": label, oninput: restart });
  const namespace = h("select", { "aria-label": "Namespace", hidden: true, onchange: () => {
    sessionStorage.setItem(NAMESPACE, namespace.value);
    restart();
  } });
  const selectedNamespace = () => sessionStorage.getItem(NAMESPACE) ?? "";
  const list = h("div", {});
  const foot = h("div.pages", {});
  let first = 0, lastKey = "", lastRequest = 0;

  async function refresh(isForced = false) {
    const key = JSON.stringify([field.value, selectedNamespace(), first, store.version, store.at]);
    if (!isForced && key === lastKey) return;
    lastKey = key;
    lastRequest += 1;
    const request = lastRequest;
    try {
      const { items, total, namespaces } = await load(field.value, selectedNamespace(), first, PAGE_SIZE);
      if (request !== lastRequest) return;
      showNamespaces(namespaces);
      fill(list, items.length ? draw(items, total) : emptyText(field.value));
      fill(foot, pages(total));
    } catch (error) {
      if (request === lastRequest) fill(list, empty("The list is not available", error.message));
    }
  }

  function showNamespaces(names) {
    const selected = selectedNamespace();
    const shown = ["", ...new Set(selected ? [selected, ...names] : names)];
    namespace.hidden = shown.length < 3 && !selected;
    if (namespace.dataset.names !== JSON.stringify(shown)) {
      namespace.dataset.names = JSON.stringify(shown);
      fill(namespace, shown.map((name) => h("option", { value: name }, name || "all namespaces")));
    }
    namespace.value = selected;
  }

  function pages(total) {
    if (total <= PAGE_SIZE) return [];
    const showPage = (to) => () => {
      first = to;
      refresh(true);
    };
    return [h("button", { type: "button", "data-key": "back", disabled: first === 0, onclick: showPage(Math.max(0, first - PAGE_SIZE)) }, "Previous"),
      h("span", {}, `${(first + 1).toLocaleString("en")} to ${Math.min(total, first + PAGE_SIZE).toLocaleString("en")} of ${total.toLocaleString("en")}`),
      h("button", { type: "button", "data-key": "on", disabled: first + PAGE_SIZE >= total, onclick: showPage(first + PAGE_SIZE) }, "Next")];
  }

  return { element: h("div", {}, h("div.filter", {}, field, namespace, more), list, foot), refresh };
}

export function waitingView() {
  const note = h("p.quiet", { role: "status" });
  const list = pagedList({
    label: "Filter reasons…",
    load: async (q, namespace, offset, limit) => {
      const { groups, count: total, namespaces } = await get("reasons", { q, namespace, offset, limit, ...store.timeQuery });
      return { items: groups, total, namespaces };
    },
    draw: (groups) => groupList(groups, Math.max(store.state.waiting, 1)),
    emptyText: (text) => (text ? empty("No matching reason", "Try another filter.") : empty("No pending pods", "Every pod is on a node.")),
  });
  const element = h("section.card", {}, h("div.head", {}, h("h1", {}, "Pending pods")), note, list.element);
  return { element, title: "Pending", update() {
    const { state } = store;
    note.textContent = state.note || (state.waiting ? `${count(state.waiting, "pod")} for ${count(state.groups.length + state.groupsLeft, "reason")}. Pods with the same reasons are grouped.` : "");
    list.refresh();
  } };
}

export function podTable(pods) {
  const withAge = store.about.kind === "live";
  return h("div.scroll", {}, h("table.stack", {},
    h("thead", {}, h("tr", {}, h("th", {}, "Pod"), h("th", {}, "Queue"), h("th.number", {}, "CPU"), h("th.number", {}, "Memory"), withAge && h("th.number", {}, "Age"), h("th.number", {}, "Attempts"), h("th.number", {}, "Priority"), h("th", {}, "Last result"))),
    h("tbody", {}, pods.map((pod) => h("tr", {}, h("td", {}, podLink(pod.pod)), h("td", {}, pod.place),
      h("td.number", {}, amount("cpu", pod.requests.cpu ?? 0)), h("td.number", {}, amount("memory", pod.requests.memory ?? 0)),
      withAge && h("td.number", {}, age(pod.created)), h("td.number", {}, pod.attempts), h("td.number", {}, pod.priority),
      h("td.long", {}, pod.wouldGoTo ? `fits on ${pod.wouldGoTo}` : pod.message || reason(pod.reasons.join(", "))))))));
}

export function podsBy(filter, emptyText) {
  return pagedList({
    label: "Filter pods by name…",
    load: async (q, namespace, offset, limit) => {
      const { pods, count: total, namespaces } = await get("waiting", { ...filter, q, namespace, offset, limit, ...store.timeQuery });
      return { items: pods, total, namespaces };
    },
    draw: podTable,
    emptyText: () => empty(emptyText, ""),
  });
}

export function groupView(id) {
  const head = h("div", {});
  const list = podsBy({ group: id }, "No pending pods with this reason");
  const element = h("section.card", {}, h("p", {}, h("a", { href: "#/waiting" }, "‹ all reasons")), head, list.element);
  return { element, title: "Pending pods", update() {
    const group = store.state.groups.find((item) => item.id === id);
    fill(head, h("h1", {}, group ? reason(group.reasons[0]) : "Pods with one reason"),
      group && [group.reasons.length > 1 && h("ul.plain", {}, group.reasons.slice(1).map((text) => h("li", {}, "and ", reason(text)))),
        describeFix(group),
        h("p.quiet", {}, `${count(group.pods, "pod")}, rejected by ${group.plugins.join(", ") || "no plugin yet"}`,
          store.about.kind !== "still" && `, pending for up to ${duration(Math.max(0, store.state.time - group.oldest))}`)]);
    list.refresh();
  } };
}
