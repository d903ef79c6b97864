#!/usr/bin/env bash
# run.sh [bios|uefi]...: slot-cmdline against real boot loaders in QEMU: GRUB (BIOS, initramfs-tools)
# and systemd-boot (UEFI, dracut), both at once without arguments. Each machine goes through nine
# boots: stock, trial, back by itself, a trial that panics, back by itself, trial and confirm, twice
# confirmed, removed. The logs are .rig/boot/MACHINE.log.
# shellcheck disable=SC1091
. "$(dirname "$0")/lib.sh"

LIMIT=${SLOT_BOOT_LIMIT:-1800}
BOOTS=9

# qemu MACHINE: runs it to its end; seconds since the start before each line.
qemu() {
	local machine=$1 die
	local -a arguments=(
		-machine "q35,kernel-irqchip=split" -accel "tcg,thread=multi" -cpu max -smp 1 -m 1024
		-nodefaults -no-user-config -display none -serial stdio -run-with exit-with-parent=on
		-device "intel-iommu,caching-mode=on"
		# The driver of the chipset's watchdog starts its timer when it is loaded, and nobody feeds it.
		-global ICH9-LPC.noreboot=on
		-drive "if=none,id=disk,file=$BOOT/$machine.img,format=raw,cache=unsafe" -device "virtio-blk-pci,drive=disk,bootindex=0"
	)
	for die in {1..16}; do arguments+=(-device "edu,id=die$die"); done
	if [ "$machine" = uefi ]; then
		cp "$BOOT/host/usr/share/OVMF/OVMF_VARS_4M.fd" "$BOOT/vars.fd"
		arguments+=(
			-drive "if=pflash,format=raw,readonly=on,file=$BOOT/host/usr/share/OVMF/OVMF_CODE_4M.fd"
			-drive "if=pflash,format=raw,file=$BOOT/vars.fd"
		)
	fi
	timeout "$LIMIT" "$RIG_DIR/qemu-system-x86_64" "${arguments[@]}" </dev/null 2>&1 |
		perl -MTime::HiRes=time -ne 'BEGIN { $| = 1; $start = time } s/\e\[[0-9;=?]*[A-Za-z]//g; s/\r//g; printf "%6.1f %s", time - $start, $_' >"$BOOT/$machine.log"
}

# judge MACHINE: the log says that everything held.
judge() {
	local log=$BOOT/$1.log
	grep -aE 'boot: (ok|FAIL)' "$log" | sed "s/^/$1: /"
	if grep -aq 'boot: FAIL' "$log" || ! grep -aq 'boot: done' "$log"; then
		tail -n 40 "$log" | sed "s/^/$1: | /" >&2
		say "$1: it does not hold: see $log"
		return 1
	fi
	[ "$(grep -acE 'boot: [0-9]+ after' "$log")" = $BOOTS ] || { say "$1: not $BOOTS boots: see $log"; return 1; }
}

main() {
	local machine failed=0
	local -a machines=("$@") running=()
	[ $# -gt 0 ] || machines=(bios uefi)
	"$BOOT_SOURCE/tree.sh" "${machines[@]}"
	# The machine's Debian is as old as the oldest that is supported.
	cargo build --release --locked --quiet --manifest-path "$REPO/Cargo.toml" -p slot-cmdline
	for machine in "${machines[@]}"; do
		"$BOOT_SOURCE/image.sh" "$machine"
		qemu "$machine" &
		running+=($!)
	done
	for machine in "${running[@]}"; do wait "$machine" || true; done
	for machine in "${machines[@]}"; do judge "$machine" || failed=1; done
	exit $failed
}
main "$@"
