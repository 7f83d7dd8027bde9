"""Neural networks: functions first, then the modules made of them."""

from . import functional  # noqa: F401
