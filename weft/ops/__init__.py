"""What can be computed: every operation has its one home in this package, and registers itself.

`core` is what an operation is, and the register; the other rooms hold the operations by topic.
"""

from .create import convert, create, grid, interchange, ranges, sample, typed  # noqa: F401
from .index import index, mask, places, scatter, search, segments  # noqa: F401
from .layers import fused, recurrence, sliding  # noqa: F401
from .linalg import (  # noqa: F401
    contract,
    decompose,
    distance,
    einsum,
    linalg,
    lu,
    matrix,
    products,
    products_added,
    solve,
    sparse,
    spectral,
)
from .math import (  # noqa: F401
    bessel,
    compare,
    complex_numbers,
    curves,
    division,
    elementwise,
    operators,
    orthogonal,
    pairs,
    rounding,
    special,
)
from .reduce import extremes, norm, reduce, scan, softmax, sort, stats  # noqa: F401
from .shape import copies, join, pieces, reshape, shape, strided, view  # noqa: F401
from .signal import fft, spectrogram, tapers  # noqa: F401
