#!/bin/bash
# What an executor's container runs: Spark starts it with the argument `executor`, and tells the rest by the environment.
set -euo pipefail

if [ "${1:-}" != executor ]; then
	exec "$@"
fi

options=()
for name in $(compgen -v SPARK_JAVA_OPT_ | sort -V); do
	options+=("${!name}")
done

exec java "${options[@]}" \
	"-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
	-cp "${SPARK_CONF_DIR:-/opt/spark/conf}:${SPARK_EXTRA_CLASSPATH:-}:/opt/spark/jars/*" \
	org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
	--driver-url "$SPARK_DRIVER_URL" \
	--executor-id "$SPARK_EXECUTOR_ID" \
	--cores "$SPARK_EXECUTOR_CORES" \
	--app-id "$SPARK_APPLICATION_ID" \
	--hostname "$SPARK_EXECUTOR_POD_IP" \
	--resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
	--podName "$SPARK_EXECUTOR_POD_NAME"
