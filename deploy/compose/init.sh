#!/bin/sh
# Makes what the services of docker-compose.yml share in secret, once: the cluster secret, an authority with a
# certificate for the services, and what Spark's processes authenticate each other with.
set -eu
umask 077
cd /etc/flinkpy/security

if [ ! -e ca.pem ]; then
    flinkpy certs --directory /etc/flinkpy/security
fi
if [ ! -e spark/spark-defaults.conf ]; then
    mkdir -p spark
    spark_secret=$(python3 -c 'import secrets; print(secrets.token_hex(32))')
    cat > spark/unfinished <<END
spark.authenticate           true
spark.authenticate.secret    $spark_secret
spark.network.crypto.enabled true
END
    mv spark/unfinished spark/spark-defaults.conf
fi
