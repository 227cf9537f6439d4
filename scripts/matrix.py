# SPDX-License-Identifier: GPL-2.0-or-later
"""README's table of kernels: what passed of which live test on which of them, and what is missing.

A run replaces the cells of the tests that it was to run. Those of another release of a kernel go
with the first of a run.
"""
import fcntl
import os
import re

import debian
import guest

README = os.path.join(guest.TOP, 'README.md')
BEGIN, END = '<!-- scripts/vm --matrix -->\n', '<!-- end of scripts/vm --matrix -->\n'
ALL = 'all of them'
LACKS = 'what the kernel lacks, or the guest, or what failed'


def cells_of(line):
    return [cell.strip() for cell in line.strip().strip('|').split('|')]


def line_of(cells):
    return '| ' + ' | '.join(cell.replace('|', '/') for cell in cells) + ' |\n'


def said(passed, failed):
    return f'{passed}, {failed} failed' if failed else str(passed)


class Table:
    def __init__(self, text):
        self.releases = {}
        self.passed = {}  # of a test, of a kernel: what its cell says
        self.missing = {}  # of a kernel and test: what was said to be missing, or failed
        tables = [[cells_of(line) for line in part.splitlines()]
                  for part in text.split('\n\n') if part.startswith('|')]
        if not tables:
            return
        (head, _, *rows), *others = tables
        kernels = [cell.partition(' ') for cell in head[1:]]
        self.releases = {name: release for name, _, release in kernels}
        for label, *cells in rows:
            if label != ALL:
                self.passed[label] = {name: cell for (name, _, _), cell in zip(kernels, cells)
                                      if cell}
        for reason, where in others[0][2:] if others else ():
            for kernel, labels in re.findall(r'([^ ]+) \(([^)]*)\)', where):
                for label in labels.split(', '):
                    self.missing.setdefault((kernel, label), []).append(reason)

    def put(self, kernel, release, label, count):
        if self.releases.get(kernel) != release:
            self.releases[kernel] = release
            for cells in self.passed.values():
                cells.pop(kernel, None)
            self.missing = {key: reasons for key, reasons in self.missing.items()
                            if key[0] != kernel}
        label = label.replace('|', '/')
        self.passed.setdefault(label, {})[kernel] = said(count.passed, len(count.failures))
        reasons = {*count.lacks, *(reason for _, reason in count.skips),
                   *(f'failed: {name.rpartition(": ")[2]}' for name in count.failures)}
        self.missing[kernel, label] = [reason.replace('|', '/') for reason in reasons]

    def sum(self, kernel):
        cells = [cells[kernel] for cells in self.passed.values() if kernel in cells]
        return said(sum(int(re.match(r'\d+', cell)[0]) for cell in cells),
                    sum(int(number) for cell in cells
                        for number in re.findall(r'(\d+) failed', cell)))

    def text(self):
        kernels = [name for name in debian.KERNELS if name in self.releases]
        lines = [line_of(['test', *(f'{name} {self.releases[name]}' for name in kernels)]),
                 line_of(['---'] * (len(kernels) + 1))]
        lines.append(line_of([ALL, *(self.sum(name) for name in kernels)]))
        for label in sorted(self.passed):
            cells = self.passed[label]
            if cells:
                lines.append(line_of([label, *(cells.get(name, '') for name in kernels)]))
        where = {}  # of a reason, of a kernel: the tests
        for (kernel, label), reasons in self.missing.items():
            for reason in reasons:
                where.setdefault(reason, {}).setdefault(kernel, []).append(label)
        if where:
            lines += ['\n', line_of([LACKS, 'where']), line_of(['---'] * 2)]
        for reason in sorted(where):
            there = where[reason]
            lines.append(line_of([reason, ' '.join(
                f'{name} ({", ".join(sorted(there[name]))})' for name in kernels
                if name in there)]))
        return ''.join(lines)


def put(kernel, release, label, count):
    """Puts what a test's run counted into README's table. Several may run side by side."""
    with open(README, 'r+', encoding='utf-8') as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        head, begin, rest = file.read().partition(BEGIN)
        old, end, tail = rest.partition(END)
        if not begin or not end:
            raise ValueError('README.md has no place for the table')
        table = Table(old)
        table.put(kernel, release, label, count)
        file.seek(0)
        file.write(head + begin + table.text() + end + tail)
        file.truncate()
