// Entry point of the page: routing, theme, connection to the server, and the time bar of a simulation.

import { follow, keepToken, ApiError } from "./api.js";
import { empty, fill, h, announce } from "./dom.js";
import { store } from "./store.js";
import { timeBar } from "./time.js";
import { compareView } from "./view-compare.js";
import { decisionsView } from "./view-decisions.js";
import { nodeView } from "./view-node.js";
import { nodesView } from "./view-nodes.js";
import { overview } from "./view-overview.js";
import { podView } from "./view-pod.js";
import { queuesView } from "./view-queues.js";
import { tryView } from "./view-try.js";
import { groupView, waitingView } from "./view-waiting.js";

const VIEWS = [
  ["", "Overview", overview],
  ["nodes", "Nodes", nodesView],
  ["waiting", "Pending", (argument) => (argument ? groupView(argument) : waitingView())],
  ["queues", "Queues", queuesView],
  ["decisions", "Decisions", decisionsView],
  ["try", "What if", tryView],
  ["compare", "Compare", compareView],
  ["pod", null, podView],
  ["node", null, nodeView],
];
const RETRY = 3000;
const main = document.getElementById("main");
let current = null;
let isLinked = true;
let isTroubled = false;
let retrying = null;

// A hand-typed address may contain an incomplete escape sequence.
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function route() {
  const [name = "", argument = ""] = location.hash.replace(/^#\/?/, "").split("/");
  const [, title, make] = VIEWS.find(([view]) => view === name) ?? [];
  current?.close?.();
  current = make ? make(decoded(argument)) : { element: empty("Page not found", "", h("a", { href: "#/" }, "Back to the overview")) };
  fill(main, h("div.view", {}, current.element));
  document.title = `${current.title ?? title ?? "Moorage"} · Moorage`;
  for (const link of document.querySelectorAll("#nav a")) {
    const isHere = link.dataset.name === name || (link.dataset.name === "waiting" && name === "pod") || (link.dataset.name === "nodes" && name === "node");
    if (isHere) {
      link.setAttribute("aria-current", "page");
      link.scrollIntoView({ block: "nearest", inline: "nearest" });
    } else link.removeAttribute("aria-current");
  }
  window.scrollTo(0, 0);
  update();
}

function update() {
  if (isTroubled) {
    isTroubled = false;
    banner(store.about.note);
  }
  if (store.state) current?.update?.();
}

function navigation() {
  const shown = VIEWS.filter(([name, title]) => title && (name !== "compare" || store.about.runs.length > 1) && (name !== "decisions" || store.about.kind !== "still"));
  fill(document.getElementById("nav"), shown.map(([name, title]) => h("a", { href: `#/${name}`, "data-name": name }, title)));
  document.getElementById("title").textContent = store.about.title;
  document.getElementById("title").title = store.about.title;
}

function setUpTheme() {
  const button = document.getElementById("theme");
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const chosen = () => localStorage.getItem("moorage-theme") ?? (dark.matches ? "dark" : "light");
  const apply = () => {
    document.documentElement.dataset.theme = chosen();
    button.setAttribute("aria-label", chosen() === "dark" ? "Switch to light mode" : "Switch to dark mode");
    current?.repaint?.();
  };
  button.addEventListener("click", () => {
    localStorage.setItem("moorage-theme", chosen() === "dark" ? "light" : "dark");
    apply();
  });
  dark.addEventListener("change", apply);
  apply();
}

function banner(text, ...more) {
  const place = document.getElementById("banner");
  place.hidden = !text;
  fill(place, text, ...more);
}

function linked(isUp, error) {
  const place = document.getElementById("link");
  place.textContent = isUp ? (store.about.kind === "live" ? "live" : "") : "disconnected";
  place.className = `link ${isUp ? "up" : "down"}`;
  if (!isUp && isLocked(error)) return askForToken(error);
  if (!isUp && isLinked) banner("The server does not respond. The page may be outdated; it reconnects automatically.");
  if (isUp && !isLinked) {
    store.restart().then(() => {
      banner("");
      navigation();
      route();
      announce("The server responds again.");
    }, failed);
  }
  isLinked = isUp;
}

// Unauthenticated or unauthorized: another token may help.
function isLocked(error) {
  return error instanceof ApiError && (error.status === 401 || error.status === 403);
}

function failed(error) {
  if (isLocked(error)) return askForToken(error);
  // The next version event may be far away; retry without it.
  retrying ??= setTimeout(() => {
    retrying = null;
    if (isLinked) store.refresh().catch(failed);
  }, RETRY);
  if (error instanceof ApiError) banner(`${error.message}; the page retries automatically.`);
  isTroubled = error instanceof ApiError;
  return undefined;
}

function askForToken(error) {
  const field = h("input", { type: "password", name: "token", autocomplete: "off", "aria-label": "Token", size: 40 });
  const form = h("form.card.token", { onsubmit: (event) => {
    event.preventDefault();
    keepToken(field.value.trim());
    location.reload();
  } }, h("h1", {}, "Token required"),
  h("p", {}, "Enter a bearer token with access to this page. It is stored in this tab only."), h("p.quiet", {}, error.message), field, h("button", { type: "submit" }, "Show the page"));
  fill(main, form);
  field.focus();
}

async function begin() {
  setUpTheme();
  for (let pause = 500; ; pause = Math.min(pause * 2, 5000)) {
    try {
      await store.begin();
      break;
    } catch (error) {
      if (isLocked(error)) return askForToken(error);
      banner(`${error instanceof ApiError ? error.message : "The server does not respond"}; the page retries automatically.`);
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  }
  banner("");
  if (store.about.note) banner(store.about.note);
  navigation();
  store.subscribe(update);
  timeBar(document.getElementById("time"));
  // The router would treat #main as the name of a view.
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault();
    main.focus();
  });
  window.addEventListener("hashchange", () => {
    route();
    main.focus({ preventScroll: true });
  });
  route();
  follow((version) => {
    if (version !== store.version) store.refresh().catch(failed);
  }, linked);
  return undefined;
}

begin();
