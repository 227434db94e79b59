"""In-memory streams that fulfil the ports and can be made to fail; they ship, so that users can test too.

bus = Bus()
stream = bus.add_stream("LOGS_0", "logs.p0.>", max_bytes=1_000_000)
publisher, inbox = MemoryPublisher(bus, "LOGS_0"), MemoryInbox(bus, "LOGS_0")

bus.acks.hold(), bus.acks.release()       # acks come late
bus.acks.drop(1)                          # stored, but without an ack
bus.acks.refuse(3, StreamFull())          # the third publish from now on gets an error ack
bus.end_sessions("the server went away")
stream.forget_last(2)                     # what power loss does to acknowledged messages
stream.recreate(), stream.delete(17)
"""

from shipper.testing.client import MemoryInbox, MemoryPublisher
from shipper.testing.server import Acks, Bus, Clock, MemoryStream

__all__ = ["Acks", "Bus", "Clock", "MemoryInbox", "MemoryPublisher", "MemoryStream"]
