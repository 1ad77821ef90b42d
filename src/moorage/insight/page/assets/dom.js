// Helpers that build elements. Data from the cluster is inserted as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";

// h("a.name", {href: "#/"}, "text", child, ...): create an element from a tag with classes, attributes and children.
export function h(tag, attributes = {}, ...children) {
  const [name, ...classes] = tag.split(".");
  return buildElement(document.createElement(name || "div"), classes, attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  const [name, ...classes] = tag.split(".");
  return buildElement(document.createElementNS(SVG, name), classes, attributes, children);
}

function buildElement(element, classes, attributes, children) {
  for (const name of classes) element.classList.add(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "style") for (const [name, text] of Object.entries(value)) element.style.setProperty(name, text);
    else if (key === "value") element.value = value;
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

// Replace the children of an element. The focus is restored if the new content has an element with the same data-key.
export function fill(element, ...children) {
  const key = element.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  const fragment = document.createDocumentFragment();
  append(fragment, children);
  element.replaceChildren(fragment);
  if (key) element.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
}

// Wrap a function so that it runs only when its arguments change.
export function whenChanged(draw) {
  let lastKey;
  return (...args) => {
    const key = JSON.stringify(args);
    if (key !== lastKey) {
      lastKey = key;
      draw(...args);
    }
  };
}

export function podLink(key, text = key) {
  return h("a.pod", { href: `#/pod/${encodeURIComponent(key)}`, "data-key": `pod ${key}` }, text);
}

export function nodeLink(name) {
  return h("a.node", { href: `#/node/${encodeURIComponent(name)}`, "data-key": `node ${name}` }, name);
}

export function announce(text) {
  document.getElementById("announcement").textContent = text;
}

export function empty(title, text, ...more) {
  return h("div.empty", {}, h("strong", {}, title), text && h("p", {}, text), more);
}

export function count(number, one, many = `${one}s`) {
  return `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
}

const SIZES = [["Ti", 2 ** 40], ["Gi", 2 ** 30], ["Mi", 2 ** 20], ["Ki", 2 ** 10]];

export function amount(resource, value) {
  // Millicores below one core, as in manifests: one decimal would show 250m as 0.3.
  if (resource === "cpu") return value > 0 && value < 1000 ? `${Math.round(value)}m` : formatNumber(value / 1000);
  if (resource === "memory" || resource.startsWith("hugepages-") || resource === "ephemeral-storage") {
    for (const [unit, size] of SIZES) if (Math.abs(value) >= size) return formatNumber(value / size) + unit;
  }
  return formatNumber(value);
}

function formatNumber(value) {
  if (value > 0 && value < 0.05) return "<0.1";
  return Math.abs(value) >= 100 ? Math.round(value).toLocaleString("en") : value.toFixed(1).replace(/\.0$/, "");
}

// A small share is not shown as 0%, and an almost full node not as 100%.
export function percent(part, whole) {
  if (!(whole > 0)) return "–";
  const value = (100 * part) / whole;
  if (value > 0 && value < 1) return "<1%";
  return `${value > 99 && value < 100 ? 99 : Math.round(value)}%`;
}

// The age of an object, from the time at which it was created.
export function age(created) {
  const seconds = (Date.now() - Date.parse(created)) / 1000;
  return Number.isNaN(seconds) ? "" : duration(Math.max(0, Math.round(seconds)));
}

export function duration(seconds) {
  if (seconds < 0.0005) return "0s";
  if (seconds < 1) return `${Math.round(seconds * 1000)}ms`;
  if (seconds < 60) return `${seconds.toFixed(1).replace(/\.0$/, "")}s`;
  const whole = Math.round(seconds), minutes = Math.floor(whole / 60);
  if (minutes < 60) return `${minutes}m${whole % 60 ? `${whole % 60}s` : ""}`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours}h${minutes % 60 ? `${minutes % 60}m` : ""}`;
  return `${Math.floor(hours / 24)}d${hours % 24 ? `${hours % 24}h` : ""}`;
}
