"""An experiment file: the product of traces, clusters, configurations and seeds."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from moorage.common.errors import ConfigError, InputError
from moorage.common.user_files import read_text
from moorage.kube.api.documents import read_documents
from moorage.lab.cluster import LabCluster, NodePool, build_cluster, convert_or_explain, read_lab_cluster
from moorage.lab.evolving.evolve_plan import EvolvePlan
from moorage.lab.formats import Name, PodCount, Positive
from moorage.lab.fragmentation import load_trial_policy
from moorage.lab.generating import generate, preset_cluster
from moorage.lab.importing import (
    ImportOptions,
    TraceMapping,
    check_mapping,
    import_pods,
    import_query,
    import_table,
)
from moorage.lab.own_measures import load_measures
from moorage.lab.trace import Trace
from moorage.lab.trace_files import StreamedTrace, read_trace, sort_by_arrival, stream_trace
from moorage.lab.trial import Conditions, PolicyText, Trial
from moorage.lab.tuning.plan import TunePlan

API_VERSION: Final = "kubescheduler.config.k8s.io/v1"
MAX_SEEDS: Final = 10_000


class TraceEntry(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A trace: a file, a query, or a preset that generates another trace for each seed."""

    name: str = ""
    file: str = ""
    format: str = ""
    """The public format of the file, as in `moorage lab import`; a trace of Moorage by default."""
    import_options: ImportOptions = msgspec.field(name="import", default=ImportOptions())
    mapping: TraceMapping | None = None
    """The columns of a CSV or Parquet file, or of the query."""
    query: str = ""
    """A DuckDB query. Files are relative to the experiment."""
    stream: bool = False
    """Whether the file is read during the trial, because it is larger than memory."""
    preset: str = ""
    pods: PodCount | None = None
    pods_per_hour: Positive | None = None

    @property
    def label(self) -> str:
        """The name in results."""
        return self.name or self.preset or Path(self.file).name.split(".")[0] or "query"


