"""The options of `fshipper explain`: a class a command, whose docstring is its help."""

from dataclasses import dataclass
from typing import Annotated

import typer

from shipper.commands import Archive, AsJson, ConfigFile, NatsContext, State, Subject, Url, Values


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainOptions:
    """Show how far a file of a host is, or one line of it, and what to do next.

    It queries the producer of the host, the streams and the archive. On the host itself it works without a server. What
    is not known is marked with `?`.

    Ends with 0 when it is in the archive, with 1 when it is not, or not known to be, with 69 when nothing is known of
    the host.
    """

    host: Annotated[str, typer.Argument(help="The host.", metavar="HOST")]
    path: Annotated[str, typer.Argument(help="The file, by its path on the host.", metavar="PATH"), Values.ARCHIVED]
    line: Annotated[str, typer.Option(help="Text of a line: the newest line that contains it.")] = ""
    archive: Archive = None
    reports: Annotated[str, typer.Option(envvar="SHIPPER_REPORT", help="Directory of the reports.")] = "report"
    as_json: AsJson = False
    state: State = None
    url: Url = None
    nats_context: NatsContext = None
    config: ConfigFile = None
    subject: Subject = None
