// Timeline of the queue: the forecast interval of the start of each pending pod, on a logarithmic time axis.

import { get } from "./api.js";
import { count, duration, empty, fill, h, podLink } from "./dom.js";
import { store } from "./store.js";

const FIRST_ROWS = 15;
const MORE_ROWS = 50;
const LEAST = 30; // seconds at the left end of the axis
const TICKS = [60, 300, 1800, 3600, 6 * 3600, 86400, 3 * 86400, 7 * 86400];
const MAX_TICKS = 5;

export function startTimeline() {
  const body = h("div", {});
  const button = h("button", { type: "button", "data-key": "forecast", onclick: load }, "Forecast starts");
  const element = h("section.card", { "aria-label": "Expected starts" },
    h("div.head", {}, h("h2", {}, "Expected starts"), button), body);
  let hasLoaded = false;

  async function load() {
    hasLoaded = true;
    button.disabled = true;
    fill(body, h("p.quiet", { role: "status" }, "Simulating possible futures of the queue…"));
    try {
      draw(body, await get("forecast"));
    } catch (error) {
      fill(body, empty("The forecast is not available", error.message));
    }
    button.disabled = false;
    button.textContent = "Refresh";
  }

  return { element, update() {
    element.hidden = !store.state.waiting;
    // A forecast takes seconds of a separate process: once automatically, then on request.
    if (!hasLoaded && store.state.waiting) load();
  } };
}

function draw(body, forecast) {
  const last = Math.max(2 * LEAST, ...forecast.pods.map((pod) => pod.start?.p90 ?? 0));
  const ticks = TICKS.filter((seconds) => seconds < last);
  const step = Math.ceil(ticks.length / MAX_TICKS);
  const position = (seconds) => (100 * Math.log(Math.max(seconds, LEAST) / LEAST)) / Math.log(last / LEAST);
  const axis = [["now", 0], ...ticks.filter((_, index) => (ticks.length - 1 - index) % step === 0).map((seconds) => [duration(seconds), position(seconds)])];
  let rowCount = FIRST_ROWS;

  function row(pod) {
    return h("tr", {}, h("td", {}, podLink(pod.pod)), h("td.number", {}, pod.priority), h("td.when", {}, describe(pod, forecast.horizon)),
      h("td.span", { "aria-hidden": "true" }, axis.map(([, left]) => h("i.tick", { style: { left: `${left}%` } })), pod.start && [
        h("i.interval", { style: { left: `${position(pod.start.p10)}%`, width: `${Math.max(0.7, position(pod.start.p90) - position(pod.start.p10))}%` } }),
        h("i.middle", { style: { left: `${position(pod.start.p50)}%` } })]));
  }

  function show() {
    fill(body, h("p.quiet", {}, !forecast.draws ? "No pending pod can start until the cluster changes." : `${count(forecast.draws, "possible future")} of the queue ${forecast.draws === 1 ? "was" : "were"} simulated with the configuration of the scheduler. A bar contains the start in 8 of 10 cases if the assumptions are correct; the line marks the median. The time axis is logarithmic.`),
      h("div.scroll", {}, h("table.timeline.stack", {},
        h("thead", {}, h("tr", {}, h("th", {}, "Pod"), h("th.number", {}, "Priority"), h("th", {}, "Start (80% interval)"),
          h("th.span", { "aria-hidden": "true" }, axis.map(([text, left]) => left < 96 && h("span", { style: { left: `${left}%` } }, text))))),
        h("tbody", {}, forecast.pods.slice(0, rowCount).map(row)))),
      forecast.pods.length > rowCount && h("p", {}, h("button", { type: "button", "data-key": "more starts", onclick: () => {
        rowCount += MORE_ROWS;
        show();
      } }, `Show more of ${count(forecast.count, "pod")}`)),
      forecast.count > forecast.pods.length && rowCount >= forecast.pods.length && h("p.quiet", {}, `The first ${forecast.pods.length} of ${count(forecast.count, "pod")}.`),
      h("details", { open: forecast.draws < 10 }, h("summary", {}, "Assumptions"), h("ul", {}, forecast.assumptions.map((text) => h("li", {}, text)))));
  }

  show();
}

function describe(pod, horizon) {
  if (pod.state === "gated") return "when its scheduling gates are removed";
  if (!pod.start) return "does not start unless the cluster changes";
  const { p10, p50, p90 } = pod.start;
  if (p90 < 1) return h("strong", {}, "now");
  if (p10 >= horizon) return `in more than ${rounded(horizon)}`;
  const moment = (seconds) => (seconds >= horizon ? `more than ${rounded(horizon)}` : seconds < 1 ? "now" : rounded(seconds));
  const middle = moment(p50);
  return [h("strong", {}, middle === "now" ? middle : `in ${middle}`), rounded(p10) !== rounded(p90) && h("span.quiet", {}, ` (${moment(p10)} to ${moment(p90)})`)];
}

// Minutes from 10 minutes on, hours from a day on, as `moorage when` prints them.
function rounded(seconds) {
  const unit = seconds < 600 ? 1 : seconds < 86400 ? 60 : 3600;
  return duration(Math.round(seconds / unit) * unit);
}
