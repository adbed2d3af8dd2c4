#!/bin/sh
# Makes what the services of docker-compose.yml share in secret, once: the cluster secret, certificates for services, clients,
# Prometheus and ZooKeeper, and what Spark's processes authenticate each other with. Each volume has what those who see it need, and no
# more; the authority's key is in one that no service sees. Where certificates are missing all of them are made anew, of the
# same authority. The token of the clients is made anew each time.
set -eu
umask 077
authority=/var/lib/flinkpy/authority
security=/etc/flinkpy/security
client=/etc/flinkpy/client
spark=/etc/flinkpy/spark
zookeeper=/etc/flinkpy/zookeeper
prometheus=/etc/flinkpy/prometheus
grafana=/etc/flinkpy/grafana

if [ ! -e "$security/service.pem" ] || [ ! -e "$client/client.pem" ] || [ ! -e "$zookeeper/zookeeper.pem" ] ||
    [ ! -e "$prometheus/client.pem" ]; then
    if [ -e "$authority/ca.key" ]; then
        flinkpy certs "$authority" --renew
    else
        flinkpy certs "$authority"
    fi
    # Their servers are other users, of the same group.
    chmod 0750 "$zookeeper" "$prometheus"
    install -m 0640 "$authority/ca.pem" "$authority/zookeeper.pem" "$zookeeper"
    # The certificate of a client, without a token: it admits to the metrics, and to no call.
    install -m 0640 "$authority/ca.pem" "$authority/client.pem" "$prometheus"
    cp "$authority/ca.pem" "$authority/client.pem" "$client"
    cp "$authority/ca.pem" "$authority/service.pem" "$security"
fi
if [ ! -e "$security/secret" ]; then
    python3 -c 'import secrets; print(secrets.token_hex(32))' > "$security/secret.unfinished"
    mv "$security/secret.unfinished" "$security/secret"
fi
# The password of the user `admin` of Grafana.
if [ ! -e "$grafana/password" ]; then
    chmod 0750 "$grafana"
    python3 -c 'import secrets; print(secrets.token_urlsafe(16))' > "$grafana/unfinished"
    chmod 0640 "$grafana/unfinished"
    mv "$grafana/unfinished" "$grafana/password"
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
