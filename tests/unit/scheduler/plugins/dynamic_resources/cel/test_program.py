"""CEL selectors: the Kubernetes dialect on top of cel-cpp."""

import subprocess
import sys
from itertools import pairwise

import pytest
from tests.unit.scheduler.plugins.dynamic_resources.device_builders import DRIVER, device

from moorage.kube.cel.versions import normalized, parse_version
from moorage.scheduler.plugins.dynamic_resources.cel.program import (
    CelCompileError,
    CelRuntimeError,
    compile_selector,
    device_facts,
)

GPU = device(
    "d0",
    attributes={"model": "a100", "cores": 16, "healthy": True, "firmware": "v1.2.3", "fabric.example/index": 3},
    capacity={"memory": "40Gi", "fabric.example/ports": "2500m"},
)
FACTS = device_facts(DRIVER, GPU)

SELECTED = {
    "the driver is a text": 'device.driver == "gpu.example"',
    "a bare name belongs to the driver's domain": 'device.attributes["gpu.example"].model == "a100"',
    "a qualified name to its own": 'device.attributes["fabric.example"].index == 3',
    "the driver may be used as the domain": "device.attributes[device.driver].cores > 8",
    "an attribute may be the complete result": 'device.attributes["gpu.example"].healthy',
    "an unknown domain is an empty map": '!("x" in device.attributes["nope.example"])',
    "also one that is concatenated at run time": '!("x" in device.attributes["nope" + ".example"])',
    "but is not among the domains": '!("nope.example" in device.attributes)',
    "nor counted": "size(device.attributes) == 2 && device.attributes.size() == 2",
    "and macros go through the real ones": 'device.attributes.exists(d, d == "fabric.example")',
    "has looks for an attribute": 'has(device.attributes["gpu.example"].model)',
    "and misses one": '!has(device.attributes["gpu.example"].nope)',
    "a field of a device is always there": "has(device.driver) && has(device.attributes)",
    "optionals have a default": 'device.attributes["gpu.example"].?nope.orValue(7) == 7',
    "bind shortens": 'cel.bind(a, device.attributes["gpu.example"], a.cores == 16 && a.model.startsWith("a"))',
    "quantities are compared by value": 'device.capacity["gpu.example"].memory == quantity("40960Mi")',
    "and in order": 'device.capacity["gpu.example"].memory.compareTo(quantity("10Gi")) >= 0',
    "greater": 'device.capacity["gpu.example"].memory.isGreaterThan(quantity("39Gi"))',
    "less": 'device.capacity["fabric.example"].ports.isLessThan(quantity("3"))',
    "in a list": 'device.capacity["fabric.example"].ports in [quantity("1"), quantity("2.5")]',
    "added up": 'quantity("1Gi").add(quantity("1Gi")) == quantity("2Gi") && quantity("5").sub(2) == quantity("3")',
    "turned into numbers": 'quantity("3k").asInteger() == 3000 && sign(quantity("-1")) == -1',
    "known by sight": '!isQuantity("ten") && isQuantity("10") && !quantity("100m").isInteger()',
    "versions are compared": 'device.attributes["gpu.example"].firmware.isGreaterThan(semver("1.2.0"))',
    "by their rules": 'semver("1.0.0-rc.2").isLessThan(semver("1.0.0-rc.10"))',
    "build metadata does not count": 'semver("1.0.0+a") == semver("1.0.0+b")',
    "lax ones are brought into form": 'semver("v1.02", true) == semver("1.2.0") && isSemver("v1", true)',
    "strict ones are not": '!isSemver("v1.0.0")',
    "parts of a version": 'device.attributes["gpu.example"].firmware.major() == 1',
    "a shared device is known as such": "!device.allowMultipleAllocations",
    "sets": "sets.contains([1, 2], [1]) && sets.intersects([1], [1, 2]) && sets.equivalent([1, 2], [2, 1])",
    "lists": "[1, 2, 3].sum() == 6 && [3, 1].max() == 3 && [1, 2].isSorted()",
    "positions in lists": '["a", "b", "a"].indexOf("b") == 1 && [1, 2, 1].lastIndexOf(1) == 2 && [1].indexOf(2) == -1',
    "lists of lists": "[[1], [2, 3]].flatten() == [1, 2, 3] && [[[1]], 2].flatten(2).size() == 2",
    "orders of lists": '[3, 1, 2].sort() == [1, 2, 3] && ["b", "a"].reverse() == ["a", "b"]',
    "parts of lists": "[1, 2, 2].distinct() == [1, 2] && [1, 2, 3].slice(1, 3) == [2, 3]",
    "ranges": "lists.range(3) == [0, 1, 2] && lists.range(-1) == []",
    "macros with two variables": '["a", "b"].exists(i, v, i == 1 && v == "b") '
    '&& device.attributes.exists(d, a, d == "fabric.example" && a.index == 3)',
    "transformed lists": '["a"].transformList(i, v, v + "b") == ["ab"]',
    "regular expressions": 'device.attributes["gpu.example"].model.find("[0-9]+") == "100"',
    "an error next to a true operand does not matter": 'device.attributes["gpu.example"].nope == 1 || true',
    "the complete device": 'cel.bind(d, device, d.driver == "gpu.example")',
    "an attribute may be called device": '!has(device.attributes["gpu.example"].device)',
    "also where the expression ends with it": 'device.attributes["gpu.example"].?device == optional.none()',
    "the device ends the expression": "device == device",
    "patterns are RE2's": '"aXbX".findAll("(?U)a.*X|b", 1) == ["aX"] && "é".find("\\\\pL") == "é"',
    "addresses": 'ip("10.0.0.1").family() == 4 && ip("::1").isLoopback() && isIP("::") && !isIP("::ffff:1.2.3.4")',
    "addresses are compared by value": 'ip("2001:DB8::0") == ip("2001:db8::") && !ip.isCanonical("2001:DB8::")',
    "kinds of addresses": 'ip("224.0.0.9").isLinkLocalMulticast() && !ip("255.255.255.255").isGlobalUnicast()',
    "networks": 'cidr("10.1.2.3/16").containsIP("10.1.9.9") && !cidr("10.1.2.3/16").containsIP(ip("::1"))',
    "networks in networks": 'cidr("10.0.0.0/8").containsCIDR("10.1.0.0/16") && !isCIDR("10.0.0.0/08")',
    "parts of a network": 'cidr("10.1.2.3/16").masked() == cidr("10.1.0.0/16") && cidr("::1/64").prefixLength() == 64',
    "the address of a network": 'cidr("10.1.2.3/16").ip() == ip("10.1.2.3")',
    "URLs": 'url("https://a.b:80/c%20d?e=f&e=g#h").getHost() == "a.b:80" && !isURL("../a") && isURL("/a")',
    "parts of a URL": 'cel.bind(u, url("https://a.b:80/c d?e=f&e=g"), u.getPort() == "80" && u.getScheme() == "https" '
    '&& u.getHostname() == "a.b" && u.getEscapedPath() == "/c%20d" && u.getQuery()["e"] == ["f", "g"])',
    "formats": '!format.dns1123Label().validate("a-b").hasValue() && format.uuid().validate(device.driver).hasValue()',
    "problems of formats": 'format.byte().validate("?").value() == ["invalid base64"]',
    "named formats": 'format.named("date").value().validate("2026-02-30").orValue([]) == ["invalid date"]',
    "unknown formats": 'format.named("nope") == optional.none() && !format.named((("nope"))).hasValue()',
    "formats of generated names": '!format.dns1035LabelPrefix().validate("a-").hasValue() '
    '&& format.dns1035Label().validate("1").value()[0].startsWith("a DNS-1035 label must")',
    "formats are compared by name": "format.uri() == format.uri() && format.uri() != format.date()",
    "comments and quotes are unchanged": "device.driver == 'gpu.example' // device.nope",
}


