// The queue: where pods wait, which events would bring them back, and groups.

import { empty, fill, h, whenChanged } from "./dom.js";
import { store } from "./store.js";
import { podsBy } from "./view-waiting.js";

const PLACES = [
  ["active", "Active", "tried next, in order of priority"],
  ["backoff", "Backing off", "failed a moment ago; tried again when their penalty is over"],
  ["unschedulable", "Unschedulable", "turned down; tried again when an event could help"],
  ["gated", "Gated", "held back before the first attempt"],
  ["in_flight", "In flight", "being tried or bound right now"],
  ["incomplete", "Incomplete", "members whose pod group is missing"],
  ["pending", "Group is tried", "came while their group was being tried"],
];

export function queuesView() {
  const boxes = h("div.facts.places", { role: "group", "aria-label": "Places" });
  const events = h("section.card", { "aria-label": "Events" });
  const groups = h("section.card", { "aria-label": "Pod groups" });
  const listed = h("section.card", { "aria-label": "Pods" });
  const element = h("div", {}, h("h1.hidden", {}, "Queues"), boxes, h("div.columns.even", {}, events, groups), listed);
  let chosen = "", list = null;

  function choose(place) {
    chosen = chosen === place ? "" : place;
    list = podsBy(chosen ? { place: chosen.replace("_", "-") } : {}, "Nobody is here");
    fill(listed, h("h2", {}, chosen ? PLACES.find(([name]) => name === chosen)?.[1] ?? chosen : "All who wait"), list.element);
    drawBoxes(store.state.queues, chosen);
    list.refresh();
  }

  const drawBoxes = whenChanged((queues) => {
    const others = Object.keys(queues).filter((name) => !PLACES.some(([known]) => known === name)).map((name) => [name, name, ""]);
    fill(boxes, [...PLACES, ...others].filter(([name]) => queues[name] || ["active", "backoff", "unschedulable", "gated"].includes(name)).map(([name, title, text]) =>
      h("button.fact", { type: "button", "data-key": name, "aria-pressed": String(chosen === name), onclick: () => choose(name) },
        h("span.name", {}, title), h("strong", {}, (queues[name] ?? 0).toLocaleString("en")), h("span.quiet", {}, text))));
  });
  const drawEvents = whenChanged((found) => fill(events, h("h2", {}, "What they wait for"), found.length ? h("div.scroll", {}, h("table", {},
    h("thead", {}, h("tr", {}, h("th", {}, "Event"), h("th.number", {}, "Pods"), h("th", {}, "Hoped for by"))),
    h("tbody", {}, found.map((item) => h("tr", {}, h("td", {}, h("code", {}, item.event)), h("td.number", {}, item.pods.toLocaleString("en")), h("td.long", {}, item.plugins.join(", "))))))) : empty("No event would help anybody", "Nobody was turned down.")));
  const drawGroups = whenChanged((found) => fill(groups, h("h2", {}, "Pod groups"), found.length ? h("div.scroll", {}, h("table", {},
    h("thead", {}, h("tr", {}, h("th", {}, "Group"), h("th.number", {}, "Wait"), h("th.number", {}, "Have a node"), h("th", {}, "Place"))),
    h("tbody", {}, found.map((item) => h("tr", {}, h("td", {}, item.name), h("td.number", {}, item.waiting), h("td.number", {}, item.placed), h("td", {}, item.place)))))) : empty("No group waits", "Members of pod groups that wait are listed here.")));
  return { element, title: "Queues", update() {
    const { state } = store;
    drawBoxes(state.queues, chosen);
    drawEvents(state.events);
    drawGroups(state.podGroups);
    if (!list) choose(chosen);
    list.refresh();
  } };
}
