#!/bin/sh
# Spark needs Java 17 or newer. Say so where there is none; install Debian's where that is allowed.
set -u

java_major() {
	"$1" -version 2>&1 | sed -nE 's/.*version "([0-9]+).*/\1/p' | head -n 1
}

for candidate in "${JAVA_HOME:-/nonexistent}/bin/java" "$(command -v java 2>/dev/null)"; do
	if [ -x "$candidate" ] && [ "$(java_major "$candidate")" -ge 17 ] 2>/dev/null; then
		exit 0
	fi
done

echo "no Java 17 here; Spark (fshipper report) needs it" >&2
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
	echo "installing openjdk-17-jre-headless" >&2
	shown=/dev/null
	[ -t 2 ] && shown=/dev/stderr
	if apt-get update -q >"$shown" && DEBIAN_FRONTEND=noninteractive apt-get install -y -q openjdk-17-jre-headless >"$shown"; then
		exit 0
	fi
fi
echo "type: sudo apt-get install openjdk-17-jre-headless   (all but the report works without it)" >&2
