#!/bin/sh
# Programs of the system that some tests ask: logrotate, rsyslog, promtool and prometheus, systemd-analyze, kubectl, a browser, mkfs.ext4,
# zsh, fish, man, groff, mandoc.
# Where one is missing and may not be installed, its tests are skipped and say which package they want.
set -u

missing=""
PATH="$PATH:/usr/sbin" # where a user has no rsyslogd
want() { command -v "$1" >/dev/null 2>&1 || missing="$missing $2"; }
want promtool prometheus
want systemd-analyze systemd
want kubectl kubernetes-client
want chromium chromium
want dpkg-deb dpkg
want mkfs.ext4 e2fsprogs
want fsfreeze util-linux
want unshare util-linux
want npm npm
want logrotate logrotate
want rsyslogd rsyslog
want ip iproute2
want zsh zsh
want fish fish
want man man-db
want groff groff
want mandoc mandoc

# axe-core: the accessibility checks of pages. npm knows its registry; it is not part of the program.
axe() {
	here=$(cd "$(dirname "$0")/../.." && pwd)
	[ -e "$here/.npm/node_modules/axe-core/axe.min.js" ] || ! command -v npm >/dev/null 2>&1 ||
		npm install --silent --no-save --no-audit --no-fund --prefix "$here/.npm" axe-core@4 >/dev/null 2>&1 ||
		echo "axe-core could not be installed: what needs it is skipped" >&2
}
[ -z "$missing" ] && { axe; exit 0; }

echo "tests want these packages:$missing" >&2
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
	echo "type: sudo apt-get install$missing   (what needs them is skipped meanwhile)" >&2
	exit 0
fi
apt-get update -qq
for package in $missing; do # one by one: a distribution that lacks one has the others
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$package" >/dev/null ||
		echo "$package could not be installed: what needs it is skipped" >&2
done
axe
exit 0
