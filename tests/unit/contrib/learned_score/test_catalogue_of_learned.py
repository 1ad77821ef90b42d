"""LearnedScore: known by name, off unless a profile names it, and not even imported then."""

import subprocess
import sys

from moorage.scheduler.config.catalogue import LEARNED_PLUGINS
from moorage.scheduler.framework.registry import extension_points
from moorage.scheduler.plugins.catalogue import LEARNED
from moorage.scheduler.wiring.policy import collect_plugins


def test_both_tables_agree_with_the_class() -> None:
    assert LEARNED.keys() == LEARNED_PLUGINS.keys()
    for name, facts in LEARNED_PLUGINS.items():
        plugin = collect_plugins()[name]
        assert (plugin.name, extension_points(plugin), plugin.Args) == (name, facts.points, facts.args)


def test_unused_plugins_are_not_imported() -> None:
    script = (
        "import sys; from moorage.scheduler.wiring.policy import *; load_policy(collect_plugins()); "
        "print([name for name in sys.modules if 'learned_score' in name or name in ('gymnasium', 'optuna', 'ray')])"
    )
    completed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert completed.stdout.strip() == "[]"
