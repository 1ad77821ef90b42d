// The scheduling queue: pods per queue, events that trigger a retry, and pod groups.

import { empty, fill, h, whenChanged } from "./dom.js";
import { retryEvent } from "./retry-events.js";
import { store } from "./store.js";
import { startTimeline } from "./timeline.js";
import { podsBy } from "./view-waiting.js";

const QUEUES = [
  ["active", "Next", "ready for an attempt, in order of priority (active)"],
  ["backoff", "Retried soon", "failed recently; retried after a short delay (backoff)"],
  ["unschedulable", "No node fits", "retried after a cluster event that may help (unschedulable)"],
  ["gated", "Gated", "not scheduled until their scheduling gates are removed"],
  ["in_flight", "Being scheduled", "in a scheduling or binding cycle"],
  ["incomplete", "Group missing", "their pod group does not exist"],
  ["pending", "Group in progress", "arrived while their group was being scheduled"],
  ["another scheduler", "Other schedulers", "their schedulerName is not a profile of this scheduler"],
];

export function queueTitle(place) {
  return QUEUES.find(([name]) => name === place.replace("-", "_"))?.[1] ?? place;
}

export function queuesView() {
  const queueTiles = h("div.facts.places", { role: "group", "aria-label": "Queues" });
  const events = h("section.card", { "aria-label": "Events" });
  const groups = h("section.card", { "aria-label": "Pod groups" });
  const podSection = h("section.card", { "aria-label": "Pods" });
  const timeline = store.isPlayed ? null : startTimeline(); // a simulation shows the actual starts
  const element = h("div", {}, h("h1.hidden", {}, "Queues"), queueTiles, timeline?.element, podSection, h("div.columns.even", {}, events, groups));
  let selectedQueue = "", list = null;

  function selectQueue(queue) {
    selectedQueue = selectedQueue === queue ? "" : queue;
    list = podsBy(selectedQueue ? { place: selectedQueue.replace("_", "-") } : {}, "No pods");
    fill(podSection, h("h2", {}, selectedQueue ? queueTitle(selectedQueue) : "All pending pods"), list.element);
    drawTiles(store.state.queues, selectedQueue);
    list.refresh();
  }

  const drawTiles = whenChanged((queues) => {
    const otherQueues = Object.keys(queues).filter((name) => !QUEUES.some(([queueName]) => queueName === name)).map((name) => [name, name, ""]);
    fill(queueTiles, [...QUEUES, ...otherQueues].filter(([name]) => queues[name] || ["active", "backoff", "unschedulable", "gated"].includes(name)).map(([name, title, text]) =>
      h("button.fact", { type: "button", "data-key": name, "aria-pressed": String(selectedQueue === name), onclick: () => selectQueue(name) },
        h("span.name", {}, title), h("strong", {}, (queues[name] ?? 0).toLocaleString("en")), h("span.quiet", {}, text))));
  });
  const drawEvents = whenChanged((rows) => fill(events, h("h2", {}, "Events that retry pending pods"), rows.length ? h("div.scroll", {}, h("table", {},
    h("thead", {}, h("tr", {}, h("th", {}, "Event"), h("th.number", {}, "Pods"), h("th", {}, "Plugins"))),
    h("tbody", {}, rows.map((item) => h("tr", {}, h("td", {}, retryEvent(item.event)), h("td.number", {}, item.pods.toLocaleString("en")), h("td.long", {}, item.plugins.join(", "))))))) : empty("No events", "No pod was rejected.")));
  const drawGroups = whenChanged((rows) => {
    groups.hidden = !rows.length;
    fill(groups, h("h2", {}, "Pod groups"), h("div.scroll", {}, h("table", {},
      h("thead", {}, h("tr", {}, h("th", {}, "Group"), h("th.number", {}, "Pending"), h("th.number", {}, "On nodes"), h("th", {}, "Queue"))),
      h("tbody", {}, rows.map((item) => h("tr", {}, h("td", {}, item.name), h("td.number", {}, item.waiting), h("td.number", {}, item.placed), h("td", {}, queueTitle(item.place))))))));
  });
  return { element, title: "Queues", update() {
    const { state } = store;
    drawTiles(state.queues, selectedQueue);
    drawEvents(state.events);
    drawGroups(state.podGroups);
    if (!list) selectQueue(selectedQueue);
    list.refresh();
    timeline?.update();
  } };
}
