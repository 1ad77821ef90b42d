"""Where the rows of an experiment are kept: a file for each trial that is done, and all rows together in the end."""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from re import sub
from typing import Any, Final

import msgspec
from msgspec import Struct

from moorage import __version__
from moorage.common.errors import InputError
from moorage.kube.api.codec import to_data
from moorage.lab.cluster import LabCluster
from moorage.lab.parquet import convert_to_parquet, pyarrow_or_none, write_parquet
from moorage.lab.rows import TrialResult
from moorage.lab.trace import Trace
from moorage.lab.trial import Trial

TRIALS: Final = "trials"
KINDS: Final = ("trials", "points", "pods")
_encode: Final = msgspec.json.Encoder(order="deterministic").encode
_decode: Final = msgspec.json.Decoder(TrialResult).decode


class Results:
    """The folder of an experiment's rows. Existing trials are not run again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._digests: dict[int, tuple[object, bytes]] = {}
        self._done: dict[str, Path] = {}
        """Where the rows of each trial are that was found or kept."""
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
        path = self.path_of(trial)
        try:
            result = _decode(path.read_bytes())
        except (FileNotFoundError, msgspec.DecodeError):
            return None
        self._done[str(trial.id)] = path
        return result

    def keep(self, trial: Trial, result: TrialResult) -> None:
        """Write the rows of a trial: all of them, or none."""
        path = self._done[str(trial.id)] = self.path_of(trial)
        self._write(path, [_encode(result) + b"\n"])

    def combine(self, trials: Sequence[TrialResult]) -> list[Path]:
        """Write all rows together, a file for each kind; also as Parquet, where pyarrow is installed.

        Rows of pods that a result came without are read from its file, so that those of one trial are held at a time.
        """
        results = []
        for kind in KINDS:
            path = self.folder / f"{kind}.jsonl"
            self._write(path, (_encode(row) + b"\n" for row in self._rows(trials, kind)))
            results.append(path)
            if pyarrow_or_none() is not None:
                flat = [_flat(row) for row in self._rows(trials, kind)] if kind == TRIALS else None
                results.append(self._write_parquet(path, flat))
        return results

    def _rows(self, trials: Sequence[TrialResult], kind: str) -> Iterator[Struct]:
        for result in trials:
            if kind == TRIALS:
                yield result.trial
            elif kind == "points":
                yield from result.points
            else:
                path = self._done.get(str(result.trial.id))
                yield from result.pods or (() if path is None else _decode(path.read_bytes()).pods)

    def _write_parquet(self, lines: Path, flat: list[dict[str, Any]] | None) -> Path:
        path = lines.with_suffix(".parquet")
        if flat is not None:
            columns = {name: None for row in flat for name in row}
            write_parquet(path, [{**columns, **row} for row in flat])
        elif lines.stat().st_size:
            convert_to_parquet(lines, path)
        return path

    def write_report(self, html: str) -> Path:
        """Write the report to the folder of the rows."""
        return self.write("report.html", html.encode())

    def write(self, name: str, content: bytes) -> Path:
        """Write a file to the folder atomically."""
        path = self.folder / name
        self._write(path, [content])
        return path

    def _write(self, path: Path, content: Iterable[bytes]) -> None:
        beside = path.with_name(f".{path.name}.part")
        try:
            with beside.open("wb") as file:
                file.writelines(content)
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
        """Return the key of a trace or a cluster; many trials share one."""
        digest = self._digests.get(id(part))
        if digest is None or digest[0] is not part:
            if len(self._digests) > 64:
                self._digests.clear()
            content = part if isinstance(part, Trace) else [part.name, *map(to_data, (*part.nodes, *part.objects))]
            more = part.scaled if isinstance(part, LabCluster) else ()
            digest = self._digests[id(part)] = (part, blake2b(_encode((content, more))).digest())
        return digest[1]


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
    hint = "finished trials are stored: free disk space, and run the same command again"
    return InputError(str(path), f"cannot be written: {error.strerror}", hint=hint)
