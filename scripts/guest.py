# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs programs of a build on a Debian kernel in a virtual machine.

An initramfs is made of what the build's tests and the tools that they run need; qemu boots it with
a kernel that debian.py has fetched, without a network, by KVM or plain emulation. The first process
there (tests/vm/init) runs the tests and tells of each on a serial line.
"""
import glob
import json
import lzma
import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time

from debian import Missing, output_of

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MACHINES = {
    'amd64': {
        'qemu': 'qemu-system-x86_64', 'machine': 'pc', 'emulated': '', 'triplet': 'x86_64-linux-gnu',
        'console': 'ttyS0', 'results': 'ttyS1', 'serial': ('-serial', 'chardev:results'),
    },
    'arm64': {
        'qemu': 'qemu-system-aarch64', 'machine': 'virt', 'triplet': 'aarch64-linux-gnu',
        # To emulate the architecture's own way of signing pointers takes most of the time.
        'emulated': ',pauth-impdef=on',
        'console': 'ttyAMA0', 'results': 'ttyS0',
        'serial': ('-device', 'pci-serial,chardev=results'),
    },
}
HOST = {'x86_64': 'amd64', 'aarch64': 'arm64'}.get(os.uname().machine)
# Loaded when a guest starts, where they are not built in.
BOOT_MODULES = ('fuse', 'overlay')
# There for tests to load.
TEST_MODULES = ('dummy', 'ifb', 'veth')
# Tools that tests run and whose way of working matters; the others are busybox's.
TOOLS = ('bpftool', 'cat', 'cmp', 'cp', 'find', 'grep', 'ls', 'mount', 'nsenter', 'readelf', 'rm',
         'setpriv', 'sh', 'sleep', 'stat', 'tar', 'timeout', 'true', 'umount', 'unshare')
TOOLS_OF = {
    'events': ('tail',),
    'pins': ('python3.11',),
    'source': ('addr2line', 'eu-addr2line', 'eu-elflint'),
    'source_tools': ('addr2line', 'eu-addr2line', 'eu-elflint', 'eu-readelf', 'gdb', 'nm',
                     'objdump', 'python3'),
    'tools': ('cpio', 'dd', 'head', 'less', 'python3', 'rg', 'rsync', 'strace', 'tail', 'wc'),
    'usdt': ('python3', 'python3.11'),
    'usdt_attach': ('python3.11',),
}
TOOL_PATHS = ('/usr/sbin', '/usr/bin')
# Those that programs load when they run.
LOADED_LIBRARIES = ('libcapstone.so.4', 'libgcc_s.so.1')
# Prints what Python has opened by then; what has a Python.
PYTHON_FILES = 'import collections, mmap, os, re, stat, struct, subprocess, sys; ' \
    'import encodings.ascii, encodings.latin_1; ' \
    'print("\\n".join(f for m in list(sys.modules.values()) ' \
    'for f in (getattr(m, "__file__", None), getattr(m, "__cached__", None)) if f))'
PYTHONS = {
    'gdb': ('gdb', '-nx', '-batch', '-ex'),
    'python3': ('/usr/bin/python3', '-c'),
    'python3.11': ('/usr/bin/python3.11', '-c'),
}
# gdb converts what it reads.
GCONV_FILES = ('UTF-32.so', 'gconv-modules', 'gconv-modules.cache',
               'gconv-modules.d/gconv-modules-extra.conf')


# ---- what a guest has in its memory ----

class Archive:
    """A cpio archive as the kernel unpacks it (Documentation/driver-api/early-userspace/)."""

    def __init__(self, triplet, sysroot=''):
        self.triplet = triplet
        self.sysroot = sysroot
        self.parts = []
        self.paths = set()
        for link in ('bin', 'sbin', 'lib', 'lib64'):
            self.link(f'/{link}', f'usr/{link}')
            self.directory(f'/usr/{link}')

    def entry(self, path, mode, data):
        name = path.lstrip('/').encode() + b'\0'
        fields = (len(self.parts) + 1, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name), 0)
        head = b'070701' + b''.join(b'%08x' % field for field in fields) + name
        self.parts.append(head + bytes(-len(head) % 4) + data + bytes(-len(data) % 4))

    def begin(self, path):
        """Makes the directories above; false if path is there."""
        if path in self.paths:
            return False
        self.paths.add(path)
        if os.path.dirname(path) != '/':
            self.directory(os.path.dirname(path))
        return True

    def directory(self, path):
        if self.begin(path):
            self.entry(path, stat.S_IFDIR | 0o755, b'')

    def link(self, path, target):
        if self.begin(path):
            self.entry(path, stat.S_IFLNK | 0o777, target.encode())

    def data(self, path, data, mode=0o644):
        if self.begin(path):
            self.entry(path, stat.S_IFREG | mode, data)

    def source(self, path):
        """Where the file is that the guest has at a path: the system's are the sysroot's."""
        return self.sysroot + path if self.sysroot and path.startswith('/usr/') else path

    def file(self, path):
        """A file at the same place as here, or in the sysroot. False if it was there already."""
        # /lib and others are symlinks.
        path = re.sub(r'^/(bin|sbin|lib|lib64)/', r'/usr/\1/', path)
        if path in self.paths:
            return False
        source = self.source(path)
        with open(source, 'rb') as file:
            data = file.read()
        self.data(path, data, os.stat(source).st_mode & 0o777)
        return True

    def library(self, name, more):
        """Where a library of that name lies; None."""
        for folder in (*more, f'/usr/lib/{self.triplet}', '/usr/lib'):
            if os.path.exists(self.source(f'{folder}/{name}')):
                return f'{folder}/{name}'
        return None

    def program(self, path):
        """The same with the libraries that it is linked with, and its loader."""
        if not self.file(path):
            return
        source = self.source(re.sub(r'^/(bin|sbin|lib|lib64)/', r'/usr/\1/', path))
        done = subprocess.run(['readelf', '-ldW', source], capture_output=True, text=True,
                              check=False)
        paths = re.findall(r'\(RU?N?PATH\).*\[(/[^]]*)\]', done.stdout)
        for loader in re.findall(r'interpreter: (/[^]]+)\]', done.stdout):
            self.file(loader)
        for name in re.findall(r'\(NEEDED\).*\[(.*)\]', done.stdout):
            library = self.library(name, ':'.join(paths).split(':') if paths else ())
            if library:
                self.program(library)

    def tree(self, top):
        for folder, folders, files in os.walk(top):
            folders[:] = [name for name in folders if not name.endswith('.p')]
            for name in files:
                self.file(os.path.join(folder, name))

    def write(self, file):
        self.entry('TRAILER!!!', 0, b'')
        for part in self.parts:
            file.write(part)


def add_modules(archive, root):
    """The modules and all that they need, unpacked; a list of those that are loaded at once."""
    (version,) = os.listdir(os.path.join(root, 'lib', 'modules'))
    base = os.path.join('/lib/modules', version)
    needs = {}
    with open(f'{root}{base}/modules.dep', encoding='ascii') as file:
        for line in file:
            path, _, others = line.partition(':')
            needs[re.sub(r'\.ko.*', '', os.path.basename(path))] = (path, others.split())
    boot = []
    for module in (*BOOT_MODULES, *TEST_MODULES):
        if module not in needs:
            continue
        path, others = needs[module]
        for one in (*reversed(others), path):
            opener = lzma.open if one.endswith('.xz') else open
            with opener(f'{root}{base}/{one}', 'rb') as file:
                place = os.path.join('/usr' + base, re.sub(r'\.ko.*', '.ko', one))
                archive.data(place, file.read())
            if module in BOOT_MODULES and place not in boot:
                boot.append(place)
    archive.data('/vm/modules', ''.join(place + '\n' for place in boot).encode())


def add_tools(archive, tests):
    tools = {'busybox', *TOOLS}.union(*(TOOLS_OF.get(test['name'], ()) for test in tests))
    for tool in sorted(tools):
        for path in (f'{folder}/{tool}' for folder in TOOL_PATHS):
            if os.path.exists(archive.source(path)):
                archive.program(path)
                break
    for name in LOADED_LIBRARIES:
        library = archive.library(name, ())
        if library:
            archive.program(library)
    for tool, command in PYTHONS.items():
        if tool not in tools:
            continue
        prefix = 'python ' if tool == 'gdb' else ''
        done = subprocess.run([*command, prefix + PYTHON_FILES], capture_output=True, text=True,
                              check=False)
        for path in done.stdout.replace(MACHINES[HOST]['triplet'], archive.triplet).split():
            if os.path.exists(archive.source(path)):
                archive.program(path)
    if 'gdb' in tools:
        for path in (f'/usr/lib/{archive.triplet}/gconv/{name}' for name in GCONV_FILES):
            if os.path.exists(archive.source(path)):
                archive.file(path)
        # What it shows.
        archive.tree(os.path.join(TOP, 'tests', 'bpf'))


def add_tests(archive, tests, slowness):
    """Scripts that run the tests as meson would."""
    asked = {key: value for key, value in os.environ.items() if key.startswith('KSYMFS_')}
    for number, test in enumerate(tests):
        lines = [f'export {key}={shlex.quote(value)}'
                 for key, value in {**asked, **test['env']}.items()]
        lines.append(f'exec timeout -k 5 {test["timeout"] * slowness} {shlex.join(test["cmd"])}')
        archive.data(f'/vm/tests/{number:02}-{test["name"]}', '\n'.join(lines).encode() + b'\n')
        for value in (*test['cmd'], *test['env'].values()):
            if os.path.isfile(value):
                archive.program(value)
            elif os.path.isdir(value) and value.startswith(TOP):
                archive.tree(value)


def live_tests(build, names=()):
    """meson's tests of the suite `live`, or those of these names."""
    text = output_of(['meson', 'introspect', '--tests', build], 'meson introspect')
    tests = [test for test in json.loads(text)
             if any(suite.split(':')[-1] == 'live' for suite in test['suite'])]
    unknown = set(names) - {test['name'] for test in tests}
    if unknown:
        raise ValueError(f'no such live test: {" ".join(sorted(unknown))}')
    return [test for test in tests if not names or test['name'] in names]


