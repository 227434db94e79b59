"""The closed list of events. One function for each emits the log line and the metric; no other code logs or counts.

Labels are bounded: partition, outcome, reason. Never the content of a shipped line.
"""

from shipper.events import browsing as _browsing
from shipper.events import collecting as _collecting
from shipper.events import producing as _producing
from shipper.events.browsing import *  # noqa: F403 - the list is one, in four parts
from shipper.events.collecting import *  # noqa: F403
from shipper.events.producing import *  # noqa: F403
from shipper.events.sessions import *  # noqa: F403
from shipper.telemetry import metrics_in as _metrics_in

PRODUCER_METRICS = _metrics_in(_producing)
COLLECTOR_METRICS = _metrics_in(_collecting)
BROWSE_METRICS = _metrics_in(_browsing)
