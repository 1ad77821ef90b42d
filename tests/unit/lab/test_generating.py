"""Generated traces and clusters."""

import pytest

from moorage.common.errors import InputError
from moorage.lab.generating import PRESETS, generate, preset_cluster


@pytest.mark.parametrize("preset", PRESETS)
def test_preset_depends_on_the_seed_and_has_a_cluster(preset: str) -> None:
    assert generate(preset, 1, pods=50) == generate(preset, 1, pods=50)
    assert generate(preset, 1, pods=50) != generate(preset, 2, pods=50)
    assert len(generate(preset, 1, pods=50).pods) == 50
    assert preset_cluster(preset).nodes


def test_unknown_preset_is_reported() -> None:
    with pytest.raises(InputError, match="did you mean 'mixed'"):
        generate("mixd", 1)