# ---- the machine ----

def accelerated(arch):
    """Does KVM run this kind of machine? One on an x86-64 processor without virtualization is of
    software (pvm) and runs kernels that are made for it alone."""
    with open('/proc/cpuinfo', encoding='utf-8') as file:
        able = arch != 'amd64' or re.search(r'^flags.*\b(svm|vmx)\b', file.read(), re.MULTILINE)
    return arch == HOST and bool(able) and os.access('/dev/kvm', os.R_OK | os.W_OK)


def machine(arch, kernel, scratch, cpus, memory, append):
    """The command that boots a kernel with what lies in scratch."""
    this = MACHINES[arch]
    accel = 'kvm' if accelerated(arch) else 'tcg'
    return [this['qemu'], '-nodefaults', '-no-user-config', '-display', 'none',
            '-machine', f'{this["machine"]},accel={accel}', '-cpu',
            'max' if accel == 'kvm' else 'max' + this['emulated'],
            '-smp', str(cpus), '-m', str(memory), '-no-reboot', '-kernel', kernel,
            '-initrd', f'{scratch}/initrd', '-chardev', f'file,id=console,path={scratch}/console',
            '-chardev', f'file,id=results,path={scratch}/results', '-serial', 'chardev:console',
            *this['serial'], '-append',
            f'console={this["console"]} KSYMFS_LINE={this["results"]} panic=-1 oops=panic '
            f'{append}'.strip()]


