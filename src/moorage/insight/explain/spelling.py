"""Names that are probably misspelt: an existing name differs from them by one slip of the keyboard."""

import re
from collections.abc import Iterable
from typing import Final

MIN_WORD: Final = 3
"""Shorter words are often ordinals, such as the last letter of a zone, so a difference is intended."""
MIN_SUBSTITUTED: Final = 5
"""Minimum length of words in which one letter may differ: gpu is not a misspelled cpu."""
MAX_SLIPS: Final = 2
ALIASES: Final = (
    frozenset(("amd64", "x86_64", "x86-64", "x64")),
    frozenset(("arm64", "aarch64")),
    *(
        frozenset((f"beta.kubernetes.io/{name}", f"kubernetes.io/{name}", f"node.kubernetes.io/{name}"))
        for name in ("arch", "os", "instance-type")
    ),
    *(
        frozenset((f"failure-domain.beta.kubernetes.io/{name}", f"topology.kubernetes.io/{name}"))
        for name in ("zone", "region")
    ),
)
"""Alternative names with the same meaning; a cluster uses one name of each set."""
_SEPARATORS: Final = re.compile(r"[-_.]")
_WORDS: Final = re.compile(r"[a-z]+|\d+")


def find_intended(text: str, candidates: Iterable[str]) -> str:
    """Return the only candidate that a text is a misspelling of; an empty string without exactly one.

    >>> find_intended("eu-wset-1b", ["eu-west-1a", "eu-west-1b"]), find_intended("eu-west-1c", ["eu-west-1a"])
    ('eu-west-1b', '')
    >>> find_intended("nodepool", ["node-pool"]), find_intended("SSD", ["ssd"]), find_intended("x86_64", ["amd64"])
    ('node-pool', 'ssd', 'amd64')
    >>> find_intended("gpu", ["cpu"]), find_intended("us-west-1a", ["us-east-1a"]), find_intended("xlarge", ["large"])
    ('', '', '')
    """
    names = list(dict.fromkeys(candidates))
    if text in names:
        return ""
    intended = [name for name in names if _is_misspelt(text, name)]
    return intended[0] if len(intended) == 1 else ""


def _is_misspelt(text: str, name: str) -> bool:
    if any(text in group and name in group for group in ALIASES):
        return True
    text, name = text.casefold(), name.casefold()
    if _SEPARATORS.sub("", text) == _SEPARATORS.sub("", name):
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
    if word.isdecimal() or len(shorter) < MIN_WORD or len(longer) - len(shorter) > 1:
        return False
    at = next((index for index, letter in enumerate(shorter) if letter != longer[index]), len(shorter))
    if len(shorter) < len(longer):
        return at > 0 and shorter[at:] == longer[at + 1 :]
    if shorter[at : at + 2] == longer[at : at + 2][::-1] and shorter[at + 2 :] == longer[at + 2 :]:
        return True
    has_room = len(word) >= MIN_SUBSTITUTED or set(word) == set(intended)
    return at > 0 and has_room and shorter[at + 1 :] == longer[at + 1 :]
