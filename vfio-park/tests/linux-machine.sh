#!/bin/sh
# linux-machine.sh: run in the guest of tests/rig, with examples/linux-machine in its /bin. Takes
# three dies through the seam: adopted cold, swapped warm, refused while in use, parked again.
#   rig --bin target/debug/examples/linux-machine -- vfio-park/tests/linux-machine.sh
devices=/sys/bus/pci/devices

fail() {
	echo "linux-machine: FAILED: $*"
	dmesg | tail -n 30
	exit 1
}
# shellcheck disable=SC2013 # names of devices have no blanks
dies=$(for f in $(grep -l 0x102d $devices/*/device); do basename "$(dirname "$f")"; done)
m() { linux-machine --slots "$RIG_SLOTS" "$@"; }
must() {
	echo "linux-machine: $*"
	m "$@" || fail "$*"
}
state() { m survey | sed -n "s/^$1 //p"; }
is() { [ "$(state "$1")" = "$2" ] || fail "$1 is $(state "$1"), not $2"; }
refuses() {
	words=$1
	shift
	! m "$@" 2>/tmp/said || fail "$* is not refused"
	grep -q "$words" /tmp/said || fail "$*: $(cat /tmp/said)"
	echo "linux-machine: refused: $(head -n 1 /tmp/said)"
}

# shellcheck disable=SC2086 # a list of words
set -- $dies
a=$1 b=$2 c=$3
parked="{\"kind\":\"parked\",\"parker\":\"$RIG_PARKER\",\"slot\":null}"

[ "$(m survey | grep -c "\"parker\":\"$RIG_PARKER\"")" = $# ] || fail "not every die is parked: $(m survey)"
m survey | grep '^odd:' && fail "the survey finds something odd"
refuses 'no die of this machine' unbind 00:1f.0
refuses 'window module is not loaded' peek "$a"
refuses "$RIG_PARKER has it" bind "$a" nvidia

must unbind "$b"
refuses 'BAR1 is unassigned' bind "$b" nvidia
refuses 'did not take' bind "$b" there-is-none
[ "$(cat "$devices/$b/driver_override")" = "(null)" ] || fail "a failed bind leaves an override"
must bind "$b" "$RIG_PARKER"

mark "free place"
for die in "$a" "$c"; do must place "$die"; done
must place "$a" | grep Already || fail "placing again costs something"
for die in "$a" "$b" "$c"; do
	mark "free adopt $die"
	must open "$die"
	must unbind "$die"
	must bind "$die" nvidia
	is "$die" '{"kind":"resident","slot":0}'
	[ "$(cat "$devices/$die/driver_override")" = "(null)" ] || fail "the override of $die stays"
	must peek "$die" | grep 'Boot0: 0x0f22d0a1' || fail "$die does not answer"
done
is "$a" '{"kind":"resident","slot":null}'

mark "free hold"
mkfifo /tmp/hold
linux-machine --slots "$RIG_SLOTS" hold "$c" </tmp/hold >/tmp/held &
exec 9>/tmp/hold
until grep -q held /tmp/held; do kill -0 $! || fail "no hold"; usleep 100000; done
refuses "in use by linux-machine (pid $!)" unbind "$c"
exec 9>&-
wait $! || fail "the hold failed"
[ -c /dev/nvidiactl ] || fail "no control node"

mark "free warm"
must open "$b" | grep '^[24] config writes' || fail "a warm swap is not cheap"
must open "$a" | grep '^2 config writes' || fail "a swap within a card is not 2 writes"
must open "$a" | grep '^0 config writes' || fail "a die that is open costs something"
must peek "$c" | grep 'Boot0: 0x0f22d0a1' || fail "$c does not answer out of the slot"
echo 1 >/sys/bus/pci/rescan
is "$a" '{"kind":"resident","slot":0}'
is "$b" '{"kind":"resident","slot":null}'

for die in "$a" "$b" "$c"; do
	mark "free park $die"
	must open "$die"
	must unbind "$die"
	must bind "$die" "$RIG_PARKER"
done
must shut
for die in "$a" "$b" "$c"; do is "$die" "$parked"; done
mark "free adopt again"
must open "$b"
must unbind "$b"
must bind "$b" nvidia
is "$b" '{"kind":"resident","slot":0}'
echo "linux-machine: passed"
