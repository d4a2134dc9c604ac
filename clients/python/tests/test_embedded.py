"""Calls of a device at the embedded backend, by polls and by subscriptions."""

import unittest

from punie_client.backend import ConvexClient

from .device import Case, Device


@unittest.skipIf(ConvexClient is None, "the package convex is not installed")
class EmbeddedBySubscriptions(Device, Case):
    name, subscribe = "embedded", True


class EmbeddedByPolls(Device, Case):
    name = "embedded"
