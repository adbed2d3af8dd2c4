# One image for all services; the command decides which: `docker run flinkpy dispatcher --host 0.0.0.0`.
FROM python:3.12-slim AS build
WORKDIR /build
COPY pyproject.toml README.md ./
COPY src ./src
RUN pip install --no-cache-dir --prefix /install .

FROM python:3.12-slim
COPY --from=build /install /usr/local
RUN useradd --create-home --uid 1000 flinkpy
USER flinkpy
WORKDIR /home/flinkpy
ENTRYPOINT ["flinkpy"]
CMD ["--help"]
