# URR. `make` alone prints this help. Logic lives in scripts/; ports shift by URR_PORT_OFFSET.

.DEFAULT_GOAL := help
DEV   := go run ./scripts/cmd/dev
CHECK := go run ./scripts/cmd/check

.PHONY: help
help: ## Print this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: up down status logs
up: ## Build and start everything, seed a demo sale, print the addresses
	@$(DEV) up

down: ## Stop everything that up and backends started
	@$(DEV) down

status: ## Table of services and backends
	@$(DEV) status

logs: ## Follow the log of one service or backend: make logs S=queue
	@$(DEV) logs $(S)

.PHONY: backends backends-down
backends: ## Start only the backends (and the Redis Cluster that tests use)
	@$(DEV) backends

backends-down: ## Stop only the backends
	@$(DEV) backends-down

.PHONY: build web
build: ## Build the services into .urr/bin
	@$(DEV) build

web: ## Bundle the pages into the gateway
	@go run ./scripts/cmd/web

.PHONY: proto tidy lint verify test
proto: ## Regenerate Go and OpenAPI from proto/, and Go from the SQL queries
	@$(CHECK) proto
	@$(CHECK) sqlc

tidy: ## go mod tidy in every module
	@$(CHECK) tidy

lint: ## golangci-lint in every module
	@$(CHECK) lint

verify: ## Regenerate everything and require a clean tree; build each module alone
	@$(CHECK) verify

test: ## Every test, with the race detector, on the real backends
	@$(CHECK) test

.PHONY: demo chaos
demo: ## A crowd of visitors through the whole platform, then the truth from the stores
	@test -n "$(URL)" || $(DEV) up
	@go run ./scripts/cmd/crowd

chaos: ## Kill, pause and cut everything while a sale runs
	@go test -count=1 -timeout 60m -v ./scripts/chaos/...

.PHONY: images charts cluster-up cluster-down cluster-test kind-up kind-down
images: ## Build the container images into .urr/images/urr.tar (TAG=dev)
	@go run ./scripts/cmd/images

charts: ## Lint the Helm charts and run their tests
	@go test -count=1 ./scripts/charts

cluster-up: ## Start a Kubernetes of one node, without Docker (root)
	@scripts/cluster/up.sh

cluster-down: ## Stop it and remove its state; what was built stays in the cache
	@scripts/cluster/down.sh --purge

cluster-test: ## Install the charts on that Kubernetes, walk the journey, upgrade under load, remove everything (root)
	@go test -count=1 -timeout 120m -v ./scripts/e2e/cluster

kind-up: ## The platform by Helm on a cluster in Docker
	@deploy/kind/up.sh

kind-down: ## Remove that cluster
	@deploy/kind/down.sh
