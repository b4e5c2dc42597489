# The gauge and the web process in one image; examples/compose.yaml shows how they are kept apart.
#   docker build -t tidegauge .

FROM python:3.13-slim AS build
WORKDIR /build
COPY requirements.lock pyproject.toml README.md LICENSE ./
COPY src ./src
RUN python -m venv /opt/tidegauge \
 && /opt/tidegauge/bin/pip install --no-cache-dir --disable-pip-version-check ".[postgres,serve,encryption]"

FROM python:3.13-slim
RUN useradd --system --uid 10001 --create-home --home-dir /home/tidegauge tidegauge \
 && install -d -o tidegauge -g tidegauge -m 0700 /gauge \
 && install -d -o tidegauge -g tidegauge -m 0755 /public
COPY --from=build /opt/tidegauge /opt/tidegauge
ENV PATH=/opt/tidegauge/bin:$PATH PYTHONUNBUFFERED=1
USER tidegauge
WORKDIR /gauge
EXPOSE 8321
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
  CMD ["python", "-c", \
       "import urllib.request as u; u.urlopen('http://127.0.0.1:8321/api/v1/health', timeout=4)"]
ENTRYPOINT ["tidegauge"]
CMD ["serve", "/public/public.db", "--listen", "0.0.0.0:8321"]
