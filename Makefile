# Two commands do all the set-up on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
RUNNABLE := $(VENV)/.runnable
INSTALLED := $(VENV)/.installed
JOBS ?= 2
SEED ?= 1
N ?= 1000
# .ci/run sets it, from the tree that it tests: another change, other random cases; the same change, the same ones on every machine.
DRAWN ?=
PYTEST = $(BIN)/python -m pytest -q $(if $(DRAWN),--randomly-seed=$(DRAWN) --hypothesis-seed=$(DRAWN))
LIVE ?= tests/live
# The classes of docs/explanation/what-holds-under-faults.md that need no server and of which chance draws the cases, anew at every run;
# those that are the same every time have been run by `make test`.
HOSTILE := tests/property/test_storms.py tests/property/test_histories.py tests/unit/scheduler/engine/test_bad_plugins.py tests/unit/scheduler/engine/test_raising_plugins.py \
  tests/unit/scheduler/framework/test_nodeinfo.py tests/unit/scheduler/plugins/dynamic_resources/cel/test_cost.py tests/unit/scheduler/plugins/dynamic_resources/allocation/test_search_bounds.py \
  tests/unit/scheduler/state/test_pod_index.py tests/unit/cli/test_hostile_files.py tests/unit/cluster/controllers/test_manager.py
WORKLOADS ?= basic
NODES ?= 5000
PODS ?= 0
ROUNDS ?= 3
IMAGE ?= moorage:$(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
BUILDER ?= $(shell command -v docker || command -v podman || command -v buildah)
MINUTES ?= 30
SCHEDULERS ?= moorage,kube-scheduler
RAW ?= .bench/latest.json
LOCK = --universal --python-version 3.11 --generate-hashes --no-header --no-annotate
BENCH = --pods $(PODS) --rounds $(ROUNDS) --schedulers $(SCHEDULERS) --json $(RAW) $(if $(FLAGS),--flags='$(FLAGS)')

# Every target that says what it does.
.PHONY: $(shell sed -n 's/^\([a-z0-9-]*\):.*\#\#.*/\1/p' Makefile)

help:  ## Show what can be made
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(RUNNABLE): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Moorage needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V 2>&1). Try: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }
	@echo "Installing Moorage into the virtual environment $(VENV) (about half a minute)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --disable-pip-version-check --editable .
	@touch $@

$(INSTALLED): $(RUNNABLE)
	@echo "Installing the development tools into $(VENV) (a few minutes)"
	@$(BIN)/pip install --disable-pip-version-check --editable '.[dev]'
	@touch $@

demo: $(RUNNABLE)  ## Run a cluster on this machine for a moment, with a sample workload
	$(BIN)/moorage up --nodes 20 -f examples/workloads/shop.yaml --for 10s
	@printf '%s\n' '' 'Try next:' \
	  '  $(BIN)/moorage up                                       # a cluster until Ctrl-C, with a web page' \
	  '  $(BIN)/moorage simulate -f examples/clusters/web-shop.yaml   # the same in virtual time' \
	  '  $(BIN)/moorage explain POD                              # why a pod of your own cluster is pending' \
	  '  $(BIN)/moorage new my-plugin                            # a project with a plugin of your own' \
	  '  $(BIN)/moorage --help                                   # all commands' \
	  '  docs/tutorial.md                                       # a first plugin in ten minutes'

up: $(RUNNABLE)  ## Run a cluster on this machine until Ctrl-C
	$(BIN)/moorage up

simulate: $(RUNNABLE)  ## Place the pods of a described cluster in virtual time and show what happened
	$(BIN)/moorage simulate -f examples/clusters/web-shop.yaml

test: $(INSTALLED)  ## Run the whole fast suite
	$(PYTEST) -n $(JOBS)

test-all: $(INSTALLED)  ## Run the suite on every Python from 3.11 on that this machine has
	BIN=$(BIN) JOBS=$(JOBS) DRAWN=$(DRAWN) .ci/test-all

ray: $(INSTALLED)  ## Run trials of the lab on Ray, which is installed first
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev,ray]'
	$(PYTEST) tests/unit/lab/test_on_ray.py

lint: $(INSTALLED)  ## Check style, format, types and import directions
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

fmt: $(INSTALLED)  ## Format the code
	$(BIN)/ruff check --fix-only --quiet
	$(BIN)/ruff format

bench: $(INSTALLED)  ## Drain pending pods with both schedulers in turns (needs Go); WORKLOADS=basic,mixed|all NODES= PODS= ROUNDS= SCHEDULERS= FLAGS= RAW=
	conformance/control-plane etcd kube-apiserver kube-scheduler
	$(BIN)/python -m benchmarks.live --workloads $(WORKLOADS) --nodes $(NODES) $(BENCH)

bench-goals: $(INSTALLED)  ## Measure every row of benchmarks/goals.yaml in one run (needs Go, takes hours); BEFORE=another checkout, ROUNDS= RAW=
	conformance/control-plane etcd kube-apiserver kube-scheduler
	$(BIN)/python -m benchmarks.live.goal_run $(if $(BEFORE),--before $(BEFORE)) --rounds $(ROUNDS) --json $(RAW)

bench-start: $(INSTALLED)  ## Start both schedulers on 15,000 nodes and 100,000 pods: time to the first bind, and memory (needs Go)
	conformance/control-plane etcd kube-apiserver kube-scheduler
	$(BIN)/python -m benchmarks.live --workloads start --nodes 15000 $(BENCH)

bench-latency: $(INSTALLED)  ## Measure from creation to binding at 100 pods a second, with both schedulers (needs Go)
	conformance/control-plane etcd kube-apiserver kube-scheduler
	$(BIN)/python -m benchmarks.live.latency --nodes $(NODES) $(BENCH)

