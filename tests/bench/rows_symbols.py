# SPDX-License-Identifier: GPL-2.0-or-later
"""ksyms, addr/ and the daemon that keeps them."""
import contextlib
import ctypes
import os
import shutil
import signal
import statistics
import subprocess
import tempfile
import time

from harness import (KALLSYMS, Figure, at_least, below, exactly, milliseconds, row, shown,
                     within)


@row('reading ksyms, unchanged, against reading /proc/kallsyms',
     at_least(30, '{:.0f} times faster'))
def unchanged(bench):
    return bench.ratio('read', bench.pick(1, 31), bench.mount / 'ksyms', KALLSYMS)


@row('reading ksyms, unchanged, against the same bytes on tmpfs', within(2, '{:.2f} times'))
def tmpfs(bench):
    copy = '/dev/shm/ksymfs-bench'
    try:
        shutil.copyfile(bench.mount / 'ksyms', copy)
        ours, theirs = bench.time('read', bench.pick(1, 101), bench.mount / 'ksyms', copy)
    finally:
        os.unlink(copy)
    return Figure(ours / theirs, f'{milliseconds(ours)} against {milliseconds(theirs)}')


@row('reading ksyms right after a program load, against /proc/kallsyms',
     at_least(10, '{:.0f} times faster'))
def changed(bench):
    return bench.ratio('change', bench.pick(1, 31), bench.mount / 'ksyms', KALLSYMS)


@row('`cat ksyms` against `sort /proc/kallsyms`', at_least(50, '{:.0f} times faster'))
def commands(bench):
    if bench.size == 'quick':
        bench.lacks('sort alone takes a minute')
    return bench.ratio('run', 3, f'cat {bench.mount / "ksyms"}',
                       f'sort {KALLSYMS}')


# sort thinks the file empty, by its stat, and then sorts a few lines at a time in temporary files.
@row('`cat ksyms` against `cat /proc/kallsyms | sort`', shown('{:.0f} times faster'))
def piped(bench):
    script = os.path.join(bench.scratch, 'sort.sh')
    with open(script, 'w', encoding='ascii') as file:
        file.write(f'cat {KALLSYMS} | sort\n')
    return bench.ratio('run', bench.pick(1, 15), f'cat {bench.mount / "ksyms"}', f'sh {script}')


@row('daemon CPU for one load and unload, retention full, in parses of /proc/kallsyms',
     below(1 / 500, '{:.5f}'))
def load_cpu(bench):
    return load_cost(bench, bench.pick(100, 5000))


@row('  what libbcc takes to read and parse it, in such parses', shown('{:.1f} times'))
def libbcc(bench):
    try:
        lib = ctypes.CDLL('libbcc.so.0')
    except OSError as error:
        bench.lacks(error)
    lib.bcc_symcache_new.restype = ctypes.c_void_p
    times = []
    for _ in range(bench.pick(1, 9)):
        addr = ctypes.c_uint64()
        begin = time.process_time()
        cache = ctypes.c_void_p(lib.bcc_symcache_new(-1, None))
        found = lib.bcc_symcache_resolve_name(cache, None, b'vfs_read', ctypes.byref(addr))
        times.append(time.process_time() - begin)
        lib.bcc_free_symcache(cache, -1)
        if found != 0 or not addr.value:
            raise RuntimeError('libbcc did not find vfs_read')
    used = statistics.median(times)
    return Figure(used / bench.kallsyms_cpu,
                  f'{milliseconds(used)} against {milliseconds(bench.kallsyms_cpu)}')


def load_cost(bench, count):
    """Daemon CPU for a program's load and unload, capture included."""
    used = daemon_cpu_per_load(bench, count)
    return Figure(used / bench.kallsyms_cpu,
                  f'{milliseconds(used)} against {milliseconds(bench.kallsyms_cpu)}')


def fill_retention(bench, count):
    """Until the oldest programs leave as new ones come: before that, each takes fresh memory."""
    retained = 0
    for _ in range(bench.pick(1, 20)):
        bench.load(count)
        before, retained = retained, int(bench.mount.status('programs_retained'))
        if retained < before * 1.02:
            return


def daemon_cpu_per_load(bench, count):
    rounds = []
    fill_retention(bench, count)
    for _ in range(bench.pick(1, 3)):
        bench.mount.read('status')
        before = bench.mount.cpu()
        bench.load(count)
        bench.mount.read('status')
        rounds.append((bench.mount.cpu() - before) / count)
    return statistics.median(rounds)


@row('opens of /proc/kallsyms by the daemon in 20,000 loads and unloads, by fanotify',
     exactly(0))
