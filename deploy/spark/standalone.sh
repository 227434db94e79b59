#!/bin/sh
# A Spark cluster of its own, from the pip package alone: `standalone.sh master` here, `standalone.sh worker` on each
# machine that computes. Both stay in the foreground, as systemd wants it. On loopback unless told otherwise:
#
#   SPARK_MASTER_HOST      address of the master                     127.0.0.1
#   SPARK_MASTER_PORT      its port                                  7077
#   SPARK_WORKER_HOST      address of this worker                    127.0.0.1
#   SPARK_WORKER_DIR       where executors work and log              /var/lib/fshipper/spark
#   SPARK_WORKER_CORES, SPARK_WORKER_MEMORY                          all, all but 1 GiB
#   SPARK_WEBUI_PORT       of the page of either; 0: any free one    8080, 8081
#
# Beyond loopback set spark.authenticate and a secret (spark-defaults.conf) on every machine: who reaches the port may
# run programs.
set -eu

home="${SPARK_HOME:-$(python3 -c 'import os, pyspark; print(os.path.dirname(pyspark.__file__))')}"
master_host="${SPARK_MASTER_HOST:-127.0.0.1}"
master_port="${SPARK_MASTER_PORT:-7077}"
spark="$home/bin/spark-class"
SPARK_HOME="$home"
export SPARK_HOME

case "${1:-}" in
master)
	SPARK_LOCAL_IP="${SPARK_LOCAL_IP:-$master_host}"
	export SPARK_LOCAL_IP
	exec "$spark" org.apache.spark.deploy.master.Master \
		--host "$master_host" --port "$master_port" --webui-port "${SPARK_WEBUI_PORT:-8080}"
	;;
worker)
	worker_host="${SPARK_WORKER_HOST:-127.0.0.1}"
	SPARK_LOCAL_IP="${SPARK_LOCAL_IP:-$worker_host}"
	export SPARK_LOCAL_IP
	exec "$spark" org.apache.spark.deploy.worker.Worker \
		--host "$worker_host" --webui-port "${SPARK_WEBUI_PORT:-8081}" \
		--work-dir "${SPARK_WORKER_DIR:-/var/lib/fshipper/spark}" "spark://$master_host:$master_port"
	;;
*)
	echo "usage: standalone.sh master|worker" >&2
	exit 64
	;;
esac
