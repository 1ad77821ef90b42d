// Cards for groups of pending pods: the count, the reasons and a possible fix.

import { count, h, podLink } from "./dom.js";
import { duration } from "./dom.js";
import { store } from "./store.js";

// kube-scheduler's reasons start with "node(s)"; drop it in headings.
export function reason(text) {
  return text.replace(/^node\(s\) /, "");
}

export function groupCard(group, total) {
  const [first, ...otherReasons] = group.reasons;
  const age = store.state.time - group.oldest;
  return h("li.reason", {},
    h("div.many", {}, h("strong", {}, group.pods.toLocaleString("en")), h("span", {}, group.pods === 1 ? "pod" : "pods"),
      h("span.bar", { "aria-hidden": "true" }, h("i", { style: { width: `${Math.max(2, (100 * group.pods) / total)}%` } }))),
    h("div.why", {},
      h("a.first", { href: `#/waiting/${group.id}`, "data-key": `group ${group.id}` }, reason(first)),
      otherReasons.length > 0 && h("p.others", {}, "and ", otherReasons.slice(0, 3).map((text, index) => [index ? ", " : "", reason(text)]), otherReasons.length > 3 && ` and ${otherReasons.length - 3} more`),
      describeFix(group),
      h("p.quiet", {}, "for example ", group.examples.slice(0, 2).map((pod, index) => [index ? ", " : "", podLink(pod)]),
        age > 1 && store.about.kind !== "still" && ` · pending for up to ${duration(age)}`)));
}

function describeFix(group) {
  if (group.help) return h("p.help", {}, h("span.tag", {}, "possible fix"), " ", group.help);
  if (group.isHelped) return h("p.help.quiet", {}, "no change was found that would make the pods fit");
  return null;
}

export function groupList(groups, total) {
  return h("ol.reasons", {}, groups.map((group) => groupCard(group, total)));
}

export function remainingReasons(state) {
  if (!state.groupsLeft) return null;
  return h("p.quiet", {}, h("a", { href: "#/waiting", "data-key": "left" }, `${count(state.groupsLeft, "more reason")}`), ` of ${count(state.podsLeft, "pod")}`);
}
