// The node map in the size of the window.

import { h } from "./dom.js";
import { mapPicker } from "./picker.js";

export function nodesView() {
  const map = mapPicker({ height: Math.max(420, window.innerHeight - 330), withTable: true });
  return { element: h("div", {}, h("h1.hidden", {}, "Nodes"), map.element), title: "Nodes", update: () => map.update(), close: map.close, repaint: map.repaint };
}
