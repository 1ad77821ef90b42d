[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "{{ project }}"
version = "0.1.0"
description = "A plugin for the Moorage scheduler."
readme = "README.md"
requires-python = ">=3.11"
dependencies = ["moorage>={{ moorage }}"]

[project.optional-dependencies]
test = ["moorage[testing]", "pytest>=8", "ruff"]

# Moorage loads the plugin from the installed package: --plugin is not needed.
[project.entry-points."moorage.scheduler.plugins"]
{{ plugin }} = "{{ package }}:{{ plugin }}"

[tool.hatch.build.targets.wheel]
packages = ["src/{{ package }}"]

[tool.pytest.ini_options]
testpaths = ["tests"]
pythonpath = ["src"]  # the tests need no installation

[tool.ruff]
line-length = 120
