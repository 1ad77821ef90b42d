"""Metrics in the formats that scrapers read. Imported at the first scrape: prometheus_client takes its time."""

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

Collect = Callable[[], Iterable[Metric]]


class FamilyCollector(Collector):
    """Exposes whatever a function returns."""

    def __init__(self, collect: Collect) -> None:
        self._collect = collect

    def collect(self) -> Iterator[Metric]:
        """Yield what there is now."""
        yield from self._collect()


class Exposition:
    """The metrics of one page; with ``of_process``, those of any Python process as well."""

    def __init__(self, collect: Collect, *, of_process: bool = False) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(FamilyCollector(collect))
        if of_process:
            ProcessCollector(registry=self._registry)
            GCCollector(registry=self._registry)

    def written(self, accept: str) -> tuple[bytes, str]:
        """Return everything in a format that a scraper accepts, and the name of that format."""
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type
