// Cards for groups of pending pods: the count, the reasons and a possible fix.

import { count, duration, h, podLink } from "./dom.js";
import { store } from "./store.js";

// kube-scheduler's reasons start with "node(s)", which is hard to read in a heading.
export function reason(text) {
  return text.replace(/^node\(s\) /, "nodes ");
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
        Object.keys(group.owners).length > 0 && [" · owners: ", owners(group)],
        age > 1 && store.about.kind !== "still" && ` · pending for up to ${duration(age)}`)));
}

function owners(group) {
  return Object.entries(group.owners).map(([owner, pods]) => `${owner.slice(owner.indexOf("/") + 1)} (${pods.toLocaleString("en")})`).join(", ");
}

// The change was computed for one pod. Other pods of the same owner have the same template.
export function describeFix(group) {
  const isForAll = Object.values(group.owners)[0] === group.pods || group.pods === 1;
  const [example] = group.examples;
  if (group.help) return h("p.help", {}, h("span.tag", {}, isForAll ? "possible fix" : ["possible fix for ", example.slice(example.indexOf("/") + 1)]), " ", group.help);
  if (group.isHelped) return h("p.help.quiet", {}, `no change was found that would make ${isForAll ? "the pods" : example} fit`);
  return null;
}

export function groupList(groups, total) {
  return h("ol.reasons", {}, groups.map((group) => groupCard(group, total)));
}

export function remainingReasons(state) {
  if (!state.groupsLeft) return null;
  return h("p.quiet", {}, h("a", { href: "#/waiting", "data-key": "left" }, `${count(state.groupsLeft, "more reason")}`), ` of ${count(state.podsLeft, "pod")}`);
}
