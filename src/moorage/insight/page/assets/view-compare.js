// Two configurations side by side at one time, and the pods with different results.

import { get } from "./api.js";
import { count, empty, fill, h, nodeLink, podLink } from "./dom.js";
import { mapPicker } from "./picker.js";
import { store } from "./store.js";

const MAX_ROWS = 100;

export function compareView() {
  const maps = store.about.runs.map((name, run) => mapPicker({ run, height: 300, title: name }));
  const summary = h("div.facts", {});
  const headline = h("p.headline", { role: "status" }, "Comparing…");
  const pods = h("section.card", { "aria-label": "Pods with different results" });
  let requestedAt = null;
  const element = h("div", {}, h("h1.hidden", {}, "Compare"), headline, summary, h("div.columns.even", {}, maps.map((map) => map.element)), pods);

  async function loadDifferences() {
    if (requestedAt === store.at) return;
    requestedAt = store.at;
    try {
      const { differences, count: total } = await get("differences", store.timeQuery);
      fill(headline, total ? `${count(total, "pod differs", "pods differ")} at this time; they are listed below the maps.` : "No difference: at this time, every pod has the same result under both configurations.");
      headline.classList.toggle("unschedulable", total > 0);
      pods.hidden = !total;
      fill(pods, h("h2", {}, `${count(total, "pod differs", "pods differ")}`), h("div.scroll", {}, h("table", {},
        h("thead", {}, h("tr", {}, h("th", {}, "Pod"), store.about.runs.map((name) => h("th", {}, name)))),
        h("tbody", {}, differences.slice(0, MAX_ROWS).map((item) => h("tr", {}, h("td", {}, podLink(item.pod)), [item.before, item.after].map((node) => h("td", {}, describeResult(node)))))))),
        total > MAX_ROWS && h("p.quiet", {}, `and ${count(total - MAX_ROWS, "more pod")}`));
    } catch (error) {
      fill(pods, empty("The differences are not available", error.message));
    }
  }

  return { element, title: "Compare", close: () => maps.forEach((map) => map.close()), repaint: () => maps.forEach((map) => map.repaint()), update() {
    for (const map of maps) map.update();
    fill(summary, store.states.map((state, run) => h("div.fact", {}, h("span.name", {}, store.about.runs[run]), h("strong", {}, state.waiting.toLocaleString("en")), h("span.quiet", {}, `pending; ${count(state.placed, "pod is", "pods are")} on nodes`))));
    loadDifferences();
  } };
}

function describeResult(node) {
  if (node === "waits") return h("span.tag.unschedulable", {}, "pending");
  return node ? nodeLink(node) : h("span.quiet", {}, "does not exist");
}
