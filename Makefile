# URR. `make` alone prints this help. Logic lives in scripts/; ports shift by URR_PORT_OFFSET.

.DEFAULT_GOAL := help
# Programs are built first and then run, since `go run` prints lines of its own after Ctrl-C. The trap
# keeps the recipe's shell alive for CTRL_C.
program = trap : INT; go build -o .urr/tools/$(1) ./scripts/cmd/$(1) && .urr/tools/$(1)
DEV    := $(call program,dev)
CHECK  := $(call program,check)
# A program that is interrupted by Ctrl-C prints one line and exits with 130; make then ends by the
# same signal, without a message.
CTRL_C := || { [ $$? = 130 ] && kill -INT $$PPID; }

.PHONY: help
help: ## Print this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: up down reset status logs env
up: ## Build and start everything, seed a demo sale, print the addresses
	@$(DEV) up $(CTRL_C)

down: ## Stop all services and backends
	@$(DEV) down $(CTRL_C)

reset: ## Stop everything and remove its data; programs and jars are kept
	@$(DEV) reset $(CTRL_C)

status: ## Show a table of the services and backends
	@$(DEV) status $(CTRL_C)

logs: ## Follow the log of one service or backend: make logs S=queue
	@$(DEV) logs $(S) $(CTRL_C)

env: ## Print a service's environment as shell commands: eval "$$(make -s env S=queue)"
	@$(DEV) env $(S) $(CTRL_C)

.PHONY: backends backends-down
backends: ## Start only the backends (and the Redis Cluster of the tests)
	@$(DEV) backends $(CTRL_C)

backends-down: ## Stop only the backends
	@$(DEV) backends-down $(CTRL_C)

.PHONY: build web
build: ## Build the services into .urr/bin
	@$(DEV) build $(CTRL_C)

web: ## Bundle the pages into the gateway
	@$(call program,web) $(CTRL_C)

.PHONY: proto settings figures plan tidy lint verify quick test stress fuzz provider-check
proto: ## Regenerate Go and OpenAPI from proto/, and Go from the SQL queries
	@$(CHECK) proto $(CTRL_C)
	@$(CHECK) sqlc $(CTRL_C)

settings: ## Regenerate what follows from the services' Config and the RPCs' access: tables, charts, go.work
	@$(CHECK) settings $(CTRL_C)

figures: ## Regenerate the tables of measured figures in the documents from scripts/bench/reference.json
	@$(CHECK) figures $(CTRL_C)

plan: ## Print what an opening needs of pods and stores: make plan VISITORS=1000000 WITHIN=60
	@$(CHECK) plan "$(VISITORS)" "$(WITHIN)" $(CTRL_C)

tidy: ## Run go mod tidy in every module
	@$(CHECK) tidy $(CTRL_C)

lint: ## Run golangci-lint in every module
	@$(CHECK) lint $(CTRL_C)

verify: ## Check that generated files are current, interfaces compatible and the size within its limits; build each module alone
	@$(CHECK) verify $(CTRL_C)

quick: ## Run the quick tests of one service or package of pkg: make quick S=ticket
	@$(CHECK) quick '$(S)' $(CTRL_C)

test: ## Run every test, on the real backends
	@$(CHECK) test $(CTRL_C)

N ?= 50
stress: ## Run packages N times, shuffled, under CPU load: make stress P=./services/queue/... N=50
	@$(CHECK) stress '$(P)' '$(N)' $(CTRL_C)

provider-check: ## Check the clients of payment providers; with STRIPE_TEST_KEY or TOSS_TEST_KEY also in test mode
	@$(CHECK) providers $(CTRL_C)

T ?= 10s
fuzz: ## Run the fuzz tests on generated inputs, each for a time: T=10s; P= selects one test
	@$(CHECK) fuzz '$(P)' '$(T)' $(CTRL_C)

.PHONY: stats-rebuild
stats-rebuild: ## Count all figures of the running platform anew beside live traffic, compare and swap: A=--accept-differences
	@eval "$$($(DEV) env stats)" && .urr/bin/stats rebuild $(A) $(CTRL_C)

.PHONY: demo demo-rewards demo-promo bench chaos
demo: ## Send simulated visitors through the whole platform, then audit the stores
	@test -n "$(URL)" || { SANDBOX_PAGE_TIME=$${SANDBOX_PAGE_TIME:-20s} $(DEV) up; } $(CTRL_C)
	@$(call program,crowd) $(CTRL_C)

demo-rewards: ## Send members through attendance, a draw and payouts while a replica is killed, then audit the ledger
	@$(DEV) up $(CTRL_C)
	@$(call program,rewards) $(CTRL_C)

demo-promo: ## Send bursts of applications to a first-come promotion and a lottery, then audit the table and verify the draw
	@$(DEV) up $(CTRL_C)
	@$(call program,promo) $(CTRL_C)

bench: ## Measure the hot paths beside their baselines: ROWS= selects rows, ROUNDS= their rounds
	@$(call program,bench) $(CTRL_C)

chaos: ## Kill, pause, disconnect and upgrade everything during sales; P= selects one test, PREVIOUS=v0.1.0 upgrades that tag
	@PREVIOUS='$(PREVIOUS)'; export PREVIOUS; $(CHECK) chaos $(P) $(CTRL_C)

.PHONY: images charts cluster-up cluster-down cluster-test kind-up kind-down
images: ## Build the container images into .urr/images/urr.tar (TAG=dev)
	@$(call program,images) $(CTRL_C)

charts: ## Lint the Helm charts and run their tests
	@go test -count=1 ./scripts/charts

cluster-up: ## Start a one-node Kubernetes without Docker (root)
	@scripts/cluster/up.sh

cluster-down: ## Stop that Kubernetes and remove its state; its programs stay cached
	@scripts/cluster/down.sh --purge

cluster-test: ## Test the charts on that Kubernetes: install, upgrades, faults, uninstall (root)
	@go test -count=1 -timeout 120m -v ./scripts/e2e/cluster -cluster

kind-up: ## Install the platform with Helm on a kind cluster in Docker (port 8070)
	@deploy/kind/up.sh

kind-down: ## Delete the kind cluster
	@deploy/kind/down.sh
