// Cluster events that trigger a retry, in plain words.

import { h } from "./dom.js";

const SUBJECTS = { Pod: "a pod", AssignedPod: "a pod on a node", UnscheduledPod: "another pending pod", TargetPod: "this pod", "*": "any object" };
const ACTIONS = {
  Add: "is added", Delete: "is deleted", Update: "changes",
  UpdateNodeAllocatable: "gets other allocatable resources", UpdateNodeLabel: "gets other labels", UpdateNodeTaint: "gets other taints",
  UpdateNodeCondition: "changes its conditions", UpdateNodeAnnotation: "gets other annotations", UpdateNodeDeclaredFeature: "gets other features",
  UpdateNodePreemptionPolicy: "gets another preemption policy",
  UpdatePodLabel: "gets other labels", UpdatePodScaleDown: "requests less", UpdatePodScaleUp: "requests more", UpdatePodToleration: "gets other tolerations",
  UpdatePodSchedulingGatesEliminated: "loses its scheduling gates", UpdatePodGeneratedResourceClaim: "gets its resource claim",
};

// The tooltip has the name of the event in metrics and logs.
export function retryEvent(event) {
  const slash = event.lastIndexOf("/");
  const [resource, action] = [event.slice(0, slash), event.slice(slash + 1)];
  const kind = resource.slice(resource.lastIndexOf("/") + 1);
  const subject = SUBJECTS[kind] ?? `a ${kind === "Node" ? "node" : kind}`;
  return h("span", { title: event }, slash < 0 ? event : `${subject} ${ACTIONS[action] ?? action}`);
}
