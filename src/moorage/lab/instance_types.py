"""Instance types with prices, in the JSON format of Karpenter's kwok provider."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from moorage.common.errors import InputError, describe_decode_error, did_you_mean
from moorage.common.user_files import MAX_OBJECTS, read_file
from moorage.kube.api.quantity import Quantity
from moorage.lab.formats import Amount

INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
ARCHITECTURE: Final = "kubernetes.io/arch"
OPERATING_SYSTEM: Final = "kubernetes.io/os"


class OfferingRequirement(Struct, frozen=True):
    """A label of the nodes of an offering, such as their zone."""

    key: str
    operator: str = "In"
    values: tuple[str, ...] = ()


class Offering(Struct, frozen=True):
    """An instance type in one zone and capacity type, with its price per hour."""

    price: Amount = msgspec.field(name="Price")
    available: bool = msgspec.field(name="Available", default=True)
    requirements: tuple[OfferingRequirement, ...] = msgspec.field(name="Requirements", default=())


class InstanceType(Struct, frozen=True, rename="camel"):
    """A size of nodes and its offerings."""

    name: str
    offerings: tuple[Offering, ...]
    architecture: str = ""
    operating_systems: tuple[str, ...] = ()
    resources: dict[str, Quantity] = {}


class OfferedNode(Struct, frozen=True):
    """A node that can be bought: its allocatable resources, labels and price per hour."""

    allocatable: dict[str, Quantity]
    labels: dict[str, str]
    price: float


def read_offers(path: Path, required: Mapping[str, Sequence[str]], location: str) -> list[OfferedNode]:
    """Return the available offerings with the required labels, in the order of the file. Raise InputError for none."""
    try:
        types = msgspec.json.decode(read_file(path, limit=MAX_OBJECTS), type=tuple[InstanceType, ...])
    except msgspec.DecodeError as error:
        hint = "use the format of Karpenter's instance_types.json: a list with name, resources and offerings"
        raise InputError(
            str(path), f"not a list of instance types: {describe_decode_error(error)}", hint=hint
        ) from error
    offers = [offer for instance_type in types for offer in _list_offers(instance_type)]
    label_keys = {key for offer in offers for key in offer.labels}
    for key in required:
        if key not in label_keys:
            hint = did_you_mean(key, label_keys) or f"use one of {', '.join(sorted(label_keys))}"
            raise InputError(f"{location}.requirements", f"no instance type has the label {key!r}", hint=hint)
    accepted = [offer for offer in offers if all(offer.labels.get(key) in values for key, values in required.items())]
    if not accepted:
        problem = f"no available offering of {path.name} meets the requirements"
        raise InputError(f"{location}.requirements", problem, hint="change the requirements")
    return accepted


def _list_offers(instance_type: InstanceType) -> Iterator[OfferedNode]:
    """Yield a node for each available offering and operating system."""
    for offering in instance_type.offerings:
        if not offering.available:
            continue
        labels = {
            requirement.key: requirement.values[0]
            for requirement in offering.requirements
            if requirement.operator == "In" and requirement.values
        }
        labels[INSTANCE_TYPE] = instance_type.name
        if instance_type.architecture:
            labels[ARCHITECTURE] = instance_type.architecture
        for system in instance_type.operating_systems or ("linux",):
            yield OfferedNode(instance_type.resources, {**labels, OPERATING_SYSTEM: system}, offering.price)
