# SPDX-License-Identifier: GPL-2.0-or-later
"""A program's way back to source."""
import os
import statistics
import subprocess
import time

from harness import Figure, below, row

FILES = ('lines', 'source', 'xlated.txt', 'elf', 'asm')
BPFFS = '/sys/fs/bpf'


def first_reads(bench, pin):
    """Seconds for each file of a program that was loaded just now, and its instructions."""
    subprocess.run(['bpftool', 'prog', 'load',
                    os.path.join(bench.build, 'tests', 'bpf', 'many_lines.bpf.o'), pin], check=True)
    try:
        rows = [line.split() for line in bench.mount.read('bpf/programs').splitlines()]
        path = [words[7] for words in rows if words[4] == 'many_lines'][-1]
        instructions = os.stat(bench.mount / f'{path}/xlated').st_size // 8
        times = []
        for name in FILES:
            begin = time.monotonic()
            with open(bench.mount / f'{path}/{name}', 'rb') as file:
                file.read()
            times.append(time.monotonic() - begin)
        return times, instructions
    finally:
        os.unlink(pin)


@row(f'{", ".join(FILES)} of a 4,000-instruction program, first time',
     below(20, '{:.1f} ms'))
def first(bench):
    bench.needs('bpftool')
    if not os.path.ismount(BPFFS):
        bench.lacks(f'nothing mounted at {BPFFS}')
    runs = [first_reads(bench, f'{BPFFS}/ksymfs-bench-{os.getpid()}')
            for _ in range(bench.pick(1, 5))]
    each = [statistics.median(times) * 1e3 for times in zip(*(times for times, _ in runs))]
    return Figure(statistics.median(sum(times) for times, _ in runs) * 1e3,
                  ' + '.join(f'{ms:.1f}' for ms in each) + f', {runs[0][1]} instructions')