class Results:
    """Reads what the guest tells, as it comes."""

    def __init__(self, path):
        self.file = open(path, 'rb')  # pylint: disable=consider-using-with
        self.left = b''
        self.release = self.running = None
        self.done = False

    def take(self, size):
        """Bytes if there are so many by now."""
        if len(self.left) < size:
            return None
        taken, self.left = self.left[:size], self.left[size:]
        return taken.decode(errors='replace')

    def records(self):
        self.left += self.file.read()
        while not self.done:
            head, newline, rest = self.left.partition(b'\n')
            words = head.decode(errors='replace').split()
            if not newline:
                return
            if words and words[0] == '@@end':
                name, status, hundredths = words[1], int(words[2]), int(words[3])
                sizes = int(words[4]), int(words[5])
                if len(rest) < sum(sizes):
                    return
                self.left = rest
                self.running = None
                yield {'name': name, 'release': self.release, 'returncode': status,
                       'duration': hundredths / 100,
                       'stdout': self.take(sizes[0]), 'stderr': self.take(sizes[1]),
                       'result': 'TIMEOUT' if status in (124, 137) else 'exit'}
                continue
            self.left = rest
            if words and words[0] == '@@begin':
                self.running = words[1]
            elif words and words[0] == '@@kernel':
                self.release = words[1]
            elif words and words[0] == '@@done':
                self.done = True


