# Debian packages without installing them: a private apt state per set of suites, the packages
# unpacked into a folder, programs run through the loader that came with them.
# shellcheck shell=bash

# mirror KIND: the URI of the Debian mirror (KIND `debian`) or of the security mirror (KIND
# `debian-security`) that this machine's apt is configured for. SLOT_RIG_MIRROR and
# SLOT_RIG_SECURITY_MIRROR override, for machines whose apt knows no Debian mirror.
mirror() {
	local override
	case $1 in
	debian) override=${SLOT_RIG_MIRROR:-} ;;
	*) override=${SLOT_RIG_SECURITY_MIRROR:-} ;;
	esac
	if [ -n "$override" ]; then
		printf '%s\n' "${override%/}"
		return
	fi
	# shellcheck disable=SC2016 # apt fills it in
	apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
		sed 's,/*$,,' | awk -v kind="/$1\$" '$0 ~ kind { print; exit }'
}

need_apt() {
	need apt-get "apt (the rig takes its parts from Debian packages; any Debian or Ubuntu has it)"
	need dpkg-deb dpkg
	need xz xz-utils
	need zstd
	[ "$(dpkg --print-architecture)" = amd64 ] || die "the rig runs on amd64 only, this is $(dpkg --print-architecture)"
	KEYRING=${SLOT_RIG_KEYRING:-/usr/share/keyrings/debian-archive-keyring.gpg}
	[ -r "$KEYRING" ] || die "$KEYRING is missing: install debian-archive-keyring, or name a keyring in SLOT_RIG_KEYRING"
	MIRROR=$(mirror debian)
	SECURITY=$(mirror debian-security)
	[ -n "$MIRROR" ] || die "this machine's apt is configured for no Debian mirror: name one in SLOT_RIG_MIRROR (a URI ending in /debian)"
}

# apt_set NAME COMPONENTS SUITE...: a private apt state; a suite that ends in -security comes from
# the security mirror and is left out where none is configured.
apt_set() {
	local name=$1 components=$2 state suite uri
	shift 2
	state=$RIG_DIR/apt/$name
	mkdir -p "$state/state/lists/partial" "$state/cache" "$RIG_CACHE/archives/partial"
	: >"$state/status"
	: >"$state/preferences"
	: >"$state/sources.list"
	for suite in "$@"; do
		uri=$MIRROR
		case $suite in
		*-security)
			[ -n "$SECURITY" ] || continue
			uri=$SECURITY
			;;
		esac
		printf 'deb [arch=amd64 signed-by=%s] %s %s %s\n' "$KEYRING" "$uri" "$suite" "$components" >>"$state/sources.list"
	done
	APT_SET=$name
	APT_OPTIONS=(
		-o "Dir::State=$state/state" -o "Dir::State::Lists=$state/state/lists" -o "Dir::State::status=$state/status"
		-o "Dir::Cache=$state/cache" -o "Dir::Cache::archives=$RIG_CACHE/archives"
		-o "Dir::Etc::SourceList=$state/sources.list" -o Dir::Etc::SourceParts=/dev/null
		-o "Dir::Etc::Preferences=$state/preferences" -o Dir::Etc::PreferencesParts=/dev/null
		-o APT::Architecture=amd64 -o APT::Architectures::=amd64 -o APT::Sandbox::User= -o APT::Install-Recommends=false
		-o Acquire::Languages=none -o Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled=false
		-o Acquire::Retries=3 -o Dpkg::Use-Pty=0 -o Acquire::Check-Valid-Until=false
		-o Debug::NoLocking=true -o APT::Get::Assume-Yes=true -o APT::Cmd::Disable-Script-Warning=true
	)
	apt-get "${APT_OPTIONS[@]}" -qq update || die "apt could not read $* from $MIRROR: see above"
}

# unpack DIRECTORY apt-get-arguments...: downloads what `apt-get ARGUMENTS` would (`install A B` with
# everything they depend on, `download A B` just those) and unpacks it.
unpack() {
	local into=$1 list uri file
	shift
	mkdir -p "$into"
	# Asked with an empty archive folder, so that what is in the cache already is named too.
	list=$(apt-get "${APT_OPTIONS[@]}" -o Dir::Cache::archives=/nonexistent -qq --print-uris "$@") ||
		die "apt ($APT_SET) has no answer to \`$*\`: see above"
	[ -n "$list" ] || die "apt ($APT_SET) names no package for \`$*\`"
	case $1 in
	install) apt-get "${APT_OPTIONS[@]}" -qq --download-only "$@" >/dev/null ;;
	*) (cd "$RIG_CACHE/archives" && apt-get "${APT_OPTIONS[@]}" -qq "$@" >/dev/null) ;;
	esac || die "apt ($APT_SET) could not download what \`$*\` needs: see above"
	while read -r uri file _; do
		[ -r "$RIG_CACHE/archives/$file" ] || die "$file did not arrive in $RIG_CACHE/archives (from $uri)"
		printf '%s\0' "$RIG_CACHE/archives/$file"
	done <<<"$list" >"$into/.packages"
	# Unpacking is mostly decompression: as many at a time as there are processors.
	# shellcheck disable=SC2016 # the inner shell's
	xargs -0 -a "$into/.packages" -P "$(nproc)" -n 1 bash -o pipefail -c '
		dpkg-deb --fsys-tarfile "$1" | tar -x -C "$0" --no-same-owner --exclude=./usr/share/doc \
			--exclude=./usr/share/man --exclude=./usr/share/locale -f -' "$into" ||
		die "a package could not be unpacked into $into: see above"
	rm "$into/.packages"
}

# depends_like PACKAGE PATTERN: the dependency of PACKAGE whose name matches; a metapackage's real one.
depends_like() {
	local found
	found=$(apt-cache "${APT_OPTIONS[@]}" depends --important "$1" | awk '$1 == "Depends:" { print $2 }' | grep -E "$2" | head -n 1) || true
	[ -n "$found" ] || die "apt ($APT_SET): $1 depends on nothing like $2"
	printf '%s\n' "$found"
}

# loader ROOT: the dynamic loader of an unpacked tree; libraries ROOT: its library path.
loader() {
	local candidate
	for candidate in "$1"/usr/lib64/ld-linux-x86-64.so.2 "$1"/lib64/ld-linux-x86-64.so.2 "$1"/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2; do
		# Not -e: merged-/usr packages carry it as a link that is absolute or into lib.
		[ -f "$candidate" ] && { printf '%s\n' "$candidate"; return; }
	done
	candidate=$(find "$1" -name 'ld-linux-x86-64.so.2' -type f | head -n 1)
	[ -n "$candidate" ] || die "no dynamic loader in $1"
	printf '%s\n' "$candidate"
}
libraries() { printf '%s\n' "$1/usr/lib/x86_64-linux-gnu:$1/lib/x86_64-linux-gnu:$1/usr/lib/x86_64-linux-gnu/pulseaudio"; }
