// Entry point of the page: routing, theme, connection to the server, and the time bar of a simulation.

import { follow, storeToken, ApiError } from "./api.js";
import { empty, fill, h, announce } from "./dom.js";
import { store } from "./store.js";
import { timeBar } from "./time.js";
import { compareView } from "./view-compare.js";
import { decisionsView } from "./view-decisions.js";
import { nodeView } from "./view-node.js";
import { nodesView } from "./view-nodes.js";
import { overview } from "./view-overview.js";
import { podView } from "./view-pod.js";
import { podsView } from "./view-pods.js";
import { queuesView } from "./view-queues.js";
import { tryView } from "./view-try.js";
import { groupView, waitingView } from "./view-waiting.js";

const VIEWS = [
  ["", "Overview", overview],
  ["nodes", "Nodes", nodesView],
  ["waiting", "Pending", (argument) => (argument ? groupView(argument) : waitingView())],
  ["pods", "Pods", podsView],
  ["queues", "Queues", queuesView],
  ["decisions", "Decisions", decisionsView],
  ["try", "What if", tryView],
  ["compare", "Compare", compareView],
  ["pod", null, podView],
  ["node", null, nodeView],
];
const RETRY = 3000;
const main = document.getElementById("main");
let currentView = null;
let isConnected = true;
let hasError = false;
let retryTimer = null;

// A hand-typed address may contain an incomplete escape sequence.
function decodeFragment(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function route() {
  const [name = "", argument = ""] = location.hash.replace(/^#\/?/, "").split("/");
  const [, title, make] = VIEWS.find(([view]) => view === name) ?? [];
  currentView?.close?.();
  currentView = make ? make(decodeFragment(argument)) : { element: empty("Page not found", "", h("a", { href: "#/" }, "Back to the overview")) };
  fill(main, h("div.view", {}, currentView.element));
  document.title = `${currentView.title ?? title ?? "Moorage"} · Moorage`;
  for (const link of document.querySelectorAll("#nav a")) {
    const isCurrent = link.dataset.name === name || (link.dataset.name === "pods" && name === "pod") || (link.dataset.name === "nodes" && name === "node");
    if (isCurrent) {
      link.setAttribute("aria-current", "page");
      link.scrollIntoView({ block: "nearest", inline: "nearest" });
    } else link.removeAttribute("aria-current");
  }
  window.scrollTo(0, 0);
  update();
}

function update() {
  if (hasError) {
    hasError = false;
    banner(store.about.note);
  }
  if (store.state) currentView?.update?.();
}

function navigation() {
  const visibleViews = VIEWS.filter(([name, title]) => title && (name !== "compare" || store.about.runs.length > 1) && (name !== "decisions" || store.about.kind !== "still"));
  fill(document.getElementById("nav"), visibleViews.map(([name, title]) => h("a", { href: `#/${name}`, "data-name": name }, title)));
  document.getElementById("title").textContent = store.about.title;
  document.getElementById("title").title = store.about.title;
}

function setUpTheme() {
  const button = document.getElementById("theme");
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const selectedTheme = () => localStorage.getItem("moorage-theme") ?? (dark.matches ? "dark" : "light");
  const apply = () => {
    document.documentElement.dataset.theme = selectedTheme();
    button.setAttribute("aria-label", selectedTheme() === "dark" ? "Switch to light mode" : "Switch to dark mode");
    currentView?.repaint?.();
  };
  button.addEventListener("click", () => {
    localStorage.setItem("moorage-theme", selectedTheme() === "dark" ? "light" : "dark");
    apply();
  });
  dark.addEventListener("change", apply);
  apply();
}

function banner(text, ...more) {
  const element = document.getElementById("banner");
  element.hidden = !text;
  fill(element, text, ...more);
}

function onConnection(isUp, error) {
  const element = document.getElementById("link");
  element.textContent = isUp ? (store.about.kind === "live" ? "live" : "") : "disconnected";
  element.className = `link ${isUp ? "up" : "down"}`;
  if (!isUp && isLocked(error)) return askForToken(error);
  if (!isUp && isConnected) banner("The server does not respond. The page may be outdated; it reconnects automatically.");
  if (isUp && !isConnected) {
    store.restart().then(() => {
      banner("");
      navigation();
      route();
      announce("The server responds again.");
    }, onError);
  }
  isConnected = isUp;
}

// Unauthenticated or unauthorized: another token may help.
function isLocked(error) {
  return error instanceof ApiError && (error.status === 401 || error.status === 403);
}

function onError(error) {
  if (isLocked(error)) return askForToken(error);
  // The next version event may be far away; retry without it.
  retryTimer ??= setTimeout(() => {
    retryTimer = null;
    if (isConnected) store.refresh().catch(onError);
  }, RETRY);
  if (error instanceof ApiError) banner(`${error.message}; the page retries automatically.`);
  hasError = error instanceof ApiError;
  return undefined;
}

function askForToken(error) {
  const field = h("input", { type: "password", name: "token", autocomplete: "off", "aria-label": "Token", size: 40 });
  const form = h("form.card.token", { onsubmit: (event) => {
    event.preventDefault();
    storeToken(field.value.trim());
    location.reload();
  } }, h("h1", {}, "Token required"),
  h("p", {}, "Enter a bearer token with access to this page. It is stored in this tab only."), h("p.quiet", {}, error.message), field, h("button", { type: "submit" }, "Show the page"));
  fill(main, form);
  field.focus();
}

async function start() {
  setUpTheme();
  for (let pause = 500; ; pause = Math.min(pause * 2, 5000)) {
    try {
      await store.start();
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
  const search = document.getElementById("search");
  search.addEventListener("submit", (event) => {
    event.preventDefault();
    location.hash = `#/pods/${encodeURIComponent(search.elements.q.value.trim())}`;
    search.reset();
  });
  window.addEventListener("hashchange", () => {
    route();
    main.focus({ preventScroll: true });
  });
  route();
  follow((version) => {
    if (version !== store.version) store.refresh().catch(onError);
  }, onConnection);
  return undefined;
}

start();
