"""What every run has to show in the end: byte for byte, or a gap record that names exactly which bytes are missing."""

import signal
from collections.abc import Iterator

from compared import common_prefix, difference
from harness.fleet import Fleet, until
from loggers import Logger
from scene import Actor, Scene

SETTLE_SECONDS = 60.0
AUDIT_GAPS = 2  # exit code of `fshipper audit`: something is missing


def prove(scene: Scene) -> None:
    """Wait until everything is archived, end every program in peace, and compare. Raises AssertionError."""
    scene.mend()
    until(lambda: scene.archived + scene.lost >= scene.written, within=SETTLE_SECONDS, what="not all is archived")
    _all_end_in_peace(scene)
    given = scene.collectors_environment(0)
    scene.fleet.must("consume", "--drain", "--seal", **given)
    for logger in scene.loggers:
        _is_whole(scene.fleet, logger)
    audited = scene.fleet.run("audit", **given)
    gaps = [gap for segment in scene.fleet.segments() for gap in segment.gaps]
    assert audited.returncode == (AUDIT_GAPS if gaps else 0), f"{gaps}\n{audited.stdout}{audited.stderr}"
    left = [path for path in scene.fleet.archive.rglob("*") if path.name.startswith(("_open", "_sealing", "."))]
    assert not left, f"left behind: {left}"


def _all_end_in_peace(scene: Scene) -> None:
    """First who sends, so that all of it is taken; what was not acknowledged in time is sent once more."""
    _end(scene.producers)
    for logger in scene.loggers:
        given = {"HOSTNAME": logger.host, "SHIPPER_CONFIG": str(scene.config)}
        scene.fleet.must("produce", "--once", str(logger.watched), **given)
    _end(scene.collectors)


def _end(actors: list[Actor]) -> None:
    for actor in actors:
        actor.signal(signal.SIGTERM)
    for actor in actors:
        code = actor.wait()
        assert code == 0, f"{actor.name} did not end in peace, but with {code}"


def _is_whole(fleet: Fleet, logger: Logger) -> None:
    generations = [*_not_under_a_name_of_their_own(fleet, logger)]
    expected, got = b"".join(generations), fleet.archived(logger.host, logger.path)
    gaps = sorted(
        (gap.start, gap.end) for segment in fleet.segments() if segment.host == logger.host for gap in segment.gaps
    )
    if not gaps:
        assert got == expected, f"{logger.host}: {difference(got, expected)}"
        return
    missing = []
    for generation in generations:  # what a deletion loses is its end, and no two lines have one number
        arrived = generation.rfind(b"\n", 0, common_prefix(generation, got)) + 1
        got = got[arrived:]
        missing += [(arrived, len(generation))] if arrived < len(generation) else []
    assert not got, f"{logger.host}: {len(got)} bytes came twice or out of order"
    if (
        logger.copies
    ):  # of a file that was cut before its first byte was read its size is known, but not which copy is its
        gaps = [(start, end) for start, end in gaps if start > 0]
    assert sorted(missing) == gaps, f"{logger.host}: missing {missing}, recorded {gaps}"
    assert logger.deletes or not missing, f"{logger.host}: lost {missing}, and nobody deleted anything"


def _not_under_a_name_of_their_own(fleet: Fleet, logger: Logger) -> Iterator[bytes]:
    """The generations that have to be in the log's own file.

    A copy of what came and went between two scans is a file like any other where its name is watched, too.
    """
    for number, generation in enumerate(logger.generations, start=1):
        copy = fleet.archived(logger.host, logger.path.with_name(f"{logger.path.name}.{number}"))
        assert copy in {b"", bytes(generation)}, f"{logger.host}: {difference(copy, bytes(generation))}"
        if not copy:
            yield bytes(generation)
