import errno
import gc
import os
import signal
import subprocess
import sys
import threading

import pytest

from tfp_refine import _storage

# As a module of its own, without TensorFlow.
ENVIRONMENT = os.environ | {"PYTHONPATH": os.path.dirname(_storage.__file__)}


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")
    return path


def names(folder):
    return sorted(entry.name for entry in folder.iterdir())


def test_a_file_is_the_old_one_until_the_new_one_is_complete(path):
    with _storage.replacing(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert names(path.parent) == ["a.bin"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, OSError])
def test_an_error_leaves_the_old_file_and_nothing_else(path, error):
    def fail():
        with _storage.replacing(path) as file:
            file.write(b"new")
            raise error

    with pytest.raises(error):
        fail()
    assert path.read_bytes() == b"old"
    assert names(path.parent) == ["a.bin"]


def test_a_full_disk_is_named_and_leaves_the_old_file(path):
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(OSError, match=f"Cannot write '{path}': ") as error:
            _storage.write_bytes(path, bytes(2000))
        _storage.write_bytes(path.with_name("small"), b"fits")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert error.value.errno == errno.EFBIG
    assert path.read_bytes() == b"old"
    assert names(path.parent) == ["a.bin", "small"]


def test_a_file_and_its_name_are_on_the_disk_before_it_is_used(
    path, monkeypatch
):
    events, fsync = [], os.fsync

    def noting(descriptor):
        is_folder = os.path.isdir(f"/proc/self/fd/{descriptor}")
        events.append(("folder" if is_folder else "file", path.read_bytes()))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noting)
    _storage.write_bytes(path, b"new")
    assert events == [("file", b"old"), ("folder", b"new")]


def test_many_writers_leave_a_whole_file(path):
    sizes = range(1, 9)

    def write(size):
        for _ in range(20):
            _storage.write_bytes(path, bytes([size]) * size * 10000)

    threads = [threading.Thread(target=write, args=(s,)) for s in sizes]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        found = path.read_bytes()
        assert found == b"old" or found == found[:1] * found[0] * 10000
    assert names(path.parent) == ["a.bin"]


_HOLD = """
import sys
import _storage
lock = _storage.lock(sys.argv[1], "work", ".a.bin", "`folder`")
print("held", flush=True)
sys.stdin.read()
"""


def hold(folder, code=_HOLD):
    process = subprocess.Popen(
        [sys.executable, "-c", code, folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=ENVIRONMENT,
    )
    assert process.stdout.readline() == b"held\n"
    return process


def lock(folder, name="work"):
    return _storage.lock(folder, name, ".a.bin", "`folder`")


def test_a_folder_belongs_to_one_process_until_that_is_killed(tmp_path):
    with hold(tmp_path) as process:
        for _ in range(2):  # Being refused does not free it.
            with pytest.raises(
                ValueError,
                match=f"'{tmp_path}' is in use by another process, pid "
                f"{process.pid}.*choose another `folder`",
            ):
                lock(tmp_path)
        other = lock(tmp_path, "other")
        process.kill()
    held = lock(tmp_path)
    assert lock(tmp_path) is held  # for all threads of this process
    assert lock(tmp_path / ".." / tmp_path.name, "other") is other


@pytest.mark.slow
def test_a_lock_ends_with_its_last_user(tmp_path):
    held = lock(tmp_path)
    del held
    gc.collect()
    with hold(tmp_path) as process:
        process.kill()


def test_a_forked_process_does_not_have_the_lock(tmp_path):
    code = _HOLD.replace(
        "sys.stdin.read()",
        """
import os
if not os.fork():
    try:
        _storage.lock(sys.argv[1], "work", ".a.bin", "`folder`")
    except ValueError:
        print("refused", flush=True)
""",
    )
    with hold(tmp_path, code) as process:
        assert process.stdout.read() == b"refused\n"


def test_files_that_a_killed_process_left_are_removed(path):
    code = """
import sys
import _storage
with _storage.replacing(f"{sys.argv[1]}/a.bin") as file:
    file.write(b"new")
    print("held", flush=True)
    sys.stdin.read()
"""
    with hold(path.parent, code) as process:
        process.kill()
    path.with_name(".a.bin.tmp").touch()
    assert len(names(path.parent)) == 3
    lock(path.parent)
    assert names(path.parent) == [".a.bin.tmp", ".work.lock", "a.bin"]
    assert path.read_bytes() == b"old"


def test_a_link_in_place_of_a_lock_is_not_followed(path):
    path.with_name(".work.lock").symlink_to(path)
    with pytest.raises(OSError, match="work.lock"):
        lock(path.parent)
    assert path.read_bytes() == b"old"


def test_file_systems_without_locks_are_used_all_the_same(
    tmp_path, monkeypatch
):
    def unsupported(file, operation):
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(_storage.fcntl, "flock", unsupported)
    lock(tmp_path)
    monkeypatch.setattr(_storage, "fcntl", None)
    lock(tmp_path)
