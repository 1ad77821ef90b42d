// Pending pods: all reasons, page by page, and the pods of one reason.

import { get } from "./api.js";
import { count, duration, empty, fill, h, podLink } from "./dom.js";
import { groupList, reason } from "./reasons.js";
import { store } from "./store.js";

const PAGE = 50;

// A filtered, paginated list. It is fetched again when the state changes.
function paged({ label, load, draw, none }) {
  const field = h("input", { type: "search", placeholder: label, "aria-label": label, oninput: () => {
    first = 0;
    refresh(true);
  } });
  const list = h("div", {});
  const foot = h("div.pages", {});
  let first = 0, last = "", turn = 0;

  async function refresh(isAsked = false) {
    const key = JSON.stringify([field.value, first, store.version, store.at]);
    if (!isAsked && key === last) return;
    last = key;
    turn += 1;
    const mine = turn;
    try {
      const { items, total } = await load(field.value, first, PAGE);
      if (mine !== turn) return;
      fill(list, items.length ? draw(items, total) : none(field.value));
      fill(foot, pages(total));
    } catch (error) {
      if (mine === turn) fill(list, empty("The list is not available", error.message));
    }
  }

  function pages(total) {
    if (total <= PAGE) return [];
    const go = (to) => () => {
      first = to;
      refresh(true);
    };
    return [h("button", { type: "button", "data-key": "back", disabled: first === 0, onclick: go(Math.max(0, first - PAGE)) }, "Previous"),
      h("span", {}, `${(first + 1).toLocaleString("en")} to ${Math.min(total, first + PAGE).toLocaleString("en")} of ${total.toLocaleString("en")}`),
      h("button", { type: "button", "data-key": "on", disabled: first + PAGE >= total, onclick: go(first + PAGE) }, "Next")];
  }

  return { element: h("div", {}, h("div.filter", {}, field), list, foot), refresh };
}

export function waitingView() {
  const note = h("p.quiet", { role: "status" });
  const list = paged({
    label: "Filter reasons…",
    load: async (q, offset, limit) => {
      const { groups, count: total } = await get("reasons", { q, offset, limit, ...store.moment });
      return { items: groups, total };
    },
    draw: (groups) => groupList(groups, Math.max(store.state.waiting, 1)),
    none: (text) => (text ? empty("No matching reason", "Try another filter.") : empty("No pending pods", "Every pod is on a node.")),
  });
  const element = h("section.card", {}, h("div.head", {}, h("h1", {}, "Pending pods")), note, list.element);
  return { element, title: "Pending", update() {
    const { state } = store;
    note.textContent = state.note || (state.waiting ? `${count(state.waiting, "pod")} for ${count(state.groups.length + state.groupsLeft, "reason")}. Pods with the same reasons are grouped.` : "");
    list.refresh();
  } };
}

export function podTable(pods) {
  return h("div.scroll", {}, h("table.stack", {},
    h("thead", {}, h("tr", {}, h("th", {}, "Pod"), h("th", {}, "Queue"), h("th.number", {}, "Attempts"), h("th.number", {}, "Priority"), h("th", {}, "Last result"))),
    h("tbody", {}, pods.map((pod) => h("tr", {}, h("td", {}, podLink(pod.pod)), h("td", {}, pod.place),
      h("td.number", {}, pod.attempts), h("td.number", {}, pod.priority),
      h("td.long", {}, pod.wouldGoTo ? `fits on ${pod.wouldGoTo}` : pod.message || reason(pod.reasons.join(", "))))))));
}

export function podsBy(filter, none) {
  return paged({
    label: "Filter pods by name…",
    load: async (q, offset, limit) => {
      const { pods, count: total } = await get("waiting", { ...filter, q, offset, limit, ...store.moment });
      return { items: pods, total };
    },
    draw: podTable,
    none: () => empty(none, ""),
  });
}

export function groupView(id) {
  const head = h("div", {});
  const list = podsBy({ group: id }, "No pod is pending for this reason any more");
  const element = h("section.card", {}, h("p", {}, h("a", { href: "#/waiting" }, "‹ all reasons")), head, list.element);
  return { element, title: "Pending pods", update() {
    const group = store.state.groups.find((item) => item.id === id);
    fill(head, h("h1", {}, group ? reason(group.reasons[0]) : "Pods with one reason"),
      group && [group.reasons.length > 1 && h("ul.plain", {}, group.reasons.slice(1).map((text) => h("li", {}, "and ", reason(text)))),
        group.help && h("p.help", {}, h("span.tag", {}, "possible fix"), " ", group.help, h("span.quiet", {}, ` (computed for ${group.examples[0]})`)),
        h("p.quiet", {}, `${count(group.pods, "pod")}, rejected by ${group.plugins.join(", ") || "no plugin yet"}`,
          store.about.kind !== "still" && `, pending for up to ${duration(Math.max(0, store.state.time - group.oldest))}`)]);
    list.refresh();
  } };
}
