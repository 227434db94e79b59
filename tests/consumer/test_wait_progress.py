"""How far a host is on the way to a time: by which answers it is complete, and by which it is not."""

import pytest

from consumer.fleet.host_files import HostAnswer
from consumer.wait.progress import HostProgress, Known, clock_notes, missing_of, sentence
from shipper.control import FileMark, FilesReply

UNTIL = 100.0
NOTHING = Known({}, {})
DONE = FileMark("a1", "/a.log", 0, 50, 50, 50, 50, 0, 1_700_000_000, "idle")
UNSENT = DONE._replace(size=80)
IN_STREAM = DONE._replace(read=80, offset=80, size=80, sequence=7)
ENDED = IN_STREAM._replace(size=90, ended=True)


def answer(*marks: FileMark, at: float = 110.0, scanned: int = 1000, run: str = "r1", **more: object) -> HostAnswer:
    reply = FilesReply(run, 1_700_000_000_000, scanned, 3, more.pop("pending", len(marks)), marks, **more)
    return HostAnswer(at, reply, clock_error=more.get("clock_error", 0.0))


def progress(*answers: HostAnswer) -> HostProgress:
    host = HostProgress("web1")
    for each in answers:
        host = host.advanced(each, UNTIL)
    return host


COMPLETE = {
    "nothing is pending": [answer()],
    "what was sent is archived": [answer(UNSENT), answer(IN_STREAM._replace(archived=80))],
    "what came later is not waited for": [answer(UNSENT), answer(UNSENT._replace(size=500, offset=90, archived=80))],
    "it is not listed any more": [answer(UNSENT), answer()],
    "a file that ended with a gap": [answer(ENDED), answer(ENDED._replace(archived=80))],
    "an earlier scan counts from the next one on": [answer(UNSENT, scanned=10_001), answer()],
    "the whole list came later": [answer(UNSENT, pending=2), answer()],
}
INCOMPLETE = {
    "no answer": [HostAnswer(110.0)],
    "its scan was before the time": [answer(scanned=10_001)],
    "not sent": [answer(UNSENT)],
    "in the stream": [answer(UNSENT), answer(IN_STREAM)],
    "one byte is missing": [answer(UNSENT), answer(IN_STREAM._replace(archived=79))],
    "ended, in the stream": [answer(ENDED)],
    "not every file is listed": [answer(UNSENT), answer(pending=2)],
    "another process answers, which has other sources": [
        answer(UNSENT),
        answer(UNSENT._replace(source="b2"), run="r2"),
    ],
    "a file cannot be read": [answer(unreadable=1)],
    "a new file is not saved in the checkpoint yet": [answer(unsettled=True)],
}


@pytest.mark.parametrize("name", COMPLETE)
def test_a_host_is_complete_when_all_that_a_scan_after_the_time_found_is_archived(name):
    assert progress(*COMPLETE[name]).is_complete


@pytest.mark.parametrize("name", INCOMPLETE)
def test_a_host_is_not_complete_before(name):
    host = progress(*INCOMPLETE[name])
    assert not host.is_complete
    missing = missing_of(host, NOTHING, UNTIL, 1_700_000_010.0)
    assert missing.why
    assert missing.next_step
    assert sentence(missing).startswith("web1: ")


def test_what_is_missing_is_counted_up_to_the_targets():
    missing = missing_of(progress(answer(UNSENT), answer(UNSENT._replace(size=500, offset=70))), NOTHING, UNTIL, 0.0)
    assert (missing.files[0].unsent, missing.files[0].unarchived) == (10, 20)


def test_a_host_that_leaves_its_partition_is_named_as_that():
    missing = missing_of(progress(answer(IN_STREAM, leaving=True)), NOTHING, UNTIL, 0.0)
    assert "leaves partition 3" in missing.why


def test_a_clock_that_differs_is_named():
    late = HostAnswer(110.0, answer().reply, clock_error=-300.0)
    (note,) = clock_notes(iter([progress(late), progress(answer())]))
    assert note.startswith("the clock of web1 is 5 min after")
