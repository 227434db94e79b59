"""Rings of tests: what `make check`, `make test` and `make test-all` run, derived from what a test starts.

A test that starts no process is pure. Whether it starts one is read from its code: from the test and its fixtures
through the helpers in `tests` and `bench` to the module `subprocess`. With `FSHIPPER_STARTS=FILE`, starts are written
to that file; those of ring `check` are mistakes.
"""

import functools
import inspect
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
BENCH = TESTS.parent / "bench"
CHECK, TEST, ALL = RINGS = ("check", "test", "all")

PURE_TOGETHER = 20

SEEDS_IN_CHECK = 4
"""Tests with a parameter `seed` run in ring `check` with the first seeds only."""

LONG = {
    "bench/test_bench_runs.py::test_a_case_of_each_kind_shows_its_figures_and_its_limit": "parts of the bench",
    "chaos/test_burst.py": "four bursts; the daily run has one",
    "chaos/test_chaos_seeds.py": "six seeds of faults; the daily run has one",
    "chaos/test_kill_anything.py": "the daily run has one of two seeds",
    "chaos/test_kill_loop.py": "the daily run has two of five ways to begin a file anew",
    "consumer/test_stored_times.py::test_1000_drawn_files_and_windows_equal_a_reference_that_reads_each_line": "the daily run has 25 files",  # noqa: E501
    "deploy/test_demo_verb.py::test_a_demo_over_midnight_has_two_reports": "a second whole demo",
    "deploy/test_demo_verb.py::test_a_signal_ends_it_soon_and_leaves_no_process": "the daily run has SIGINT",
    "deploy/test_demo_verb.py::test_bytes_that_were_not_counted_make_the_proof_fail": "the daily run has test_demo_proof.py",  # noqa: E501
    "deploy/test_demo_verb.py::test_your_own_files_are_replayed_and_the_demo_before_is_replaced": "a second whole demo",
    "deploy/test_packaging.py::test_the_package_contains_program_units_users_and_examples": "builds a Debian package",
    "deploy/test_packaging.py::test_the_package_declares_what_it_needs": "builds a Debian package",
    "deploy/test_packaging.py::test_the_packaged_program_does_not_know_where_it_was_built": "builds a Debian package",
    "deploy/test_packaging.py::test_the_packaged_program_runs_in_its_place": "builds a Debian package",
    "partitioner/test_leaders_on_a_cluster.py": "a cluster of three servers under kills",
    "producer/test_producer_logrotate.py::test_of_every_combination_each_line_arrives_once": "the daily run has a part",
    "spark/test_aggregate.py::test_both_engines_make_equal_tables_of_drawn_days": "the daily run has a generated day",
    "spark/test_formats.py::test_a_drawn_line_means_the_same_in_a_search_and_in_the_report": "the daily run has all examples",  # noqa: E501
    "spark/test_dictionary.py::test_the_example_for_pandas_shows_both_days": "installs pandas",
    "spark/test_prepare.py::test_the_first_report_after_it_uses_the_archive_and_writes_none": "`make setup` prepares",
    "spark/test_report_interrupted.py::test_sigint_while_java_writes_its_file_of_classes_leaves_no_part_of_it": "190 MB",  # noqa: E501
    "spark/test_cluster.py": "Spark clusters of several processes; the daily run has local sessions",
    "test_clones_whole_way.py::test_one_producer_is_never_taken_for_two": "the daily run has three of nine ways",
    "test_clones_whole_way.py::test_two_clones_that_ship_at_the_same_moment_are_both_archived": "one of three lengths",
    "test_documents_run.py::test_every_command_does_what_the_document_describes": "the daily run has README.md",
    "test_edges_whole_way.py::test_both_ends_killed_under_flow_lose_double_and_reorder_nothing": "a minute",
    "test_fleet_in_namespaces.py": "ten machines and a report",
    "test_isolation_on_a_cluster.py": "a cluster of three servers; the daily run has one server",
    "test_moves_whole_way.py": "kills at every step; the daily run has partitioner/test_move_on_a_server.py",
    "test_whole_way.py::test_each_archived_file_equals_its_source_byte_for_byte": "the daily run has zstd and plain",
}
"""Paths of tests, or single tests after `::`, that only `make test-all` runs, and why."""

