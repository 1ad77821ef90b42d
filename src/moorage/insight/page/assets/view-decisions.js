// Recent decisions, newest first, and the charts.

import { duration, empty, fill, h, nodeLink, podLink } from "./dom.js";
import { charts } from "./lines.js";
import { store } from "./store.js";

const SHOWN = 100;
const WORDS = { scheduled: "scheduled", unschedulable: "unschedulable", error: "error" };

export function moment(time) {
  const shown = store.clock(time);
  return shown instanceof Date ? shown.toLocaleTimeString("en", { hour12: false }) : duration(shown);
}

function decisionRows(decisions, withPod) {
  return decisions.map((line) => h(`tr.${line.result}`, {},
    h("td.quiet", {}, moment(line.time)), h("td", {}, h(`span.tag.${line.result}`, {}, WORDS[line.result] ?? line.result)),
    withPod && h("td", {}, podLink(line.pod)), h("td.long", {}, line.node ? nodeLink(line.node) : line.text), h("td.number.quiet", {}, line.attempt || "")));
}

export function decisionTable(decisions, withPod = true) {
  return h("div.scroll", {}, h("table.stack", {}, h("thead", {}, h("tr", {}, h("th", {}, "Time"), h("th", {}, "Result"), withPod && h("th", {}, "Pod"), h("th", {}, "Node or reason"), h("th.number", {}, "Attempt"))),
    h("tbody", {}, decisionRows(decisions, withPod))));
}

export function decisionsView() {
  const list = h("div", {});
  const lines = h("div", {});
  const hold = h("button", { type: "button", "aria-pressed": "false", onclick: () => {
    isHeld = !isHeld;
    hold.setAttribute("aria-pressed", String(isHeld));
    hold.textContent = isHeld ? "Resume" : "Pause";
    if (!isHeld) draw();
  } }, "Pause");
  let isHeld = false;
  const element = h("div", {}, lines, h("section.card", {}, h("div.head", {}, h("h1", {}, "Decisions"), store.about.kind === "live" && hold), list));

  function draw() {
    const newest = store.decisions.slice(-SHOWN).reverse();
    fill(list, newest.length ? decisionTable(newest) : empty("No decisions yet", "Every scheduling attempt is listed here."));
  }

  return { element, title: "Decisions", update() {
    const drawn = charts(store.lines, store.isPlayed ? store.state.time : null);
    fill(lines, drawn && h("section.card", { "aria-label": "Over time" }, drawn));
    if (!isHeld) draw();
  } };
}
