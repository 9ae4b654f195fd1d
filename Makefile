# Wraps cargo and the synthesizer; `make help` lists all targets. Only the release profile is used: LibTorch's bindings take
# minutes to build, once a profile.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PROFILE ?= mini
DEVICE ?= auto
FRESH ?=
# Runs at a time: two one-thread runs of a small model side by side finish sooner than two-thread runs in turn.
JOBS ?= $(if $(filter mini,$(PROFILE)),2,1)
EXPERIMENT ?=

ifeq ($(filter auto cpu cuda,$(DEVICE)),)
$(error DEVICE=$(DEVICE): choose auto, cpu or cuda)
endif
ifeq ($(filter mini paper,$(PROFILE)),)
$(error PROFILE=$(PROFILE): choose mini or paper)
endif

# The CUDA flavour has a link and a target folder of its own, so that the flavours don't rebuild each other.
ifeq ($(DEVICE),cuda)
TARGET := $(or $(CARGO_TARGET_DIR),target-cuda)
CARGO := LIBTORCH="$${LIBTORCH:-$(CURDIR)/.libtorch-cuda}" CARGO_TARGET_DIR="$(TARGET)" cargo
else
TARGET := $(or $(CARGO_TARGET_DIR),target)
CARGO := cargo
endif
SYNTHESIZER := $(TARGET)/release/synthesizer
RUN = $(SYNTHESIZER) run --device $(DEVICE) --jobs $(JOBS) $(if $(FRESH),--fresh)
TABLE = results/$(PROFILE)/$(@:reproduce-%=%)

.PHONY: help
help: ## Show this list
	@echo 'Targets (variables: PROFILE=mini|paper, DEVICE=auto|cpu|cuda, FRESH=1 to do all of it anew):'
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-18s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: tools
tools:
	@for tool in cargo g++ python3; do \
	  command -v $$tool > /dev/null || { echo "error: $$tool is not there; needed are Rust (cargo), g++, make, python3 and pip" >&2; exit 2; }; \
	done
	@python3 -m pip --version > /dev/null 2>&1 || { echo 'error: python3 has no pip, which fetches LibTorch and the small corpora: install it (Debian: python3-pip)' >&2; exit 2; }

.PHONY: libtorch
libtorch: tools ## Fetch LibTorch into the user's cache and link it here (DEVICE=cuda: the CUDA flavour, beside the other)
	@python3 scripts/libtorch.py --device $(DEVICE)

.PHONY: build
build: libtorch ## Build the program
	$(CARGO) build --release

.PHONY: test
test: libtorch ## Run all tests
	@# One thread an operation: the tests themselves run side by side.
	OMP_NUM_THREADS=1 $(CARGO) test --release

# Hours of both are for a release; CI runs a short form of them with the other tests.
TORTURE_MINUTES ?= 120
FUZZ_CASES ?= 20000
.PHONY: torture
torture: libtorch ## Kill, starve and damage runs at random for TORTURE_MINUTES; counts go to results/trust (TORTURE_SEED repeats)
	TORTURE_MINUTES=$(TORTURE_MINUTES) TORTURE_SUMMARY=$(CURDIR)/results/trust/torture.csv \
	  $(CARGO) test --release --test torture -- --nocapture

.PHONY: fuzz
fuzz: libtorch ## Read FUZZ_CASES mutated inputs of every kind; counts go to results/trust (FUZZ_SEED repeats)
	FUZZ_CASES=$(FUZZ_CASES) FUZZ_SUMMARY=$(CURDIR)/results/trust/fuzz.csv \
	  $(CARGO) test --release --test fuzz -- --nocapture

RESULTS ?= results/$(PROFILE)
.PHONY: verify
verify: build ## Check that rows, settings, saved outputs, scores and tables under RESULTS=results/$(PROFILE) agree
	$(SYNTHESIZER) verify $(RESULTS)

