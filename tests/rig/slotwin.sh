#!/bin/sh
# slotwin.sh [SWAPS]: run in the guest. The window module alone does the main job by hand: sixteen
# cold adoptions, then warm swaps in random order, each die's marks right at both ends of BAR1.
# Needs slotwin-try (kmod-minimal/test) and no part of slotd.
set -e
swaps=${1:-60}
devices=/sys/bus/pci/devices

fail() {
	echo "slotwin: FAILED: $*"
	dmesg | tail -n 20
	exit 1
}
# shellcheck disable=SC2013 # names of devices have no blanks
of_id() { for f in $(grep -l "$1" $devices/*/device); do basename "$(dirname "$f")"; done; }
driver() {
	if [ -e "$devices/$1/driver" ]; then basename "$(readlink "$devices/$1/driver")"; else echo none; fi
}
# The value that is written into a die: its bus number.
value() { echo "0x5a00${1#*:}" | cut -c1-8; }
adopt() {
	echo "$1" >"$devices/$1/driver/unbind"
	slotwin-try place "$1" "$2"
	slotwin-try open "$1" "$2"
	echo nvidia >"$devices/$1/driver_override"
	echo "$1" >/sys/bus/pci/drivers/nvidia/bind
	echo >"$devices/$1/driver_override"
	[ "$(driver "$1")" = nvidia ] || fail "$1 is on $(driver "$1")"
}

dies=$(of_id 0x102d)
t4=$(of_id 0x1eb8)
mark "quiet modprobe slotwin"
modprobe slotwin "slots=$RIG_SLOTS"
slotwin-try info
mark "free nvidia for the neighbour"
modprobe nvidia
[ "$(driver "$t4")" = nvidia ] || fail "the T4 is on $(driver "$t4")"
before=$(cat "$devices/$t4/resource")

for die in $dies; do
	mark "cold+registers $die"
	adopt "$die" 0
	slotwin-try mark "$die" "$(value "$die")"
done
for die in $dies; do [ "$(driver "$die")" = nvidia ] || fail "$die was lost to $(driver "$die")"; done
echo "slotwin: all dies are resident"

mark "free rescan"
echo 1 >/sys/bus/pci/rescan

count=$(echo "$dies" | wc -l)
# shellcheck disable=SC2013 # numbers
for n in $(awk -v n="$swaps" -v dies="$count" 'BEGIN { srand(7); for (i = 0; i < n; i++) print 1 + int(rand() * dies) }'); do
	die=$(echo "$dies" | sed -n "${n}p")
	mark "warm $die"
	slotwin-try open "$die" 0
	slotwin-try check "$die" "$(value "$die")" >/run/said || fail "$die: $(cat /run/said)"
	[ "$(driver "$die")" = nvidia ] || fail "$die is on $(driver "$die")"
done
echo "slotwin: $swaps swaps, every mark right"

mark "free look at off-slot dies"
for die in $dies; do
	slotwin-try peek "$die" 0 | grep -qi f22d0a1 || fail "off-slot $die: $(slotwin-try peek "$die" 0)"
done
first=$(echo "$dies" | head -n 1)
last=$(echo "$dies" | tail -n 1)
mark "free revoked mappings"
slotwin-try revoked "$first" "$last" || fail "a mapping of $first outlived its visit"
mark "free+stray shut"
slotwin-try shut 0
base=${RIG_SLOTS%%+*}
[ "$(busybox devmem "$base" 32)" = 0xFFFFFFFF ] || fail "a shut slot reads $(busybox devmem "$base" 32)"

mark "park $first"
slotwin-try open "$first" 0
echo "$first" >"$devices/$first/driver/unbind"
echo "$RIG_PARKER" >"$devices/$first/driver_override"
echo "$first" >"/sys/bus/pci/drivers/$RIG_PARKER/bind"
echo >"$devices/$first/driver_override"
[ "$(driver "$first")" = "$RIG_PARKER" ] || fail "$first is on $(driver "$first")"
mark "cold+registers $first again"
adopt "$first" 0
[ "$(cat "$devices/$t4/resource")" = "$before" ] || fail "the T4's resources changed"
[ "$(driver "$t4")" = nvidia ] || fail "the T4 is on $(driver "$t4")"
echo "slotwin: parked and adopted again; the neighbour noticed nothing"
