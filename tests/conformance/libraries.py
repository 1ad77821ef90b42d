"""Evaluate quantities, CEL, selectors and generated names with the libraries of two releases, and with Moorage.

python -m tests.conformance.libraries --old BINARY --old-release 1.37 --new BINARY --new-release 1.38 --n 3000

The binaries are `conformance/libraries`, built with the modules of a release.
"""

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from random import Random
from typing import Any, Final, NamedTuple

from moorage.cluster.apiserver.reading.selection import parse_fields, parse_labels
from moorage.cluster.controllers.job_pod_groups import group_name, workload_name
from moorage.common.errors import ApiError, QuantityError
from moorage.common.version import RELEASES
from moorage.kube.api.devices import Device
from moorage.kube.api.quantity import (
    MAX_INT64,
    NANO,
    canonical,
    milli_value,
    nano_to_milli,
    nano_to_unit,
    nano_value,
    unit_value,
)
from moorage.kube.features import FeatureGates
from moorage.scheduler.plugins.dynamic_resources.cel.program import (
    CelCompileError,
    CelRuntimeError,
    compile_attribute,
    device_facts,
)
from tests.conformance.answers import Comparison, arguments, show

LARGE: Final = (
    *("10E", "1e19", "1e20", "1e1000", "18446744073709551616", "9.3E", "1000E", "10000E", "-10E", "1E", "9E", "1e18"),
    *("1000000000000000000", "999999999999999999", "1234567890123456789", "9223372036854775", "9223372036854776"),
    *("9223372036854775807", "8Ei", "100Ei", "9223372036854775808", "9223372036854775808m", "-9223372036854775808"),
    *("-9223372036854775809", "-8Ei", "-9Ei", "-0.9n", "-1000000000000000000000.5", "1.5", "-1.5", "0.9n", "0.1m"),
    *("1.2345", "1.", "1e+3", "7.99999999999Ei", "-1e-9", "1e-10", "0.0000000001Ki", "-0.5Ki", "00012", "+5", "1E3"),
)
SUFFIXES: Final = ("", *"numkMGTPE", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "e-3", "E6")
ADDRESSES: Final = (
    *("10.0.0.1", "10.0.0.0", "::1", "::", "2001:db8::1", "2001:DB8::0", "255.255.255.255", "224.0.0.9", "fe80::1"),
    *("169.254.1.1", "127.0.0.1", "0.0.0.0", "::ffff:1.2.3.4", "010.0.0.1", "1.2.3", "fe80::1%eth0", "", "x"),
)
MASKS: Final = ("/8", "/16", "/24", "/31", "/32", "/0", "/64", "/127", "/128", "/129", "", "/08", "/-1", "/x")
URLS: Final = (
    *("https://a.b:80/c%20d?e=f&e=g#h", "/a/b", "http://[::1]:8080", "a", "../a", "", "http://x/y?z", "https://é.de/ü"),
    *("http://u:p@h/", "//h/p", "mailto:a@b", "https://h:port/", "http://h/%zz", "https://h?q=%20a+b"),
)
VERSIONS: Final = ("1.2.3", "v1.2.3", "1.2", "1.0.0-rc.1", "1.0.0+b", "01.2.3", "1.2.3-", "", "1.2.3-alpha.10")
TEXTS: Final = ("a100", "GPU-0", "", "a,b,c", "Ünïcode", "a.b", "  x ")
#: Expressions with the kind of each argument.
EXPRESSIONS: Final[tuple[tuple[str, str], ...]] = (
    *((f"cidr(%s).{method}", "network") for method in ("isMask()", "prefixLength()", "ip().family()")),
    *((f"cidr(%s).{method}", "network") for method in ("masked().isMask()", "masked() == cidr(%s)")),
    *(("cidr(%s).containsIP(%s)", "network address"), ("cidr(%s).containsCIDR(%s)", "network network")),
    *(("isCIDR(%s)", "network"), ("isIP(%s)", "address"), ("ip.isCanonical(%s)", "address")),
    *((f"ip(%s).{method}()", "address") for method in ("family", "isLoopback", "isUnspecified", "isGlobalUnicast")),
    *((f"ip(%s).{method}()", "address") for method in ("isLinkLocalUnicast", "isLinkLocalMulticast")),
    *(("ip(%s) == ip(%s)", "address address"), ("isURL(%s)", "url")),
    *((f"url(%s).get{part}()", "url") for part in ("Host", "Hostname", "Port", "Scheme", "EscapedPath")),
    *(("url(%s).getQuery().size()", "url"), ("url(%s).getEscapedPath().split('/')", "url")),
    *(("isQuantity(%s)", "quantity"), ("quantity(%s).isInteger()", "quantity"), ("sign(quantity(%s))", "quantity")),
    *(("quantity(%s).asInteger()", "quantity"), ("quantity(%s).compareTo(quantity(%s))", "quantity quantity")),
    ("quantity(%s).add(quantity(%s)).isGreaterThan(quantity(%s))", "quantity quantity quantity"),
    ("quantity(%s).sub(7).isLessThan(quantity(%s))", "quantity quantity"),
    *(("isSemver(%s)", "version"), ("isSemver(%s, true)", "version"), ("semver(%s).minor()", "version")),
    ("semver(%s, true).compareTo(semver(%s, true))", "version version"),
    ("semver(%s) == semver(%s)", "version version"),
    *(("%s.split(',')", "text"), ("%s.upperAscii()", "text"), ("%s.find('[0-9]+')", "text"), ("%s.size()", "text")),
    *(("%s.substring(1)", "text"), ("%s.replace('a', 'bb')", "text"), ("%s.trim()", "text"), ("%s.charAt(0)", "text")),
    *(("[%s, %s].indexOf(%s)", "text text text"), ("[%s, %s].join('-')", "text text"), ("%s.findAll('[a-z]')", "text")),
    *(("sets.contains([%s], [%s])", "text text"), ("[%s, %s].isSorted()", "text text"), ("%s in [%s]", "text text")),
    *((f"!format.{name}().validate(%s).hasValue()", "text") for name in ("dns1123Label", "qualifiedName", "byte")),
    *((f"!format.{name}().validate(%s).hasValue()", "url") for name in ("uri", "dns1123Subdomain", "labelValue")),
    ("%s / %s", "number number"),
    *(("[%s, %s].max()", "number number"), ("[3, 1, 2].sort()", ""), ("[[1], [2, 3]].flatten()", "")),
    *(("lists.range(3)", ""), ("[1, 2, 2].distinct()", ""), ("[%s, %s].reverse()", "text text")),
    *(("[1, 2].exists(i, v, v > i)", ""), ("strings.quote(%s)", "text"), ("%s.reverse()", "text")),
    *(("[%s, 'b', %s].lastIndexOf(%s)", "text text text"), ("[1, 2, 3].slice(%s, 3)", "number")),
    *(("{%s: 1}.all(k, v, v == 1)", "text"), ("[7, 8].transformList(i, v, i * v)", "")),
)
KEYS: Final = ("a", "app.kubernetes.io/name", "x/y", "-a", "a/b/c", "A_b.c", "", "é", "k" * 64)
NAMES: Final = {"group name": group_name, "workload name": workload_name}
FACTS: Final = device_facts("d.example", Device("device"))


