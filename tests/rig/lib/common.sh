# Shared by the rig's scripts: where things are, how to say what is wrong.
# shellcheck shell=bash

set -euo pipefail

RIG_SOURCE=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
REPO=$(cd "$RIG_SOURCE/../.." && pwd)
# Everything that is fetched or built for the rig; git ignores it.
RIG_DIR=${SLOT_RIG_DIR:-$REPO/.rig}
# Package downloads and nothing else, so that it can be shared and thrown away.
export RIG_CACHE=${SLOT_RIG_CACHE:-${XDG_CACHE_HOME:-${HOME:-/var/tmp}/.cache}/slotd-rig}

say() { printf 'rig: %s\n' "$*" >&2; }
die() { printf 'rig: error: %s\n' "$*" >&2; exit 1; }

# need COMMAND PACKAGE: ends with the name of what is missing.
need() {
	command -v "$1" >/dev/null 2>&1 || die "\`$1\` is missing: install ${2:-$1}"
}

# locked NAME: one script at a time works on a part; the lock ends with the process.
locked() {
	need flock util-linux
	mkdir -p "$RIG_DIR"
	exec {RIG_LOCK}>"$RIG_DIR/.lock-$1"
	flock "$RIG_LOCK"
}

# Stamps say what a finished part was made from: fresh NAME FINGERPRINT, stamp NAME FINGERPRINT.
fresh() { [ "$(cat "$RIG_DIR/stamps/$1" 2>/dev/null)" = "$2" ]; }
stamp() { mkdir -p "$RIG_DIR/stamps" && printf '%s\n' "$2" >"$RIG_DIR/stamps/$1"; }
fingerprint() { cat "$@" | sha256sum | cut -c1-32; }
