# SPDX-License-Identifier: GPL-2.0-or-later
"""pins/: what a pin costs, and which processes are caught."""
import contextlib
import os
import shutil
import subprocess
import tempfile
import time

from harness import Figure, at_least, milliseconds, row, shown, within


@contextlib.contextmanager
def pinned_root(mount):
    """A pin of a process in our own root; the path of its root."""
    sleeper = subprocess.Popen(['sleep', '1000'])
    try:
        pin = mount / f'pins/{sleeper.pid}'
        os.mkdir(pin)
        try:
            yield os.path.join(pin, 'root')
        finally:
            os.rmdir(pin)
    finally:
        sleeper.kill()
        sleeper.wait()


@contextlib.contextmanager
def big_file(bench, mebibytes):
    """Paths of a file, through a pin and as it is."""
    path = os.path.join(bench.scratch, 'big')
    with open(path, 'wb') as file:
        for _ in range(mebibytes):
            file.write(os.urandom(2**20))
    try:
        with pinned_root(bench.mount) as root:
            yield root + path, path
    finally:
        os.unlink(path)


@row('reading a file of 1 GiB through a pin, of the speed of the file itself',
     at_least(60, '{:.0f} %'))
def sequential(bench):
    with big_file(bench, bench.pick(4, 1024)) as paths:
        before = bench.mount.resident()
        ours, theirs = bench.time('pieces', bench.pick(1, 5), *paths)
        grown = (bench.mount.resident() - before) / 2**20
    return Figure(100 * theirs / ours, f'{milliseconds(ours)} against {milliseconds(theirs)}, '
                                       f'daemon grew {grown:.1f} MiB')


@row('the same of 128 MiB, which the daemon reads, as cat does', shown('{:.0f} %'))
def by_requests(bench):
    with big_file(bench, bench.pick(20, 128)) as paths:
        rounds = bench.pick(1, 15)
        ours, theirs = bench.time('read', rounds, *paths)
        small, small_theirs = bench.time('pieces', rounds, *paths)
    return Figure(100 * theirs / ours, f'{milliseconds(ours)} against {milliseconds(theirs)}; '
                                       f'in 128 KiB {100 * small_theirs / small:.0f} %')


@row('`find -xdev` of 100,000 files through a pin, against the same find without',
     within(8, '{:.1f} times'))
def find(bench):
    top = os.path.join(bench.scratch, 'files')
    for directory in range(bench.pick(2, 100)):
        os.makedirs(f'{top}/{directory}')
        for name in range(bench.pick(50, 1000)):
            os.close(os.open(f'{top}/{directory}/{name}', os.O_CREAT | os.O_WRONLY, 0o600))
    with pinned_root(bench.mount) as root:
        ours, theirs = bench.time('run', bench.pick(1, 3), f'find {root}{top} -xdev',
                                  f'find {top} -xdev')
    shutil.rmtree(top)
    return Figure(ours / theirs, f'{milliseconds(ours)} against {milliseconds(theirs)}')


@row('processes that live for 5 ms, matched by --pin, pinned with root and maps',
     at_least(99, '{:.1f} %'))
def short_lived(bench):
    count = bench.pick(10, 200)
    bench.unmount()
    with tempfile.TemporaryDirectory(prefix='ksymfs-bench-') as scratch, \
            bench.mounted('--pin=comm:benchpin', f'--pin-max={2 * count}') as mount:
        program = shutil.copy(shutil.which('sleep'), os.path.join(scratch, 'benchpin'))
        for _ in range(count):
            subprocess.run([program, '0.005'], check=True)
        whole = 0
        for pid in os.listdir(mount / 'pins'):
            pin = mount / f'pins/{pid}'
            with open(f'{pin}/maps', 'rb') as maps:
                whole += b'benchpin' in maps.read() and os.path.isdir(f'{pin}/root/usr')
    return Figure(100 * whole / count, f'{whole} of {count}')


@row('reading ksyms while 8 readers hang in a FUSE inside a root, against before',
     within(1.2, '{:.2f} times'))
def hung(bench):
    directory = os.path.join(bench.scratch, 'mute')
    os.makedirs(directory)
    with bench.mounted('--pin-cross=fuse') as mount, \
            subprocess.Popen([bench.tool('mute'), directory], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True) as server:
        server.stdout.readline()
        pin = mount / f'pins/{server.pid}'
        os.mkdir(pin)
        rounds = bench.pick(10, 301)
        before, = bench.time('read', rounds, mount / 'ksyms')
        readers = [subprocess.Popen(['cat', f'{pin}/root{directory}/{i}'],
                                    stderr=subprocess.DEVNULL) for i in range(8)]
        while int(mount.status('pin_root_calls_hung')) < 8:
            time.sleep(0.05)
        during, = bench.time('read', rounds, mount / 'ksyms')
        for reader in readers:
            reader.kill()
            reader.wait(5)
        os.rmdir(pin)
        server.stdin.close()
    return Figure(during / before, f'{milliseconds(during)} against {milliseconds(before)}')
