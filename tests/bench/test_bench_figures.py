"""What the benchmark makes of its readings: medians, ratios, verdicts, and the JSON that others read."""

import json
import math
from collections import Counter

import pytest
from cases.peers import compared
from figures import GIB, Line, Reading, Run, Verdict, cost, figures, judge, percentile, share, throughput, times
from machine import Moment, Share, TooNoisyError, is_noisy, others_cores, ours, quiet
from showing import SCHEMA, Facts, document
from source import Source, make, part, repeated
from suite import Case, Manner, MissingError, outcome

OURS = Line("at least 80 %", "producer", "share", at_least=80.0)


def run_of(value: float, *, disturbed=False) -> Run:
    return Run((Reading("producer", "share", value, "%"),), 0.1, disturbed)


# -- figures ------------------------------------------------------------------------------------------------------


def test_a_figure_is_the_median_of_its_runs_with_the_least_and_the_most():
    (figure,) = figures([run_of(90.0), run_of(70.0), run_of(85.0)])
    assert (figure.median, figure.least, figure.most, figure.runs) == (85.0, 70.0, 90.0, (90.0, 70.0, 85.0))


def test_a_rate_is_in_millions_of_bytes_and_a_cost_is_for_a_gibibyte():
    assert throughput("producer", 500_000_000, 2.0).value == 250.0
    assert cost("producer", GIB // 2, 1.5).value == 3.0


def test_a_share_is_of_the_limit_of_the_same_run():
    ours, limit = throughput("producer", 1_000_000, 1.0), throughput("loop", 1_000_000, 0.8)
    assert share(ours, limit) == Reading("producer", "throughput of loop", pytest.approx(80.0), "%")
    assert times(ours, limit).value == pytest.approx(0.8)


def test_what_took_no_time_is_no_number_and_keeps_no_bound():
    assert math.isnan(throughput("producer", 1, 0.0).value)
    assert not OURS.holds(math.nan)


@pytest.mark.parametrize(("per_cent", "value"), [(50, 50), (95, 95), (99, 99), (100, 100), (0, 1)])
def test_a_percentile_is_a_value_that_was_measured(per_cent, value):
    assert percentile(list(range(100, 0, -1)), per_cent) == value


def test_no_values_have_no_percentile():
    with pytest.raises(ValueError, match="no percentile"):
        percentile([], 99)


@pytest.mark.parametrize(
    ("value", "noisy", "verdict"),
    [
        (80.0, False, Verdict.PASSED),
        (79.9, False, Verdict.FAILED),
        (99.0, True, Verdict.NOISY),
        (10.0, True, Verdict.NOISY),
    ],
)
def test_a_line_is_judged_by_the_median_and_never_on_a_noisy_machine(value, noisy, verdict):
    (judged,) = judge([OURS], figures([run_of(value)]), noisy=noisy)
    assert judged.verdict is verdict


def test_a_line_without_a_figure_is_not_measured():
    (judged,) = judge([OURS], [], noisy=False)
    assert (judged.value, judged.verdict) == (None, Verdict.MISSING)


# -- noise --------------------------------------------------------------------------------------------------------


def test_what_others_use_is_what_all_use_without_us():
    assert others_cores(Moment(0.0, 10.0, 5.0), Moment(4.0, 16.0, 9.0)) == 0.5
    assert others_cores(Moment(0.0, 10.0, 5.0), Moment(4.0, 14.0, 9.1)) == 0.0


def test_ours_are_our_children_those_that_ended_and_the_kernel():
    processes = {
        1: Share(0, 50.0, 0.0),  # another process
        2: Share(0, 0.0, 0.0),
        3: Share(2, 4.0, 0.0),  # a thread of the kernel
        10: Share(1, 1.0, 2.0),  # we, with what we waited for
        11: Share(10, 8.0, 16.0),
        12: Share(11, 32.0, 0.0),
        20: Share(1, 100.0, 0.0),
    }
    assert ours(processes, 10) == 4.0 + 1.0 + 2.0 + 8.0 + 16.0 + 32.0


def test_a_machine_that_does_not_become_quiet_is_refused_with_a_reason():
    with pytest.raises(TooNoisyError, match=r"others use 1\.50 cores"):
        quiet(0.0, look=lambda: 1.5)
    assert quiet(0.0, look=lambda: 0.1) == 0.1


def test_a_machine_that_becomes_quiet_is_waited_for():
    looks = iter([1.5, 0.9, 0.2])
    assert quiet(60.0, look=lambda: next(looks)) == 0.2


# -- runs ---------------------------------------------------------------------------------------------------------


def outcome_of(tmp_path, others_of_runs, *, runs=1):
    """A case whose readings count its runs; of each run it is given what others used meanwhile."""
    moments = iter([moment for others in others_of_runs for moment in (Moment(0, 0, 0), Moment(1, others, 0))])
    count = iter(range(1, 100))
    case = Case("a", "?", lambda place: [Reading("producer", "share", next(count), "%")], lines=(OURS,))
    manner = Manner(tmp_path, runs, wait=lambda: None, now=lambda: next(moments))
    return outcome(case, Source(tmp_path / "s", 1, "none"), manner, told=lambda: None)


def test_a_run_that_others_disturbed_is_done_again(tmp_path):
    found = outcome_of(tmp_path, [0.9, 0.9, 0.0, 0.0], runs=2)
    assert [run.readings[0].value for run in found.runs] == [3, 4]
    assert not found.is_noisy


def test_a_run_that_was_disturbed_every_time_is_kept_and_marked(tmp_path):
    found = outcome_of(tmp_path, [0.9, 0.7, 0.8])
    assert (found.is_noisy, found.runs[0].others_cores) == (True, 0.8)
    assert is_noisy(0.8)


def test_a_case_with_missing_requirements_names_them(tmp_path):
    def run(place):
        raise MissingError("apt-get install it")

    manner = Manner(tmp_path, 1, wait=lambda: None)
    found = outcome(Case("a", "?", run), Source(tmp_path / "s", 1, "none"), manner, told=lambda: None)
    assert (found.runs, found.missing) == ((), "apt-get install it")


# -- the source and its copy --------------------------------------------------------------------------------------


def test_a_source_has_the_requested_size_whatever_samples_are_available(tmp_path):
    source = make(tmp_path / "made.log", 2, samples=tmp_path)
    assert (source.size, source.kind) == (source.path.stat().st_size, "generated lines")
    assert 2_000_000 <= source.size < 4_000_000


def test_a_part_ends_with_a_whole_line_and_a_repetition_has_all_of_it(tmp_path):
    source = make(tmp_path / "made.log", 2, samples=tmp_path)
    less = part(source, 1, tmp_path / "part.log")
    text = less.path.read_bytes()
    assert (len(text), text[-1:]) == (less.size, b"\n")
    assert 999_000 < less.size <= 1_000_000
    assert repeated(less, 3, tmp_path / "thrice.log").path.read_bytes() == text * 3


def test_lines_lost_and_doubled_are_counted_apart():
    assert compared(Counter([b"a", b"b", b"b"]), Counter([b"a", b"b", b"b"])) == (0, 0)
    assert compared(Counter([b"a", b"b", b"b"]), Counter([b"a", b"a", b"b"])) == (1, 1)
    assert compared(Counter([b"a", b"b"]), Counter()) == (2, 0)


# -- what is printed ----------------------------------------------------------------------------------------------


def test_the_document_holds_facts_figures_ratios_and_verdicts(tmp_path):
    facts = Facts("2026-11-20T10:00:00+00:00", 2, "a cpu", 1000, "6.1", "3.11", 64, "lines", 1, 0.0, "always")
    told = json.loads(json.dumps(document(facts, [outcome_of(tmp_path, [0.0])])))
    assert told["schema"] == SCHEMA == 1
    assert told["facts"]["cores"] == 2
    (case,) = told["cases"]
    assert case["runs"] == [{"others_cores": 0.0, "disturbed": False}]
    assert case["figures"] == [
        {"of": "producer", "what": "share", "unit": "%", "median": 1, "least": 1, "most": 1, "runs": [1]}
    ]
    (line,) = case["lines"]
    assert (line["text"], line["at_least"], line["at_most"]) == ("at least 80 %", 80.0, None)
    assert (line["value"], line["verdict"]) == (1, "failed")
