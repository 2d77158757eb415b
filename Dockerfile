# capl on a slim Debian: docker build -t capl . && docker run --rm -v "$PWD:/data" capl predict MODEL IMAGE
# Another release: --build-arg RELEASE=bookworm. Train as the user whose files they are: docker run --user "$(id -u)" …
# tests/e2e/machines/bare.sh runs the lines that begin with RUN in a chroot.
# SPDX-License-Identifier: Apache-2.0
ARG RELEASE=trixie

FROM debian:${RELEASE}-slim AS build
COPY . /src
RUN cd /src && CAPL_CUDA=OFF scripts/package --install --out=/packages deb

FROM debian:${RELEASE}-slim
COPY --from=build /packages /packages
RUN apt-get update && apt-get install -y --no-install-recommends /packages/libcapl0_*.deb /packages/capl_*.deb && rm -rf /packages /var/lib/apt/lists/*
WORKDIR /data
ENTRYPOINT ["capl"]
