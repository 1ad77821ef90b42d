// The scheduling queue: pods per queue, events that trigger a retry, and pod groups.

import { empty, fill, h, whenChanged } from "./dom.js";
import { store } from "./store.js";
import { podsBy } from "./view-waiting.js";

const PLACES = [
  ["active", "Active", "tried next, in order of priority"],
  ["backoff", "Backing off", "failed recently; retried after the backoff"],
  ["unschedulable", "Unschedulable", "rejected; retried after an event that could help"],
  ["gated", "Gated", "not admitted to the queue by a PreEnqueue plugin"],
  ["in_flight", "In flight", "being scheduled or bound now"],
  ["incomplete", "Incomplete", "their pod group does not exist"],
  ["pending", "Group in progress", "arrived while their group was being scheduled"],
];

// Long event names wrap after the slash.
function breakable(event) {
  return event.split("/").map((part, at) => (at ? ["/", h("wbr"), part] : part));
}

export function queuesView() {
  const boxes = h("div.facts.places", { role: "group", "aria-label": "Queues" });
  const events = h("section.card", { "aria-label": "Events" });
  const groups = h("section.card", { "aria-label": "Pod groups" });
  const listed = h("section.card", { "aria-label": "Pods" });
  const element = h("div", {}, h("h1.hidden", {}, "Queues"), boxes, h("div.columns.even", {}, events, groups), listed);
  let chosen = "", list = null;

  function choose(place) {
    chosen = chosen === place ? "" : place;
    list = podsBy(chosen ? { place: chosen.replace("_", "-") } : {}, "No pods");
    fill(listed, h("h2", {}, chosen ? PLACES.find(([name]) => name === chosen)?.[1] ?? chosen : "All pending pods"), list.element);
    drawBoxes(store.state.queues, chosen);
    list.refresh();
  }

  const drawBoxes = whenChanged((queues) => {
    const others = Object.keys(queues).filter((name) => !PLACES.some(([known]) => known === name)).map((name) => [name, name, ""]);
    fill(boxes, [...PLACES, ...others].filter(([name]) => queues[name] || ["active", "backoff", "unschedulable", "gated"].includes(name)).map(([name, title, text]) =>
      h("button.fact", { type: "button", "data-key": name, "aria-pressed": String(chosen === name), onclick: () => choose(name) },
        h("span.name", {}, title), h("strong", {}, (queues[name] ?? 0).toLocaleString("en")), h("span.quiet", {}, text))));
  });
  const drawEvents = whenChanged((found) => fill(events, h("h2", {}, "Events that trigger a retry"), found.length ? h("div.scroll", {}, h("table", {},
    h("thead", {}, h("tr", {}, h("th", {}, "Event"), h("th.number", {}, "Pods"), h("th", {}, "Would be retried by"))),
    h("tbody", {}, found.map((item) => h("tr", {}, h("td", {}, h("code", {}, breakable(item.event))), h("td.number", {}, item.pods.toLocaleString("en")), h("td.long", {}, item.plugins.join(", "))))))) : empty("No events", "No pod was rejected.")));
  const drawGroups = whenChanged((found) => fill(groups, h("h2", {}, "Pod groups"), found.length ? h("div.scroll", {}, h("table", {},
    h("thead", {}, h("tr", {}, h("th", {}, "Group"), h("th.number", {}, "Pending"), h("th.number", {}, "On nodes"), h("th", {}, "Queue"))),
    h("tbody", {}, found.map((item) => h("tr", {}, h("td", {}, item.name), h("td.number", {}, item.waiting), h("td.number", {}, item.placed), h("td", {}, item.place)))))) : empty("No pending pod groups", "")));
  return { element, title: "Queues", update() {
    const { state } = store;
    drawBoxes(state.queues, chosen);
    drawEvents(state.events);
    drawGroups(state.podGroups);
    if (!list) choose(chosen);
    list.refresh();
  } };
}
