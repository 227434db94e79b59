"""What can happen: a closed list. One function each emits the log line and the metric; nobody else logs or counts.

Labels are bounded: partition, outcome, reason. Never the content of a shipped line.
"""

from shipper.events import collecting as _collecting
from shipper.events import producing as _producing
from shipper.events.collecting import *  # noqa: F403 - the list is one, in three parts
from shipper.events.producing import *  # noqa: F403
from shipper.events.sessions import *  # noqa: F403
from shipper.telemetry import metrics_in as _metrics_in

PRODUCER_METRICS = _metrics_in(_producing)
COLLECTOR_METRICS = _metrics_in(_collecting)
