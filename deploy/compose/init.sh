#!/bin/sh
# Makes what the services of docker-compose.yml share in secret, once: the cluster secret, certificates for services, clients
# and ZooKeeper, and what Spark's processes authenticate each other with. The authority's key stays in a volume of its own.
# Where certificates are missing all of them are made anew, of the same authority.
set -eu
umask 077
authority=/var/lib/flinkpy/authority
security=/etc/flinkpy/security
zookeeper=/etc/flinkpy/zookeeper

if [ ! -e "$security/service.pem" ] || [ ! -e "$zookeeper/zookeeper.pem" ]; then
    if [ -e "$authority/ca.key" ]; then
        flinkpy certs "$authority" --renew
    else
        flinkpy certs "$authority"
    fi
    # Its server is another user, of the same group.
    chmod 0750 "$zookeeper"
    install -m 0640 "$authority/ca.pem" "$authority/zookeeper.pem" "$zookeeper"
    for name in ca client service; do
        cp "$authority/$name.pem" "$security/$name.pem"
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
