// State of the page: nodes, cluster state at one time, decisions and time series. Subscribers are notified of changes.

import { get } from "./api.js";

const MAX_DECISIONS = 500;

class Store {
  constructor() {
    this.about = null;
    this.layouts = [];
    this.states = [];
    this.lines = null;
    this.decisions = [];
    this.at = null;
    this.version = -1;
    this.listeners = new Set();
    this.pendingRefresh = null;
    this.needsRefresh = false;
  }

  get layout() {
    return this.layouts[0];
  }

  get state() {
    return this.states[0];
  }

  get isPlayed() {
    return this.about?.kind === "played";
  }

  get timeQuery() {
    return this.at === null ? {} : { at: this.at };
  }

  subscribe(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  async start() {
    this.about = await get("about");
    if (this.isPlayed) this.at = this.about.seconds;
    await this.refresh();
  }

  // Fetch the state at the selected time. One request runs at a time, to avoid overloading a slow server.
  refresh() {
    if (this.pendingRefresh) {
      this.needsRefresh = true;
      return this.pendingRefresh;
    }
    this.pendingRefresh = this.fetch().finally(() => {
      this.pendingRefresh = null;
      if (this.needsRefresh) {
        this.needsRefresh = false;
        this.refresh().catch(() => {});
      }
    });
    return this.pendingRefresh;
  }

  async fetch() {
    const runs = this.about.runs.map((_, run) => run);
    const timeQuery = this.timeQuery;
    const states = await Promise.all(runs.map((run) => get("state", { run, ...timeQuery })));
    for (const run of runs) {
      if (this.layouts[run]?.version !== states[run].layout) this.layouts[run] = await get("nodes", { run });
    }
    this.states = states;
    this.version = states[0].version;
    await this.fetchDecisions(timeQuery);
    if (this.about.kind === "live" || !this.lines) this.lines = await get("lines");
    for (const listener of [...this.listeners]) listener();
  }

  async fetchDecisions(timeQuery) {
    const last = this.decisions.at(-1);
    const since = this.isPlayed ? 0 : last ? last.number + 1 : 0;
    const { decisions } = await get("decisions", { since, ...timeQuery });
    this.decisions = this.isPlayed ? decisions : [...this.decisions, ...decisions].slice(-MAX_DECISIONS);
  }

  // The server restarted: discard the data of the previous process.
  async restart() {
    this.layouts = [];
    this.lines = null;
    this.decisions = [];
    const before = this.about;
    this.about = await get("about");
    if (this.isPlayed && (before.title !== this.about.title || this.at > this.about.seconds)) this.at = this.about.seconds;
    await this.refresh();
  }

  goTo(seconds) {
    this.at = Math.max(0, Math.min(this.about.seconds, seconds));
    return this.refresh();
  }

  // Return a Date on a live cluster, otherwise the seconds since the start.
  clock(time) {
    if (this.about.kind !== "live") return time;
    return new Date((time + this.about.clockStart) * 1000);
  }
}

export const store = new Store();
