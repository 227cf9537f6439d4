# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs programs of a build on a Debian kernel in a virtual machine.

Three parts: a kernel is fetched from the Debian archive, by an apt that has a configuration of its
own, so that it checks signatures and changes nothing of the host's; an initramfs is made of what
the build's tests and the tools that they run need; qemu boots both, without a network, by KVM or
plain emulation. The first process there (tests/vm/init) runs the tests and tells of each on a
serial line. What was fetched is kept in $XDG_CACHE_HOME/ksymfs/vm.
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

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CACHE = os.path.join(os.environ.get('XDG_CACHE_HOME') or os.path.expanduser('~/.cache'), 'ksymfs',
                     'vm')
MIRROR = os.environ.get('KSYMFS_MIRROR', 'http://deb.debian.org')
KEYRING = '/usr/share/keyrings/debian-archive-keyring.gpg'
BOOT_SECONDS = 120

# Name: suites of the archive, and the package that depends on the newest kernel of its kind.
KERNELS = {
    'bullseye': (('debian bullseye', 'debian-security bullseye-security'),
                 'linux-image-cloud-amd64'),
    'bookworm': (('debian bookworm', 'debian-security bookworm-security'),
                 'linux-image-cloud-amd64'),
    'bookworm-6.12': (('debian-security bookworm-security',), 'linux-image-6.12-cloud-amd64'),
    'trixie': (('debian trixie',), 'linux-image-cloud-amd64'),
    'sid': (('debian sid',), 'linux-image-cloud-amd64'),
}
# Loaded when a guest starts, where they are not built in.
BOOT_MODULES = ('fuse', 'overlay')
# There for tests to load.
TEST_MODULES = ('dummy', 'ifb', 'veth')
# Tools that tests run and whose way of working matters; the others are busybox's.
TOOLS = ('bpftool', 'cat', 'cmp', 'cp', 'find', 'grep', 'ls', 'mount', 'readelf', 'rm', 'setpriv',
         'sh', 'stat', 'tar', 'timeout', 'true', 'umount', 'unshare')
TOOLS_OF = {
    'source_tools': ('addr2line', 'gdb', 'nm', 'objdump', 'python3'),
    'tools': ('cpio', 'dd', 'head', 'less', 'python3', 'rg', 'rsync', 'strace', 'tail', 'wc'),
}
TOOL_PATH = '/usr/sbin:/usr/bin:/sbin:/bin'
# What Python opens before it runs a line.
PYTHON_FILES = 'import mmap, os, struct, sys; print("\\n".join(f for m in sys.modules.values() ' \
    'for f in (getattr(m, "__file__", None), getattr(m, "__cached__", None)) if f))'


class Missing(Exception):
    """Something outside the project is not to be had; says what and why."""


def output_of(command, what, **more):
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors='replace', check=False,
                              **more)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Missing(f'{what}: {error}') from error
    if done.returncode:
        raise Missing(f'{what}: {" / ".join(done.stdout.splitlines()[-3:])}')
    return done.stdout


# ---- kernels ----

class Apt:
    """apt with lists of its own, for one kernel."""

    def __init__(self, directory, suites):
        os.makedirs(os.path.join(directory, 'lists', 'partial'), exist_ok=True)
        os.makedirs(os.path.join(directory, 'cache', 'archives', 'partial'), exist_ok=True)
        with open(os.path.join(directory, 'sources.list'), 'w', encoding='ascii') as file:
            for suite in suites:
                archive, name = suite.split()
                file.write(f'deb [signed-by={KEYRING}] {MIRROR}/{archive} {name} main\n')
        with open(os.path.join(directory, 'status'), 'w', encoding='ascii'):
            pass
        options = {'Dir::Etc::SourceList': f'{directory}/sources.list',
                   'Dir::Etc::SourceParts': '/dev/null', 'Dir::State': directory,
                   'Dir::State::Lists': f'{directory}/lists',
                   'Dir::State::Status': f'{directory}/status', 'Dir::Cache': f'{directory}/cache',
                   'APT::Architecture': 'amd64', 'APT::Sandbox::User': 'root',
                   'Acquire::Languages': 'none', 'Acquire::Retries': '2',
                   'Acquire::http::Timeout': '20', 'Debug::NoLocking': 'true'}
        self.options = [f'-o{key}={value}' for key, value in options.items()]

    def update(self):
        output_of(['apt-get', *self.options, '--error-on=any', '-q', 'update'], 'apt-get update',
                  timeout=180)

    def depends(self, package):
        text = output_of(['apt-cache', *self.options, 'show', '--no-all-versions', package],
                         f'apt-cache show {package}')
        found = re.search(r'^Depends: (.*)$', text, re.MULTILINE)
        return re.findall(r'[a-z0-9][a-z0-9.+-]+', found[1]) if found else []

    def download(self, packages, directory):
        output_of(['apt-get', *self.options, '-q', 'download', *packages], 'apt-get download',
                  cwd=directory, timeout=600)


def kernel_packages(apt, package):
    """What has the image and the modules: the packages that a package without files leads to."""
    wanted, found = [package], []
    while wanted:
        name = wanted.pop()
        found.append(name)
        wanted += [other for other in apt.depends(name) if other not in found + wanted and
                   re.match(r'linux-(image|binary|modules)-', other)]
    return found[1:]


