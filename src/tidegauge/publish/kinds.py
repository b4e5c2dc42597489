"""The kinds of publisher that come with Tidegauge, one line each."""

from __future__ import annotations

from tidegauge.model.kinds import PUBLISHERS

PUBLISHERS.register("public", "tidegauge.publish.public.kind")
PUBLISHERS.register("site", "tidegauge.publish.site")
PUBLISHERS.register("folder", "tidegauge.publish.folder")
PUBLISHERS.register("postgres", "tidegauge.publish.postgres")
PUBLISHERS.register("webhook", "tidegauge.publish.webhook")
PUBLISHERS.register("command", "tidegauge.publish.command")
