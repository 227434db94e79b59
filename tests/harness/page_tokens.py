"""The tokens of the shared style sheet, and what of a page's style is made of anything else."""

import json
import re
from pathlib import Path

from harness.browser import Browser
from shipper.page_sheets import with_sheets

ROOT = Path(__file__).resolve().parents[2]
STYLES = (
    "shipper/pages/parts.css", "spark_analytics/templates/day.css", "consumer/fleet/page.html",
    *(f"consumer/web/{name}.html" for name in ("message", "parts", "search", "sign_in")),
)  # fmt: skip
"""The styles that only use tokens."""
SPACES = re.compile(r"^(?:margin|padding|gap|row-gap|column-gap)(?:-\w+)?$")
SPACE = re.compile(r"^(?:var\(--space-\d\)|0|1px|auto|10vh|calc\(.*\))$")
COLOUR = re.compile(
    r"#[0-9a-f]{3,8}\b|\b(?:rgb|hsl)a?\(|\b(?:red|green|blue|black|white|gr[ae]y|orange|yellow)\b", re.IGNORECASE
)


def style_of(path: Path) -> str:
    """The style of a page or a sheet, without the shared ones, rules for paper and comments."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".html":
        text = text[text.index("<style>") + 7 : text.index("</style>")]
    text = text.partition("@page")[0]
    return re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)


def strangers(style: str) -> list[str]:
    """The declarations whose colour, size of type, font, radius or space is no token."""
    found = []
    for name, value in re.findall(r"([\w-]+)\s*:\s*([^;{}]+)[;}]", style):
        words = value.replace("!important", "").split()
        is_strange = (
            COLOUR.search(value) is not None
            or (name == "font-size" and not re.fullmatch(r"var\(--text-\w+\)", value))
            or (name == "font" and not re.fullmatch(r"inherit|var\(--text-\w+\)/[\d.]+ var\(--(?:sans|mono)\)", value))
            or (name == "font-family" and not re.fullmatch(r"inherit|var\(--(?:sans|mono)\)", value))
            or (SPACES.match(name) is not None and not all(SPACE.match(word) for word in words))
            or (
                name == "border-radius"
                and not re.fullmatch(r"(?:var\(--(?:radius(?:-small)?|space-\d)\)|50%|0)", value)
            )
        )
        if is_strange:
            found.append(f"{name}: {value}")
    return found


DRAWN = """(() => {
  const root = getComputedStyle(document.documentElement);
  const tokens = new Set(), sizes = new Set(), fonts = new Set();
  const probe = document.createElement("i");
  document.body.append(probe);
  for (const name of %s) {
    const value = root.getPropertyValue(name).trim();
    if (name.startsWith("--text-") && value.endsWith("px")) sizes.add(value);
    if (name === "--sans" || name === "--mono") {
      probe.style.fontFamily = value;
      fonts.add(getComputedStyle(probe).fontFamily);
    }
    probe.style.color = "";
    probe.style.color = value;
    tokens.add(getComputedStyle(probe).color);
  }
  probe.remove();
  const clear = colour => colour === "none" || colour.endsWith(", 0)"), found = new Set();
  for (const each of document.querySelectorAll("body, body *")) {
    if (each.closest("script, noscript, template") || !each.getClientRects().length) continue;
    const style = getComputedStyle(each), where = each.localName + "." + (each.getAttribute("class") || "");
    const colours = [style.color, style.backgroundColor];
    for (const side of ["Top", "Right", "Bottom", "Left"])
      if (parseFloat(style[`border${side}Width`])) colours.push(style[`border${side}Color`]);
    const drawing = each.closest("svg");
    if (drawing && !["svg", "g", "a", "title"].includes(each.localName)) colours.push(style.fill, style.stroke);
    for (const colour of colours) if (!tokens.has(colour) && !clear(colour)) found.add(`${where} ${colour}`);
    if (drawing) continue;
    if (!sizes.has(style.fontSize)) found.add(`${where} ${style.fontSize}`);
    if (!fonts.has(style.fontFamily)) found.add(`${where} ${style.fontFamily}`);
  }
  return JSON.stringify([...found]);
})()"""
"""Colours, sizes and fonts that are drawn and are no token."""


def drawn_strangers(browser: Browser) -> list[str]:
    """What of the open page is drawn in a colour, size or font that is no token."""
    names = re.findall(r"(--[\w-]+):", with_sheets("/*base*/"))
    return json.loads(browser.says(DRAWN % json.dumps(names)))
