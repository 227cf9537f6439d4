# SPDX-License-Identifier: GPL-2.0-or-later
"""What guests need of the Debian archive: kernels, and for other machines than this one what the
build needs of libraries and the tests of tools.

It is fetched by an apt that has a configuration of its own, so that it checks signatures and
changes nothing of the host's, and kept in $XDG_CACHE_HOME/ksymfs/vm.
"""
import glob
import os
import re
import shutil
import subprocess
import tempfile
from typing import NamedTuple

CACHE = os.path.join(os.environ.get('XDG_CACHE_HOME') or os.path.expanduser('~/.cache'), 'ksymfs',
                     'vm')
MIRROR = os.environ.get('KSYMFS_MIRROR', 'http://deb.debian.org')
KEYRING = '/usr/share/keyrings/debian-archive-keyring.gpg'


class Kernel(NamedTuple):
    suites: tuple  # of the archive
    package: str  # depends on the newest kernel of its kind
    arch: str = 'amd64'


KERNELS = {
    'bullseye': Kernel(('debian bullseye', 'debian-security bullseye-security'),
                       'linux-image-cloud-amd64'),
    'bookworm': Kernel(('debian bookworm', 'debian-security bookworm-security'),
                       'linux-image-cloud-amd64'),
    'bookworm-6.12': Kernel(('debian-security bookworm-security',),
                            'linux-image-6.12-cloud-amd64'),
    'trixie': Kernel(('debian trixie',), 'linux-image-cloud-amd64'),
    'sid': Kernel(('debian sid',), 'linux-image-cloud-amd64'),
    'bookworm-arm64': Kernel(('debian bookworm', 'debian-security bookworm-security'),
                             'linux-image-cloud-arm64', 'arm64'),
    'sid-arm64': Kernel(('debian sid',), 'linux-image-cloud-arm64', 'arm64'),
}
# Where binaries for another machine get their libraries, headers and tools from: this release's.
SYSROOT_SUITES = ('debian bookworm', 'debian-security bookworm-security')
SYSROOT_PACKAGES = (
    'libc6-dev', 'libcap-dev', 'libcapstone-dev', 'libcmocka-dev', 'libbpf-dev', 'libdw-dev',
    'libelf-dev', 'libfuse3-dev', 'libmd-dev', 'libseccomp-dev', 'libxxhash-dev',
    'systemtap-sdt-dev',
    'binutils', 'bpftool', 'busybox-static', 'coreutils', 'cpio', 'dash', 'diffutils', 'elfutils',
    'findutils', 'gdb', 'grep', 'iproute2', 'less', 'mount', 'procps', 'python3', 'ripgrep',
    'rsync', 'strace', 'tar', 'util-linux')
CROSS_FILE = """[binaries]
c = '{triplet}-gcc'
ar = '{triplet}-ar'
strip = '{triplet}-strip'
pkgconfig = 'pkg-config'

[properties]
sys_root = '{root}'
pkg_config_libdir = '{root}/usr/lib/{triplet}/pkgconfig:{root}/usr/share/pkgconfig'

[built-in options]
c_args = ['--sysroot={root}']
c_link_args = ['--sysroot={root}', '-B{bin}']

[host_machine]
system = 'linux'
cpu_family = '{family}'
cpu = '{family}'
endian = 'little'
"""
FAMILIES = {'amd64': 'x86_64', 'arm64': 'aarch64'}


class Missing(Exception):
    """Something outside the project is not to be had; says what and why."""


def output_of(command, what, stdin=subprocess.DEVNULL, **more):
    try:
        done = subprocess.run(command, stdin=stdin, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors='replace', check=False,
                              **more)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Missing(f'{what}: {error}') from error
    if done.returncode:
        raise Missing(f'{what}: {" / ".join(done.stdout.splitlines()[-3:])}')
    return done.stdout


