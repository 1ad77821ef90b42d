// The scheduling queue: pods per queue, events that trigger a retry, and pod groups.

import { empty, fill, h, whenChanged } from "./dom.js";
import { store } from "./store.js";
import { podsBy } from "./view-waiting.js";

const QUEUES = [
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
  return event.split("/").map((part, index) => (index ? ["/", h("wbr"), part] : part));
}

export function queuesView() {
  const queueTiles = h("div.facts.places", { role: "group", "aria-label": "Queues" });
  const events = h("section.card", { "aria-label": "Events" });
  const groups = h("section.card", { "aria-label": "Pod groups" });
  const podSection = h("section.card", { "aria-label": "Pods" });
  const element = h("div", {}, h("h1.hidden", {}, "Queues"), queueTiles, h("div.columns.even", {}, events, groups), podSection);
  let selectedQueue = "", list = null;

  function selectQueue(queue) {
    selectedQueue = selectedQueue === queue ? "" : queue;
    list = podsBy(selectedQueue ? { place: selectedQueue.replace("_", "-") } : {}, "No pods");
    fill(podSection, h("h2", {}, selectedQueue ? QUEUES.find(([name]) => name === selectedQueue)?.[1] ?? selectedQueue : "All pending pods"), list.element);
    drawTiles(store.state.queues, selectedQueue);
    list.refresh();
  }

  const drawTiles = whenChanged((queues) => {
    const otherQueues = Object.keys(queues).filter((name) => !QUEUES.some(([queueName]) => queueName === name)).map((name) => [name, name, ""]);
    fill(queueTiles, [...QUEUES, ...otherQueues].filter(([name]) => queues[name] || ["active", "backoff", "unschedulable", "gated"].includes(name)).map(([name, title, text]) =>
      h("button.fact", { type: "button", "data-key": name, "aria-pressed": String(selectedQueue === name), onclick: () => selectQueue(name) },
        h("span.name", {}, title), h("strong", {}, (queues[name] ?? 0).toLocaleString("en")), h("span.quiet", {}, text))));
  });
  const drawEvents = whenChanged((rows) => fill(events, h("h2", {}, "Events that trigger a retry"), rows.length ? h("div.scroll", {}, h("table", {},
    h("thead", {}, h("tr", {}, h("th", {}, "Event"), h("th.number", {}, "Pods"), h("th", {}, "Would be retried by"))),
    h("tbody", {}, rows.map((item) => h("tr", {}, h("td", {}, h("code", {}, breakable(item.event))), h("td.number", {}, item.pods.toLocaleString("en")), h("td.long", {}, item.plugins.join(", "))))))) : empty("No events", "No pod was rejected.")));
  const drawGroups = whenChanged((rows) => fill(groups, h("h2", {}, "Pod groups"), rows.length ? h("div.scroll", {}, h("table", {},
    h("thead", {}, h("tr", {}, h("th", {}, "Group"), h("th.number", {}, "Pending"), h("th.number", {}, "On nodes"), h("th", {}, "Queue"))),
    h("tbody", {}, rows.map((item) => h("tr", {}, h("td", {}, item.name), h("td.number", {}, item.waiting), h("td.number", {}, item.placed), h("td", {}, item.place)))))) : empty("No pending pod groups", "")));
  return { element, title: "Queues", update() {
    const { state } = store;
    drawTiles(state.queues, selectedQueue);
    drawEvents(state.events);
    drawGroups(state.podGroups);
    if (!list) selectQueue(selectedQueue);
    list.refresh();
  } };
}
