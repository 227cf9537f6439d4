# SPDX-License-Identifier: GPL-2.0-or-later
"""What the rows of scripts/bench stand on: mounts, helpers, and the table.

A row is one function, in one of the rows_*.py beside this file:

    @row('reading ksyms against /proc/kallsyms', at_least(30, '{:.0f} times faster'))
    def unchanged(bench):
        ...
        return Figure(ratio, 'what the two sides took')

It is run with a Bench, and returns a Figure; where the machine lacks what it takes, it calls
bench.lacks() with the reason. Both sides of a ratio are measured in the same run, in turns
where that is possible, and are medians.
"""
import contextlib
import dataclasses
import functools
import os
import shutil
import signal
import statistics
import subprocess
import tempfile
import time
import types

ROWS = []
KALLSYMS = '/proc/kallsyms'


@dataclasses.dataclass
class Limit:
    """What is asked for: `form` shows a value, `judge` says whether it is met."""
    text: str
    form: str
    judge: object


def at_least(bound, form):
    return Limit(form.format(bound), form, lambda value: value >= bound)


def below(bound, form):
    return Limit('under ' + form.format(bound), form, lambda value: value < bound)


def within(bound, form):
    return Limit('within ' + form.format(bound), form, lambda value: value <= bound)


def exactly(wanted, form='{}'):
    return Limit(form.format(wanted), form, lambda value: value == wanted)


def shown(form):
    return Limit('shown', form, lambda value: None)


@dataclasses.dataclass
class Figure:
    value: object
    detail: str = ''


@dataclasses.dataclass
class Row:
    what: str
    limit: Limit
    measure: object


def row(what, limit):
    def register(measure):
        ROWS.append(Row(what, limit, measure))
        return measure
    return register


def milliseconds(seconds):
    """As a person would write it, from seconds."""
    return f'{seconds * 1e3:.3g} ms' if seconds >= 1e-3 else f'{seconds * 1e6:.3g} us'


class Lacking(Exception):
    """What a row needs is not on this machine."""


class Mount:
    """A mounted ksymfs of our own."""

    def __init__(self, process, path):
        self.process = process
        self.path = path

    @functools.cached_property
    def daemon(self):
        """The pid of who serves: what we started only keeps it alive."""
        return int(self.status('pid'))

    def __truediv__(self, name):
        return os.path.join(self.path, name)

    def read(self, name):
        with open(self / name, encoding='utf-8', errors='surrogateescape') as file:
            return file.read()

    def status(self, key):
        for line in self.read('status').splitlines():
            name, _, value = line.partition(': ')
            if name == key:
                return value
        raise KeyError(key)

    def metric(self, name):
        for line in self.read('metrics').splitlines():
            if line.startswith(f'{name} '):
                return float(line.split()[1])
        raise KeyError(name)

    def cpu(self):
        """Seconds of CPU that the daemon has used, of all its threads, to the nanosecond."""
        # The clock of another process, as clock_getcpuclockid() makes it.
        return time.clock_gettime((~self.daemon << 3) | 2)

    def pids(self):
        return self.daemon, self.process.pid

    def resident(self):
        """Bytes that the memory of both processes takes, that of the rings included."""
        total = 0
        for pid in self.pids():
            with open(f'/proc/{pid}/status', encoding='ascii') as file:
                total += sum(int(line.split()[1]) for line in file if line.startswith('VmRSS:'))
        return total * 1024

    def threads(self):
        return sorted(f'/proc/{pid}/task/{task}' for pid in self.pids()
                      for task in os.listdir(f'/proc/{pid}/task'))

    def switches(self):
        """How often the threads of both processes gave up or lost a CPU."""
        total = 0
        for task in self.threads():
            with open(f'{task}/status', encoding='ascii') as file:
                total += sum(int(line.split()[1]) for line in file if '_ctxt_switches' in line)
        return total