class Apt:
    """apt with lists of its own, for a machine on which nothing is installed."""

    def __init__(self, directory, suites, arch):
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
                   'APT::Architecture': arch, 'APT::Architectures': arch,
                   'APT::Sandbox::User': 'root',
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

    def download_with_depends(self, packages, directory):
        os.makedirs(os.path.join(directory, 'partial'))
        output_of(['apt-get', *self.options, f'-oDir::Cache::Archives={directory}', '-qy',
                   '--no-install-recommends', '--download-only', 'install', *packages],
                  'apt-get install --download-only', timeout=1200)


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
    """Unpacks what was downloaded, as on a machine where /lib and its like are symlinks."""
    for name in ('bin', 'lib', 'sbin'):
        os.makedirs(os.path.join(root, 'usr', name))
        os.symlink(f'usr/{name}', os.path.join(root, name))
    for archive in sorted(glob.glob(os.path.join(directory, '*.deb'))):
        what = f'unpacking {os.path.basename(archive)}'
        with subprocess.Popen(['dpkg-deb', '--fsys-tarfile', archive],
                              stdout=subprocess.PIPE) as tar:
            output_of(['tar', '-x', '--keep-directory-symlink', '-C', root], what,
                      stdin=tar.stdout)
        if tar.returncode:
            raise Missing(what)


def index_modules(root):
    for version in os.listdir(os.path.join(root, 'lib', 'modules')):
        output_of(['depmod', '-b', root, version], f'depmod {version}')


def fetch_kernel(name, renew=False):
    """The directory with boot/ and lib/modules/ of a kernel; renew: the newest there is now."""
    kernel = KERNELS[name]
    directory = os.path.join(CACHE, name)
    root = os.path.join(directory, 'root')
    if os.path.exists(root) and not renew:
        return root
    for tool in ('apt-get', 'dpkg-deb', 'depmod'):
        if not shutil.which(tool):
            raise Missing(f'kernel {name}: no {tool}')
    apt = Apt(os.path.join(directory, 'apt'), kernel.suites, kernel.arch)
    apt.update()
    packages = kernel_packages(apt, kernel.package)
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
        index_modules(fresh)
        with open(os.path.join(fresh, 'packages'), 'w', encoding='utf-8') as file:
            file.write('\n'.join(packages) + '\n')
        shutil.rmtree(root, ignore_errors=True)
        os.rename(fresh, root)
    return root


def relative_links(root):
    """Makes absolute symlinks relative, so that they lead into root."""
    for folder, folders, files in os.walk(root):
        for path in (os.path.join(folder, name) for name in folders + files):
            target = os.readlink(path) if os.path.islink(path) else ''
            if target.startswith('/'):
                os.unlink(path)
                os.symlink(os.path.relpath(root + target, folder), path)


def fetch_sysroot(arch):
    """The directory with libraries, headers and tools of another machine's. Beside it lies
    cross.ini, a cross file of meson's."""
    directory = os.path.join(CACHE, arch)
    root = os.path.join(directory, 'root')
    triplet = f'{FAMILIES[arch]}-linux-gnu'
    listed = os.path.join(root, 'packages')
    wanted = '\n'.join(SYSROOT_PACKAGES) + '\n'
    for tool in ('apt-get', 'dpkg-deb', f'{triplet}-gcc'):
        if not shutil.which(tool):
            raise Missing(f'binaries for {arch}: no {tool}: scripts/deps matrix')
    if os.path.exists(listed):
        with open(listed, encoding='utf-8') as file:
            if file.read() == wanted:
                return root
    apt = Apt(os.path.join(directory, 'apt'), SYSROOT_SUITES, arch)
    apt.update()
    with tempfile.TemporaryDirectory(dir=directory) as scratch:
        apt.download_with_depends(SYSROOT_PACKAGES, os.path.join(scratch, 'archives'))
        fresh = os.path.join(scratch, 'root')
        unpack(os.path.join(scratch, 'archives'), fresh)
        relative_links(fresh)
        with open(os.path.join(fresh, 'packages'), 'w', encoding='utf-8') as file:
            file.write(wanted)
        # gcc for another machine does not look for ld.lld, which knows all of them, in PATH.
        tools = os.path.join(directory, 'bin')
        os.makedirs(tools, exist_ok=True)
        link = os.path.join(tools, 'ld.lld')
        if not os.path.islink(link):
            os.symlink('/usr/bin/ld.lld', link)
        with open(os.path.join(directory, 'cross.ini'), 'w', encoding='utf-8') as file:
            file.write(CROSS_FILE.format(triplet=triplet, root=root, bin=tools,
                                         family=FAMILIES[arch]))
        shutil.rmtree(root, ignore_errors=True)
        os.rename(fresh, root)
    return root


def cross_file(arch):
    return os.path.join(CACHE, arch, 'cross.ini')
