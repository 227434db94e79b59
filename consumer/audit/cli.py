"""`fshipper audit` and `fshipper redact`: their options."""

from consumer.audit.options import AuditOptions, RedactOptions
from shipper.commands import Command, program_of

app = program_of({"audit": Command(AuditOptions, "consumer.audit.app:run")})
redact_app = program_of({"redact": Command(RedactOptions, "consumer.audit.redact:run")})
