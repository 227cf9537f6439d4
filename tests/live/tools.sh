#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Everyday tools on a mounted tree: each must see whole files, whatever its way of reading. TAP.
# Environment: KSYMFS, the binary; KSYMFS_BPF, the directory of *.bpf.o.
set -u

if [ "$(id -u)" -ne 0 ]; then
	echo "1..0 # SKIP mounting needs root"
	exit 0
fi

scratch=$(mktemp -d)
tree=$scratch/tree
pins=/sys/fs/bpf/ksymfs-tools-$$
mkdir "$tree"
"$KSYMFS" -f "$tree" >"$scratch/log" 2>&1 &
daemon=$!
finish() {
	rm -rf "$pins"
	kill "$daemon" 2>/dev/null
	wait "$daemon"
	left=$?
	umount -l "$tree" 2>/dev/null
	rm -rf "$scratch"
}
trap 'finish; exit 1' INT TERM
tries=0
until [ -s "$tree/status" ]; do
	tries=$((tries + 1))
	if [ $tries -gt 600 ] || ! kill -0 "$daemon" 2>/dev/null; then
		sed 's/^/# /' "$scratch/log"
		echo "Bail out! ksymfs did not mount"
		finish
		exit 1
	fi
	sleep 0.05
done

number=0
# check NAME COMMAND...: one case
check() {
	name=$1
	shift
	number=$((number + 1))
	if "$@" >"$scratch/out" 2>&1; then
		echo "ok $number - $name"
	else
		echo "not ok $number - $name"
		sed 's/^/# /' "$scratch/out" | tail -n 20
	fi
}
same() { cmp "$1" "$2"; }

# A program that stays, and whose files do not change, while strangers come and go.
mkdir "$pins"
if ! bpftool prog loadall "$KSYMFS_BPF/calls.bpf.o" "$pins" >"$scratch/out" 2>&1; then
	sed 's/^/# /' "$scratch/out"
	echo "Bail out! bpftool did not load calls.bpf.o"
	finish
	exit 1
fi
id=$(bpftool -j prog show pinned "$pins/calls_main" | sed 's/.*"id":\([0-9]*\).*/\1/')
program=$(realpath "$tree/bpf/by-id/$id")
cat "$program/jited" >"$scratch/jited"

for size in 1 7 4096 1M; do
	check "dd bs=$size" sh -c "dd if=$program/jited bs=$size of=$scratch/dd 2>/dev/null &&
		cmp $scratch/dd $scratch/jited"
done
check "dd bs=4096 of ksyms counts what stat says" sh -c "exec 3<$tree/ksyms
	[ \$(stat -L -c %s /proc/self/fd/3) -eq \$(dd bs=4096 <&3 2>/dev/null | wc -c) ]"
check "busybox cat" sh -c "busybox cat $program/jited | cmp - $scratch/jited"
check "busybox cp" sh -c "busybox cp $program/jited $scratch/busybox &&
	cmp $scratch/busybox $scratch/jited"
check "cp" sh -c "cp $program/jited $scratch/cp && cmp $scratch/cp $scratch/jited"
check "tar" sh -c "tar -C $program -cf - . | tar -C $scratch -xf - ./jited ./info &&
	cmp $scratch/jited $program/jited && cmp $scratch/info $program/info"
mkdir "$scratch/rsync" "$scratch/cpio"
check "rsync" sh -c "rsync -a $program/ $scratch/rsync && cmp $scratch/rsync/jited $program/jited &&
	cmp $scratch/rsync/xlated $program/xlated"
check "cpio" sh -c "cd $program && printf '%s\n' jited xlated info | cpio -o --quiet |
	(cd $scratch/cpio && cpio -i --quiet) && cmp $scratch/cpio/xlated $program/xlated"
check "wc -c is stat" sh -c "[ \$(wc -c <$program/xlated) -eq \$(stat -c %s $program/xlated) ]"
check "tail -c" sh -c "tail -c 20 $program/jited >$scratch/tail &&
	tail -c 20 $scratch/jited | cmp - $scratch/tail"
check "head -c" sh -c "[ \$(head -c 100 $tree/ksyms | wc -c) -eq 100 ]"
check "less" sh -c "LESS= less $program/info | cmp - $program/info"
check "grep finds the symbol" grep -q "_calls_main" "$tree/ksyms"
check "rg finds the symbol" rg -q "_calls_main" "$tree/ksyms"
check "rg --mmap" rg --mmap -q "_calls_main" "$tree/ksyms"
check "mmap" python3 -c "
import mmap, sys
file = open(sys.argv[1], 'rb')
with mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as private:
    assert bytes(private) == open(sys.argv[2], 'rb').read()
" "$program/jited" "$scratch/jited"
check "find ends" sh -c "[ \$(find $tree | wc -l) -gt 20 ]"
check "busybox find ends" sh -c "[ \$(busybox find $tree | wc -l) -gt 20 ]"
check "grep -r ends, and reads all" grep -rqsF "format: 1" "$tree"
check "cp -a of the BPF part" cp -a "$tree/bpf/programs" "$program" "$scratch/rsync"
check "writing is refused" sh -c "! (: >$tree/new) 2>/dev/null && ! rm $tree/ksyms 2>/dev/null &&
	! mkdir $tree/bpf/new 2>/dev/null"

# One HELP and TYPE a name, ahead of its samples; no sample twice.
check "metrics are what Prometheus takes" awk '
	/^# (HELP|TYPE) / { if (seen[$2 " " $3]++ || sampled[$3]) exit bad = 1; next }
	{ name = $1; sub(/\{.*/, "", name); sampled[name] = 1
	  if (!seen["HELP " name] || !seen["TYPE " name] || had[$1]++ || $2 !~ /^[0-9.e+-]+$/ || NF != 2)
		exit bad = 1 }
	END { exit bad || !NR }' "$tree/metrics"

echo "1..$number"
finish
if [ $left -ne 0 ]; then
	echo "# ksymfs left with status $left"
	exit 1
fi
