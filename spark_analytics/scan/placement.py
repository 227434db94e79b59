"""What a scan's groups are placed by: whose each segment is, what `wc` says of it, and who said nothing."""

import datetime as dt
from collections.abc import Mapping, Sequence

from shipper.manifest import Segment
from spark_analytics.aggregate.arrow_assign import second_of
from spark_analytics.aggregate.port import Correction, Place, Placing, Silent
from spark_analytics.archive import inventory
from spark_analytics.archive import reconcile as settling
from spark_analytics.archive.inventory import Day, shown
from spark_analytics.archive.reconcile import Counted, Settled
from spark_analytics.lines import timestamps
from spark_analytics.lines.log_formats import Writing
from spark_analytics.scan import format_detection
from spark_analytics.scan.run import Scanned, writing
from spark_analytics.storage.locations import Location

_HOURS = range(1 << 20)
"""Since 1970, until 2089: a manifest may say what it likes."""


def settled(scanned: Scanned, archive: Location) -> dict[int, Settled]:
    """The account of each segment by its number; one that differs from what is listed is looked at in `archive`."""
    by_number = {counted.segment: counted for counted in scanned.found}
    return {
        number: _account(scanned.day, archive, by_number.get(number), segment)
        for number, segment in enumerate(scanned.segments)
    }


def _account(day: Day, archive: Location, counted: Counted | None, segment: Segment) -> Settled:
    there = day.bytes_there(segment)
    account = settling.settled(counted, lines_manifest=segment.lines, bytes_there=there)
    if account is None and counted is not None:
        is_marked, is_cut = format_detection.ends(archive / segment.path, segment.codec)
        account = settling.looked_at(counted, is_marked=is_marked, is_cut=is_cut)
    return account or settling.NOTHING


def placing(
    scanned: Scanned, accounts: Mapping[int, Settled], written: Mapping[format_detection.LogFile, Writing], day: dt.date
) -> Placing:
    """What turns the groups of `scanned` into those of log files and hours."""
    places = [
        Place(number, s.partition, shown(s.host), shown(s.file), writing(written, s).family, hour_of(s.first_time))
        for number, s in enumerate(scanned.segments)
    ]
    return Placing(day, places, _corrections(scanned.found, accounts), _silent(scanned, accounts))


def _corrections(found: Sequence[Counted], accounts: Mapping[int, Settled]) -> list[Correction]:
    return [
        Correction(one.segment, *one.last, account.surplus, *one.first, account.mark)
        for one in found
        if (account := accounts[one.segment]).surplus or account.mark
    ]


def _silent(scanned: Scanned, accounts: Mapping[int, Settled]) -> list[Silent]:
    """Listed segments without a row, missing ones too: their log files are there, with 0 lines."""
    spoke = {scanned.segments[one.segment].path for one in scanned.found}
    sizes = {scanned.segments[number].path: account.bytes for number, account in accounts.items()}
    return [
        Silent(s.partition, shown(s.host), shown(s.file), hour_of(s.first_time), sizes.get(s.path, 0))
        for s in scanned.day.manifests.segments
        if s.path not in spoke
    ]


def hour_of(text: str) -> int | None:
    """The hour of a manifest's time, in seconds since 1970; None where there is none."""
    time = inventory.time_of(text)
    hour = -1 if time is None else second_of(time) // timestamps.HOUR_SECONDS
    return hour * timestamps.HOUR_SECONDS if hour in _HOURS else None
