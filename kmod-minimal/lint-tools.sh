#!/bin/sh
# lint-tools.sh DIR: fetches sparse and checkpatch.pl with the machine's own apt
# configuration into DIR. Installs nothing, needs no root; a second run does
# nothing. checkpatch.pl comes in no package but the kernel's source.
set -eu

dir=${1:?usage: lint-tools.sh DIR}
[ -x "$dir/sparse" ] && [ -f "$dir/checkpatch.pl" ] && exit 0
mkdir -p "$dir/apt/lists/partial" "$dir/apt/archives/partial"
dir=$(cd "$dir" && pwd)

apt() {
	apt-get -qq -o APT::Sandbox::User= -o "Dir::State::Lists=$dir/apt/lists" \
		-o "Dir::Cache=$dir/apt" "$@"
}

apt update
cd "$dir/apt"
# linux-source only depends on the package that has the source
source=$(apt-cache -o "Dir::State::Lists=$dir/apt/lists" \
	-o "Dir::Cache=$dir/apt" depends linux-source |
	sed -n 's/.*Depends: \(linux-source-[0-9.]*\).*/\1/p' | head -n 1)
apt download sparse "$source"
dpkg-deb --fsys-tarfile sparse_*.deb | tar -xO ./usr/bin/sparse > sparse.new
chmod +x sparse.new
# The archive is read only as far as these, so its writers end by SIGPIPE
for file in checkpatch.pl spelling.txt const_structs.checkpatch; do
	dpkg-deb --fsys-tarfile "$source"_*.deb 2>/dev/null |
		tar -xO "./usr/src/$source.tar.xz" 2>/dev/null |
		tar -xJO --occurrence=1 -f - "$source/scripts/$file" \
		> "$dir/$file.new"
	[ -s "$dir/$file.new" ]
	mv "$dir/$file.new" "$dir/$file"
done
mv sparse.new "$dir/sparse"
cd "$dir" && rm -rf apt
