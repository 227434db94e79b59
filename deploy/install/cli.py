"""`fshipper install`: its command."""

from deploy.install.options import InstallOptions
from shipper.commands import Command, program_of

app = program_of(
    {
        "install": Command(
            InstallOptions, "deploy.install.app:run", ("install --role host --dry-run", "install --role collector")
        )
    }
)