class Patience:
    """How long a machine may take, by the processor time that it had: a busy host is no failure of
    the guest's. One that stands still without using any is given up too."""

    def __init__(self, pid, seconds):
        self.path = f'/proc/{pid}/stat'
        self.seconds = seconds
        self.used = 0
        self.begin = time.monotonic()

    def is_over(self):
        try:
            with open(self.path, encoding='ascii', errors='replace') as file:
                fields = file.read().rpartition(')')[2].split()
            self.used = (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')
        except OSError:
            return False
        return self.used > self.seconds or time.monotonic() - self.begin > 4 * self.seconds


def make_archive(arch, root, sysroot, tests):
    archive = Archive(MACHINES[arch]['triplet'], sysroot)
    with open(os.path.join(TOP, 'tests', 'vm', 'init'), 'rb') as file:
        archive.data('/init', file.read(), 0o755)
    archive.data('/etc/passwd', b'root:x:0:0:root:/root:/bin/sh\n'
                 b'nobody:x:65534:65534:nobody:/nonexistent:/bin/false\n')
    archive.data('/etc/group', b'root:x:0:\nnogroup:x:65534:\n')
    add_modules(archive, root)
    add_tools(archive, tests)
    add_tests(archive, tests, 1 if accelerated(arch) else 20)
    return archive


def run(root, tests, seconds, cpus=2, memory=1024, append='', arch='amd64', sysroot=''):
    """Runs tests on the kernel in root, with the sysroot's tools and libraries. Yields a record for
    each as it ends; one without a name with, if the guest did not come to its end, an error.
    seconds: of processor time."""
    if not shutil.which(MACHINES[arch]['qemu']):
        raise Missing(f'no {MACHINES[arch]["qemu"]}: scripts/deps matrix')
    archive = make_archive(arch, root, sysroot, tests)
    # Newer packages have it beside the modules.
    (kernel,) = (glob.glob(os.path.join(root, 'boot', 'vmlinuz-*')) or
                 glob.glob(os.path.join(root, 'lib', 'modules', '*', 'vmlinuz')))
    with tempfile.TemporaryDirectory() as scratch:
        console, results = (os.path.join(scratch, name) for name in ('console', 'results'))
        with open(os.path.join(scratch, 'initrd'), 'wb') as file:
            archive.write(file)
        with open(results, 'wb'):
            pass
        told = Results(results)
        command = machine(arch, kernel, scratch, cpus, memory, append)
        # Being ended, too, ends the machine.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE) as process:
            patience = Patience(process.pid, seconds)
            try:
                while process.poll() is None and not patience.is_over():
                    yield from told.records()
                    time.sleep(0.1)
                yield from told.records()
            finally:
                timed_out = process.poll() is None
                process.kill()
            complaints = process.stderr.read().decode(errors='replace')
        with open(console, errors='replace', encoding='utf-8') as file:
            said = file.read() + complaints
        error = None
        if not told.done:
            error = f'in {told.running or "no test"}' + \
                (f', after {patience.used:.0f} s of processor time' if timed_out else '')
        yield {'name': None, 'release': told.release, 'error': error, 'console': said}
