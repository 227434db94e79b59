"""A file grows, is shipped to its end each time, kills forget what was not saved: each line stays or goes, once."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st
from producing import Host, append

from producer.batcher import Encoder
from producer.transform.edits import Edits
from shipper import codec
from shipper.compression import Compressor, Decompressor
from shipper.model import Encoding

RULES = Edits.of(keep_lines=["^[ks]", "^$"], drop_lines=["^s"])
PARTS = st.lists(
    st.sampled_from(
        [b"k", b"s", b"d", b"k" * 1100, b"d" * 1100, b"\n", b"k\n", b"d\n", b"s\n", b"\r\n", b"k" * 5000, b"d" * 3000]
    ),
    max_size=12,
).map(b"".join)


class Collector:
    """The collector's rule on what an encoder made: from the watermark on, with the help of the map."""

    def __init__(self) -> None:
        self.text = bytearray()
        self.watermark = self.filtered = self.joins = 0

    def take(self, headers: dict[str, str], payload: bytes) -> None:
        block = codec.from_headers(headers)
        assert block.span.start <= self.watermark, "a hole"
        rest = Decompressor().rest(block, payload, at=self.watermark)
        if block.span.end > self.watermark:
            if rest.begins_left_out and self.text and not self.text.endswith(b"\n"):
                self.text += b"\n"
                self.joins += 1
            self.text += rest.content
            self.filtered += rest.filtered
            self.watermark = block.span.end


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(PARTS, st.booleans(), st.sampled_from([1024, 1500, 4096])), max_size=8),
    st.sampled_from(Encoding),
)
def test_a_line_stays_or_goes_by_its_beginning_in_whatever_pieces_it_came(
    steps: list[tuple[bytes, bool, int]], encoding: Encoding
) -> None:
    with TemporaryDirectory() as directory:
        path, collector, whole = Path(directory) / "app.log", Collector(), b""
        path.write_bytes(b"")
        for data, saved, block in [*steps, (b"", True, 1024)]:
            append(path, data)
            whole += data
            plain = encoding is Encoding.PLAIN
            host = Host(Path(directory), "app.log", edits=RULES, once=True, block=block, plain=plain)
            encoder = Encoder(Compressor(encoding), RULES)
            while pieces := host.read(1500):
                for entry in encoder.entries(pieces):
                    collector.take(entry.headers, entry.payload)
                if saved:
                    host.acknowledge()
                    host.save()
            host.kill()
        kept = [line for line in whole.split(b"\n") if line[:1] in {b"k", b""} or line == b"\r"]
        assert bytes(collector.text).replace(b"\n", b"") == b"".join(kept)
        assert collector.watermark == len(whole) == len(collector.text) + collector.filtered
        assert collector.joins == 0
