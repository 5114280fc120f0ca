"""Runs a program of yours as the chief of a cluster on this machine.

    python -m tfp_refine.distribute.local --num_workers=2 -- python mine.py

The program calls `tfp_refine.distribute.connect()`. The cluster starts before
it and stops with it. All of them have a network of their own (Linux), without
any access to other machines, as whoever reaches a process of a cluster runs
code as you. With `--allow_all_interfaces` they have that of this machine.
"""

import ctypes
import os
import pathlib
import signal
import socket
import struct
import subprocess
import sys

from absl import app
from absl import flags

from tfp_refine.distribute import local_cluster

_NUM_WORKERS = flags.DEFINE_integer(
    "num_workers", 2, "Number of workers, each a process.", lower_bound=1
)
_ALLOW_ALL_INTERFACES = flags.DEFINE_bool(
    "allow_all_interfaces",
    False,
    "Whether the cluster and the program have the network of this machine, "
    "from where others can reach them.",
)
# Of Linux: sched.h, sockios.h and if.h.
_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 1


def main(argv):
    """Starts the cluster, and runs the program."""
    command = argv[1:]
    if not command:
        raise app.UsageError(
            "Say which program is to run, after `--`: python my_program.py"
        )
    if not _ALLOW_ALL_INTERFACES.value:
        # Only a process that does nothing else yet can change its network.
        again = [
            sys.executable,
            "-m",
            "tfp_refine.distribute.local",
            "--allow_all_interfaces",
            f"--num_workers={_NUM_WORKERS.value}",
            "--",
            *command,
        ]
        sys.exit(_run(again, preexec_fn=_enter_own_network))
    with local_cluster.LocalCluster(
        _NUM_WORKERS.value, allow_all_interfaces=True
    ) as cluster:
        tf_config = cluster.tf_config("chief", 0)
        returncode = _run(command, env=os.environ | {"TF_CONFIG": tf_config})
    sys.exit(returncode)


def _run(command, **options):
    """Runs a program, which gets the signals that this process gets."""
    # Ctrl-C reaches the program as well, which ends in its own time.
    signal.signal(signal.SIGINT, lambda *_: None)
    try:
        program = subprocess.Popen(command, **options)
    except OSError as error:
        raise app.UsageError(f"{command[0]!r}: {error}") from error
    except (subprocess.SubprocessError, ValueError) as error:
        raise app.UsageError(
            "This system does not give the cluster a network of its own, and "
            "others could reach it from that of this machine. Where that is "
            "safe, say so: --allow_all_interfaces"
        ) from error
    signal.signal(signal.SIGTERM, lambda *_: program.terminate())
    return program.wait()


def _enter_own_network():
    """Moves this process to a network that has a loopback interface alone."""
    import fcntl  # which Windows lacks

    user, group = os.getuid(), os.getgid()
    libc = ctypes.CDLL(None, use_errno=True)
    # All but root need a user namespace for it, where they stay who they are.
    if libc.unshare(_CLONE_NEWNET):
        if libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "unshare")
        own = pathlib.Path("/proc/self")
        (own / "setgroups").write_text("deny")
        (own / "uid_map").write_text(f"{user} {user} 1")
        (own / "gid_map").write_text(f"{group} {group} 1")
    with socket.socket() as any_socket:
        request = struct.pack("16sh14x", b"lo", _IFF_UP)
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, request)


if __name__ == "__main__":
    app.run(main)
