# One verb, one command. `make` alone lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
CORES := $(shell nproc)
WORKERS_PER_CORE = 2
test test-all: WORKERS_PER_CORE = 3# they start programs, which wait for each other
WORKERS ?= $(shell expr $(WORKERS_PER_CORE) \* $(CORES))
# In parallel; tests that share a Spark session or a fixture of their module run on one worker.
PARALLEL = -n $(WORKERS) --dist loadgroup --no-loadscope-reorder
# Pure tests write to memory where there is a GB of it: the same tests write to the disk in `make test`.
MEMORY := $(shell [ "$$(df --output=avail -k /dev/shm 2>/dev/null | tail -1)" -gt 1000000 ] 2>/dev/null && echo /dev/shm)
# On a terminal pip shows its progress.
QUIET := $(shell [ -t 2 ] || echo --quiet)
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup install demo check fmt test test-all coverage mutants chaos bench scale deb wheel image sbom docs structure pictures lock release clean

help: ## List the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

setup: $(READY) ## Put everything into .venv (and Java 17 if missing), and prepare the start of the report: about two minutes

$(READY): requirements.lock pyproject.toml deploy/setup/java.sh
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "fshipper needs Python 3.11 or newer: make setup PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install $(QUIET) --require-hashes -r requirements.lock
	$(BIN)/python -m pip install $(QUIET) --no-deps --no-build-isolation -e .
	sh deploy/setup/java.sh
	$(BIN)/fshipper report prepare || echo "the first report takes longer; all but the report works without Java" >&2
	@touch $(READY)

install: ## fshipper and a NATS server: as root in /opt/fshipper and /usr/local/bin, else below ~/.local; EXTRAS=spark,java for the report
	PYTHON=$(PYTHON) deploy/setup/install.sh

demo: setup ## Server, three hosts, a collector, kills on the way, byte-for-byte proof, report: about two minutes
	$(BIN)/fshipper demo

# In a fresh clone the tests are collected first, so that they are compiled once instead of by each worker.
check: setup ## Before each commit: format, lint, types, structure, and the tests that start no process; a minute
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	@$(BIN)/mypy > $(VENV)/types.log 2>&1 & types=$$!; \
	[ -e tests/__pycache__ ] || $(BIN)/python -m pytest -q --collect-only > $(VENV)/tests.log 2>&1; \
	PYTEST_DEBUG_TEMPROOT=$(MEMORY) $(BIN)/python -m pytest -q --ring check $(PARALLEL) $(TESTS); tests=$$?; \
	wait $$types || tests=1; cat $(VENV)/types.log; exit $$tests

fmt: setup ## Format and mend what can be mended
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

test: setup ## Before each push: everything real once: servers, processes, kills, Spark, documents, browser; ten minutes
	$(BIN)/python -m pytest -q --ring test $(PARALLEL) $(TESTS)

test-all: setup ## Before a release: also many seeds, clusters and every document
	$(BIN)/python -m pytest -q --ring all $(PARALLEL) $(OPTIONS) $(TESTS)

coverage: setup ## Branches of the modules that keep the promise, covered by the tests that start no process
	$(BIN)/python -m coverage erase
	$(BIN)/python -m coverage run --branch --source producer.session,producer.checkpoint,producer.tailer,consumer.commit,consumer.partition,consumer.segments,shipper \
	  -m pytest -q --ring check tests/unit tests/contract tests/consumer tests/producer
	$(BIN)/python -m coverage report --skip-covered --sort=cover

mutants: setup ## Plant each defect of tests/defects.toml in a copy; a test must find it. DEFECTS: part of a name
	$(BIN)/python tests/mutants.py $(DEFECTS)

chaos: setup ## 200 seeded runs of faults, a minute of full disk, long rounds of kill -9, bursts of 1 GiB: about 45 minutes
	FSHIPPER_CHAOS_RUNS=200 FSHIPPER_CHAOS_FULL_SECONDS=60 FSHIPPER_CHAOS_ROUNDS=10 FSHIPPER_CHAOS_MB=200 FSHIPPER_KILL_MB=500 \
	  FSHIPPER_BURST_MB=1074 FSHIPPER_CLUSTER_SECONDS=60 FSHIPPER_BACKUP_MB=500 FSHIPPER_FULL_SEEDS=5 FSHIPPER_FULL_SECONDS=60 \
	  $(BIN)/python -m pytest tests/chaos/test_chaos_seeds.py tests/chaos tests/test_backup_whole_way.py \
	  tests/partitioner/test_leaders_on_a_cluster.py
	FSHIPPER_MOVE_HOSTS=20 FSHIPPER_MOVE_STEPS=4,7,3,7,2 FSHIPPER_MOVE_ROUNDS=5 \
	  $(BIN)/python -m pytest tests/test_moves_whole_way.py

bench: setup ## Speed, latency, memory and cost of each program beside its limit: about half an hour
	$(BIN)/python bench/bench.py $(BENCH)

scale: setup ## What 10,000 files cost a producer, and 10,000 hosts one core of a collector, and the report of 5,000: about six minutes
	$(BIN)/python bench/scale.py $(SCALE)
	$(BIN)/python bench/hosts.py $(HOSTS)
	FSHIPPER_REPORT_HOSTS=5000 $(BIN)/python -m pytest -q tests/spark/test_report_hosts.py

deb: setup ## A Debian package with a venv of its own, in dist/; EXTRAS=spark for the report
	deploy/packaging/deb.sh dist

wheel: setup ## The wheel, in dist/
	rm -rf build
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .

image: ## A container image `fshipper`, by podman or docker; EXTRAS=embedded or spark, IMAGE=3.11-slim-bookworm@sha256:...
	$$(command -v podman || echo docker) build -f deploy/packaging/Containerfile -t fshipper \
	  --build-arg EXTRAS=$(EXTRAS) $(if $(IMAGE),--build-arg PYTHON=$(IMAGE)) .

sbom: ## The bill of materials of everything that is locked, as CycloneDX, in dist/sbom.json; EXTRAS: of these only
	mkdir -p dist
	$(PYTHON) deploy/packaging/locked.py --sbom $(EXTRAS) > dist/sbom.json.new
	mv dist/sbom.json.new dist/sbom.json

docs: setup ## Write the documents that are made of the code, and the JSON Schema of the report
	$(BIN)/python tests/written.py

structure: setup ## List all folders and modules with their purpose
	$(BIN)/python tests/written.py modules

pictures: setup ## The pictures of the documents, of the month that a demo left in demo-out (needs Chromium)
	test -d demo-out/report || $(BIN)/fshipper demo --days 30
	$(BIN)/python tests/pictures.py demo-out

lock: ## Pin the newest allowed versions, with hashes and without addresses
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile pyproject.toml --all-extras --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-emit-find-links --no-header --quiet -o requirements.lock

release: check ## One commit and one tag: VERSION=0.3.0, with what CHANGELOG.md has below "Unreleased"
	$(PYTHON) deploy/packaging/release.py $(VERSION)

clean: ## Remove what make made
	rm -rf $(VENV) demo-out bench-out build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