DAILY = (
    "chaos/test_burst.py::test_a_burst_while_the_server_is_away_arrives_whole_and_needs_little_memory[ended-1]",
    "chaos/test_chaos_seeds.py::test_after_a_seeded_run_of_faults_every_byte_is_there_once_or_its_loss_is_recorded[0]",
    "chaos/test_chaos_seeds.py::test_the_seeds_of_every_deal_meet_every_fault",
    "chaos/test_chaos_seeds.py::test_a_seed_is_the_same_run_every_time",
    "chaos/test_kill_anything.py::test_after_kills_of_producers_server_and_collector_every_byte_is_there_once[0]",
    "chaos/test_kill_loop.py::test_a_file_that_starts_again_every_second_arrives_whole_through_a_kill_every_200_ms[Logging-app.log]",
    "chaos/test_kill_loop.py::test_what_truncations_lose_through_a_kill_every_200_ms_is_recorded_to_the_byte",
    "deploy/test_demo_verb.py::test_a_signal_ends_it_soon_and_leaves_no_process[2-130]",
    "test_clones_whole_way.py::test_two_clones_that_ship_at_the_same_moment_are_both_archived[longer]",
    "test_clones_whole_way.py::test_one_producer_is_never_taken_for_two[killed-plain]",
    "test_clones_whole_way.py::test_one_producer_is_never_taken_for_two[restored-plain]",
    "test_clones_whole_way.py::test_one_producer_is_never_taken_for_two[killed-frames]",
    "test_documents_run.py::test_every_command_does_what_the_document_describes[README.md]",
    "test_whole_way.py::test_each_archived_file_equals_its_source_byte_for_byte[zstd]",
    "test_whole_way.py::test_each_archived_file_equals_its_source_byte_for_byte[plain]",
)
"""Tests below a path of LONG that `make test` runs all the same."""

SLOW = {
    "contract/test_contract_tls.py::test_an_answer_that_is_no_tls_ends_in_an_error_and_gets_no_secret": "waits a second",  # noqa: E501
    "deploy/test_demo_month.py": "a month of archives",
    "partitioner/test_leaders_spread.py": "many random clusters",
    "consumer/test_collector_edits.py::test_whatever_borders_and_resends_the_archive_holds_the_edited_text_once": "drawn",  # noqa: E501
    "consumer/test_collector_syncing.py::test_a_large_segment_makes_room_in_memory": "needs a disk",
    "consumer/test_collector_syncing.py::test_what_is_durable_of_a_file_that_grows_fast_makes_room_in_memory": "needs a disk",  # noqa: E501
    "consumer/test_frame_index.py::test_a_window_of_one_percent_reads_at_most_three_percent": "100 MB",
    "consumer/test_frame_index.py::test_times_of_frames_that_are_estimates_hide_no_line": "150,000 hits",
    "consumer/test_frame_index.py::test_older_segments_are_merged_as_before_and_get_a_table": "100 MB",
    "consumer/test_hostile_messages.py::test_whatever_comes_ends_in_one_of_four_ways_and_inside_the_archive": "drawn",
    "consumer/test_repair_duplicates.py": "several archives in each test",
    "consumer/test_search_queries.py::test_1000_random_queries_over_random_archives_equal_a_slow_reference": "drawn",
    "consumer/test_search_event_times.py::test_drawn_lines_have_the_time_of_a_slow_reference": "drawn",
    "consumer/test_stored_times.py::test_a_window_of_one_percent_of_a_day_by_event_reads_at_most_five": "120 MB",
    "consumer/test_stored_times.py::test_drawn_files_and_windows_equal_a_reference_that_reads_each_line": "drawn",
    "consumer/test_stored_times.py::test_a_burst_has_its_true_numbers": "36 archives",
    "consumer/test_stored_times.py::test_many_marks_leave_the_row_that_is_written_with_every_batch": "many marks",
    "consumer/test_stored_times.py::test_the_times_of_a_busy_file_take_less_than_a_percent": "13 MB",
    "consumer/test_tail_grep.py::test_the_same_lines_are_selected_as_by_comparing_each": "drawn",
    "producer/test_inputs_read.py::test_512_idle_connections_do_not_lock_a_sender_out": "512 connections",
    "producer/test_producer_line_blocks.py": "500,000 lines in one test",
    "producer/test_producer_edits_any_growth.py": "many random lines",
    "producer/test_producer_edits_lines.py": "many random lines",
    "producer/test_producer_patterns.py": "measures CPU time of long texts",
    "producer/test_producer_planted_links.py": "names are exchanged many times while files are opened",
    "producer/test_producer_scale.py": "thousands of files",
    "producer/test_model_of_a_file.py": "1,000 random programs; 5,000 in `make test-all`",
    "spark/test_line_examples.py::test_any_line_is_found_by_its_place_in_a_file_and_in_a_block_of_it": "drawn",
    "spark/test_parquet.py::test_what_was_written_is_read": "drawn",
    "spark/test_report_page.py::test_the_page_of_many_hosts_is_below_300_kib": "pages of 10,000 hosts",
    "unit/test_patterns_reading.py::test_any_bytes_have_a_pattern_for_each_line": "drawn",
}
"""Pure tests that take too long for `make check`, and why."""

