#!/bin/sh
# Installs fshipper with a NATS server from this directory. The services of `fshipper install` use the same programs.
#
#   deploy/setup/install.sh        as root: /opt/fshipper and /usr/local/bin/fshipper; else below ~/.local
#
#   PYTHON    the interpreter (python3), 3.11 or newer
#   EXTRAS    spark,java: also what `fshipper report` needs, about 850 MB; without java a Java of the system is used
#   PREFIX    directory of the program     BINDIR directory of the link to it
#   SHARE     directory of manual pages and completion (/usr/local/share, ~/.local/share)
set -eu

here=$(CDPATH='' cd "$(dirname "$0")/../.." && pwd)
python=${PYTHON:-python3}
if [ "$(id -u)" = 0 ]; then
	prefix=${PREFIX:-/opt/fshipper} bin=${BINDIR:-/usr/local/bin} share=${SHARE:-/usr/local/share}
else
	prefix=${PREFIX:-$HOME/.local/lib/fshipper} bin=${BINDIR:-$HOME/.local/bin}
	share=${SHARE:-${XDG_DATA_HOME:-$HOME/.local/share}}
fi
quiet=--quiet
[ -t 1 ] && quiet=

fail() {
	echo "error: $1" >&2
	echo "hint: $2" >&2
	exit 78
}

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
	fail "fshipper needs Python 3.11 or newer, and $python is older or missing" "PYTHON=python3.12 $0"
"$python" -c 'import ensurepip, venv' ||
	fail "$python has no venv" "sudo apt-get install python3-venv"
[ ! -e "$prefix" ] || [ -e "$prefix/.installed-from-source" ] ||
	fail "$prefix exists, and this script did not make it" "remove the Debian package: sudo apt-get remove fshipper; or set PREFIX"
[ ! -e "$bin/fshipper" ] || [ "$(readlink "$bin/fshipper")" = "$prefix/bin/fshipper" ] ||
	fail "$bin/fshipper belongs to another installation" "remove it, or set BINDIR"

work=$(mktemp -d "${TMPDIR:-/tmp}/fshipper-install.XXXXXX")
trap 'rm -rf "$work"' EXIT

echo "1 of 3: a Python environment in $prefix"
mkdir -p "$prefix" "$bin"
touch "$prefix/.installed-from-source"
"$python" -m venv "$prefix"

echo "2 of 3: packages and the NATS server"
{
	"$python" "$here/deploy/packaging/locked.py" embedded ${EXTRAS:+"$EXTRAS"}
	"$python" "$here/deploy/packaging/locked.py" --only setuptools
} >"$work/needed.lock"
pip="$prefix/bin/python -m pip install $quiet --disable-pip-version-check"
$pip --require-hashes -r "$work/needed.lock"

echo "3 of 3: fshipper, manual pages, completion of bash, zsh and fish"
mkdir "$work/src"
(cd "$here" && tar -c --exclude=__pycache__ pyproject.toml README.md LICENSE \
	shipper producer consumer partitioner spark_analytics deploy) | tar -x -C "$work/src"
$pip --no-deps --no-build-isolation --force-reinstall "$work/src"
ln -sfn "$prefix/bin/fshipper" "$bin/fshipper"
"$prefix/bin/python" -m shipper.manual "$share"

case ":$PATH:" in
*":$bin:"*) echo "installed: fshipper up" ;;
*) echo "installed: $bin/fshipper up   (or put $bin on PATH)" ;;
esac
