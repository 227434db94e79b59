import math

import pytest

from shipper.errors import (
    CertificateRefused,
    InsecureConnection,
    Permanent,
    RightMissing,
    StreamFull,
    Transient,
    Unavailable,
)
from shipper.lifecycle import Stop
from shipper.retry import ARCHIVE, FULL, SESSION, Backoff, Patience, SessionGroup, SessionRetry, until_done
from shipper.testing import Clock

AT_ONCE = Backoff(first=0.0, cap=0.0)


@pytest.fixture
def clock():
    return Clock()


@pytest.mark.parametrize("policy", [SESSION, FULL, ARCHIVE])
def test_delays_are_spread_below_a_ceiling_that_doubles_up_to_its_cap(policy):
    def longest(attempt):
        return max(policy.delay(attempt) for _ in range(300))

    assert 0 <= min(policy.delay(9) for _ in range(300)) < longest(9)
    assert longest(1) < longest(3) < longest(6)
    assert longest(1000) <= 15.0


def test_no_delay_is_longer_than_the_cap():
    assert max(Backoff(first=0.1, cap=5.0).delay(attempt) for attempt in range(1, 200)) <= 5.0


def test_patience_is_short_before_the_first_session_and_long_after_it(clock):
    patience = Patience(at_start=10, later=1000, clock=clock)
    patience.after(Transient("no server"), AT_ONCE)
    clock.turn(11)
    with pytest.raises(Unavailable, match="no server"):
        patience.after(Transient("no server"), AT_ONCE)
    patience.served()
    clock.turn(999)
    assert patience.after(Transient("gone"), AT_ONCE) == 0.0
    clock.turn(2)
    with pytest.raises(Unavailable, match="gone"):
        patience.after(Transient("gone"), AT_ONCE)


def test_a_session_whose_group_was_served_is_no_longer_at_the_start(clock):
    group = SessionGroup()
    first, second = (Patience(at_start=10, later=1000, clock=clock, group=group) for _ in range(2))
    first.served()
    clock.turn(999)
    assert second.after(Transient("no stream"), AT_ONCE) == 0.0
    clock.turn(2)
    with pytest.raises(Unavailable, match="no stream"):
        second.after(Transient("no stream"), AT_ONCE)


def test_the_end_of_patience_keeps_the_hint_of_the_last_error(clock):
    patience = Patience(at_start=1, later=1, clock=clock)
    clock.turn(2)
    with pytest.raises(Unavailable) as caught:
        patience.after(StreamFull("full", hint="make room"), AT_ONCE)
    assert (str(caught.value), caught.value.hint, caught.value.exit_code) == ("full", "make room", 69)


def test_progress_renews_patience_and_backoff(clock):
    patience = Patience(at_start=100, later=100, clock=clock)
    ceiling = Backoff(first=1, cap=10)
    ceiling.delay = float
    assert [patience.after(Transient(), ceiling) for _ in range(3)] == [1, 2, 3]
    clock.turn(99)
    patience.progress()
    clock.turn(99)
    assert patience.after(Transient(), ceiling) == 1


def test_a_short_patience_is_not_slept_away_in_one_delay(clock):
    long = Backoff(first=1, cap=1)
    long.delay = lambda attempt: 60.0
    assert Patience(at_start=8, later=8, clock=clock).after(Transient(), long) == 1.0
    assert Patience(at_start=0, later=0, clock=clock).after(Transient(), long) == 0.1


class Failing:
    """Work that fails some times before it is done."""

    def __init__(self, *errors):
        self.errors = list(errors)
        self.attempts = 0

    async def __call__(self):
        self.attempts += 1
        if self.errors:
            raise self.errors.pop(0)
        return "done"


async def test_work_is_tried_again_after_transient_errors():
    work = Failing(Transient(), StreamFull())
    assert await until_done(work, policy=AT_ONCE, stop=Stop(), attempts=3) == "done"
    assert work.attempts == 3


async def test_the_last_attempts_error_is_raised():
    work = Failing(*[Transient(str(number)) for number in range(5)])
    with pytest.raises(Transient, match="2"):
        await until_done(work, policy=AT_ONCE, stop=Stop(), attempts=3)
    assert work.attempts == 3


async def test_permanent_errors_are_raised_immediately():
    work = Failing(Permanent())
    with pytest.raises(Permanent):
        await until_done(work, policy=AT_ONCE, stop=Stop(), attempts=3)
    assert work.attempts == 1


async def test_a_stop_ends_the_attempts_and_the_nap_between_them():
    stop = Stop()
    hour = Backoff(first=1, cap=1)
    hour.delay = lambda attempt: stop.request() or 3600.0
    work = Failing(Transient("1"), Transient("2"), Transient("3"))
    with pytest.raises(Transient, match="2"):
        await until_done(work, policy=hour, stop=stop, attempts=9)


FOR_A_PERSON = [InsecureConnection, CertificateRefused, RightMissing]


@pytest.mark.parametrize("error", FOR_A_PERSON)
def test_errors_that_only_a_person_can_mend_end_a_start_and_a_command_immediately_with_their_exit_code(clock, error):
    for patience in (
        Patience(at_start=10.0, later=math.inf, clock=clock),
        Patience(at_start=5.0, later=60.0, clock=clock),
    ):
        with pytest.raises(error):
            patience.after(error("no"), AT_ONCE)
    served = Patience(at_start=5.0, later=60.0, clock=clock)
    served.served()
    with pytest.raises(error):
        served.after(error("no"), AT_ONCE)
    assert (InsecureConnection.exit_code, CertificateRefused.exit_code) == (78, 1)


@pytest.mark.parametrize("error", FOR_A_PERSON)
def test_a_daemon_that_has_worked_or_was_reloaded_retries_what_only_a_person_can_cure(clock, error):
    served, reloaded = (Patience(at_start=at, later=math.inf, clock=clock) for at in (10.0, math.inf))
    served.served()
    for patience in (served, reloaded):
        for _ in range(50):
            clock.turn(1000.0)
            assert patience.after(error("no"), SESSION) <= 5.0


async def test_what_only_a_person_can_cure_is_attempted_once(clock):
    attempts = []

    async def work():
        attempts.append(1)
        raise InsecureConnection("no")

    with pytest.raises(InsecureConnection):
        await until_done(work, policy=AT_ONCE, stop=Stop(), attempts=4)
    assert len(attempts) == 1


async def test_sessions_follow_each_other_with_back_off_until_patience_is_at_its_end(clock):
    patience = Patience(at_start=10, later=10, clock=clock)
    waited, reported = [], []

    async def nap(seconds):
        waited.append(seconds)
        clock.turn(6)

    def report(error, seconds):
        reported.append((str(error), seconds))

    retry = SessionRetry("test", patience, nap=nap, policy=lambda _: AT_ONCE, report=report)
    async with retry.attempt():
        pass
    assert (waited, reported) == ([], [])

    async def fail():
        for name in ("the first", "the second", "the third"):
            async with retry.attempt():
                raise Transient(name)

    with pytest.raises(Unavailable, match="the third"):
        await fail()
    assert (waited, reported) == ([0.0, 0.0], [("the first", 0.0), ("the second", 0.0)])
    with pytest.raises(Permanent):
        async with retry.attempt():
            raise Permanent("not a session's end")