bench-extender: $(INSTALLED)  ## Measure the same plugin in process and as an extender of kube-scheduler, at 1,000 nodes (needs Go)
	conformance/control-plane etcd kube-apiserver kube-scheduler
	$(BIN)/python -m benchmarks.live.extending --rounds $(ROUNDS)

bench-report: $(INSTALLED)  ## Write docs/records/bench/<date>.md, its plots and its raw data from RAW
	$(BIN)/python -m benchmarks.live.report --json $(RAW)

docs: $(INSTALLED)  ## Build the documentation site into .site (warnings are errors) and run every command and snippet in it
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	MOORAGE_DOCS=1 $(PYTEST) -n $(JOBS) tests/docs

report: $(INSTALLED)  ## Print the largest files and the longest functions
	$(BIN)/python -m manual.sizes

wording: $(INSTALLED)  ## Count dialect words and vague variable names in source and docs
	$(BIN)/python -m manual.wording src docs README.md CONTRIBUTING.md CHANGELOG.md

guard: $(INSTALLED)  ## Fail if a placed pod costs more calls or memory than recorded; needs no clock
	$(BIN)/python -m benchmarks.guard

guard-record: $(INSTALLED)  ## Write the guard's ceilings anew, a tenth above what a pod costs now
	$(BIN)/python -m benchmarks.guard --record

bench-engine: $(INSTALLED)  ## Measure the engine alone; JSON=file writes the rows as well
	$(BIN)/python -m benchmarks.engine $(if $(JSON),--json $(JSON))

bench-decode: $(INSTALLED)  ## Measure how fast a listed pod becomes a struct
	$(BIN)/python -m benchmarks.decode

bench-apiserver: $(INSTALLED)  ## Measure the embedded API server: writes, watchers and memory
	$(BIN)/python -m benchmarks.apiserver

bench-startup: $(INSTALLED)  ## Measure how long both commands take to their first pod
	$(BIN)/python -m benchmarks.startup

browser: $(INSTALLED)  ## Look at the page in Chromium, which is installed if this is Debian and we may
	.ci/browser
	MOORAGE_BROWSER=1 $(PYTEST) tests/browser

pictures: $(INSTALLED)  ## Take the pictures of the page in docs/pictures anew
	MOORAGE_BROWSER=1 MOORAGE_PICTURES=docs/pictures $(PYTEST) tests/browser/test_pictures.py

control-plane:  ## Build the oracle, etcd, kube-apiserver and the rest (needs Go)
	conformance/control-plane

oracle:  ## Build the oracle only (needs Go)
	conformance/control-plane oracle

conformance: $(INSTALLED) control-plane  ## Compare with kube-scheduler's own framework, then run all of `live` (needs Go)
	$(BIN)/python -m tests.conformance.run $(if $(DRAWN),--drawn $(DRAWN))
	MOORAGE_FUZZ=2000 $(PYTEST) tests/unit/cluster/apiserver/test_bad_input.py
	$(BIN)/python -m tests.hostile --seed 1
	$(BIN)/python -m tests.hostile $(if $(DRAWN),--seed $(DRAWN))
	$(PYTEST) $(if $(DRAWN),--randomly-seed=$(DRAWN)1 --hypothesis-seed=$(DRAWN)1) -n $(JOBS) $(HOSTILE)
	$(MAKE) live
	$(MAKE) soak MINUTES=3

live: $(INSTALLED) control-plane  ## Run the scheduler on a real API server that dies, forgets and is cut off (needs Go)
	MOORAGE_LIVE=1 $(PYTEST) -n $(JOBS) --dist loadfile --durations=15 $(LIVE) || { \
	  echo "Once more, by themselves, those that failed: a machine too busy for a lease is no defect"; \
	  MOORAGE_LIVE=1 $(PYTEST) --last-failed --last-failed-no-failures none $(LIVE); }

e2e: $(INSTALLED)  ## Run upstream's own end-to-end specs on `moorage up`, about half an hour (needs Go); FOCUS= chooses others
	conformance/control-plane e2e.test
	$(BIN)/python -m tests.e2e --workers $(JOBS) $(if $(FOCUS),--focus '$(FOCUS)')

soak: $(INSTALLED) control-plane  ## Churn, cut, restart and kill for MINUTES: nothing is lost, and nothing grows (needs Go)
	$(BIN)/python -m tests.soak --minutes $(MINUTES)

fuzz: $(INSTALLED) oracle  ## Compare N random clusters from SEED
	$(BIN)/python -m tests.conformance.fuzz --seed $(SEED) --n $(N)

image:  ## Build the image, by docker, podman or buildah: IMAGE=registry.example/moorage:0.1.0 BUILDER=podman
	@test -n "$(BUILDER)" || { \
	  echo "No docker, podman or buildah here: docs/how-to/from-idea-to-cluster.md says how to do without"; exit 1; }
	$(BUILDER) build --tag $(IMAGE) .

lock: $(INSTALLED)  ## Write the lock files of the image anew: the newest versions, with their hashes
	$(BIN)/uv pip compile --quiet --upgrade $(LOCK) pyproject.toml --output-file requirements.lock
	echo hatchling | $(BIN)/uv pip compile --quiet --upgrade $(LOCK) - --output-file requirements-build.lock

sbom: $(INSTALLED)  ## Write what the image contains, as a CycloneDX SBOM: moorage.cdx.json
	$(BIN)/cyclonedx-py requirements --short-PURLs --output-reproducible --pyproject pyproject.toml --output-file moorage.cdx.json requirements.lock

clean:  ## Remove the virtual environment and caches
	rm -rf $(VENV) .venvs .site moorage.cdx.json .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
