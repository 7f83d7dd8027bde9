"""What can be computed: every operation has its one home in this package, and registers itself."""

from . import (  # noqa: F401
    compare,
    contract,
    convert,
    create,
    curves,
    elementwise,
    fft,
    index,
    join,
    linalg,
    operators,
    reduce,
    sample,
    scan,
    shape,
    sort,
    sparse,
    special,
    view,
    window,
)
