// Recent decisions, newest first, and the charts.

import { duration, empty, fill, h, nodeLink, podLink } from "./dom.js";
import { charts } from "./lines.js";
import { store } from "./store.js";

const MAX_ROWS = 100;
const LABELS = { scheduled: "scheduled", unschedulable: "unschedulable", error: "error" };

export function formatTime(time) {
  const clock = store.clock(time);
  return clock instanceof Date ? clock.toLocaleTimeString("en", { hour12: false }) : duration(clock);
}

// Merge consecutive attempts with the same result; the numbers in their messages may differ. The newest is shown.
export function collapse(attempts) {
  const merged = [];
  for (const line of attempts) {
    const key = JSON.stringify([line.result, line.node, line.text.replace(/\d+/g, "#")]), last = merged.at(-1);
    if (last?.key === key) Object.assign(last, line, { times: last.times + 1, first: last.first });
    else merged.push({ ...line, key, times: 1, first: line });
  }
  return merged;
}

function decisionRows(decisions, withPod) {
  return decisions.map((line) => h(`tr.${line.result}`, {},
    h("td.quiet", {}, line.times > 1 && `${formatTime(line.first.time)} – `, formatTime(line.time), line.times > 1 && ` (${line.times}×)`), h("td", {}, h(`span.tag.${line.result}`, {}, LABELS[line.result] ?? line.result)),
    withPod && h("td", {}, podLink(line.pod)), h("td.long", {}, line.node ? nodeLink(line.node) : line.text), h("td.number.quiet", {}, line.times > 1 && `${line.first.attempt} – `, line.attempt || "")));
}

export function decisionTable(decisions, withPod = true) {
  return h("div.scroll", {}, h("table.stack", {}, h("thead", {}, h("tr", {}, h("th", {}, "Time"), h("th", {}, "Result"), withPod && h("th", {}, "Pod"), h("th", {}, "Node or reason"), h("th.number", {}, "Attempt"))),
    h("tbody", {}, decisionRows(decisions, withPod))));
}

export function decisionsView() {
  const list = h("div", {});
  const chartArea = h("div", {});
  const pauseButton = h("button", { type: "button", "aria-pressed": "false", onclick: () => {
    isPaused = !isPaused;
    pauseButton.setAttribute("aria-pressed", String(isPaused));
    pauseButton.textContent = isPaused ? "Resume" : "Pause";
    if (!isPaused) draw();
  } }, "Pause");
  let isPaused = false;
  const element = h("div", {}, chartArea, h("section.card", {}, h("div.head", {}, h("h1", {}, "Decisions"), store.about.kind === "live" && pauseButton), list));

  function draw() {
    const newest = store.decisions.slice(-MAX_ROWS).reverse();
    fill(list, newest.length ? decisionTable(newest) : empty("No decisions yet", "Every scheduling attempt is listed here."));
  }

  return { element, title: "Decisions", update() {
    const chartElements = charts(store.lines, store.isPlayed ? store.state.time : null);
    fill(chartArea, chartElements && h("section.card", { "aria-label": "Over time" }, chartElements));
    if (!isPaused) draw();
  } };
}