REAL_STARTS = ("bench", "deploy", "test_documents_run.py", "test_interrupted_verbs.py", "test_whole_way.py", "spark")
"""Files and folders whose tests start programs as users do. The others fork."""

FORKED = (
    "deploy/test_alerts_fire.py", "deploy/test_install_verb.py", "deploy/test_validate_roles.py",
    "spark/test_report_send.py",
)  # fmt: skip
"""Tests below a path of REAL_STARTS that fork all the same: they test what programs do that run."""

MODULES_THAT_START = ("subprocess", "multiprocessing")
FUNCTIONS_THAT_START = ("fork", "posix_spawn", "create_subprocess_exec", "create_subprocess_shell", "forkpty")


def ring(item: pytest.Item) -> str:
    """The smallest ring that runs a test."""
    if reason(item, LONG) or item.get_closest_marker("long"):
        return ALL
    is_slow = reason(item, SLOW) or item.get_closest_marker("slow") or _seed(item) >= SEEDS_IN_CHECK
    return TEST if is_slow or starts(item) else CHECK


def _seed(item: pytest.Item) -> int:
    seed = item.callspec.params.get("seed") if hasattr(item, "callspec") else None
    return seed if isinstance(seed, int) else 0


def reason(item: pytest.Item, table: dict[str, str]) -> str:
    """Why a table names a test; empty when it does not."""
    path = _path(item)
    whole, each = f"{path}::{getattr(item, 'originalname', item.name)}", f"{path}::{item.name}"
    if whole in DAILY or each in DAILY:
        return ""
    return table.get(whole) or table.get(path, "")


_KNOWN_TO_START: dict[Callable, bool] = {}


def starts(item: pytest.Item) -> bool:
    """Whether a test may start a process."""
    if item.get_closest_marker("starts"):
        return True
    if not isinstance(item, pytest.Function):
        return False
    if hasattr(item, "callspec") and "memory" in item.callspec.params.values():  # the in-memory side of a contract
        return False
    if item.function not in _KNOWN_TO_START:  # the other parameters of a test start the same
        found = "spark" in item.fixturenames or any(_starts(function) for function in _functions(item))
        _KNOWN_TO_START[item.function] = found
    return _KNOWN_TO_START[item.function]


