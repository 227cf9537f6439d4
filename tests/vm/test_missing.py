#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Where qemu or a kernel cannot be had, the stage vm says so and is skipped, and scripts/vm fails:
somebody asked for it. A guest that does not come to its end is a failure of both."""
import contextlib
import io
import os
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, 'scripts'))
sys.dont_write_bytecode = True
import debian  # pylint: disable=wrong-import-position
import guest  # pylint: disable=wrong-import-position
import run_tests  # pylint: disable=wrong-import-position
from tap import Count  # pylint: disable=wrong-import-position

BUILD = sys.argv[1]


def stage(scratch):
    """What the stage counts, with a build that is there."""
    count = Count()
    debian.CACHE = os.path.join(scratch, 'cache')
    run_tests.build = lambda *_: BUILD
    with contextlib.redirect_stdout(io.StringIO()):
        run_tests.stage_vm(count)
    return count


def without_a_mirror(scratch):
    # Nobody listens there.
    debian.MIRROR = 'http://127.0.0.1:9'
    count = stage(scratch)
    ((name, reason),) = count.skips
    return not count.failures and name.startswith('vm') and 'apt-get update' in reason


def without_qemu(scratch):
    os.environ['PATH'], path = '/nonexistent', os.environ['PATH']
    try:
        list(guest.run(scratch, [], 1))
    except debian.Missing as missing:
        return 'qemu' in str(missing)
    finally:
        os.environ['PATH'] = path
    return False


def with_a_machine_that_ends(scratch):
    return ended_by(scratch, '#!/bin/sh\nexit 1\n', 60, lambda error: error == 'in no test')


def with_a_machine_that_hangs(scratch):
    return ended_by(scratch, '#!/bin/sh\nwhile :; do :; done\n', 0.2,
                    lambda error: 'processor time' in error)


def ended_by(scratch, qemu, seconds, expected):
    """Runs something else for qemu."""
    path = os.path.join(scratch, 'qemu')
    with open(path, 'w', encoding='ascii') as file:
        file.write(qemu)
    os.chmod(path, 0o755)
    boot = os.path.join(scratch, 'boot')
    modules = os.path.join(scratch, 'lib', 'modules', '1.0')
    for folder in (boot, modules):
        os.makedirs(folder)
    for file in (os.path.join(boot, 'vmlinuz-1.0'), os.path.join(modules, 'modules.dep')):
        with open(file, 'wb'):
            pass
    guest.machine = lambda _arch, _kernel, place, *_: ['sh', '-c', f': > {place}/console; exec {path}']
    guest.shutil.which = lambda name: name
    (record,) = guest.run(scratch, [], seconds)
    return record['error'] and expected(record['error'])


CASES = (without_a_mirror, without_qemu, with_a_machine_that_ends, with_a_machine_that_hangs)
print(f'1..{len(CASES)}')
for number, case in enumerate(CASES, 1):
    with tempfile.TemporaryDirectory() as place:
        result = 'ok' if case(place) else 'not ok'
    print(f'{result} {number} - {case.__name__}', flush=True)
