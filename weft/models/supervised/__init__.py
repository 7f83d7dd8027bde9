"""Classical supervised models: perceptron, linear, polynomial, logistic and softmax regression, networks of layers.

Each that has a closed form (or a Newton iteration) offers it beside training by gradients.
"""

from ...runtime.lazy import later as _later

_NAMES: dict[str, tuple[str, ...]] = {
    "descent": ("descend",),
    "linear_models": (
        *("LinearRegression", "LogisticRegression", "SoftmaxRegression"),
        *("minimum_norm", "normal_equations", "qr_least_squares"),
    ),
    "mlp": ("MLP", "rectifier_network"),
    "perceptron": ("Perceptron", "PerceptronHistory", "margin", "mistake_bound"),
    "polynomial": ("BasisRegression", "PolynomialRegression", "chebyshev", "gaussians", "monomials", "random_relu"),
}

__all__ = [name for names in _NAMES.values() for name in names]

__getattr__, __dir__ = _later(__name__, (), _NAMES)
