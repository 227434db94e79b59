"""How much memory there is: the values of the system, from its own files laid out in a directory."""

import pytest

from spark_analytics.runtime.tuning import DEFAULT_AVAILABLE_BYTES, available_bytes

GIB = 1 << 30


@pytest.fixture
def machine(tmp_path):
    """Writes files of a machine whose memory is 16 GiB, of which 8 are available."""

    def written(groups, **files):
        system = {"proc/meminfo": f"MemTotal: {16 << 20} kB\nMemAvailable: {8 << 20} kB\n", "proc/self/cgroup": groups}
        for name, content in (system | files).items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        return tmp_path

    return written


def limited(directory, most, used, files):
    return {
        f"sys/fs/cgroup/{directory}memory.max": f"{most}\n",
        f"sys/fs/cgroup/{directory}memory.current": f"{used}\n",
        f"sys/fs/cgroup/{directory}memory.stat": f"anon 7\ninactive_file {files}\n",
    }


def test_without_a_limit_it_is_what_the_machine_has(machine):
    root = machine("0::/system.slice/fshipper.service\n", **limited("system.slice/fshipper.service/", "max", 5, 1))

    assert available_bytes(root) == 8 * GIB


def test_a_service_has_what_its_limit_leaves_and_what_files_would_give_back(machine):
    limit = limited("system.slice/fshipper.service/", 3 * GIB, 2 * GIB, GIB)

    assert available_bytes(machine("0::/system.slice/fshipper.service\n", **limit)) == 2 * GIB


def test_the_limit_of_an_outer_group_counts_too(machine):
    inner = limited("night.slice/fshipper.service/", 6 * GIB, GIB, 0)
    outer = limited("night.slice/", 4 * GIB, 3 * GIB, 0)

    assert available_bytes(machine("0::/night.slice/fshipper.service\n", **inner, **outer)) == GIB


def test_in_a_container_its_own_group_is_the_outermost(machine):
    assert available_bytes(machine("0::/\n", **limited("", 2 * GIB, GIB, 0))) == GIB


def test_groups_of_version_1_are_read_as_well(machine):
    files = {
        "sys/fs/cgroup/memory/box/memory.limit_in_bytes": f"{2 * GIB}\n",
        "sys/fs/cgroup/memory/box/memory.usage_in_bytes": f"{GIB}\n",
        "sys/fs/cgroup/memory/box/memory.stat": "inactive_file 1\ntotal_inactive_file 4096\n",
    }

    assert available_bytes(machine("5:cpuset:/\n4:memory:/box\n0::/\n", **files)) == GIB + 4096


def test_a_group_that_has_more_than_its_limit_leaves_nothing(machine):
    assert available_bytes(machine("0::/\n", **limited("", GIB, 2 * GIB, 0))) == 0


@pytest.mark.parametrize("said", ["", "MemAvailable: much kB\n", "MemTotal: 1 kB\n"])
def test_a_default_stands_for_memory_that_the_system_does_not_report(machine, said):
    root = machine("", **{"proc/meminfo": said})

    assert available_bytes(root) == DEFAULT_AVAILABLE_BYTES


@pytest.mark.parametrize("said", ["garbage\n0::/box\n", "\n0:/\n0::/box\n"])
def test_what_is_no_group_is_passed_over(machine, said):
    assert available_bytes(machine(said, **limited("box/", 2 * GIB, GIB, 0))) == GIB


def test_a_group_whose_name_is_no_text_is_none(machine):
    root = machine("")
    (root / "proc/self/cgroup").write_bytes(b"0::/b\xe9\n")

    assert available_bytes(root) == 8 * GIB


def test_a_system_without_such_files_is_no_error(tmp_path):
    assert available_bytes(tmp_path) == DEFAULT_AVAILABLE_BYTES
