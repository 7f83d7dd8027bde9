"""Models given by an energy, p(x) = exp(−E(x)) / Z, and associative memories that go down one (N1 §4)."""

from ...runtime.lazy import later as _later

_NAMES: dict[str, tuple[str, ...]] = {
    "annealing": ("LogPartition", "ais", "base_rates", "dense_near_one", "reverse_ais"),
    "boltzmann": ("BoltzmannMachine",),
    "contrastive": (
        *("ContrastiveDivergence", "LikelihoodGradient", "ParallelTempering", "PersistentContrastiveDivergence"),
    ),
    "deep_belief": ("DeepBelief", "UpDown"),
    "deep_boltzmann": ("DeepBoltzmannMachine",),
    "deep_energy": ("DeepEnergy", "ReplayBuffer"),
    "dynamics": ("LangevinDynamics", "follow_score", "hamiltonian", "langevin"),
    "gaussian_mrf": ("GaussianMRF",),
    "hopfield": ("Hopfield", "ModernHopfield", "hebbian", "pseudo_inverse", "recall_overlap", "storkey"),
    "ising": ("IsingLattice", "onsager_energy", "onsager_magnetisation"),
    "pairwise": ("PairwiseMRF",),
    "ratings_rbm": ("RatingsDivergence", "RatingsRBM"),
    "rbm": ("RBM", "BernoulliRBM", "GaussianRBM", "SoftmaxRBM"),
}

__all__ = [name for names in _NAMES.values() for name in names]

__getattr__, __dir__ = _later(__name__, (), _NAMES)
