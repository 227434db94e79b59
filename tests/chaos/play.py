"""One seed from beginning to end: the schedule is played, then the archive has to prove itself."""

import contextlib
import shutil
import time
from pathlib import Path

from faults import befall
from proof import prove
from scene import Scene, scene
from schedule import Round, schedule


def play(seed: int, directory: Path) -> str:
    """A line of what happened; the directory stays only where something failed, with everything for an analysis."""
    chosen, begun = schedule(seed), time.monotonic()
    with scene(directory, chosen) as world:
        try:
            world.begin()
            for each in chosen.rounds:
                _play(world, each)
            played = time.monotonic()
            prove(world)
        except BaseException as error:
            error.add_note(f"{world.describe()}\nall of it is in {directory}")
            raise
    shutil.rmtree(directory)
    seconds, proof = played - begun, time.monotonic() - played
    faults = ", ".join(sorted(chosen.faults))
    told = "; ".join([faults, *world.notes])
    return f"seed {seed}: {world.written / 1e6:.1f} MB, {seconds:.1f} s, {proof:.1f} s for the proof; {told}"


def _play(world: Scene, each: Round) -> None:
    before = world.written
    world.write(each.before)
    world.wait_archived(before + int(each.share * each.before))
    with contextlib.ExitStack() as stack:
        for blow in each.blows:
            stack.enter_context(befall(world, blow))
        world.write(each.during)
