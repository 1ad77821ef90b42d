"""Whether enough pods of a group are there: of a PodGroup its minCount, of a composite group enough of its groups."""

from collections.abc import Callable

from moorage.kube.api.pod_groups import CompositePodGroup, PodGroup
from moorage.scheduler.framework.groups import Group, GroupTree
from moorage.scheduler.state.pod_groups import Members, PodGroups

MAX_LEVELS = 3
"""How many composite groups may stand above a PodGroup."""


class BrokenTree(Exception):
    """The groups above a pod cannot be found."""


def root_above(groups: PodGroups, group: PodGroup) -> Group:
    """Return the top of the tree that a group is part of; BrokenTree says what is missing."""
    top: Group = group
    for level, above in enumerate(groups.chain(group)):
        if level > MAX_LEVELS:
            raise BrokenTree(f"composite pod groups above podgroup/{group.key} are nested too deeply")
        top = above
    parent = groups.parent_of(top)
    if parent is not None:
        if groups.composite(parent) is not None:
            raise BrokenTree(f"composite pod groups above podgroup/{group.key} are part of each other")
        raise BrokenTree(f"parent composite pod group state not found for {parent}")
    return top


def is_complete(groups: PodGroups, tree: GroupTree, count: Callable[[Members], int]) -> bool:
    """Tell whether a tree has its quorum, by a count of the pods of its PodGroups."""
    if not isinstance(tree.group, CompositePodGroup):
        members = groups.members(tree.key)
        return members is not None and count(members) >= tree.quorum
    ready = sum(is_complete(groups, child, count) for child in tree.children)
    return ready >= tree.quorum
