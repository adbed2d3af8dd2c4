#!/bin/sh
# Makes what the services of docker-compose.yml share in secret, once: the cluster secret, certificates for services and
# clients, and what Spark's processes authenticate each other with. The authority's key stays in a volume of its own.
set -eu
umask 077
security=/etc/flinkpy/security

if [ ! -e "$security/service.pem" ]; then
    [ -e /var/lib/flinkpy/authority/ca.key ] || flinkpy certs /var/lib/flinkpy/authority
    for name in ca client service; do
        cp "/var/lib/flinkpy/authority/$name.pem" "$security/$name.pem"
    done
fi
if [ ! -e "$security/secret" ]; then
    python3 -c 'import secrets; print(secrets.token_hex(32))' > "$security/secret.unfinished"
    mv "$security/secret.unfinished" "$security/secret"
fi
if [ ! -e "$security/spark/spark-defaults.conf" ]; then
    mkdir -p "$security/spark"
    cat > "$security/spark/unfinished" <<END
spark.authenticate           true
spark.authenticate.secret    $(python3 -c 'import secrets; print(secrets.token_hex(32))')
spark.network.crypto.enabled true
END
    mv "$security/spark/unfinished" "$security/spark/spark-defaults.conf"
fi
