"""What can be computed: every operation has its one home in this package, and registers itself."""

from . import contract, convert, create, elementwise, join, operators, reduce, view  # noqa: F401