class Bench:
    def __init__(self, build, size):
        self.build = build
        self.size = size
        self.measured = {}
        self.stack = contextlib.ExitStack()
        self.shared = self.stack.enter_context(contextlib.ExitStack())
        self.scratch = self.stack.enter_context(tempfile.TemporaryDirectory(prefix='ksymfs-bench-'))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stack.close()

    def pick(self, quick, normal, long=None):
        """How often, by the size of this run."""
        return {'quick': quick, 'normal': normal, 'long': long or normal}[self.size]

    @property
    def ksymfs(self):
        return os.path.join(self.build, 'fs', 'ksymfs')

    def tool(self, name):
        return os.path.join(self.build, 'tests', 'bench', f'bench_{name}')

    @staticmethod
    def lacks(what):
        raise Lacking(what)

    def needs(self, *programs):
        for program in programs:
            if not shutil.which(program):
                self.lacks(f'no {program}')

    @contextlib.contextmanager
    def mounted(self, *options):
        """A mount with these options, for one row alone."""
        with tempfile.TemporaryDirectory(prefix='ksymfs-bench-') as path:
            process = subprocess.Popen([self.ksymfs, '-f', *options, path],
                                       stdin=subprocess.DEVNULL)
            try:
                while not os.path.ismount(path):
                    if process.poll() is not None:
                        raise RuntimeError('ksymfs did not mount')
                    time.sleep(0.005)
                mount = Mount(process, path)
                mount.read('status')
                yield mount
            finally:
                if process.poll() is None:
                    process.send_signal(signal.SIGTERM)
                process.wait(30)

    @functools.cached_property
    def mount(self):
        """The mount of all rows that need no other."""
        return self.shared.enter_context(self.mounted())

    def unmount(self):
        """For rows that another daemon would disturb."""
        self.shared.close()
        self.__dict__.pop('mount', None)

    def once(self, measure):
        """What this function says of this machine, which several rows show a part of."""
        if measure not in self.measured:
            try:
                self.measured[measure] = measure(self), None
            except Lacking as lacking:
                self.measured[measure] = None, lacking
        value, lacking = self.measured[measure]
        if lacking:
            raise lacking
        return value

    def time(self, timer, rounds, *sides):
        """The median of each side, in seconds, from tests/bench/timer.c."""
        lines = subprocess.run([self.tool('timer'), timer, str(rounds), *sides], check=True,
                               capture_output=True, text=True,
                               env={**os.environ, 'LC_ALL': 'C'}).stdout.splitlines()
        return [statistics.median(int(word) for word in line.split()) / 1e9 for line in lines]

    def ratio(self, timer, rounds, ours, theirs):
        """How many times `ours` goes into `theirs`."""
        mine, other = self.time(timer, rounds, ours, theirs)
        return Figure(other / mine, f'{milliseconds(mine)} against {milliseconds(other)}')

    def load(self, count, alive_us=0, name='bench', first=0):
        """Loads and closes so many programs; the seconds that it took."""
        return int(subprocess.run([self.tool('loader'), str(count), str(alive_us), name,
                                   str(first)],
                                  check=True, capture_output=True, text=True).stdout) / 1e9

    @contextlib.contextmanager
    def loaded(self, count, name='keep'):
        """So many programs loaded for a while."""
        with subprocess.Popen([self.tool('loader'), str(count), 'keep', name],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            if not process.stdout.readline():
                raise RuntimeError('the programs were not loaded')
            yield
            process.stdin.close()

    @contextlib.contextmanager
    def watch(self, path, pid):
        """Counts opens of a file, into .count those of this process, into .others all others."""
        with subprocess.Popen([self.tool('opens'), path, str(pid)], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True) as process:
            process.stdout.readline()
            seen = types.SimpleNamespace()
            yield seen
            seen.count, seen.others = map(int, process.communicate()[0].split())

    @functools.cached_property
    def kallsyms_cpu(self):
        """CPU seconds of one read and parse of /proc/kallsyms."""
        return self.time('parse', self.pick(1, 9), KALLSYMS)[0]


def run_row(bench, what):
    """The three right columns, and whether it was met: True, False, or None for no judgement."""
    try:
        figure = what.measure(bench)
    except Lacking as lacking:
        return '-', f'left out: {lacking}', None
    measured = what.limit.form.format(figure.value)
    if figure.detail:
        measured += f' ({figure.detail})'
    met = None if bench.size == 'quick' else what.limit.judge(figure.value)
    return measured, {True: 'met', False: 'NOT MET', None: ''}[met], met


def run(build, size, words):
    """Prints the table; the number of rows that were not met or failed."""
    bad = 0
    load = os.getloadavg()[0]
    print(f'# {os.cpu_count()} CPUs, kernel {os.uname().release}, load average {load:.1f}; '
          f'medians; times of commands with LC_ALL=C', flush=True)
    print(f'{"what":<74} | {"measured":<58} | {"asked for":<22} |', flush=True)
    with Bench(build, size) as bench:
        for what in ROWS:
            if words and not any(word in what.what for word in words):
                continue
            try:
                measured, verdict, met = run_row(bench, what)
            except (OSError, RuntimeError, subprocess.SubprocessError, ValueError,
                    KeyError) as error:
                measured, verdict, met = '-', f'FAILED: {error!r}', False
            bad += met is False
            print(f'{what.what:<74} | {measured:<58} | {what.limit.text:<22} | {verdict}',
                  flush=True)
    return bad
