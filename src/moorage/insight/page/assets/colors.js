// Colors of the map: a scale for utilization and a palette for categories.

const SCALES = {
  light: ["#e6eef7", "#bcd5ec", "#7fb2da", "#3f86c0", "#1c5a9a", "#0b2f63"],
  dark: ["#1b2a3a", "#1f4a6d", "#2b74a3", "#55a3c7", "#9fd0df", "#f3efc9"],
};
const CATEGORIES = {
  light: ["#b8c2cc", "#3b82c4", "#d9822b", "#3a9d6a", "#a05fb5", "#c8443c", "#8a7a2f", "#2aa3a8", "#70508f"],
  dark: ["#46525f", "#5aa2e0", "#e39b4f", "#59bd8a", "#bf86d1", "#e06c64", "#b9a64f", "#52c3c7", "#9b7fbd"],
};
export const OVER = { light: "#c2255c", dark: "#ff6b9a" };

export function theme() {
  return document.documentElement.dataset.theme === "dark" ? "dark" : "light";
}

// A map has thousands of tiles: compute the steps of each scale once.
const STEPS = 100;
const steps = Object.fromEntries(Object.entries(SCALES).map(([name, stops]) => [name, Array.from({ length: STEPS + 1 }, (_, step) => {
  const position = (step / STEPS) * (stops.length - 1);
  const low = Math.min(Math.floor(position), stops.length - 2);
  return mix(stops[low], stops[low + 1], position - low);
})]));

export function utilizationColor(share) {
  const name = theme();
  return share > 1.0005 ? OVER[name] : steps[name][Math.round(Math.max(0, Math.min(1, share)) * STEPS)];
}

export function gradient() {
  return `linear-gradient(to right, ${SCALES[theme()].join(", ")})`;
}

export function categoryColor(number) {
  const colors = CATEGORIES[theme()];
  return number < 0 ? colors[0] : colors[1 + (number % (colors.length - 1))];
}

function mix(from, to, fraction) {
  const parse = (color) => [1, 3, 5].map((index) => parseInt(color.slice(index, index + 2), 16));
  const [a, b] = [parse(from), parse(to)];
  return `rgb(${a.map((value, index) => Math.round(value + (b[index] - value) * fraction)).join(",")})`;
}
