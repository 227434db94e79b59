"""Each style is made of the tokens of the shared style sheet: no colour, size, font or space of its own."""

import re

import pytest
from harness.page_tokens import ROOT, STYLES, strangers, style_of

from shipper.page_sheets import with_sheets


@pytest.mark.parametrize("path", STYLES)
def test_a_style_has_no_colour_size_font_or_space_outside_of_the_tokens(path: str) -> None:
    assert strangers(style_of(ROOT / path)) == []


def test_a_stranger_is_found() -> None:
    style = "a { color: #123456; } b { font-size: 11px; padding: 3px var(--space-1); } i { font: 12px/1 serif; }"
    assert strangers(style) == [
        "color: #123456",
        "font-size: 11px",
        "padding: 3px var(--space-1)",
        "font: 12px/1 serif",
    ]


def test_light_and_dark_have_the_same_colours() -> None:
    light, dark = re.findall(r":root \{(.*?)\}", with_sheets("/*base*/"), re.DOTALL)
    colours = [set(re.findall(r"(--[\w-]+): #", part)) for part in (light, dark)]
    assert colours[0] == colours[1]


@pytest.mark.parametrize("path", STYLES)
def test_every_token_that_a_style_names_is_there(path: str) -> None:
    known = set(re.findall(r"(--[\w-]+):", with_sheets("/*base*/")))
    assert set(re.findall(r"var\((--[\w-]+)", style_of(ROOT / path))) <= known
