# `make demo` and `make test` do all the set-up on a fresh machine.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
RUNNABLE := $(VENV)/.runnable
INSTALLED := $(VENV)/.installed
JOBS ?= 2
SEED ?= 1
N ?= 1000
# Seed of random tests. .ci/run derives it from the tested tree.
RANDOM_SEED ?=
PYTEST = $(BIN)/python -m pytest -q $(if $(RANDOM_SEED),--randomly-seed=$(RANDOM_SEED) --hypothesis-seed=$(RANDOM_SEED))
LIVE ?= tests/live
# Randomized tests of docs/explanation/guarantees-under-faults.md that need no server: `make conformance` runs them
# with another seed than `make test`.
HOSTILE := tests/property/test_storms.py tests/property/test_histories.py tests/property/test_queue_histories.py tests/unit/scheduler/engine/cycle/test_profile_runner.py tests/unit/scheduler/engine/test_scheduler.py \
  tests/unit/scheduler/framework/test_nodeinfo.py tests/unit/scheduler/plugins/dynamic_resources/cel/test_cost.py tests/unit/scheduler/plugins/dynamic_resources/allocation/test_search_bounds.py \
  tests/unit/scheduler/state/test_pod_index.py tests/unit/cli/test_hostile_files.py tests/unit/cluster/controllers/test_manager.py
