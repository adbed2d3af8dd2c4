# One image for all services; the command decides which: `docker run flinkpy dispatcher --help`.
#
#   docker build -t flinkpy .
#   docker build -t flinkpy-spark --build-arg EXTRAS=rocksdb,prometheus,spark .     with Java, for the Spark backend
#
# It runs as user 9999 and writes below /tmp and /var/lib/flinkpy only, so a read-only root file system will do.
# For a build that can be repeated bit by bit name the digest too: --build-arg BASE=python:3.12.12-slim-bookworm@sha256:...
ARG BASE=python:3.12.12-slim-bookworm

FROM ${BASE} AS build
ARG EXTRAS=rocksdb,prometheus
WORKDIR /build
COPY pyproject.toml README.md ./
COPY src ./src
# The dashboard, with Node.js from PyPI. Without the npm registry the image has none, and says so here.
COPY dashboard ./dashboard
COPY tools/build_dashboard.py ./tools/
RUN test -e src/flinkpy/rest/page/index.html || python tools/build_dashboard.py --optional
RUN pip install --no-cache-dir --no-compile --prefix /install ".[${EXTRAS}]"

FROM ${BASE}
ARG EXTRAS=rocksdb,prometheus
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="flinkpy" \
      org.opencontainers.image.description="Apache Flink's runtime, guarantees and names, in Python" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"

# tini reaps what services leave and passes signals on; Spark's scripts need ps.
RUN apt-get update \
 && apt-get install -y --no-install-recommends tini \
      $(case ",${EXTRAS}," in *,spark,*|*,all,*) echo openjdk-17-jre-headless procps ;; esac) \
 && rm -rf /var/lib/apt/lists/* \
 && groupadd --gid 9999 flinkpy \
 && useradd --uid 9999 --gid 9999 --no-create-home --home-dir /tmp --shell /usr/sbin/nologin flinkpy \
 && install -d -o 9999 -g 9999 -m 0700 \
      /etc/flinkpy /etc/flinkpy/security /etc/flinkpy/client /etc/flinkpy/spark /etc/flinkpy/zookeeper \
      /etc/flinkpy/prometheus /etc/flinkpy/grafana /var/lib/flinkpy/authority /var/lib/flinkpy/ha \
      /var/lib/flinkpy/checkpoints /var/lib/flinkpy/work

# Compiled here, because nothing can be written beside the sources later.
COPY --from=build /install /usr/local
RUN python -m compileall -q -j 0 /usr/local/lib/python3.12/site-packages || true

ENV PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    HOME=/tmp

USER 9999:9999
WORKDIR /var/lib/flinkpy/work
STOPSIGNAL SIGTERM
# Which service to ask is in FLINKPY_HEALTH_SERVICE.
HEALTHCHECK --interval=10s --timeout=10s --start-period=30s --retries=3 CMD ["flinkpy", "health"]
ENTRYPOINT ["tini", "--", "flinkpy"]
CMD ["--help"]
