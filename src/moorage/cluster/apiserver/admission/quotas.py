"""Resource quotas: the usage of each namespace is updated with every change, and writes that exceed it are rejected."""

from typing import Final

from moorage.cluster.apiserver.admission.quota_usage import PODS, Usage, compute_usage, find_unspecified, is_in_scope
from moorage.cluster.apiserver.storage.store import Entry, Store, StoredChange
from moorage.kube.api.quantity import format_nanos, nano_value
from moorage.kube.api.struct import Data
from moorage.kube.resources import ServedResource
from moorage.kube.status_errors import forbidden

QUOTAS: Final = "resourcequotas"
Location = tuple[str, str]
"""The resource and the key of a stored object."""


class Ledger:
    """One quota: its limits, and the usage of each object in its namespace."""

    def __init__(self, entry: Entry) -> None:
        self.key = entry.key
        self.name = entry.key.partition("/")[2]
        self.spec: Data = entry.data.get("spec") or {}
        self.hard: dict[str, str] = {name: str(amount) for name, amount in (self.spec.get("hard") or {}).items()}
        self.limits: Usage = {name: nano_value(amount) for name, amount in self.hard.items()}
        self.used: Usage = dict.fromkeys(self.hard, 0)
        self._shares: dict[Location, Usage] = {}

    def compute_share(self, storage: str, entry: Entry) -> Usage:
        """Return the usage of an object in this quota."""
        usage = {name: amount for name, amount in compute_usage(storage, entry).items() if name in self.hard}
        return usage if usage and is_in_scope(self.spec, storage, entry) else {}

    def note(self, storage: str, key: str, entry: Entry | None) -> bool:
        """Update the usage of an object. Return whether it changed."""
        object_key = (storage, key)
        before, now = self._shares.get(object_key, {}), self.compute_share(storage, entry) if entry is not None else {}
        if before == now:
            return False
        for name in {*before, *now}:
            self.used[name] += now.get(name, 0) - before.get(name, 0)
        if now:
            self._shares[object_key] = now
        else:
            self._shares.pop(object_key)
        return True

    def excess(self, storage: str, entry: Entry) -> str:
        """Return why a new or changed object exceeds the quota, or empty if it fits."""
        before, now = self._shares.get((storage, entry.key), {}), self.compute_share(storage, entry)
        increase = {name: now[name] - before.get(name, 0) for name in now if now[name] > before.get(name, 0)}
        over = sorted(name for name, amount in increase.items() if self.used[name] + amount > self.limits[name])
        if not over:
            return ""
        requested, used_amounts, limited = (
            ",".join(f"{name}={self.quantity(name, amounts[name])}" for name in over)
            for amounts in (increase, self.used, self.limits)
        )
        return f"exceeded quota: {self.name}, requested: {requested}, used: {used_amounts}, limited: {limited}"

    def quantity(self, name: str, amount: int) -> str:
        """Format an amount in the unit of the limit."""
        return format_nanos(amount, is_binary=self.hard[name].endswith("i"))

    def status(self) -> Data:
        """Return the status of the quota."""
        return {"hard": self.hard, "used": {name: self.quantity(name, amount) for name, amount in self.used.items()}}


class Quotas:
    """All quotas of a store. They cost nothing in namespaces without quotas."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._ledgers: dict[str, dict[str, Ledger]] = {}
        self._dirty: dict[str, Ledger] = {}
        for entry in store.list(QUOTAS):
            self._open(entry)
        store.subscribe(self._on_change)

    @property
    def is_settled(self) -> bool:
        """Whether the status of every quota is current."""
        return not self._dirty

    def _on_change(self, resource: str, change: StoredChange) -> None:
        entry = change.after or change.before
        assert entry is not None
        if resource == QUOTAS:
            self._changed_quota(entry.key, change.after)
        if not self._ledgers:
            return
        for ledger in self._ledgers.get(entry.key.partition("/")[0], {}).values():
            if ledger.note(resource, entry.key, change.after):
                self._dirty[ledger.key] = ledger

    def _changed_quota(self, key: str, after: Entry | None) -> None:
        """Update a quota. With an unchanged spec it keeps its usage and ignores writes to its status."""
        namespace = key.partition("/")[0]
        ledger = self._ledgers.get(namespace, {}).get(key)
        if after is None:
            self._dirty.pop(key, None)
            if ledger is not None:
                del self._ledgers[namespace][key]
            if not self._ledgers.get(namespace):
                self._ledgers.pop(namespace, None)
        elif ledger is not None and ledger.spec == (after.data.get("spec") or {}):
            self._dirty[key] = ledger
        else:
            self._open(after)

    def _open(self, entry: Entry) -> None:
        ledger = Ledger(entry)
        namespace = entry.key.partition("/")[0]
        for resource in self._store.resources():
            for item in self._store.sorted(resource, namespace):
                ledger.note(resource, item.key, item)
        self._ledgers.setdefault(namespace, {})[entry.key] = ledger
        self._dirty[entry.key] = ledger

    def limits(self, namespace: str) -> bool:
        """Return whether a namespace has a quota."""
        return namespace in self._ledgers

    def of_namespace(self, namespace: str) -> list[Ledger]:
        """Return the quotas of a namespace."""
        return list(self._ledgers.get(namespace, {}).values())

    def check(self, resource: ServedResource, entry: Entry) -> None:
        """Reject a new or changed object that exceeds a quota of its namespace."""
        data = entry.data
        name = data["metadata"].get("name", "")
        for ledger in self._ledgers.get(entry.key.partition("/")[0], {}).values():
            problem = find_unspecified(data["spec"], ledger.hard) if resource.storage == PODS else ""
            if problem and is_in_scope(ledger.spec, PODS, entry):
                raise forbidden(resource, name, f"failed quota: {ledger.name}: {problem}")
            if excess := ledger.excess(resource.storage, entry):
                raise forbidden(resource, name, excess)

    def settle(self) -> None:
        """Update the usage in the status of every quota."""
        while self._dirty:
            key, ledger = self._dirty.popitem()
            entry = self._store.get(QUOTAS, key)
            if entry is None:
                continue
            data, status = entry.data, ledger.status()
            if data.get("status") != status:
                self._store.put(QUOTAS, key, {**data, "status": status})
                self._dirty.pop(key, None)
