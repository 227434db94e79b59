import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shipper.heartbeat import MAX_BYTES, MAX_FILES, MAX_NAME, Heartbeat, LaggingFile, decode, encode, plausible

BEAT = Heartbeat(version="1.2.3", partition=3, every=5.0, up=86400.5, files=12)


def behind(file: str, octets: int = 1) -> LaggingFile:
    return LaggingFile(file=file, offset=7, behind=octets, age=1.5, still=0.5)


def fields(**changed: object) -> bytes:
    return json.dumps(json.loads(encode(BEAT)) | changed).encode()


def test_an_encoded_heartbeat_is_decoded_unchanged():
    beat = dataclasses.replace(
        BEAT, backlog=9, trouble="stream full", leaves=True, unreadable=2, worst=(behind("/var/log/ä\udcff.log"),)
    )
    assert decode(encode(beat)) == beat


def test_ten_thousand_files_take_no_more_room_than_ten():
    worst = tuple(behind(f"/var/log/{number:05d}/app.log", number) for number in range(10_000))
    said = encode(dataclasses.replace(BEAT, files=10_000, worst=worst))
    assert len(said) < 2048
    assert len(decode(said).worst) == MAX_FILES


def test_names_of_any_length_fit_and_keep_their_ends():
    worst = tuple(behind("/" + "\U0001f4a5" * 4000 + f"/{number}.log") for number in range(MAX_FILES))
    said = encode(dataclasses.replace(BEAT, worst=worst, trouble="x" * 100_000))
    assert len(said) <= MAX_BYTES
    heard = decode(said)
    assert heard.worst
    assert all(len(each.file) <= MAX_NAME and each.file.endswith(".log") for each in heard.worst)


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"no json", b"[]", b"7", b'{"v":2}', b'{"v":1}', b"[" * 10_000, b"\xff", b"x" * (MAX_BYTES + 1)),
        *(fields(files=None), fields(every="nan"), fields(up=float("inf")), fields(worst=7), fields(worst=[7])),
        *(fields(worst=[{"file": "/a"}]), fields(partition="three"), fields(backlog=1e400)),
    ],
)
def test_what_is_no_heartbeat_is_none(content):
    assert decode(content) is None


def test_additional_fields_of_a_newer_version_are_ignored():
    assert decode(fields(mood="good")) == BEAT


def test_no_number_is_out_of_bounds():
    heard = decode(fields(files=-5, backlog=10**40, silent=-1.0, leaves="yes", version="v" * 500))
    assert (heard.files, heard.backlog, heard.silent, heard.leaves) == (0, 2**63 - 1, 0.0, False)
    assert len(heard.version) <= 40


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([field.name for field in dataclasses.fields(Heartbeat)]), JSON))
def test_no_message_of_any_client_raises(changed):
    heard = decode(fields(**changed))
    assert heard is None or len(encode(heard)) <= MAX_BYTES


def test_impossible_numbers_are_in_no_sum_and_reported_as_wrong():
    for wrong in ({"backlog": 2**62}, {"held": 2**51}, {"backlog_age": 1e12}, {"worst": (behind("/f", 2**60),)}):
        beat = plausible(dataclasses.replace(BEAT, backlog_files=7, **wrong))
        assert (beat.backlog, beat.backlog_age, beat.held, beat.worst) == (0, 0, 0, ())
        assert "numbers that cannot be" in beat.trouble


def test_a_backlog_of_a_tebibyte_is_believed():
    beat = dataclasses.replace(BEAT, backlog=2**40, backlog_age=86400.0 * 30)
    assert plausible(beat) == beat
