"""Linear models, perceptrons and networks of full connections; closed forms beside training where there are any."""

from ...runtime.lazy import later as _later

_NAMES: dict[str, tuple[str, ...]] = {
    "clustering": ("KMeans", "kmeans", "kmeans_plus_plus", "lloyd_step", "minibatch_kmeans", "nearest"),
    "descent": ("descend",),
    "linear_models": (
        *("LinearRegression", "LogisticRegression", "SoftmaxRegression"),
        *("minimum_norm", "normal_equations", "qr_least_squares"),
    ),
    "mlp": ("MLP", "rectifier_network"),
    "output_codes": ("CodedPerceptron", "binary_code", "exhaustive_code", "least_distance", "one_hot_code"),
    "perceptron": ("Perceptron", "PerceptronHistory", "margin", "mistake_bound"),
    "polynomial": ("BasisRegression", "PolynomialRegression", "chebyshev", "gaussians", "monomials", "random_relu"),
}

__all__ = [name for names in _NAMES.values() for name in names]

__getattr__, __dir__ = _later(__name__, (), _NAMES)
