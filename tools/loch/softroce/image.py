"""The kernel and the initramfs of a Soft-RoCE machine: Debian's kernel and its modules, made once and cached.

Nothing is installed on the host: packages are fetched with `apt-get download` and unpacked into the cache folder.
"""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import lzma
import os
import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

MODULES = (
    "virtio_pci",
    "virtio_console",
    "virtio_net",
    "9pnet_virtio",
    "9p",
    "dummy",
    "crc32_generic",
    "rdma_rxe",
    "rdma_ucm",
)
SIGNED = b"~Module signature appended~\n"
# bytes of struct module_signature, which stands before SIGNED (the text that ends a signed module); the struct's last 4
# bytes are the signature's length
SIGNATURE_HEAD = 12
INIT = Path(__file__).resolve().parent / "init"
TOOLS = {**os.environ, "PATH": os.environ.get("PATH", "") + ":/usr/sbin:/sbin", "LC_ALL": "C.UTF-8"}
KVM_LIMIT_S = 10


class Unavailable(Exception):
    """A part of the machine's image cannot be fetched or made; the message is one line with what to do."""


@dataclass(frozen=True)
class Image:
    kernel: Path
    initrd: Path
    version: str


def tool(*command: str | Path, cwd: Path | None = None, data: bytes | None = None) -> str:
    """Runs a program on the host and returns its output; raises Unavailable if it fails."""
    try:
        done = subprocess.run(
            [str(part) for part in command], cwd=cwd, env=TOOLS, input=data, capture_output=True, check=False
        )
    except FileNotFoundError as error:
        raise Unavailable(f"{command[0]} is missing: ./loch softroce installs it on Debian") from error
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise Unavailable(f"{command[0]} failed: {said[-1] if said else f'status {done.returncode}'}")
    return done.stdout.decode(errors="replace")


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Holds a lock on the cache folder: one ./loch softroce at a time fills it, the others wait."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def unpacked(folder: Path, *packages: str) -> Iterator[Path]:
    """Downloads Debian packages and unpacks them into a temporary folder below `folder`."""
    with tempfile.TemporaryDirectory(prefix="unpack-", dir=folder) as holder:
        place = Path(holder)
        try:
            tool("apt-get", "download", *packages, cwd=place)
        except Unavailable as error:
            if os.geteuid() != 0:
                raise Unavailable(f"{error}: `apt-get update` as root may help, then once more") from error
            tool("apt-get", "update")  # mirrors drop old package files, which an outdated package list still names
            tool("apt-get", "download", *packages, cwd=place)
        for package in place.glob("*.deb"):
            tool("dpkg", "-x", package, place / "files")
        yield place / "files"


def kernel_package() -> str:
    """The name of Debian's newest kernel package; the kernels of its cloud flavour have no RDMA modules."""
    listing = tool("apt-cache", "depends", "linux-image-amd64")
    found = re.search(r"Depends: (linux-image-\S+)", listing)
    if not found:
        raise Unavailable("apt-cache knows no linux-image-amd64: `apt-get update` as root, then once more")
    return found.group(1)


def module_chain(tree: Path, version: str) -> list[Path]:
    """The module files in the order in which they are to be loaded, dependencies first."""
    tool("depmod", "-b", tree, version)
    chain: list[Path] = []
    for module in MODULES:
        for line in tool("modprobe", "-d", tree, "-S", version, "--show-depends", module).splitlines():
            kind, _, rest = line.partition(" ")
            path = Path(rest.split()[0])
            if kind == "insmod" and path not in chain:
                chain.append(path)
    return chain


def unpacked_kernel(packed: bytes) -> bytes:
    """The ELF file inside a compressed kernel image (Linux, Documentation/x86/boot.rst).

    Without KVM, decompression in the emulated machine would take seconds.
    """
    sectors = packed[0x1F1] or 4
    offset, length = struct.unpack_from("<II", packed, 0x248)
    start = (sectors + 1) * 512 + offset
    try:
        return lzma.LZMADecompressor().decompress(packed[start : start + length])
    except lzma.LZMAError as error:
        raise Unavailable(f"the kernel of {kernel_package()} is not packed with xz: {error}") from error


def unsigned(module: bytes) -> bytes:
    """A kernel module without its signature, which the guest's kernel does not require but would check by RSA."""
    if not module.endswith(SIGNED):
        return module
    head = len(module) - len(SIGNED) - SIGNATURE_HEAD
    length = struct.unpack_from(">I", module, head + 8)[0]
    return module[: head - length]


