// A pod: its explanation, the result of every plugin for every node, scores compared with the runner-up, attempts.

import { get } from "./api.js";
import { age, amount, count, empty, fill, h, nodeLink } from "./dom.js";
import { retryEvent } from "./retry-events.js";
import { store } from "./store.js";
import { collapse, decisionTable } from "./view-decisions.js";
import { queueTitle } from "./view-queues.js";
import { prepare } from "./view-try.js";

const FIRST_ROWS = 25;
const MORE_ROWS = 200;

export function podView(key) {
  const body = h("div", {}, h("p.quiet", { role: "status" }, "Evaluating all nodes…"));
  const element = h("div", {}, h("h1.key", {}, key), body);
  let requestedKey = "";

  async function load() {
    const requestKey = JSON.stringify([store.at, store.about.kind === "live" ? 0 : store.at]);
    if (requestKey === requestedKey) return;
    requestedKey = requestKey;
    try {
      fill(body, draw(await get("pod", { pod: key, ...store.timeQuery })));
    } catch (error) {
      fill(body, empty("The pod is not available", error.message, refreshButton()));
    }
  }

  function refreshButton() {
    return h("button", { type: "button", onclick: () => {
      requestedKey = "";
      load();
    } }, "Refresh");
  }

  function draw(pod) {
    return [headline(pod), facts(pod), store.about.kind === "live" && refreshButton(), notes(pod),
      h("div.columns.even", {}, changes(pod), reasons(pod)), because(pod), events(pod), attempts(pod), wakes(pod), nodeTable(pod.table)];
  }

  return { element, title: key, update: load };
}

// The decisive reason; the complete message of the scheduler is folded.
function headline(pod) {
  const [decisive] = pod.reasons;
  if (pod.isBound || !decisive || pod.result !== "unschedulable") return h(`p.headline.${pod.result}`, {}, pod.headline, pod.node && pod.isBound && [" (", nodeLink(pod.node), ")"]);
  return h("div.headline.unschedulable", {}, "is pending: ", decisive.line, h("details.message", {}, h("summary", {}, "scheduler message"), pod.headline));
}

function notes(pod) {
  return pod.notes.map((text) => h("p", {}, text));
}

function facts(pod) {
  const { facts: podFacts, group } = pod;
  const entries = [
    ...Object.entries(podFacts.requests).map(([name, value]) => [name, amount(name, value)]),
    ["priority", podFacts.priority], ["profile", podFacts.profile], podFacts.owner && ["owner", podFacts.owner],
    podFacts.created && store.about.kind === "live" && ["age", age(podFacts.created)],
    podFacts.nominated && ["nominated node", podFacts.nominated],
    group && ["group", `${group.name}: ${group.fits} of ${group.members} fit${group.minCount ? `, ${group.minCount} required` : ""}`],
    pod.waiting && ["queue", queueTitle(pod.waiting.place)],
  ].filter(Boolean);
  return h("dl.labels", {}, entries.map(([name, value]) => [h("div", {}, h("dt", {}, name), h("dd", {}, value))]));
}

function reasons(pod) {
  if (!pod.reasons.length && !pod.preemption) return null;
  return h("section.card", {}, pod.reasons.length > 0 && [h("h2", {}, "Rejected nodes"), h("ul.plain.spaced", {}, pod.reasons.map((item) => h("li", {}, item.line)))],
    pod.preemption && [h("h2", {}, "Preemption"), h("p", {}, pod.preemption.victims.length ? `would evict ${pod.preemption.victims.join(", ")} from node ` : "waits for terminating pods on node ", nodeLink(pod.preemption.nominatedNode))]);
}

function changes(pod) {
  if (pod.isBound || pod.result === "scheduled") return null;
  return h("section.card", {}, h("h2", {}, "Changes that would make it fit"),
    pod.changes.length ? h("ol.changes", {}, pod.changes.map((change) => h("li", {}, h("p", {}, change.line, " ", change.edits.every((edit) => !("config" in edit)) && h("button.quiet.small", { type: "button", onclick: () => prepare({ edits: change.edits, description: change.text }) }, "simulate")),
      h("details", {}, h("summary", {}, "as patches"), h("pre", {}, JSON.stringify(change.edits, null, 2)))))) : h("p", {}, "No change was found that would make the pod fit."),
    pod.stopped && h("p.quiet", {}, "The search for changes is incomplete; moorage explain --timeout gives it more time."));
}

