# What people do here. `make run` starts a server, `make test` runs the tests.

.DEFAULT_GOAL := help
PREFIX ?= /usr/local
.PHONY: help run build install check test test-all fmt clippy clean cargo

help: ## Say what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

cargo:
	@command -v cargo >/dev/null 2>&1 || { \
	  echo "cargo is missing: install Rust with rustup, https://rustup.rs" >&2; exit 1; }

run: cargo ## Build and start a server on 127.0.0.1: ZooKeeper 2181, etcd 2379, admin 8080; data in ./quorate-data
	@exec cargo run --release --package quorate -- serve

build: cargo ## Build the release binary
	cargo build --release

install: build ## Install the program and its name `etcd` below PREFIX, /usr/local by default
	install -d "$(DESTDIR)$(PREFIX)/bin"
	install -m 755 target/release/quorate "$(DESTDIR)$(PREFIX)/bin/quorate"
	ln -sf quorate "$(DESTDIR)$(PREFIX)/bin/etcd"

check: cargo ## Run what a change should pass before the next edit: lint, unit tests, a few seeds
	@tests/check.sh

test: cargo ## Build and run the tests, within 15 minutes; the last line is the count
	@tests/run.sh

test-all: cargo ## Run every test, as CI does: within 40 minutes
	@tests/run.sh all

fmt: cargo ## Format the source
	cargo fmt --all

clippy: cargo ## Lint, with warnings as errors
	cargo clippy --release --workspace --all-targets -- -D warnings

clean: cargo ## Remove what was built
	cargo clean
