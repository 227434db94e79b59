"""`validate --role collector --connect`: what a collector needs of the server, with its rights. Stores nothing."""

from producer.preflight.report import Finding, ServerFindings, durability_finding, good, note, wrong
from shipper.errors import ShipperError, StreamMissing
from shipper.jetstream.admin import Admin
from shipper.jetstream.connection import connect
from shipper.jetstream.durability import Durability
from shipper.jetstream.kv_bucket import JetStreamBucket
from shipper.jetstream.stream_status import DurabilityReader, status
from shipper.settings import Settings
from shipper.subjects import BUCKET_STREAM, map_key
from shipper.units import counted

APPLY = "run: fshipper partition apply"


async def ask_as_collector(settings: Settings) -> ServerFindings:
    """Findings about the server, its streams and the bucket of the collectors. The first refusal ends them."""
    found: list[Finding] = []
    durability: Durability | None = None
    prefix = settings.logs.subject
    try:
        connection = await connect(settings.nats, name="fshipper validate", inbox="_INBOX_collector")
    except ShipperError as error:
        return ServerFindings([wrong("server", str(error), error.hint)])
    async with connection:
        found.append(good("server", f"{settings.nats.shown_url} answers, and accepts this user"))
        try:
            now = await status(Admin(connection), subject=prefix)
            partitions, durability = now.partitions, await DurabilityReader(settings.nats).read(connection, now)
            found.append(durability_finding(durability))
            if partitions:
                found.append(good("streams", f"{counted(len(partitions), 'partition')} of {prefix!r}"))
            else:
                found.append(wrong("streams", f"there is no stream of {prefix!r}", APPLY))
            found += [
                wrong("consumer", f"{each.stream} has no consumer", APPLY) for each in partitions if each.lag is None
            ]
            await JetStreamBucket(connection).entries([map_key(prefix)])
            found.append(good("leases", f"the bucket {BUCKET_STREAM} can be read"))
        except StreamMissing:
            found.append(note("leases", f"there is no bucket {BUCKET_STREAM} yet; the first collector makes it"))
        except ShipperError as error:
            found.append(wrong("rights", str(error), error.hint))
    return ServerFindings(found, durability)
