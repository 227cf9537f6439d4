# SPDX-License-Identifier: GPL-2.0-or-later
"""Counts cases of TAP: those of test programs, and ours."""
import re

TAP_LINE = re.compile(r'(not )?ok\b\s*(\d+)?\s*(?:- )?(.*)')
DIRECTIVE = re.compile(r'#\s*(SKIP|TODO)\b\s*(.*)', re.IGNORECASE)


class Count:
    def __init__(self):
        self.passed = 0
        self.failures = []
        self.skips = []
        self.lacks = []

    def ok(self, name):
        self.passed += 1
        print(f'ok - {name}', flush=True)

    def fail(self, name, output=''):
        self.failures.append(name)
        print(f'not ok - {name}', flush=True)
        for line in output.splitlines()[-60:]:
            print(f'#   {line}', flush=True)

    def skip(self, name, reason):
        self.skips.append((name, reason))
        print(f'ok - {name} # SKIP {reason}', flush=True)

    def add(self, other):
        self.passed += other.passed
        self.failures += other.failures
        self.skips += other.skips
        self.lacks += other.lacks

    def summary(self):
        """Says at the end what failed and what was skipped; returns the exit status."""
        if self.failures:
            print('failed:')
            for name in self.failures:
                print(f'  {name}')
        if self.skips:
            print(f'skipped: {len(self.skips)}')
            for name, reason in self.skips:
                print(f'  {name}: {reason}')
        print(f'{self.passed} passed, {len(self.failures)} failed')
        return 1 if self.failures else 0


def count_tap(count, name, record):
    """Counts the cases of one test program from what it printed."""
    cases = failed = 0
    # cmocka gives no reason on its SKIP line: our helper prints it on the line before.
    reason = ''
    output = record.get('stdout') or ''
    plan = None
    for line in output.splitlines():
        if line.startswith('# SKIP reason: '):
            reason = line[len('# SKIP reason: '):]
            continue
        if line.startswith('# lacks: '):
            count.lacks.append(line[len('# lacks: '):])
            continue
        begin = re.match(r'1\.\.(\d+)(?:\s*#\s*SKIP\s*(.*))?$', line)
        if begin:
            plan = int(begin[1])
            if plan == 0:
                count.skip(name, begin[2] or 'no reason given')
            continue
        match = TAP_LINE.match(line)
        if not match:
            continue
        cases += 1
        directive = DIRECTIVE.search(match[3])
        if directive and directive[1].upper() == 'SKIP':
            # cmocka: `not ok N # SKIP NAME`
            case = match[3][:directive.start()].strip() or directive[2]
            count.skip(f'{name}: {case}', reason or directive[2])
            reason = ''
        elif match[1]:
            failed += 1
            count.fail(f'{name}: {match[3] or match[2]}')
        else:
            count.passed += 1
    # meson takes cmocka's skips for failures, so what counts is that each case is accounted for.
    died = record.get('returncode') not in (0, 77) or record['result'] in ('ERROR', 'TIMEOUT')
    if failed:
        print_log(record)
    elif died or plan is None or (plan and plan != cases):
        count.fail(f'{name}: {record["result"]}, exit status {record.get("returncode")}, '
                   f'{cases} cases of {plan}')
        print_log(record)


def print_log(record):
    for key in ('stdout', 'stderr'):
        for line in (record.get(key) or '').splitlines()[-60:]:
            print(f'#   {line}')
