"""Calls of a device at the functions of convex/."""

from .device import Case, Device


class HostedByPolls(Device, Case):
    name = "hosted"
