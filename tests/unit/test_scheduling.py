"""How the programs share the cores: they lower their priority, and keep what an operator chose."""

import os
import subprocess
import sys

import pytest

GIVE_WAY = "import os; from shipper.lifecycle import give_way; {before}; give_way(); print(os.sched_getscheduler(0))"


@pytest.mark.parametrize(
    ("before", "policy"),
    [("pass", os.SCHED_BATCH), ("os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))", os.SCHED_IDLE)],
    ids=["nobody chose", "somebody chose"],
)
def test_a_program_lowers_its_scheduling_unless_another_policy_was_chosen(before: str, policy: int):
    said = subprocess.check_output([sys.executable, "-c", GIVE_WAY.format(before=before)], text=True)
    assert int(said) == policy
