"""`fshipper demo`: options in, exit code out; 0 only if the proof holds."""

import json
import random
import sys
import time

from deploy.demo import month
from deploy.demo.hosts import HOSTS, generated, replayed
from deploy.demo.options import DemoOptions
from deploy.demo.result import DemoResult
from deploy.demo.scenario import Scenario
from deploy.demo.show import DemoOutput
from deploy.demo.workspace import taken
from deploy.processes import Interrupted, Interrupts, Programs, environment
from shipper.errors import EXIT_OK, EXIT_OTHER, ConfigError, ShipperError


def run(options: DemoOptions) -> int:
    """Run the demo, or write a month. Returns the exit code. Raises ShipperError."""
    try:
        if options.days:
            month.tell(options)
            return EXIT_OK
        result = _demo(options)
    except Interrupted as ended:
        return ended.code
    except OSError as error:
        raise ShipperError(f"{error.filename or options.out}: {error.strerror}", hint=f"see {options.out}") from None
    if options.as_json:
        sys.stdout.write(json.dumps(result.as_json(), indent=1) + "\n")
    return EXIT_OK if result.holds else EXIT_OTHER


def _demo(options: DemoOptions) -> DemoResult:
    """Run the demo and print its result."""
    out, seconds = options.out, options.seconds
    seed = random.SystemRandom().randrange(10_000) if options.seed is None else options.seed
    paths = [*(options.path or []), *(options.more or [])]
    for path in paths:
        if path.resolve().is_relative_to(out.resolve()):
            raise ConfigError(f"--path {path} is in {out}, which the demo replaces", hint="copy it elsewhere")
    feeds, notes = replayed(paths, seconds) if paths else (generated(seconds, seed, time.time), [])
    output = DemoOutput(sys.stderr if options.as_json else sys.stdout)
    output.text(f"fshipper demo: {len(HOSTS)} hosts, {len(feeds)} log files, seed {seed}")
    for note in notes:
        output.event(note)
    with (
        taken(out) as place,
        Interrupts() as interrupts,
        Programs(place.logs, environment("HOSTNAME"), interrupts) as programs,
    ):
        result = Scenario(feeds, seconds, seed, place, programs, output, interrupts).run(report=options.report)
    output.text(result.text())
    return result