class LabClusterEntry(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A cluster: a file, a preset, or pools."""

    name: str = ""
    file: str = ""
    preset: str = ""
    pools: tuple[NodePool, ...] = ()


class ConfigurationEntry(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A policy: a configuration, or changes to the default profile."""

    name: Name
    file: str = ""
    """A KubeSchedulerConfiguration."""
    config: dict[str, Any] = {}
    """An inline KubeSchedulerConfiguration."""
    weights: dict[str, int] = {}
    """Weights of score plugins."""
    args: dict[str, dict[str, Any]] = {}
    """Arguments of plugins."""
    enabled: tuple[str, ...] = ()
    disabled: tuple[str, ...] = ()
    scores: dict[str, int] | None = None
    """The only score plugins, with their weights."""
    plugins: tuple[str, ...] = ()
    """Third-party plugins, as ``module:Class``."""
    gates: dict[str, bool] = {}


class Experiment(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Traces × clusters × configurations × seeds."""

    name: str
    traces: tuple[TraceEntry, ...]
    clusters: tuple[LabClusterEntry, ...]
    configurations: tuple[ConfigurationEntry, ...]
    seeds: int | tuple[int, ...] = 3
    """A list of seeds, or their number, counted from 1."""
    options: Conditions = Conditions()
    baseline: str = ""
    """The name of the baseline; the first configuration by default."""
    tune: TunePlan | None = None
    """The search space of `moorage lab tune`."""
    evolve: EvolvePlan | None = None
    """The objective of `moorage lab evolve`."""

    @property
    def seed_list(self) -> Sequence[int]:
        """The seeds."""
        return range(1, self.seeds + 1) if isinstance(self.seeds, int) else self.seeds

    def is_exact(self, entry: TraceEntry) -> bool:
        """Return whether no part of a trial depends on the seed: one run is the exact result."""
        options = self.options
        is_shuffled = options.shuffle or options.ties in ("random", "shuffled")
        return not (entry.preset or is_shuffled or options.inflate or options.node_failures)

    def list_seeds(self, entry: TraceEntry) -> Sequence[int]:
        """Return the seeds of a trace: the first one, if the seed has no influence."""
        return self.seed_list[:1] if self.is_exact(entry) else self.seed_list

    @property
    def baseline_name(self) -> str:
        """The baseline of comparisons."""
        return self.baseline or self.configurations[0].name


class LoadedExperiment:
    """An experiment and the directory of its files. Traces and clusters are read once."""

    def __init__(self, experiment: Experiment, directory: Path, location: str) -> None:
        self.experiment, self.directory, self.where = experiment, directory, location
        self._file_traces: dict[int, Trace | StreamedTrace] = {}
        self.clusters: tuple[LabCluster, ...] = tuple(
            self._cluster(entry, f"{location}, clusters[{number}]") for number, entry in enumerate(experiment.clusters)
        )
        self.policies = tuple(
            self._policy(entry, f"{location}, configurations[{number}]")
            for number, entry in enumerate(experiment.configurations)
        )
        for number, entry in enumerate(experiment.traces):
            self._check_trace(number, entry, f"{location}, traces[{number}]")
        self._check_names()

    def __len__(self) -> int:
        seeds = sum(len(self.experiment.list_seeds(entry)) for entry in self.experiment.traces)
        return seeds * len(self.clusters) * len(self.policies)

    def trials(
        self, policies: Sequence[PolicyText] | None = None, seeds: Sequence[int] | None = None
    ) -> Iterator[Trial]:
        """Yield all trials, or those of some policies and seeds, grouped by trace."""
        experiment = self.experiment
        for number, entry in enumerate(experiment.traces):
            for seed in experiment.list_seeds(entry) if seeds is None else seeds:
                trace = self._trace(number, entry, seed)
                for cluster in self.clusters:
                    for policy in self.policies if policies is None else policies:
                        yield Trial(trace, cluster, policy, seed, experiment.options, str(self.directory.resolve()))

    def check_policies(self) -> None:
        """Load all configurations. Raise ConfigError with the name of an invalid one."""
        for number, policy in enumerate(self.policies):
            trial = Trial(
                Trace("none", ()), self.clusters[0], policy, 0, self.experiment.options, str(self.directory.resolve())
            )
            try:
                load_trial_policy(trial)
            except ConfigError as error:
                error.add_note(f"{self.where}, configurations[{number}] ({policy.name})")
                raise
        load_measures(
            self.experiment.options.measures, str(self.directory.resolve()), f"{self.where}, options.measures"
        )

    def _check_trace(self, number: int, entry: TraceEntry, location: str) -> None:
        """Raise InputError for an invalid trace before the first trial."""
        if sum(map(bool, (entry.file, entry.preset, entry.query))) != 1:
            raise InputError(
                location, "a trace is a file, a query or a preset", hint="write one of file, query and preset"
            )
        if entry.mapping is not None:
            check_mapping(entry.mapping, f"{location}.mapping")
        if entry.query and entry.mapping is None:
            raise InputError(location, "a query needs a mapping", hint="write mapping: {columns: {arrives: COLUMN}}")
        if entry.stream and (entry.format or entry.mapping or not entry.file):
            problem = "only a trace of Moorage can be streamed"
            raise InputError(f"{location}.stream", problem, hint="convert it with `moorage lab import` first")
        if entry.preset:
            generate(entry.preset, 0, pods=0, where=f"{location}.preset")
        elif entry.pods is not None or entry.pods_per_hour is not None:
            raise InputError(
                location, "pods and podsPerHour go with a preset", hint="remove them: a file contains its pods"
            )
        else:
            self._trace(number, entry, 0)

    def _trace(self, number: int, entry: TraceEntry, seed: int) -> Trace | StreamedTrace:
        if entry.preset:
            generated = generate(entry.preset, seed, pods=entry.pods, pods_per_hour=entry.pods_per_hour)
            return msgspec.structs.replace(generated, name=entry.label)
        if number not in self._file_traces:
            self._file_traces[number] = self._read_trace(entry, f"{self.where}, traces[{number}]")
        return self._file_traces[number]

    def _read_trace(self, entry: TraceEntry, location: str) -> Trace | StreamedTrace:
        path, options = self.directory / entry.file, entry.import_options
        if entry.stream:
            return stream_trace(path, entry.label)
        if entry.query and entry.mapping is not None:
            pods = import_query(entry.query, entry.mapping, self.directory, f"{location}.query")
        elif entry.mapping is not None:
            pods = import_table(path, entry.mapping, as_gangs=options.as_gangs)
        elif entry.format:
            if options.throughputs:
                options = msgspec.structs.replace(options, throughputs=str(self.directory / options.throughputs))
            pods = import_pods(entry.format, path, options)
        else:
            return read_trace(path, entry.label)
        trace = Trace(entry.label, tuple(sort_by_arrival(pods)))
        if not trace.pods:
            raise InputError(location, "there are no pods in the trace", hint="check the file and the mapping")
        return trace

    def _cluster(self, entry: LabClusterEntry, location: str) -> LabCluster:
        if sum(map(bool, (entry.file, entry.preset, entry.pools))) != 1:
            problem = "a cluster is a file, a preset, or pools"
            raise InputError(location, problem, hint="write one of file, preset and pools")
        if entry.pools:
            return build_cluster(entry.name or "cluster", entry.pools, location, self.directory)
        if entry.preset:
            cluster = preset_cluster(entry.preset, f"{location}.preset")
            return msgspec.structs.replace(cluster, name=entry.name or cluster.name)
        return read_lab_cluster(self.directory / entry.file, entry.name)

    def _policy(self, entry: ConfigurationEntry, location: str) -> PolicyText:
        is_changed = bool(entry.weights or entry.args or entry.enabled or entry.disabled or entry.scores is not None)
        if sum(map(bool, (entry.file, entry.config, is_changed))) > 1:
            problem = "a configuration is a file, a config, or changes to the defaults"
            raise InputError(location, problem, hint="write one of them; a configuration can contain weights and args")
        text = ""
        if entry.file:
            text = read_text(self.directory / entry.file)
        elif entry.config:
            text = msgspec.json.encode(entry.config).decode()
        elif is_changed:
            text = msgspec.json.encode(changed_config(entry)).decode()
        return PolicyText(entry.name, text, entry.plugins, entry.gates)

    def _check_names(self) -> None:
        experiment = self.experiment
        for field_name, names in (
            ("traces", [entry.label for entry in experiment.traces]),
            ("clusters", [cluster.name for cluster in self.clusters]),
            ("configurations", [policy.name for policy in self.policies]),
            ("seeds", list(map(str, experiment.seed_list))),
        ):
            location = f"{self.where}, {field_name}"
            if not names:
                raise InputError(location, "the list is empty", hint="an experiment needs at least one")
            if len(set(names)) < len(names):
                duplicate = next(name for name in names if names.count(name) > 1)
                raise InputError(location, f"two are named {duplicate!r}", hint="use unique names")
        if experiment.baseline_name not in (policy.name for policy in self.policies):
            raise InputError(f"{self.where}, baseline", f"no configuration is named {experiment.baseline_name!r}")


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
    """Read an experiment. Raise InputError with the location of a problem."""
    documents = list(read_documents(read_text(path, hint="check the path"), source=str(path)))
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise InputError(
            str(path),
            "not an experiment: expected one YAML document",
            hint="the page 'Compare policies' of the documentation has an example",
        )
    experiment = convert_or_explain(documents[0], Experiment, str(path))
    if isinstance(experiment.seeds, int) and not 0 < experiment.seeds <= MAX_SEEDS:
        raise InputError(
            f"{path}, seeds", f"invalid number of seeds: {experiment.seeds}", hint=f"write 1 to {MAX_SEEDS}, or a list"
        )
    return LoadedExperiment(experiment, path.parent, str(path))
