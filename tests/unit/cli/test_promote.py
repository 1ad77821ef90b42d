"""`moorage promote` on files: validation, differences, atomic writes and undo."""

import os
from pathlib import Path

import pytest

from moorage.cli.main import run

HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
IN_CHARGE = HEADER + "leaderElection: {resourceName: moorage}  # ours\nprofiles: [{schedulerName: shop}]\n"
WEIGHT = "{score: {disabled: [{name: ImageLocality}], enabled: [{name: ImageLocality, weight: %d}]}}"
SHADOW = f"{HEADER}# tried since Monday\nprofiles: [{{schedulerName: shop, plugins: {WEIGHT % 5}}}]\n"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """The active configuration, with a shadow configuration in the same directory."""
    (tmp_path / "shadow.yaml").write_text(SHADOW)
    file = tmp_path / "config.yaml"
    file.write_text(IN_CHARGE)
    file.chmod(0o640)
    return file


def promote(config: Path, *more: str, shadow: str = "shadow.yaml") -> int:
    arguments = () if not shadow else (str(config.with_name(shadow)),)
    return run(["promote", *arguments, "--config", str(config), *more])


def test_shadow_is_promoted_and_the_promotion_undone(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert promote(config) == 0
    output = capsys.readouterr()
    assert "+        weight: 5" in output.out
    assert "undo it with --undo" in output.out
    assert "leaderElection of" in output.err
    new_config = config.read_text()
    assert new_config.startswith(SHADOW), "with its comments"
    assert "resourceName: moorage" in new_config, "it would lead under another name"
    assert run(["config", "check", str(config)]) == 0
    assert config.stat().st_mode & 0o777 == 0o640
    previous = config.with_name("config.yaml.previous")
    assert previous.read_text() == IN_CHARGE

    assert promote(config, "--undo", shadow="") == 0
    assert "-        weight: 5" in capsys.readouterr().out
    assert config.read_text() == IN_CHARGE
    assert not previous.exists()
    assert sorted(path.name for path in config.parent.iterdir()) == ["config.yaml", "shadow.yaml"]


def test_nothing_to_undo(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert promote(config, "--undo", shadow="") == 2
    assert "nothing to undo" in capsys.readouterr().err
    assert config.read_text() == IN_CHARGE


def test_a_dry_run_writes_nothing(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert promote(config, "--dry-run") == 0
    assert "+        weight: 5" in capsys.readouterr().out
    assert (config.read_text(), config.with_name("config.yaml.previous").exists()) == (IN_CHARGE, False)


REFUSED = {
    "an invalid configuration": ("kind: Nonsense\n", "apiVersion"),
    "half a file": (SHADOW[: len(SHADOW) - 20], "invalid YAML"),
    "a plugin that does not exist": (SHADOW.replace("ImageLocality", "Nobody"), "Nobody"),
    "another lease": (SHADOW + "leaderElection: {resourceName: other}\n", "cannot change while a scheduler runs"),
}


@pytest.mark.parametrize(("text", "output"), REFUSED.values(), ids=REFUSED)
def test_invalid_configuration_is_not_promoted(
    config: Path, text: str, output: str, capsys: pytest.CaptureFixture[str]
) -> None:
    config.with_name("shadow.yaml").write_text(text)
    assert promote(config) == 2
    errors = capsys.readouterr().err
    assert output in errors
    assert "shadow.yaml" in errors
    assert (config.read_text(), config.with_name("config.yaml.previous").exists()) == (IN_CHARGE, False)


UNREADABLE = {
    "a third-party plugin without --plugin": (
        IN_CHARGE.replace("shop}", "shop, plugins: {multiPoint: {enabled: [{name: Picky}]}}}"),
        ("no plugin is named 'Picky'", "--plugin"),
    ),
    "an unknown field": (IN_CHARGE + "leaderElections: {}\n", ("leaderElections: unknown field",)),
    "a field twice": (IN_CHARGE + "leaderElection: {}\n", ("duplicate field",)),
    "an old version": (IN_CHARGE.replace("/v1", "/v1beta2"), ("config convert",)),
    "no YAML": (IN_CHARGE + "}", ("invalid YAML",)),
}


@pytest.mark.parametrize(("active", "output"), UNREADABLE.values(), ids=UNREADABLE)
def test_active_configuration_that_cannot_be_read_is_not_replaced(
    config: Path, active: str, output: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """Fields that a shadow may omit, such as its lease, would be lost."""
    config.write_text(active)
    assert promote(config) == 2
    errors = capsys.readouterr().err
    assert all(text in errors for text in ("config.yaml", *output))
    assert (config.read_text(), config.with_name("config.yaml.previous").exists()) == (active, False)


def test_promotion_is_undone_without_the_plugins_of_the_previous_configuration(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    previous = config.with_name("config.yaml.previous")
    text = IN_CHARGE.replace("shop}", "shop, plugins: {multiPoint: {enabled: [{name: Picky}]}}}")
    previous.write_text(text)
    assert promote(config, "--undo", shadow="") == 0
    output = capsys.readouterr()
    assert "+profiles: [{schedulerName: shop, plugins" in output.out
    assert "restored without a check" in output.err
    assert "no plugin is named 'Picky'" in output.err
    assert (config.read_text(), previous.exists()) == (text, False)


def test_extenders_are_kept_unless_the_shadow_lists_its_own(config: Path) -> None:
    """A shadow cannot have extenders."""
    config.write_text(IN_CHARGE + "extenders: [{urlPrefix: 'http://127.0.0.1:1/', filterVerb: filter}]\n")
    assert promote(config) == 0
    assert "filterVerb: filter" in config.read_text()
    assert promote(config, "--undo", shadow="") == 0
    config.with_name("shadow.yaml").write_text(SHADOW + "extenders: []\n")
    assert promote(config) == 0
    assert "filterVerb" not in config.read_text()
    assert "resourceName: moorage" in config.read_text()


def test_json_is_promoted_as_well(config: Path) -> None:
    config.with_name("shadow.yaml").write_text(
        '{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",\n'
        '\t"profiles": [{"schedulerName": "shop"}]}'
    )
    assert promote(config) == 0
    assert "resourceName: moorage" in config.read_text()
    assert run(["config", "check", str(config)]) == 0


def test_a_link_remains_a_link(config: Path, tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    config.rename(real / "config.yaml")
    config.symlink_to("real/config.yaml")
    assert promote(config) == 0
    assert config.is_symlink()
    assert (real / "config.yaml").read_text().startswith(SHADOW)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_read_only_directory(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config.parent.chmod(0o500)
    try:
        assert promote(config) == 2
    finally:
        config.parent.chmod(0o700)
    assert "it cannot be written" in capsys.readouterr().err


def test_target_option_is_required(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["promote", "shadow.yaml"]) == 2
    assert "add either --config FILE or --config-map NAMESPACE/NAME" in capsys.readouterr().err