.PHONY: lint
lint: libtorch ## Check the format, clippy's warnings and the documentation
	cargo fmt --check
	$(CARGO) clippy --release --all-targets -- -D warnings
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --release --no-deps --quiet

.PHONY: run
run: build ## Run one experiment file or a folder of them: make run EXPERIMENT=my.toml
	@[ -n '$(EXPERIMENT)' ] || { echo 'error: name what to run: make run EXPERIMENT=experiments/mini/table2/ende.toml' >&2; exit 2; }
	$(RUN) $(EXPERIMENT)

.PHONY: report
report: build ## Make the tables, figures and the page from results/$(PROFILE)
	$(SYNTHESIZER) report results/$(PROFILE)

# QUICK=1 measures less, and leaves results/bench as it is.
QUICK ?=
BENCH := $(if $(QUICK),target/bench,results/bench)
BENCHED := $(addprefix experiments/mini/table2/,lm1b.toml ende.toml)
# Decoding is measured with trained models, which stop writing by themselves: those of `make reproduce-table2`, or else such as are
# trained for it, in a folder of their own, so that what is committed stays as it is.
DECODED := V D R FR D+V R+V
# of a folder of results and some mixes, the runs' folders
runs_of = $(patsubst %,$(1)/mini/table2/ende/%-s1,$(2))
is_trained = $(if $(filter $(words $(1)),$(words $(wildcard $(addsuffix /checkpoint/final.safetensors,$(1))))),yes)
MODELS := $(if $(call is_trained,$(call runs_of,results,$(DECODED))),results,target/bench)
QUICKLY := $(call runs_of,$(MODELS),V R+V)
GROWN := bench attention --part layer --seconds 0.2 --repeats 10 \
  $(addprefix --mix ,V D R Rfix FR FD R+D D+V R+V LC DC Lin FFT Mixer)
.PHONY: gpu-check
gpu-check: build ## Check a GPU before anything long is trained on it: DEVICE=cuda, about 10 minutes (never run yet)
	scripts/gpu_check.sh $(SYNTHESIZER) $(filter-out auto,$(DEVICE))

.PHONY: bench
bench: build ## Ours against PyTorch on the CPU, in turn; growth; figures (fetches PyTorch; QUICK=1: five minutes)
	$(SYNTHESIZER) data fetch home-assistant news-articles
ifeq ($(DEVICE),cuda)
	$(SYNTHESIZER) bench attention --device cuda
