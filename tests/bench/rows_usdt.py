# SPDX-License-Identifier: GPL-2.0-or-later
"""usdt/: measured by bench_usdt.c, all in one run."""
import os
import re
import subprocess

from harness import Figure, at_least, below, exactly, row, shown, within


def measure(bench):
    """Each row that it prints, by its name."""
    bench.needs('tplist-bpfcc')
    with bench.mounted() as mount:
        done = subprocess.run([bench.tool('usdt'), mount.path, str(mount.daemon),
                               '/dev/shm'], check=True, capture_output=True, text=True)
    rows = (line.split('\t') for line in done.stdout.splitlines())
    return {words[0]: Figure(float(re.match(r'[\d.]+', words[1])[0]),
                             ''.join(re.findall(r'\((.*)\)', words[1]))) for words in rows}


def look_up(bench, part):
    if bench.size == 'quick':
        bench.lacks('takes a minute')
    for name, value in bench.once(measure).items():
        if part in name:
            return value
    return bench.lacks(f'no {part}')


@row('usdt/PID/notes of python3.11, first time, against `tplist -p`',
     at_least(50, '{:.0f} times faster'))
def python(bench):
    return look_up(bench, 'python3.11')


@row('usdt/PID/notes of a JVM, first time, against `tplist -p`',
     at_least(50, '{:.0f} times faster'))
def jvm(bench):
    return look_up(bench, 'a JVM')


@row('usdt/PID/notes again, a process with 200 mappings', below(2, '{:.2f} ms'))
def cached(bench):
    return look_up(bench, '200 mappings')


@row('an object with 400,000 notes and 40,000 names, first time', below(3, '{:.2f} s'))
def large(bench):
    return look_up(bench, '400,000')


@row('  the daemon\'s memory then, at its peak', below(300, '{:.0f} MiB'))
def large_memory(bench):
    return look_up(bench, 'peak')


@row('  opening ksyms meanwhile, at the worst', shown('{:.1f} ms'))
def large_meanwhile(bench):
    return look_up(bench, 'meanwhile')


@row('usdt/probes with 500 processes, second time', below(100, '{:.1f} ms'))
def probes(bench):
    return look_up(bench, '500 processes')


@row('listing usdt/, 500 processes, against /proc and an empty directory of ours',
     within(3, '{:.2f} times'))
def listing(bench):
    return look_up(bench, 'listing usdt/')


@row('  a stat of each, against /proc and as many lookups of ours that find nothing',
     within(2, '{:.2f} times'))
def stat_each(bench):
    return look_up(bench, 'a stat of each')


@row('usdt/ against `readelf -n`, differences (--long: every ELF file installed)',
     exactly(0))
def readelf(bench):
    roots = bench.pick(['/usr/bin/python3.11'], ['/usr/lib/x86_64-linux-gnu'], ['/'])
    tool = os.path.join(os.path.dirname(__file__), '..', '..', 'scripts', 'usdt-compare')
    done = subprocess.run([tool, bench.mount.path, *roots], check=False, capture_output=True,
                          text=True)
    summary = done.stdout.strip().splitlines()[-1]
    return Figure(int(re.search(r'(\d+) differences', summary)[1]), summary.split(' - ')[0])
