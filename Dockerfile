# syntax=docker/dockerfile:1
# The worker and its command, nothing else. Build: docker build -t wakegate .

FROM rust:1-slim-bookworm AS build
WORKDIR /build
COPY . .
# The caches keep dependencies between builds; what is built is copied out of them.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/build/target \
    cargo build --release --locked --bin wakegate \
    && cp target/release/wakegate /usr/local/bin/wakegate

FROM debian:bookworm-slim
# TLS to NATS trusts the system's certificates; PostgreSQL's are named by sslrootcert.
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --home-dir /var/lib/wakegate --create-home wakegate
COPY --from=build /usr/local/bin/wakegate /usr/local/bin/wakegate
COPY LICENSE-MIT LICENSE-APACHE /usr/share/doc/wakegate/

USER 10001
# A SQLite database lands here by default: mount a volume if it is used.
WORKDIR /var/lib/wakegate
ENV WAKEGATE_HTTP_ADDR=0.0.0.0:9464
EXPOSE 9464

# Alive, not ready: a worker that waits for its servers must not be restarted for it. The image has
# no HTTP client, so bash asks. Only `wakegate run` serves HTTP: one-shot commands end before.
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s --retries=3 \
    CMD ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/9464 && printf 'GET /livez HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n' >&3 && read -r _ status _ <&3 && [[ $status == 200 ]]"]

ENTRYPOINT ["wakegate"]
CMD ["run"]
