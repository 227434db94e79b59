"""Many files, few descriptors: none is lost, none leaks."""

import errno
import os

import pytest
from collecting import HOST, Log, cuts

from consumer.commit import disk_io
from consumer.commit.sink import Sink
from consumer.model import OpenFile
from shipper.layout import FileKey

LINES = b"".join(b"%d a line\n" % number for number in range(200))


async def test_more_files_than_descriptors_are_all_written(harness):
    logs = [Log(LINES, id=f"{number:016x}", file=f"/var/log/{number}.log") for number in range(50)]
    for span in cuts(LINES, 700):
        for log in logs:
            harness.send(log, *span)
    before = len(os.listdir("/proc/self/fd"))
    with harness.worker() as worker:
        await worker.run()
        assert len(worker._store.sink._descriptors) == harness.open_files
    assert len(os.listdir("/proc/self/fd")) <= before + 1
    for log in logs:
        assert harness.text(log) == LINES


def test_a_file_that_makes_room_and_cannot_be_synced_is_still_open_and_tried_again(tmp_path, monkeypatch):
    monkeypatch.setattr(disk_io, "_reports", lambda _: False)  # else all are synced by one call, open or closed
    sink = Sink(tmp_path, open_files=1, links=False)
    files = [OpenFile(path=name, key=FileKey("2026-11-20", 0, HOST, name)) for name in ("a", "b")]
    for file in files:
        sink.create(file)
    sink.append(files[0], [b"x"], at=0)

    def failed(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    before = len(os.listdir("/proc/self/fd"))
    with monkeypatch.context() as patched:
        patched.setattr(os, "fdatasync", failed)
        for _ in range(3):
            with pytest.raises(OSError, match="Input/output"):
                sink.append(files[1], [b"y"], at=0)
    assert len(os.listdir("/proc/self/fd")) == before
    sink.append(files[1], [b"y"], at=0)
    sink.sync()
    sink.close()
    assert len(os.listdir("/proc/self/fd")) == before - 1
