"""The environment: a step is one scheduling cycle, an episode one trial of the lab with the real scheduler in it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import gymnasium
import numpy as np
from gymnasium import spaces

from moorage.common.arrays import NDArray
from moorage.common.errors import InputError
from moorage.contrib import Float32Array, ObservedColumns, ScoringFunction
from moorage.lab.learn.episodes import PENALTY, Episode, EpisodeSource, Reward, TrialOf, find_reward, generate_trials

NODE: Final = "node"
SCORES: Final = "scores"
BOUND: Final = 1e9
"""Upper bound of every number in an observation; observation spaces declare it."""

Mask = NDArray[np.int8]
Observed = dict[str, Float32Array]
Info = dict[str, Any]


class SchedulingEnv(gymnasium.Env[Observed, Any]):
    """A Gymnasium environment: the filters of a profile select feasible nodes, and the agent chooses one for each pod.

    ``trials`` is a preset of ``moorage lab generate`` or a function that returns a trial for a seed. A preset uses
    ``nodes`` and ``pods``; the pods request ``load`` times the capacity of the nodes. ``config`` selects the profile
    whose filters apply.

    An observation has ``nodes``, with one row per node of the cluster, and ``pod``. The default columns are those of
    :class:`ObservedColumns`. Unused rows are zeros. The agent only decides about pods with a choice: a pod with a
    single feasible node gets it, and a pod without a feasible node remains pending, as without an agent.

    An action is the row of a node. With ``action="scores"`` it is a number between -1 and 1 for each row, and the
    feasible node with the largest number wins. An infeasible node costs a penalty, and the pod is dropped: it is never
    placed. ``info["action_mask"]`` and :meth:`action_masks` mark the feasible rows.
    """

    metadata: dict[str, Any] = {"render_modes": []}

    def __init__(  # noqa: PLR0913 - keywords only, each with a default that most keep
        self,
        *,
        trials: str | TrialOf = "batch",
        nodes: int = 16,
        pods: int = 200,
        load: float = 1.2,
        config: str | Path = "",
        plugins: Sequence[str] = (),
        action: str = NODE,
        resources: Sequence[str] = ("cpu", "memory"),
        reward: str | Reward = "placed",
        penalty: float = PENALTY,
        max_nodes: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        self.render_mode = render_mode
        self.columns = ObservedColumns(resources)
        make_trial = trials if callable(trials) else generate_trials(trials, nodes, pods, load)
        self._source = EpisodeSource(make_trial, config, plugins)
        self._reward, self._penalty = find_reward(reward), penalty
        self.max_nodes = max_nodes or self._source.max_nodes
        self._by_scores = action == SCORES
        if action not in (NODE, SCORES):
            raise InputError("action", f"unknown action {action!r}", hint=f"write {NODE!r} or {SCORES!r}")
        self._episode: Episode | None = None
        observation_space: spaces.Space[Any] = spaces.Dict(
            {
                "nodes": spaces.Box(-BOUND, BOUND, (self.max_nodes, len(self.columns.of_nodes)), np.float32),
                "pod": spaces.Box(-BOUND, BOUND, (len(self.columns.of_pod),), np.float32),
            }
        )
        self.observation_space = observation_space
        self.action_space = (
            spaces.Box(-1.0, 1.0, (self.max_nodes,), np.float32) if self._by_scores else spaces.Discrete(self.max_nodes)
        )

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observed, Info]:
        """Start another episode. The seed determines its events."""
        super().reset(seed=seed)
        self.close()
        self._episode = self._source.begin(int(self.np_random.integers(2**31)))
        try:
            self._episode.advance()
            return self._observe(), self._info()
        except BaseException:
            self.close()
            raise

    def step(self, action: Any) -> tuple[Observed, float, bool, bool, Info]:
        """Place the pod on its node, and continue to the next pod that has a choice."""
        episode = self._running()
        if self._by_scores:
            action = np.where(self._mask(), np.asarray(action, dtype=np.float64), -np.inf).argmax()
        is_feasible = episode.answer(int(action))
        episode.advance()
        reward = self._reward(episode.facts(self.columns.resources)) + (0.0 if is_feasible else self._penalty)
        return self._observe(), float(reward), episode.question is None, False, self._info()

    def action_masks(self) -> NDArray[np.bool_]:
        """Return a mask of the rows that are feasible for the pod; all False when the episode is over."""
        return self._mask().astype(np.bool_)

    def node_names(self) -> list[str]:
        """Return the node name of each row."""
        return list(self._running().nodes.names)

    def close(self) -> None:
        """End the episode."""
        if self._episode is not None:
            self._episode.close()
            self._episode = None

    def _running(self) -> Episode:
        if self._episode is None:
            raise InputError("step", "no episode is running", hint="call reset() first")
        return self._episode

    def _mask(self) -> Mask:
        mask = np.zeros(self.max_nodes, dtype=np.int8)
        question = self._running().question
        if question is not None:
            mask[: len(question.feasible)] = question.feasible
        return mask

    def _observe(self) -> Observed:
        episode = self._running()
        nodes = np.zeros((self.max_nodes, len(self.columns.of_nodes)), dtype=np.float32)
        pod = np.zeros(len(self.columns.of_pod), dtype=np.float32)
        if episode.question is not None:
            if len(episode.nodes) > self.max_nodes:
                problem = f"there are {len(episode.nodes)} nodes, and observations have {self.max_nodes} rows"
                raise InputError("max_nodes", problem, hint="set max_nodes to the largest number of nodes")
            observation = self.columns.observe(episode.question.pod, episode.nodes)
            nodes[: len(observation.nodes)] = observation.nodes
            pod[:] = observation.pod
        return {"nodes": nodes.clip(-BOUND, BOUND), "pod": pod.clip(-BOUND, BOUND)}

    def _info(self) -> Info:
        episode = self._running()
        info: Info = {"action_mask": self._mask(), "seconds": episode.seconds}
        if episode.question is None:
            info["measures"] = episode.measures()
        return info


def chosen_by(policy: ScoringFunction, observation: Observed, mask: NDArray[Any]) -> int:
    """Return the feasible row that a policy prefers, as LearnedScore does with the same policy."""
    rows = np.flatnonzero(mask)
    scores = np.asarray(policy(observation["nodes"][rows], observation["pod"]), dtype=np.float64)
    return int(rows[scores.reshape(len(rows)).argmax()])