@pytest.mark.parametrize("expression", SELECTED.values(), ids=SELECTED)
def test_selects(expression: str) -> None:
    assert compile_selector(expression).matches(FACTS)


def test_masks_are_methods_from_1_38() -> None:
    expressions = {'cidr("10.0.0.0/8").isMask()': True, 'cidr("10.0.0.1/8").isMask()': False}
    for expression, is_mask in expressions.items():
        assert compile_selector(expression, masks=True).matches(FACTS) is is_mask
        with pytest.raises(CelCompileError, match="undeclared reference to 'isMask'"):
            compile_selector(expression)


REFUSED = {
    "no such field": "device.nope",
    "no end": "device.driver ==",
    "not a bool": "1",
    "types that cannot be compared": "device.driver == 1",
    "quantities have no operators": 'quantity("1") > quantity("2")',
    "nor are they numbers": 'device.capacity["gpu.example"].memory == 1',
    "no such function": "device.driver.nope()",
    "no such variable": "devices.driver",
    "a result of a format is optional": 'format.uri().validate("/a").size() == 0',
    "no such format": 'format.nope().validate("a").hasValue()',
    "no field at the end": "device.",
    "nor an optional one": "true || device.?",
    "longer than the API server takes": "true" + " " * 10_240,
    "deeper than cel-cpp reads": "(" * 300 + "true" + ")" * 300,
    "the hidden result of a macro": "[1].map(x, __result__).size() == 1",
    "text that is not text": "device.driver == '\ud800'",
}


@pytest.mark.parametrize("expression", REFUSED.values(), ids=REFUSED)
def test_invalid_expression_does_not_compile(expression: str) -> None:
    with pytest.raises(CelCompileError):
        compile_selector(expression)


