"""Scores and diffusions: noise is added until nothing is left, and a network learns the way back (N1 §11, §13; N3)."""

from ...runtime.lazy import later as _later

_NAMES: dict[str, tuple[str, ...]] = {
    "couplings": ("OTPlanSampler", "pair_by_transport"),
    "ddpm": ("Conditioned", "DDPM"),
    "dissipation": ("fisher_divergence", "kl_rate"),
    "dit": ("DiT",),
    "edm": ("EDM",),
    "flow_matching": (
        *("ConditionalFlowMatcher", "ExactOptimalTransportConditionalFlowMatcher", "FlowMatching"),
        *("TargetConditionalFlowMatcher", "VariancePreservingConditionalFlowMatcher"),
    ),
    "flows": ("flow_to", "log_prob_along"),
    "inpainting": ("Inpainter",),
    "known": ("NoisedMixture", "PerfectNetwork"),
    "ncsn": ("NCSN",),
    "networks": ("PointNetwork", "TimeEmbedding", "timestep_embedding"),
    "pixels": ("PixelPosterior", "PixelVelocity"),
    "predictions": ("PREDICTION_TYPES", "Parts", "parts_of", "target_of"),
    "sampling": ("classifier_free_guidance", "classifier_guidance", "denoise", "reconstruction_guidance"),
    "schedulers": ("DDIMScheduler", "DDPMScheduler", "Scheduler", "SchedulerOutput"),
    "schedules": ("NoiseSchedule", "cosine_betas", "karras_sigmas", "linear_betas", "min_snr_weights"),
    "score_matching": (
        *("denoising_score_matching", "divergence", "explicit_score_matching", "hutchinson"),
        *("sliced_score_matching",),
    ),
    "score_sde": ("ScoreSDE",),
    "sde": ("SDE", "SubVPSDE", "VESDE", "VPSDE", "euler_maruyama", "predictor_corrector"),
    "solvers": (
        *("DPMSolverMultistepScheduler", "EulerAncestralDiscreteScheduler", "EulerDiscreteScheduler"),
        "FlowMatchEulerDiscreteScheduler",
        "HeunDiscreteScheduler",
    ),
    "terms": ("Terms", "discretised_normal_log_prob", "normal_kl", "posterior_mean", "prior_term"),
    "unet": ("UNet",),
}

__all__ = [name for names in _NAMES.values() for name in names]

__getattr__, __dir__ = _later(__name__, (), _NAMES)
