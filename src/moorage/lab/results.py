"""Where the rows of an experiment are kept: a file for each trial that is done, and all rows together in the end."""

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from re import sub
from typing import Any, Final

import msgspec
from msgspec import Struct

from moorage import __version__
from moorage.api.codec import to_data
from moorage.errors import InputError
from moorage.lab.cluster import LabCluster
from moorage.lab.parquet import pyarrow_or_none, write_parquet
from moorage.lab.rows import TrialResult
from moorage.lab.trace import Trace
from moorage.lab.trial import Trial

TRIALS: Final = "trials"
KINDS: Final = ("trials", "points", "pods")
_encode: Final = msgspec.json.Encoder(order="deterministic").encode
_decode: Final = msgspec.json.Decoder(TrialResult).decode


class Results:
    """The folder of one experiment's rows. What is in it stays: a trial that is there is not run again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._digests: dict[int, tuple[object, bytes]] = {}
        try:
            (folder / TRIALS).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _cannot_write(folder, error) from error

    def path_of(self, trial: Trial) -> Path:
        """Return where the rows of a trial are kept; whatever changes them changes the name."""
        of = trial.id
        plain = "--".join(sub(r"[^\w.-]+", "_", text)[:60] for text in (of.configuration, of.cluster, of.trace))
        return self.folder / TRIALS / f"{plain}--{of.seed}-{self._digest(trial)}.json"

    def find(self, trial: Trial) -> TrialResult | None:
        """Return the rows of a trial that is done; ``None`` if it is not, or its file was cut off."""
        try:
            return _decode(self.path_of(trial).read_bytes())
        except (FileNotFoundError, msgspec.DecodeError):
            return None

    def keep(self, trial: Trial, result: TrialResult) -> None:
        """Write the rows of a trial: all of them, or none."""
        self._write(self.path_of(trial), _encode(result) + b"\n")

    def combine(self, trials: Sequence[TrialResult]) -> list[Path]:
        """Write all rows together, a file for each kind; also as Parquet, where pyarrow is installed."""
        written = []
        for kind in KINDS:
            path = self.folder / f"{kind}.jsonl"
            self._write(path, b"".join(_encode(row) + b"\n" for row in rows_of(trials, kind)))
            written.append(path)
            if pyarrow_or_none() is not None:
                path = path.with_suffix(".parquet")
                rows = [_flat(row) for row in rows_of(trials, kind)]
                columns = {name: None for row in rows for name in row}
                write_parquet(path, [{**columns, **row} for row in rows])
                written.append(path)
        return written

    def write_report(self, html: str) -> Path:
        """Write the report beside the rows."""
        path = self.folder / "report.html"
        self._write(path, html.encode())
        return path

    def _write(self, path: Path, content: bytes) -> None:
        beside = path.with_name(f".{path.name}.part")
        try:
            beside.write_bytes(content)
            beside.replace(path)
        except OSError as error:
            beside.unlink(missing_ok=True)
            raise _cannot_write(path, error) from error

    def _digest(self, trial: Trial) -> str:
        hashed = blake2b(digest_size=8)
        hashed.update(_encode((__version__, trial.policy, trial.seed, trial.conditions)))
        for part in (trial.trace, trial.cluster):
            hashed.update(self._content(part))
        for plugin in trial.policy.plugins:
            hashed.update(_source(plugin))
        return hashed.hexdigest()

    def _content(self, part: Trace | LabCluster) -> bytes:
        """Return what stands for a trace or a cluster; many trials have the same one."""
        known = self._digests.get(id(part))
        if known is None or known[0] is not part:
            if len(self._digests) > 64:
                self._digests.clear()
            content = part if isinstance(part, Trace) else [part.name, *map(to_data, (*part.nodes, *part.objects))]
            more = part.scaled if isinstance(part, LabCluster) else ()
            known = self._digests[id(part)] = (part, blake2b(_encode((content, more))).digest())
        return known[1]


def rows_of(trials: Sequence[TrialResult], kind: str) -> Iterator[Struct]:
    """Go through all rows of one kind."""
    for result in trials:
        if kind == "trials":
            yield result.trial
        else:
            yield from result.points if kind == "points" else result.pods


def _flat(row: Struct) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(row)
    measures: dict[str, Any] = plain.pop("measures", {})
    return {**plain, **measures}


def _source(plugin: str) -> bytes:
    """Return the source of a plugin's module: with other code, the trial is another one."""
    try:
        spec = find_spec(plugin.partition(":")[0])
        return Path(spec.origin).read_bytes() if spec is not None and spec.origin else b""
    except (ImportError, OSError, ValueError):
        return b""


def _cannot_write(path: Path, error: OSError) -> InputError:
    hint = "trials that are done are kept: make room, and run the same command again"
    return InputError(str(path), f"cannot be written: {error.strerror}", hint=hint)
