"""Rules, dashboard and document speak of metrics that exist, by labels that these have."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import REGISTRY

from shipper import events

ROOT = Path(__file__).resolve().parents[2]
RULES = (ROOT / "deploy" / "prometheus" / "fshipper.rules.yml").read_text()
DASHBOARD = json.loads((ROOT / "deploy" / "grafana" / "dashboard.json").read_text())
METRIC = re.compile(r"\bfshipper_\w+")


def known() -> set[str]:
    """Every name that a scrape may hold."""
    assert events
    names = set()
    for family in REGISTRY.collect():
        endings = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}.get(family.type, ("",))
        names |= {family.name + ending for ending in endings}
    return {name for name in names if name.startswith("fshipper_")}


def panels() -> Iterator[tuple[str, str]]:
    """Title and query of every panel."""
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]


def test_the_rules_name_what_exists() -> None:
    named = set(METRIC.findall(RULES))
    assert len(named) > 10
    assert named <= known()


@pytest.mark.parametrize(("title", "expression"), list(panels()))
def test_a_panel_names_what_exists(title: str, expression: str) -> None:
    named = set(METRIC.findall(expression))
    assert named, title
    assert named <= known()


def labels() -> dict[str, tuple[str, ...]]:
    """The labels of each metric by every name that a scrape may hold."""
    found: dict[str, tuple[str, ...]] = {}
    for collector, names in REGISTRY._collector_to_names.items():
        found |= dict.fromkeys(names, tuple(getattr(collector, "_labelnames", ())))
    return found


def variables() -> dict[str, str]:
    return {one["name"]: one.get("definition", one["query"]) for one in DASHBOARD["templating"]["list"]}


def test_the_variables_are_data_source_partition_and_host_of_metrics_that_exist() -> None:
    assert list(variables()) == ["datasource", "partition", "host"]
    named = {name: METRIC.findall(query) for name, query in variables().items()}
    assert set(named["partition"] + named["host"]) <= known()
    assert "partition" in labels()[named["partition"][0]]
    assert all(one["multi"] and one["includeAll"] for one in DASHBOARD["templating"]["list"][1:])


@pytest.mark.parametrize(("title", "expression"), list(panels()))
def test_a_panel_follows_the_variables(title: str, expression: str) -> None:
    for name, selector in re.findall(r"\b(fshipper_\w+)(\{[^}]*\})?", expression):
        assert ('partition=~"$partition"' in selector) == ("partition" in labels()[name]), title
    assert set(re.findall(r"\$(\w+)", expression)) <= {*variables(), "__rate_interval"}
    sources = {target["datasource"]["uid"] for panel in DASHBOARD["panels"] for target in panel.get("targets", ())}
    assert sources == {"${datasource}"}


def test_no_panel_overlaps_another() -> None:
    cells: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        taken = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not taken & cells, panel["title"]
        assert place["x"] + place["w"] <= 24
        cells |= taken
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


def test_every_alert_has_a_cause_that_a_test_produces() -> None:
    tried = (ROOT / "tests" / "deploy" / "test_alerts_fire.py").read_text()
    alerts = re.findall(r"- alert: (\w+)", RULES)
    assert [alert for alert in alerts if f'"{alert}"' not in tried] == []