else
	$(if $(QUICK)$(filter results,$(MODELS)),,$(RUN) --results $(MODELS) $(lastword $(BENCHED)) $(addprefix --mix ,$(DECODED)))
	@packages="$$(python3 scripts/peer.py)"; export PYTHONPATH="$$packages" PYTHONNOUSERSITE=1; set -x; \
	python3 benches/check_peer.py tests/golden/*.safetensors tests/fixtures/baselines/*.json; \
	$(SYNTHESIZER) bench compare attention --part core --csv $(BENCH)/attention.csv \
	  $(if $(QUICK),--lengths 256 --mix V --mix D --mix R --mix R+V --seconds 0.3); \
	$(if $(QUICK),,$(SYNTHESIZER) bench compare attention --part core --lengths 256 --against compile --csv $(BENCH)/compile.csv; \
	$(SYNTHESIZER) bench compare attention --part layer --against eager,fused --csv $(BENCH)/layer.csv;) \
	$(SYNTHESIZER) bench compare train $(BENCHED) --against stock,eager --csv $(BENCH)/train.csv \
	  $(if $(QUICK),--mix V --mix R+V --turns 2,--mix V --mix D --mix R --mix FR --mix R+V); \
	$(SYNTHESIZER) bench decode --peer --csv $(BENCH)/decode.csv \
	  $(if $(QUICK),$(if $(call is_trained,$(QUICKLY)),$(QUICKLY),$(lastword $(BENCHED)) --mix V --mix R+V) --sentences 64 --repeats 3,\
	  $(call runs_of,$(MODELS),$(DECODED)) --sentences 400)
ifeq ($(QUICK),)
	$(SYNTHESIZER) $(GROWN) --lengths 64,128,256,512,1024,2048 --batch 2 --csv $(BENCH)/growth.csv > /dev/null
	$(SYNTHESIZER) $(GROWN) --lengths 256 --batch 1,2,4,8,16,32 --csv $(BENCH)/batch.csv > /dev/null
	$(SYNTHESIZER) report $(BENCH)
endif
endif

.PHONY: data
data: build ## Fetch the small corpora of PROFILE=mini
	$(SYNTHESIZER) data fetch all

.PHONY: reproduce-table1
reproduce-table1: build ## Table 1: cost, time, memory and perplexity of every function
ifeq ($(PROFILE),mini)
	$(SYNTHESIZER) data fetch news-articles
endif
	@# The paper trained nothing for this table, so a profile may have no experiments for it.
	@if [ -d experiments/$(PROFILE)/table1 ]; then \
	  echo '$(RUN) experiments/$(PROFILE)/table1'; $(RUN) experiments/$(PROFILE)/table1; \
	else \
	  echo 'no experiments/$(PROFILE)/table1: cost and time only'; \
	fi
	@mkdir -p $(TABLE)
	$(SYNTHESIZER) cost --csv $(TABLE)/cost.csv
	@# The stamp says that time.csv was measured here: the committed one is another machine's.
	@if [ -z '$(FRESH)' ] && [ -e $(TABLE)/time.stamp ] && [ -s $(TABLE)/time.csv ]; then \
	  echo '$(TABLE)/time.csv is there already (FRESH=1 measures again)'; \
	else \
	  $(SYNTHESIZER) bench attention --part layer --device $(DEVICE) --csv $(TABLE)/time.csv.tmp; mv $(TABLE)/time.csv.tmp $(TABLE)/time.csv; touch $(TABLE)/time.stamp; \
	fi
	$(SYNTHESIZER) report $(TABLE)

# Small corpora of the mini profile: fetched before several runs at a time want them.
CORPORA_table2 := home-assistant news-articles
CORPORA_table3 := news-articles chatterbot
CORPORA_table6 := news-articles
CORPORA_table7 := bbc-topics movie-sentences
TRAINED := reproduce-table2 reproduce-table3 reproduce-table4 reproduce-table5 reproduce-table6 reproduce-table7

reproduce-table2: ## Table 2: translation and language modelling
reproduce-table3: ## Table 3: summarization and dialogue
reproduce-table4: ## Table 4: GLUE (PROFILE=paper)
reproduce-table5: ## Table 5: SuperGLUE (PROFILE=paper)
reproduce-table6: ## Table 6: masked language modelling, against convolutions
reproduce-table7: ## Table 7: classification of news and reviews

# Steps a second are a column of Table 6: one run at a time, so that none is measured beside another.
reproduce-table6: JOBS = 1

.PHONY: $(TRAINED)
$(TRAINED): build
	@[ -d experiments/$(PROFILE)/$(@:reproduce-%=%) ] || { \
	  echo 'error: there is no experiments/$(PROFILE)/$(@:reproduce-%=%); profiles with this table:' experiments/*/$(@:reproduce-%=%) >&2; exit 2; }
ifeq ($(PROFILE),mini)
	$(SYNTHESIZER) data fetch $(CORPORA_$(@:reproduce-%=%))
endif
	$(RUN) experiments/$(PROFILE)/$(@:reproduce-%=%)
	$(SYNTHESIZER) report $(TABLE)

.PHONY: reproduce
reproduce: ## Every table that PROFILE has experiments for
	@for table in experiments/$(PROFILE)/table*; do $(MAKE) --no-print-directory reproduce-$$(basename $$table) || exit; done

.PHONY: clean
clean: ## Remove what was built (not results, not the cache)
	rm -rf target target-cuda
