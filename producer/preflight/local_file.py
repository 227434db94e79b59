"""How far a file of this host is, by its checkpoint and without a server: what `fshipper explain` uses on the host.

It is the scan of a dry run, on a copy of the checkpoint: nothing is sent or changed.
"""

import contextlib
import mmap
import tempfile
from pathlib import Path

from producer.app import CHECKPOINT, host_of, planned, state_path
from producer.checkpoint.store import Checkpoints
from producer.inputs.factory import names_below, with_spools
from producer.inputs.spool import LOG, SPOOLS
from producer.model import Place
from producer.preflight.dry_run import copy_checkpoint
from producer.session.file_stage import files_reply
from producer.tailer.tailer import Tailer, new_tailer
from shipper.control import FilesReply, FilesRequest
from shipper.settings import Settings
from shipper.telemetry import set_up_logging


def explain(
    settings: Settings, host: str, file: str, line: bytes
) -> tuple[FilesReply, tuple[int, int, str] | None] | None:
    """The state of a file, and start, end and source of its newest line with a text; None: another host.

    Start and end 0: the file has no such line. The place is None without a text, or if the file cannot be read.
    Raises ConfigError: this machine's settings name no files. Fatal: the checkpoint cannot be read.
    """
    set_up_logging(style=settings.log.format, level="critical")
    if host != host_of(settings):
        return None
    state = state_path(settings.producer, host)
    with tempfile.TemporaryDirectory(prefix="fshipper-explain-") as directory:
        copy = Path(directory) / CHECKPOINT
        copy_checkpoint(state / CHECKPOINT, copy)
        with contextlib.closing(Checkpoints(copy)) as checkpoints:
            task = planned(settings, once=False, new=checkpoints.fresh and not checkpoints.damaged)
            spools = {str(path / LOG): name for path, name in names_below(state / SPOOLS).items()}
            place, known = checkpoints.place or Place(partition=task.partition), checkpoints.load()
            with contextlib.closing(new_tailer(with_spools(task.following, spools), checkpoints)) as tailer:
                tailer.resume(known)
                tailer.scan()
                reply = files_reply(FilesRequest(file), task, tailer, place, run="", scan_age=0.0)
                return reply, _newest_line(tailer, file, line) if line else None


def _newest_line(tailer: Tailer, file: str, line: bytes) -> tuple[int, int, str] | None:
    source = next((reader.id for reader in tailer.readers if reader.path == file), "")
    try:
        with open(file, "rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
            found = content.rfind(line)
            if found < 0:
                return 0, 0, source
            end = content.find(b"\n", found) + 1 or len(content)
            return content.rfind(b"\n", 0, found) + 1, end, source
    except ValueError:  # an empty file
        return 0, 0, source
    except OSError:
        return None
