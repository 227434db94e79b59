"""`fshipper capacity`: its command."""

from deploy.capacity.options import CapacityOptions
from shipper.commands import Command, program_of

app = program_of(
    {
        "capacity": Command(
            CapacityOptions, "deploy.capacity.app:run", ("capacity --hosts 200 --per-day 50GiB --retention 90d",)
        )
    }
)