def unpack(directory, root):
    """Unpacks what was downloaded, with an index of the modules."""
    for archive in sorted(glob.glob(os.path.join(directory, '*.deb'))):
        output_of(['dpkg-deb', '-x', archive, root], f'unpacking {os.path.basename(archive)}')
    if not os.path.exists(os.path.join(root, 'lib')):
        os.symlink('usr/lib', os.path.join(root, 'lib'))
    for version in os.listdir(os.path.join(root, 'lib', 'modules')):
        output_of(['depmod', '-b', root, version], f'depmod {version}')


def fetch_kernel(name, renew=False):
    """The directory with boot/ and lib/modules/ of a kernel; renew: the newest there is now."""
    suites, package = KERNELS[name]
    directory = os.path.join(CACHE, name)
    root = os.path.join(directory, 'root')
    if os.path.exists(root) and not renew:
        return root
    for tool in ('apt-get', 'dpkg-deb', 'depmod'):
        if not shutil.which(tool):
            raise Missing(f'kernel {name}: no {tool}')
    apt = Apt(os.path.join(directory, 'apt'), suites)
    apt.update()
    packages = kernel_packages(apt, package)
    listed = os.path.join(root, 'packages')
    if os.path.exists(listed):
        with open(listed, encoding='utf-8') as file:
            if file.read().split() == packages:
                return root
    # All or nothing: whoever sees root/ has it whole.
    with tempfile.TemporaryDirectory(dir=directory) as scratch:
        apt.download(packages, scratch)
        fresh = os.path.join(scratch, 'root')
        unpack(scratch, fresh)
        with open(os.path.join(fresh, 'packages'), 'w', encoding='utf-8') as file:
            file.write('\n'.join(packages) + '\n')
        shutil.rmtree(root, ignore_errors=True)
        os.rename(fresh, root)
    return root


# ---- what a guest has in its memory ----

class Archive:
    """A cpio archive as the kernel unpacks it (Documentation/driver-api/early-userspace/)."""

    def __init__(self):
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

    def file(self, path):
        """A file of the host's at the same place."""
        # /lib and others are symlinks.
        path = re.sub(r'^/(bin|sbin|lib|lib64)/', r'/usr/\1/', path)
        if path in self.paths:
            return
        with open(path, 'rb') as file:
            data = file.read()
        self.data(path, data, os.stat(path).st_mode & 0o777)

    def program(self, path):
        """The same with the libraries that it is linked with."""
        self.file(path)
        done = subprocess.run(['ldd', path], capture_output=True, text=True, check=False)
        for library in re.findall(r'(/\S+) \(0x', done.stdout):
            self.file(library)

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
    for path in filter(None, (shutil.which(tool, path=TOOL_PATH) for tool in sorted(tools))):
        archive.program(path)
    if 'python3' in tools:
        done = subprocess.run(['/usr/bin/python3', '-c', PYTHON_FILES], capture_output=True,
                              text=True, check=False)
        for path in filter(os.path.exists, done.stdout.split()):
            archive.file(path)


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

def accelerated():
    return os.access('/dev/kvm', os.R_OK | os.W_OK)


def machine(kernel, initrd, console, results, cpus, memory, append):
    return ['qemu-system-x86_64', '-nodefaults', '-no-user-config', '-display', 'none',
            '-machine', 'pc,accel=' + ('kvm' if accelerated() else 'tcg'), '-cpu', 'max',
            '-smp', str(cpus), '-m', str(memory), '-no-reboot', '-kernel', kernel,
            '-initrd', initrd, '-chardev', f'file,id=console,path={console}',
            '-chardev', f'file,id=results,path={results}', '-serial', 'chardev:console',
            '-serial', 'chardev:results', '-append',
            f'console=ttyS0 panic=-1 oops=panic {append}'.strip()]


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
                yield {'name': name, 'returncode': status, 'duration': hundredths / 100,
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


def run(root, tests, seconds, cpus=2, memory=1024, append=''):
    """Runs tests on the kernel in root. Yields a record for each as it ends; one without a name,
    with the kernel's release and, if the guest did not come to its end, an error."""
    if not shutil.which('qemu-system-x86_64'):
        raise Missing('no qemu-system-x86_64: scripts/deps vm')
    archive = Archive()
    with open(os.path.join(TOP, 'tests', 'vm', 'init'), 'rb') as file:
        archive.data('/init', file.read(), 0o755)
    add_modules(archive, root)
    add_tools(archive, tests)
    add_tests(archive, tests, 1 if accelerated() else 3)
    # Newer packages have it beside the modules.
    (kernel,) = (glob.glob(os.path.join(root, 'boot', 'vmlinuz-*')) or
                 glob.glob(os.path.join(root, 'lib', 'modules', '*', 'vmlinuz')))
    with tempfile.TemporaryDirectory() as scratch:
        initrd, console, results = (os.path.join(scratch, name)
                                    for name in ('initrd', 'console', 'results'))
        with open(initrd, 'wb') as file:
            archive.write(file)
        with open(results, 'wb'):
            pass
        told = Results(results)
        deadline = time.monotonic() + seconds
        command = machine(kernel, initrd, console, results, cpus, memory, append)
        # Being ended, too, ends the machine.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE) as process:
            try:
                while process.poll() is None and time.monotonic() < deadline:
                    yield from told.records()
                    time.sleep(0.1)
                yield from told.records()
            finally:
                timed_out = process.poll() is None
                process.kill()
        with open(console, errors='replace', encoding='utf-8') as file:
            said = file.read()
        error = None
        if not told.done:
            error = f'in {told.running or "no test"}' + \
                (f', after {seconds} s' if timed_out else '')
        yield {'name': None, 'release': told.release, 'error': error, 'console': said}