class Question(NamedTuple):
    """A question, as the program in `conformance/libraries` reads it."""

    library: str
    input: list[str]

    def __str__(self) -> str:
        return f"{self.library} {', '.join(self.input)}"


def make(count: int, seed: str, *, names: bool) -> list[Question]:
    """Return the fixed questions and random ones; ``names`` includes those about names of groups."""
    dice = Random(seed)
    libraries = ("quantity", "sum", "cel", "cel", "cel", "new cel", "labels", "fields", *["names"] * names)
    questions = [Question("quantity", [text]) for text in LARGE]
    for _ in range(count):
        match dice.choice(libraries):
            case "quantity":
                questions.append(Question("quantity", [quantity(dice)]))
            case "sum":
                questions.append(Question("sum", [quantity(dice), quantity(dice)]))
            case "labels":
                questions.append(Question("labels", [_labels(dice), _pairs(dice)]))
            case "fields":
                questions.append(Question("fields", [_fields(dice), _pairs(dice)]))
            case "names":
                lengths = (1, 2, 60, 120, 126, 127, 128, 240, 253)
                library = dice.choice([*NAMES])
                questions.append(Question(library, [dice.choice("abc") * dice.choice(lengths) for _ in range(2)]))
            case library:
                questions.append(Question("cel", [_expression(dice), *["new"] * (library == "new cel")]))
    return questions


