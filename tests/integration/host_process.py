"""Becomes a process of a host, as a container engine does before it starts the command of a container.

Usage: host_process.py SPEC [ARGUMENTS of the command]. SPEC is a JSON object:

    network    path of the network namespace to enter
    hostname   name of the host
    hosts_file the file that it sees as /etc/hosts
    mounts     list of [source, target, "ro" | "rw" | "tmpfs"]
    root       an empty directory that becomes the root of the file system; null: the root of this machine
    shown      files and directories of this machine that are visible below that root, read-only
    user       numeric user id without any capabilities; null: root
    group      numeric group id
    command    the command, looked up in the `PATH` of the environment

The command has its own process, mount, host name and network namespaces. Its process 1 is this program, which passes on
SIGTERM, reaps and ends with the command; when the program that started this one dies, all of them die.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from typing import Any

_CLONE_NEWNS, _CLONE_NEWUTS, _CLONE_NEWIPC, _CLONE_NEWPID = 0x00020000, 0x04000000, 0x08000000, 0x20000000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_REMOUNT, _MS_BIND, _MS_REC, _MS_PRIVATE = 1, 2, 4, 32, 4096, 16384, 1 << 18
_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 1, 24, 38

_libc = ctypes.CDLL(None, use_errno=True)


def _check(status: int, what: str) -> None:
    if status != 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


def _mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    texts = [None if text is None else text.encode() for text in (source, target, kind, data)]
    _check(_libc.mount(texts[0], texts[1], texts[2], flags, texts[3]), f"mount {source} at {target}")


def _bind(source: str, target: str, writable: bool) -> None:
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    elif not os.path.exists(target):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "w"):
            pass
    _mount(source, target, None, _MS_BIND | (_MS_REC if os.path.isdir(source) else 0))
    if not writable:
        _mount(source, target, None, _MS_BIND | _MS_REMOUNT | _MS_RDONLY)


def _build_root(spec: dict[str, Any]) -> None:
    root = spec["root"]
    prefix = root or ""
    if root is not None:
        _mount("tmpfs", root, "tmpfs", 0, "mode=755")
    # First, because visible paths may be inside them: a checkout of this project below /tmp.
    for options, target, mode in spec["mounts"]:
        if mode == "tmpfs":
            os.makedirs(prefix + target, exist_ok=True)
            _mount("tmpfs", prefix + target, "tmpfs", _MS_NOSUID | _MS_NODEV, options)
    if root is not None:
        for path in spec["shown"]:
            if os.path.islink(path):
                os.makedirs(os.path.dirname(root + path), exist_ok=True)
                os.symlink(os.readlink(path), root + path)
            elif os.path.exists(path):
                _bind(path, root + path, writable=False)
        for directory in ("/proc", "/dev"):
            os.makedirs(root + directory, exist_ok=True)
        _mount("tmpfs", root + "/dev", "tmpfs", 0, "mode=755")
        for device in ("null", "zero", "random", "urandom"):
            _bind(f"/dev/{device}", f"{root}/dev/{device}", writable=True)
        for name, target in (("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")):
            os.symlink(f"/proc/self/fd{target}", f"{root}/dev/{name}")
        os.makedirs(root + "/dev/shm", mode=0o1777)
    for source, target, mode in spec["mounts"]:
        if mode != "tmpfs":
            _bind(source, prefix + target, writable=mode == "rw")
    _bind(spec["hosts_file"], prefix + "/etc/hosts", writable=False)
    _mount("proc", prefix + "/proc", "proc", 0)
    if root is not None:
        _mount("tmpfs", root, None, _MS_REMOUNT | _MS_RDONLY, "mode=755")
        os.chroot(root)
        os.chdir("/")


def _drop_rights(user: int, group: int) -> None:
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    with open("/proc/sys/kernel/cap_last_cap") as file:
        last = int(file.read())
    for capability in range(last + 1):
        _check(_libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0), f"drop capability {capability}")
    os.setgroups([])
    os.setresgid(group, group, group)
    os.setresuid(user, user, user)


def _wait(child: int) -> int:
    """Reaps all processes until `child` ends. Returns its exit status as a shell reports it."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _: os.kill(child, received))
    while True:
        try:
            pid, status = os.waitpid(-1, 0)
        except InterruptedError:
            continue
        if pid == child:
            return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)


def _die_with_parent() -> None:
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "PR_SET_PDEATHSIG")


def main() -> None:
    spec = json.loads(sys.argv[1])
    words = spec["command"] + sys.argv[2:]
    _die_with_parent()
    with open(spec["network"]) as namespace:
        _check(_libc.setns(namespace.fileno(), 0), "setns")
    _check(_libc.unshare(_CLONE_NEWNS | _CLONE_NEWUTS | _CLONE_NEWIPC | _CLONE_NEWPID), "unshare")
    _mount("none", "/", None, _MS_REC | _MS_PRIVATE)
    hostname = spec["hostname"].encode()
    _check(_libc.sethostname(hostname, len(hostname)), "sethostname")
    first = os.fork()
    if first:
        os._exit(_wait(first))
    _die_with_parent()
    _build_root(spec)
    command = os.fork()
    if command:
        os._exit(_wait(command))
    if spec["user"] is not None:
        _drop_rights(spec["user"], spec["group"])
    os.execvpe(words[0], words, os.environ)


if __name__ == "__main__":
    main()
