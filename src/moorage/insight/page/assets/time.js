// Time bar of a simulation: a slider and playback in both directions.

import { duration, fill, h } from "./dom.js";
import { store } from "./store.js";

const TICK_MILLISECONDS = 100;
const PLAYBACK_SECONDS = 30;

export function timeBar(container) {
  if (!store.isPlayed) return;
  container.hidden = false;
  const { seconds } = store.about;
  let direction = 0;
  let speed = 1;
  const slider = h("input", { type: "range", min: 0, max: seconds || 1, step: Math.max(seconds / 1000, 0.001), value: store.at, "aria-label": "Time of the simulation", oninput: () => {
    const time = Number(slider.value);
    direction = 0;
    store.goTo(time);
    show();
  } });
  const label = h("output", { "aria-live": "off" });
  const back = h("button", { type: "button", "aria-label": "Play backwards", onclick: () => toggle(-1) }, "◀");
  const forward = h("button", { type: "button", "aria-label": "Play forwards", onclick: () => toggle(1) }, "▶");
  const speedSelect = h("select", { "aria-label": "Speed", onchange: () => (speed = Number(speedSelect.value)) },
    [0.25, 1, 4].map((times) => h("option", { value: times, selected: times === 1 }, `${times}×`)));

  function toggle(newDirection) {
    direction = direction === newDirection ? 0 : newDirection;
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
    forward.setAttribute("aria-pressed", String(direction > 0));
    slider.value = store.at;
    slider.setAttribute("aria-valuetext", duration(store.at));
    label.textContent = `${duration(store.at)} of ${duration(seconds)}`;
  }

  // Playback takes 30 seconds for any simulation. The next state is requested after the previous response.
  setInterval(() => {
    if (!direction || store.pendingRefresh) return;
    const next = store.at + direction * speed * (seconds / PLAYBACK_SECONDS) * (TICK_MILLISECONDS / 1000);
    if (next >= seconds || next <= 0) stop();
    store.goTo(next);
  }, TICK_MILLISECONDS);
  store.subscribe(show);
  fill(container, back, forward, slider, label, speedSelect);
  show();
}
