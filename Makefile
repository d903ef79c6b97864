# slotd: `make demo` and `make test` do all the set-up on a fresh machine.

CARGO ?= cargo
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

.PHONY: help build demo test unit rig rig-nvidia boot ptx ptx-check lint bench clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

build: ## slotd and slotctl, optimised
	@scripts/ensure.sh build
	$(CARGO) build --release --locked -p slotd

demo: build ## the main job on the simulator: sixteen dies, one slot
	$(CARGO) run --release --locked --quiet -p slotd --example demo

test: unit rig rig-nvidia ## everything that needs no special hardware, the QEMU rig included

unit: ## unit, property and service tests, and the scenario on the simulator
	@scripts/ensure.sh build
	$(CARGO) test --workspace --locked

rig: ## the main job in QEMU: real kernels, real PCI, slotwin.ko, a stand-in nvidia
	@scripts/ensure.sh build rig
	tests/rig/run.sh all

rig-nvidia: ## the same with NVIDIA's real 470 module
	@scripts/ensure.sh build rig
	tests/rig/run.sh nvidia

boot: ## slot-cmdline against GRUB (BIOS) and systemd-boot (UEFI) in QEMU; needs root
	@scripts/ensure.sh build rig
	tests/boot/run.sh

ptx: ## regenerate the committed PTX from the CUDA sources
	@scripts/ensure.sh ptx
	kernels/ptx.sh make

ptx-check: ## the committed PTX comes from the sources and assembles for sm_37
	@scripts/ensure.sh ptx
	kernels/ptx.sh check

lint: ptx-check ## fmt, clippy, deny, shellcheck, checkpatch and sparse
	@scripts/ensure.sh build lint rig
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	scripts/deny.sh
	git ls-files | xargs grep -lE '^#!.*\b(ba)?sh\b' | grep -v '\.rs$$' | xargs shellcheck
	tests/rig/run.sh lint

bench: ## ratios in one run, written to target/bench.json
	@scripts/ensure.sh build
	$(CARGO) run --release --locked --quiet -p slotd --example bench

clean: ## remove everything that was built or fetched
	$(CARGO) clean
	rm -rf .rig
