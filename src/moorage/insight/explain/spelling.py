"""Names that are probably misspelt: an existing name differs from them by one slip of the keyboard."""

import re
from collections.abc import Iterable
from typing import Final

MIN_WORD: Final = 3
"""Shorter words are often ordinals, such as the last letter of a zone, so a difference is intended."""
MIN_SUBSTITUTED: Final = 4
"""Minimum length of words in which one letter may differ: gpu is not a misspelled cpu."""
MIN_HOST: Final = 6
"""Minimum length of a host name that may lack its domain."""
MIN_TRUNCATED: Final = 8
"""Minimum length of a name that may lack its last letter."""
MIN_NUMBER: Final = 3
"""Minimum length of numbers in which two digits may be swapped."""
MAX_SLIPS: Final = 2
ALIASES: Final = (
    frozenset(("amd64", "x86_64", "x86-64", "x64")),
    frozenset(("arm64", "aarch64")),
    frozenset(("true", "yes", "on", "enabled")),
    frozenset(("false", "no", "off", "disabled")),
    *(
        frozenset((f"beta.kubernetes.io/{name}", f"kubernetes.io/{name}", f"node.kubernetes.io/{name}"))
        for name in ("arch", "os", "instance-type")
    ),
    *(
        frozenset((f"failure-domain.beta.kubernetes.io/{name}", f"topology.kubernetes.io/{name}"))
        for name in ("zone", "region")
    ),
)
"""Alternative names with the same meaning. A cluster uses one name of each set."""
_SEPARATORS: Final = re.compile(r"[-_.]")
_WORDS: Final = re.compile(r"[a-z]+|\d+")


def find_intended(text: str, candidates: Iterable[str]) -> str:
    """Return the only candidate that a text is a misspelling of, or an empty string without exactly one.

    >>> find_intended("eu-wset-1b", ["eu-west-1a", "eu-west-1b"]), find_intended("eu-west-1c", ["eu-west-1a"])
    ('eu-west-1b', '')
    >>> find_intended("nodepool", ["node-pool"]), find_intended("SSD", ["ssd"]), find_intended("x86_64", ["amd64"])
    ('node-pool', 'ssd', 'amd64')
    >>> find_intended("i195", ["i915"]), find_intended("A100-80G", ["A100-80GB"]), find_intended("pool-12", ["pool-21"])
    ('i915', 'A100-80GB', '')
    >>> find_intended("nvne", ["nvme"]), find_intended("gpu", ["cpu"])
    ('nvme', '')
    >>> find_intended("us-west-1a", ["us-east-1a"]), find_intended("xlarge", ["large"])
    ('', '')
    >>> find_intended("A100-SXM4-40GB", ["NVIDIA-A100-SXM4-40GB", "Tesla-T4"])
    'NVIDIA-A100-SXM4-40GB'
    """
    names = list(dict.fromkeys(candidates))
    if text in names:
        return ""
    intended = [name for name in names if _is_misspelt(text, name) or name.endswith(f"-{text}")]
    return intended[0] if len(intended) == 1 else ""


def find_prefixed(text: str, candidates: Iterable[str]) -> str:
    """Return the only label that ends with a text: cloud providers add a domain and a prefix.

    >>> find_prefixed("nodepool", ["cloud.google.com/gke-nodepool", "disk"])
    'cloud.google.com/gke-nodepool'
    >>> find_prefixed("pool", ["a-pool", "b-pool"])
    ''
    """

    def simplified(name: str) -> str:
        return _SEPARATORS.sub("", name.rpartition("/")[2].casefold())

    end = simplified(text)
    names = [name for name in dict.fromkeys(candidates) if len(end) >= MIN_WORD and simplified(name).endswith(end)]
    return names[0] if len(names) == 1 else ""


def _is_misspelt(text: str, name: str) -> bool:
    if any(text in group and name in group for group in ALIASES):
        return True
    text, name = text.casefold(), name.casefold()
    if len(text) >= MIN_HOST and (name.startswith(f"{text}.") or text.startswith(f"{name}.")):
        return True  # a host name with or without its domain
    if _SEPARATORS.sub("", text) == _SEPARATORS.sub("", name):
        return True
    shorter, longer = sorted((text, name), key=len)
    if len(shorter) >= MIN_TRUNCATED and longer[:-1] == shorter and longer[-1].isalpha():
        return True
    words, intended = _WORDS.findall(text), _WORDS.findall(name)
    if len(words) != len(intended):
        return False
    different = [
        (word, intended_word) for word, intended_word in zip(words, intended, strict=True) if word != intended_word
    ]
    return 0 < len(different) <= MAX_SLIPS and all(_is_slip(word, intended_word) for word, intended_word in different)


def _is_slip(word: str, intended: str) -> bool:
    """Return whether two words differ by two swapped letters, or by one letter that is not the first."""
    shorter, longer = sorted((word, intended), key=len)
    if word.isdecimal() and intended.isdecimal() and len(word) == len(intended) >= MIN_NUMBER:
        at = next(index for index, digit in enumerate(word) if digit != intended[index])
        return word[at : at + 2] == intended[at : at + 2][::-1] and word[at + 2 :] == intended[at + 2 :]
    if word.isdecimal() or len(shorter) < MIN_WORD or len(longer) - len(shorter) > 1:
        return False
    at = next((index for index, letter in enumerate(shorter) if letter != longer[index]), len(shorter))
    if len(shorter) < len(longer):
        return at > 0 and shorter[at:] == longer[at + 1 :]
    if shorter[at : at + 2] == longer[at : at + 2][::-1] and shorter[at + 2 :] == longer[at + 2 :]:
        return True
    has_room = len(word) >= MIN_SUBSTITUTED or set(word) == set(intended)
    return at > 0 and has_room and shorter[at + 1 :] == longer[at + 1 :]
