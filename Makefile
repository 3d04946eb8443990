# Everything a newcomer needs: `make demo` to see it work, `make test` and `make check` before a
# change is handed in. Each target fetches what it lacks and can be repeated.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

root := $(patsubst %/,%,$(dir $(abspath $(lastword $(MAKEFILE_LIST)))))

# The checkout's own nats-server goes first: a distribution's may be too old. Cargo's usual home
# goes last, for shells that do not know it.
# SECONDS is make's name for it; in bash it is a clock.
FUZZ_SECONDS := $(if $(filter command line,$(origin SECONDS)),$(SECONDS),60)
unexport SECONDS

export PATH := $(root)/.tools:$(PATH):$(HOME)/.cargo/bin

.PHONY: help demo test check bench simulate tools nats-server deny fuzz clean

help: ## Says what there is
	@echo 'wakegate: turns wake events on NATS JetStream into runs, and says why when it does not.'
	@echo
	@sed -nE 's/^([a-z]+):.*## (.*)/  make \1\t\2/p' "$(root)/Makefile" | expand -t 14
	@echo
	@echo 'Start with `make demo`; README.md tells the rest.'

demo: nats-server ## Shows a dozen events and what became of each, on a private server
	@cd "$(root)" && cargo build --bin wakegate --example demo
	@cd "$(root)" && cargo run --quiet --example demo

test: tools ## Runs every test, against real NATS, PostgreSQL and SQLite
	@postgresql=$$("$(root)/scripts/postgresql") && cd "$(root)" \
	  && PATH="$$PATH:$$postgresql" cargo test

check: ## Checks format, lints, documentation and what the documents claim
	@"$(root)/scripts/components"
	@cd "$(root)" && cargo fmt --check
	@cd "$(root)" && cargo clippy --all-targets -- -D warnings
	@cd "$(root)" && RUSTDOCFLAGS="-D warnings" cargo doc --no-deps
	@cd "$(root)" && cargo test --quiet --test it tidy::

# QUICK=1 shows in two minutes that it works. ONLY='wakegate postgres mixed' measures what has these
# words in its name. PROFILE=dev takes what the tests are built of, for whom the figures are none.
bench: nats-server ## Measures it beside the stream, the database and a plain worker (QUICK=1, ONLY=..., SOAK=events)
	@postgresql=$$("$(root)/scripts/postgresql") && cd "$(root)" \
	  && PATH="$$PATH:$$postgresql" cargo bench $(if $(PROFILE),--profile $(PROFILE)) --bench throughput -- $(if $(QUICK),--quick) $(if $(SOAK),--soak $(SOAK)) $(ONLY)

simulate: SEEDS ?= 10000
simulate: ## Runs lanes in a world that fails, and the queue, from seeds (SEEDS=10000, SEEDS=500..900; SEED=17 tells one)
	@cd "$(root)" && WAKEGATE_SIM_SEED=$(SEED) WAKEGATE_SIM_SEEDS=$(SEEDS) cargo test --quiet --test it -- \
	  simulation::lanes_keep_their_promises_whatever_fails queue_simulation::the_queue_keeps

tools: nats-server ## Fetches what the tests run into .tools/: nats-server, Prometheus, node, NATS clients
	@"$(root)/scripts/prometheus"
	@"$(root)/scripts/publishers"

nats-server:
	@"$(root)/scripts/nats-server"

# DENY='bans licenses sources' leaves out the advisories, whose database lies on GitHub.
deny: ## Checks dependencies: advisories, bans, licences, sources (DENY=...)
	@"$(root)/scripts/cargo-deny"
	@cd "$(root)" && cargo deny check $(DENY)

# On stable, with inputs made at random from a new seed, for so long a way; TARGET is one of payload, decode,
# configuration and outcome. What fails prints its input: put it into the target's corpus.
fuzz: ## Fuzzes what reads from outside (TARGET=payload SECONDS=60)
	@cd "$(root)" && BOLERO_RANDOM_SEED=$${BOLERO_RANDOM_SEED:-$$(date +%s%N)} \
	  BOLERO_RANDOM_ITERATIONS=$$((1 << 62)) \
	  BOLERO_RANDOM_TEST_TIME_MS=$$(($(FUZZ_SECONDS) * 1000)) \
	  cargo test --test it fuzz::checks::$(TARGET)

clean: ## Removes what was built and fetched
	@cd "$(root)" && cargo clean && rm -rf .tools