def group(item: pytest.Item, number: int) -> str:
    """Tests that one worker runs: they share a Spark session, or a fixture of their module; empty: none.

    Pure tests of a file go to a worker by twenties: a test of its own costs more to give out than to run. `number`: of
    the test among those of its file.
    """
    if "spark" in getattr(item, "fixturenames", ()):
        return "spark"
    if any(definition.scope in ("module", "class", "package") for definition in _definitions(item)):
        return _path(item)
    return "" if starts(item) else f"{_path(item)} {number // PURE_TOGETHER}"


def order(item: pytest.Item) -> int:
    """Position in a parallel run: tests of a group that takes long first, pure tests last."""
    if "spark" in getattr(item, "fixturenames", ()):
        return 0
    if _path(item).startswith(("test_documents_run.py", "chaos/", "deploy/", "spark/")):
        return 1
    return 2 if starts(item) else 3


def is_start_tested(item: pytest.Item) -> bool:
    """Whether programs start by an exec, because their start is part of what is tested."""
    path = _path(item)
    return (path.split("/")[0] in REAL_STARTS and path not in FORKED) or "real_start" in item.keywords


def _path(item: pytest.Item) -> str:
    return _posix_path(item.path)


@functools.cache
def _posix_path(path: Path) -> str:
    return path.relative_to(TESTS).as_posix()


def _functions(item: pytest.Function) -> Iterator[Callable]:
    yield item.function
    for definition in _definitions(item):
        yield definition.func


def _definitions(item: pytest.Item) -> Iterator[pytest.FixtureDef]:
    information = getattr(item, "_fixtureinfo", None)
    for definitions in information.name2fixturedefs.values() if information else ():
        for definition in definitions:
            if _is_ours(inspect.unwrap(definition.func)):
                yield definition


def _is_ours(what: object) -> bool:
    return _is_module_of_tests(getattr(what, "__module__", "") or "")


@functools.cache
def _is_module_of_tests(name: str) -> bool:
    file = getattr(sys.modules.get(name), "__file__", None)
    return file is not None and _is_file_of_tests(file)


@functools.cache
def _is_file_of_tests(file: str) -> bool:
    return Path(file).is_relative_to(TESTS) or Path(file).is_relative_to(BENCH)


@functools.cache
def _starts(function: Callable) -> bool:
    """Whether any code that a function can reach within `tests` names a way to start a process."""
    waiting: list[object] = [inspect.unwrap(function)]
    seen: set[int] = set()
    while waiting:
        found = waiting.pop()
        if id(found) in seen:
            continue
        seen.add(id(found))
        reached, starting = _reached(found)
        if starting:
            return True
        waiting += reached
    return False


@functools.cache
def _reached(what: object) -> tuple[list[object], bool]:
    """What of `tests` a function or class names directly, and whether it starts a process itself."""
    if inspect.isclass(what):
        members = [
            inspect.unwrap(_plain(member)) for kind in what.__mro__ if _is_ours(kind) for member in vars(kind).values()
        ]
        return [member for member in members if inspect.isfunction(member)], False
    code = getattr(what, "__code__", None)
    if code is None:
        return [], False
    names = set(_names(code))
    space = what.__globals__
    values = [space[name] for name in names if name in space]
    modules = [value for value in values if isinstance(value, types.ModuleType)]
    if any(module.__name__ in MODULES_THAT_START for module in modules) or names & set(FUNCTIONS_THAT_START):
        return [], True
    for module in modules:
        if _is_file_of_tests(getattr(module, "__file__", None) or "/"):
            values += [vars(module)[name] for name in names if name in vars(module)]
    return [value for value in map(_plain, values) if _is_code(value) and _is_ours(value)], False


def _plain(value: object) -> object:
    """The function below a property, a static method or a decorator."""
    if isinstance(value, property):
        return value.fget
    if isinstance(value, functools.partial):
        return value.func
    return inspect.unwrap(getattr(value, "__func__", value)) if callable(value) or hasattr(value, "__func__") else value


def _is_code(value: object) -> bool:
    return inspect.isfunction(value) or inspect.isclass(value)


def _names(code: types.CodeType) -> Iterable[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)