def opens(bench):
    with bench.watch(KALLSYMS, bench.mount.daemon) as watch:
        before = int(bench.mount.status('kallsyms_reads'))
        bench.load(bench.pick(200, 20000))
        said = int(bench.mount.status('kallsyms_reads')) - before
    if watch.others < 1:
        raise RuntimeError('the watcher did not see its own open')
    return Figure(watch.count, f'status says {said}')


@row('daemon CPU for a load and unload with 5,000 programs loaded against 10',
     within(1.5, '{:.2f} times'))
def many_cpu(bench):
    count = bench.pick(100, 2000)
    costs = {10: [], 5000: []}
    for _ in range(bench.pick(1, 3)):
        for loaded, cost in costs.items():
            with bench.loaded(loaded):
                cost.append(daemon_cpu_per_load(bench, count))
    few, many = (statistics.median(cost) for cost in costs.values())
    return Figure(many / few, f'{milliseconds(many)} against {milliseconds(few)}')


@row('reading ksyms with 5,000 programs loaded, against /proc/kallsyms then',
     at_least(100, '{:.0f} times faster'))
def many_read(bench):
    with bench.loaded(bench.pick(500, 5000)):
        return bench.ratio('read', bench.pick(1, 9), bench.mount / 'ksyms', KALLSYMS)


@row('addr/ADDR: open, read, close', below(150, '{:.1f} us'))
def addr(bench):
    with open(bench.mount / 'ksyms', encoding='ascii') as file:
        symbols = [line.split()[0] for line in file if ' T ' in line]
    paths = [bench.mount / f'addr/{symbol}' for symbol in symbols[::len(symbols) // 100][:100]]
    return Figure(statistics.median(bench.time('read', bench.pick(1, 21), *paths)) * 1e6)


# In 128 KiB, as everywhere: room for the whole file would be paid for page by page, by us alone.
@row('start to first answer (mounted, and ksyms read), against reading /proc/kallsyms',
     below(4, '{:.2f} times'))
def start(bench):
    times = []
    block = bytearray(128 * 1024)
    for _ in range(bench.pick(1, 7)):
        with tempfile.TemporaryDirectory(prefix='ksymfs-bench-') as path:
            begin = time.monotonic()
            subprocess.run([bench.ksymfs, path], check=True)
            with open(os.path.join(path, 'ksyms'), 'rb', buffering=0) as file:
                while file.readinto(block):
                    pass
            ours = time.monotonic() - begin
            times.append((ours, bench.time('read', 3, KALLSYMS)[0]))
            subprocess.run([bench.ksymfs, 'umount', path], check=True)
    ours, theirs = (statistics.median(side) for side in zip(*times))
    return Figure(ours / theirs, f'{milliseconds(ours)} against {milliseconds(theirs)}')


@row('SIGTERM to the end, with ksyms, events and a directory open', below(1000, '{:.0f} ms'))
def end(bench):
    times = []
    for _ in range(bench.pick(1, 5)):
        with bench.mounted() as mount, contextlib.ExitStack() as stack:
            for name in ('ksyms', 'events', 'bpf'):
                stack.callback(os.close, os.open(mount / name, os.O_RDONLY))
            begin = time.monotonic()
            mount.process.send_signal(signal.SIGTERM)
            mount.process.wait(30)
            times.append(time.monotonic() - begin)
            if os.path.ismount(mount.path):
                raise RuntimeError('ksymfs left its mount')
    return Figure(statistics.median(times) * 1000)


@row('resident memory, after ksyms and bpf/ were read', below(40, '{:.1f} MiB'))
def memory(bench):
    with bench.mounted() as mount:
        started = mount.resident() / 2**20
        for name in ('ksyms', 'bpf/programs', 'bpf/functions', 'status'):
            mount.read(name)
        files = mount.metric('ksymfs_backing_bytes') / 2**20
        return Figure(mount.resident() / 2**20 + files,
                      f'{files:.1f} of it in files that the kernel reads, {started:.1f} at the '
                      f'start, {mount.status("symbols")} symbols')


@row('idle: context switches of all threads of the daemon in 5 s without an event', exactly(0))
def idle(bench):
    with bench.mounted() as mount:
        for _ in range(bench.pick(1, 10)):
            events = mount.read('events')
            time.sleep(0.2)
            threads, before = mount.threads(), mount.switches()
            time.sleep(bench.pick(0.5, 5))
            switches = mount.switches() - before
            # A worker that has had nothing to do ends, once.
            if mount.threads() == threads and mount.read('events') == events:
                return Figure(switches)
    return bench.lacks('others load programs all the time')