FAILING = {
    "a missing attribute": ('device.attributes["gpu.example"].nope == 1', "no such key: nope"),
    "of a missing domain": ('device.attributes["nope.example"].x == 1', "no such key: x"),
    "a result that is not a bool": ('device.attributes["gpu.example"].model', "could not be converted to bool"),
    "an optional": ("dyn(optional.none())", "could not be converted to bool"),
    "a list with an optional": ("dyn([optional.of(1)])", "could not be converted to bool"),
    "a version compared with a quantity": (
        'device.attributes["gpu.example"].firmware.isGreaterThan(quantity("1"))',
        "no such overload",
    ),
    "a text that is not a quantity": ('quantity("ten") == quantity("10")', "quantity"),
    "a pattern that looks ahead": ('"a".find("a(?=b)") == ""', "error parsing regexp"),
    "a pattern that refers back": ('"a".findAll("(a)\\\\1").size() == 1', "error parsing regexp"),
    "a pattern for cel-cpp itself": ('"a".matches("(")', "missing"),
    "an endless search": (
        "[0,1,2,3,4,5,6,7,8,9].all(a, " * 6 + "true" + ")" * 6,
        "cost limit",
    ),
}


@pytest.mark.parametrize(("expression", "text"), FAILING.values(), ids=FAILING)
def test_fails_on_the_device(expression: str, text: str) -> None:
    with pytest.raises(CelRuntimeError, match=text):
        compile_selector(expression).matches(FACTS)


def test_invalid_version_fails_every_expression() -> None:
    facts = device_facts(DRIVER, device("d", attributes={"firmware": "v1.2"}))
    with pytest.raises(CelRuntimeError, match="attribute firmware: parse semantic version"):
        compile_selector("true").matches(facts)


def test_equal_devices_share_results() -> None:
    assert device_facts(DRIVER, device("other", attributes={"a": 1})) is device_facts(
        DRIVER, device("d", attributes={"a": 1})
    )


def test_pods_without_claims_do_not_pay_for_cel() -> None:
    code = "import sys, moorage.scheduler.plugins.dynamic_resources.plugin as d; sys.exit('cel_expr_python' in sys.modules)"  # noqa: E501
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


WITHOUT_CEL = """
import sys
sys.modules.update({"cel_expr_python": None, "re2": None})
from tests.unit.scheduler.plugins.dynamic_resources.device_builders import DRIVER, device
from moorage.scheduler.plugins.dynamic_resources.cel.program import CelCompileError, compile_selector, device_facts
assert device_facts(DRIVER, device("d0", attributes={"firmware": "v1.2.3"})).attributes
try:
    compile_selector("device.driver == 'gpu.example'")
except CelCompileError as error:
    print(error)
"""


def test_selectors_without_cel_name_the_extra() -> None:
    run = subprocess.run([sys.executable, "-c", WITHOUT_CEL], check=True, capture_output=True, text=True)
    assert "pip install 'moorage[dra]'" in run.stdout


ORDERED = [
    "0.9.9",
    "1.0.0-1",
    "1.0.0-2",
    "1.0.0-10",
    "1.0.0-alpha",
    "1.0.0-alpha.1",
    "1.0.0-alpha.beta",
    "1.0.0-beta",
    "1.0.0-beta.2",
    "1.0.0-beta.11",
    "1.0.0-rc.1",
    "1.0.0",
    "1.0.1",
    "1.2.0",
    "1.10.0",
    "2.0.0",
]


def test_versions_are_ordered_as_specified() -> None:
    for lower, higher in pairwise(ORDERED):
        assert parse_version(lower) < parse_version(higher)
        assert parse_version(higher) > parse_version(lower)
        assert parse_version(lower) != parse_version(higher)


def test_build_metadata_does_not_count() -> None:
    assert parse_version("1.2.3+a") == parse_version("1.2.3+b.7")
    assert parse_version("1.2.3-rc.1+a").tagged == {"@semver": "1.2.3-rc.1"}
    assert parse_version("1.2.3+a").tagged == {"@semver": "1.2.3"}
    assert parse_version("1.2.3") != "1.2.3"


@pytest.mark.parametrize(
    "text", ["", "1", "1.2", "v1.2.3", "01.2.3", "1.2.3-", "1.2.3-01", "1.2.3-a..b", "1.2.3 ", "1.2.3+"]
)
def test_invalid_version_is_reported(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not major\.minor\.patch"):
        parse_version(text)


NORMALIZED = {
    "a prefix": ("v1.2.3", "1.2.3"),
    "missing numbers": ("1", "1.0.0"),
    "leading zeros": ("01.002.0", "1.2.0"),
    "a suffix remains": ("v1.02.3-rc.01+b", "1.2.3-rc.01+b"),
    "an empty number remains invalid": ("1..3", "1..3"),
}


@pytest.mark.parametrize(("text", "version"), NORMALIZED.values(), ids=NORMALIZED)
def test_lax_versions_are_normalized(text: str, version: str) -> None:
    assert normalized(text) == version


def test_suffix_needs_three_numbers() -> None:
    with pytest.raises(ValueError, match="too few numbers before its suffix"):
        normalized("1.2-rc")
