#!/bin/sh
# Makes what the services of docker-compose.yml share in secret, once: the cluster secret, certificates for services, clients
# and ZooKeeper, and what Spark's processes authenticate each other with. Each volume has what those who see it need, and no
# more; the authority's key is in one that no service sees. Where certificates are missing all of them are made anew, of the
# same authority. The token of the clients is made anew each time.
set -eu
umask 077
authority=/var/lib/flinkpy/authority
security=/etc/flinkpy/security
client=/etc/flinkpy/client
spark=/etc/flinkpy/spark
zookeeper=/etc/flinkpy/zookeeper

if [ ! -e "$security/service.pem" ] || [ ! -e "$client/client.pem" ] || [ ! -e "$zookeeper/zookeeper.pem" ]; then
    if [ -e "$authority/ca.key" ]; then
        flinkpy certs "$authority" --renew
    else
        flinkpy certs "$authority"
    fi
    # Its server is another user, of the same group.
    chmod 0750 "$zookeeper"
    install -m 0640 "$authority/ca.pem" "$authority/zookeeper.pem" "$zookeeper"
    cp "$authority/ca.pem" "$authority/client.pem" "$client"
    cp "$authority/ca.pem" "$authority/service.pem" "$security"
fi
if [ ! -e "$security/secret" ]; then
    python3 -c 'import secrets; print(secrets.token_hex(32))' > "$security/secret.unfinished"
    mv "$security/secret.unfinished" "$security/secret"
fi
# A client may submit jobs, and no more.
flinkpy token --role submit > "$client/token.unfinished"
mv "$client/token.unfinished" "$client/token"
if [ ! -e "$spark/spark-defaults.conf" ]; then
    cat > "$spark/unfinished" <<END
spark.authenticate           true
spark.authenticate.secret    $(python3 -c 'import secrets; print(secrets.token_hex(32))')
spark.network.crypto.enabled true
spark.master.rest.enabled    false
END
    mv "$spark/unfinished" "$spark/spark-defaults.conf"
fi