def _expression(dice: Random) -> str:
    form, kinds = dice.choice(EXPRESSIONS)
    values = [_argument(dice, kind) for kind in kinds.split()]
    # A form with more places than kinds repeats its argument.
    return form % tuple(values * (form.count("%s") // len(values))) if values else form


def _argument(dice: Random, kind: str) -> str:
    if kind == "number":
        return str(dice.choice((0, 1, -1, 7, 2**31)))
    if kind == "quantity":
        return json.dumps(quantity(dice))
    if kind == "network":
        return json.dumps(dice.choice(ADDRESSES) + dice.choice(MASKS))
    return json.dumps(dice.choice({"address": ADDRESSES, "url": URLS, "version": VERSIONS, "text": TEXTS}[kind]))


def quantity(dice: Random) -> str:
    """Return a text that may be a quantity."""
    if dice.random() < 0.2:
        return dice.choice(LARGE)
    if dice.random() < 0.05:
        return dice.choice(("", "x", "1 Gi", "1KI", "1ki", "0x1", "--1", "1e", "1e1.5", "1mi", "NaN", "1_000"))
    digits = str(dice.randrange(10 ** dice.choice((1, 2, 4, 9, 18, 21))))
    fraction = f".{dice.randrange(10 ** dice.choice((1, 3, 9, 12)))}" if dice.random() < 0.3 else ""
    return f"{dice.choice(('', '', '', '-', '+'))}{digits}{fraction}{dice.choice(SUFFIXES)}"


def _labels(dice: Random) -> str:
    forms = ("{k}={v}", "{k}=={v}", "{k}!={v}", "{k} in ({v},{w})", "{k} notin ({v})", "{k}", "!{k}", "{k}>{n}")
    odd = ("{k} in ()", "{k}=", "{k} in {v}", ",", "{k},", "{k}=={v}=", "{k} ={v} , !{k}", "{k}>{v}", "{k} in (,{v})")
    return _filled(dice, forms if dice.random() < 0.8 else odd)


def _fields(dice: Random) -> str:
    # No empty names: the library accepts them, and the API server rejects them later.
    forms = ("{k}={v}", "{k}=={v}", "{k}!={v}", "{k}=", "{k}", ",", "{k}=a\\,b", "{k}=a\\=b", "{k}=a=b", "{k}=\\x")
    return _filled(dice, forms, KEYS[:6])


def _filled(dice: Random, forms: Sequence[str], keys: Sequence[str] = KEYS) -> str:
    parts = []
    for _ in range(dice.choice((1, 1, 1, 2, 3))):
        key = dice.choice(keys[:2] if dice.random() < 0.8 else keys)
        values = {"k": key, "v": dice.choice(("", "b", "1", "-b", "x" * 64)), "w": dice.choice(("c", "é"))}
        parts.append(dice.choice(forms).format(**values, n=dice.choice(("0", "5", "-1", "1.5", "x"))))
    return ",".join(parts)


def _pairs(dice: Random) -> str:
    return ",".join(f"{key}={dice.choice(('', 'b', '1', '7', 'c'))}" for key in KEYS[:2] if dice.random() < 0.6)


def ask(binary: str, questions: Sequence[Question], release: str) -> list[Any]:
    """Return the answers of a program; new expressions are those that an API server of a release accepts."""
    lines = "".join(json.dumps(question._asdict()) + "\n" for question in questions)
    ran = subprocess.run([binary, release], input=lines, capture_output=True, text=True, check=True)
    answers = [json.loads(line) for line in ran.stdout.splitlines()]
    # Go omits false and empty values.
    return [given if "error" in given else {"value": False, **given} for given in answers]


def answer(question: Question, release: str, oldest: str) -> dict[str, Any]:
    """Return the answer of Moorage."""
    library, given = question
    features = FeatureGates(release=release, oldest=oldest)
    try:
        match library:
            case "quantity":
                return {"value": [str(unit_value(given[0])), str(milli_value(given[0])), canonical(given[0])]}
            case "sum":
                total = sum(nano_value(text) for text in given)
                return {"value": [str(nano_to_unit(total)), str(nano_to_milli(total))]}
            case "labels":
                return {"value": parse_labels(given[0]).matches(_as_pairs(given[1]))}
            case "fields":
                held = _as_pairs(given[1])
                terms = parse_fields(given[0])
                return {"value": all((held.get(path, "") == value) is is_equal for path, value, is_equal in terms)}
            case "cel":
                masks = features.compatible_since(1, 38) if len(given) > 1 else features.since(1, 38)
                value: Any = compile_attribute(given[0], masks=masks).value(FACTS)
                return {"value": _plain(value)}
            case _:
                return {"value": NAMES[library](*given)}
    except CelCompileError:
        return {"error": "compile"}
    except CelRuntimeError:
        return {"error": "evaluate"}
    except (QuantityError, ApiError):
        return {"error": "invalid"}


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _as_pairs(text: str) -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in text.split(",") if "=" in pair)


def classify(question: Question, before: dict[str, Any], after: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the difference of two answers, by library and result."""
    values = [{name: value for name, value in given.items() if name != "cost"} for given in (before, after)]
    if values[0] != values[1]:
        results = " → ".join(given.get("error", "value") for given in values)
        return [(f"{question.library}: {results}", show(*values))]
    if "cost" in before and "cost" in after and before["cost"] != after["cost"]:
        return [(f"{question.library}: cost", show(before["cost"], after["cost"]))]
    return []


def classify_ours(question: Question, theirs: dict[str, Any], ours: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the same for an answer of Moorage, without the differences that docs/parity.md lists."""
    texts = (
        question.input
        if question.library in ("quantity", "sum")
        else re.findall(r'quantity\("(.*?)"', question.input[0])
    )
    if any(_is_large(text) for text in texts):
        if question.library != "quantity" or "error" in theirs or "error" in ours:
            return []
        # Values saturate in both; the written quantity does not saturate upstream.
        theirs, ours = ({"value": given["value"][:2]} for given in (theirs, ours))
    if "Integer()" in question.input[0] and not all(re.fullmatch(r"-?\d{1,15}[kMG]?", text) for text in texts):
        return []
    return classify(question, theirs, ours)


def _equivalent(*_: Any) -> list[tuple[str, str]]:
    return []


def _is_large(text: str) -> bool:
    try:
        return abs(nano_value(text)) >= MAX_INT64 * NANO
    except QuantityError:
        return False


def main() -> int:
    """Compare two programs and Moorage; return 1 if Moorage differs."""
    given = arguments(__doc__, count=3000)
    old_release, new_release = given.old_release, given.new_release
    names = "error" not in ask(given.new, [Question("group name", ["a", "b"])], new_release)[0]
    questions = make(given.n, given.seed, names=names)
    result = Comparison([str(question) for question in questions])
    # The API servers of the old release decide which expressions may be new.
    old, new = (ask(binary, questions, old_release) for binary in (given.old, given.new))
    result.upstream(old, new, new, [partial(classify, question) for question in questions])
    if new_release in RELEASES:
        ours = [answer(question, new_release, old_release) for question in questions]
        # Quantities follow 1.38 at every emulated version: those of older releases overflow.
        old_quantities = not FeatureGates(release=new_release).since(1, 38)
        find = [
            partial(
                _equivalent if old_quantities and question.library in ("quantity", "sum") else classify_ours, question
            )
            for question in questions
        ]
        result.ours(new_release, new, ours, find)
    return result.print("Expressions, quantities, selectors and names")


if __name__ == "__main__":
    sys.exit(main())
