#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs every kind of test that the project has and counts TAP cases.

Stages, in order; name some to run only those:
  format   clang-format has nothing to say
  release  release build without a warning; unit tests, live tests, the fuzzers' corpora
  scarce   SCARCE_LIVE again, each instance with 256 files and 128 MiB in a cgroup
  asan     under ASan, LSan and UBSan: all unit tests, the corpora, and SANITIZED_LIVE
  tsan     under TSan, the tests in which threads meet: TSAN_TESTS
  fuzz     each fuzz target for some seconds, from its corpus
  bench    scripts/bench once through, judging nothing, so that it still runs when it is needed
  vm       VM_TESTS on VM_KERNEL in a virtual machine: see scripts/vm, which runs all on any
Each ends in `ok`/`not ok` lines; the last line of all is `N passed, N failed`. A build, a program
that dies, times out or ends before its plan, and a test that meson lists and did not run are each
one failure.
"""
import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

import debian
import guest
from tap import Count, count_tap

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FUZZ_SECONDS = 6
# Live tests that walk the whole tree through a sanitized daemon.
SANITIZED_LIVE = ('access', 'addr', 'bpf_tree', 'mount', 'nodes', 'pidns')
# What holds most: pins, a whole parse, what is retained, what is carried over.
SCARCE_LIVE = ('crashpins', 'retention', 'sources', 'bpf_tree')
# Where requests, ring readers and workers meet; the others would say no more of it, slowly.
TSAN_TESTS = ('addr', 'mount', 'node', 'nodes', 'pool')
# What the build machine's kernel may refuse: trampolines, modules.
VM_KERNEL = 'bookworm'
VM_TESTS = ('modules', 'rings', 'trampolines', 'unload')
VM_CHURN = '3'
VM_UNLOADS = '80'
VM_SECONDS = 240
SANITIZER_ENV = {
    'ASAN_OPTIONS': 'abort_on_error=0:exitcode=23:detect_stack_use_after_return=1',
    'UBSAN_OPTIONS': 'print_stacktrace=1:halt_on_error=1:exitcode=24',
    'TSAN_OPTIONS': 'halt_on_error=0:exitcode=66:second_deadlock_stack=1',
    'LSAN_OPTIONS': 'exitcode=25',
}


def call(command, timeout, env=None, cwd=TOP):
    """Exit status and output; a timeout is a status of None."""
    try:
        done = subprocess.run(command, cwd=cwd, env={**os.environ, **(env or {})}, timeout=timeout,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors='replace')
        return done.returncode, done.stdout
    except subprocess.TimeoutExpired as expired:
        output = expired.stdout or b''
        if isinstance(output, bytes):
            output = output.decode(errors='replace')
        return None, output + f'\ntimed out after {timeout} s'
    except OSError as error:
        return None, f'{command[0]}: {error}'


def build(count, name, options, compiler=None, targets=()):
    """Builds all or `targets` in build-NAME, warnings being errors; None when that failed."""
    directory = os.path.join(TOP, f'build-{name}')
    env = {'CC': compiler} if compiler else None
    if not os.path.exists(os.path.join(directory, 'build.ninja')):
        status, output = call(['meson', 'setup', '-Dwerror=true', *options, directory, TOP], 120,
                              env)
        if status != 0:
            shutil.rmtree(directory, ignore_errors=True)
            count.fail(f'{name}: meson setup', output)
            return None
    status, output = call(['ninja', '-C', directory, *targets], 900)
    if status != 0:
        count.fail(f'{name}: build', output)
        return None
    count.ok(f'{name}: build')
    return directory


def meson_test(count, stage, directory, tests=(), multiplier=1, env=None):
    status, output = call(['meson', 'introspect', '--tests', directory], 60)
    if status != 0:
        count.fail(f'{stage}: meson introspect', output)
        return
    wanted = set(tests) or {test['name'] for test in json.loads(output)}
    log = os.path.join(directory, 'meson-logs', 'testlog.json')
    if os.path.exists(log):
        os.unlink(log)
    command = ['meson', 'test', '-C', directory, '--no-rebuild', '--num-processes', '2',
               '--timeout-multiplier', str(multiplier), *tests]
    status, output = call(command, 1800, {**SANITIZER_ENV, **(env or {})})
    ran = set()
    if os.path.exists(log):
        with open(log, encoding='utf-8', errors='replace') as file:
            for line in file:
                record = json.loads(line)
                name = record['name'].split(' / ')[-1]
                ran.add(name)
                before = count.passed
                count_tap(count, f'{stage}: {name}', record)
                print(f'# {stage}: {name}: {count.passed - before} passed in '
                      f'{record["duration"]:.1f} s', flush=True)
    for name in sorted(wanted - ran):
        count.fail(f'{stage}: {name} did not run', output)
    if not wanted:
        count.fail(f'{stage}: no tests', output)


def stage_format(count):
    files = subprocess.run(['git', 'ls-files', '*.c', '*.h'], cwd=TOP, capture_output=True,
                           text=True, check=True).stdout.split()
    status, output = call(['clang-format', '--dry-run', '-Werror', *files], 120)
    if status == 0 and files:
        count.ok('format: clang-format')
    else:
        count.fail('format: clang-format', output)


def check_wired(count, directory):
    """A test program that no meson.build names would never be missed."""
    _, output = call(['meson', 'introspect', '--tests', directory], 60)
    wired = {test['name'] for test in json.loads(output)}
    for folder in ('unit', 'live'):
        for source in sorted(os.listdir(os.path.join(TOP, 'tests', folder))):
            match = re.fullmatch(r'test_(\w+)\.c', source)
            if match and match[1] not in wired:
                count.fail(f'release: tests/{folder}/{source} is in no meson.build')


def stage_release(count):
    directory = build(count, 'test', ['--buildtype=release'])
    if directory:
        check_wired(count, directory)
        meson_test(count, 'release', directory)


def stage_scarce(count):
    directory = build(count, 'test', ['--buildtype=release'])
    if directory:
        meson_test(count, 'scarce', directory, tests=SCARCE_LIVE, env={'KSYMFS_LIMITS': '1'})


def has_suite(test, suite):
    return any(name.split(':')[-1] == suite for name in test['suite'])


def stage_asan(count):
    directory = build(count, 'asan', ['--buildtype=debugoptimized',
                                      '-Db_sanitize=address,undefined', '-Db_lundef=false'])
    if directory:
        status, output = call(['meson', 'introspect', '--tests', directory], 60)
        pure = [test['name'] for test in json.loads(output) if not has_suite(test, 'live')]
        meson_test(count, 'asan', directory, tests=(*pure, *SANITIZED_LIVE), multiplier=3)


def stage_tsan(count):
    directory = build(count, 'tsan', ['--buildtype=debugoptimized', '-Db_sanitize=thread',
                                      '-Db_lundef=false'])
    if directory:
        meson_test(count, 'tsan', directory, tests=TSAN_TESTS, multiplier=4)


def fuzz_one(directory, name):
    seeds = os.path.join(TOP, 'tests', 'fuzz', 'corpus', name)
    with tempfile.TemporaryDirectory() as scratch:
        command = [os.path.join(directory, 'tests', 'fuzz', f'fuzz_{name}'),
                   f'-max_total_time={FUZZ_SECONDS}', '-timeout=10', '-rss_limit_mb=2048',
                   f'-artifact_prefix={directory}/crash-{name}-', scratch]
        if os.path.isdir(seeds):
            command.append(seeds)
        return call(command, FUZZ_SECONDS + 60, SANITIZER_ENV)


def stage_fuzz(count):
    sources = os.listdir(os.path.join(TOP, 'tests', 'fuzz'))
    names = sorted(name[len('fuzz_'):-len('.c')] for name in sources
                   if name.startswith('fuzz_') and name.endswith('.c'))
    directory = build(count, 'fuzz', ['-Dc_args=-fsanitize=fuzzer-no-link',
                                      '-Db_sanitize=address,undefined', '-Db_lundef=false'],
                      'clang', ['fuzzers'])
    if not directory:
        return
    if not names:
        count.fail('fuzz: no targets')
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        results = pool.map(lambda name: fuzz_one(directory, name), names)
        for name, (status, output) in zip(names, results):
            if status == 0:
                count.ok(f'fuzz: {name}')
            else:
                count.fail(f'fuzz: {name}', output)


def stage_bench(count):
    directory = build(count, 'test', ['--buildtype=release'])
    if not directory:
        return
    if os.geteuid() != 0:
        count.skip('bench: scripts/bench --quick', 'needs root')
        return
    status, output = call([os.path.join(TOP, 'scripts', 'bench'), '--quick',
                           f'--build={directory}'], 600)
    if status == 0:
        count.ok('bench: scripts/bench --quick')
    else:
        count.fail('bench: scripts/bench --quick', output)


def stage_vm(count):
    directory = build(count, 'test', ['--buildtype=release'])
    if not directory:
        return
    name = f'vm: {VM_KERNEL}'
    ran = []
    try:
        tests = guest.live_tests(directory, VM_TESTS)
        for test in tests:
            test['env']['KSYMFS_CHURN'] = VM_CHURN
            test['env']['KSYMFS_UNLOADS'] = VM_UNLOADS
        root = debian.fetch_kernel(VM_KERNEL)
        for record in guest.run(root, tests, VM_SECONDS):
            if record['name']:
                ran.append(record['name'])
                count_tap(count, f'{name}: {record["name"]}', record)
            elif record['error']:
                count.fail(f'{name}: the guest ended {record["error"]}', record['console'])
    except debian.Missing as missing:
        count.skip(name, str(missing))
        return
    for test in VM_TESTS:
        if test not in ran:
            count.fail(f'{name}: {test} did not run')


STAGES = {'format': stage_format, 'release': stage_release, 'scarce': stage_scarce,
          'asan': stage_asan, 'tsan': stage_tsan, 'fuzz': stage_fuzz, 'bench': stage_bench,
          'vm': stage_vm}


def main():
    wanted = sys.argv[1:] or list(STAGES)
    unknown = [name for name in wanted if name not in STAGES]
    if unknown:
        print(f'usage: scripts/test [{"|".join(STAGES)}]...', file=sys.stderr)
        return 2
    count = Count()
    for name, stage in STAGES.items():
        if name not in wanted:
            continue
        begin = time.monotonic()
        print(f'# {name}', flush=True)
        stage(count)
        print(f'# {name}: {time.monotonic() - begin:.0f} s', flush=True)
    return count.summary()


if __name__ == '__main__':
    sys.exit(main())
