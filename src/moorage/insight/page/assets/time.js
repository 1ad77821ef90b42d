// Time bar of a simulation: a slider and playback in both directions.

import { duration, fill, h } from "./dom.js";
import { store } from "./store.js";

const TICK = 100;
const WHOLE = 30;

export function timeBar(place) {
  if (!store.isPlayed) return;
  place.hidden = false;
  const { seconds } = store.about;
  let direction = 0;
  let speed = 1;
  const slider = h("input", { type: "range", min: 0, max: seconds || 1, step: Math.max(seconds / 1000, 0.001), value: store.at, "aria-label": "Time of the simulation", oninput: () => {
    const wanted = Number(slider.value);
    direction = 0;
    store.goTo(wanted);
    show();
  } });
  const label = h("output", { "aria-live": "off" });
  const back = h("button", { type: "button", "aria-label": "Play backwards", onclick: () => toggle(-1) }, "◀");
  const forth = h("button", { type: "button", "aria-label": "Play forwards", onclick: () => toggle(1) }, "▶");
  const pace = h("select", { "aria-label": "Speed", onchange: () => (speed = Number(pace.value)) },
    [0.25, 1, 4].map((times) => h("option", { value: times, selected: times === 1 }, `${times}×`)));

  function toggle(wanted) {
    direction = direction === wanted ? 0 : wanted;
    if (direction > 0 && store.at >= seconds) store.at = 0;
    if (direction < 0 && store.at <= 0) store.at = seconds;
    show();
  }

  function stop() {
    direction = 0;
    show();
  }

  function show() {
    back.setAttribute("aria-pressed", String(direction < 0));
    forth.setAttribute("aria-pressed", String(direction > 0));
    slider.value = store.at;
    slider.setAttribute("aria-valuetext", duration(store.at));
    label.textContent = `${duration(store.at)} of ${duration(seconds)}`;
  }

  // Playback takes 30 seconds for any simulation. The next state is requested after the previous response.
  setInterval(() => {
    if (!direction || store.busy) return;
    const next = store.at + direction * speed * (seconds / WHOLE) * (TICK / 1000);
    if (next >= seconds || next <= 0) stop();
    store.goTo(next);
  }, TICK);
  store.subscribe(show);
  fill(place, back, forth, slider, label, pace);
  show();
}
