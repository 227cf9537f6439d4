# SPDX-License-Identifier: GPL-2.0-or-later
"""BPF programs that are gone soon: what of them is captured, remembered and told."""
import contextlib
import os
import re
import subprocess

from harness import Figure, at_least, below, exactly, row, shown, within
from rows_symbols import load_cost

PERCENT = '{:.1f} %'


def is_whole(mount, path, jited_bytes):
    """Whether a program's directory has all of its code."""
    try:
        return (os.stat(mount / f'{path}/jited').st_size == int(jited_bytes)
                and os.stat(mount / f'{path}/xlated').st_size > 0)
    except (FileNotFoundError, ValueError):
        return False


@contextlib.contextmanager
def busy_cpus():
    burners = []
    try:
        for cpu in os.sched_getaffinity(0):
            burners.append(subprocess.Popen(['taskset', '-c', str(cpu), 'sh', '-c',
                                             'while :; do :; done']))
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


def captured(bench, alive_us, around=contextlib.nullcontext):
    bench.unmount()
    count = bench.pick(50, 500)
    with bench.mounted() as mount:
        with around():
            bench.load(count, alive_us, 'capture')
        rows = [line.split() for line in mount.read('bpf/programs').splitlines()]
        rows = [words for words in rows if words[4].startswith('capture')]
        whole = sum(is_whole(mount, words[7], words[5]) for words in rows)
    return Figure(100 * whole / count, f'{whole} of {count} loads, {len(rows)} listed')


@row('programs closed by their loader at once, captured whole', at_least(98, PERCENT))
def at_once(bench):
    return captured(bench, 0)


@row('programs alive for 1 ms, captured whole', at_least(99.9, PERCENT))
def alive(bench):
    return captured(bench, 1000)


@row('programs closed at once, all CPUs busy, captured whole', at_least(95, PERCENT))
def at_once_busy(bench):
    return captured(bench, 0, busy_cpus)


@row('programs alive for 1 ms, all CPUs busy, captured whole', at_least(95, PERCENT))
def alive_busy(bench):
    return captured(bench, 1000, busy_cpus)


def captured_by_perf(bench, alive_us, around=contextlib.nullcontext):
    """perf alone, without ksymfs beside it: what a second reader holds lives longer for the first."""
    bench.needs('perf')
    bench.unmount()
    count = bench.pick(50, 500)
    data = os.path.join(bench.scratch, 'perf.data')
    with around():
        subprocess.run(['perf', 'record', '-q', '-a', '-e', 'cpu-clock', '-F', '10', '-o', data,
                        '--', bench.tool('loader'), str(count), str(alive_us), 'forperf'],
                       check=True, capture_output=True)
    header = subprocess.run(['perf', 'report', '--header-only', '-I', '-i', data], check=True,
                            capture_output=True, text=True).stdout
    got = len(re.findall(r'^# bpf_prog_info \d+: bpf_prog_[0-9a-f]{16}_forperf', header, re.M))
    return Figure(100 * got / count, f'{got} of {count} loads')


@row('  the same by `perf record`: closed at once', shown(PERCENT))
def perf_at_once(bench):
    return captured_by_perf(bench, 0)


@row('  by `perf record`: alive for 1 ms', shown(PERCENT))
def perf_alive(bench):
    return captured_by_perf(bench, 1000)


@row('  by `perf record`: closed at once, all CPUs busy', shown(PERCENT))
def perf_busy(bench):
    return captured_by_perf(bench, 0, busy_cpus)


@row('symbols that the kernel announced, neither in events nor in a `lost` line', exactly(0))
def told(bench):
    count = bench.pick(100, 10000)
    with bench.mounted('--events-bytes=64M') as mount:
        loaders = [subprocess.Popen([bench.tool('loader'), str(count), '0', name],
                                    stdout=subprocess.DEVNULL) for name in ('told_a', 'told_b')]
        if any([loader.wait() for loader in loaders]):
            raise RuntimeError('the programs were not loaded')
        events = mount.read('events')
    added = len(re.findall(r' ksym-add \S+ \S+ bpf_prog_[0-9a-f]{16}_told_', events))
    lost = sum(int(word) for word in re.findall(r' lost records=(\d+)', events))
    return Figure(max(0, 2 * count - added - lost), f'{added} told, {lost} lost of {2 * count}')


@row('daemon CPU per load and unload, capture included, in parses of /proc/kallsyms',
     below(1 / 200, '{:.5f}'))
def capture_cpu(bench):
    return load_cost(bench, bench.pick(100, 5000))


def memory_after_loads(bench):
    """Resident memory at the start, after half of the loads and at the end; the bounds' sum."""
    retain, events, count = bench.pick((1, 1, 400), (4, 1, 20000), (64, 8, 200000))
    bench.unmount()
    with bench.mounted(f'--retain-bytes={retain}M', f'--events-bytes={events}M') as mount:
        sizes = []
        mount.read('ksyms')
        for first in (None, 0, count // 2):
            if first is not None:
                bench.load(count // 2, 0, 'retain', first)
                mount.read('status')
            sizes.append(mount.resident() / 2**20)
    return sizes, retain + events, count


@row('memory with the retention full, above that at the start, in retain- and events-bytes',
     within(1.25, '{:.2f}'))
def retained(bench):
    sizes, bound, count = bench.once(memory_after_loads)
    return Figure((sizes[2] - sizes[0]) / bound,
                  f'{sizes[0]:.1f} to {sizes[2]:.1f} MiB, {bound} MiB, {count} loads')


@row('memory after all those loads against after half of them', within(1.05, '{:.3f} times'))
def flat(bench):
    sizes, _, count = bench.once(memory_after_loads)
    return Figure(sizes[2] / sizes[1], f'{sizes[1]:.1f} and {sizes[2]:.1f} MiB, {count} loads')
