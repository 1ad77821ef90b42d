"""An experiment file: the product of traces, clusters, configurations and seeds."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from moorage.common.errors import ConfigError, InputError
from moorage.kube.api.documents import read_documents
from moorage.lab.amounts import Name, PodCount, Positive
from moorage.lab.cluster import LabCluster
from moorage.lab.cluster_files import NodePool, cluster_of_pools, convert_or_explain, read_lab_cluster
from moorage.lab.conditions import Conditions
from moorage.lab.generating import generate
from moorage.lab.lines import open_text
from moorage.lab.presets import preset_cluster
from moorage.lab.trace import Trace
from moorage.lab.trace_files import read_trace
from moorage.lab.trial import PolicyText, Trial, load_trial_policy
from moorage.lab.tuning.plan import TunePlan

API_VERSION: Final = "kubescheduler.config.k8s.io/v1"
MAX_SEEDS: Final = 10_000


class TraceEntry(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A trace: a file, or a preset of which each seed makes up another one."""

    name: str = ""
    file: str = ""
    preset: str = ""
    pods: PodCount | None = None
    pods_per_hour: Positive | None = None


class LabClusterEntry(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A cluster: a file, a preset, or pools."""

    name: str = ""
    file: str = ""
    preset: str = ""
    pools: tuple[NodePool, ...] = ()


class ConfigurationEntry(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A policy: a configuration, or changes of the default profile."""

    name: Name
    file: str = ""
    """A KubeSchedulerConfiguration."""
    config: dict[str, Any] = {}
    """The same, written here."""
    weights: dict[str, int] = {}
    """Other weights of score plugins."""
    args: dict[str, dict[str, Any]] = {}
    """Arguments of plugins."""
    enabled: tuple[str, ...] = ()
    disabled: tuple[str, ...] = ()
    scores: dict[str, int] | None = None
    """The only score plugins, with their weights."""
    plugins: tuple[str, ...] = ()
    """Where third-party plugins are: ``module:Class``."""
    gates: dict[str, bool] = {}


class Experiment(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Traces × clusters × configurations × seeds."""

    name: str
    traces: tuple[TraceEntry, ...]
    clusters: tuple[LabClusterEntry, ...]
    configurations: tuple[ConfigurationEntry, ...]
    seeds: int | tuple[int, ...] = 3
    """Which seeds, or how many, counted from 1."""
    options: Conditions = Conditions()
    baseline: str = ""
    """The configuration that others are compared with; the default is the first."""
    tune: TunePlan | None = None
    """The search space of `moorage lab tune`."""

    @property
    def seed_list(self) -> Sequence[int]:
        """The seeds."""
        return range(1, self.seeds + 1) if isinstance(self.seeds, int) else self.seeds

    @property
    def compared_with(self) -> str:
        """The name of the configuration that the others are compared with."""
        return self.baseline or self.configurations[0].name


class LoadedExperiment:
    """An experiment and where its files are; traces and clusters are read once."""

    def __init__(self, experiment: Experiment, folder: Path, where: str) -> None:
        self.experiment, self.folder, self.where = experiment, folder, where
        self._file_traces: dict[int, Trace] = {}
        self.clusters: tuple[LabCluster, ...] = tuple(
            self._cluster(entry, f"{where}, clusters[{number}]") for number, entry in enumerate(experiment.clusters)
        )
        self.policies = tuple(
            self._policy(entry, f"{where}, configurations[{number}]")
            for number, entry in enumerate(experiment.configurations)
        )
        for number, entry in enumerate(experiment.traces):
            self._check_trace(number, entry, f"{where}, traces[{number}]")
        self._refuse_same_names()

    def __len__(self) -> int:
        experiment = self.experiment
        return len(experiment.traces) * len(self.clusters) * len(self.policies) * len(experiment.seed_list)

    def trials(
        self, policies: Sequence[PolicyText] | None = None, seeds: Sequence[int] | None = None
    ) -> Iterator[Trial]:
        """Go through all trials, or those of some policies and seeds; those of one trace follow each other."""
        experiment = self.experiment
        for number, entry in enumerate(experiment.traces):
            for seed in experiment.seed_list if seeds is None else seeds:
                trace = self._trace(number, entry, seed)
                for cluster in self.clusters:
                    for policy in self.policies if policies is None else policies:
                        yield Trial(trace, cluster, policy, seed, experiment.options)

    def check_policies(self) -> None:
        """Reject an invalid configuration before the first trial; ConfigError names it."""
        for number, policy in enumerate(self.policies):
            trial = Trial(Trace("none", ()), self.clusters[0], policy, 0)
            try:
                load_trial_policy(trial)
            except ConfigError as error:
                error.add_note(f"{self.where}, configurations[{number}] ({policy.name})")
                raise

    def _check_trace(self, number: int, entry: TraceEntry, where: str) -> None:
        """Refuse a trace that cannot be used before any trial has begun."""
        if bool(entry.file) == bool(entry.preset):
            raise InputError(where, "a trace is a file or a preset", hint="write one of file and preset")
        if entry.preset:
            generate(entry.preset, 0, pods=0, where=f"{where}.preset")
        elif entry.pods is not None or entry.pods_per_hour is not None:
            raise InputError(where, "pods and podsPerHour go with a preset", hint="a file has the pods that it has")
        else:
            self._trace(number, entry, 0)

    def _trace(self, number: int, entry: TraceEntry, seed: int) -> Trace:
        name = entry.name or entry.preset or Path(entry.file).name.split(".")[0]
        if entry.preset:
            generated = generate(entry.preset, seed, pods=entry.pods, pods_per_hour=entry.pods_per_hour)
            return Trace(name, generated.pods, generated.outages)
        if number not in self._file_traces:
            self._file_traces[number] = read_trace(self.folder / entry.file, name)
        return self._file_traces[number]

    def _cluster(self, entry: LabClusterEntry, where: str) -> LabCluster:
        if sum(map(bool, (entry.file, entry.preset, entry.pools))) != 1:
            problem = "a cluster is a file, a preset, or pools"
            raise InputError(where, problem, hint="write one of file, preset and pools")
        if entry.pools:
            return cluster_of_pools(entry.name or "cluster", entry.pools, where)
        if entry.preset:
            cluster = preset_cluster(entry.preset, f"{where}.preset")
            return msgspec.structs.replace(cluster, name=entry.name or cluster.name)
        return read_lab_cluster(self.folder / entry.file, entry.name)

    def _policy(self, entry: ConfigurationEntry, where: str) -> PolicyText:
        is_changed = bool(entry.weights or entry.args or entry.enabled or entry.disabled or entry.scores is not None)
        if sum(map(bool, (entry.file, entry.config, is_changed))) > 1:
            problem = "a configuration is a file, a config, or changes of the defaults"
            raise InputError(
                where, problem, hint="write one of them; weights and args can be part of the configuration"
            )
        text = ""
        if entry.file:
            with open_text(self.folder / entry.file) as file:
                text = file.read()
        elif entry.config:
            text = msgspec.json.encode(entry.config).decode()
        elif is_changed:
            text = msgspec.json.encode(changed_config(entry)).decode()
        return PolicyText(entry.name, text, entry.plugins, entry.gates)

    def _refuse_same_names(self) -> None:
        experiment = self.experiment
        traces = [entry.name or entry.preset or Path(entry.file).name.split(".")[0] for entry in experiment.traces]
        for field_name, names in (
            ("traces", traces),
            ("clusters", [cluster.name for cluster in self.clusters]),
            ("configurations", [policy.name for policy in self.policies]),
            ("seeds", list(map(str, experiment.seed_list))),
        ):
            if not names:
                raise InputError(
                    f"{self.where}, {field_name}", "there are none", hint="an experiment needs at least one"
                )
            for name in names:
                if names.count(name) > 1:
                    raise InputError(
                        f"{self.where}, {field_name}", f"two are named {name!r}", hint="give each a unique name"
                    )
        if experiment.compared_with not in (policy.name for policy in self.policies):
            raise InputError(f"{self.where}, baseline", f"no configuration is named {experiment.compared_with!r}")


def changed_config(entry: ConfigurationEntry) -> dict[str, Any]:
    """Return the default profile with the changes of an entry, as plain data."""
    enabled: list[dict[str, Any]] = [{"name": name} for name in entry.enabled if name not in entry.weights]
    enabled += [{"name": name, "weight": weight} for name, weight in entry.weights.items()]
    plugins: dict[str, Any] = {}
    if enabled or entry.disabled:
        plugins["multiPoint"] = {"enabled": enabled, "disabled": [{"name": name} for name in entry.disabled]}
    if entry.scores is not None:
        weights = [{"name": name, "weight": weight} for name, weight in entry.scores.items()]
        plugins["score"] = {"enabled": weights, "disabled": [{"name": "*"}]}
    profile = {
        "schedulerName": "default-scheduler",
        "plugins": plugins,
        "pluginConfig": [{"name": name, "args": args} for name, args in entry.args.items()],
    }
    return {"apiVersion": API_VERSION, "kind": "KubeSchedulerConfiguration", "profiles": [profile]}


def load_experiment(path: Path) -> LoadedExperiment:
    """Read an experiment; raise InputError with the place of a problem."""
    with open_text(path) as file:
        documents = list(read_documents(file.read(), source=str(path)))
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise InputError(str(path), "an experiment is one YAML document", hint="see docs/reference/lab.md")
    experiment = convert_or_explain(documents[0], Experiment, str(path))
    if isinstance(experiment.seeds, int) and not 0 < experiment.seeds <= MAX_SEEDS:
        raise InputError(f"{path}, seeds", f"{experiment.seeds} seeds", hint=f"write 1 to {MAX_SEEDS}, or a list")
    return LoadedExperiment(experiment, path.parent, str(path))