WORKLOADS ?= basic
NODES ?= 5000
PODS ?= 0
ROUNDS ?= 3
IMAGE ?= moorage:$(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
BUILDER ?= $(shell command -v docker || command -v podman || command -v buildah)
MINUTES ?= 30
KILLS ?= 1000
SECONDS ?= 600
MODULE ?= src/moorage/scheduler/wiring
MUTANTS ?= 25
SCHEDULERS ?= moorage,kube-scheduler
RAW ?= .bench/latest.json
LOCK = --universal --python-version 3.11 --generate-hashes --no-header --no-annotate
BENCH = --pods $(PODS) --rounds $(ROUNDS) --schedulers $(SCHEDULERS) --json $(RAW) $(if $(FLAGS),--flags='$(FLAGS)')

# Tests start hundreds of processes. Without bytecode files each of them compiles all modules, for half a second or more.
unexport PYTHONDONTWRITEBYTECODE

# All targets with a help text.
.PHONY: $(shell sed -n 's/^\([a-z0-9-]*\):.*\#\#.*/\1/p' Makefile)

help:  ## List the targets
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

demo: $(RUNNABLE)  ## Run a local cluster with a sample workload for ten seconds
	$(BIN)/moorage up --nodes 20 -f examples/workloads/shop.yaml --for 10s
	@printf '%s\n' '' 'Try next:' \
	  '  $(BIN)/moorage up                                           # run a local cluster with a web page until Ctrl-C' \
	  '  $(BIN)/moorage simulate -f examples/clusters/web-shop.yaml  # simulate a cluster in virtual time' \
	  '  $(BIN)/moorage explain POD                                  # explain why a pod of your cluster is pending' \
	  '  $(BIN)/moorage new my-plugin                                # create a plugin project' \
	  '  $(BIN)/moorage --help                                       # list all commands' \
	  '  docs/tutorial.md                                               # write a first plugin in five minutes'

up: $(RUNNABLE)  ## Run a local cluster until Ctrl-C
	$(BIN)/moorage up

simulate: $(RUNNABLE)  ## Simulate the cluster of a file in virtual time and print a report
	$(BIN)/moorage simulate -f examples/clusters/web-shop.yaml

test: $(INSTALLED)  ## Run the fast test suite
	$(PYTEST) -n $(JOBS)

test-next: $(INSTALLED)  ## Run tests with the behavior of the next release; NEXT=1.38 TESTS=tests/unit
	MOORAGE_TEST_RELEASE=$(or $(NEXT),1.38) $(PYTEST) -n $(JOBS) $(or $(TESTS),tests/unit tests/parity tests/integration tests/property)

test-all: $(INSTALLED)  ## Run the suite on each installed Python from 3.11
	ALL=$(ALL) BIN=$(BIN) JOBS=$(JOBS) RANDOM_SEED=$(RANDOM_SEED) .ci/test-all

paper-fgd: $(RUNNABLE)  ## Repeat the published comparison of GPU policies: OPENB=dir with the files of the trace
	@test -n "$(OPENB)" || { echo "Write make paper-fgd OPENB=dir: the directory of openb_node_list_gpu_node.csv and openb_pod_list_*.csv"; exit 2; }
	$(BIN)/python -m benchmarks.paper_fgd $(OPENB) --ties

ray: $(INSTALLED)  ## Install Ray and test lab trials on it
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

bench: $(INSTALLED)  ## Compare the throughput of both schedulers (needs Go); WORKLOADS=basic,mixed|all NODES= PODS= ROUNDS= SCHEDULERS= FLAGS= RAW=
	conformance/control-plane etcd kube-apiserver kube-scheduler
	$(BIN)/python -m benchmarks.live --workloads $(WORKLOADS) --nodes $(NODES) $(BENCH)

bench-goals: $(INSTALLED)  ## Measure all rows of benchmarks/goals.yaml (needs Go, takes hours); BEFORE=another checkout, ROUNDS= RAW=
	conformance/control-plane etcd kube-apiserver kube-scheduler
	$(BIN)/python -m benchmarks.live.goal_run $(if $(BEFORE),--before $(BEFORE)) --rounds $(ROUNDS) --json $(RAW)

bench-start: $(INSTALLED)  ## Measure the time to the first bind and the memory of both schedulers with 15,000 nodes and 100,000 pods (needs Go)
	conformance/control-plane etcd kube-apiserver kube-scheduler
	$(BIN)/python -m benchmarks.live --workloads start --nodes 15000 $(BENCH)

bench-latency: $(INSTALLED)  ## Measure the time from creation to binding of both schedulers at 100 pods per second (needs Go)
	conformance/control-plane etcd kube-apiserver kube-scheduler
	$(BIN)/python -m benchmarks.live.latency --nodes $(NODES) $(BENCH)

bench-perf: $(INSTALLED)  ## Play the workloads of scheduler_perf with a threshold with both schedulers (needs Go, takes hours); WORKLOAD=part of a name, SCALE=0.1
	conformance/control-plane etcd kube-apiserver kube-scheduler kube-controller-manager
	$(BIN)/python -m benchmarks.scheduler_perf $(WORKLOAD) --scale $(or $(SCALE),1)

bench-extender: $(INSTALLED)  ## Compare a plugin in process with the same plugin as an extender of kube-scheduler, with 1,000 nodes (needs Go)
	conformance/control-plane etcd kube-apiserver kube-scheduler
	$(BIN)/python -m benchmarks.live.extending --rounds $(ROUNDS)

bench-report: $(INSTALLED)  ## Write docs/records/bench/<date>.md with plots and raw data from RAW
	$(BIN)/python -m benchmarks.live.report --json $(RAW)

docs: $(INSTALLED)  ## Build the documentation site into .site (warnings are errors) and run its commands and snippets
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	MOORAGE_DOCS=1 $(PYTEST) -n $(JOBS) tests/docs

site: $(INSTALLED)  ## Build the documentation site into .site, without running its commands; `python -m manual.site` keeps versions
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

report: $(INSTALLED)  ## Print the largest files and the longest functions
	$(BIN)/python -m manual.sizes

mutants: $(INSTALLED)  ## Mutate functions and print the mutants that the tests near them miss; MODULE=file or folder, MUTANTS= SEED=
	$(BIN)/python -m manual.mutants $(MODULE) --n $(MUTANTS) --seed $(SEED)

wording: $(INSTALLED)  ## Count dialect words and vague variable names in the tree
	$(BIN)/python -m manual.wording .

guard: $(INSTALLED)  ## Fail if scheduling a pod takes more calls or memory than recorded; independent of the clock
	$(BIN)/python -m benchmarks.guard

guard-record: $(INSTALLED)  ## Record new ceilings for the guard, 10% above the current values
	$(BIN)/python -m benchmarks.guard --record

bench-engine: $(INSTALLED)  ## Measure the engine alone; JSON=file also writes the rows to a file
	$(BIN)/python -m benchmarks.engine $(if $(JSON),--json $(JSON))

bench-large: $(INSTALLED)  ## Measure how long large objects of each kind delay an ordinary pod; JSON=file also writes the rows to a file
	$(BIN)/python -m benchmarks.large_objects $(if $(JSON),--json $(JSON))

bench-scale: $(INSTALLED)  ## Measure how CPU per pod, memory and reloads grow with nodes, waiting shapes, labels, claims, gates and groups; JSON=file PLOTS=directory
	$(BIN)/python -m benchmarks.scaling $(if $(JSON),--json $(JSON)) $(if $(PLOTS),--plots $(PLOTS))

bench-decode: $(INSTALLED)  ## Measure the decoding of listed pods
	$(BIN)/python -m benchmarks.decode

bench-apiserver: $(INSTALLED)  ## Measure the embedded API server: writes, watchers and memory
	$(BIN)/python -m benchmarks.apiserver

bench-startup: $(INSTALLED)  ## Measure the time from the start of both commands to their first bound pod
	$(BIN)/python -m benchmarks.startup

browser: $(INSTALLED)  ## Test the web page in Chromium (installed if missing, on Debian as root)
	.ci/browser
	MOORAGE_BROWSER=1 $(PYTEST) tests/browser

pictures: $(INSTALLED)  ## Update the screenshots in docs/pictures
	MOORAGE_BROWSER=1 MOORAGE_PICTURES=docs/pictures $(PYTEST) tests/browser/test_pictures.py

control-plane:  ## Build the oracle, etcd, kube-apiserver and other binaries (needs Go)
	conformance/control-plane

oracle:  ## Build the oracle only (needs Go)
	conformance/control-plane oracle

conformance: $(INSTALLED) control-plane  ## Compare with kube-scheduler's framework, then run `make live` and `make soak` (needs Go)
	$(BIN)/python -m tests.conformance.run $(if $(RANDOM_SEED),--random-seed $(RANDOM_SEED))
	$(BIN)/python -m tests.conformance.fixtures
	MOORAGE_FUZZ=2000 $(PYTEST) tests/unit/cluster/apiserver/test_api.py
	$(BIN)/python -m tests.hostile --seed 1
	$(BIN)/python -m tests.hostile $(if $(RANDOM_SEED),--seed $(RANDOM_SEED))
	$(MAKE) fuzz-parsers SECONDS=30
	$(PYTEST) $(if $(RANDOM_SEED),--randomly-seed=$(RANDOM_SEED)1 --hypothesis-seed=$(RANDOM_SEED)1) -n $(JOBS) $(HOSTILE)
	$(MAKE) live
	$(MAKE) soak MINUTES=3

live: $(INSTALLED) control-plane  ## Test the scheduler on a real API server, also with crashes, lost data and network faults (needs Go)
	MOORAGE_LIVE=1 $(PYTEST) -n $(JOBS) --dist loadfile --durations=15 $(LIVE) || { \
	  echo "Repeating the failed tests alone: on a busy machine, leases may expire"; \
	  MOORAGE_LIVE=1 $(PYTEST) --last-failed --last-failed-no-failures none $(LIVE); }

e2e: $(INSTALLED)  ## Run upstream's end-to-end specs on `moorage up`, about half an hour (needs Go); FOCUS= selects other specs
	conformance/control-plane e2e.test
	$(BIN)/python -m tests.e2e --workers $(JOBS) $(if $(FOCUS),--focus '$(FOCUS)')

soak: $(INSTALLED) control-plane  ## Run churn and faults for MINUTES; check for lost pods and leaks (needs Go)
	$(BIN)/python -m tests.soak --minutes $(MINUTES)

fuzz: $(INSTALLED) oracle  ## Compare N random clusters with the oracle, starting at SEED
	$(BIN)/python -m tests.conformance.fuzz --seed $(SEED) --n $(N)

fuzz-parsers: $(INSTALLED)  ## Feed mutated input to each parser for SECONDS in total; RANDOM_SEED= repeats a run
	$(BIN)/python -m tests.hostile.parsers --seconds $(SECONDS) $(if $(RANDOM_SEED),--seed $(RANDOM_SEED))

kills: $(INSTALLED) control-plane  ## Kill the scheduler KILLS times under load, in rounds, and print a table (needs Go, takes hours); SEED=
	$(BIN)/python -m tests.live.kills --kills $(KILLS) --seed $(SEED)

dist: $(INSTALLED)  ## Build wheel and sdist, check them, and use the wheel in clean environments of every Python
	$(BIN)/python -m release.dist

pyz: $(INSTALLED)  ## Build moorage.pyz, one file for every supported Python, and start it without packages
	$(BIN)/python -m release.pyz

krew: $(INSTALLED)  ## Pack kubectl moorage for krew and validate its manifest with krew itself (needs Go and `make pyz`)
	$(BIN)/python -m release.krew

chart: $(INSTALLED)  ## Write README and goldens of the chart, lint it, and package it into dist (needs Go)
	$(BIN)/python -m release.chart

image-root: $(INSTALLED)  ## Build the root file system of the image from the Dockerfile without an engine, and run it (needs root)
	$(BIN)/python -m release.image_root

skew: $(INSTALLED)  ## Run live tests, the storm and a share of the soak on older API servers (needs Go, takes hours); SKEW='1.34 --minutes 2'
	$(BIN)/python -m release.skew $(SKEW)

next-minor: $(INSTALLED)  ## Print what a Kubernetes release changes, as a to-do list, and compare both oracles (needs Go); VERSION=v1.38.0-beta.0 OLD= N=
	@test -n "$(VERSION)" || { echo "VERSION is missing; write for example: make next-minor VERSION=v1.38.0-beta.0"; exit 2; }
	$(BIN)/python -m release.next_minor $(VERSION) $(if $(OLD),--old $(OLD)) $(if $(filter command line,$(origin N)),--n $(N))

workflows:  ## Check the workflows with actionlint (needs Go); tests/unit/release/test_action.py tries action.yml
	go -C release/tools tool actionlint $(CURDIR)/.github/workflows/*.yml

man: $(INSTALLED)  ## Write a manual page per command into dist/man
	$(BIN)/python -m release.man

image:  ## Build the image with docker, podman or buildah: IMAGE=registry.example/moorage:0.1.0 BUILDER=podman
	@test -n "$(BUILDER)" || { \
	  echo "docker, podman or buildah is required; docs/how-to/from-idea-to-cluster.md describes alternatives"; exit 1; }
	$(BUILDER) build --tag $(IMAGE) .

lock: $(INSTALLED)  ## Update the lock files of the image to the newest versions, with hashes
	$(BIN)/uv pip compile --quiet --upgrade $(LOCK) --extra dra pyproject.toml --output-file requirements.lock
	echo hatchling | $(BIN)/uv pip compile --quiet --upgrade $(LOCK) - --output-file requirements-build.lock

sbom: $(INSTALLED)  ## Write a CycloneDX SBOM of the image: moorage.cdx.json
	$(BIN)/cyclonedx-py requirements --short-PURLs --output-reproducible --pyproject pyproject.toml --output-file moorage.cdx.json requirements.lock

clean:  ## Remove the virtual environment and caches
	rm -rf $(VENV) .venvs .site dist moorage.cdx.json .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
