"""Writes manual pages and completion scripts below a directory such as /usr/local/share, for installers."""

import sys
from pathlib import Path

from shipper.manual import man_pages
from shipper.manual.catalogue import pages
from shipper.manual.completion import SCRIPTS

PLACES = {
    "bash": "bash-completion/completions/fshipper",
    "zsh": "zsh/site-functions/_fshipper",
    "fish": "fish/vendor_completions.d/fshipper.fish",
}
"""Where each shell finds the script, below `share`."""


def write(share: Path) -> None:
    """Write every page and every script; older ones of ours are replaced."""
    known = pages()
    texts = {f"man/man1/{name}": text for name, text in man_pages.commands(known).items()}
    texts["man/man5/fshipper.toml.5"] = man_pages.settings()
    texts |= {PLACES[shell]: script(known) for shell, script in SCRIPTS.items()}
    for name, text in texts.items():
        path = share / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