def fetch_kernel(folder: Path) -> Path:
    """Fetches the kernel; returns a folder named after it, with `vmlinux`, `modules/` and the `order` of loading."""
    with unpacked(folder, kernel_package()) as files:
        version = next((files / "lib/modules").iterdir()).name
        made = Path(tempfile.mkdtemp(prefix="unpack-", dir=folder))
        (made / "modules").mkdir()
        order = module_chain(files, version)
        for module in order:
            (made / "modules" / module.name).write_bytes(unsigned(module.read_bytes()))
        (made / "order").write_text("".join(f"{module.name}\n" for module in order))
        (made / "vmlinux").write_bytes(unpacked_kernel((files / f"boot/vmlinuz-{version}").read_bytes()))
    made.chmod(0o755)
    return made.rename(folder / f"kernel-{version}")


def make_initrd(kernel: Path, target: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="unpack-", dir=kernel.parent) as holder:
        tree = Path(holder)
        (tree / "bin").mkdir()
        shutil.copytree(kernel / "modules", tree / "modules")
        shutil.copy(kernel / "order", tree / "modules/order")
        busybox = shutil.which("busybox", path=TOOLS["PATH"])
        if not busybox:
            raise Unavailable("busybox is missing: ./loch softroce installs it on Debian")
        shutil.copy(busybox, tree / "bin/busybox")
        shutil.copy(INIT, tree / "init")
        (tree / "init").chmod(0o755)
        names = "".join(f"{path.relative_to(tree)}\n" for path in sorted(tree.rglob("*")))
        archive = subprocess.run(
            ["cpio", "--quiet", "-o", "-H", "newc", "-R", "0:0"],
            cwd=tree,
            input=names.encode(),
            stdout=subprocess.PIPE,
            check=True,
        ).stdout
        part = target.with_suffix(".part")
        part.write_bytes(gzip.compress(archive, 6))
        part.rename(target)


def image(folder: Path) -> Image:
    """The kernel and initramfs in the cache folder; those that are missing are fetched and made."""
    digest = hashlib.sha256(INIT.read_bytes() + repr(MODULES).encode()).hexdigest()[:12]
    with locked(folder):
        kernels = sorted(folder.glob("kernel-*/vmlinux"), key=lambda path: path.stat().st_mtime)
        kernel = kernels[-1].parent if kernels else None
        if kernel and not (kernel / f"initrd-{digest}.gz").exists():
            known = (kernel / "order").read_text().replace("-", "_").split()
            # the cached kernel was fetched for another list of modules
            if any(f"{name}.ko" not in known for name in MODULES):
                shutil.rmtree(kernel)
                kernel = None
        kernel = kernel or fetch_kernel(folder)
        initrd = kernel / f"initrd-{digest}.gz"
        if not initrd.exists():
            for older in kernel.glob("initrd-*"):
                older.unlink()
            make_initrd(kernel, initrd)
    return Image(kernel / "vmlinux", initrd, kernel.name.removeprefix("kernel-"))


def sshd(folder: Path) -> Path:
    """The folder of an unpacked OpenSSH server: installing its package would start the server on the host."""
    place = folder / "sshd"
    with locked(folder):
        if not place.exists():
            with unpacked(folder, "openssh-server", "libwrap0") as files:
                files.rename(place)
    return place


def accelerator(folder: Path, made: Image) -> str:
    """`kvm` if a guest has run with it, else `tcg` (emulation). The test guest runs once after each boot of the
    host."""
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "tcg"
    key = f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()} {made.version} {os.geteuid()}"
    stamp = folder / "accelerator"
    with locked(folder):
        if stamp.exists():
            known, _, name = stamp.read_text().rpartition(" ")
            if known == key:
                return name
        name = "kvm" if kvm_runs(made) else "tcg"
        stamp.write_text(f"{key} {name}")
    return name


def kvm_runs(made: Image) -> bool:
    """Whether a test guest runs with KVM: /dev/kvm may exist and still not run an ordinary guest."""
    command = [
        "qemu-system-x86_64",
        "-accel",
        "kvm",
        "-cpu",
        "host",
        "-m",
        "256",
        "-nodefaults",
        "-display",
        "none",
        "-no-reboot",
        "-serial",
        "stdio",
        "-kernel",
        str(made.kernel),
        "-initrd",
        str(made.initrd),
        "-append",
        "console=ttyS0 quiet panic=-1 loch.probe",
    ]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=KVM_LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return b"loch-probe-ok" in done.stdout