function because(pod) {
  if (!pod.because.length) return null;
  const largest = Math.max(1, ...pod.because.map((item) => Math.abs(item.winner - item.runnerUp)));
  const sorted = [...pod.because].sort((a, b) => Math.abs(b.winner - b.runnerUp) - Math.abs(a.winner - a.runnerUp));
  const [winnerTotal, runnerUpTotal] = [sum(pod.because, "winner"), sum(pod.because, "runnerUp")];
  return h("section.card", {}, h("h2", {}, "Scores: ", nodeLink(pod.node), " and the runner-up ", nodeLink(pod.runnerUp)),
    h("div.scroll", {}, h("table.waterfall", {},
      h("thead", {}, h("tr", {}, h("th", {}, "Plugin"), h("th.number", {}, "Weight"), h("th.number", {}, "Winner"), h("th.number", {}, "Runner-up"), h("th.number", {}, "Lead"), h("th", {}, ""))),
      h("tbody", {}, sorted.map((item) => {
        const lead = item.winner - item.runnerUp;
        return h("tr", {}, h("td", {}, item.plugin), h("td.number", {}, item.weight), h("td.number", {}, item.winner), h("td.number", {}, item.runnerUp), h("td.number", {}, lead > 0 ? `+${lead}` : lead),
          h("td.bars", { "aria-hidden": "true" }, h(`i${lead < 0 ? ".minus" : ""}`, { style: { width: `${(50 * Math.abs(lead)) / largest}%` } })));
      })),
      h("tfoot", {}, h("tr", {}, h("td", {}, "Total"), h("td", {}), h("td.number", {}, winnerTotal), h("td.number", {}, runnerUpTotal), h("td.number", {}, winnerTotal - runnerUpTotal > 0 ? `+${winnerTotal - runnerUpTotal}` : winnerTotal - runnerUpTotal), h("td", {}))))));
}

function sum(items, key) {
  return items.reduce((total, item) => total + item[key], 0);
}

function wakes(pod) {
  const byPlugin = Map.groupBy ? Map.groupBy(pod.wakes, (item) => item.plugin) : new Map([["", pod.wakes]]);
  return pod.wakes.length > 0 && h("section.card", {}, h("details", {}, h("summary", {}, "Events that trigger a retry"), h("ul.plain.spaced", {}, [...byPlugin].map(([plugin, items]) => h("li", {}, items.map((item, index) => [index ? ", " : "", retryEvent(item.event)]), h("span.quiet", {}, ` (${plugin})`))))));
}

// Events exist only on a live cluster; the server reports why it cannot list them.
function events(pod) {
  if (!pod.events) return null;
  if (typeof pod.events === "string") return h("section.card", {}, h("h2", {}, "Events"), h("p.quiet", {}, `not available: ${pod.events}`));
  return h("section.card", {}, h("h2", {}, "Events"), pod.events.length ? h("div.scroll", {}, h("table.stack", {},
    h("thead", {}, h("tr", {}, h("th", {}, "Age"), h("th", {}, "Type"), h("th", {}, "Reason"), h("th", {}, "Message"))),
    h("tbody", {}, pod.events.map((item) => h("tr", {}, h("td.quiet", {}, age(item.time), item.count > 1 && ` (${item.count}×)`), h("td", {}, h(`span.tag${item.type === "Normal" ? "" : ".unschedulable"}`, {}, item.type)), h("td", {}, item.reason), h("td.long", {}, item.message)))))) : empty("No events", ""));
}

function attempts(pod) {
  if (store.about.kind === "still") return null;
  return h("section.card", {}, h("h2", {}, "Attempts"), pod.attempts.length ? decisionTable(collapse(pod.attempts).reverse(), false)
    : empty("No attempts recorded", "The pod was scheduled before recording started, or its attempts are no longer stored."));
}

// All nodes: the reasons of rejecting plugins, and the scores of feasible nodes.
function nodeTable(table) {
  const filter = h("input", { type: "search", placeholder: "Filter nodes by name…", "aria-label": "Filter nodes by name…", oninput: () => draw() });
  const tableArea = h("div", {});
  let rowCount = FIRST_ROWS;
  const rejectingPlugins = table.objecting, hasScores = table.rows.some((row) => row[3]);
  const acceptingPlugins = table.filters.filter((name) => !rejectingPlugins.includes(name));
  const rank = (row) => (row[2] === null ? -1000 - Object.keys(row[1]).length : row[2]);
  const sorted = [...table.rows].sort((a, b) => rank(b) - rank(a));

  function draw() {
    const matchingRows = sorted.filter((row) => row[0].includes(filter.value));
    fill(tableArea, h("div.scroll", {}, h("table.matrix", {},
      h("thead", {}, h("tr", {}, h("th", {}, "Node"), rejectingPlugins.map((name) => h("th", {}, name)), hasScores && [h("th.number", {}, "Total"), table.scores.map((name) => h("th.number", {}, name))])),
      h("tbody", {}, matchingRows.slice(0, rowCount).map((row) => h("tr", {}, h("td", {}, nodeLink(row[0])),
        rejectingPlugins.map((name) => (name in row[1] ? h("td.no", {}, table.texts[row[1][name]]) : h("td.yes", { "aria-label": "accepted" }, "✓"))),
        hasScores && [h("td.number", {}, row[2] ?? ""), table.scores.map((_, index) => h("td.number.quiet", {}, row[3]?.[index] ?? ""))]))))),
    matchingRows.length > rowCount && h("p", {}, h("button", { type: "button", "data-key": "more nodes", onclick: () => {
      rowCount += MORE_ROWS;
      draw();
    } }, `Show more of ${count(matchingRows.length, "node")}`)));
  }

  draw();
  return h("section.card", {}, h("div.head", {}, h("h2", {}, "All nodes"), h("div.filter", {}, filter)),
    table.rows.length ? tableArea : empty("No nodes", ""), acceptingPlugins.length > 0 && h("p.quiet", {}, `Plugins that accept every node: ${acceptingPlugins.join(", ")}`));
}
